//! The writes on a Service around the steps of its plan.
//!
//! Before anything uses an address: the finalizer, the verdict, and a record of the address and of
//! the openings to come, without the digests of members that are about to change. At the end: the
//! status, and the record of what is there then.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{LoadBalancerRuleId, PublicIpId};
use crate::model::record::{Intents, Opening, Record};
use crate::model::service::{LoadBalancerSpec, Port};
use crate::observe::ownership::{Proof, port_of};
use crate::observe::{LoadBalancerRule, Network, RuleState};
use crate::plan::action::{
    Action, AddressDraft, AssociateIpAddress, Edit, MemberDraft, Placement, PlannedPatch, Ref,
    ResolvedAddress,
};
use crate::plan::builder::After;
use crate::plan::draft::Draft;
use crate::plan::public_ip::{self, Target};
use crate::plan::reason::{Disruption, Reason};
use crate::plan::serve::PortWork;
use crate::plan::service_patch::{self, PlannedRecord};
use crate::plan::standing::{Basis, Holding, has_unrecorded_address};
use crate::plan::{firewall_rule, intent, member, network, network_acl};

/// The rules that serve the ports.
pub(super) type Rules = BTreeMap<Port, Ref<LoadBalancerRuleId>>;

/// What is recorded of the rule of each port.
pub(super) type Members = BTreeMap<Port, MemberDraft<Ref<LoadBalancerRuleId>>>;

/// The address to serve on, and the steps after which it may be used.
#[derive(Debug)]
pub(super) struct Address {
    /// As rules refer to it.
    pub(super) id: Ref<PublicIpId>,
    /// As records refer to it.
    pub(super) resolved: Ref<ResolvedAddress>,
    /// The steps after which it may be used.
    pub(super) ready: After,
}

/// What the writes of one plan are made from.
#[derive(Debug)]
pub(super) struct Writes<'s> {
    /// What the Service asks for.
    pub(super) spec: &'s LoadBalancerSpec,
    /// Where it is served.
    pub(super) target: &'s Target,
    /// The network of its rules.
    pub(super) network: &'s Network,
    /// Its ports.
    pub(super) works: &'s [PortWork<'s>],
    /// Ports that are on their way out.
    pub(super) stale: &'s BTreeSet<Port>,
}

