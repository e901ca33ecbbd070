//! The laws of order, in one table, checked on every plan that any test makes.
//!
//! They are checked on the dependencies between steps, not on their order in the list: steps that
//! don't wait for each other may run in any order.

#![expect(clippy::wildcard_enum_match_arm, reason = "each law looks at a few kinds of action")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::ids::{LoadBalancerRuleId, PublicIpId};
use crate::model::policy::{Mode, Policy};
use crate::model::record::{Intents, Opening};
use crate::model::service::{Port, Service};
use crate::observe::index::Observed;
use crate::observe::ownership::port_of;
use crate::plan::action::{Action, FinalizerChange, IngressDraft, Kind, PlannedPatch, Ref};
use crate::plan::{Plan, Step, StepId};

/// A law of order.
pub struct Law {
    /// Its name in test output.
    pub name: &'static str,
    /// Why it holds.
    pub why: &'static str,
    breaches: fn(&Case<'_>) -> Vec<StepId>,
}

/// Every law. A plan that keeps them all can be stopped after any step.
pub const LAWS: &[Law] = &[
    Law {
        name: "steps wait only for earlier ones",
        why: "a plan is printed and run from top to bottom",
        breaches: disorder,
    },
    Law {
        name: "finalizer before the first cloud change",
        why: "a deleted Service is never forgotten",
        breaches: unprotected_changes,
    },
    Law {
        name: "finalizer removed after the last cloud change",
        why: "a deleted Service is never forgotten",
        breaches: changes_after_farewell,
    },
    Law {
        name: "record and verdict go with the finalizer",
        why: "no stale address shown, no proof lost",
        breaches: half_farewells,
    },
    Law {
        name: "intent before associate",
        why: "a crash leaves a witness, not a leak",
        breaches: unintended_associates,
    },
    Law {
        name: "new address recorded before it is used",
        why: "a crash leaves something known, not a leak",
        breaches: unrecorded_uses,
    },
    Law {
        name: "openings recorded by content before they are made",
        why: "firewall rules carry no mark",
        breaches: unrecorded_openings,
    },
    Law {
        name: "rule and first members before the opening",
        why: "nobody is let in to a port without backends",
        breaches: early_openings,
    },
    Law {
        name: "opening closed before its rule is deleted",
        why: "nothing stays open longer than served",
        breaches: early_deletions,
    },
    Law {
        name: "delete unmaps members: no separate remove",
        why: "each call is a router reload",
        breaches: needless_removes,
    },
    Law {
        name: "recreate is delete, create, assign, adjacent",
        why: "shortest gap, other ports untouched",
        breaches: slow_recreates,
    },
    Law {
        name: "adds before removes, one call per rule and direction",
        why: "no rule is ever without members; each call is a router reload",
        breaches: disorderly_members,
    },
    Law {
        name: "status after what it promises",
        why: "no traffic to nothing",
        breaches: early_status,
    },
    Law {
        name: "address released last, checked on a fresh read",
        why: "releasing an address revokes everything on it",
        breaches: unchecked_releases,
    },
];

/// A law that a plan does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The law.
    pub law: &'static str,
    /// Why it holds.
    pub why: &'static str,
    /// The steps that break it.
    pub steps: Vec<StepId>,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, why, steps } = self;
        let steps: Vec<&str> = steps.iter().map(StepId::as_str).collect();
        write!(f, "law {law:?} ({why}) is broken by {}", steps.join(", "))
    }
}

/// Checks a plan against every law.
pub fn check(plan: &Plan, service: &Service, observed: &Observed, policy: &Policy) -> Vec<Breach> {
    let case = Case { plan, service, observed, policy, before: ancestors(plan) };
    let breach = |law: &Law| {
        let steps = (law.breaches)(&case);
        (!steps.is_empty()).then_some(Breach { law: law.name, why: law.why, steps })
    };
    LAWS.iter().filter_map(breach).collect()
}

/// A plan with what the laws look at.
struct Case<'a> {
    plan: &'a Plan,
    service: &'a Service,
    observed: &'a Observed,
    policy: &'a Policy,
    before: BTreeMap<StepId, BTreeSet<StepId>>,
}

impl<'a> Case<'a> {
    fn waits_for(&self, step: &Step, earlier: &Step) -> bool {
        self.before.get(&step.id).is_some_and(|before| before.contains(&earlier.id))
    }

