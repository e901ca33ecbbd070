//! What is *not* in a plan, and why: refusals, things waited for, things left alone.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{
    ClusterId, FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, NetworkId, PublicIpId,
    ServiceKey, ServiceUid, VirtualMachineId,
};
use crate::model::service::Port;
use crate::parse::{ParseErrors, SpecWarning};

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Seen, not ours, left alone.
    LeftAlone,
    /// Worth knowing.
    Warning,
    /// Wanted, but not possible yet.
    Waiting,
    /// Wanted, but refused until somebody changes something.
    Blocked,
}

/// All notes of one plan.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order in which the planners found them.
    pub notes: Vec<Note>,
}

impl Report {
    /// Adds a note, once.
    pub fn add(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Whether something wanted was refused.
    pub fn is_blocked(&self) -> bool {
        self.notes.iter().any(|note| note.severity() == Severity::Blocked)
    }

    /// When to look again even if nothing changes; `None`: at the next drift round.
    pub fn look_again(&self) -> Option<Duration> {
        self.notes.iter().filter_map(Note::look_again).min()
    }
}

/// Why a rule or opening of somebody else matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// Another Service of this cluster.
    Service(ServiceKey),
    /// Something that CloudStack counts and we can't see.
    Unseen,
    /// A rule that is not ours, with its name.
    Rule {
        /// Its id.
        id: LoadBalancerRuleId,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(key) => write!(f, "Service {key}"),
            Self::Unseen => {
                f.write_str("something that we can't see (a port forward, static NAT, a VPN)")
            }
            Self::Rule { id, name } => write!(f, "rule {name:?} ({id}), which is not ours"),
        }
    }
}

macro_rules! notes {
    ($($(#[$doc:meta])* $severity:ident $variant:ident { $($field:ident: $type:ty),* } => $text:literal,)*) => {
        /// One thing that is not in a plan.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Note {
            $($(#[$doc])* $variant {
                $(#[doc = concat!("The `", stringify!($field), "` of the sentence.")] $field: $type),*
            }),*
        }

        impl Note {
            /// Its stable code.
            pub fn code(&self) -> &'static str {
                match self { $(Self::$variant { $($field: _),* } => stringify!($variant)),* }
            }

            /// How much it matters.
            pub fn severity(&self) -> Severity {
                match self { $(Self::$variant { $($field: _),* } => Severity::$severity),* }
            }

            /// Every code with its severity and sentence, for the reference.
            pub const CODES: &'static [(&'static str, Severity, &'static str)] =
                &[$((stringify!($variant), Severity::$severity, $text)),*];
        }

        impl fmt::Display for Note {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$variant { $($field),* } => write!(f, $text)),* }
            }
        }
    };
}

