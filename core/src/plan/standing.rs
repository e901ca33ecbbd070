//! What a Service holds today: its addresses with their verdicts, its rules, its intent.
//!
//! Four bases, first hit wins: its record; the descriptions of rules that bear its uid (the record
//! was stripped, or Services come from files); what another controller left behind (adoption);
//! nothing. The result of a finished associate comes on top of any of them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Span, Timestamp, ToSpan as _};

use crate::ids::{PublicIpId, ServiceKey};
use crate::model::mark::Mark;
use crate::model::policy::{AdoptUnrecorded, Policy};
use crate::model::record::{Intent, Verdict};
use crate::model::service::{Lifecycle, Service};
use crate::model::{Desired, record};
use crate::observe::index::Observed;
use crate::observe::machines::{Machines, Match};
use crate::observe::ownership::{Owner, Owners, Proof, TAG_CLUSTER, TAG_SERVICE};
use crate::observe::{AddressState, AssociateJob, LoadBalancerRule, PublicIpAddress};

/// Where the knowledge about a Service's addresses comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The Service's record.
    Record,
    /// Descriptions of rules: the record is lost or was never kept.
    Marks,
    /// What another controller left.
    Adoption,
    /// It has nothing.
    Nothing,
}

/// An address that a Service holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The address.
    pub id: PublicIpId,
    /// Its allocation.
    pub allocated: String,
    /// Whether we release it when the Service goes.
    pub ours: bool,
}

/// What became of an associate call that may be out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntentState {
    /// The job runs, or may still be running.
    Open,
    /// The job is not known, although the request must be through by now: it never ran, or its
    /// memory comes late. A new call may be made; a Service that goes waits for the answer.
    Unanswered,
    /// It gave this address.
    Done(PublicIpId),
    /// It is over without an address that we could use.
    Over {
        /// An address that it left half-made.
        leftover: Option<PublicIpId>,
    },
    /// Nobody can say any more: a person decides.
    Lost,
}

/// What a Service holds today.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    /// Where this is known from.
    pub basis: Basis,
    /// Addresses that are there, the current one first.
    pub addresses: Vec<Holding>,
    /// Addresses that are recorded but gone, or allocated to something else by now.
    pub gone: BTreeSet<PublicIpId>,
    /// Its rules, in any state, on any address, with their proof.
    pub rules: Vec<(&'a LoadBalancerRule, Proof)>,
    /// Addresses that are kept for want of proof.
    pub unproven: BTreeSet<PublicIpId>,
    /// Its intents with what became of them, the latest first.
    pub intents: Vec<(Intent, IntentState)>,
}

/// How long an associate request may still be running when its job is not known.
const REQUEST_MAY_RUN_MINUTES: i64 = 15;
/// How long the server remembers jobs (`job.expire.minutes` is a day; half of it is safe).
const JOB_MEMORY_HOURS: i64 = 12;

impl<'a> Standing<'a> {
    /// The holding of an address.
    pub fn holding(&self, id: &PublicIpId) -> Option<&Holding> {
        self.addresses.iter().find(|holding| &holding.id == id)
    }

    /// Its rules on an address.
    pub fn rules_on(&self, address: &PublicIpId) -> impl Iterator<Item = &'a LoadBalancerRule> {
        self.rules.iter().map(|(rule, _)| *rule).filter(move |rule| &rule.address == address)
    }

    /// Whether it has never had anything to do with us.
    pub fn is_blank(&self) -> bool {
        self.basis == Basis::Nothing && self.intents.is_empty() && self.gone.is_empty()
    }
}

/// Rules of every Service, by owner.
pub fn rules_by_owner<'a>(
    observed: &'a Observed,
    owners: &Owners<'_>,
) -> BTreeMap<ServiceKey, Vec<(&'a LoadBalancerRule, Proof)>> {
    let mut rules: BTreeMap<ServiceKey, Vec<_>> = BTreeMap::new();
    for rule in observed.rules.values() {
        if let Owner::Service(key, proof) = owners.owner(rule) {
            rules.entry(key).or_default().push((rule, proof));
        }
    }
    rules
}

