//! What a dry run tells on a Service: one event for each plan that stays the same for a while.
//!
//! A plan that would be over in a moment, as somebody else carries it out beside us, is not told;
//! nor is one that only keeps books.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::event::{Event, Occasion};
use crate::ids::ServiceKey;
use crate::plan::Planned;
use crate::plan::report::{Note, Severity};

/// For how long a plan must stay the same.
pub const STEADY: SignedDuration = SignedDuration::from_secs(60);

/// Remembers the plan of each Service.
#[derive(Clone, Debug, Default)]
pub struct DryRun {
    plans: BTreeMap<ServiceKey, Seen>,
}

#[derive(Clone, Debug)]
struct Seen {
    fingerprint: Vec<String>,
    since: Timestamp,
    told: bool,
}

impl DryRun {
    /// Nothing planned yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a plan with its summary line; gives the event, if it is time for it.
    pub fn handle(&mut self, planned: &Planned, summary: &str, now: Timestamp) -> Option<Event> {
        let fingerprint = fingerprint(planned);
        let key = &planned.plan.service;
        if !(planned.plan.touches_cloud() || planned.report.is_blocked()) {
            self.plans.remove(key);
            return None;
        }
        let fresh = Seen { fingerprint, since: now, told: false };
        let seen = match self.plans.get_mut(key) {
            Some(seen) if seen.fingerprint == fresh.fingerprint => seen,
            Some(_) | None => {
                self.plans.insert(key.clone(), fresh);
                return None;
            }
        };
        if seen.told || now.duration_since(seen.since) < STEADY {
            return None;
        }
        seen.told = true;
        let refused = planned.report.notes.iter().filter(|note| is_refusal(note));
        let parts: Vec<String> =
            [summary.to_owned()].into_iter().chain(refused.map(ToString::to_string)).collect();
        Some(Occasion::PlannedChanges { summary: parts.join(" ") }.event())
    }

    /// Forgets a Service that is gone.
    pub fn forget(&mut self, service: &ServiceKey) {
        self.plans.remove(service);
    }
}

/// What makes one plan another: steps and refusals, but not ids and times that are new each time.
fn fingerprint(planned: &Planned) -> Vec<String> {
    let steps = planned.plan.steps.iter();
    let steps = steps.map(|step| format!("{} {} {}", step.id, step.action.command(), step.reason));
    let refusals = planned.report.notes.iter().filter(|note| is_refusal(note));
    steps.chain(refusals.map(ToString::to_string)).collect()
}

fn is_refusal(note: &Note) -> bool {
    note.severity() == Severity::Blocked
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::ToSpan as _;

    use super::*;
    use crate::ids::{LoadBalancerRuleId, ServiceUid};
    use crate::plan::action::{Action, DeleteLoadBalancerRule, Edit, PatchService};
    use crate::plan::reason::{Disruption, Reason};
    use crate::plan::report::Report;
    use crate::plan::{Plan, Step, StepId};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + seconds.seconds()
    }

    fn key() -> ServiceKey {
        ServiceKey::new("shop", "web")
    }

    fn planned(steps: &[(&str, Action)], notes: Vec<Note>) -> Planned {
        let steps = steps.iter().map(|(id, action)| Step {
            id: StepId::new(*id),
            action: action.clone(),
            after: BTreeSet::new(),
            reason: Reason::ServiceDeleted,
            disruption: Disruption::Cut,
        });
        let plan = Plan { steps: steps.collect(), ..Plan::new(key()) };
        Planned { plan, report: Report { notes } }
    }

    fn delete(port: &str) -> Planned {
        let rule = LoadBalancerRuleId::parse("r1").unwrap();
        planned(&[(port, Action::DeleteLoadBalancerRule(DeleteLoadBalancerRule { rule }))], vec![])
    }

    fn refused() -> Planned {
        planned(&[], vec![Note::ProtocolNotServed { port: 5060, protocol: "SCTP".to_owned() }])
    }

    fn books() -> Planned {
        let nothing = PatchService::nothing(key(), ServiceUid::parse("u1").unwrap());
        let patch = PatchService { record: Edit::Remove, ..nothing };
        planned(&[("service/patch", Action::PatchService(patch))], vec![])
    }

    /// Whether each plan, computed at its second, is told.
    fn told(rounds: &[(i64, &Planned)]) -> Vec<bool> {
        let mut dry_run = DryRun::new();
        let tell = |(second, planned): &(i64, &Planned)| {
            dry_run.handle(planned, "Plan: 1 to delete.", at(*second)).is_some()
        };
        rounds.iter().map(tell).collect()
    }

    #[test]
    fn a_plan_is_told_once_it_has_stood_for_a_minute() {
        let (a, b) = (delete("a"), delete("b"));
        assert_eq!(told(&[(0, &a), (59, &a), (60, &a), (600, &a)]), [false, false, true, false]);
        assert_eq!(told(&[(0, &a), (50, &b), (60, &b), (110, &b)]), [false, false, false, true]);
        let gone = planned(&[], vec![]);
        assert_eq!(told(&[(0, &a), (30, &gone), (60, &a), (90, &a)]), [false; 4]);
    }

    #[test]
    fn refusals_are_told_and_books_are_not() {
        let (books, refused) = (books(), refused());
        assert_eq!(told(&[(0, &books), (60, &books)]), [false, false]);
        assert_eq!(told(&[(0, &refused), (60, &refused)]), [false, true]);
    }

    #[test]
    fn the_event_says_that_nothing_was_changed_and_what_would_be() {
        let mut dry_run = DryRun::new();
        let summary = "Plan: no changes, 1 blocked, 0 waiting.";
        dry_run.handle(&refused(), summary, at(0));
        let event = dry_run.handle(&refused(), summary, at(60)).unwrap();
        assert_eq!(event.reason, "PlannedChanges");
        assert_eq!(
            event.message,
            "Dry run, nothing was changed: Plan: no changes, 1 blocked, 0 waiting. port 5060: \
             CloudStack balances TCP and UDP, not SCTP"
        );
    }
}
