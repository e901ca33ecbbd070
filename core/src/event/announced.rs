//! What stands about an object is told when it begins and when its text changes, not with every
//! sync. A warning is told again every hour while it stands: events expire.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::event::{Event, Kind};

/// How long a warning stands before it is told again.
pub const AGAIN: SignedDuration = SignedDuration::from_hours(1);

/// Remembers what stands about each object and when it was told.
#[derive(Clone, Debug)]
pub struct Announced<K> {
    told: BTreeMap<K, BTreeMap<Event, Timestamp>>,
}

impl<K: Ord> Announced<K> {
    /// Nothing told yet.
    pub fn new() -> Self {
        Self { told: BTreeMap::new() }
    }

    /// Takes everything that stands about an object now; gives what is to be told.
    ///
    /// `settled`: nothing is to be done for the object
    /// ([`Planned::is_settled`](crate::plan::Planned::is_settled)). If it is seen for the first
    /// time, then what stands was told before we started: a restart is quiet, and warnings that
    /// still stand in an hour are told then.
    pub fn handle(
        &mut self,
        object: K,
        standing: Vec<Event>,
        settled: bool,
        now: Timestamp,
    ) -> Vec<Event> {
        let is_new = !self.told.contains_key(&object);
        let told = self.told.entry(object).or_default();
        told.retain(|event, _| standing.contains(event));
        let mut tell = Vec::new();
        for event in standing {
            match told.get(&event) {
                Some(at) if !is_due(&event, *at, now) => continue,
                None if is_new && settled => {}
                Some(_) | None => tell.push(event.clone()),
            }
            told.insert(event, now);
        }
        tell
    }

    /// Forgets an object that is gone.
    pub fn forget(&mut self, object: &K) {
        self.told.remove(object);
    }
}

impl<K: Ord> Default for Announced<K> {
    fn default() -> Self {
        Self::new()
    }
}

fn is_due(event: &Event, told: Timestamp, now: Timestamp) -> bool {
    event.kind == Kind::Warning && now.duration_since(told) >= AGAIN
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;
    use crate::event::Component;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + minutes.minutes()
    }

    /// A warning, unless its text says that it is normal.
    fn event(message: &str) -> Event {
        let kind = if message.starts_with("normal") { Kind::Normal } else { Kind::Warning };
        Event::new(Component::Service, kind, "MembersKept", message.to_owned())
    }

    /// A minute, what stands then, and what is told.
    type Round = (i64, &'static [&'static str], &'static [&'static str]);

    fn hold(settled: bool, rounds: &[Round]) {
        let events = |texts: &[&str]| texts.iter().map(|text| event(text)).collect::<Vec<_>>();
        let mut announced = Announced::new();
        for (minute, standing, expected) in rounds {
            let told = announced.handle("web", events(standing), settled, at(*minute));
            assert_eq!(told, events(expected), "minute {minute}");
        }
    }

    #[test]
    fn what_stands_is_told_once_and_a_new_text_is_new() {
        hold(
            false,
            &[
                (0, &["a"], &["a"]),
                (1, &["a"], &[]),
                (2, &["a", "b"], &["b"]),
                (3, &["b"], &[]),
                (4, &[], &[]),
                (5, &["a"], &["a"]),
            ],
        );
    }

    #[test]
    fn a_warning_that_stands_is_told_every_hour_and_anything_else_once() {
        hold(
            false,
            &[
                (0, &["a", "normal"], &["a", "normal"]),
                (59, &["a", "normal"], &[]),
                (60, &["a", "normal"], &["a"]),
                (119, &["a", "normal"], &[]),
                (120, &["a", "normal"], &["a"]),
            ],
        );
    }

    #[test]
    fn c079_a_restart_is_quiet_about_what_stood_before() {
        hold(
            true,
            &[
                (0, &["old"], &[]),
                (1, &["old", "new"], &["new"]),
                (60, &["old", "new"], &["old"]),
                (61, &["old", "new"], &["new"]),
            ],
        );
        hold(true, &[(0, &[], &[]), (1, &["later"], &["later"])]);
    }

    #[test]
    fn objects_are_told_apart_and_forgotten() {
        let mut announced = Announced::new();
        let stands = || vec![event("a")];
        assert_eq!(announced.handle("web", stands(), false, at(0)).len(), 1);
        assert_eq!(announced.handle("tls", stands(), false, at(0)).len(), 1);
        announced.forget(&"web");
        assert_eq!(announced.handle("web", stands(), false, at(1)).len(), 1);
        assert_eq!(announced.handle("tls", stands(), false, at(1)).len(), 0);
    }
}
