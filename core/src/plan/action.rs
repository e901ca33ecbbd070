//! What can be done, one variant per API command or Kubernetes write.
//!
//! Argument structs are generic over how they name objects: by reference in a plan ([`Action`]),
//! by id in a call ([`Call`]). [`Action::resolve`] leads from one to the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cidr::{CidrSet, Sources};
use crate::ids::{
    ClusterId, FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, NetworkAclListId,
    NetworkId, ProjectId, PublicIpId, ResourceId, ServiceKey, ServiceUid, VirtualMachineId, VpcId,
};
use crate::model::record::{AddressRecord, Intents, MemberDigest, Opening, Record, Verdict};
use crate::model::service::{Algorithm, Port, RuleProtocol};
use crate::plan::StepId;

/// An object that exists, or that an earlier step of the same plan makes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ref<I> {
    /// It exists.
    Existing(I),
    /// A step makes it.
    Pending(Pending<I>),
}

/// What a step will make. Only the plan builder creates these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending<I> {
    step: StepId,
    kind: PhantomData<I>,
}

impl<I> Pending<I> {
    pub(super) fn new(step: StepId) -> Self {
        Self { step, kind: PhantomData }
    }

    /// The step that makes it.
    pub fn step(&self) -> &StepId {
        &self.step
    }
}

impl<I> Ref<I> {
    /// The step that makes the object, if one does.
    pub fn pending(&self) -> Option<&StepId> {
        match self {
            Self::Existing(_) => None,
            Self::Pending(pending) => Some(&pending.step),
        }
    }
}

impl<I: fmt::Display> fmt::Display for Ref<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Existing(id) => write!(f, "{id}"),
            Self::Pending(pending) => write!(f, "${}", pending.step),
        }
    }
}

/// Where a new address goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// `networkid`: an isolated network.
    Network(NetworkId),
    /// `vpcid`: a VPC; never with one of its tiers.
    Vpc(VpcId),
}

/// associateIpAddress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociateIpAddress {
    /// `networkid` or `vpcid`.
    pub placement: Placement,
    /// `ipaddress`: this one, free so far; else any.
    pub address: Option<Ipv4Addr>,
    /// `projectid`.
    pub project: Option<ProjectId>,
    /// `customjobid`: the witness after a crash. Sent once.
    pub job: JobId,
    /// `expires` of the request: the server refuses it afterwards.
    pub expires: Timestamp,
}

/// Reads afresh what is on an address, right before its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckAddressUnused {
    /// The address.
    pub address: PublicIpId,
    /// The allocation that is ours.
    pub allocated: String,
}

/// disassociateIpAddress. Everything on the address goes with it, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisassociateIpAddress {
    /// `id`.
    pub address: PublicIpId,
}

/// createLoadBalancerRule; always with `openfirewall=false`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateLoadBalancerRule<A> {
    /// `publicipid`.
    pub address: A,
    /// `networkid`.
    pub network: NetworkId,
    /// `name`.
    pub name: String,
    /// `description`.
    pub description: String,
    /// `publicport`.
    pub public_port: u16,
    /// `privateport`: the node port.
    pub private_port: u16,
    /// `protocol`.
    pub protocol: RuleProtocol,
    /// `algorithm`.
    pub algorithm: Algorithm,
    /// `cidrlist`; not sent for everybody.
    pub sources: Sources,
}

/// updateLoadBalancerRule. The server wants `protocol` in every one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateLoadBalancerRule {
    /// `id`.
    pub rule: LoadBalancerRuleId,
    /// `protocol`, lower case.
    pub protocol: RuleProtocol,
    /// `name`.
    pub name: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `algorithm`.
    pub algorithm: Option<Algorithm>,
    /// `cidrlist`; everybody is sent as an empty list.
    pub sources: Option<Sources>,
}

/// deleteLoadBalancerRule. Unmaps the members too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteLoadBalancerRule {
    /// `id`.
    pub rule: LoadBalancerRuleId,
}

/// assignToLoadBalancerRule. Refused as a whole for one bad or already mapped VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignToLoadBalancerRule<R> {
    /// `id`.
    pub rule: R,
    /// `virtualmachineids`; never empty.
    pub vms: BTreeSet<VirtualMachineId>,
}

