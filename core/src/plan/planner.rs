//! Everything that all Services have in common, worked out once; then one plan per Service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jiff::Timestamp;
use thiserror::Error;

use crate::ids::{LoadBalancerRuleId, PublicIpId, ServiceKey};
use crate::model::Desired;
use crate::model::policy::Policy;
use crate::model::service::{Lifecycle, Service};
use crate::observe::index::Observed;
use crate::observe::machines::Machines;
use crate::observe::ownership::{Owners, Proof};
use crate::plan::report::Note;
use crate::plan::standing::{self, Standing};
use crate::plan::{Planned, ensure, member, teardown};

/// The inputs of planning with what follows from them for all Services.
#[derive(Debug)]
pub struct Planner<'a> {
    /// What is wanted.
    pub desired: &'a Desired,
    /// What is there.
    pub observed: &'a Observed,
    /// How it is done here.
    pub policy: &'a Policy,
    /// The instant of planning.
    pub now: Timestamp,
    /// Nodes matched to virtual machines.
    pub machines: Machines,
    /// Owners of rules.
    pub owners: Owners<'a>,
    standings: BTreeMap<&'a ServiceKey, Standing<'a>>,
    holders: BTreeMap<PublicIpId, BTreeSet<&'a ServiceKey>>,
    requesters: BTreeMap<Ipv4Addr, BTreeSet<&'a ServiceKey>>,
}

/// How much of what a record vouches for is read all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Nothing: after a restart, after an event.
    Quick,
    /// The rules whose turn it is: in `of` rounds in a row each one is read once.
    Turn {
        /// The number of the round.
        round: u32,
        /// In how many rounds all are read; at least 1.
        of: u32,
    },
    /// Everything.
    Thorough,
}

/// Planning was not possible.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// There is no such Service.
    #[error("there is no Service {0} of type LoadBalancer, and none that was one")]
    NoSuchService(ServiceKey),
    /// The observation lacks members that [`Planner::members_to_read`] asks for.
    #[error(
        "the members of load balancer rule {0} were not read; observe again (please report this)"
    )]
    MembersNotRead(LoadBalancerRuleId),
}

impl<'a> Planner<'a> {
    /// Takes stock of everything.
    pub fn new(
        desired: &'a Desired,
        observed: &'a Observed,
        policy: &'a Policy,
        now: Timestamp,
    ) -> Self {
        let owners = Owners::new(desired, observed, policy);
        let machines =
            Machines::new(&desired.nodes, &observed.virtual_machines, policy.node_readiness);
        let inputs = standing::Inputs { desired, observed, policy, machines: &machines };
        let mut rules = standing::rules_by_owner(observed, &owners);
        let mut standings = BTreeMap::new();
        let mut holders: BTreeMap<PublicIpId, BTreeSet<&ServiceKey>> = BTreeMap::new();
        let mut requesters: BTreeMap<Ipv4Addr, BTreeSet<&ServiceKey>> = BTreeMap::new();
        for (key, service) in &desired.services {
            let rules = rules.remove(key).unwrap_or_default();
            let standing = standing::take(service, rules, &inputs, now);
            for holding in &standing.addresses {
                holders.entry(holding.id.clone()).or_default().insert(key);
            }
            if let Some(ip) = requested(service) {
                requesters.entry(ip).or_default().insert(key);
            }
            standings.insert(key, standing);
        }
        Self { desired, observed, policy, now, machines, owners, standings, holders, requesters }
    }

    /// Plans one Service.
    ///
    /// # Errors
    /// [`PlanError`] if the Service is not there or the observation is too narrow for it.
    pub fn plan(&self, key: &ServiceKey) -> Result<Planned, PlanError> {
        let missing = || PlanError::NoSuchService(key.clone());
        let service = self.desired.services.get(key).ok_or_else(missing)?;
        let standing = self.standings.get(key).ok_or_else(missing)?;
        if let Some(address) = standing.gone.iter().find(|address| !self.is_gone(address)) {
            return Ok(Planned::waiting(key, Note::AddressNotSeen { address: address.clone() }));
        }
        match (service.lifecycle, &service.spec) {
            (Lifecycle::Wanted, Ok(spec)) => ensure::plan(self, service, spec, standing),
            (Lifecycle::Wanted, Err(errors)) => Ok(ensure::refuse(self, service, standing, errors)),
            (Lifecycle::OtherClass, _) if !was_ours(service, standing) => {
                Ok(Planned::nothing(key.clone()))
            }
            (Lifecycle::Deleting | Lifecycle::OtherType | Lifecycle::OtherClass, _) => {
                Ok(teardown::plan(self, service, standing))
            }
        }
    }

