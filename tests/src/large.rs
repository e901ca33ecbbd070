//! Worlds of any size, and pages of their lists.

use ccm_simulator::{Simulator, World};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Rows of a page, and addresses of every world.
pub const PAGE: usize = 500;
/// Load-balancer rules, and firewall rules, of a large world.
pub const RULES: usize = 10_000;
/// Virtual machines of a large world.
pub const MACHINES: usize = 5_000;

/// Rules with tags, members and firewall rules, evenly spread over the addresses.
pub fn world(rules: usize, machines: usize) -> Simulator {
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
    let world: World = serde_json::from_value(world).expect("a world");
    Simulator::new(&world).expect("a world that fits together")
}

/// The body of a page of a list, as its owner asks for it.
pub fn page(simulator: &mut Simulator, command: &str, page: usize) -> String {
    let (page, size) = (page.to_string(), PAGE.to_string());
    let params = [("page", page.as_str()), ("pagesize", size.as_str()), ("listall", "true")];
    simulator.call("prod", command, &params, Timestamp::UNIX_EPOCH).body
}

/// The lists that are long in a large world, and their last pages.
pub const LISTS: [(&str, usize); 4] = [
    ("listLoadBalancerRules", RULES / PAGE),
    ("listVirtualMachines", MACHINES / PAGE),
    ("listPublicIpAddresses", 1),
    ("listFirewallRules", RULES / PAGE),
];
