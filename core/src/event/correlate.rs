//! Keeps a loop from flooding the API server, as the Go framework's recorder does.
//!
//! 1. From the tenth message on that differs from others of the same object, reason and type within
//!    ten minutes, they are folded into one event.
//! 2. The same event again is counted up, not created.
//! 3. A component may tell 25 things of a type about an object, and then one more every five minutes.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::event::lru::Lru;
use crate::event::{Component, Event, Kind};
use crate::time::later;

/// The object that an event is about: `involvedObject`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// `apiVersion`.
    pub api_version: &'static str,
    /// `kind`.
    pub kind: &'static str,
    /// `namespace`; empty for an object of the cluster.
    pub namespace: String,
    /// `name`.
    pub name: String,
    /// `uid`.
    pub uid: String,
}

impl ObjectRef {
    /// The namespace of events about it.
    pub fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

/// An event as it is, or will be, on the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// `metadata.name`.
    pub name: String,
    /// What is told; the message may differ from what came in.
    pub event: Event,
    /// `count`.
    pub count: u32,
    /// `firstTimestamp`.
    pub first: Timestamp,
    /// `lastTimestamp`.
    pub last: Timestamp,
}

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: there are too many.
    Drop,
    /// It is created.
    Create(Recorded),
    /// Count, `lastTimestamp` and message of an earlier one are patched; if that has expired (404),
    /// it is created like this.
    Patch(Recorded),
}

/// Remembers what was told.
#[derive(Clone, Debug)]
pub struct Correlator {
    similar: Lru<Similar, Variants>,
    told: Lru<(Similar, Option<String>), Option<Told>>,
    budgets: Lru<(ObjectRef, Component, Kind), Budget>,
    last_name: i128,
}

