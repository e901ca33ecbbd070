//! What traffic would do: which ports are open to which sources, and which members answer.
//!
//! Traffic sees what the router was told by the last push of each rule, not the rows: a member
//! counts from the end of its assign, a changed CIDR list from the end of the update. Each rule is
//! pushed for itself. A virtual router balances TCP only. The layers, in the order in which they
//! are asked:
//!
//! 1. a load-balancer rule for the address and port (`NoRule`);
//! 2. the router, if it is stopped (`Router`);
//! 3. the firewall of the address, on isolated networks and in VPCs with Firewall service
//!    (`Firewall`);
//! 4. the tier's ACL list, only if the switch says that ACLs gate balanced traffic: the first
//!    ingress item by number that matches source and public port decides, and without one nobody
//!    gets in (`Acl`);
//! 5. the rule's own CIDR list (`RuleCidrs`);
//! 6. members that live: the VM runs and still has the address that the router knows (`NoMembers`).

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cidrs::{Sources, parse};
use crate::cloud::Cloud;
use crate::faults::router::Routed;
use crate::resources::load_balancer_rule::LoadBalancerRule;
use crate::resources::member::Mapping;
use crate::resources::network::Network;
use crate::resources::network_acl::AclItem;
use crate::resources::public_ip::PublicIp;
use crate::resources::virtual_machine::VirtualMachine;
use crate::table::Key;
use crate::world::VmState;

/// A connection that somebody tries to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficQuery {
    /// Where it comes from.
    pub source: IpAddr,
    /// The public IP address it goes to.
    pub address: IpAddr,
    /// Its transport.
    pub protocol: Protocol,
    /// The public port.
    pub port: u16,
}

/// Transport protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The one that a virtual router balances.
    Tcp,
    /// Never answered.
    Udp,
}

/// What becomes of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Whether a member answers.
    pub accepted: bool,
    /// Id of the load-balancer rule for the port, also if another layer refuses.
    pub rule: Option<String>,
    /// The members that may answer: live ones, by age of their mapping. Empty if refused.
    pub members: Vec<Member>,
    /// The first layer that refuses.
    pub refused_by: Option<Layer>,
}

/// A virtual machine behind a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Id of the virtual machine.
    pub vm: String,
    /// Its host name.
    pub name: String,
    /// The address at which the router finds it.
    pub address: String,
    /// The private port.
    pub port: u16,
}

/// What can refuse a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// No load-balancer rule that was ever pushed serves the port.
    NoRule,
    /// The firewall of the address.
    Firewall,
    /// The CIDR list of the rule.
    RuleCidrs,
    /// Nobody is there to answer.
    NoMembers,
    /// The ACL list of the tier.
    Acl,
    /// The router, which is stopped or destroyed.
    Router,
}

/// What the router knows of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Programmed {
    /// The rule's stored text of CIDRs.
    cidrs: Option<String>,
    members: Vec<Mapping>,
}

impl Programmed {
    /// What a push sends: the row without revoked mappings and destroyed VMs.
    pub(crate) fn of(cloud: &Cloud, row: &LoadBalancerRule) -> Self {
        let members = row
            .members
            .iter()
            .filter(|mapping| !mapping.revoked)
            .filter(|mapping| cloud.vms.get(mapping.vm).is_some_and(VirtualMachine::is_visible))
            .cloned()
            .collect();
        Self { cidrs: row.cidrs.clone(), members }
    }

    /// No list lets everybody in. Entries that a cut made unreadable let nobody in.
    fn sources(&self) -> Sources {
        match self.cidrs.as_deref().map(str::trim) {
            None | Some("") => Sources::everybody(),
            Some(text) => Sources::of(text.split([' ', ',']).filter_map(parse)),
        }
    }
}

/// The layers of one port of one address.
struct Layers<'a> {
    rule: &'a LoadBalancerRule,
    programmed: &'a Programmed,
    firewall: Sources,
    acl: Sources,
}