    fn changes(&self) -> impl Iterator<Item = &'a Step> {
        self.plan.steps.iter().filter(|step| step.action.kind() == Kind::Change)
    }

    fn patches(&self) -> impl Iterator<Item = (&'a Step, &'a PlannedPatch)> {
        self.plan.steps.iter().filter_map(|step| match &step.action {
            Action::PatchService(patch) => Some((step, patch)),
            _ => None,
        })
    }

    /// Whether some patch before `step` satisfies `wanted`.
    fn written_before(&self, step: &Step, wanted: impl Fn(&PlannedPatch) -> bool) -> bool {
        self.patches().any(|(patch_step, patch)| self.waits_for(step, patch_step) && wanted(patch))
    }

    fn deleted_rule(&self, step: &Step) -> Option<&'a crate::observe::LoadBalancerRule> {
        match &step.action {
            Action::DeleteLoadBalancerRule(delete) => self.observed.rules.get(&delete.rule),
            _ => None,
        }
    }

    /// The delete that a create on the same address and port number follows.
    fn deleted_for(&self, create: &Step) -> Option<&'a Step> {
        let Action::CreateLoadBalancerRule(made) = &create.action else { return None };
        let Ref::Existing(address) = &made.address else { return None };
        self.plan.steps.iter().find(|step| {
            self.deleted_rule(step).is_some_and(|rule| {
                rule.address == *address && rule.public_port == made.public_port
            })
        })
    }

    fn is_recreate(&self, delete: &Step) -> bool {
        self.changes().any(|step| self.deleted_for(step).is_some_and(|found| found.id == delete.id))
    }
}

/// Steps among `steps` that satisfy `broken`.
fn broken<'a>(
    steps: impl Iterator<Item = &'a Step>,
    broken: impl Fn(&Step) -> bool,
) -> Vec<StepId> {
    steps.filter(|step| broken(step)).map(|step| step.id.clone()).collect()
}

fn ancestors(plan: &Plan) -> BTreeMap<StepId, BTreeSet<StepId>> {
    let mut all: BTreeMap<StepId, BTreeSet<StepId>> = BTreeMap::new();
    for step in &plan.steps {
        let mut before = step.after.clone();
        for earlier in &step.after {
            before.extend(all.get(earlier).into_iter().flatten().cloned());
        }
        all.insert(step.id.clone(), before);
    }
    all
}

fn disorder(case: &Case<'_>) -> Vec<StepId> {
    let mut seen = BTreeSet::new();
    let mut broken = Vec::new();
    for step in &case.plan.steps {
        if !step.after.iter().all(|id| seen.contains(id)) || !seen.insert(step.id.clone()) {
            broken.push(step.id.clone());
        }
    }
    broken
}

fn unprotected_changes(case: &Case<'_>) -> Vec<StepId> {
    let leaving = case.service.lifecycle != crate::model::service::Lifecycle::Wanted;
    if case.service.recorded.finalizer || leaving {
        return Vec::new();
    }
    broken(case.changes(), |step| {
        !case.written_before(step, |patch| patch.finalizer == Some(FinalizerChange::Add))
    })
}

fn changes_after_farewell(case: &Case<'_>) -> Vec<StepId> {
    let farewells = case.patches().filter(|(_, p)| p.finalizer == Some(FinalizerChange::Remove));
    let early = |(farewell, _): (&Step, &PlannedPatch)| {
        broken(case.changes(), |step| !case.waits_for(farewell, step))
    };
    farewells.flat_map(early).collect()
}

fn half_farewells(case: &Case<'_>) -> Vec<StepId> {
    let recorded = &case.service.recorded;
    let other_class = case.service.lifecycle == crate::model::service::Lifecycle::OtherClass;
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

fn unintended_associates(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |step| match &step.action {
        Action::AssociateIpAddress(call) if case.policy.mode == Mode::Cluster => !case
            .written_before(step, |patch| {
                let mut intents = patch.intents.value().into_iter().flat_map(Intents::as_slice);
                intents.any(|intent| intent.job == call.job)
            }),
        _ => false,
    })
}

fn unrecorded_uses(case: &Case<'_>) -> Vec<StepId> {
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

fn unrecorded_openings(case: &Case<'_>) -> Vec<StepId> {
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

/// The port that a step opens.
fn opened_port(step: &Step) -> Option<Port> {
    match &step.action {
        Action::CreateFirewallRule(create) => Some(create.port),
        Action::CreateNetworkAcl(create) => Some(create.port),
        _ => None,
    }
}

fn early_openings(case: &Case<'_>) -> Vec<StepId> {
    let first_rule = |step: &&Step, port: Port| match &step.action {
        Action::CreateLoadBalancerRule(create) => {
            create.public_port == port.number
                && create.protocol.transport() == port.transport
                && case.deleted_for(step).is_none()
        }
        _ => false,
    };
    broken(case.changes(), |opening| {
        let Some(port) = opened_port(opening) else { return false };
        let mut creates = case.changes().filter(|step| first_rule(step, port));
        creates.any(|create| {
            let assigned = case.changes().any(|step| {
                let assigns = matches!(&step.action, Action::AssignToLoadBalancerRule(assign)
                    if assign.rule.pending() == Some(&create.id));
                assigns && case.waits_for(opening, step)
            });
            !assigned || !case.waits_for(opening, create)
        })
    })
}

fn early_deletions(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |delete| {
        let Some(rule) = case.deleted_rule(delete).filter(|_| !case.is_recreate(delete)) else {
            return false;
        };
        let closes = |step: &&Step| match &step.action {
            Action::DeleteFirewallRule(close) => {
                let on = case.observed.firewall_rules_on(&rule.address);
                close.port == port_of(rule) && on.into_iter().any(|found| found.id == close.rule)
            }
            Action::DeleteNetworkAcl(close) => {
                let network = case.observed.networks.get(&rule.network);
                close.port == port_of(rule)
                    && network.is_some_and(|found| found.acl_list.as_ref() == Some(&close.list))
            }
            _ => false,
        };
        case.changes().filter(closes).any(|close| !case.waits_for(delete, close))
    })
}

fn needless_removes(case: &Case<'_>) -> Vec<StepId> {
    let deleted: BTreeSet<&LoadBalancerRuleId> =
        case.changes().filter_map(|step| case.deleted_rule(step)).map(|rule| &rule.id).collect();
    broken(case.changes(), |step| match &step.action {
        Action::RemoveFromLoadBalancerRule(remove) => deleted.contains(&remove.rule),
        _ => false,
    })
}

fn slow_recreates(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |create| {
        let Some(delete) = case.deleted_for(create) else { return false };
        let same_transport = case.deleted_rule(delete).is_some_and(|rule| {
            matches!(&create.action, Action::CreateLoadBalancerRule(made)
                if made.protocol.transport() == port_of(rule).transport)
        });
        same_transport
            && create.after != BTreeSet::from([delete.id.clone()])
            && case
                .deleted_rule(delete)
                .is_some_and(|rule| rule.state != crate::observe::RuleState::Deleting)
    })
}

