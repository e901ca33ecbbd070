//! Worlds of any size, and pages of their lists.

use ccm_simulator::{Simulator, World};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Rows of a page; addresses, networks and VPCs of every world, and members of its first rule.
pub const PAGE: usize = 500;
/// Load-balancer rules, firewall rules, port forwards and ACL items of a large world.
pub const RULES: usize = 10_000;
/// Virtual machines of a large world.
pub const MACHINES: usize = 5_000;

/// A list that is long in a large world.
#[derive(Debug)]
pub struct List {
    /// Its command.
    pub command: &'static str,
    /// Its last page in a large world.
    pub last: usize,
    params: &'static [(&'static str, &'static str)],
}

/// Every list that a client reads page by page.
pub const LISTS: [List; 10] = [
    list("listLoadBalancerRules", RULES / PAGE),
    list("listVirtualMachines", MACHINES / PAGE),
    list("listPublicIpAddresses", 1),
    list("listFirewallRules", RULES / PAGE),
    list("listNetworkACLs", RULES / PAGE),
    list("listPortForwardingRules", RULES / PAGE),
    list("listNetworks", 2),
    list("listVPCs", 1),
    list("listNetworkACLLists", 1),
    List { params: &[("id", CROWDED)], ..list("listLoadBalancerRuleInstances", 1) },
];

/// The rule with many members.
const CROWDED: &str = "00000000-0000-4000-8000-000000000001";

const fn list(command: &'static str, last: usize) -> List {
    List { command, last, params: &[("listall", "true")] }
}

/// Rules with tags, members, firewall rules and port forwards, evenly spread over the addresses, and
/// as many ACL items in one list.
pub fn world(rules: usize, machines: usize) -> Simulator {
    let name_of = |at: usize| format!("node-{at}");
    let host = |at: usize| format!("10.{}.{}.{}", 1 + at / 62_500, at / 250 % 250, 2 + at % 250);
    let public = |at: usize| format!("203.{}.{}.5", at / 250, at % 250);
    let port = |at: usize| 1 + at / PAGE;
    let members = |at: usize| at..at + if at == 0 { PAGE } else { 1 };
    let list = |count: usize, row: &dyn Fn(usize) -> Value| (0..count).map(row).collect::<Vec<_>>();
    let mut rows = list(rules, &|at| {
        json!({
            "name": format!("rule-{at}"), "address": public(at % PAGE), "port": port(at),
            "private-port": 30080, "tags": {"c": "d"},
            "members": members(at).map(|at| name_of(at % machines)).collect::<Vec<_>>(),
        })
    });
    rows[0]["id"] = CROWDED.into();
    let world = json!({
        "version": 1,
        "release": "4.23.0.0",
        "zone": {"name": "zone-1"},
        "public-range": {"from": "198.51.100.1", "to": "198.51.100.9"},
        "accounts": [{"name": "prod"}],
        "networks": list(PAGE, &|at| json!({
            "name": format!("net-{at}"), "owner": "prod",
            "cidr": if at == 0 { "10.0.0.0/8" } else { "172.16.0.0/16" },
        })),
        "vpcs": list(PAGE, &|at| json!({
            "name": format!("vpc-{at}"), "owner": "prod", "cidr": "192.168.0.0/16",
            "tiers": [{"name": format!("tier-{at}"), "cidr": "192.168.1.0/24"}],
            "acl-lists": [{
                "name": format!("list-{at}"),
                "items": list(if at == 0 { rules } else { 0 }, &|at| json!({
                    "protocol": "tcp", "start-port": port(at), "reason": format!("item-{at}"),
                })),
            }],
        })),
        "virtual-machines": list(machines, &|at| json!({
            "name": name_of(at), "owner": "prod", "tags": {"role": "node"},
            "nics": [{"network": "net-0", "address": host(at)}],
        })),
        "addresses": list(PAGE, &|at| json!({
            "address": public(at), "owner": "prod", "network": "net-0", "tags": {"a": "b"},
        })),
        "rules": rows,
        "firewall-rules": list(rules, &|at| json!({
            "address": public(at % PAGE), "start-port": port(at),
        })),
        "port-forwards": list(rules, &|at| json!({
            "address": public(at % PAGE), "start-port": 40_000 + port(at),
        })),
    });
    let world: World = serde_json::from_value(world).expect("a world");
    Simulator::new(&world).expect("a world that fits together")
}

impl List {
    /// The body of a page, as the owner of everything asks for it.
    pub fn page(&self, simulator: &mut Simulator, page: usize) -> String {
        let (page, size) = (page.to_string(), PAGE.to_string());
        let mut params = vec![("page", page.as_str()), ("pagesize", size.as_str())];
        params.extend(self.params);
        simulator.call("prod", self.command, &params, Timestamp::UNIX_EPOCH).body
    }
}
