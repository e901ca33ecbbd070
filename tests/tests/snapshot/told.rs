//! The events of a sync: what the controller publishes about a Service with a plan, in its order.
//! What stands is told once, as long as it stands.

use std::fmt::Write as _;

use ccm_core::event::announced::Announced;
use ccm_core::event::sync::{Cause, Sync};
use ccm_core::event::{Event, of_report};
use ccm_core::exec::execution::Outcome;
use ccm_core::ids::ServiceKey;
use ccm_core::model::Learned;
use ccm_core::model::policy::Policy;
use ccm_core::model::service::Lifecycle;
use ccm_core::plan::Planned;
use ccm_tests::lab::block_on;
use cloudstack_ccm::driver;
use cloudstack_ccm::ports::{Cluster as _, InMemory};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Remembers what was told.
#[derive(Default)]
pub(crate) struct Told {
    announced: Announced<ServiceKey>,
}

impl Told {
    /// The events of a sync of which every step succeeds.
    pub(crate) fn of(
        &mut self,
        planned: &Planned,
        lifecycle: Lifecycle,
        cause: Cause,
        now: Timestamp,
    ) -> Vec<Event> {
        let plan = &planned.plan;
        let standing = of_report(&planned.report);
        let settled = planned.is_settled();
        let mut events = self.announced.handle(plan.service.clone(), standing, settled, now);
        if !plan.is_empty() {
            let done = plan.steps.iter().map(|step| step.id.clone()).collect();
            let outcome = Outcome { done, ..Outcome::default() };
            let sync = Sync { lifecycle, cause, planned };
            events.extend(sync.beginning());
            events.extend(sync.end(&outcome, []));
        }
        events
    }
}

/// What becomes of a Service, as its manifest says.
pub(crate) fn lifecycle(cluster: &InMemory, policy: &Policy, key: &ServiceKey) -> Lifecycle {
    let objects = block_on(cluster.read()).expect("a cluster that can be read");
    driver::desire(&objects, policy, Learned::default()).services[key].lifecycle
}

/// Events as `kubectl describe` has them.
pub(crate) fn lines(events: &[Event]) -> String {
    let mut text = "events".to_owned();
    if events.is_empty() {
        text.push_str(": none");
    }
    for Event { component: _, kind, reason, message } in events {
        let _ = write!(text, "\n  {:7}  {reason}  {message}", kind.as_str());
    }
    text.push('\n');
    text
}

/// Events by the fields of the API.
pub(crate) fn objects(events: &[Event]) -> Vec<Value> {
    let object = |Event { component, kind, reason, message }: &Event| {
        let source = component.as_str();
        json!({"component": source, "type": kind.as_str(), "reason": reason, "message": message})
    };
    events.iter().map(object).collect()
}
