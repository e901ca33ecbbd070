//! The objects of a world file.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::Extra;

#[cfg(test)]
use schemars::JsonSchema;

/// The zone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Id of the physical network.
    #[serde(default)]
    pub physical_network: Option<String>,
    /// Id of the network of the public addresses.
    #[serde(default)]
    pub public_network: Option<String>,
    /// Further fields of its answers.
    #[serde(default)]
    pub extra: Extra,
}

/// A range of addresses, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Range {
    /// The first address.
    pub from: Ipv4Addr,
    /// The last address.
    pub to: Ipv4Addr,
}

/// How long jobs take, by kind; a kind that is left out takes `default`. Written like `1s500ms`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct JobDurations {
    /// Jobs of all kinds without a time of their own.
    #[cfg_attr(test, schemars(with = "String"))]
    pub default: SignedDuration,
    /// associateIpAddress.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub associate: Option<SignedDuration>,
    /// disassociateIpAddress.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub release: Option<SignedDuration>,
    /// createLoadBalancerRule.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub create: Option<SignedDuration>,
    /// updateLoadBalancerRule.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub update: Option<SignedDuration>,
    /// deleteLoadBalancerRule.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub delete: Option<SignedDuration>,
    /// assignToLoadBalancerRule.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub assign: Option<SignedDuration>,
    /// removeFromLoadBalancerRule.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub remove: Option<SignedDuration>,
    /// The commands about firewall rules.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub firewall: Option<SignedDuration>,
    /// The commands about ACL items.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub acl: Option<SignedDuration>,
    /// createTags and deleteTags.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub tags: Option<SignedDuration>,
    /// The commands about virtual machines.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub vm: Option<SignedDuration>,
}

/// A guest network, or a tier of a VPC.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Account or project; a tier's owner is that of its VPC.
    #[serde(default)]
    pub owner: Option<String>,
    /// What kind of network it is; a tier is isolated.
    #[serde(default)]
    pub kind: NetworkKind,
    /// Its addresses; the first is the gateway. A network of layer 2 does not show them.
    #[cfg_attr(test, schemars(with = "String"))]
    pub cidr: Ipv4Net,
    /// Allocated means that no router serves it yet.
    #[serde(default)]
    pub state: NetworkState,
    /// Of a tier: the name of a list of its VPC, `default_allow`, `default_deny`, or `none`, which
    /// is the default.
    #[serde(default)]
    pub acl: Option<String>,
    /// Its services where they differ from those of a virtual router.
    #[serde(default)]
    pub services: Option<Vec<String>>,
    /// What it was made from.
    #[serde(default)]
    pub offering: Option<NetworkOffering>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Its number in the database, which error texts show; by default after the largest.
    #[serde(default)]
    pub number: Option<u64>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Further fields of its answers.
    #[serde(default)]
    pub extra: Extra,
}

/// Kind of a guest network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub enum NetworkKind {
    /// With a router of its own.
    #[default]
    Isolated,
    /// Used by everybody; balances no load.
    Shared,
    /// A wire without services.
    L2,
}

/// Whom the load balancer of a network serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub enum LbScheme {
    /// Public addresses, by the network's router.
    #[default]
    Public,
    /// Addresses of the tier, by machines of their own.
    Internal,
}

/// State of a network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub enum NetworkState {
    /// No router serves it yet.
    Allocated,
    /// A router serves it.
    #[default]
    Implemented,
}

/// A network offering.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NetworkOffering {
    /// Its name.
    pub name: String,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Whether one address may serve rules of several kinds.
    #[serde(default = "defaults::yes")]
    pub conserve_mode: bool,
    /// Whom its load balancer serves.
    #[serde(default)]
    pub lb_scheme: LbScheme,
}

/// A VPC.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Vpc {
    /// Its name.
    pub name: String,
    /// Account or project.
    pub owner: String,
    /// The addresses of all its tiers.
    #[cfg_attr(test, schemars(with = "String"))]
    pub cidr: Ipv4Net,
    /// What its offering serves.
    #[serde(default)]
    pub services: VpcServices,
    /// Whether its offering lets one address serve rules of several tiers (from 4.23).
    #[serde(default)]
    pub conserve_mode: bool,
    /// Id of its offering.
    #[serde(default)]
    pub offering: Option<String>,
    /// Its ACL lists.
    #[serde(default)]
    pub acl_lists: Vec<AclList>,
    /// Its tiers.
    #[serde(default)]
    pub tiers: Vec<Network>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Its number in the database, which error texts show; by default after the largest.
    #[serde(default)]
    pub number: Option<u64>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Further fields of its answers.
    #[serde(default)]
    pub extra: Extra,
}

