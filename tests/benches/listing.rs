//! How long a page of a list takes in a world of 10,000 load balancer rules, as many firewall rules
//! and ACL items, and 5,000 virtual machines.
//!
//! `cargo bench -p ccm-tests --bench listing` prints the best and the usual time of a full page of
//! each list, and fails if the best one takes 5 ms or more. Nothing is judged without optimisation,
//! which `cargo test --bench listing` leaves out: `tests/tests/scale.rs` holds in any profile and on
//! any machine that a large world costs little more than a small one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ccm_tests::large::{LISTS, List, MACHINES, PAGE, RULES, world};

/// Requests of which the fastest counts: others use the machine too.
const RUNS: usize = 41;
/// A page takes less.
const BOUND: Duration = Duration::from_millis(5);

fn main() {
    let mut simulator = world(RULES, MACHINES);
    let mut slow = Vec::new();
    for list in &LISTS {
        let List { command, last, .. } = list;
        for page in [1, *last] {
            let mut times: Vec<Duration> = (0..RUNS)
                .map(|_| {
                    let start = Instant::now();
                    black_box(list.page(&mut simulator, page));
                    start.elapsed()
                })
                .collect();
            times.sort();
            let (best, usual) = (times[0], times[RUNS / 2]);
            println!("{command} page {page}: at best {best:?}, usually {usual:?}, {PAGE} rows");
            if best >= BOUND {
                slow.push(format!("{command} page {page}: {best:?}"));
            }
        }
    }
    let optimised = !cfg!(debug_assertions);
    assert!(!optimised || slow.is_empty(), "a page takes less than {BOUND:?}: {slow:?}");
}
