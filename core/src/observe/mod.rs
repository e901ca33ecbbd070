//! What is there: the state of the cloud as of one instant, as plain data.
//!
//! Nothing in here means "not fetched". What the caller's role can't list is [`Listing::Denied`],
//! and members that nobody needs to know are absent from [`CloudState::members`]
//! ([`scope::members_to_read`] says which are needed).

pub mod index;
pub mod machines;
pub mod orphan;
pub mod ownership;
pub mod scope;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cidr::{CidrSet, Sources};
use crate::ids::{
    FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, NetworkAclListId, NetworkId,
    PublicIpId, VirtualMachineId, VpcId,
};
use crate::model::service::{Algorithm, Port, RuleProtocol, Transport};
use crate::version::{Features, Version};

/// The state of the cloud, as an adapter decoded it. Lists are in any order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudState {
    /// When the observation began.
    pub at: Timestamp,
    /// What the server and the caller's role can do.
    pub capabilities: Capabilities,
    /// listPublicIpAddresses: all allocated ones in scope, and those that were asked for by address.
    pub addresses: Vec<PublicIpAddress>,
    /// listLoadBalancerRules.
    pub rules: Vec<LoadBalancerRule>,
    /// listLoadBalancerRuleInstances, of the rules that the scope asked for.
    pub members: BTreeMap<LoadBalancerRuleId, BTreeSet<VirtualMachineId>>,
    /// listFirewallRules.
    pub firewall_rules: Vec<FirewallRule>,
    /// listNetworkACLLists.
    pub acl_lists: Listing<Vec<NetworkAclList>>,
    /// listNetworkACLs, of the lists that networks in scope use.
    pub acl_items: Listing<Vec<NetworkAclItem>>,
    /// listNetworks.
    pub networks: Vec<Network>,
    /// listVPCs.
    pub vpcs: Listing<Vec<Vpc>>,
    /// listVirtualMachines.
    pub virtual_machines: Vec<VirtualMachine>,
    /// queryAsyncJobResult, of the jobs that intents name.
    pub jobs: BTreeMap<JobId, AssociateJob>,
}

impl CloudState {
    /// A cloud with nothing in it.
    pub fn empty(at: Timestamp, capabilities: Capabilities) -> Self {
        Self {
            at,
            capabilities,
            addresses: Vec::new(),
            rules: Vec::new(),
            members: BTreeMap::new(),
            firewall_rules: Vec::new(),
            acl_lists: Listing::Listed(Vec::new()),
            acl_items: Listing::Listed(Vec::new()),
            networks: Vec::new(),
            vpcs: Listing::Listed(Vec::new()),
            virtual_machines: Vec::new(),
            jobs: BTreeMap::new(),
        }
    }
}

/// A list that the caller's role may or may not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listing<T> {
    /// What was listed.
    Listed(T),
    /// The role may not call the command (432, or 401 for an unknown one).
    Denied,
}

impl<T> Listing<T> {
    /// What was listed, if it could be.
    pub fn listed(&self) -> Option<&T> {
        match self {
            Self::Listed(value) => Some(value),
            Self::Denied => None,
        }
    }
}

/// What the server and the caller's role can do. An absent permission is data, never an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// `cloudstackversion`, or the attribute of an XML answer; `None` if neither tells.
    pub version: Option<Version>,
    /// Optional commands that were refused with 432.
    pub denied: BTreeSet<String>,
    /// `apilimitmax` per `apilimitinterval`, if the server announces one.
    pub rate_limit: Option<RateLimit>,
}

impl Capabilities {
    /// What the version decides.
    pub fn features(&self) -> Features {
        Features(self.version)
    }
}

/// The announced rate limit of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// `apilimitmax`: calls.
    pub calls: u32,
    /// `apilimitinterval`: seconds.
    pub seconds: u32,
}

/// A public IP address (listPublicIpAddresses).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicIpAddress {
    /// `id`.
    pub id: PublicIpId,
    /// `ipaddress`.
    pub address: Ipv4Addr,
    /// `state`.
    pub state: AddressState,
    /// `allocated` as listed; absent while free.
    pub allocated: Option<String>,
    /// `issourcenat`.
    pub source_nat: bool,
    /// The VM that it is static NAT for: `virtualmachinename`, or its id; empty text if only
    /// `isstaticnat` says so.
    pub static_nat: Option<String>,
    /// `associatednetworkid`: the isolated network, or the tier that a VPC address is bound to.
    pub network: Option<NetworkId>,
    /// `vpcid`.
    pub vpc: Option<VpcId>,
    /// `hasrules` (4.19 and later); can be stale.
    pub has_rules: Option<bool>,
    /// `tags`.
    pub tags: BTreeMap<String, String>,
}

