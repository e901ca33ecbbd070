//! When each Service's turn comes, how fresh the state of CloudStack must be then, and how closely
//! it is looked at.
//!
//! Somebody demands a sync: a watch, a change of nodes, the drift round, a failure that is tried
//! again. Demands for one Service add up to one sync: the earliest time, the freshest state, the
//! closest look. A Service that itself changed is synced at once, whatever it was waiting for.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::event::sync::Cause;
use crate::exec::backoff::Backoff;
use crate::exec::error::Fault;
use crate::ids::ServiceKey;
use crate::plan::planner::Depth;
use crate::time::later;
use crate::trigger::Trigger;

/// How soon a Service is tried again whose address another one was working on, for the first time and
/// at the most: CloudStack is read each time, and the other one's jobs may take minutes.
const DISPLACED: Duration = Duration::from_secs(1);
const LONG_DISPLACED: Duration = Duration::from_secs(32);

/// An instant that counts events instead of seconds: what was read at a later tick than something
/// was written knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u64);

/// What is demanded for a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Not before this time.
    pub at: Timestamp,
    /// With a state of CloudStack that is not older.
    pub since: Tick,
    /// How closely members are looked at.
    pub depth: Depth,
    /// Why.
    pub cause: Cause,
}

impl Demand {
    fn with(self, other: Self) -> Self {
        Self {
            at: self.at.min(other.at),
            since: self.since.max(other.since),
            depth: self.depth.max(other.depth),
            cause: if self.cause == other.cause { self.cause } else { Cause::Wanted },
        }
    }
}

/// What to do when a queue brings up a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Sync it.
    Sync {
        /// See [`Demand::since`].
        since: Tick,
        /// See [`Demand::depth`].
        depth: Depth,
        /// See [`Demand::cause`].
        cause: Cause,
        /// Whether the Service itself changed: what it needs of CloudStack may be anything, so the
        /// state must be of about now.
        changed: bool,
    },
    /// It is not its time yet: bring it up again then.
    Later(Timestamp),
    /// Nobody wants anything.
    Nothing,
}

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All was done that can be; look again after a while, or at the next drift round.
    Done(Option<Duration>),
    /// Nothing could be done, and something is still missing: look again after a while, and ever
    /// more seldom as long as it is so.
    Waits(Duration),
    /// Something failed.
    Failed {
        /// Whose fault it was.
        fault: Fault,
        /// What the server asked for (429).
        retry_after: Option<Duration>,
    },
    /// Another Service was working on the same address.
    Displaced,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    demands: BTreeMap<ServiceKey, Demand>,
    backoffs: BTreeMap<ServiceKey, Backoff>,
    displaced: BTreeMap<ServiceKey, u32>,
    written: BTreeMap<ServiceKey, Tick>,
}

impl Agenda {
    /// Adds a demand.
    pub fn demand(&mut self, key: &ServiceKey, demand: Demand) {
        let all = self.demands.get(key).map_or(demand, |other| other.with(demand));
        self.demands.insert(key.clone(), all);
    }

    /// What to do for a Service that a queue brings up. `trigger` is what its watched object says.
    pub fn turn(&mut self, key: &ServiceKey, trigger: Option<Trigger>, now: Timestamp) -> Turn {
        let own = self.written.get(key).copied().unwrap_or_default();
        let demand = self.demands.get(key).copied();
        let changed = trigger.is_some_and(Trigger::needs_sync);
        if changed {
            self.backoffs.remove(key);
            self.displaced.remove(key);
        }
        match demand {
            Some(demand) if changed || demand.at <= now => {
                self.demands.remove(key);
                let cause = if changed { Cause::Wanted } else { demand.cause };
                let Demand { at: _, since, depth, cause: _ } = demand;
                Turn::Sync { since: since.max(own), depth, cause, changed }
            }
            None if changed => {
                Turn::Sync { since: own, depth: Depth::Quick, cause: Cause::Wanted, changed }
            }
            Some(demand) => Turn::Later(demand.at),
            None => Turn::Nothing,
        }
    }