/// What becomes of a connection.
pub(crate) fn reach(cloud: &Cloud, query: &TrafficQuery, acl_gates: bool) -> Reach {
    let refused = |rule: Option<&LoadBalancerRule>, layer| Reach {
        accepted: false,
        rule: rule.map(|rule| rule.id.clone()),
        members: Vec::new(),
        refused_by: Some(layer),
    };
    let layers = match query.protocol {
        Protocol::Tcp => layers(cloud, query.address, query.port, acl_gates),
        Protocol::Udp => None,
    };
    let Some(layers) = layers else {
        return refused(None, Layer::NoRule);
    };
    let rule = Some(layers.rule);
    if !cloud.router.is_up(Routed::with(cloud, layers.rule.network)) {
        return refused(rule, Layer::Router);
    }
    if !layers.firewall.contains(query.source) {
        return refused(rule, Layer::Firewall);
    }
    if !layers.acl.contains(query.source) {
        return refused(rule, Layer::Acl);
    }
    if !layers.programmed.sources().contains(query.source) {
        return refused(rule, Layer::RuleCidrs);
    }
    let members = live_members(cloud, layers.rule, layers.programmed);
    if members.is_empty() {
        return refused(rule, Layer::NoMembers);
    }
    Reach { accepted: true, rule: rule.map(|rule| rule.id.clone()), members, refused_by: None }
}

/// The sources that all layers of a TCP port let in, whether or not a member lives.
pub(crate) fn open_sources(
    cloud: &Cloud,
    address: IpAddr,
    port: u16,
    acl_gates: bool,
) -> Vec<IpNet> {
    let Some(layers) = layers(cloud, address, port, acl_gates) else {
        return Vec::new();
    };
    if !cloud.router.is_up(Routed::with(cloud, layers.rule.network)) {
        return Vec::new();
    }
    layers.firewall.and(&layers.acl).and(&layers.programmed.sources()).into_nets()
}

fn layers(cloud: &Cloud, address: IpAddr, port: u16, acl_gates: bool) -> Option<Layers<'_>> {
    let (key, row) = cloud.addresses.iter().find(|(_, row)| IpAddr::V4(row.address) == address)?;
    let (rule, programmed) = cloud
        .rules
        .iter()
        .filter(|(_, rule)| rule.address == key && rule.public_port == port)
        .find_map(|(_, rule)| Some((rule, rule.programmed.as_ref()?)))?;
    let acl = if acl_gates {
        cloud
            .networks
            .get(rule.network)
            .map_or_else(Sources::everybody, |network| acl_sources(cloud, network, port))
    } else {
        Sources::everybody()
    };
    let firewall = firewall_sources(cloud, key, row, port);
    Some(Layers { rule, programmed, firewall, acl })
}

/// Sources of all pushed firewall rules about a TCP port; everybody where there is no firewall.
fn firewall_sources(cloud: &Cloud, key: Key<PublicIp>, row: &PublicIp, port: u16) -> Sources {
    let vpc = row.vpc.and_then(|vpc| cloud.vpcs.get(vpc));
    if vpc.is_some_and(|vpc| !vpc.has_firewall(cloud)) {
        return Sources::everybody();
    }
    Sources::of(
        cloud
            .firewall_rules
            .iter()
            .filter(|(_, rule)| rule.address == key && rule.programmed)
            .filter(|(_, rule)| rule.protocol == "tcp" && rule.covers_port(port))
            .flat_map(|(_, rule)| rule.cidrs.iter().filter_map(|cidr| parse(cidr))),
    )
}

/// Sources that a tier's list lets in on a TCP port. Networks outside VPCs have no list and let
/// everybody in; a tier without one lets nobody in.
fn acl_sources(cloud: &Cloud, network: &Network, port: u16) -> Sources {
    let Some(tier) = network.tier else {
        return Sources::everybody();
    };
    let Some(list) = tier.acl else {
        return Sources::nobody();
    };
    let mut items: Vec<&AclItem> = cloud
        .acl_items
        .iter()
        .map(|(_, item)| item)
        .filter(|item| item.list == list && item.ingress && is_about(item, port))
        .collect();
    items.sort_by_key(|item| item.number);
    let mut undecided = Sources::everybody();
    let mut allowed = Sources::nobody();
    for item in items {
        let about = Sources::of(item.cidrs.split(',').filter_map(parse));
        if item.allow {
            allowed = allowed.or(&undecided.and(&about));
        }
        undecided = undecided.without(&about);
    }
    allowed
}

