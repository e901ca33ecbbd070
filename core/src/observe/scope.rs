//! What to fetch, decided from what is wanted and recorded.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::ids::{JobId, ProjectId, PublicIpId};
use crate::model::Desired;
use crate::model::policy::Policy;
use crate::model::service::Service;

/// What an observation must cover. Everything else comes with the bulk lists: virtual machines,
/// networks, VPCs, allocated addresses, load balancer rules, firewall rules, ACL lists and items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// `projectid` of every list.
    pub project: Option<ProjectId>,
    /// Addresses that Services ask for: they may be free, and free ones are listed only by
    /// `ipaddress` with `allocatedonly=false`.
    pub addresses: BTreeSet<Ipv4Addr>,
    /// Addresses that Services record: an Allocating or Releasing one is listed only by state.
    pub address_ids: BTreeSet<PublicIpId>,
    /// Jobs that intents name.
    pub jobs: BTreeSet<JobId>,
}

impl Scope {
    /// What planning these Services needs.
    pub fn new(desired: &Desired, policy: &Policy) -> Self {
        let mut scope = Self { project: policy.project.clone(), ..Self::default() };
        for service in desired.services.values() {
            scope.add(service);
        }
        scope
    }

    /// What planning one of them depends on. What another one asks for or waits for is no concern of
    /// it, but for addresses that it asks for or holds itself.
    pub fn of(service: &Service, policy: &Policy) -> Self {
        let mut scope = Self { project: policy.project.clone(), ..Self::default() };
        scope.add(service);
        scope
    }

    /// Whether a state of this scope tells everything that one of the other would.
    pub fn covers(&self, other: &Self) -> bool {
        let Self { project, addresses, address_ids, jobs } = other;
        self.project == *project
            && self.addresses.is_superset(addresses)
            && self.address_ids.is_superset(address_ids)
            && self.jobs.is_superset(jobs)
    }

    fn add(&mut self, service: &Service) {
        self.addresses.extend(service.requested_address);
        let recorded = &service.recorded;
        let published = recorded.ingress.iter().filter_map(|entry| entry.ip.as_deref());
        self.addresses.extend(published.filter_map(|ip| ip.parse::<Ipv4Addr>().ok()));
        self.jobs.extend(recorded.intents.as_slice().iter().map(|intent| intent.job.clone()));
        let record = recorded.record.iter().flat_map(|record| &record.addresses);
        self.address_ids.extend(record.map(|address| address.id.clone()));
        self.address_ids.extend(recorded.fork.iter().map(|fork| fork.address.clone()));
    }
}
