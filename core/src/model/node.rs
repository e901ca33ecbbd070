//! A Node as the planner sees it.

use std::net::IpAddr;

use crate::ids::VirtualMachineId;

/// A Node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// `spec.providerID`, read.
    pub provider_id: ProviderId,
    /// `status.addresses` of type `InternalIP`.
    pub internal_ips: Vec<IpAddr>,
    /// Whether load balancers send traffic to it: the framework's stable set.
    pub eligibility: Eligibility,
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
