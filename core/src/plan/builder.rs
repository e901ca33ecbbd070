//! Collects the steps of one plan and hands out references to what they will make.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{LoadBalancerRuleId, PublicIpId, ResourceId, ServiceKey};
use crate::plan::action::{
    Action, AssignToLoadBalancerRule, AssociateIpAddress, CreateLoadBalancerRule, Pending, Ref,
    ResolvedAddress,
};
use crate::plan::reason::{Disruption, Reason};
use crate::plan::{Plan, Step, StepId};

/// A plan in the making.
#[derive(Debug)]
pub struct Builder {
    plan: Plan,
    asides: BTreeSet<StepId>,
}

/// Steps to wait for.
pub type After = BTreeSet<StepId>;

impl Builder {
    /// An empty plan for a Service.
    pub fn new(service: ServiceKey) -> Self {
        Self { plan: Plan::new(service), asides: BTreeSet::new() }
    }

    /// Adds a step. It waits for `after` and for every step that it takes an id from.
    ///
    /// A name that is taken gets a number: two steps of one kind may concern one object.
    pub fn add(
        &mut self,
        name: &str,
        action: Action,
        after: &After,
        reason: Reason,
        disruption: Disruption,
    ) -> StepId {
        let id = self.free_name(name);
        let mut after = after.clone();
        after.extend(action.references().into_iter().cloned());
        self.plan.steps.push(Step { id: id.clone(), action, after, reason, disruption });
        id
    }

    /// Puts a step before all others.
    pub fn begin_with(&mut self, name: &str, action: Action, reason: Reason) {
        let id = self.free_name(name);
        for step in self.plan.steps.iter_mut().filter(|step| step.after.is_empty()) {
            step.after.insert(id.clone());
        }
        let (after, disruption) = (After::new(), Disruption::None);
        self.plan.steps.insert(0, Step { id, action, after, reason, disruption });
    }

    /// Adds an associate step; gives the new address as rules and as records refer to it.
    pub fn associate(
        &mut self,
        action: AssociateIpAddress,
        after: &After,
        reason: Reason,
    ) -> (StepId, Ref<PublicIpId>, Ref<ResolvedAddress>) {
        let action = Action::AssociateIpAddress(action);
        let id = self.add("address", action, after, reason, Disruption::None);
        (id.clone(), Ref::Pending(Pending::new(id.clone())), Ref::Pending(Pending::new(id)))
    }

    /// Adds a create step; gives the new rule.
    pub fn create_rule(
        &mut self,
        name: &str,
        action: CreateLoadBalancerRule<Ref<PublicIpId>>,
        after: &After,
        reason: Reason,
        disruption: Disruption,
    ) -> (StepId, Ref<LoadBalancerRuleId>) {
        let action = Action::CreateLoadBalancerRule(action);
        let id = self.add(name, action, after, reason, disruption);
        (id.clone(), Ref::Pending(Pending::new(id)))
    }

    /// Adds an assign step.
    pub fn assign(
        &mut self,
        name: &str,
        action: AssignToLoadBalancerRule<Ref<LoadBalancerRuleId>>,
        after: &After,
        reason: Reason,
    ) -> StepId {
        let action = Action::AssignToLoadBalancerRule(action);
        self.add(name, action, after, reason, Disruption::Reload)
    }

    /// Adds a step that has nothing to do with how the Service is served: no other waits for it
    /// unless it names it.
    pub fn add_aside(
        &mut self,
        name: &str,
        action: Action,
        after: &After,
        reason: Reason,
    ) -> StepId {
        let id = self.add(name, action, after, reason, Disruption::None);
        self.asides.insert(id.clone());
        id
    }

    /// The ids of all steps so far, without those aside.
    pub fn all(&self) -> After {
        let ids = self.plan.steps.iter().map(|step| &step.id);
        ids.filter(|id| !self.asides.contains(*id)).cloned().collect()
    }

    /// What the steps so far do.
    pub fn actions(&self) -> impl Iterator<Item = (&StepId, &Action)> {
        self.plan.steps.iter().map(|step| (&step.id, &step.action))
    }

    /// Whatever a step of the plan makes, as createTags names it.
    pub fn made(&self, step: &StepId) -> Ref<ResourceId> {
        Ref::Pending(Pending::new(step.clone()))
    }

    /// Whether any step touches CloudStack.
    pub fn touches_cloud(&self) -> bool {
        self.plan.touches_cloud()
    }

    /// Names addresses that the plan works on.
    pub fn work_on(&mut self, addresses: impl IntoIterator<Item = PublicIpId>) {
        self.plan.addresses.extend(addresses);
    }

    /// The finished plan. Steps name only the last of those that they wait for.
    pub fn finish(mut self) -> Plan {
        let mut before: BTreeMap<StepId, After> = BTreeMap::new();
        for step in &mut self.plan.steps {
            let all: After = step
                .after
                .iter()
                .flat_map(|id| before.get(id).into_iter().flatten().chain([id]))
                .cloned()
                .collect();
            let implied = |id: &StepId| {
                step.after.iter().any(|other| before.get(other).is_some_and(|b| b.contains(id)))
            };
            let last = step.after.iter().filter(|id| !implied(id)).cloned().collect();
            step.after = last;
            before.insert(step.id.clone(), all);
        }
        self.plan
    }

    fn free_name(&self, name: &str) -> StepId {
        let taken = |id: &StepId| self.plan.steps.iter().any(|step| &step.id == id);
        let mut id = StepId::new(name);
        let mut number = 2;
        while taken(&id) {
            id = StepId::new(format!("{name}#{number}"));
            number += 1;
        }
        id
    }
}
