//! What is told before and after a plan is executed. The Go framework tells every sync; we tell one
//! that does something for the load balancer, so that a restart is quiet.

use crate::event::{Event, Hosts, Occasion};
use crate::exec::error::Fault;
use crate::exec::execution::{Outcome, StepError};
use crate::model::service::Lifecycle;
use crate::plan::action::{Action, Kind};
use crate::plan::report::Severity;
use crate::plan::{Plan, Planned, Step, StepId};

/// What made it necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Something in Kubernetes, or what an earlier sync could not do.
    Wanted,
    /// Nothing but the drift round: somebody changed something in CloudStack.
    Drift,
}

/// A plan that is executed.
#[derive(Clone, Copy, Debug)]
pub struct Sync<'a> {
    /// Of its Service.
    pub lifecycle: Lifecycle,
    /// Why it was made.
    pub cause: Cause,
    /// The plan.
    pub planned: &'a Planned,
}

/// What a plan does, as far as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// It keeps books.
    Quiet,
    /// It brings members up to date.
    Members,
    /// It makes or changes a load balancer.
    Ensure,
    /// It puts back what somebody changed.
    Repair,
    /// It removes a load balancer.
    Delete,
}

impl Sync<'_> {
    /// What is told before the first step.
    pub fn beginning(&self) -> Option<Event> {
        match self.work() {
            Work::Ensure => Some(Occasion::EnsuringLoadBalancer {}.event()),
            Work::Delete if self.planned.plan.touches_cloud() => {
                Some(Occasion::DeletingLoadBalancer {}.event())
            }
            Work::Quiet | Work::Members | Work::Repair | Work::Delete => None,
        }
    }

    /// What is told once it is over. `hosts` are the eligible Nodes.
    pub fn end(&self, outcome: &Outcome, hosts: impl IntoIterator<Item = String>) -> Vec<Event> {
        let failures = Failures::of(&self.planned.plan, outcome);
        let mut events = Vec::new();
        if failures.none {
            events.extend(self.success());
        } else if !failures.texts.is_empty() {
            events.extend((self.work() == Work::Repair).then(|| of_drift(&self.planned.plan)));
            events.push(self.failure(failures.texts.join("; "), hosts));
        }
        if !failures.of_tags.is_empty() {
            let error = failures.of_tags.join("; ");
            events.push(Occasion::TaggingFailed { error }.event());
        }
        events
    }

    /// Whether it puts back what somebody changed.
    pub fn is_repair(&self) -> bool {
        self.work() == Work::Repair
    }

    fn success(&self) -> Option<Event> {
        let report = &self.planned.report;
        let waits = report.notes.iter().any(|note| note.severity() == Severity::Waiting);
        let without_nodes = report.notes.iter().any(|note| note.code() == "NoEligibleNodes");
        let occasion = match self.work() {
            Work::Quiet => return None,
            Work::Ensure if report.is_blocked() => return None,
            Work::Members if without_nodes => return None,
            Work::Delete if waits => return None,
            Work::Ensure => Occasion::EnsuredLoadBalancer {},
            Work::Members => Occasion::UpdatedLoadBalancer {},
            Work::Delete => Occasion::DeletedLoadBalancer {},
            Work::Repair => Occasion::DriftRepaired { what: differences(&self.planned.plan) },
        };
        Some(occasion.event())
    }

    fn failure(&self, error: String, hosts: impl IntoIterator<Item = String>) -> Event {
        let hosts: Hosts = hosts.into_iter().collect();
        match self.work() {
            Work::Members => Occasion::UpdateLoadBalancerFailed { hosts, error },
            Work::Delete if self.planned.plan.service.is_vanished() => {
                Occasion::DeleteLoadBalancerFailed { error }
            }
            Work::Quiet | Work::Ensure | Work::Repair | Work::Delete => {
                Occasion::SyncLoadBalancerFailed { error }
            }
        }
        .event()
    }

    fn work(&self) -> Work {
        let plan = &self.planned.plan;
        if !plan.touches_cloud() && !plan.steps.iter().any(changes_finalizer) {
            Work::Quiet
        } else if self.lifecycle != Lifecycle::Wanted {
            Work::Delete
        } else if self.cause == Cause::Drift {
            Work::Repair
        } else if changes(plan).all(is_of_members) {
            Work::Members
        } else {
            Work::Ensure
        }
    }
}

/// What is told of drift that is not repaired.
fn of_drift(plan: &Plan) -> Event {
    Occasion::DriftFound { what: differences(plan) }.event()
}

fn changes(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.steps.iter().filter(|step| step.action.kind() == Kind::Change || changes_finalizer(step))
}

fn changes_finalizer(step: &Step) -> bool {
    matches!(&step.action, Action::PatchService(patch) if patch.finalizer.is_some())
}