/// Takes stock of one Service.
pub fn take<'a>(
    service: &Service,
    rules: Vec<(&'a LoadBalancerRule, Proof)>,
    inputs: &Inputs<'_>,
    now: Timestamp,
) -> Standing<'a> {
    let mut standing = Standing {
        basis: Basis::Nothing,
        addresses: Vec::new(),
        gone: BTreeSet::new(),
        rules,
        unproven: BTreeSet::new(),
        intents: Vec::new(),
    };
    let stock = Stock { service, inputs };
    stock.fill(&mut standing);
    for intent in service.recorded.intents.as_slice() {
        let state = stock.intent_state(intent, &standing, now);
        if let IntentState::Done(id) = &state {
            stock.add_associated(&mut standing, id);
        }
        standing.intents.push((intent.clone(), state));
    }
    standing
}

/// What taking stock looks at, for all Services alike.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'b> {
    /// What is wanted.
    pub desired: &'b Desired,
    /// What is there.
    pub observed: &'b Observed,
    /// How it is done here.
    pub policy: &'b Policy,
    /// Nodes matched to virtual machines.
    pub machines: &'b Machines,
}

struct Stock<'b> {
    service: &'b Service,
    inputs: &'b Inputs<'b>,
}

impl Stock<'_> {
    fn fill(&self, standing: &mut Standing<'_>) {
        let marked = standing.rules.iter().any(|(_, proof)| *proof == Proof::Marked);
        let fork = self.service.recorded.fork.is_some();
        if let Some(record) = &self.service.recorded.record {
            standing.basis = Basis::Record;
            self.add_recorded(record, standing);
        } else if marked {
            standing.basis = Basis::Marks;
            self.add_of_rules(standing, |address, rules| self.marked_verdict(address, rules));
        } else if !standing.rules.is_empty() || (fork && self.service.recorded.finalizer) {
            standing.basis = Basis::Adoption;
            self.add_of_rules(standing, |address, _| self.adopted_verdict(address));
        } else if self.service.recorded.finalizer && !self.service.recorded.of_another_service {
            self.add_published(standing);
        }
    }

    fn add_recorded(&self, record: &record::Record, standing: &mut Standing<'_>) {
        for recorded in &record.addresses {
            let there = self.inputs.observed.addresses.get(&recorded.id).filter(|address| {
                is_held(address) && address.allocated.as_ref() == Some(&recorded.allocated)
            });
            match there {
                Some(address) => {
                    // A tag outweighs a record; where they contradict each other nothing is proven.
                    let contradicted =
                        recorded.ours && self.tag_proof(address) == TagProof::OfOthers;
                    if contradicted {
                        standing.unproven.insert(recorded.id.clone());
                    }
                    standing.addresses.push(Holding {
                        id: recorded.id.clone(),
                        allocated: recorded.allocated.clone(),
                        ours: recorded.ours && !contradicted,
                    });
                }
                None => _ = standing.gone.insert(recorded.id.clone()),
            }
        }
    }

    /// The addresses of its rules: the one in the status first, then by id.
    fn add_of_rules(
        &self,
        standing: &mut Standing<'_>,
        verdict: impl Fn(&PublicIpAddress, &[&LoadBalancerRule]) -> Option<Verdict>,
    ) {
        let mut ids: BTreeSet<&PublicIpId> =
            standing.rules.iter().map(|(rule, _)| &rule.address).collect();
        ids.extend(self.service.recorded.fork.iter().map(|fork| &fork.address));
        let mut held: Vec<&PublicIpAddress> = ids
            .into_iter()
            .filter_map(|id| self.inputs.observed.addresses.get(id))
            .filter(|address| is_held(address))
            .collect();
        held.sort_by_key(|address| (!self.is_published(address), address.id.clone()));
        for address in held {
            let rules: Vec<_> = standing.rules_on(&address.id).collect();
            let verdict = verdict(address, &rules);
            if verdict.is_none() {
                standing.unproven.insert(address.id.clone());
            }
            standing.addresses.push(Holding {
                id: address.id.clone(),
                allocated: address.allocated.clone().unwrap_or_default(),
                ours: verdict == Some(Verdict::Ours),
            });
        }
    }

    /// An address that only the status remembers: everything on it is gone.
    fn add_published(&self, standing: &mut Standing<'_>) {
        let published = self.service.recorded.ingress.iter().filter_map(|entry| {
            let ip = entry.ip.as_deref()?.parse().ok()?;
            self.inputs.observed.address_by_ip(ip)
        });
        for address in published.filter(|address| is_held(address) && !address.source_nat) {
            standing.basis = Basis::Adoption;
            let verdict = self.adopted_verdict(address);
            if verdict.is_none() {
                standing.unproven.insert(address.id.clone());
            }
            standing.addresses.push(Holding {
                id: address.id.clone(),
                allocated: address.allocated.clone().unwrap_or_default(),
                ours: verdict == Some(Verdict::Ours),
            });
        }
    }

    /// Where the record already speaks of this allocation, the record decides.
    fn add_associated(&self, standing: &mut Standing<'_>, id: &PublicIpId) {
        let found = self.inputs.observed.addresses.get(id);
        let Some(address) = found.filter(|address| !records(self.service, address)) else {
            return;
        };
        standing.gone.remove(id);
        standing.addresses.retain(|holding| &holding.id != id);
        standing.addresses.push(Holding {
            id: id.clone(),
            allocated: address.allocated.clone().unwrap_or_default(),
            ours: true,
        });
    }

    fn is_published(&self, address: &PublicIpAddress) -> bool {
        let text = address.address.to_string();
        self.service.recorded.ingress.iter().any(|entry| entry.ip.as_deref() == Some(&text))
    }

    /// The verdict that the descriptions give; a Service that lost its record never guesses.
    fn marked_verdict(
        &self,
        address: &PublicIpAddress,
        rules: &[&LoadBalancerRule],
    ) -> Option<Verdict> {
        let marks = rules.iter().filter_map(|rule| Mark::parse(rule.description.as_deref()?));
        match self.tag_proof(address) {
            TagProof::Ours => Some(Verdict::Ours),
            TagProof::OfOthers => Some(Verdict::User),
            TagProof::OfAnotherService | TagProof::None => {
                marks.filter_map(|mark| mark.address).min()
            }
        }
    }

    /// Whose is an address that another controller left? `None`: it stays for want of proof.
    fn adopted_verdict(&self, address: &PublicIpAddress) -> Option<Verdict> {
        let recorded = self.service.recorded.verdict;
        match (self.tag_proof(address), recorded) {
            (TagProof::OfOthers | TagProof::OfAnotherService, Some(Verdict::Ours)) => return None,
            (TagProof::OfOthers | TagProof::OfAnotherService, _) => return Some(Verdict::User),
            (TagProof::Ours, _) => return Some(Verdict::Ours),
            (TagProof::None, Some(verdict)) => return Some(verdict),
            (TagProof::None, None) => {}
        }
        let asked = self.service.requested_address.is_some();
        if asked || address.source_nat || address.static_nat.is_some() {
            return Some(Verdict::User);
        }
        match self.inputs.policy.adopt_unrecorded_addresses {
            AdoptUnrecorded::Release => Some(Verdict::Ours),
            AdoptUnrecorded::Keep => None,
            AdoptUnrecorded::Evidence => {
                allocated_for(address, self.service).then_some(Verdict::Ours)
            }
        }
    }

    fn intent_state(
        &self,
        intent: &Intent,
        standing: &Standing<'_>,
        now: Timestamp,
    ) -> IntentState {
        let refused = self.inputs.desired.learned.refused_jobs.contains(&intent.job);
        let age = now.duration_since(intent.at);
        match self.inputs.observed.job(&intent.job) {
            AssociateJob::Pending => IntentState::Open,
            AssociateJob::Succeeded(id) => self.associated(id, intent, age),
            AssociateJob::Failed(address) => IntentState::Over {
                leftover: address.filter(|id| {
                    let found = self.inputs.observed.addresses.get(id);
                    found.is_some_and(|found| found.state == AddressState::Allocating)
                }),
            },
            // An answer may lie: only together with it an unknown job proves that none was begun.
            AssociateJob::Unknown if refused => IntentState::Over { leftover: None },
            AssociateJob::Unknown if age.as_hours() >= JOB_MEMORY_HOURS => {
                match self.only_candidate(intent).filter(|_| standing.addresses.is_empty()) {
                    Some(id) => IntentState::Done(id.clone()),
                    None => IntentState::Lost,
                }
            }
            AssociateJob::Unknown if age.as_mins() >= REQUEST_MAY_RUN_MINUTES => {
                IntentState::Unanswered
            }
            AssociateJob::Unknown => IntentState::Open,
        }
    }

    /// What a job that succeeded gave. An address that is not listed yet, or not yet as allocated,
    /// will be; one that was allocated at another time is another allocation of the same id.
    fn associated(&self, id: PublicIpId, intent: &Intent, age: SignedDuration) -> IntentState {
        match self.inputs.observed.addresses.get(&id) {
            Some(found) if came_later(found, intent) => IntentState::Over { leftover: None },
            Some(found) if is_held(found) => IntentState::Done(id),
            Some(_) | None if age.as_mins() < REQUEST_MAY_RUN_MINUTES => IntentState::Open,
            Some(_) | None => IntentState::Over { leftover: None },
        }
    }

    /// The one address that an associate call of which the server knows nothing any more can have
    /// made: where the nodes are, unused, unrecorded, allocated when it was out. A Service that goes
    /// takes no chances, nor does one that has an address.
    fn only_candidate(&self, intent: &Intent) -> Option<&PublicIpId> {
        let evidence = self.inputs.policy.adopt_unrecorded_addresses == AdoptUnrecorded::Evidence;
        if !evidence || self.service.lifecycle != Lifecycle::Wanted {
            return None;
        }
        let addresses = self.inputs.observed.addresses.values();
        let mut candidates = addresses.filter(|address| {
            let out = was_out(address, intent);
            let free = self.is_unused(address) && !self.is_anybodys(address);
            out && free && self.is_where_nodes_are(address)
        });
        let first = candidates.next()?;
        candidates.next().is_none().then_some(&first.id)
    }

    /// Whether an address belongs to a network in which a Node has a NIC, or to the VPC of one: no
    /// associate call of this cluster asks for another.
    fn is_where_nodes_are(&self, address: &PublicIpAddress) -> bool {
        let machines = self.inputs.machines.matches.values().filter_map(|found| match found {
            Match::Machine(id) | Match::Replaced { machine: id, stale: _ } => {
                self.inputs.observed.virtual_machines.get(id)
            }
            Match::Ambiguous(_) | Match::Missing | Match::Foreign => None,
        });
        let mut networks = machines.flat_map(|machine| &machine.nics).map(|nic| &nic.network);
        networks.any(|id| match &address.vpc {
            Some(vpc) => {
                let network = self.inputs.observed.networks.get(id);
                network.is_some_and(|network| network.vpc.as_ref() == Some(vpc))
            }
            None => address.network.as_ref() == Some(id),
        })
    }

    fn is_unused(&self, address: &PublicIpAddress) -> bool {
        let rules = self.inputs.observed.rules_on(&address.id).count();
        let openings = self.inputs.observed.firewall_rules_on(&address.id).count();
        let nat = address.source_nat || address.static_nat.is_some();
        address.state == AddressState::Allocated && !nat && rules + openings == 0
    }

    /// Whether a Service records the address, or another one asks for it.
    fn is_anybodys(&self, address: &PublicIpAddress) -> bool {
        self.inputs.desired.services.values().any(|service| {
            let asked = service.requested_address == Some(address.address);
            records(service, address) || service.key != self.service.key && asked
        })
    }

    /// What the tags of an address say about this Service.
    fn tag_proof(&self, address: &PublicIpAddress) -> TagProof {
        let service = address.tags.get(TAG_SERVICE);
        let cluster = address.tags.get(TAG_CLUSTER);
        let of_service = service.map(|uid| uid == self.service.uid.as_str());
        let of_cluster = cluster.map(|id| id == self.inputs.policy.cluster_id.as_str());
        match (of_service, of_cluster) {
            (_, Some(false)) | (Some(false), None) => TagProof::OfOthers,
            (Some(true), _) => TagProof::Ours,
            (Some(false), Some(true)) => TagProof::OfAnotherService,
            (None, _) => TagProof::None,
        }
    }
}

