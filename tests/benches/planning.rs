//! How long a quiet round takes: everything is converged, nothing is to be done.
//!
//! `cargo bench -p ccm-tests --bench planning` prints the time for 1,000 and for 10,000 Services on
//! 500 nodes (each must plan to nothing), their ratio, and the peak memory of the whole process; it
//! fails if 1,000 take more than a second or 256 MiB. With `-- --bounds` that is all, nothing is
//! sampled: `.ci/run` does that through `cargo test`, which needs no release build.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ccm_tests::converged::{Cluster, NODES};
use criterion::{BenchmarkId, Criterion};

/// Peak memory of this process in MiB, where the system tells (`VmHWM`).
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes / 1024)
}

fn once(cluster: &Cluster) -> Duration {
    let start = Instant::now();
    black_box(cluster.plan());
    start.elapsed()
}

fn main() {
    let small = Cluster::converged(1_000);
    let first = once(&small);
    let memory = peak_memory();
    println!("1,000 Services, {NODES} nodes: {first:?} for one round, peak memory {memory:?} MiB");
    assert!(first < Duration::from_secs(1), "1,000 Services take at most 1 s");
    assert!(memory.is_none_or(|mebibytes| mebibytes <= 256), "at most 256 MiB");

    let large = Cluster::converged(10_000);
    let ratio = once(&large).as_secs_f64() / once(&small).as_secs_f64();
    println!("10,000 Services take {ratio:.1} times as long as 1,000");
    if std::env::args().any(|argument| argument == "--bounds") {
        return;
    }

    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("converged");
    for (services, cluster) in [(1_000, &small), (10_000, &large)] {
        let id = BenchmarkId::new("services", services);
        group.bench_with_input(id, cluster, |bench, cluster| bench.iter(|| cluster.plan()));
    }
    group.finish();
    criterion.final_summary();
}