/// `state` of a public IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressState {
    /// Being associated.
    Allocating,
    /// Usable.
    Allocated,
    /// Being released, or left so by a failed release.
    Releasing,
    /// Set aside by reserveIpAddress.
    Reserved,
    /// Nobody's.
    Free,
}

/// A load balancer rule (listLoadBalancerRules).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancerRule {
    /// `id`.
    pub id: LoadBalancerRuleId,
    /// `name`.
    pub name: String,
    /// `description`.
    pub description: Option<String>,
    /// `publicipid`.
    pub address: PublicIpId,
    /// `publicport`.
    pub public_port: u16,
    /// `privateport`.
    pub private_port: u16,
    /// `protocol`; absent if the rule was made without one, `Err` for one that we never make.
    pub protocol: Option<Result<RuleProtocol, String>>,
    /// `algorithm`; `Err` for one that we don't know (updates are not validated by the server).
    pub algorithm: Result<Algorithm, String>,
    /// `cidrlist`.
    pub sources: Sources,
    /// `networkid`.
    pub network: NetworkId,
    /// `state`.
    pub state: RuleState,
    /// `tags`.
    pub tags: BTreeMap<String, String>,
}

/// `state` of a load balancer or firewall rule, or of an ACL item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleState {
    /// No member yet, or a push is owed.
    Add,
    /// Pushed.
    Active,
    /// On its way out, or left so by a failed push. Its port counts as free.
    Deleting,
}

impl RuleState {
    /// Whether a firewall rule or an ACL item of ours lets anybody in. One that was never pushed, as
    /// the death of a management server leaves it, does not until something else is pushed.
    pub fn is_pushed(self) -> bool {
        self == Self::Active
    }
}

/// A firewall rule (listFirewallRules).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirewallRule {
    /// `id`.
    pub id: FirewallRuleId,
    /// `ipaddressid`.
    pub address: PublicIpId,
    /// `protocol`, lower case: tcp, udp or icmp.
    pub protocol: String,
    /// `startport` and `endport`; absent means all ports.
    pub ports: Option<(u16, u16)>,
    /// `cidrlist`.
    pub cidrs: CidrSet,
    /// `state`.
    pub state: RuleState,
    /// `tags`.
    pub tags: BTreeMap<String, String>,
}

impl FirewallRule {
    /// The port, if the rule opens exactly one.
    pub fn port(&self) -> Option<Port> {
        let transport = self.transport()?;
        match self.ports {
            Some((start, end)) if start == end => Some(Port { transport, number: start }),
            _ => None,
        }
    }

    /// Whether it opens `port`, alone or among others.
    pub fn covers(&self, port: Port) -> bool {
        let in_range = |(start, end)| (start..=end).contains(&port.number);
        self.transport() == Some(port.transport) && self.ports.is_none_or(in_range)
    }

    fn transport(&self) -> Option<Transport> {
        match self.protocol.as_str() {
            "tcp" => Some(Transport::Tcp),
            "udp" => Some(Transport::Udp),
            _ => None,
        }
    }
}

/// A network ACL list (listNetworkACLLists).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkAclList {
    /// `id`.
    pub id: NetworkAclListId,
    /// `name`.
    pub name: String,
    /// `vpcid`; absent for default and global lists, which users can't edit.
    pub vpc: Option<VpcId>,
}

/// An item of a network ACL list (listNetworkACLs).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkAclItem {
    /// `id`.
    pub id: NetworkAclItemId,
    /// `aclid`.
    pub list: NetworkAclListId,
    /// `protocol`, lower case: tcp, udp, icmp, all or a number.
    pub protocol: String,
    /// `startport` and `endport`; absent means all ports.
    pub ports: Option<(u16, u16)>,
    /// `cidrlist`.
    pub cidrs: CidrSet,
    /// `traffictype`.
    pub ingress: bool,
    /// `action`.
    pub allow: bool,
    /// `number`: items are tried in this order.
    pub number: u32,
    /// `reason`.
    pub reason: Option<String>,
    /// `state`.
    pub state: RuleState,
    /// `tags`.
    pub tags: BTreeMap<String, String>,
}