/// What the tags of an address say about a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagProof {
    /// It was associated for this Service.
    Ours,
    /// It was associated for another Service of this cluster, which may have handed it over.
    OfAnotherService,
    /// It is another cluster's, or of a Service of who knows where.
    OfOthers,
    /// Nothing.
    None,
}

/// Whether a Service's record speaks of an address: the same id allocated at another time is
/// another address.
pub(super) fn records(service: &Service, address: &PublicIpAddress) -> bool {
    let recorded = service.recorded.record.as_ref().and_then(|record| record.address(&address.id));
    recorded.is_some_and(|recorded| address.allocated.as_ref() == Some(&recorded.allocated))
}

/// Whether an associate call of the Service gave an address that its record does not speak of.
pub(super) fn has_unrecorded_address(
    service: &Service,
    standing: &Standing<'_>,
    observed: &Observed,
) -> bool {
    standing.intents.iter().any(|(_, state)| {
        let IntentState::Done(id) = state else { return false };
        observed.addresses.get(id).is_some_and(|address| !records(service, address))
    })
}

/// Whether an associate call of the Service gave this address, and its record does not speak of it.
pub(super) fn is_unrecorded(
    service: &Service,
    standing: &Standing<'_>,
    address: &PublicIpAddress,
) -> bool {
    let is_done = |state: &IntentState| *state == IntentState::Done(address.id.clone());
    standing.intents.iter().any(|(_, state)| is_done(state)) && !records(service, address)
}