    /// Notes that something may have been written to CloudStack for a Service, at the latest at
    /// `tick`: what is read for it from now on must be newer.
    pub fn note_written(&mut self, key: &ServiceKey, tick: Tick) {
        self.written.insert(key.clone(), tick);
    }

    /// Takes the end of a sync, at `tick`: when it is tried again, CloudStack is read again too.
    /// `jitter`, 0.0 to 1.0, spreads what failed together.
    pub fn handle_end(
        &mut self,
        key: &ServiceKey,
        end: End,
        (now, tick): (Timestamp, Tick),
        jitter: f64,
    ) {
        if end != End::Displaced {
            self.displaced.remove(key);
        }
        let wait = match end {
            End::Done(look_again) => {
                self.backoffs.remove(key);
                look_again
            }
            End::Waits(at_least) => {
                let backoff = self.backoffs.entry(key.clone()).or_default();
                Some(backoff.handle_failure(Fault::Transient, jitter).max(at_least))
            }
            End::Displaced => Some(self.wait_of_displaced(key)),
            // A server that names its wait is no failure of this Service.
            End::Failed { fault: Fault::Throttled, retry_after: Some(wait) } => Some(wait),
            End::Failed { fault, retry_after: _ } => {
                let backoff = self.backoffs.entry(key.clone()).or_default();
                Some(backoff.handle_failure(fault, jitter))
            }
        };
        let Some(wait) = wait else { return };
        let at = later(now, wait);
        self.demand(key, Demand { at, since: tick, depth: Depth::Quick, cause: Cause::Wanted });
    }

    /// 1, 2, 4 … 32 s.
    fn wait_of_displaced(&mut self, key: &ServiceKey) -> Duration {
        let times = self.displaced.entry(key.clone()).or_default();
        let factor = 1_u32.checked_shl(*times).unwrap_or(u32::MAX);
        *times = times.saturating_add(1);
        DISPLACED.saturating_mul(factor).min(LONG_DISPLACED)
    }

    /// When a Service is to be brought up again if nothing else happens.
    pub fn next(&self, key: &ServiceKey) -> Option<Timestamp> {
        self.demands.get(key).map(|demand| demand.at)
    }

    /// Forgets a Service that is gone.
    pub fn forget(&mut self, key: &ServiceKey) {
        self.demands.remove(key);
        self.backoffs.remove(key);
        self.displaced.remove(key);
        self.written.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;

    fn key() -> ServiceKey {
        ServiceKey::new("shop", "web")
    }

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn round(since: u64) -> Demand {
        let depth = Depth::Turn { round: 3, of: 6 };
        Demand { at: start(), since: Tick(since), depth, cause: Cause::Drift }
    }

    fn failed(fault: Fault, retry_after: Option<Duration>) -> End {
        End::Failed { fault, retry_after }
    }

    #[test]
    fn a_heartbeat_of_the_watch_is_no_turn() {
        let mut agenda = Agenda::default();
        assert_eq!(agenda.turn(&key(), None, start()), Turn::Nothing);
        let left = Some(Trigger::LeftStripped);
        assert_eq!(agenda.turn(&key(), left, start()), Turn::Nothing);
    }

    #[test]
    fn demands_add_up_to_one_sync() {
        let mut agenda = Agenda::default();
        agenda.demand(&key(), round(7));
        let other =
            Demand { since: Tick(9), depth: Depth::Quick, cause: Cause::Wanted, ..round(0) };
        agenda.demand(&key(), other);
        let sync = Turn::Sync {
            since: Tick(9),
            depth: round(0).depth,
            cause: Cause::Wanted,
            changed: false,
        };
        assert_eq!(agenda.turn(&key(), None, start()), sync);
        assert_eq!(agenda.turn(&key(), None, start()), Turn::Nothing);
    }

    #[test]
    fn a_failure_waits_longer_each_time_and_a_success_forgets() {
        let mut agenda = Agenda::default();
        for seconds in [5, 10, 20] {
            agenda.handle_end(&key(), failed(Fault::Cloud, None), (start(), Tick(5)), 0.0);
            let at = start() + i64::from(seconds).seconds();
            assert_eq!(agenda.turn(&key(), None, start()), Turn::Later(at));
            let sync = agenda.turn(&key(), None, at);
            assert!(matches!(sync, Turn::Sync { since: Tick(5), changed: false, .. }));
        }
        agenda.handle_end(&key(), End::Done(None), (start(), Tick(5)), 0.0);
        assert_eq!(agenda.next(&key()), None);
        agenda.handle_end(&key(), failed(Fault::Cloud, None), (start(), Tick(5)), 0.0);
        assert_eq!(agenda.next(&key()), Some(start() + 5.seconds()));
    }

    #[test]
    fn what_is_waited_for_is_looked_at_ever_more_seldom_until_the_service_changes() {
        let mut agenda = Agenda::default();
        let waits = End::Waits(Duration::from_secs(5));
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            agenda.handle_end(&key(), waits, (start(), Tick(5)), 0.0);
            let at = start() + i64::from(seconds).seconds();
            assert_eq!(agenda.next(&key()), Some(at));
            let _ = agenda.turn(&key(), None, at);
        }
        let _ = agenda.turn(&key(), Some(Trigger::Changed), start());
        agenda.handle_end(&key(), waits, (start(), Tick(5)), 0.0);
        assert_eq!(agenda.next(&key()), Some(start() + 5.seconds()));
    }

