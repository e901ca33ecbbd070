//! Hands out the steps of a plan whose predecessors are done, so that independent chains run side
//! by side; takes what became of them. A failed step skips its dependents and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thiserror::Error;

use crate::exec::error::{CallError, Effect, Fault};
use crate::exec::lanes::Lanes;
use crate::exec::output::{AddressUse, Output};
use crate::exec::resolve::{Outputs, resolve};
use crate::model::Lessons;
use crate::observe::ownership::{TAG_KEEP, is_kept_by_tag};
use crate::plan::action::{Action, Call, CheckAddressUnused, Kind};
use crate::plan::{Plan, Step, StepId};

/// A plan on its way.
#[derive(Debug)]
pub struct Execution<'p> {
    plan: &'p Plan,
    running: BTreeMap<StepId, Call>,
    outputs: Outputs,
    failed: BTreeMap<StepId, StepError>,
    lessons: Lessons,
}

/// Why a step failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StepError {
    /// The call did not succeed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The fresh read before a release found something.
    #[error("the address is not released: {0}")]
    AddressInUse(String),
    /// An earlier step gave something else than its kind of step gives.
    #[error("an earlier step gave no {0} (please report this)")]
    Unresolved(&'static str),
}

impl StepError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Call(error) => error.fault,
            Self::AddressInUse(_) => Fault::Refused,
            Self::Unresolved(_) => Fault::Bug,
        }
    }

    /// How long the server asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Call(error) => error.retry_after,
            Self::AddressInUse(_) | Self::Unresolved(_) => None,
        }
    }
}

/// What became of a plan.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Steps that succeeded.
    pub done: BTreeSet<StepId>,
    /// Steps that failed, and why.
    pub failed: BTreeMap<StepId, StepError>,
    /// Steps that were never tried.
    pub skipped: BTreeSet<StepId>,
    /// What decides how soon to try again: the fault that needs the longest wait.
    pub worst_fault: Option<Fault>,
    /// Facts for the next plan.
    pub lessons: Lessons,
}

impl Outcome {
    /// Whether everything was done.
    pub fn is_success(&self) -> bool {
        self.failed.is_empty() && self.skipped.is_empty()
    }
}

