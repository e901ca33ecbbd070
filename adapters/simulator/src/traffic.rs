//! What traffic would do: which ports are open to which sources, and which members answer.
//!
//! Traffic sees what the router was told by the last push of each rule, not the rows: a member counts from the end of its
//! assign, a changed CIDR list from the end of the update. Each rule is pushed for itself. A virtual router balances TCP
//! only. The layers, in the order in which they are asked:
//!
//! 1. a load-balancer rule for the address and port (`NoRule`);
//! 2. the firewall of the address, on isolated networks and in VPCs with Firewall service (`Firewall`);
//! 3. the tier's ACL list, only if the switch says that ACLs gate balanced traffic: the first ingress item by number
//!    that matches source and public port decides, and without one nobody gets in (`Acl`);
//! 4. the rule's own CIDR list (`RuleCidrs`);
//! 5. members that live: the VM runs and still has the address that the router knows (`NoMembers`).

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cidrs::{Sources, parse};
use crate::cloud::Cloud;
use crate::resources::load_balancer_rule::LoadBalancerRule;
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
}

/// What the router knows of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Programmed {
    /// The rule's stored text of CIDRs.
    cidrs: Option<String>,
    members: Vec<(Key<VirtualMachine>, String)>,
}

impl Programmed {
    /// What a push sends: the row without revoked mappings and destroyed VMs.
    pub(crate) fn of(cloud: &Cloud, row: &LoadBalancerRule) -> Self {
        let members = row
            .members
            .iter()
            .filter(|mapping| !mapping.revoked)
            .filter(|mapping| cloud.vms.get(mapping.vm).is_some_and(VirtualMachine::is_visible))
            .map(|mapping| (mapping.vm, mapping.address.clone()))
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

/// Sources that a tier's list lets in on a TCP port. Networks outside VPCs have no list and let everybody in; a tier
/// without one lets nobody in.
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
        .filter_map(|(key, address)| Some((cloud.vms.get(*key)?, address)))
        .filter(|(vm, address)| vm.state == VmState::Running && vm.holds(rule.network, address))
        .map(|(vm, address)| Member {
            vm: vm.id.clone(),
            name: vm.name.clone(),
            address: address.clone(),
            port: rule.private_port,
        })
        .collect()
}
