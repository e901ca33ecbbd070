//! Which versions of a Service need a sync.
//!
//! A sync is needed when something changed that a plan depends on:
//!
//! - **what it asks for**: type, whether it has a class, ports (name, protocol, port, node port),
//!   session affinity, address, source ranges (as a set), IP families, the annotations that people
//!   write for us, uid, the begin of its deletion;
//! - **what we wrote on it**: finalizer, verdict, intent, record, status. Not when we wrote it, but
//!   when somebody else removes or edits it: it is written back, but against somebody who does not
//!   stop no more than [`AT_ONCE`] times in an [`HOUR`], and once in each drift round beyond.
//!
//! The Go framework also compares external IPs, traffic policy, health check port, affinity
//! timeout, target ports, application protocols and every foreign annotation. No plan depends on
//! these, so no sync is spent on them. It does not compare what controllers write.

mod known;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::exec::error::Effect;
use crate::ids::ServiceKey;
use crate::model::service::{Lifecycle, Service};
use crate::parse::raw::RawService;
use crate::parse::{self, ParseContext};
use crate::vanished;

use known::Known;

/// How often in an [`HOUR`] what somebody stripped is written back at once.
pub const AT_ONCE: usize = 3;

/// How long it is remembered that somebody stripped a Service.
pub const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Whether a Service is for us to look at at all: it wants a load balancer of us, or something of
/// ours is to be cleaned up. One with a class never is, whatever finalizer it bears, unless our own
/// record or intent says that it was ours before it had one.
pub fn concerns(raw: &RawService, context: &ParseContext) -> bool {
    is_concern(raw, &parse::service(raw, context))
}

fn is_concern(raw: &RawService, service: &Service) -> bool {
    let recorded = &service.recorded;
    let is_recorded = recorded.record.is_some() || !recorded.intents.is_empty();
    match service.lifecycle {
        Lifecycle::Wanted => true,
        Lifecycle::OtherClass => is_recorded,
        Lifecycle::OtherType => recorded.finalizer || is_recorded,
        // One of type LoadBalancer may have lost its finalizer and records to somebody else.
        Lifecycle::Deleting => recorded.finalizer || is_recorded || is_load_balancer(raw),
    }
}

fn is_load_balancer(raw: &RawService) -> bool {
    raw.service_type.as_deref() == Some("LoadBalancer")
}

/// Why a Service is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// It was not seen before: it is new, or we have just started.
    New,
    /// It asks for something else, or for nothing any more.
    Changed,
    /// Somebody removed or edited what we wrote on it: it is written back.
    Stripped,
    /// The same for the last time that it is written back at once: to be told.
    StrippedAgain,
    /// And once more: the next drift round writes it back.
    LeftStripped,
}

impl Trigger {
    /// Whether it needs a sync now.
    pub fn needs_sync(self) -> bool {
        match self {
            Self::New | Self::Changed | Self::Stripped | Self::StrippedAgain => true,
            Self::LeftStripped => false,
        }
    }
}

/// Remembers Services as they were seen and as we wrote them.
///
/// Ask when a Service's turn comes, not as soon as a watch tells of it: by then the answers to our
/// own writes have been handed in.
#[derive(Clone, Debug)]
pub struct Triggers {
    context: ParseContext,
    known: BTreeMap<ServiceKey, Known>,
    vanished: Vec<RawService>,
}

impl Triggers {
    /// Nothing seen yet.
    pub fn new(context: ParseContext) -> Self {
        Self { context, known: BTreeMap::new(), vanished: Vec::new() }
    }

    /// Takes a Service as it was seen, with its `metadata.resourceVersion`. `None`: nothing that
    /// concerns us changed.
    pub fn handle_seen(
        &mut self,
        raw: &RawService,
        version: &str,
        now: Timestamp,
    ) -> Option<Trigger> {
        let service = parse::service(raw, &self.context);
        let key = &service.key;
        let replaced = self.known.get(key).is_some_and(|known| known.last.uid != raw.uid);
        if replaced {
            self.handle_gone(key);
        }
        if !is_concern(raw, &service) && !self.was_concern(key, raw) {
            self.known.remove(key);
            return None;
        }
        match self.known.get_mut(key) {
            Some(known) => known.handle_seen(raw, version, now),
            None => {
                self.known.insert(service.key, Known::new(raw));
                Some(if replaced { Trigger::Changed } else { Trigger::New })
            }
        }
    }

    /// Takes a Service as the API server answered a write of ours.
    pub fn handle_written(&mut self, key: &ServiceKey, raw: &RawService, version: &str) {
        if let Some(known) = self.known.get_mut(key) {
            known.handle_written(raw, version);
        }
    }

    /// Takes note of a write of ours that failed: of some nobody knows whether they were carried out.
    pub fn handle_failed(&mut self, key: &ServiceKey, effect: Effect) {
        if effect != Effect::No
            && let Some(known) = self.known.get_mut(key)
        {
            known.handle_unclear();
        }
    }

    /// A Service as we last wrote it, where it was found stripped of some of that. After a restart
    /// nothing is known of it.
    pub fn recall(&self, raw: &RawService) -> Option<RawService> {
        let key = ServiceKey::new(raw.namespace.as_str(), raw.name.as_str());
        self.known.get(&key)?.recall(raw)
    }

    fn was_concern(&self, key: &ServiceKey, raw: &RawService) -> bool {
        let whole = self.known.get(key).map(|known| known.whole(raw));
        whole.is_some_and(|whole| concerns(&whole, &self.context))
    }

    /// Takes note that a Service is gone.
    pub fn handle_gone(&mut self, key: &ServiceKey) {
        let Some(known) = self.known.remove(key) else { return };
        if vanished::leaves_something(&parse::service(&known.last, &self.context)) {
            self.vanished.push(vanished::remains(known.last));
        }
    }

    /// Services that vanished since this was last asked, with something of ours left.
    pub fn take_vanished(&mut self) -> Vec<RawService> {
        std::mem::take(&mut self.vanished)
    }
}

#[cfg(test)]
mod tests;