impl Writes<'_> {
    /// Plans how the address is had: nothing to do, or intent, associate and record.
    pub(super) fn obtain_address(&self, draft: &mut Draft<'_, '_>) -> Address {
        match self.target {
            Target::Held { address, ours: _ } => {
                intent::settle(draft, &After::new());
                Address {
                    id: Ref::Existing(address.id.clone()),
                    resolved: Ref::Existing(address.clone()),
                    ready: After::new(),
                }
            }
            Target::New(request) => self.associate(draft, *request),
        }
    }

    /// Plans the write at the end of serving. Gives the steps after which the Service is served
    /// where its status says.
    pub(super) fn publish(
        &self,
        draft: &mut Draft<'_, '_>,
        address: &Address,
        rules: &Rules,
        served: bool,
    ) -> After {
        let wanted = service_patch::ingress(self.spec, address.resolved.clone());
        let published = service_patch::is_published(draft.service, &wanted);
        let record = self.record_after(draft, address, rules);
        let patch = PlannedPatch {
            ingress: (served && !published).then_some(wanted),
            record: self.record_change(draft, address, record),
            ..self.first_write(draft)
        };
        let reason = match (&patch.ingress, draft.standing.basis) {
            (_, Basis::Adoption) => Reason::Adopted,
            (Some(_), _) => Reason::StatusDiffers,
            (None, _) => Reason::RecordDiffers,
        };
        let after = draft.builder.all();
        let disruption = self.status_disruption(draft, &patch);
        match add_disrupting(draft, "service/status", patch, &after, reason, disruption) {
            Some(step) => After::from([step]),
            None => after,
        }
    }

    /// Clients that know the Service by another address than the new status says have to follow.
    fn status_disruption(&self, draft: &Draft<'_, '_>, patch: &PlannedPatch) -> Disruption {
        let moves = !public_ip::replaced(draft.standing, self.target).is_empty()
            || !draft.standing.gone.is_empty();
        if moves && patch.ingress.is_some() && !draft.service.recorded.ingress.is_empty() {
            Disruption::AddressChange
        } else {
            Disruption::None
        }
    }

    /// Plans the last write after old addresses were left.
    pub(super) fn forget(
        &self,
        draft: &mut Draft<'_, '_>,
        address: &Address,
        rules: &Rules,
        forgotten: &BTreeSet<PublicIpId>,
        left: &After,
    ) {
        let mut record = self.record_after(draft, address, rules);
        record.addresses.retain(|entry| match &entry.address {
            Ref::Existing(address) => !forgotten.contains(&address.id),
            Ref::Pending(_) => true,
        });
        record.openings = self.openings_of_works().collect();
        let patch =
            PlannedPatch { record: Edit::Set(record), ..service_patch::empty(draft.service) };
        add(draft, "service/finish", patch, left, Reason::AddressReplaced);
    }

    /// Puts the write that everything else relies on before all other steps.
    pub(super) fn begin(&self, draft: &mut Draft<'_, '_>, address: &Address) {
        if self.target.held().is_none() || !draft.builder.touches_cloud() {
            return;
        }
        let record = self.record_before(draft, address);
        let patch = PlannedPatch {
            finalizer: service_patch::finalizer(draft.service),
            record: service_patch::record(draft.service, &record),
            ..self.identity(draft)
        };
        let patch = without_records(draft, patch);
        if service_patch::is_empty(&patch) {
            return;
        }
        let reason = match draft.standing.basis {
            Basis::Adoption => Reason::Adopted,
            Basis::Record | Basis::Marks | Basis::Nothing => Reason::RecordBeforeUse,
        };
        draft.builder.begin_with("service/record", Action::PatchService(patch), reason);
    }

    fn associate(&self, draft: &mut Draft<'_, '_>, request: Option<std::net::Ipv4Addr>) -> Address {
        let mut after = After::new();
        let intent = intent::fresh(draft.service, draft.planner.now);
        let intents = std::iter::once(&intent).chain(intent::unsettled(draft.standing));
        let patch = PlannedPatch {
            finalizer: service_patch::finalizer(draft.service),
            intents: intent::edit(draft.service, intents),
            record: record_of_associated(draft),
            ..service_patch::empty(draft.service)
        };
        after.extend(add(draft, "service/intent", patch, &after, Reason::IntentBeforeAddress));
        intent::settle(draft, &after);
        let placement = match &self.network.vpc {
            Some(vpc) => Placement::Vpc(vpc.clone()),
            None => Placement::Network(self.network.id.clone()),
        };
        let action = AssociateIpAddress {
            placement,
            address: request,
            project: draft.planner.policy.project.clone(),
            expires: intent::expiry(&intent),
            job: intent.job,
        };
        let reason = match request {
            Some(address) => Reason::AddressRequested { address },
            None => Reason::AddressMissing,
        };
        let (step, id, resolved) = draft.builder.associate(action, &after, reason);
        let mut address = Address { id, resolved, ready: After::from([step]) };
        let record = self.record_before(draft, &address);
        let patch = PlannedPatch {
            verdict: service_patch::verdict(draft.service, true),
            intents: left_over(draft),
            record: Edit::Set(record),
            ..service_patch::empty(draft.service)
        };
        let ready = address.ready.clone();
        if let Some(step) = add(draft, "service/record", patch, &ready, Reason::RecordBeforeUse) {
            address.ready = After::from([step]);
        }
        address
    }

    /// In a plan that does not touch CloudStack the last write is also the first.
    fn first_write(&self, draft: &Draft<'_, '_>) -> PlannedPatch {
        if self.target.held().is_none() || draft.builder.touches_cloud() {
            return service_patch::empty(draft.service);
        }
        PlannedPatch { finalizer: service_patch::finalizer(draft.service), ..self.identity(draft) }
    }

    /// The verdict, and the end of intents that are answered.
    fn identity(&self, draft: &Draft<'_, '_>) -> PlannedPatch {
        let ours = matches!(self.target, Target::Held { address: _, ours: true } | Target::New(_));
        PlannedPatch {
            verdict: service_patch::verdict(draft.service, ours),
            intents: intent::edit(draft.service, intent::unsettled(draft.standing)),
            ..service_patch::empty(draft.service)
        }
    }

    /// The record at the end, if it differs from what the plan has written by then.
    fn record_change(
        &self,
        draft: &Draft<'_, '_>,
        address: &Address,
        record: PlannedRecord,
    ) -> Edit<PlannedRecord> {
        let new = self.target.held().is_none();
        if !new && !draft.builder.touches_cloud() {
            return service_patch::record(draft.service, &record);
        }
        let before = self.record_before(draft, address);
        if before == record { Edit::Keep } else { Edit::Set(record) }
    }

    fn record_before(&self, draft: &Draft<'_, '_>, address: &Address) -> PlannedRecord {
        let mut openings: BTreeSet<Opening> = self.openings_of_works().collect();
        for work in self.works {
            openings.extend(work.firewall.openings_before(work.port()));
        }
        for holding in draft.standing.addresses.iter().filter(|held| self.needs_openings(held)) {
            openings.extend(existing_openings(draft, holding).into_iter().map(|(_, o)| o));
        }
        let mut members = members_of_standing(draft);
        for work in self.works.iter().filter(|work| !work.keeps_digest()) {
            members.entry(work.port()).and_modify(|member| member.digest.clear());
        }
        PlannedRecord { openings, members, ..self.record_base(draft, address) }
    }

    fn record_after(
        &self,
        draft: &Draft<'_, '_>,
        address: &Address,
        rules: &Rules,
    ) -> PlannedRecord {
        let mut openings: BTreeSet<Opening> = self.openings_of_works().collect();
        for holding in draft.standing.addresses.iter().filter(|held| self.needs_openings(held)) {
            let current = self.is_target(holding);
            for (port, opening) in existing_openings(draft, holding) {
                let compared = self.works.iter().any(|work| work.port() == port);
                if !current || !(compared || self.stale.contains(&port)) {
                    openings.insert(opening);
                }
            }
        }
        let mut record = self.record_base(draft, address);
        record.acl.retain(|item| !draft.closed_items.contains_key(item));
        PlannedRecord { openings, members: self.members_after(draft, rules), ..record }
    }

    /// The rules that serve the ports, and others that are still there. What only the record
    /// proves stays in it.
    fn members_after(&self, draft: &Draft<'_, '_>, rules: &Rules) -> Members {
        let mut members = members_of_standing(draft);
        members.retain(|_, member| !is_deleted(draft, &member.rule));
        for work in self.works {
            let Some(rule) = rules.get(&work.port()) else { continue };
            let found = members.get(&work.port()).map(|member| &member.rule);
            if found.is_none_or(|found| found == rule || !is_proven_by_record(draft, found)) {
                let digest = work.members.digest.clone();
                members.insert(work.port(), MemberDraft { rule: rule.clone(), digest });
            }
        }
        members
    }

    fn record_base(&self, draft: &Draft<'_, '_>, address: &Address) -> PlannedRecord {
        let ours = matches!(self.target, Target::Held { address: _, ours: true } | Target::New(_));
        let mut addresses = vec![AddressDraft { address: address.resolved.clone(), ours }];
        addresses.extend(drafts(draft, public_ip::replaced(draft.standing, self.target)));
        let mut record = service_patch::record_of(addresses);
        record.acl = network_acl::held_items(draft.planner, draft.service, draft.standing);
        let recorded = draft.service.recorded.record.as_ref().and_then(|record| record.firewall);
        let vpc = self.network.vpc.as_ref();
        let tried = &draft.planner.desired.learned.vpcs_without_firewall;
        let refused = vpc.is_some_and(|vpc| tried.contains(vpc))
            || network::adopts_without_firewall(draft.planner, draft.standing, self.network);
        record.firewall = if refused { Some(false) } else { recorded };
        record
    }

    fn is_target(&self, holding: &Holding) -> bool {
        self.target.held().is_some_and(|held| held.id == holding.id)
    }

    /// Whether only the record tells what is open on an address by us. A replaced address of ours
    /// needs no record of it, and on the next one equal openings may be somebody else's.
    fn needs_openings(&self, holding: &Holding) -> bool {
        !holding.ours || self.is_target(holding)
    }

    fn openings_of_works(&self) -> impl Iterator<Item = Opening> {
        self.works.iter().flat_map(|work| work.firewall.openings_after(work.port()))
    }
}

