//! How long a page of a list takes in a world of 10,000 load balancer rules, as many firewall rules,
//! and 5,000 virtual machines.
//!
//! `cargo bench -p ccm-tests --bench listing` prints the usual time of a full page of each list and
//! its share of the 5 ms that it should take at most. It judges nothing: that depends on the machine.
//! `tests/tests/scale.rs` holds in any profile and on any machine that a large world costs little
//! more than a small one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ccm_tests::large::{self, LISTS, MACHINES, PAGE, RULES};

/// Requests of which the middle one counts.
const RUNS: usize = 41;
/// A page should take less.
const BOUND: Duration = Duration::from_millis(5);

fn main() {
    let mut simulator = large::world(RULES, MACHINES);
    for (command, last) in LISTS {
        for page in [1, last] {
            let mut times: Vec<Duration> = (0..RUNS)
                .map(|_| {
                    let start = Instant::now();
                    black_box(large::page(&mut simulator, command, page));
                    start.elapsed()
                })
                .collect();
            times.sort();
            let usual = times[RUNS / 2];
            let share = usual.as_secs_f64() / BOUND.as_secs_f64();
            println!("{command} page {page}: {usual:?} for {PAGE} rows, {share:.2} of {BOUND:?}");
        }
    }
}
