//! One Service: as it was seen last, and as we wrote it last.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{AT_ONCE, HOUR, Trigger};
use crate::model::record::FINALIZER;
use crate::model::service::Ingress;
use crate::parse::annotations::{self, Writer};
use crate::parse::raw::RawService;

#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The latest version, with what we wrote last: also where somebody stripped it.
    pub(super) last: RawService,
    asked: RawService,
    written: Written,
    /// `resourceVersion` of our last write. What is older does not know of it yet.
    version: Option<u64>,
    strips: Vec<Timestamp>,
    /// Whether it was found without some of what we wrote.
    stripped: bool,
    /// Writes of ours that may have been carried out without our hearing of it: so many of the next
    /// changes are taken for ours.
    unclear: usize,
}

/// What we write on a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    finalizer: bool,
    annotations: BTreeMap<&'static str, String>,
    ingress: Vec<Ingress>,
}

impl Known {
    /// Seen for the first time.
    pub(super) fn new(raw: &RawService) -> Self {
        Self {
            last: raw.clone(),
            asked: asked(raw),
            written: written(raw),
            version: None,
            strips: Vec::new(),
            stripped: false,
            unclear: 0,
        }
    }

    /// A version of it with what we last wrote. While nobody knows what that is, it is as it is.
    pub(super) fn whole(&self, raw: &RawService) -> RawService {
        let mut whole = raw.clone();
        if self.unclear > 0 {
            return whole;
        }
        let ours = self.last.annotations.iter().filter(|(key, _)| is_by_us(key));
        whole.annotations.extend(ours.map(|(key, text)| (key.clone(), text.clone())));
        if has_finalizer(&self.last) && !has_finalizer(&whole) {
            whole.finalizers.push(FINALIZER.to_owned());
        }
        whole
    }

    /// As [`Triggers::recall`](super::Triggers::recall).
    pub(super) fn recall(&self, raw: &RawService) -> Option<RawService> {
        let is_stripped = self.stripped && self.last.uid == raw.uid;
        is_stripped.then(|| self.whole(raw)).filter(|whole| whole != raw)
    }

    /// A write of ours was carried out.
    pub(super) fn handle_written(&mut self, raw: &RawService, version: &str) {
        self.written = written(raw);
        self.version = version.parse().ok();
        self.last = raw.clone();
        (self.stripped, self.unclear) = (false, 0);
    }

    /// A write of ours may have been carried out.
    pub(super) fn handle_unclear(&mut self) {
        self.unclear += 1;
    }

    /// It is seen again.
    pub(super) fn handle_seen(
        &mut self,
        raw: &RawService,
        version: &str,
        now: Timestamp,
    ) -> Option<Trigger> {
        let changed = replace(&mut self.asked, asked(raw));
        let seen: Option<u64> = version.parse().ok();
        let older = seen.zip(self.version).is_some_and(|(seen, ours)| seen < ours);
        let stripped = !older && replace(&mut self.written, written(raw));
        if !older {
            self.last = self.whole(raw);
            self.stripped = self.last != *raw;
        }
        let may_be_ours = stripped && self.unclear > 0;
        if may_be_ours {
            self.unclear -= 1;
        }
        match (changed, stripped) {
            (true, _) => Some(Trigger::Changed),
            (false, true) if may_be_ours => Some(Trigger::Stripped),
            (false, true) => Some(self.strip(now)),
            (false, false) => None,
        }
    }

    fn strip(&mut self, now: Timestamp) -> Trigger {
        self.strips.retain(|at| now.duration_since(*at) < HOUR);
        self.strips.push(now);
        match self.strips.len() {
            ..AT_ONCE => Trigger::Stripped,
            AT_ONCE => Trigger::StrippedAgain,
            _ => Trigger::LeftStripped,
        }
    }
}

/// Whether it was something else.
fn replace<T: PartialEq>(place: &mut T, value: T) -> bool {
    std::mem::replace(place, value) != *place
}

/// A Service without what does not count as asking. Whatever else is read counts.
fn asked(raw: &RawService) -> RawService {
    let mut asked = raw.clone();
    asked.finalizers.clear();
    asked.ingress.clear();
    asked.annotations.retain(|key, _| is_for_us(key) && !is_by_us(key));
    if let Some(class) = &mut asked.load_balancer_class {
        class.clear();
    }
    for range in &mut asked.source_ranges {
        *range = range.trim().to_owned();
    }
    asked.source_ranges.sort_unstable();
    asked.source_ranges.dedup();
    asked
}

fn is_for_us(key: &str) -> bool {
    key.starts_with(annotations::PREFIX) || key == annotations::STANDARD_SOURCE_RANGES
}

fn is_by_us(key: &str) -> bool {
    annotations::find(key).is_some_and(|found| found.writer == Writer::Controller)
}

fn written(raw: &RawService) -> Written {
    let ours = annotations::ALL.iter().filter(|found| found.writer == Writer::Controller);
    let annotations =
        ours.filter_map(|found| Some((found.key, raw.annotations.get(found.key)?.clone())));
    Written {
        finalizer: has_finalizer(raw),
        annotations: annotations.collect(),
        ingress: raw.ingress.clone(),
    }
}

fn has_finalizer(raw: &RawService) -> bool {
    raw.finalizers.iter().any(|name| name == FINALIZER)
}