/// An earlier intent that was answered is the only witness of its address: the address is recorded
/// in the write that replaces the intent.
pub(super) fn record_of_associated(draft: &Draft<'_, '_>) -> Edit<PlannedRecord> {
    let observed = draft.planner.observed;
    if !has_unrecorded_address(draft.service, draft.standing, observed) {
        return Edit::Keep;
    }
    Edit::Set(record_of_standing(draft))
}

/// A record that a Service has, with those of its addresses and rules that are seen.
pub(super) fn record_as_it_stands(draft: &Draft<'_, '_>, record: &Record) -> PlannedRecord {
    let observed = draft.planner.observed;
    let addresses = record.addresses.iter().filter_map(|recorded| {
        let address = Ref::Existing(public_ip::resolved(observed.addresses.get(&recorded.id)?));
        Some(AddressDraft { address, ours: recorded.ours })
    });
    PlannedRecord {
        openings: record.openings.clone(),
        acl: record.acl.clone(),
        firewall: record.firewall,
        members: members_of_standing(draft),
        ..service_patch::record_of(addresses.collect())
    }
}

/// The record of what a Service holds today, before anything of it changes.
pub(super) fn record_of_standing(draft: &Draft<'_, '_>) -> PlannedRecord {
    let held = &draft.standing.addresses;
    let mut record = service_patch::record_of(drafts(draft, held));
    for holding in held {
        record.openings.extend(existing_openings(draft, holding).into_iter().map(|(_, o)| o));
    }
    record.acl = network_acl::held_items(draft.planner, draft.service, draft.standing);
    record.firewall = draft.service.recorded.record.as_ref().and_then(|record| record.firewall);
    record.members = members_of_standing(draft);
    record
}

