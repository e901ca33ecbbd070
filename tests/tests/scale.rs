//! A page of a list costs what its rows cost, however large the world. Run with `--nocapture` to
//! see the times.
#![cfg(target_os = "linux")]

use std::time::Duration;

use ccm_simulator::{Simulator, World};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Rows of a page, and of each kind in the small world.
const PAGE: usize = 500;
/// Load-balancer rules and firewall rules of the large world.
const RULES: usize = 10_000;
/// Virtual machines of the large world.
const MACHINES: usize = 5_000;
/// Requests that are measured together: the system counts in ticks of some milliseconds.
const RUNS: u32 = 15;
/// A tick, shared by the requests that are measured together.
const TICK: Duration = Duration::from_millis(1);
/// How much more a page of the large world may cost: something visits every row once, nothing does
/// so for every row shown.
const GROWTH: u32 = 3;

/// Rules with tags, members and firewall rules, evenly spread over the addresses.
fn world(rules: usize, machines: usize) -> Simulator {
    let name_of = |at: usize| format!("node-{at}");
    let host = |at: usize| format!("10.{}.{}.{}", 1 + at / 62_500, at / 250 % 250, 2 + at % 250);
    let public = |at: usize| format!("203.{}.{}.5", at / 250, at % 250);
    let port = |at: usize| 1 + at / PAGE;
    let list = |count: usize, row: &dyn Fn(usize) -> Value| (0..count).map(row).collect::<Vec<_>>();
    let world = json!({
        "version": 1,
        "release": "4.23.0.0",
        "zone": {"name": "zone-1"},
        "public-range": {"from": "198.51.100.1", "to": "198.51.100.9"},
        "accounts": [{"name": "prod"}],
        "networks": [{"name": "iso", "owner": "prod", "cidr": "10.0.0.0/8"}],
        "virtual-machines": list(machines, &|at| json!({
            "name": name_of(at), "owner": "prod", "tags": {"role": "node"},
            "nics": [{"network": "iso", "address": host(at)}],
        })),
        "addresses": list(PAGE, &|at| json!({
            "address": public(at), "owner": "prod", "network": "iso", "tags": {"a": "b"},
        })),
        "rules": list(rules, &|at| json!({
            "name": format!("rule-{at}"), "address": public(at % PAGE), "port": port(at),
            "private-port": 30080, "members": [name_of(at % machines)], "tags": {"c": "d"},
        })),
        "firewall-rules": list(rules, &|at| json!({
            "address": public(at % PAGE), "start-port": port(at),
        })),
    });
    let world: World = serde_json::from_value(world).unwrap();
    Simulator::new(&world).unwrap()
}

/// Time that this thread has had on a processor: others use the machine too.
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The mean time of a request for a full page.
fn measure(simulator: &mut Simulator, command: &str, page: usize) -> Duration {
    let (page, size) = (page.to_string(), PAGE.to_string());
    let params = [("page", page.as_str()), ("pagesize", size.as_str()), ("listall", "true")];
    let start = on_cpu();
    for _ in 0..RUNS {
        let answer = simulator.call("prod", command, &params, Timestamp::UNIX_EPOCH);
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        let inner = body.as_object().and_then(|root| root.values().next()).unwrap();
        let rows = inner.as_object().unwrap().values().find_map(Value::as_array);
        assert_eq!(rows.map(Vec::len), Some(PAGE), "{command} page {page}");
    }
    on_cpu().saturating_sub(start) / RUNS
}

#[test]
fn a_page_of_a_large_world_costs_little_more_than_one_of_a_small_world() {
    let mut small = world(PAGE, PAGE);
    let mut large = world(RULES, MACHINES);
    for (command, last) in [
        ("listLoadBalancerRules", RULES / PAGE),
        ("listVirtualMachines", MACHINES / PAGE),
        ("listPublicIpAddresses", 1),
        ("listFirewallRules", RULES / PAGE),
    ] {
        let usual = measure(&mut small, command, 1);
        for page in [1, last] {
            let time = measure(&mut large, command, page);
            eprintln!("{command} page {page}: {time:?}, of a small world {usual:?}");
            assert!(
                time <= usual * GROWTH + TICK,
                "{command} page {page}: {time:?} against {usual:?}"
            );
        }
    }
}