/// Whether an ACL item is about a TCP port.
fn is_about(item: &AclItem, port: u16) -> bool {
    let protocol = item.protocol.to_lowercase();
    let first = item.first.unwrap_or(0);
    let last = item.last.unwrap_or(u16::MAX);
    matches!(protocol.as_str(), "tcp" | "6" | "all") && (first..=last).contains(&port)
}

fn live_members(cloud: &Cloud, rule: &LoadBalancerRule, programmed: &Programmed) -> Vec<Member> {
    programmed
        .members
        .iter()
        .filter_map(|mapping| Some((cloud.vms.get(mapping.vm)?, mapping)))
        .filter(|(vm, _)| vm.state == VmState::Running)
        .filter(|(vm, mapping)| vm.holds(mapping.network, &mapping.address))
        .map(|(vm, mapping)| Member {
            vm: vm.id.clone(),
            name: vm.name.clone(),
            address: mapping.address.clone(),
            port: rule.private_port,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, text};

    const PUBLIC: &str = "203.0.113.2";

    fn refused_by(lab: &Lab, source: &str, address: &str) -> Option<Layer> {
        lab.reach(source, address, 80).refused_by
    }

    #[test]
    fn each_layer_of_an_isolated_network_refuses_in_turn() {
        let mut lab = Lab::new();
        let address = lab.address(PUBLIC);
        assert_eq!(refused_by(&lab, "10.9.9.9", PUBLIC), Some(Layer::NoRule));
        let rule = lab.rule("80", &[("cidrlist", "10.0.0.0/8,198.51.100.7")]);
        // A rule that was never pushed serves nobody.
        assert_eq!(refused_by(&lab, "10.9.9.9", PUBLIC), Some(Layer::NoRule));
        lab.assign(&rule, &["node-1"]);
        assert_eq!(refused_by(&lab, "10.9.9.9", PUBLIC), Some(Layer::Firewall));
        lab.open(&address, "80", "10.9.0.0/16,192.0.2.0/24");
        assert_eq!(refused_by(&lab, "192.0.2.1", PUBLIC), Some(Layer::RuleCidrs));
        let reach = lab.reach("10.9.9.9", PUBLIC, 80);
        assert_eq!(reach.rule, Some(rule));
        assert_eq!(reach.members[0].address, "10.1.1.11");
        assert_eq!(reach.members[0].port, 30080);
        assert_eq!(lab.simulator.open_cidrs(PUBLIC, 80), ["10.9.0.0/16"]);
        lab.simulator.stop_vm("node-1").unwrap();
        assert_eq!(refused_by(&lab, "10.9.9.9", PUBLIC), Some(Layer::NoMembers));
        assert_eq!(lab.simulator.open_cidrs(PUBLIC, 81), [""; 0]);
    }

    #[test]
    fn a_member_does_not_live_through_the_same_address_in_another_network() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[("openfirewall", "true")]);
        lab.assign(&rule, &["node-1"]);
        assert!(lab.reach("192.0.2.1", PUBLIC, 80).accepted);
        lab.simulator.change_vm_address("node-1", "iso", "10.1.1.77").unwrap();
        let vm = lab.id("listVirtualMachines", "node-1");
        let idle = lab.id("listNetworks", "idle");
        let add = [
            ("virtualmachineid", vm.as_str()),
            ("networkid", idle.as_str()),
            ("ipaddress", "10.1.1.11"),
        ];
        lab.run("addNicToVirtualMachine", &add);
        assert_eq!(refused_by(&lab, "192.0.2.1", PUBLIC), Some(Layer::NoMembers));
    }

    #[test]
    fn routers_answer_tcp_only() {
        let mut lab = Lab::new();
        let address = lab.address(PUBLIC);
        let rule = lab.rule("80", &[]);
        lab.assign(&rule, &["node-1"]);
        lab.open(&address, "80", "0.0.0.0/0");
        let query = TrafficQuery {
            source: "10.9.9.9".parse().unwrap(),
            address: PUBLIC.parse().unwrap(),
            protocol: Protocol::Udp,
            port: 80,
        };
        assert_eq!(lab.simulator.reach(&query).refused_by, Some(Layer::NoRule));
    }

    #[test]
    fn changes_reach_the_router_at_the_end_of_their_jobs() {
        let mut lab = Lab::slow(5);
        let address = lab.address(PUBLIC);
        let rule = lab.rule("80", &[]);
        lab.open(&address, "80", "0.0.0.0/0");
        lab.assign(&rule, &["node-1"]);
        let update = [("id", rule.as_str()), ("cidrlist", "10.0.0.0/8"), ("protocol", "tcp")];
        lab.ask("updateLoadBalancerRule", &update);
        assert!(lab.reach("192.0.2.1", PUBLIC, 80).accepted);
        lab.wait(5);
        assert!(!lab.reach("192.0.2.1", PUBLIC, 80).accepted);
        lab.ask("deleteLoadBalancerRule", &[("id", &rule)]);
        assert!(lab.reach("10.1.1.1", PUBLIC, 80).accepted);
        lab.wait(5);
        assert_eq!(refused_by(&lab, "10.1.1.1", PUBLIC), Some(Layer::NoRule));
    }

    #[test]
    fn acls_gate_a_tier_only_if_told_so_and_the_first_match_decides() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.3");
        let tier = lab.id("listNetworks", "tier");
        let list = lab.id("listNetworkACLLists", "custom");
        let rule = lab.rule_on(&address, "80", &[("networkid", &tier)]);
        lab.assign(&rule, &["tnode-1"]);
        assert_eq!(refused_by(&lab, "192.0.2.1", "203.0.113.3"), None);
        lab.simulator.set_acl_gates_traffic(true);
        assert_eq!(refused_by(&lab, "192.0.2.1", "203.0.113.3"), Some(Layer::Acl));
        for (number, action, cidr) in
            [("20", "Allow", "192.0.2.0/24"), ("10", "Deny", "192.0.2.128/25")]
        {
            let params = [
                ("aclid", list.as_str()),
                ("protocol", "tcp"),
                ("startport", "80"),
                ("number", number),
                ("action", action),
                ("cidrlist", cidr),
            ];
            lab.run("createNetworkACL", &params);
        }
        assert_eq!(refused_by(&lab, "192.0.2.1", "203.0.113.3"), None);
        assert_eq!(refused_by(&lab, "192.0.2.200", "203.0.113.3"), Some(Layer::Acl));
        assert_eq!(lab.simulator.open_cidrs("203.0.113.3", 80), ["192.0.2.0/25"]);
    }

    #[test]
    fn a_vpc_with_firewall_service_is_closed_until_opened() {
        let mut lab = Lab::with_vpc_firewall();
        let address = lab.address("203.0.113.3");
        let tier = lab.id("listNetworks", "tier");
        let rule = lab.rule_on(&address, "80", &[("networkid", &tier)]);
        lab.assign(&rule, &["tnode-1"]);
        assert_eq!(refused_by(&lab, "192.0.2.1", "203.0.113.3"), Some(Layer::Firewall));
        lab.open(&address, "80", "192.0.2.0/24");
        assert_eq!(refused_by(&lab, "192.0.2.1", "203.0.113.3"), None);
    }

    #[test]
    fn a_network_without_router_serves_nobody_until_it_gets_one() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "idle");
        let got = lab.run("associateIpAddress", &[("networkid", &network)])["ipaddress"].clone();
        let (id, address) = (text(&got["id"]), text(&got["ipaddress"]));
        let rule = lab.rule_on(&id, "80", &[("openfirewall", "true")]);
        lab.simulator.add_vm(&serde_json::from_value(serde_json::json!({
            "name": "late", "owner": "prod", "nics": [{"network": "idle", "address": "10.1.2.11"}],
        })).unwrap()).unwrap();
        lab.assign(&rule, &["late"]);
        assert_eq!(lab.listed_rule(&rule)["state"], "Active");
        assert_eq!(refused_by(&lab, "192.0.2.1", &address), Some(Layer::NoRule));
        lab.simulator.implement_network("idle").unwrap();
        assert_eq!(lab.reach("192.0.2.1", &address, 80).members[0].name, "late");
    }
}