/// removeFromLoadBalancerRule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveFromLoadBalancerRule {
    /// `id`.
    pub rule: LoadBalancerRuleId,
    /// `virtualmachineids`; never empty.
    pub vms: BTreeSet<VirtualMachineId>,
}

/// createFirewallRule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateFirewallRule<A> {
    /// `ipaddressid`.
    pub address: A,
    /// `protocol`, `startport` and `endport`.
    pub port: Port,
    /// `cidrlist`; never empty.
    pub cidrs: CidrSet,
    /// Nobody can say whether this VPC has a Firewall service: this call finds out.
    pub trial: Option<VpcId>,
}

/// deleteFirewallRule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteFirewallRule {
    /// `id`.
    pub rule: FirewallRuleId,
    /// The port that it closes, for people.
    pub port: Port,
    /// Whom it let in, for people.
    pub cidrs: CidrSet,
}

/// Which list a new ACL item goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclTarget {
    /// `aclid`.
    List(NetworkAclListId),
    /// `networkid`: the tier has no list yet; the server makes one.
    Network(NetworkId),
}

/// createNetworkACL: Ingress, Allow, 0.0.0.0/0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateNetworkAcl {
    /// `aclid` or `networkid`.
    pub target: AclTarget,
    /// `protocol`, `startport` and `endport`.
    pub port: Port,
    /// `number`; the server appends if it is absent.
    pub number: Option<u32>,
    /// `reason`.
    pub reason: String,
}

/// deleteNetworkACL: one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteNetworkAcl {
    /// `id`.
    pub item: NetworkAclItemId,
    /// The list that it is in.
    pub list: NetworkAclListId,
    /// The port that it closes, for people.
    pub port: Port,
}

/// `resourcetype` of createTags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceType {
    /// An address.
    PublicIpAddress,
    /// A load balancer rule.
    LoadBalancer,
    /// A firewall rule.
    FirewallRule,
    /// A network ACL item, not a list.
    NetworkAcl,
}

impl ResourceType {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PublicIpAddress => "PublicIpAddress",
            Self::LoadBalancer => "LoadBalancer",
            Self::FirewallRule => "FirewallRule",
            Self::NetworkAcl => "NetworkACL",
        }
    }
}

/// createTags: all of them on all objects, or none on any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTags<O> {
    /// `resourcetype`.
    pub resource: ResourceType,
    /// `resourceids`; never empty.
    pub objects: Vec<O>,
    /// `tags[i].key` and `tags[i].value`.
    pub tags: [(&'static str, String); 3],
}

/// One patch of `services/status`. `A` names addresses, `R` rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchService<A, R> {
    /// The Service.
    pub service: ServiceKey,
    /// Its `metadata.uid`: another Service of that name is not written to.
    pub uid: ServiceUid,
    /// The finalizer.
    pub finalizer: Option<FinalizerChange>,
    /// `…-ip-associated-by-controller`.
    pub verdict: Edit<Verdict>,
    /// `…-ip-intent`.
    pub intents: Edit<Intents>,
    /// `…-record`.
    pub record: Edit<RecordDraft<A, R>>,
    /// `status.loadBalancer.ingress`.
    pub ingress: Option<IngressDraft<A>>,
}

impl<A, R> PatchService<A, R> {
    /// A patch that changes nothing.
    pub const fn nothing(service: ServiceKey, uid: ServiceUid) -> Self {
        Self {
            service,
            uid,
            finalizer: None,
            verdict: Edit::Keep,
            intents: Edit::Keep,
            record: Edit::Keep,
            ingress: None,
        }
    }
}

/// A patch in a plan.
pub type PlannedPatch = PatchService<Ref<ResolvedAddress>, Ref<LoadBalancerRuleId>>;

/// A patch with every id known.
pub type ResolvedPatch = PatchService<ResolvedAddress, LoadBalancerRuleId>;

/// What becomes of an annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Edit<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It gets this value.
    Set(T),
    /// It goes.
    Remove,
}

impl<T> Edit<T> {
    /// The value to set.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Remove => None,
        }
    }

    /// The same edit of what `f` makes of the value.
    pub fn map<U>(&self, f: impl FnOnce(&T) -> U) -> Edit<U> {
        match self {
            Self::Keep => Edit::Keep,
            Self::Set(value) => Edit::Set(f(value)),
            Self::Remove => Edit::Remove,
        }
    }

    /// Whether nothing changes.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