fn is_of_members(step: &Step) -> bool {
    matches!(
        step.action,
        Action::AssignToLoadBalancerRule(_) | Action::RemoveFromLoadBalancerRule(_)
    )
}

/// What the steps in CloudStack are for.
fn differences(plan: &Plan) -> String {
    let steps = plan.steps.iter().filter(|step| step.action.kind() == Kind::Change);
    let texts: Vec<String> =
        steps.map(|Step { id, reason, .. }| format!("{id}: {reason}")).collect();
    texts.join("; ")
}

/// What failed, in words.
struct Failures {
    /// Whether everything but tags was done.
    none: bool,
    texts: Vec<String>,
    of_tags: Vec<String>,
}

impl Failures {
    fn of(plan: &Plan, outcome: &Outcome) -> Self {
        let is_tag = |id: &StepId| {
            plan.step(id).is_some_and(|step| matches!(step.action, Action::CreateTags(_)))
        };
        let (tags, others): (Vec<_>, Vec<_>) =
            outcome.failed.iter().partition(|(id, _)| is_tag(id));
        Self {
            none: others.is_empty() && outcome.skipped.iter().all(is_tag),
            texts: texts(plan, others),
            of_tags: texts(plan, tags),
        }
    }
}

/// Each text once. What passes by itself is none: a window in which the server wants to be left in
/// peace, and a Service that was changed or deleted under our hands.
fn texts<'a>(
    plan: &Plan,
    failed: impl IntoIterator<Item = (&'a StepId, &'a StepError)>,
) -> Vec<String> {
    let mut texts = Vec::new();
    for (id, error) in failed {
        let text = error.to_string();
        if !is_passing(plan.step(id), error) && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

fn is_passing(step: Option<&Step>, error: &StepError) -> bool {
    let is_write = step.is_some_and(|step| step.action.kind() == Kind::Write);
    match error {
        StepError::Call(call) => {
            call.fault == Fault::Throttled
                || is_write && matches!(call.code, Some(NOT_FOUND | CONFLICT | INVALID))
        }
        StepError::AddressInUse(_) | StepError::Unresolved(_) => false,
    }
}

const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;
/// A status that does not fit the type that the Service has by now.
const INVALID: u16 = 422;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::event::Event;
    use crate::exec::error::{CallError, Effect};
    use crate::ids::{JobId, LoadBalancerRuleId, ServiceKey, ServiceUid};
    use crate::model::service::{Algorithm, Port, RuleProtocol, Transport};
    use crate::plan::action::{
        AssignToLoadBalancerRule, CreateTags, DeleteLoadBalancerRule, Edit, FinalizerChange,
        PatchService, Ref, ResourceType, UpdateLoadBalancerRule,
    };
    use crate::plan::reason::{Disruption, Reason};
    use crate::plan::report::{Note, Report};

    const PORT: Port = Port { transport: Transport::Tcp, number: 80 };

    fn key() -> ServiceKey {
        ServiceKey::new("shop", "web")
    }

    fn rule() -> LoadBalancerRuleId {
        LoadBalancerRuleId::parse("r1").unwrap()
    }

    fn patch(finalizer: Option<FinalizerChange>) -> (&'static str, Action, Reason) {
        let patch = PatchService {
            finalizer,
            record: Edit::Remove,
            ..PatchService::nothing(key(), ServiceUid::parse("u1").unwrap())
        };
        ("service/patch", Action::PatchService(patch), Reason::RecordDiffers)
    }

    fn update() -> (&'static str, Action, Reason) {
        let update = UpdateLoadBalancerRule {
            rule: rule(),
            protocol: RuleProtocol::Tcp,
            name: None,
            description: None,
            algorithm: Some(Algorithm::RoundRobin),
            sources: None,
        };
        let (found, wanted) = ("source".to_owned(), Algorithm::RoundRobin);
        let reason = Reason::AlgorithmDiffers { found, wanted };
        ("rule/tcp-80", Action::UpdateLoadBalancerRule(update), reason)
    }

    fn assign() -> (&'static str, Action, Reason) {
        let assign = AssignToLoadBalancerRule { rule: Ref::Existing(rule()), vms: BTreeSet::new() };
        let reason = Reason::MembersMissing { count: 1 };
        ("members/tcp-80", Action::AssignToLoadBalancerRule(assign), reason)
    }

    fn delete() -> (&'static str, Action, Reason) {
        let delete = DeleteLoadBalancerRule { rule: rule() };
        ("rule/tcp-80", Action::DeleteLoadBalancerRule(delete), Reason::ServiceDeleted)
    }

    fn tags() -> (&'static str, Action, Reason) {
        let tags = ["k8s-cluster", "k8s-service", "k8s-kind"].map(|key| (key, String::new()));
        let resource = ResourceType::LoadBalancer;
        let tags = CreateTags { resource, objects: Vec::new(), tags };
        ("tags", Action::CreateTags(tags), Reason::TagsMissing)
    }

    fn planned(
        actions: impl IntoIterator<Item = (&'static str, Action, Reason)>,
        notes: Vec<Note>,
    ) -> Planned {
        let step = |(id, action, reason)| Step {
            id: StepId::new(id),
            action,
            after: BTreeSet::new(),
            reason,
            disruption: Disruption::None,
        };
        let steps = actions.into_iter().map(step).collect();
        Planned { plan: Plan { steps, ..Plan::new(key()) }, report: Report { notes } }
    }

    fn done(planned: &Planned) -> Outcome {
        let done = planned.plan.steps.iter().map(|step| step.id.clone()).collect();
        Outcome { done, ..Outcome::default() }
    }

    fn error(fault: Fault, code: u16) -> StepError {
        let (command, message) = ("deed".to_owned(), "boom".to_owned());
        let effect = Effect::No;
        let code = Some(code);
        CallError { command, code, fault, effect, retry_after: None, message }.into()
    }

    /// All steps failed for this reason.
    fn failed(planned: &Planned, error: &StepError) -> Outcome {
        let failed = planned.plan.steps.iter().map(|step| (step.id.clone(), error.clone()));
        Outcome { failed: failed.collect(), ..Outcome::default() }
    }

    fn reasons(events: impl IntoIterator<Item = Event>) -> Vec<&'static str> {
        events.into_iter().map(|event| event.reason).collect()
    }

    fn sync(lifecycle: Lifecycle, cause: Cause, planned: &Planned) -> Sync<'_> {
        Sync { lifecycle, cause, planned }
    }

    /// What is told before and after a plan that succeeds.
    fn told(lifecycle: Lifecycle, cause: Cause, planned: &Planned) -> Vec<&'static str> {
        let sync = sync(lifecycle, cause, planned);
        reasons(sync.beginning().into_iter().chain(sync.end(&done(planned), [])))
    }

    #[test]
    fn a_plan_that_works_is_told_as_the_go_framework_tells_it() {
        use Lifecycle::{Deleting, OtherClass, OtherType, Wanted};
        let add = || patch(Some(FinalizerChange::Add));
        let remove = || patch(Some(FinalizerChange::Remove));
        let ensured = vec!["EnsuringLoadBalancer", "EnsuredLoadBalancer"];
        let deleted = vec!["DeletingLoadBalancer", "DeletedLoadBalancer"];
        for (what, lifecycle, planned, expected) in [
            ("made", Wanted, planned([add(), update(), assign()], vec![]), ensured.clone()),
            ("changed", Wanted, planned([update()], vec![]), ensured.clone()),
            ("finalized", Wanted, planned([add()], vec![]), ensured),
            (
                "members",
                Wanted,
                planned([assign(), patch(None)], vec![]),
                vec!["UpdatedLoadBalancer"],
            ),
            ("deleted", Deleting, planned([delete(), remove()], vec![]), deleted.clone()),
            ("no longer one", OtherType, planned([delete(), remove()], vec![]), deleted.clone()),
            ("of a class now", OtherClass, planned([delete(), remove()], vec![]), deleted),
            (
                "nothing was made",
                Deleting,
                planned([remove()], vec![]),
                vec!["DeletedLoadBalancer"],
            ),
        ] {
            assert_eq!(told(lifecycle, Cause::Wanted, &planned), expected, "{what}");
        }
    }

    #[test]
    fn c079_books_are_kept_without_a_word() {
        for planned in [planned([], vec![]), planned([patch(None)], vec![])] {
            for cause in [Cause::Wanted, Cause::Drift] {
                assert!(told(Lifecycle::Wanted, cause, &planned).is_empty());
            }
        }
    }

    #[test]
    fn c082_drift_is_told_with_what_differed() {
        let planned = planned([update(), assign(), patch(None)], vec![]);
        let sync = sync(Lifecycle::Wanted, Cause::Drift, &planned);
        assert_eq!(sync.beginning(), None);
        let events = sync.end(&done(&planned), []);
        assert_eq!(reasons(events.clone()), ["DriftRepaired"]);
        assert_eq!(
            events[0].message,
            "Put back what somebody changed in CloudStack: rule/tcp-80: algorithm is source, \
             wanted is roundrobin; members/tcp-80: nodes that are not members yet: 1"
        );
    }

    #[test]
    fn a_success_is_not_told_where_something_is_missing() {
        let blocked = Note::ProtocolNotServed { port: 5060, protocol: "SCTP".to_owned() };
        let partly = planned([update()], vec![blocked]);
        assert_eq!(told(Lifecycle::Wanted, Cause::Wanted, &partly), ["EnsuringLoadBalancer"]);
        let empty = planned([assign()], vec![Note::NoEligibleNodes {}]);
        assert!(told(Lifecycle::Wanted, Cause::Wanted, &empty).is_empty());
        let job = JobId::parse("j1").unwrap();
        let waits = planned([delete()], vec![Note::AssociateRunning { job }]);
        assert_eq!(told(Lifecycle::Deleting, Cause::Wanted, &waits), ["DeletingLoadBalancer"]);
        let without_member = planned([update()], vec![Note::NoMembersYet { port: PORT }]);
        let ensured = ["EnsuringLoadBalancer", "EnsuredLoadBalancer"];
        assert_eq!(told(Lifecycle::Wanted, Cause::Wanted, &without_member), ensured);
    }

    #[test]
    fn a_failure_is_one_warning_with_every_text_once() {
        let both = planned([update(), assign()], vec![]);
        let sync = sync(Lifecycle::Wanted, Cause::Wanted, &both);
        let events = sync.end(&failed(&both, &error(Fault::Cloud, 530)), []);
        assert_eq!(reasons(events.clone()), ["SyncLoadBalancerFailed"]);
        assert_eq!(events[0].message, "Error syncing load balancer: deed: boom");
        let mut outcome = failed(&both, &error(Fault::Cloud, 530));
        let in_use = StepError::AddressInUse("a forward is on it".to_owned());
        outcome.failed.insert(StepId::new("rule/tcp-80"), in_use);
        assert_eq!(
            sync.end(&outcome, [])[0].message,
            "Error syncing load balancer: deed: boom; the address is not released: a forward is \
             on it"
        );
    }

    #[test]
    fn what_a_vanished_service_left_fails_under_the_go_frameworks_name() {
        let mut planned = planned([delete()], vec![]);
        planned.plan.service = key().vanished("u1");
        let sync = sync(Lifecycle::Deleting, Cause::Wanted, &planned);
        let events = sync.end(&failed(&planned, &error(Fault::Cloud, 530)), []);
        assert_eq!(reasons(events.clone()), ["DeleteLoadBalancerFailed"]);
        assert_eq!(events[0].message, "Error deleting load balancer: deed: boom");
    }

    #[test]
    fn members_that_fail_are_told_with_the_nodes() {
        let planned = planned([assign()], vec![]);
        let sync = sync(Lifecycle::Wanted, Cause::Wanted, &planned);
        let outcome = failed(&planned, &error(Fault::Cloud, 530));
        let events = sync.end(&outcome, ["node-1".to_owned()]);
        assert_eq!(reasons(events.clone()), ["UpdateLoadBalancerFailed"]);
        assert!(events[0].message.contains("new hosts [node-1] ["));
    }

    #[test]
    fn drift_that_can_not_be_put_back_is_told_with_what_differs() {
        let planned = planned([update()], vec![]);
        let sync = sync(Lifecycle::Wanted, Cause::Drift, &planned);
        let events = sync.end(&failed(&planned, &error(Fault::Cloud, 530)), []);
        assert!(events[0].message.contains("rule/tcp-80: "), "{events:?}");
        assert_eq!(reasons(events), ["DriftFound", "SyncLoadBalancerFailed"]);
    }

    #[test]
    fn c087_what_passes_by_itself_is_no_warning() {
        let cloud = planned([update()], vec![]);
        let sync_of = |planned| sync(Lifecycle::Wanted, Cause::Wanted, planned);
        let throttled = failed(&cloud, &error(Fault::Throttled, 429));
        assert!(sync_of(&cloud).end(&throttled, []).is_empty());
        let book = planned([patch(None)], vec![]);
        for code in [404, 409, 422] {
            let outcome = failed(&book, &error(Fault::Transient, code));
            assert!(sync_of(&book).end(&outcome, []).is_empty(), "{code}");
        }
        let forbidden = failed(&book, &error(Fault::Permission, 403));
        let events = sync_of(&book).end(&forbidden, []);
        assert_eq!(reasons(events), ["SyncLoadBalancerFailed"]);
        let cut_short =
            Outcome { skipped: [StepId::new("rule/tcp-80")].into(), ..Outcome::default() };
        assert!(sync_of(&cloud).end(&cut_short, []).is_empty(), "a shutdown");
    }

    #[test]
    fn c021_a_failed_tag_is_no_failed_load_balancer() {
        let planned = planned([update(), tags()], vec![]);
        let sync = sync(Lifecycle::Wanted, Cause::Wanted, &planned);
        let mut outcome = done(&planned);
        outcome.done.remove(&StepId::new("tags"));
        outcome.failed.insert(StepId::new("tags"), error(Fault::Permission, 432));
        let events = sync.end(&outcome, []);
        assert_eq!(reasons(events), ["EnsuredLoadBalancer", "TaggingFailed"]);
    }
}
