//! A page of a list costs what its rows cost, however large the world. Run with `--nocapture` to
//! see the times.
#![cfg(target_os = "linux")]

use std::time::Duration;

use ccm_simulator::Simulator;
use ccm_tests::large::{LISTS, List, MACHINES, PAGE, RULES, world};
use serde_json::Value;

/// Requests that are measured together: the system counts in ticks of some milliseconds.
const RUNS: u32 = 15;
/// A tick, shared by the requests that are measured together.
const TICK: Duration = Duration::from_millis(1);
/// How much more a page of the large world may cost. It has 20 times the rules: something visits every
/// row once, which shows beside rows that are written quickly. What did so for every row shown would
/// cost hundreds of times as much.
const GROWTH: u32 = 8;

/// Time that this thread has had on a processor: others use the machine too.
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The mean time of a request for a full page.
fn measure(simulator: &mut Simulator, list: &List, page: usize) -> Duration {
    let start = on_cpu();
    for _ in 0..RUNS {
        let body: Value = serde_json::from_str(&list.page(simulator, page)).unwrap();
        let inner = body.as_object().and_then(|root| root.values().next()).unwrap();
        let rows = inner.as_object().unwrap().values().find_map(Value::as_array);
        assert_eq!(rows.map(Vec::len), Some(PAGE), "{list:?} page {page}");
    }
    on_cpu().saturating_sub(start) / RUNS
}

#[test]
fn a_page_of_a_large_world_costs_little_more_than_one_of_a_small_world() {
    let mut small = world(PAGE, PAGE);
    let mut large = world(RULES, MACHINES);
    for list in &LISTS {
        let List { command, last, .. } = list;
        let usual = measure(&mut small, list, 1);
        for page in [1, *last] {
            let time = measure(&mut large, list, page);
            eprintln!("{command} page {page}: {time:?}, of a small world {usual:?}");
            assert!(
                time <= usual * GROWTH + TICK,
                "{command} page {page}: {time:?} against {usual:?}"
            );
        }
    }
}