/// Whether an address that the job of an intent gave was released and allocated again since. Only
/// the end of the time is looked at: CloudStack's clock and ours may differ.
fn came_later(address: &PublicIpAddress, intent: &Intent) -> bool {
    let allocated = address.allocated.as_deref().and_then(parse_allocated);
    let end = intent.at.checked_add(15.minutes()).unwrap_or(Timestamp::MAX);
    allocated.is_some_and(|allocated| allocated > end)
}

/// Whether an address was allocated while the call of an intent was out.
fn was_out(address: &PublicIpAddress, intent: &Intent) -> bool {
    allocated_within(address, intent.at, 1.minute(), 15.minutes())
}

/// In somebody's hands: a Releasing one still is, until its release succeeds.
fn is_held(address: &PublicIpAddress) -> bool {
    matches!(address.state, AddressState::Allocated | AddressState::Releasing)
}

/// Allocated between 2 minutes before and 10 minutes after the Service was created.
fn allocated_for(address: &PublicIpAddress, service: &Service) -> bool {
    let created = service.created;
    created.is_some_and(|created| allocated_within(address, created, 2.minutes(), 10.minutes()))
}

fn allocated_within(address: &PublicIpAddress, at: Timestamp, before: Span, after: Span) -> bool {
    let Some(allocated) = address.allocated.as_deref().and_then(parse_allocated) else {
        return false;
    };
    let (from, to) = (at.checked_sub(before), at.checked_add(after));
    from.is_ok_and(|from| from <= allocated) && to.is_ok_and(|to| allocated <= to)
}

/// Reads `allocated`, for example `2026-12-01T20:48:10+0000`.
fn parse_allocated(text: &str) -> Option<Timestamp> {
    Timestamp::strptime("%Y-%m-%dT%H:%M:%S%z", text).ok()
}