impl NetworkAclItem {
    /// Whether it decides about new connections from outside to `port`.
    pub fn matches(&self, port: Port) -> bool {
        let protocol = match port.transport {
            Transport::Tcp => ["tcp", "6"],
            Transport::Udp => ["udp", "17"],
        };
        let in_range = |(start, end)| (start..=end).contains(&port.number);
        self.ingress
            && (self.protocol == "all" || protocol.contains(&self.protocol.as_str()))
            && self.ports.is_none_or(in_range)
    }

    /// Whether it lets everybody in to exactly `port`.
    pub fn opens_exactly(&self, port: Port) -> bool {
        self.allow
            && self.protocol != "all"
            && self.matches(port)
            && self.ports == Some((port.number, port.number))
            && Sources::from_set(self.cidrs.clone()).is_everybody()
    }

    /// The one port that it lets everybody in to, and nothing else.
    pub fn opened_port(&self) -> Option<Port> {
        let (number, _) = self.ports?;
        let ports = [Transport::Tcp, Transport::Udp].map(|transport| Port { transport, number });
        ports.into_iter().find(|port| self.opens_exactly(*port))
    }
}

/// A guest network (listNetworks).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// `id`.
    pub id: NetworkId,
    /// `name`.
    pub name: String,
    /// `type`: Isolated, Shared, L2.
    pub kind: String,
    /// `vpcid`: set for a tier.
    pub vpc: Option<VpcId>,
    /// `aclid`: the tier's ACL list.
    pub acl_list: Option<NetworkAclListId>,
    /// `aclname`.
    pub acl_name: Option<String>,
    /// `service`, by name.
    pub services: BTreeMap<String, NetworkService>,
}

/// An entry of `service` of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkService {
    /// `provider[].name`.
    pub providers: BTreeSet<String>,
    /// `capability[]`, name to value.
    pub capabilities: BTreeMap<String, String>,
}

/// A VPC (listVPCs).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vpc {
    /// `id`.
    pub id: VpcId,
    /// `name`.
    pub name: String,
    /// Names of `service[]`.
    pub services: BTreeSet<String>,
}

/// A virtual machine (listVirtualMachines with details min, nics and servoff).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtualMachine {
    /// `id`, lower case.
    pub id: VirtualMachineId,
    /// `name`: the host name that the guest gets.
    pub name: String,
    /// `state`, as listed.
    pub state: String,
    /// `zonename`.
    pub zone: String,
    /// `serviceofferingname`.
    pub offering: Option<String>,
    /// `nic[]`.
    pub nics: Vec<Nic>,
    /// `publicip`: of static NAT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<Ipv4Addr>,
}

impl VirtualMachine {
    /// The NIC of a network, if it has an IPv4 address there.
    pub fn nic_in(&self, network: &NetworkId) -> Option<&Nic> {
        self.nics.iter().find(|nic| &nic.network == network && nic.ipv4.is_some())
    }

    /// The default NIC.
    pub fn default_nic(&self) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.default)
    }

    /// Whether an address is one of its NICs'.
    pub fn has_address(&self, address: &IpAddr) -> bool {
        self.nics.iter().any(|nic| match address {
            IpAddr::V4(v4) => nic.ipv4 == Some(*v4),
            IpAddr::V6(v6) => nic.ipv6.as_ref() == Some(v6),
        })
    }
}

/// A NIC of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// `networkid`.
    pub network: NetworkId,
    /// `networkname`.
    pub network_name: String,
    /// `ipaddress`.
    pub ipv4: Option<Ipv4Addr>,
    /// `ip6address`.
    pub ipv6: Option<std::net::Ipv6Addr>,
    /// `isdefault`.
    pub default: bool,
    /// `deviceid`.
    pub device: u32,
}

/// What is known of the job of an associateIpAddress (queryAsyncJobResult).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssociateJob {
    /// `jobstatus` 0.
    Pending,
    /// `jobstatus` 1, with the `id` in its result.
    Succeeded(PublicIpId),
    /// `jobstatus` 2, with its `jobinstanceid` if it has one.
    Failed(Option<PublicIpId>),
    /// 431: no such job, now.
    Unknown,
}
