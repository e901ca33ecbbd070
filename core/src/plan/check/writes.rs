//! Laws about the writes on the Service: finalizer, intent, record, farewell.

#![expect(clippy::wildcard_enum_match_arm, reason = "each law looks at a few kinds of action")]

use crate::model::policy::Mode;
use crate::model::record::{Intents, Opening};
use crate::model::service::Lifecycle;
use crate::plan::action::{Action, FinalizerChange, IngressDraft, PlannedPatch};
use crate::plan::check::case::{Case, broken};
use crate::plan::{Step, StepId};

pub(super) fn unprotected_changes(case: &Case<'_>) -> Vec<StepId> {
    let leaving = case.service.lifecycle != Lifecycle::Wanted;
    if case.service.recorded.finalizer || leaving {
        return Vec::new();
    }
    broken(case.changes(), |step| {
        !case.written_before(step, |patch| patch.finalizer == Some(FinalizerChange::Add))
    })
}

pub(super) fn changes_after_farewell(case: &Case<'_>) -> Vec<StepId> {
    let farewells = case.patches().filter(|(_, p)| p.finalizer == Some(FinalizerChange::Remove));
    let early = |(farewell, _): (&Step, &PlannedPatch)| {
        broken(case.changes(), |step| !case.waits_for(farewell, step))
    };
    farewells.flat_map(early).collect()
}

pub(super) fn half_farewells(case: &Case<'_>) -> Vec<StepId> {
    let recorded = &case.service.recorded;
    let other_class = case.service.lifecycle == Lifecycle::OtherClass;
    let published = !recorded.ingress.is_empty() && !other_class;
    let half = |patch: &PlannedPatch| {
        patch.finalizer == Some(FinalizerChange::Remove)
            && ((recorded.record.is_some() && patch.record.is_keep())
                || (recorded.verdict.is_some() && patch.verdict.is_keep())
                || (published && patch.ingress != Some(IngressDraft::Empty)))
    };
    let halves = case.patches().filter(|(_, patch)| half(patch));
    halves.map(|(step, _)| step.id.clone()).collect()
}

pub(super) fn unintended_associates(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |step| match &step.action {
        Action::AssociateIpAddress(call) if case.policy.mode == Mode::Cluster => !case
            .written_before(step, |patch| {
                let mut intents = patch.intents.value().into_iter().flat_map(Intents::as_slice);
                intents.any(|intent| intent.job == call.job)
            }),
        _ => false,
    })
}

pub(super) fn unrecorded_uses(case: &Case<'_>) -> Vec<StepId> {
    if case.policy.mode != Mode::Cluster {
        return Vec::new();
    }
    let uses_new_address = |step: &Step| match &step.action {
        Action::CreateLoadBalancerRule(create) => create.address.pending().is_some(),
        Action::CreateFirewallRule(create) => create.address.pending().is_some(),
        _ => false,
    };
    let records_new_address = |patch: &PlannedPatch| {
        let record = patch.record.value();
        record.is_some_and(|record| {
            record.addresses.first().is_some_and(|entry| entry.address.pending().is_some())
        })
    };
    broken(case.changes(), |step| {
        uses_new_address(step) && !case.written_before(step, records_new_address)
    })
}

pub(super) fn unrecorded_openings(case: &Case<'_>) -> Vec<StepId> {
    if case.policy.mode != Mode::Cluster {
        return Vec::new();
    }
    let record = case.service.recorded.record.as_ref();
    broken(case.changes(), |step| match &step.action {
        Action::CreateFirewallRule(create) => {
            let opening = Opening::new(create.port, &create.cidrs);
            let known = record.is_some_and(|record| record.openings.contains(&opening));
            !known
                && !case.written_before(step, |patch| {
                    patch.record.value().is_some_and(|draft| draft.openings.contains(&opening))
                })
        }
        _ => false,
    })
}