impl<'p> Execution<'p> {
    /// Nothing done yet.
    pub fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            running: BTreeMap::new(),
            outputs: Outputs::new(),
            failed: BTreeMap::new(),
            lessons: Lessons::default(),
        }
    }

    /// The next call that may be made now; `None` if something must come back first, or all is
    /// over. Takes the call's lanes.
    pub fn poll_call(&mut self, lanes: &mut Lanes) -> Option<(StepId, Call)> {
        loop {
            let step = self.plan.steps.iter().find(|step| self.is_ready(step, lanes))?;
            match resolve(&step.action, &self.outputs) {
                Some(call) => {
                    lanes.enter(&call);
                    self.running.insert(step.id.clone(), call.clone());
                    return Some((step.id.clone(), call));
                }
                None => {
                    let error = StepError::Unresolved(step.action.command());
                    self.failed.insert(step.id.clone(), error);
                }
            }
        }
    }

    /// Takes the result of a call.
    pub fn handle_result(
        &mut self,
        step: &StepId,
        result: Result<Output, CallError>,
        lanes: &mut Lanes,
    ) {
        let Some(call) = self.running.remove(step) else {
            return;
        };
        lanes.leave(&call);
        self.note_hidden_use(&call, &result);
        let result = result.map_err(StepError::from).and_then(|output| accept(&call, output));
        match result {
            Ok(output) => {
                self.learn_of_success(&call);
                self.outputs.insert(step.clone(), output);
            }
            Err(error) => {
                self.learn(&call, &error);
                self.failed.insert(step.clone(), error);
            }
        }
    }

    /// Whether calls are out.
    pub fn is_waiting(&self) -> bool {
        !self.running.is_empty()
    }

    /// Sums up. Calls that are still out count as skipped: nobody knows what they did.
    pub fn finish(self) -> Outcome {
        let Self { plan, running: _, outputs, failed, lessons } = self;
        let done: BTreeSet<StepId> = outputs.into_keys().collect();
        let over = |id: &StepId| done.contains(id) || failed.contains_key(id);
        let skipped =
            plan.steps.iter().map(|step| &step.id).filter(|id| !over(id)).cloned().collect();
        let worst_fault = worst_fault(plan, &failed);
        Outcome { done, failed, skipped, worst_fault, lessons }
    }

    /// Whether a step waits for nothing but the end of a call that is out for another plan.
    pub fn is_held_up(&self) -> bool {
        self.running.is_empty() && self.plan.steps.iter().any(|step| self.is_due(step))
    }

    fn is_ready(&self, step: &Step, lanes: &Lanes) -> bool {
        self.is_due(step)
            && resolve(&step.action, &self.outputs).is_none_or(|call| lanes.is_free_for(&call))
    }

    fn is_due(&self, step: &Step) -> bool {
        let untouched = !self.running.contains_key(&step.id)
            && !self.outputs.contains_key(&step.id)
            && !self.failed.contains_key(&step.id);
        untouched && step.after.iter().all(|id| self.outputs.contains_key(id))
    }

    /// What others have on an address and only the fresh read shows, every further plan would find
    /// again. That CloudStack merely says so may be an old tale: it is asked again.
    fn note_hidden_use(&mut self, call: &Call, result: &Result<Output, CallError>) {
        if let Call::CheckAddressUnused(check) = call
            && let Ok(Output::AddressUse(found)) = result
            && listed_use(check, found).is_none()
            && let Some(by) = forward(found)
        {
            self.lessons.held_addresses.insert(check.address.clone(), by);
        }
    }

    fn learn_of_success(&mut self, call: &Call) {
        if let Call::DisassociateIpAddress(release) = call {
            self.lessons.released.insert(release.address.clone());
        }
    }

    fn learn(&mut self, call: &Call, error: &StepError) {
        let StepError::Call(error) = error else {
            return;
        };
        if let Call::AssociateIpAddress(args) = call
            && error.effect == Effect::No
        {
            self.lessons.refused_jobs.insert(args.job.clone());
        }
        if let Call::CreateLoadBalancerRule(args) = call
            && error.code == Some(PORT_CONFLICT)
            && error.effect == Effect::No
        {
            self.lessons.taken_ports.insert((args.address.clone(), args.public_port));
        }
        if let Call::CreateTags(args) = call
            && !matches!(error.fault, Fault::Transient | Fault::Throttled)
        {
            self.lessons.untaggable.extend(args.objects.iter().cloned());
        }
        if let Call::CreateFirewallRule(args) = call
            && refuses_firewall(error)
        {
            self.lessons.vpcs_without_firewall.extend(args.trial.clone());
        }
    }
}

/// `errorcode` of a create whose port something else has.
const PORT_CONFLICT: u16 = 537;

/// Whether the server says that there is no Firewall service: 431 at once, or on older servers a
/// 530 with a general text. A router that fails to take a rule says so in its own words.
fn refuses_firewall(error: &CallError) -> bool {
    let of_router = error.message.contains("Failed to create firewall rule");
    match error.code {
        Some(431) => error.effect == Effect::No,
        Some(530) => !of_router,
        _ => false,
    }
}

/// The fault that needs the longest wait. That of a tag counts only if nothing else failed.
fn worst_fault(plan: &Plan, failed: &BTreeMap<StepId, StepError>) -> Option<Fault> {
    let is_tag = |id: &StepId| {
        plan.step(id).is_some_and(|step| matches!(step.action, Action::CreateTags(_)))
    };
    let (tags, others): (Vec<_>, Vec<_>) = failed.iter().partition(|(id, _)| is_tag(id));
    let counted = if others.is_empty() { tags } else { others };
    counted.into_iter().map(|(id, error)| fault_for_waiting(plan, id, error)).max()
}