/// The rule of each port today, with the digest of its members where that is recorded: without one
/// the entry still says whose the rule is. One that nothing else proves goes before others.
pub(super) fn members_of_standing(draft: &Draft<'_, '_>) -> Members {
    let place = |rule: &LoadBalancerRule| {
        let held = &draft.standing.addresses;
        held.iter().position(|holding| holding.id == rule.address).unwrap_or(held.len())
    };
    let mut rules: Vec<_> = draft.standing.rules.iter().collect();
    rules.sort_by_key(|(rule, proof)| {
        (*proof != Proof::Recorded, rule.state == RuleState::Deleting, place(rule))
    });
    let mut members = Members::new();
    for (rule, _) in rules {
        let recorded = member::recorded(draft.service, port_of(rule));
        let recorded = recorded.filter(|member| member.rule == rule.id.short());
        let digest = recorded.map(|member| member.digest.clone()).unwrap_or_default();
        let member = MemberDraft { rule: Ref::Existing(rule.id.clone()), digest };
        members.entry(port_of(rule)).or_insert(member);
    }
    members
}

fn is_deleted(draft: &Draft<'_, '_>, rule: &Ref<LoadBalancerRuleId>) -> bool {
    draft.builder.actions().any(|(_, action)| {
        matches!(action, Action::DeleteLoadBalancerRule(delete)
            if *rule == Ref::Existing(delete.rule.clone()))
    })
}

fn is_proven_by_record(draft: &Draft<'_, '_>, rule: &Ref<LoadBalancerRuleId>) -> bool {
    draft
        .standing
        .rules
        .iter()
        .any(|(found, proof)| *proof == Proof::Recorded && *rule == Ref::Existing(found.id.clone()))
}

/// What records say of addresses, those that are there.
fn drafts<'h>(
    draft: &Draft<'_, '_>,
    holdings: impl IntoIterator<Item = &'h Holding>,
) -> Vec<AddressDraft<Ref<ResolvedAddress>>> {
    let drafts = holdings.into_iter().filter_map(|holding| {
        let found = draft.planner.observed.addresses.get(&holding.id)?;
        let address = Ref::Existing(public_ip::resolved(found));
        Some(AddressDraft { address, ours: holding.ours })
    });
    drafts.collect()
}

/// Openings of ours that are there now, on ports that are or were ours.
pub(super) fn existing_openings(draft: &Draft<'_, '_>, holding: &Holding) -> Vec<(Port, Opening)> {
    let mut openings = Vec::new();
    for port in draft.known_ports(&holding.id) {
        let (own, _) = firewall_rule::own_and_foreign(
            draft.planner,
            draft.service,
            draft.standing.basis,
            Some(holding),
            &holding.id,
            port,
        );
        openings.extend(own.into_iter().map(|rule| (port, Opening::new(port, &rule.cidrs))));
    }
    openings
}

/// What of the intents stays once the address of the latest is recorded. It was written a moment
/// ago: it is replaced in any case.
fn left_over(draft: &Draft<'_, '_>) -> Edit<Intents> {
    let earlier: Intents = intent::unanswered(draft.standing).cloned().collect();
    if earlier.is_empty() { Edit::Remove } else { Edit::Set(earlier) }
}

/// Adds a write, unless it changes nothing.
pub(super) fn add(
    draft: &mut Draft<'_, '_>,
    name: &str,
    patch: PlannedPatch,
    after: &After,
    reason: Reason,
) -> Option<crate::plan::StepId> {
    add_disrupting(draft, name, patch, after, reason, Disruption::None)
}

fn add_disrupting(
    draft: &mut Draft<'_, '_>,
    name: &str,
    patch: PlannedPatch,
    after: &After,
    reason: Reason,
    disruption: Disruption,
) -> Option<crate::plan::StepId> {
    let patch = without_records(draft, patch);
    if service_patch::is_empty(&patch) {
        return None;
    }
    let action = Action::PatchService(patch);
    Some(draft.builder.add(name, action, after, reason, disruption))
}

/// Where no records are kept, only the finalizer and the status are written.
fn without_records(draft: &Draft<'_, '_>, patch: PlannedPatch) -> PlannedPatch {
    if draft.keeps_records() {
        return patch;
    }
    PlannedPatch { verdict: Edit::Keep, intents: Edit::Keep, record: Edit::Keep, ..patch }
}
