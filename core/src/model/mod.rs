//! What is wanted: Services, Nodes and policy, valid by construction, with what each Service records.

pub mod absence;
pub mod mark;
pub mod node;
pub mod policy;
pub mod record;
pub mod rule_name;
pub mod service;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::ids::{JobId, PublicIpId, ResourceId, ServiceKey, VpcId};
use absence::Absences;
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
    /// Ports that createLoadBalancerRule refused as taken (537) by something that we can't see, with
    /// the time of the refusal. They are tried again once that is forgotten.
    pub taken_ports: BTreeMap<(PublicIpId, u16), Timestamp>,
    /// Addresses on which a fresh read found something that lists don't show, with what and when.
    pub held_addresses: BTreeMap<PublicIpId, (String, Timestamp)>,
    /// VPCs in which a first createFirewallRule was refused because they have no Firewall service.
    pub vpcs_without_firewall: BTreeSet<VpcId>,
    /// Objects that createTags failed for, with when. They are tried again once that is forgotten.
    pub untaggable: BTreeMap<ResourceId, Timestamp>,
    /// Recorded addresses that readings don't show. `None` where nothing is remembered from one plan
    /// to the next: then a single reading counts, and whoever reads the plan judges.
    pub absences: Option<Absences>,
}

impl Learned {
    /// How long what was found counts; then it is looked for again. Longer than any back-off: the
    /// plan after a failure must know of it.
    pub const MEMORY: SignedDuration = SignedDuration::from_mins(15);

    /// Nothing yet, where everything that is learned is remembered.
    pub fn remembering() -> Self {
        Self { absences: Some(Absences::default()), ..Self::default() }
    }

    /// See [`Absences::handle_reading`].
    pub fn handle_reading(
        &mut self,
        unseen: &BTreeSet<PublicIpId>,
        of_service: &BTreeSet<PublicIpId>,
        at: Timestamp,
    ) {
        if let Some(absences) = &mut self.absences {
            absences.handle_reading(unseen, of_service, at);
        }
    }

    /// Whether a recorded address that a reading which began at `at` does not show is gone.
    pub fn is_gone(&self, address: &PublicIpId, at: Timestamp) -> bool {
        self.absences.as_ref().is_none_or(|absences| absences.is_gone(address, at))
    }

    /// Takes what one more execution learned at `now`.
    pub fn absorb(&mut self, lessons: Lessons, now: Timestamp) {
        let Lessons {
            refused_jobs,
            taken_ports,
            held_addresses,
            vpcs_without_firewall,
            untaggable,
            released,
        } = lessons;
        self.refused_jobs.extend(refused_jobs);
        self.taken_ports.extend(taken_ports.into_iter().map(|port| (port, now)));
        let held = held_addresses.into_iter().map(|(address, by)| (address, (by, now)));
        self.held_addresses.extend(held);
        self.vpcs_without_firewall.extend(vpcs_without_firewall);
        self.untaggable.extend(untaggable.into_iter().map(|object| (object, now)));
        if let Some(absences) = &mut self.absences {
            absences.handle_released(released);
        }
        self.taken_ports.retain(|_, at| is_fresh(*at, now));
        self.held_addresses.retain(|_, (_, at)| is_fresh(*at, now));
        self.untaggable.retain(|_, at| is_fresh(*at, now));
    }

    /// What a fresh read found on an address not long ago.
    pub fn holder(&self, address: &PublicIpId, now: Timestamp) -> Option<&str> {
        let (by, at) = self.held_addresses.get(address)?;
        is_fresh(*at, now).then_some(by)
    }

    /// Whether tagging an object failed not long ago.
    pub fn is_untaggable(&self, object: &ResourceId, now: Timestamp) -> bool {
        self.untaggable.get(object).is_some_and(|at| is_fresh(*at, now))
    }

    /// Whether a port was refused as taken not long ago.
    pub fn is_taken(&self, address: &PublicIpId, port: u16, now: Timestamp) -> bool {
        let refused = self.taken_ports.get(&(address.clone(), port));
        refused.is_some_and(|at| is_fresh(*at, now))
    }
}

fn is_fresh(found: Timestamp, now: Timestamp) -> bool {
    now.duration_since(found) < Learned::MEMORY
}

/// What one execution learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lessons {
    /// See [`Learned::refused_jobs`].
    pub refused_jobs: BTreeSet<JobId>,
    /// See [`Learned::taken_ports`].
    pub taken_ports: BTreeSet<(PublicIpId, u16)>,
    /// See [`Learned::held_addresses`].
    pub held_addresses: BTreeMap<PublicIpId, String>,
    /// See [`Learned::vpcs_without_firewall`].
    pub vpcs_without_firewall: BTreeSet<VpcId>,
    /// See [`Learned::untaggable`].
    pub untaggable: BTreeSet<ResourceId>,
    /// Addresses that were released: that they are not seen any more is as it should be.
    pub released: BTreeSet<PublicIpId>,
}