/// What CloudStack forbids stays forbidden until a person acts. An API server forbids everything to
/// everybody while it starts, before it knows its roles: asking again soon is right, and cheap.
fn fault_for_waiting(plan: &Plan, id: &StepId, error: &StepError) -> Fault {
    let is_patch = plan.step(id).is_some_and(|step| step.action.kind() == Kind::Write);
    let fault = error.fault();
    if is_patch && fault == Fault::Permission { Fault::Transient } else { fault }
}

/// The fresh read before a release decides whether the plan goes on.
fn accept(call: &Call, output: Output) -> Result<Output, StepError> {
    match (call, output) {
        (Call::CheckAddressUnused(check), Output::AddressUse(found)) => {
            match listed_use(check, &found).or_else(|| forward(&found)).or_else(|| hint(&found)) {
                Some(by) => Err(StepError::AddressInUse(by)),
                None => Ok(Output::Done),
            }
        }
        (_, output) => Ok(output),
    }
}

/// What speaks against the release of an address, read afresh, and shows in lists too.
fn listed_use(check: &CheckAddressUnused, found: &AddressUse) -> Option<String> {
    let AddressUse {
        allocated,
        held,
        nat,
        tags,
        load_balancer_rules,
        firewall_rules,
        port_forwards: _,
        has_rules: _,
    } = found;
    if allocated.as_ref() != Some(&check.allocated) || !held {
        return Some(format!("{} is not the allocation that was recorded", check.address));
    }
    if *nat {
        return Some("it is used for NAT".to_owned());
    }
    if is_kept_by_tag(tags) {
        return Some(format!("tag `{TAG_KEEP}` keeps it"));
    }
    if let Some(rule) = load_balancer_rules.first() {
        return Some(format!("load balancer rule {rule} is on it"));
    }
    firewall_rules.first().map(|rule| format!("firewall rule {rule} is on it"))
}

/// What speaks against it and shows in no list that is read for plans.
fn forward(found: &AddressUse) -> Option<String> {
    let rule = found.port_forwards.first()?;
    Some(format!("port forwarding rule {rule} is on it, which is not ours"))
}

/// CloudStack's word that something is on it, without a sign of what.
fn hint(found: &AddressUse) -> Option<String> {
    let says_so = found.has_rules == Some(true);
    says_so.then(|| "CloudStack says that rules are on it that we can't see".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LoadBalancerRuleId, ServiceKey, ServiceUid};
    use crate::plan::action::{DeleteLoadBalancerRule, PatchService};
    use crate::plan::reason::{Disruption, Reason};

    /// What decides how long to wait when an only step is forbidden.
    fn forbidden(action: Action) -> Option<Fault> {
        let service = ServiceKey::new("shop", "web");
        let id = StepId::new("step");
        let step = Step {
            id: id.clone(),
            action,
            after: BTreeSet::new(),
            reason: Reason::AddressMissing,
            disruption: Disruption::None,
        };
        let error = CallError {
            command: "deed".to_owned(),
            code: Some(403),
            fault: Fault::Permission,
            effect: Effect::No,
            retry_after: None,
            message: "forbidden".to_owned(),
        };
        let plan = Plan { steps: vec![step], ..Plan::new(service) };
        worst_fault(&plan, &[(id, error.into())].into())
    }

    #[test]
    fn an_api_server_that_forbids_is_asked_again_soon_and_cloudstack_is_not() {
        let service = ServiceKey::new("shop", "web");
        let patch = PatchService::nothing(service, ServiceUid::parse("u1").unwrap());
        assert_eq!(forbidden(Action::PatchService(patch)), Some(Fault::Transient));
        let delete = DeleteLoadBalancerRule { rule: LoadBalancerRuleId::parse("r1").unwrap() };
        assert_eq!(forbidden(Action::DeleteLoadBalancerRule(delete)), Some(Fault::Permission));
    }
}