/// What a VPC offering serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VpcServices {
    /// No firewall.
    #[default]
    Default,
    /// A firewall on its public addresses (from 4.23).
    WithFirewall,
}

/// An ACL list of a VPC.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AclList {
    /// Its name.
    pub name: String,
    /// Free text.
    #[serde(default)]
    pub description: Option<String>,
    /// Its items.
    #[serde(default)]
    pub items: Vec<AclItem>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

/// An item of an ACL list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AclItem {
    /// Its place; by default one after the largest.
    #[serde(default)]
    pub number: Option<i64>,
    /// `tcp`, `udp`, `icmp`, `all` or a number.
    pub protocol: String,
    /// The first port; no ports means all.
    #[serde(default)]
    pub start_port: Option<u16>,
    /// The last port; by default the first.
    #[serde(default)]
    pub end_port: Option<u16>,
    /// Sources; by default everybody.
    #[serde(default = "defaults::everybody")]
    pub cidrs: Vec<String>,
    /// Direction.
    #[serde(default)]
    pub traffic: TrafficType,
    /// What happens to traffic that matches.
    #[serde(default)]
    pub action: AclAction,
    /// Free text.
    #[serde(default)]
    pub reason: Option<String>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

/// Direction of traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub enum TrafficType {
    /// To the tier.
    #[default]
    Ingress,
    /// From the tier.
    Egress,
}

/// What an ACL item does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub enum AclAction {
    /// Lets traffic pass.
    #[default]
    Allow,
    /// Drops it.
    Deny,
}

/// A public IP address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Address {
    /// The address.
    pub address: Ipv4Addr,
    /// Account or project; without one the address is free.
    #[serde(default)]
    pub owner: Option<String>,
    /// The network it serves; of a VPC address the tier it is bound to.
    #[serde(default)]
    pub network: Option<String>,
    /// The VPC it belongs to.
    #[serde(default)]
    pub vpc: Option<String>,
    /// Whether it is the source-NAT address of its network or VPC.
    #[serde(default)]
    pub source_nat: bool,
    /// Whether it may be moved between networks; given only to those who ask for one.
    #[serde(default)]
    pub portable: bool,
    /// The virtual machine it is mapped to as a whole.
    #[serde(default)]
    pub static_nat: Option<String>,
    /// When it was acquired; by default when the world began.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub allocated: Option<Timestamp>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Its number in the database, which error texts show; by default after the largest.
    #[serde(default)]
    pub number: Option<u64>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

/// A load-balancer rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    /// Its name; not unique.
    pub name: String,
    /// Free text.
    #[serde(default)]
    pub description: Option<String>,
    /// The public address.
    pub address: Ipv4Addr,
    /// The public port.
    pub port: u16,
    /// The port of the members.
    pub private_port: u16,
    /// `tcp`, `tcp-proxy`, `ssl` or `udp`; absent as for a rule created without.
    #[serde(default)]
    pub protocol: Option<String>,
    /// `roundrobin`, `leastconn` or `source`.
    #[serde(default = "defaults::algorithm")]
    pub algorithm: String,
    /// Sources that may use it; absent means everybody.
    #[serde(default)]
    pub cidrs: Option<Vec<String>>,
    /// Names of virtual machines.
    #[serde(default)]
    pub members: Vec<String>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

/// A firewall rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FirewallRule {
    /// The public address.
    pub address: Ipv4Addr,
    /// `tcp`, `udp` or `icmp`.
    #[serde(default = "defaults::protocol")]
    pub protocol: String,
    /// The first port; no ports means all.
    #[serde(default)]
    pub start_port: Option<u16>,
    /// The last port; by default the first.
    #[serde(default)]
    pub end_port: Option<u16>,
    /// Of ICMP: type and code; by default all.
    #[serde(default = "defaults::all_icmp")]
    pub icmp: (i64, i64),
    /// Sources; by default all of IPv4.
    #[serde(default = "defaults::everywhere")]
    pub cidrs: Vec<String>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

/// A port-forwarding rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PortForward {
    /// The public address.
    pub address: Ipv4Addr,
    /// The first public port.
    pub start_port: u16,
    /// The last public port; by default the first.
    #[serde(default)]
    pub end_port: Option<u16>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

mod defaults {
    pub(super) fn yes() -> bool {
        true
    }

    pub(super) fn algorithm() -> String {
        "roundrobin".to_owned()
    }

    pub(super) fn protocol() -> String {
        "tcp".to_owned()
    }

    pub(super) fn all_icmp() -> (i64, i64) {
        (-1, -1)
    }

    pub(super) fn everywhere() -> Vec<String> {
        vec!["0.0.0.0/0".to_owned()]
    }

    pub(super) fn everybody() -> Vec<String> {
        vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()]
    }
}