notes! {
    /// The Service can't be read.
    Blocked InvalidSpec { errors: ParseErrors } => "{errors}",
    /// The network of the nodes is not visible.
    Blocked NetworkNotFound { network: NetworkId, nodes: String, project: String } => "could not find network {network} of {nodes}; the scope is {project}: check `project-id` in the cloud-config and that the account of the API key may see the network",
    /// No node tells the network.
    Blocked NetworkUnknown { nodes: String, project: String } => "could not find network: no eligible node has a virtual machine with a default NIC that we can see ({nodes}); the scope is {project}: check `project-id` in the cloud-config and that nodes are called as their virtual machines",
    /// The network has no balancer.
    Blocked NetworkWithoutLoadBalancer { network: NetworkId, name: String } => "network {name:?} ({network}) has no Lb service; choose a network offering with one, or give the Service a loadBalancerClass",
    /// The requested address is not there.
    Blocked AddressNotFound { address: Ipv4Addr } => "could not find IP address {address}: it is neither allocated to this account or project nor free",
    /// The requested address is used for static NAT.
    Blocked AddressIsStaticNat { address: Ipv4Addr, machine: String } => "address {address} is static NAT for virtual machine {machine:?}; no load balancer rule can be on it",
    /// The requested address belongs to a network without nodes.
    Blocked AddressInOtherNetwork { address: Ipv4Addr, network: String } => "address {address} belongs to network {network:?}, in which no eligible node has a NIC",
    /// The requested address can't be used in its state.
    Waiting AddressNotReady { address: Ipv4Addr, state: String } => "address {address} is {state} in CloudStack",
    /// Another Service associates the address first.
    Waiting AddressTakenFirst { address: Ipv4Addr, service: ServiceKey } => "address {address} is associated for Service {service} first",
    /// An associate call is out.
    Waiting AssociateRunning { job: JobId } => "an associate call may still be running as job {job}",
    /// Nobody can say what became of an associate call.
    Warning AssociateLost { job: JobId } => "job {job} of an associate call is no longer known to CloudStack; look for an address without rules that was allocated then, and release it",
    /// The recorded address is not seen, and may be there all the same.
    Waiting AddressNotSeen { address: PublicIpId } => "address {address} is recorded, and CloudStack's list does not show it: nothing is done until it does, or has not for two minutes",
    /// The recorded address is gone.
    Warning AddressGone { address: PublicIpId } => "address {address} was released or re-allocated behind our back",
    /// The port is taken on this address.
    Blocked PortTaken { port: Port, address: Ipv4Addr, by: Blocker } => "port {port} of {address} is taken by {by}",
    /// CloudStack can't serve the same port twice.
    Blocked PortTwice { port: Port, other: Port } => "port {port} can't be served beside {other}: CloudStack has one rule per address and port number, whatever the protocol",
    /// UDP on a virtual router.
    Blocked UdpNotServed { port: Port, network: String } => "port {port}: the virtual router of network {network:?} can't balance UDP; drop the port, or use a network with another Lb provider",
    /// A protocol without a balancer.
    Blocked ProtocolNotServed { port: u16, protocol: String } => "port {port}: CloudStack balances TCP and UDP, not {protocol}",
    /// A port that the router needs for itself.
    Blocked PortReserved { port: Port, why: String } => "port {port} can't be served: {why}",
    /// Source lists need 4.18.
    Blocked SourcesNotServed { version: String } => "this CloudStack ({version}) takes no source list on load balancer rules; 4.18 does, and spec.loadBalancerSourceRanges works where the network has a firewall",
    /// The list does not fit.
    Blocked SourcesTooLong { length: usize, limit: usize, fitting: usize } => "`source-ranges-mode` is strict and spec.loadBalancerSourceRanges has {length} characters, of which a load balancer rule keeps {limit}: the first {fitting} networks would fit; aggregate them",
    /// Two settings contradict each other in strict mode.
    Blocked SourcesContradict { annotation: String, ranges: String } => "`source-ranges-mode` is strict and the Service asks for {annotation} in its annotation and {ranges} in spec.loadBalancerSourceRanges; make them equal or drop one",
    /// No node is eligible.
    Warning NoEligibleNodes { } => "There are no available nodes for LoadBalancer",
    /// No node could be matched, so members stay.
    Warning MembersKept { nodes: String } => "no eligible node could be matched to a virtual machine in this network ({nodes}); the last known members stay",
    /// A node has no VM.
    Warning NodeWithoutMachine { node: String, id: String, scope: String } => "node {node:?} has no virtual machine in {scope}, neither by its providerID ({id}) nor by its name; it serves nothing: set project-id if the machine is in another project, and the providerID if it is called otherwise",
    /// A node has several VMs.
    Warning NodeAmbiguous { node: String, candidates: String } => "node {node:?} could be any of the virtual machines {candidates}; set its providerID",
    /// A node has no NIC in the network.
    Warning NodeOutsideNetwork { node: String, machine: VirtualMachineId, network: String } => "node {node:?} (virtual machine {machine}) has no address in network {network:?}; it serves nothing there",
    /// A node's VM was replaced.
    Warning ProviderIDStale { node: String, stale: VirtualMachineId, machine: VirtualMachineId } => "node {node:?} names virtual machine {stale}, which is gone; {machine} has its name and address and serves in its place: delete the Node object to renew it",
    /// Opening and status wait for a member.
    Waiting NoMembersYet { port: Port } => "port {port} has no member yet; it is opened and published with the first one",
    /// Ranges have no effect on ACL networks.
    Warning RangesWithoutEffect { network: String } => "spec.loadBalancerSourceRanges has no effect on network {network:?}, which has network ACLs and no firewall; use annotation `service.beta.kubernetes.io/cloudstack-load-balancer-source-cidrs` instead",
    /// The tier's list denies everything and can't be edited.
    Warning AclListDenies { network: String, list: String } => "network {network:?} uses ACL list {list:?}, which can't be edited and may deny this traffic",
    /// ACL items can't be listed.
    Warning AclNotVisible { network: String } => "the role may not list network ACL items; openings in network {network:?} are not managed",
    /// A deny item stands before any free number.
    Warning AclBlockedByDeny { port: Port, item: NetworkAclItemId } => "ACL item {item} denies port {port} and no smaller number is free: the port stays closed until somebody renumbers it",
    /// Somebody else opened the port.
    LeftAlone OpenedByOthers { port: Port, rule: FirewallRuleId } => "port {port} is open through firewall rule {rule}, which is not ours",
    /// Somebody else's rule on an address of ours.
    LeftAlone ForeignRule { rule: LoadBalancerRuleId, name: String, address: Ipv4Addr } => "rule {name:?} ({rule}) on {address} is not ours",
    /// A rule of a Service that is not here.
    LeftAlone RuleOfUnknownService { rule: LoadBalancerRuleId, cluster: ClusterId, service: ServiceUid } => "rule {rule} was made for Service {service} of cluster {cluster}, which is not here",
    /// The address stays because it was the user's.
    LeftAlone AddressOfUser { address: Ipv4Addr } => "address {address} was not associated by us; it stays allocated",
    /// The address stays because people keep it.
    LeftAlone AddressKept { address: Ipv4Addr, by: String } => "address {address} stays allocated: {by}",
    /// The address stays because others use it.
    Warning AddressInUse { address: Ipv4Addr, by: String } => "address {address} is ours but stays: {by}",
    /// The address stays for want of proof.
    Warning AddressUnproven { address: Ipv4Addr } => "nothing proves that address {address} was associated for this Service; it stays allocated when the Service goes: release it by hand if it was",
    /// Another Service must record the address as ours first.
    Waiting VerdictNotHandedOver { address: PublicIpId, service: ServiceKey } => "address {address} goes over to Service {service}, which has not recorded yet whether it is ours",
    /// The adopted ACL item stays.
    LeftAlone AclItemKept { item: NetworkAclItemId, by: String } => "ACL item {item} stays: {by}",
    /// Tags are wanted and can't be had.
    Warning TagsDenied { } => "ownership-tags is on, but the role may not use createTags; nothing is tagged, ownership is known without",
    /// A copied manifest.
    Warning RecordOfAnotherService { } => "the annotations hold the record of another Service (a copied or restored manifest); they are overwritten",
    /// A manifest without uid.
    Blocked ManifestWithoutUid { address: Ipv4Addr, uid: ServiceUid } => "the rules on {address} were made for Service uid {uid}, and this manifest has another or none: take the manifest from the cluster",
    /// Something odd in the Service.
    Warning OddSpec { warning: SpecWarning } => "{warning}",
}

impl Note {
    fn look_again(&self) -> Option<Duration> {
        match self.severity() {
            Severity::LeftAlone => None,
            Severity::Warning => {
                let passing =
                    ["NodeWithoutMachine", "NodeOutsideNetwork", "NodeAmbiguous", "MembersKept"];
                passing.contains(&self.code()).then_some(Duration::from_secs(30))
            }
            Severity::Waiting => Some(Duration::from_secs(5)),
            Severity::Blocked => Some(Duration::from_mins(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let codes: std::collections::BTreeSet<_> =
            Note::CODES.iter().map(|(code, ..)| code).collect();
        assert_eq!(codes.len(), Note::CODES.len());
    }
}
