//! What is wanted: Services, Nodes and policy, valid by construction, with what each Service records.

pub mod mark;
pub mod node;
pub mod policy;
pub mod record;
pub mod rule_name;
pub mod service;

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{JobId, ServiceKey, VpcId};
use node::Node;
use service::Service;

/// Everything that is wanted of the cloud, as of one instant.
///
/// It holds every Service, not only the one to plan: shared addresses, port clashes and hand-over
/// need the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// All Services that concern us, by key.
    pub services: BTreeMap<ServiceKey, Service>,
    /// All Nodes, by name.
    pub nodes: BTreeMap<String, Node>,
    /// What earlier executions learned and nothing else remembers.
    pub learned: Learned,
}

/// Facts that only an execution can learn. Losing them (a restart) costs time, never safety.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Associate requests that the server refused at once: no job of that id will ever exist.
    pub refused_jobs: BTreeSet<JobId>,
    /// VPCs in which a first createFirewallRule was refused because they have no Firewall service.
    pub vpcs_without_firewall: BTreeSet<VpcId>,
}
