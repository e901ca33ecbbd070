//! What a refused Service still gets: its rules stay as they are, but follow the nodes. Otherwise
//! a mistake in a Service would take it down with the next roll of the nodes. It takes over an
//! address from a Service that goes, with its verdict, so that whoever goes last releases it or not;
//! it records one that was associated for it, and forgets associate calls that are over.
//!
//! 1. The Service records what it has, and all of it is there.
//! 2. The members of a rule are known, and it has some: one that serves nobody is not opened by
//!    giving it members while what it should let in is in doubt.
//! 3. The digests of rules that change are dropped before the first change; they are written again
//!    with the first plan that is not refused.

use crate::model::record::{Record, Verdict};
use crate::observe::ownership::port_of;
use crate::observe::{LoadBalancerRule, PublicIpAddress, RuleState};
use crate::plan::action::{
    Action, AddressDraft, AssignToLoadBalancerRule, Edit, PlannedPatch, Ref,
    RemoveFromLoadBalancerRule,
};
use crate::plan::builder::After;
use crate::plan::draft::Draft;
use crate::plan::member::{self, MemberChange};
use crate::plan::reason::{Disruption, Reason};
use crate::plan::service_patch::{self, PlannedRecord};
use crate::plan::{intent, public_ip, writes};

/// Plans what a refused Service still gets.
pub(super) fn keep(draft: &mut Draft<'_, '_>) {
    if !record_associated(draft) && !take_over(draft) {
        intent::settle(draft, &After::new());
        follow_nodes(draft);
    }
}

/// Records an address that an associate call made: CloudStack does not remember its job for ever.
fn record_associated(draft: &mut Draft<'_, '_>) -> bool {
    let record = writes::record_of_associated(draft);
    if record == Edit::Keep {
        return false;
    }
    let patch = PlannedPatch {
        intents: intent::edit(draft.service, intent::unsettled(draft.standing)),
        record,
        ..service_patch::empty(draft.service)
    };
    let patch = match draft.standing.addresses.len() {
        1 => PlannedPatch { verdict: service_patch::verdict(draft.service, true), ..patch },
        _ => patch,
    };
    writes::add(draft, "service/record", patch, &After::new(), Reason::RecordBeforeUse).is_some()
}

/// Records the verdict on an address that a Service which leaves it hands over: it waits for that.
fn take_over(draft: &mut Draft<'_, '_>) -> bool {
    let Some((found, ours)) = handed_over(draft) else { return false };
    let mut record = match &draft.service.recorded.record {
        Some(record) => without_digests_of(draft, record, &[]),
        None => writes::record_of_standing(draft),
    };
    let address = Ref::Existing(public_ip::resolved(found));
    match record.addresses.iter_mut().find(|entry| entry.address == address) {
        Some(entry) => entry.ours = ours,
        None => record.addresses.push(AddressDraft { address, ours }),
    }
    let verdict = match record.addresses.len() {
        1 => service_patch::verdict(draft.service, ours),
        _ => Edit::Keep,
    };
    let patch = PlannedPatch {
        finalizer: service_patch::finalizer(draft.service),
        verdict,
        record: service_patch::record(draft.service, &record),
        ..service_patch::empty(draft.service)
    };
    let reason = Reason::AddressHandedOver;
    writes::add(draft, "service/record", patch, &After::new(), reason).is_some()
}

/// The address with the verdict to record, if it is not the recorded one: of the requested address,
/// and of those that the Service has.
fn handed_over<'a>(draft: &Draft<'a, '_>) -> Option<(&'a PublicIpAddress, bool)> {
    let (planner, service) = (draft.planner, draft.service);
    let requested = service.requested_address.and_then(|ip| planner.observed.address_by_ip(ip));
    let held = draft.standing.addresses.iter();
    let held = held.filter_map(|holding| planner.observed.addresses.get(&holding.id));
    requested.into_iter().chain(held).find_map(|found| {
        let ours = public_ip::handed_over(planner, service, &found.id)? == Verdict::Ours;
        let recorded = draft.standing.holding(&found.id).is_some_and(|holding| holding.ours);
        (recorded != ours).then_some((found, ours))
    })
}

/// Plans the members of every rule that a refused Service has. The write before them drops the
/// intents that are over too, and comes for these alone.
fn follow_nodes(draft: &mut Draft<'_, '_>) {
    let changes = changes(draft);
    let record = match &draft.service.recorded.record {
        Some(record) if !changes.is_empty() => {
            let record = without_digests_of(draft, record, &changes);
            service_patch::record(draft.service, &record)
        }
        Some(_) | None => Edit::Keep,
    };
    let patch = PlannedPatch {
        intents: intent::edit(draft.service, intent::unsettled(draft.standing)),
        record,
        ..service_patch::empty(draft.service)
    };
    let reason = if changes.is_empty() { Reason::RecordDiffers } else { Reason::RecordBeforeUse };
    let written = writes::add(draft, "service/record", patch, &After::new(), reason);
    let after: After = written.into_iter().collect();
    for (rule, members) in &changes {
        add_steps(draft, rule, members, &after);
    }
}

fn is_whole(draft: &Draft<'_, '_>) -> bool {
    let recorded = &draft.service.recorded;
    recorded.finalizer && recorded.record.is_some() && draft.standing.gone.is_empty()
}

fn changes<'a>(draft: &Draft<'a, '_>) -> Vec<(&'a LoadBalancerRule, MemberChange)> {
    if !is_whole(draft) {
        return Vec::new();
    }
    let rules = draft.standing.rules.iter().map(|(rule, _)| *rule);
    let alive = rules.filter(|rule| rule.state != RuleState::Deleting);
    let changes = alive.filter_map(|rule| {
        let backends = draft.planner.machines.backends(&rule.network);
        let (service, standing) = (draft.service, draft.standing);
        let change = member::change(draft.planner, service, standing, rule, &backends).ok()?;
        (change.has_some && !change.is_empty()).then_some((rule, change))
    });
    changes.collect()
}

fn without_digests_of(
    draft: &Draft<'_, '_>,
    record: &Record,
    changes: &[(&LoadBalancerRule, MemberChange)],
) -> PlannedRecord {
    let mut record = writes::record_as_it_stands(draft, record);
    for (rule, _) in changes {
        record.members.entry(port_of(rule)).and_modify(|member| member.digest.clear());
    }
    record
}

fn add_steps(
    draft: &mut Draft<'_, '_>,
    rule: &LoadBalancerRule,
    members: &MemberChange,
    after: &After,
) {
    let port = port_of(rule);
    let mut after = after.clone();
    if !members.add.is_empty() {
        let vms = members.add.clone();
        let reason = Reason::MembersMissing { count: vms.len() };
        let action = AssignToLoadBalancerRule { rule: Ref::Existing(rule.id.clone()), vms };
        let name = format!("members/{port}/add");
        after = After::from([draft.builder.assign(&name, action, &after, reason)]);
    }
    if !members.remove.is_empty() {
        let vms = members.remove.clone();
        let reason = Reason::MembersStale { count: vms.len() };
        let action = RemoveFromLoadBalancerRule { rule: rule.id.clone(), vms };
        let action = Action::RemoveFromLoadBalancerRule(action);
        let name = format!("members/{port}/remove");
        draft.builder.add(&name, action, &after, reason, Disruption::Reload);
    }
}