    /// Rules whose members planning needs: those of wanted ports, and in a quick reading only
    /// those whose record does not vouch for them.
    pub fn members_to_read(&self, depth: Depth) -> BTreeSet<LoadBalancerRuleId> {
        self.standings.keys().flat_map(|key| self.members_to_read_of(key, depth)).collect()
    }

    /// As [`Planner::members_to_read`], for planning one Service only.
    pub fn members_to_read_of(
        &self,
        key: &ServiceKey,
        depth: Depth,
    ) -> BTreeSet<LoadBalancerRuleId> {
        let service = self.desired.services.get(key);
        let (Some(service), Some(standing)) = (service, self.standings.get(key)) else {
            return BTreeSet::new();
        };
        member::to_read(self, service, standing, depth).into_iter().collect()
    }

    /// Addresses that Services record and that are not seen. One with something on it was only left
    /// out: what is on an address goes with it.
    pub fn unseen(&self) -> BTreeSet<PublicIpId> {
        self.unseen_in(self.standings.values())
    }

    /// Those that one of them records.
    pub fn unseen_of(&self, key: &ServiceKey) -> BTreeSet<PublicIpId> {
        self.unseen_in(self.standings.get(key))
    }

    fn unseen_in<'s>(
        &self,
        standings: impl IntoIterator<Item = &'s Standing<'a>>,
    ) -> BTreeSet<PublicIpId>
    where
        'a: 's,
    {
        let unseen = standings.into_iter().flat_map(|standing| &standing.gone);
        unseen.filter(|address| !self.is_in_use(address)).cloned().collect()
    }

    fn is_in_use(&self, address: &PublicIpId) -> bool {
        let observed = self.observed;
        observed.rules_on(address).next().is_some()
            || observed.firewall_rules_on(address).next().is_some()
    }

    fn is_gone(&self, address: &PublicIpId) -> bool {
        self.desired.learned.is_gone(address, self.observed.at)
    }

    /// What a Service holds.
    pub fn standing(&self, key: &ServiceKey) -> Option<&Standing<'a>> {
        self.standings.get(key)
    }

    /// The other Services that hold an address, or ask for it.
    pub fn others_on(&self, address: &PublicIpId, than: &ServiceKey) -> Vec<&'a Service> {
        let ip = self.observed.addresses.get(address).map(|found| found.address);
        let holders = self.holders.get(address).into_iter().flatten();
        let requesters = ip.and_then(|ip| self.requesters.get(&ip)).into_iter().flatten();
        let others: BTreeSet<&ServiceKey> =
            holders.chain(requesters).copied().filter(|key| *key != than).collect();
        others.into_iter().filter_map(|key| self.desired.services.get(key)).collect()
    }

    /// The other Services that ask for a free address and come first: the older, then by name.
    pub fn first_requester(&self, ip: Ipv4Addr, than: &Service) -> Option<&'a Service> {
        let keys = self.requesters.get(&ip).into_iter().flatten();
        let services = keys.filter_map(|key| self.desired.services.get(*key));
        services.filter(|other| comes_before(other, than)).min_by_key(|other| seniority(other))
    }
}

/// Whether a Service of another class was ours before it got its class.
fn was_ours(service: &Service, standing: &Standing<'_>) -> bool {
    let marked = standing.rules.iter().any(|(_, proof)| *proof == Proof::Marked);
    service.recorded.record.is_some() || !service.recorded.intents.is_empty() || marked
}

/// Whether `one` has precedence over `other`.
pub(super) fn comes_before(one: &Service, other: &Service) -> bool {
    seniority(one) < seniority(other)
}

fn seniority(service: &Service) -> (Option<Timestamp>, &ServiceKey) {
    (service.created, &service.key)
}

fn requested(service: &Service) -> Option<Ipv4Addr> {
    service.requested_address.filter(|_| service.lifecycle == Lifecycle::Wanted)
}