/// What similar events have in common.
type Similar = (ObjectRef, Component, Kind, &'static str);

#[derive(Clone, Debug, Default)]
struct Variants {
    messages: BTreeSet<String>,
    last: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Told {
    name: String,
    count: u32,
    first: Timestamp,
}

/// When all that was told is paid for, one event every [`Budget::REFILL`].
#[derive(Clone, Debug, Default)]
struct Budget {
    paid: Option<Timestamp>,
}

impl Correlator {
    const REMEMBERED: usize = 4096;

    /// Nothing told yet.
    pub fn new() -> Self {
        Self {
            similar: Lru::new(Self::REMEMBERED),
            told: Lru::new(Self::REMEMBERED),
            budgets: Lru::new(Self::REMEMBERED),
            last_name: 0,
        }
    }

    /// Takes an event about an object.
    pub fn observe(&mut self, object: &ObjectRef, event: &Event, now: Timestamp) -> Decision {
        let Event { component, kind, reason, message } = event;
        let similar = (object.clone(), *component, *kind, *reason);
        let folds = self.similar.touch(similar.clone()).fold(message, now);
        let (key, message) = if folds {
            (None, super::shortened(format!("{COMBINED}{message}"), Event::LONGEST))
        } else {
            (Some(message.clone()), message.clone())
        };
        let name = self.name(object, now);
        let told = self.told.touch((similar, key));
        let is_new = told.is_none();
        let told = told.get_or_insert(Told { name, count: 0, first: now });
        told.count = told.count.saturating_add(1);
        let recorded = Recorded {
            name: told.name.clone(),
            event: Event { message, ..event.clone() },
            count: told.count,
            first: told.first,
            last: now,
        };
        if !self.budgets.touch((object.clone(), *component, *kind)).spend(now) {
            Decision::Drop
        } else if is_new {
            Decision::Create(recorded)
        } else {
            Decision::Patch(recorded)
        }
    }

    /// `<object>.<hex unix nanoseconds>`, never twice the same.
    fn name(&mut self, object: &ObjectRef, now: Timestamp) -> String {
        self.last_name = now.as_nanosecond().max(self.last_name + 1);
        let suffix = format!(".{:x}", self.last_name);
        let name = &object.name;
        let end = name.floor_char_boundary(LONGEST_NAME.saturating_sub(suffix.len()));
        format!("{}{suffix}", name.get(..end).unwrap_or(name))
    }
}

impl Default for Correlator {
    fn default() -> Self {
        Self::new()
    }
}

/// Before the latest of many messages.
const COMBINED: &str = "(combined from similar events): ";

/// `metadata.name`.
const LONGEST_NAME: usize = 253;

impl Variants {
    const FOLDED_FROM: usize = 10;
    const WINDOW: Duration = Duration::from_mins(10);

    /// Whether a message is one too many.
    fn fold(&mut self, message: &str, now: Timestamp) -> bool {
        if self.last.is_some_and(|last| now > later(last, Self::WINDOW)) {
            self.messages.clear();
        }
        self.last = Some(now);
        self.messages.insert(message.to_owned());
        if self.messages.len() < Self::FOLDED_FROM {
            return false;
        }
        self.messages.pop_first();
        true
    }
}

impl Budget {
    const BURST: u32 = 25;
    const REFILL: Duration = Duration::from_mins(5);

    fn spend(&mut self, now: Timestamp) -> bool {
        let paid = self.paid.map_or(now, |paid| paid.max(now));
        if paid > later(now, Self::REFILL * (Self::BURST - 1)) {
            return false;
        }
        self.paid = Some(later(paid, Self::REFILL));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Occasion;

    fn at(seconds: u64) -> Timestamp {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        later(start, Duration::from_secs(seconds))
    }

    fn service(name: &str) -> ObjectRef {
        ObjectRef {
            api_version: "v1",
            kind: "Service",
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
        }
    }

    fn failed(error: &str) -> Event {
        Occasion::SyncLoadBalancerFailed { error: error.to_owned() }.event()
    }

    fn ensured() -> Event {
        Occasion::EnsuredLoadBalancer {}.event()
    }

    fn observe(correlator: &mut Correlator, event: &Event, second: u64) -> Decision {
        correlator.observe(&service("web"), event, at(second))
    }

    #[test]
    fn an_event_is_named_after_its_object_and_the_nanosecond() {
        let mut correlator = Correlator::new();
        let nanos = at(0).as_nanosecond();
        let recorded = |name: String, event: Event| Recorded {
            name,
            event,
            count: 1,
            first: at(0),
            last: at(0),
        };
        assert_eq!(
            observe(&mut correlator, &ensured(), 0),
            Decision::Create(recorded(format!("web.{nanos:x}"), ensured()))
        );
        // Two at once get two names.
        assert_eq!(
            observe(&mut correlator, &failed("a"), 0),
            Decision::Create(recorded(format!("web.{:x}", nanos + 1), failed("a")))
        );
    }

    #[test]
    fn a_long_name_leaves_room_for_the_nanosecond() {
        let long = service(&"x".repeat(253));
        let decision = Correlator::new().observe(&long, &ensured(), at(0));
        let Decision::Create(Recorded { name, .. }) = decision else { panic!("{decision:?}") };
        assert_eq!(name.len(), 253);
        assert!(name.contains("x.1"));
    }

    #[test]
    fn c005_the_same_again_is_counted_up() {
        let mut correlator = Correlator::new();
        let Decision::Create(first) = observe(&mut correlator, &failed("refused"), 0) else {
            panic!("it is new");
        };
        for (count, second) in (2..).zip([5, 15, 35, 75, 155, 315, 615]) {
            let expected = Recorded { count, last: at(second), ..first.clone() };
            let decision = observe(&mut correlator, &failed("refused"), second);
            assert_eq!(decision, Decision::Patch(expected));
        }
    }

    #[test]
    fn another_object_reason_or_message_is_another_event() {
        let mut correlator = Correlator::new();
        observe(&mut correlator, &failed("a"), 0);
        for (object, event) in [
            (service("other"), failed("a")),
            (ObjectRef { uid: "another".into(), ..service("web") }, failed("a")),
            (ObjectRef { namespace: "b".into(), ..service("web") }, failed("a")),
            (service("web"), ensured()),
            (service("web"), failed("b")),
        ] {
            let decision = correlator.observe(&object, &event, at(1));
            assert!(matches!(decision, Decision::Create(_)), "{object:?} {event:?}");
        }
    }

    #[test]
    fn many_messages_of_one_reason_are_folded() {
        let mut correlator = Correlator::new();
        let mut folded = None;
        for number in 0..15 {
            let decision = observe(&mut correlator, &failed(&number.to_string()), number);
            match (number, decision) {
                (..9, Decision::Create(found)) => {
                    assert_eq!(found.event, failed(&number.to_string()));
                }
                (9, Decision::Create(found)) => folded = Some(found),
                (10.., Decision::Patch(found)) => {
                    let first = folded.clone().unwrap();
                    let message = format!(
                        "(combined from similar events): Error syncing load balancer: {number}"
                    );
                    assert_eq!(found.event.message, message);
                    assert_eq!((found.name, found.first), (first.name, first.first));
                    assert_eq!(u64::from(found.count), number - 8);
                }
                (_, decision) => panic!("{number}: {decision:?}"),
            }
        }
        let another = observe(&mut correlator, &ensured(), 15);
        assert!(matches!(another, Decision::Create(_)), "of another reason");
    }

    #[test]
    fn after_ten_quiet_minutes_messages_stand_alone_again() {
        for (pause, alone) in [(600, false), (601, true)] {
            let mut correlator = Correlator::new();
            for number in 0..12 {
                observe(&mut correlator, &failed(&number.to_string()), 0);
            }
            let decision = observe(&mut correlator, &failed("later"), pause);
            assert_eq!(matches!(decision, Decision::Create(_)), alone, "{decision:?}");
        }
    }

    #[test]
    fn twenty_five_at_once_and_then_one_every_five_minutes() {
        let mut correlator = Correlator::new();
        let dropped = |correlator: &mut Correlator, second| {
            observe(correlator, &failed("a"), second) == Decision::Drop
        };
        for number in 0..25 {
            assert!(!dropped(&mut correlator, 0), "{number}");
        }
        assert!(dropped(&mut correlator, 0));
        assert!(dropped(&mut correlator, 299));
        assert!(!dropped(&mut correlator, 300));
        assert!(dropped(&mut correlator, 300));
        assert!(!dropped(&mut correlator, 900));
        assert!(!dropped(&mut correlator, 900));
        assert!(dropped(&mut correlator, 900));
        // Others have budgets of their own.
        assert!(observe(&mut correlator, &ensured(), 900) != Decision::Drop, "another type");
        let other = correlator.observe(&service("other"), &failed("a"), at(900));
        assert!(other != Decision::Drop);
    }

    #[test]
    fn what_was_dropped_is_in_the_count() {
        let mut correlator = Correlator::new();
        for _ in 0..40 {
            observe(&mut correlator, &failed("a"), 0);
        }
        let Decision::Patch(found) = observe(&mut correlator, &failed("a"), 300) else {
            panic!("one is allowed");
        };
        assert_eq!(found.count, 41);
    }

    #[test]
    fn a_hot_loop_over_a_thousand_messages_stays_small() {
        let mut correlator = Correlator::new();
        let writes = (0..10_000)
            .filter(|number| {
                let event = failed(&(number % 1000).to_string());
                observe(&mut correlator, &event, number / 100) != Decision::Drop
            })
            .count();
        assert_eq!(writes, 25);
    }

    #[test]
    fn events_about_objects_of_the_cluster_are_in_the_default_namespace() {
        let node = ObjectRef { kind: "Node", namespace: String::new(), ..service("node-1") };
        assert_eq!(node.event_namespace(), "default");
        assert_eq!(service("web").event_namespace(), "shop");
    }
}