    /// The jobs of the other Service may take minutes.
    #[test]
    fn who_is_displaced_again_and_again_asks_ever_more_seldom() {
        let mut agenda = Agenda::default();
        for seconds in [1, 2, 4, 8, 16, 32, 32] {
            agenda.handle_end(&key(), End::Displaced, (start(), Tick(5)), 0.0);
            let at = start() + i64::from(seconds).seconds();
            assert_eq!(agenda.next(&key()), Some(at));
            let _ = agenda.turn(&key(), None, at);
        }
        agenda.handle_end(&key(), End::Done(None), (start(), Tick(5)), 0.0);
        agenda.handle_end(&key(), End::Displaced, (start(), Tick(5)), 0.0);
        assert_eq!(agenda.next(&key()), Some(start() + 1.seconds()));
    }

    #[test]
    fn a_change_does_not_wait_for_a_back_off() {
        let mut agenda = Agenda::default();
        agenda.handle_end(&key(), failed(Fault::Quota, None), (start(), Tick(5)), 0.0);
        let turn = agenda.turn(&key(), Some(Trigger::Changed), start());
        assert!(matches!(turn, Turn::Sync { cause: Cause::Wanted, .. }));
    }

    #[test]
    fn the_wait_that_a_server_names_counts_and_is_no_back_off() {
        let mut agenda = Agenda::default();
        let wait = Some(Duration::from_secs(7));
        agenda.handle_end(&key(), failed(Fault::Throttled, wait), (start(), Tick(5)), 0.5);
        assert_eq!(agenda.next(&key()), Some(start() + 7.seconds()));
    }

    #[test]
    fn a_named_wait_leaves_the_back_off_as_it_is() {
        let mut agenda = Agenda::default();
        let named = failed(Fault::Throttled, Some(Duration::from_secs(7)));
        let failure = failed(Fault::Cloud, None);
        for (end, seconds) in [(failure, 5), (named, 7), (named, 7), (failure, 10)] {
            agenda.handle_end(&key(), end, (start(), Tick(5)), 0.0);
            let at = start() + i64::from(seconds).seconds();
            assert_eq!(agenda.next(&key()), Some(at), "{end:?}");
            let _ = agenda.turn(&key(), None, at);
        }
    }

    #[test]
    fn what_was_written_for_a_service_is_known_to_its_next_sync() {
        let mut agenda = Agenda::default();
        agenda.note_written(&key(), Tick(12));
        let turn = agenda.turn(&key(), Some(Trigger::Changed), start());
        assert!(matches!(turn, Turn::Sync { since: Tick(12), .. }));
        agenda.demand(&key(), round(20));
        let turn = agenda.turn(&key(), None, start());
        assert!(matches!(turn, Turn::Sync { since: Tick(20), cause: Cause::Drift, .. }));
    }
}