/// What becomes of the finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinalizerChange {
    /// Set.
    Add,
    /// Removed.
    Remove,
}

/// A record to write, before all its ids are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordDraft<A, R> {
    /// The addresses, the current one first.
    pub addresses: Vec<AddressDraft<A>>,
    /// Openings by content.
    pub openings: BTreeSet<Opening>,
    /// Adopted ACL items.
    pub acl: BTreeSet<NetworkAclItemId>,
    /// See [`crate::model::record::Record::firewall`].
    pub firewall: Option<bool>,
    /// Digest by port, each with the rule that it is believed for.
    pub members: BTreeMap<Port, MemberDraft<R>>,
}

impl RecordDraft<ResolvedAddress, LoadBalancerRuleId> {
    /// The record, once every id is known.
    pub fn to_record(&self, cluster: &ClusterId, service: &ServiceUid) -> Record {
        let Self { addresses, openings, acl, firewall, members } = self;
        let address = |AddressDraft { address, ours }: &AddressDraft<ResolvedAddress>| {
            let (id, allocated) = (address.id.clone(), address.allocated.clone());
            AddressRecord { id, allocated, ours: *ours }
        };
        let member = |MemberDraft { rule, digest }: &MemberDraft<LoadBalancerRuleId>| {
            MemberDigest { rule: rule.short().to_owned(), digest: digest.clone() }
        };
        Record {
            cluster: cluster.clone(),
            service: service.clone(),
            addresses: addresses.iter().map(address).collect(),
            openings: openings.clone(),
            acl: acl.clone(),
            firewall: *firewall,
            members: members.iter().map(|(port, draft)| (*port, member(draft))).collect(),
        }
    }
}

/// An address to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressDraft<A> {
    /// The address.
    pub address: A,
    /// Whether we associated it.
    pub ours: bool,
}

/// A digest to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDraft<R> {
    /// The rule.
    pub rule: R,
    /// Of its members; empty if nobody vouches for them.
    pub digest: String,
}

/// A status to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngressDraft<A> {
    /// Nothing.
    Empty,
    /// An address with its ipMode.
    Address {
        /// The address.
        address: A,
        /// `VIP` or `Proxy`.
        ip_mode: IpMode,
    },
    /// A name.
    Hostname(String),
}

/// `ipMode` of an ingress entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpMode {
    /// Traffic keeps the address as destination; pods may short-cut it.
    #[serde(rename = "VIP")]
    Vip,
    /// Traffic must pass through the balancer.
    Proxy,
}

impl IpMode {
    /// As the API server spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Proxy => "Proxy",
        }
    }
}

macro_rules! actions {
    ($($(#[$doc:meta])* $variant:ident($planned:ty, $resolved:ty), $command:literal, $kind:ident;)*) => {
        /// A planned step's deed.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Action { $($(#[$doc])* $variant($planned)),* }

        /// A deed with every id known.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Call { $($(#[$doc])* $variant($resolved)),* }

        impl Action {
            /// The API command or Kubernetes write.
            pub fn command(&self) -> &'static str {
                match self { $(Self::$variant(_) => $command),* }
            }

            /// What kind of deed it is.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind::$kind),* }
            }
        }

        impl Call {
            /// The API command or Kubernetes write.
            pub fn command(&self) -> &'static str {
                match self { $(Self::$variant(_) => $command),* }
            }

            /// What kind of deed it is.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind::$kind),* }
            }
        }
    };
}

/// What kind of deed an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It changes CloudStack.
    Change,
    /// It only reads CloudStack.
    Read,
    /// It writes to Kubernetes.
    Write,
}

