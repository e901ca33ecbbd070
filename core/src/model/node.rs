//! A Node as the planners see it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;

use crate::ids::{NodeUid, VirtualMachineId};
use crate::model::policy::NodeReadiness;

/// A Node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; absent in a manifest.
    pub uid: Option<NodeUid>,
    /// `metadata.creationTimestamp`; absent in a manifest.
    pub created: Option<Timestamp>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.providerID`, read.
    pub provider_id: ProviderId,
    /// Whether `spec.providerID` is set: the API server lets nobody change it then.
    pub has_provider_id: bool,
    /// Which of our taints it bears.
    pub taints: CloudTaints,
    /// Whether the condition `Ready` is True.
    pub ready: bool,
    /// `status.addresses`.
    pub addresses: Vec<NodeAddress>,
    /// Annotation `alpha.kubernetes.io/provided-node-ip`, as kubelet wrote it.
    pub provided_node_ip: Option<String>,
    /// Whether load balancers send traffic to it: the framework's stable set.
    pub eligibility: Eligibility,
}

impl Node {
    /// Its addresses of type `InternalIP`.
    pub fn internal_ips(&self) -> impl Iterator<Item = IpAddr> {
        let internal = self.addresses.iter().filter(|found| found.kind == AddressType::InternalIp);
        internal.filter_map(|found| found.address.parse().ok())
    }

    /// Whether its readiness lets it serve. One that does not serves only where no other can.
    pub fn is_preferred(&self, readiness: NodeReadiness) -> bool {
        match readiness {
            NodeReadiness::Ignore => true,
            NodeReadiness::Ready => self.ready,
        }
    }
}

/// Taints that a cloud controller manager reads or sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloudTaints {
    /// `node.cloudprovider.kubernetes.io/uninitialized`, with whatever effect.
    pub uninitialized: bool,
    /// `node.cloudprovider.kubernetes.io/shutdown`.
    pub shutdown: bool,
}

/// An entry of `status.addresses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAddress {
    /// `type`.
    pub kind: AddressType,
    /// `address`: an IP address or a name.
    pub address: String,
}

/// `type` of an entry of `status.addresses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressType {
    /// `InternalIP`.
    InternalIp,
    /// `ExternalIP`.
    ExternalIp,
    /// `Hostname`.
    Hostname,
    /// Any other, such as `InternalDNS`: we write none of these.
    Other(String),
}

impl AddressType {
    /// Reads the API's text.
    pub fn parse(text: &str) -> Self {
        match text {
            "InternalIP" => Self::InternalIp,
            "ExternalIP" => Self::ExternalIp,
            "Hostname" => Self::Hostname,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The API's text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::InternalIp => "InternalIP",
            Self::ExternalIp => "ExternalIP",
            Self::Hostname => "Hostname",
            Self::Other(text) => text,
        }
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, address } = self;
        write!(f, "{} {address}", kind.as_str())
    }
}

/// What `spec.providerID` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderId {
    /// Empty, or ours without an id.
    None,
    /// A virtual machine of CloudStack.
    CloudStack(VirtualMachineId),
    /// Of another cloud.
    Foreign(String),
}

/// Whether load balancers send traffic to a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// It is a member.
    Eligible,
    /// Label `node.kubernetes.io/exclude-from-external-load-balancers`.
    Excluded,
    /// In deletion.
    Deleting,
    /// Taint `ToBeDeletedByClusterAutoscaler`.
    ScaledDown,
}
