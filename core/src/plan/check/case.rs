//! A plan as the laws look at it.

#![expect(clippy::wildcard_enum_match_arm, reason = "each law looks at a few kinds of action")]

use std::collections::{BTreeMap, BTreeSet};

use crate::model::mark::Mark;
use crate::model::policy::Policy;
use crate::model::service::{Lifecycle, LoadBalancerSpec, Port, Service};
use crate::observe::index::Observed;
use crate::observe::{FirewallRule, LoadBalancerRule, RuleState};
use crate::plan::action::{Action, Kind, PlannedPatch, Ref};
use crate::plan::{Plan, Step, StepId};

/// A plan with what the laws look at.
pub(super) struct Case<'a> {
    pub(super) plan: &'a Plan,
    pub(super) service: &'a Service,
    pub(super) observed: &'a Observed,
    pub(super) policy: &'a Policy,
    pub(super) before: BTreeMap<StepId, BTreeSet<StepId>>,
}

impl<'a> Case<'a> {
    pub(super) fn waits_for(&self, step: &Step, earlier: &Step) -> bool {
        self.before.get(&step.id).is_some_and(|before| before.contains(&earlier.id))
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = &'a Step> {
        self.plan.steps.iter().filter(|step| step.action.kind() == Kind::Change)
    }

    pub(super) fn patches(&self) -> impl Iterator<Item = (&'a Step, &'a PlannedPatch)> {
        self.plan.steps.iter().filter_map(|step| match &step.action {
            Action::PatchService(patch) => Some((step, patch)),
            _ => None,
        })
    }

    /// Whether some patch before `step` satisfies `wanted`.
    pub(super) fn written_before(
        &self,
        step: &Step,
        wanted: impl Fn(&PlannedPatch) -> bool,
    ) -> bool {
        self.patches().any(|(patch_step, patch)| self.waits_for(step, patch_step) && wanted(patch))
    }

    pub(super) fn deleted_rule(&self, step: &Step) -> Option<&'a LoadBalancerRule> {
        match &step.action {
            Action::DeleteLoadBalancerRule(delete) => self.observed.rules.get(&delete.rule),
            _ => None,
        }
    }

    /// The delete that a create on the same address and port number follows.
    pub(super) fn deleted_for(&self, create: &Step) -> Option<&'a Step> {
        let Action::CreateLoadBalancerRule(made) = &create.action else { return None };
        let Ref::Existing(address) = &made.address else { return None };
        self.plan.steps.iter().find(|step| {
            self.deleted_rule(step).is_some_and(|rule| {
                rule.address == *address && rule.public_port == made.public_port
            })
        })
    }

    /// The firewall rule that a step deletes.
    pub(super) fn closed_rule(&self, step: &Step) -> Option<&'a FirewallRule> {
        match &step.action {
            Action::DeleteFirewallRule(close) => self.observed.firewall_rule(&close.rule),
            _ => None,
        }
    }

    /// What the Service asks for, while it wants a load balancer.
    pub(super) fn wanted(&self) -> Option<&'a LoadBalancerSpec> {
        let wanted = self.service.lifecycle == Lifecycle::Wanted;
        self.service.spec.as_ref().ok().filter(|_| wanted)
    }

    /// Rules of the Service that are there, and are or are made again when the plan is through.
    pub(super) fn staying_rules(&self) -> impl Iterator<Item = &'a LoadBalancerRule> {
        self.observed.rules.values().filter(|rule| {
            let mark = rule.description.as_deref().and_then(Mark::parse);
            let ours = mark.is_some_and(|mark| mark.service == self.service.uid);
            let gone = self.changes().any(|step| {
                let deleted = self.deleted_rule(step);
                deleted.is_some_and(|found| found.id == rule.id) && !self.is_recreate(step)
            });
            ours && rule.state != RuleState::Deleting && !gone
        })
    }

    /// Whether the Service asks for a port.
    pub(super) fn asks_for(&self, port: Port) -> bool {
        let ports = self.wanted().into_iter().flat_map(|spec| &spec.ports);
        ports.into_iter().any(|asked| {
            asked.number == port.number && asked.transport.as_ref().ok() == Some(&port.transport)
        })
    }

    pub(super) fn is_recreate(&self, delete: &Step) -> bool {
        self.changes().any(|step| self.deleted_for(step).is_some_and(|found| found.id == delete.id))
    }
}

/// Steps among `steps` that satisfy `broken`.
pub(super) fn broken<'a>(
    steps: impl Iterator<Item = &'a Step>,
    broken: impl Fn(&Step) -> bool,
) -> Vec<StepId> {
    steps.filter(|step| broken(step)).map(|step| step.id.clone()).collect()
}

pub(super) fn ancestors(plan: &Plan) -> BTreeMap<StepId, BTreeSet<StepId>> {
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