actions! {
    /// See [`AssociateIpAddress`].
    AssociateIpAddress(AssociateIpAddress, AssociateIpAddress), "associateIpAddress", Change;
    /// See [`CheckAddressUnused`].
    CheckAddressUnused(CheckAddressUnused, CheckAddressUnused), "listPublicIpAddresses", Read;
    /// See [`DisassociateIpAddress`].
    DisassociateIpAddress(DisassociateIpAddress, DisassociateIpAddress), "disassociateIpAddress", Change;
    /// See [`CreateLoadBalancerRule`].
    CreateLoadBalancerRule(CreateLoadBalancerRule<Ref<PublicIpId>>, CreateLoadBalancerRule<PublicIpId>), "createLoadBalancerRule", Change;
    /// See [`UpdateLoadBalancerRule`].
    UpdateLoadBalancerRule(UpdateLoadBalancerRule, UpdateLoadBalancerRule), "updateLoadBalancerRule", Change;
    /// See [`DeleteLoadBalancerRule`].
    DeleteLoadBalancerRule(DeleteLoadBalancerRule, DeleteLoadBalancerRule), "deleteLoadBalancerRule", Change;
    /// See [`AssignToLoadBalancerRule`].
    AssignToLoadBalancerRule(AssignToLoadBalancerRule<Ref<LoadBalancerRuleId>>, AssignToLoadBalancerRule<LoadBalancerRuleId>), "assignToLoadBalancerRule", Change;
    /// See [`RemoveFromLoadBalancerRule`].
    RemoveFromLoadBalancerRule(RemoveFromLoadBalancerRule, RemoveFromLoadBalancerRule), "removeFromLoadBalancerRule", Change;
    /// See [`CreateFirewallRule`].
    CreateFirewallRule(CreateFirewallRule<Ref<PublicIpId>>, CreateFirewallRule<PublicIpId>), "createFirewallRule", Change;
    /// See [`DeleteFirewallRule`].
    DeleteFirewallRule(DeleteFirewallRule, DeleteFirewallRule), "deleteFirewallRule", Change;
    /// See [`CreateNetworkAcl`].
    CreateNetworkAcl(CreateNetworkAcl, CreateNetworkAcl), "createNetworkACL", Change;
    /// See [`DeleteNetworkAcl`].
    DeleteNetworkAcl(DeleteNetworkAcl, DeleteNetworkAcl), "deleteNetworkACL", Change;
    /// See [`CreateTags`].
    CreateTags(CreateTags<Ref<ResourceId>>, CreateTags<ResourceId>), "createTags", Change;
    /// See [`PatchService`].
    PatchService(PlannedPatch, ResolvedPatch), "patch services/status", Write;
}

/// An address with everything that a Kubernetes write says of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResolvedAddress {
    /// `id`.
    pub id: PublicIpId,
    /// `ipaddress`.
    pub address: Ipv4Addr,
    /// `allocated` as listed.
    pub allocated: String,
}

impl Action {
    /// The steps whose results it needs.
    pub fn references(&self) -> Vec<&StepId> {
        let mut steps = Vec::new();
        match self {
            Self::CreateLoadBalancerRule(create) => steps.extend(create.address.pending()),
            Self::AssignToLoadBalancerRule(assign) => steps.extend(assign.rule.pending()),
            Self::CreateFirewallRule(create) => steps.extend(create.address.pending()),
            Self::CreateTags(create) => {
                steps.extend(create.objects.iter().filter_map(Ref::pending));
            }
            Self::PatchService(patch) => steps.extend(patch.references()),
            Self::AssociateIpAddress(_)
            | Self::CheckAddressUnused(_)
            | Self::DisassociateIpAddress(_)
            | Self::UpdateLoadBalancerRule(_)
            | Self::DeleteLoadBalancerRule(_)
            | Self::RemoveFromLoadBalancerRule(_)
            | Self::DeleteFirewallRule(_)
            | Self::CreateNetworkAcl(_)
            | Self::DeleteNetworkAcl(_) => {}
        }
        steps
    }
}

impl PlannedPatch {
    fn references(&self) -> Vec<&StepId> {
        let Self { service: _, uid: _, finalizer: _, verdict: _, intents: _, record, ingress } =
            self;
        let mut steps: Vec<&StepId> = Vec::new();
        if let Some(draft) = record.value() {
            steps.extend(draft.addresses.iter().filter_map(|entry| entry.address.pending()));
            steps.extend(draft.members.values().filter_map(|entry| entry.rule.pending()));
        }
        if let Some(IngressDraft::Address { address, ip_mode: _ }) = ingress {
            steps.extend(address.pending());
        }
        steps
    }
}