fn disorderly_members(case: &Case<'_>) -> Vec<StepId> {
    let mut broken = Vec::new();
    let mut seen: BTreeSet<(String, bool)> = BTreeSet::new();
    for step in case.changes() {
        let (rule, adds) = match &step.action {
            Action::AssignToLoadBalancerRule(assign) => (assign.rule.to_string(), true),
            Action::RemoveFromLoadBalancerRule(remove) => (remove.rule.to_string(), false),
            _ => continue,
        };
        let early = !adds
            && case.changes().any(|other| {
                let assigns = matches!(&other.action, Action::AssignToLoadBalancerRule(assign)
                    if assign.rule.to_string() == rule);
                assigns && !case.waits_for(step, other)
            });
        if early || !seen.insert((rule, adds)) {
            broken.push(step.id.clone());
        }
    }
    broken
}

fn early_status(case: &Case<'_>) -> Vec<StepId> {
    let promises = |patch: &PlannedPatch| {
        matches!(patch.ingress, Some(IngressDraft::Address { .. } | IngressDraft::Hostname(_)))
    };
    let makes = |step: &&Step| {
        matches!(
            step.action,
            Action::AssociateIpAddress(_)
                | Action::CreateLoadBalancerRule(_)
                | Action::UpdateLoadBalancerRule(_)
                | Action::AssignToLoadBalancerRule(_)
                | Action::CreateFirewallRule(_)
                | Action::CreateNetworkAcl(_)
        )
    };
    let early = |(status, _): &(&Step, &PlannedPatch)| {
        case.changes().filter(makes).any(|step| !case.waits_for(status, step))
    };
    let published = case.patches().filter(|(_, patch)| promises(patch));
    published.filter(early).map(|(step, _)| step.id.clone()).collect()
}

fn unchecked_releases(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |release| {
        let Action::DisassociateIpAddress(call) = &release.action else { return false };
        let allocating = case
            .observed
            .addresses
            .get(&call.address)
            .is_some_and(|found| found.state == crate::observe::AddressState::Allocating);
        let checked = case.plan.steps.iter().any(|step| {
            let checks = matches!(&step.action, Action::CheckAddressUnused(check)
                if check.address == call.address);
            checks && case.waits_for(release, step)
        });
        let others_first = case
            .changes()
            .filter(|step| step.id != release.id && works_on(case, step, &call.address))
            .all(|step| case.waits_for(release, step));
        !(allocating || checked && others_first)
    })
}

fn works_on(case: &Case<'_>, step: &Step, address: &PublicIpId) -> bool {
    let rule_on = |id: &LoadBalancerRuleId| {
        case.observed.rules.get(id).is_some_and(|rule| rule.address == *address)
    };
    match &step.action {
        Action::CreateLoadBalancerRule(call) => call.address == Ref::Existing(address.clone()),
        Action::CreateFirewallRule(call) => call.address == Ref::Existing(address.clone()),
        Action::UpdateLoadBalancerRule(call) => rule_on(&call.rule),
        Action::DeleteLoadBalancerRule(call) => rule_on(&call.rule),
        Action::RemoveFromLoadBalancerRule(call) => rule_on(&call.rule),
        Action::AssignToLoadBalancerRule(call) => match &call.rule {
            Ref::Existing(id) => rule_on(id),
            Ref::Pending(_) => false,
        },
        Action::DeleteFirewallRule(call) => {
            case.observed.firewall_rules_on(address).any(|rule| rule.id == call.rule)
        }
        Action::AssociateIpAddress(_)
        | Action::CheckAddressUnused(_)
        | Action::DisassociateIpAddress(_)
        | Action::CreateNetworkAcl(_)
        | Action::DeleteNetworkAcl(_)
        | Action::CreateTags(_)
        | Action::PatchService(_) => false,
    }
}
