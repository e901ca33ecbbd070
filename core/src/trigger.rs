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

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::exec::error::Effect;
use crate::ids::ServiceKey;
use crate::model::record::FINALIZER;
use crate::model::service::{Ingress, Lifecycle, Service};
use crate::parse::annotations::{self, Writer};
use crate::parse::raw::RawService;
use crate::parse::{self, ParseContext};
use crate::vanished;

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

#[derive(Clone, Debug)]
struct Known {
    /// The latest version, with what we wrote last: also where somebody stripped it.
    last: RawService,
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
            Some(known) => known.see(raw, version, now),
            None => {
                self.known.insert(service.key, Known::new(raw));
                Some(if replaced { Trigger::Changed } else { Trigger::New })
            }
        }
    }

    /// Takes a Service as the API server answered a write of ours.
    pub fn handle_written(&mut self, key: &ServiceKey, raw: &RawService, version: &str) {
        if let Some(known) = self.known.get_mut(key) {
            known.written = written(raw);
            known.version = version.parse().ok();
            known.last = raw.clone();
            (known.stripped, known.unclear) = (false, 0);
        }
    }

    /// Takes note of a write of ours that failed: of some nobody knows whether they were carried out.
    pub fn handle_failed(&mut self, key: &ServiceKey, effect: Effect) {
        match (self.known.get_mut(key), effect) {
            (Some(known), Effect::Yes | Effect::Unknown) => {
                known.stripped = false;
                known.unclear += 1;
            }
            (Some(_), Effect::No) | (None, _) => {}
        }
    }

    /// A Service as we last wrote it, where it was found stripped of some of that. After a restart
    /// nothing is known of it.
    pub fn recall(&self, raw: &RawService) -> Option<RawService> {
        let key = ServiceKey::new(raw.namespace.as_str(), raw.name.as_str());
        let known = self.known.get(&key)?;
        if !known.stripped || known.last.uid != raw.uid {
            return None;
        }
        Some(known.with_written(raw)).filter(|whole| whole != raw)
    }

    fn was_concern(&self, key: &ServiceKey, raw: &RawService) -> bool {
        let whole = self.known.get(key).map(|known| known.with_written(raw));
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

impl Known {
    fn new(raw: &RawService) -> Self {
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

    /// A Service with what we last wrote on it.
    fn with_written(&self, raw: &RawService) -> RawService {
        if self.unclear > 0 { raw.clone() } else { with_written(raw, &self.last) }
    }

    fn see(&mut self, raw: &RawService, version: &str, now: Timestamp) -> Option<Trigger> {
        let changed = replace(&mut self.asked, asked(raw));
        let seen: Option<u64> = version.parse().ok();
        let older = seen.zip(self.version).is_some_and(|(seen, ours)| seen < ours);
        let stripped = !older && replace(&mut self.written, written(raw));
        if !older {
            self.last = self.with_written(raw);
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

/// A Service with what `before` holds of our writing.
fn with_written(raw: &RawService, before: &RawService) -> RawService {
    let mut raw = raw.clone();
    let ours = before.annotations.iter().filter(|(key, _)| is_by_us(key));
    raw.annotations.extend(ours.map(|(key, text)| (key.clone(), text.clone())));
    if has_finalizer(before) && !has_finalizer(&raw) {
        raw.finalizers.push(FINALIZER.to_owned());
    }
    raw
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

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;
    use crate::ids::ClusterId;
    use crate::parse::raw::RawServicePort;

    const UID: &str = "6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f";
    const RECORD: &str = r#"{"v":1,"cluster":"prod","service":"6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f","addresses":[]}"#;
    const CLASS: &str = "example.test/other";

    fn context() -> ParseContext {
        ParseContext { cluster_id: ClusterId::parse("prod").unwrap() }
    }

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + minutes.minutes()
    }

    fn key() -> ServiceKey {
        ServiceKey::new("shop", "web")
    }

    fn annotate(raw: &mut RawService, key: &str, value: &str) {
        raw.annotations.insert(key.to_owned(), value.to_owned());
    }

    /// As it is once it is served.
    fn converged() -> RawService {
        let mut raw = RawService {
            namespace: "shop".into(),
            name: "web".into(),
            uid: Some(UID.into()),
            service_type: Some("LoadBalancer".into()),
            ports: vec![RawServicePort {
                port: 80,
                node_port: Some(30080),
                ..RawServicePort::default()
            }],
            source_ranges: vec!["10.0.0.0/8".into(), "192.0.2.0/24".into()],
            ip_families: vec!["IPv4".into()],
            finalizers: vec![FINALIZER.into()],
            ingress: vec![Ingress {
                ip: Some("203.0.113.10".into()),
                hostname: None,
                ip_mode: Some("VIP".into()),
            }],
            ..RawService::default()
        };
        annotate(&mut raw, annotations::VERDICT, "true");
        annotate(&mut raw, annotations::RECORD, RECORD);
        raw
    }

    fn edited(edit: impl FnOnce(&mut RawService)) -> RawService {
        let mut raw = converged();
        edit(&mut raw);
        raw
    }

    fn stripped() -> RawService {
        edited(|raw| raw.annotations.clear())
    }

    /// Triggers that know a converged Service of version 10.
    fn watching() -> Triggers {
        let mut triggers = Triggers::new(context());
        assert_eq!(triggers.handle_seen(&converged(), "10", at(0)), Some(Trigger::New));
        triggers
    }

    fn trigger(raw: &RawService) -> Option<Trigger> {
        watching().handle_seen(raw, "11", at(0))
    }

    /// Section 1.4 of the contract, by row.
    #[test]
    fn what_a_plan_depends_on_is_a_change() {
        let load_balancer_class = Some(CLASS.to_owned());
        let changes = [
            ("1, type", edited(|raw| raw.service_type = Some("ClusterIP".into()))),
            ("1, class, after it was ours", RawService { load_balancer_class, ..converged() }),
            ("2, ranges", edited(|raw| _ = raw.source_ranges.pop())),
            ("3, a port more", edited(|raw| raw.ports.push(RawServicePort::default()))),
            ("3, no port", edited(|raw| raw.ports.clear())),
            ("3, name", edited(|raw| raw.ports[0].name = Some("http".into()))),
            ("3, protocol", edited(|raw| raw.ports[0].protocol = Some("UDP".into()))),
            ("3, port", edited(|raw| raw.ports[0].port = 81)),
            ("3, node port", edited(|raw| raw.ports[0].node_port = Some(30081))),
            ("4, affinity", edited(|raw| raw.session_affinity = Some("ClientIP".into()))),
            ("6, address", edited(|raw| raw.load_balancer_ip = Some("203.0.113.20".into()))),
            ("8, ours", edited(|raw| annotate(raw, annotations::PROXY_PROTOCOL, "true"))),
            ("8, of the fork", edited(|raw| annotate(raw, annotations::FORK_ID, "a"))),
            (
                "8, unknown under our prefix",
                edited(|raw| {
                    annotate(raw, &format!("{}proxy", annotations::PREFIX), "true");
                }),
            ),
            (
                "8, to be warned of",
                edited(|raw| {
                    annotate(raw, annotations::STANDARD_SOURCE_RANGES, "10.0.0.0/8");
                }),
            ),
            ("9, uid", edited(|raw| raw.uid = Some("7f1c2a30".into()))),
            ("12, families", edited(|raw| raw.ip_families.push("IPv6".into()))),
            ("deletion", edited(|raw| raw.deleting = true)),
        ];
        for (row, raw) in changes {
            assert_eq!(trigger(&raw), Some(Trigger::Changed), "{row}");
        }
    }

    /// Section 1.4 of the contract: rows that no plan depends on, and what it does not compare.
    #[test]
    fn what_no_plan_depends_on_is_no_change() {
        let quiet = [
            ("a resync", converged()),
            (
                "2, order, blanks and doubles of ranges",
                edited(|raw| {
                    raw.source_ranges =
                        ["192.0.2.0/24", " 10.0.0.0/8", "10.0.0.0/8"].map(str::to_owned).into();
                }),
            ),
            ("8, of others", edited(|raw| annotate(raw, "kubectl.kubernetes.io/x", "y"))),
            ("a finalizer of others", edited(|raw| raw.finalizers.push("example.test/x".into()))),
        ];
        for (row, raw) in quiet {
            assert_eq!(trigger(&raw), None, "{row}");
        }
    }

    /// Section 1.1 of the contract, with its trap 2, and row 0 of section 1.4.
    #[test]
    fn c077_which_services_concern_us() {
        let blank =
            || RawService { finalizers: Vec::new(), annotations: BTreeMap::new(), ..converged() };
        let finalized = || RawService { finalizers: vec![FINALIZER.into()], ..blank() };
        let class = || Some(CLASS.to_owned());
        let cluster_ip = || Some("ClusterIP".to_owned());
        let copied = RECORD.replace(UID, "7f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f");
        let mut copy = RawService { load_balancer_class: class(), ..finalized() };
        annotate(&mut copy, annotations::RECORD, &copied);
        for (what, raw, expected) in [
            ("wanted", blank(), true),
            ("in deletion", RawService { deleting: true, ..finalized() }, true),
            ("in deletion, held by others", RawService { deleting: true, ..blank() }, true),
            ("never one", RawService { service_type: cluster_ip(), ..blank() }, false),
            ("no longer one", RawService { service_type: cluster_ip(), ..finalized() }, true),
            (
                "no longer one, stripped of the finalizer",
                RawService { service_type: cluster_ip(), finalizers: Vec::new(), ..converged() },
                true,
            ),
            (
                "deleted after it was cleaned up",
                RawService { service_type: cluster_ip(), deleting: true, ..blank() },
                false,
            ),
            ("of a class", RawService { load_balancer_class: class(), ..blank() }, false),
            (
                "of a class with its finalizer",
                RawService { load_balancer_class: class(), ..finalized() },
                false,
            ),
            (
                "of a class, in deletion",
                RawService { load_balancer_class: class(), deleting: true, ..finalized() },
                false,
            ),
            ("of a class, with a copied record", copy, false),
            (
                "of a class after it was ours",
                RawService { load_balancer_class: class(), ..converged() },
                true,
            ),
        ] {
            assert_eq!(concerns(&raw, &context()), expected, "{what}");
            let seen = Triggers::new(context()).handle_seen(&raw, "1", at(0));
            assert_eq!(seen.is_some(), expected, "{what}");
        }
    }

    #[test]
    fn own_writes_are_no_change_whenever_they_are_seen() {
        let new = edited(|raw| {
            (raw.finalizers, raw.ingress) = (Vec::new(), Vec::new());
            raw.annotations.clear();
        });
        let intended = edited(|raw| raw.ingress.clear());
        let mut triggers = Triggers::new(context());
        assert_eq!(triggers.handle_seen(&new, "10", at(0)), Some(Trigger::New));
        triggers.handle_written(&key(), &intended, "11");
        triggers.handle_written(&key(), &converged(), "12");
        for (raw, version) in [(&new, "10"), (&intended, "11"), (&converged(), "12")] {
            assert_eq!(triggers.handle_seen(raw, version, at(0)), None, "{version}");
        }
        let labelled = triggers.handle_seen(&converged(), "13", at(0));
        assert_eq!(labelled, None, "a later change of something else");
    }

    #[test]
    fn an_edit_that_a_write_of_ours_met_is_not_lost() {
        let mut triggers = watching();
        let met = edited(|raw| raw.ports[0].port = 81);
        triggers.handle_written(&key(), &met, "12");
        assert_eq!(triggers.handle_seen(&met, "12", at(0)), Some(Trigger::Changed));
    }

    #[test]
    fn c104_what_others_remove_or_edit_is_written_back() {
        for (what, raw) in [
            ("annotations", stripped()),
            ("the verdict", edited(|raw| annotate(raw, annotations::VERDICT, "false"))),
            ("an intent", edited(|raw| annotate(raw, annotations::INTENT, "x"))),
            ("the finalizer", edited(|raw| raw.finalizers.clear())),
            ("the address in the status", edited(|raw| raw.ingress.clear())),
            ("the mode in the status", edited(|raw| raw.ingress[0].ip_mode = None)),
        ] {
            assert_eq!(trigger(&raw), Some(Trigger::Stripped), "{what}");
        }
    }

    #[test]
    fn c104_the_same_loss_is_told_once() {
        let mut triggers = watching();
        assert_eq!(triggers.handle_seen(&stripped(), "11", at(0)), Some(Trigger::Stripped));
        assert_eq!(triggers.handle_seen(&stripped(), "12", at(1)), None);
    }

    /// Strips the Service at these minutes, after it was written back.
    fn strip_at(triggers: &mut Triggers, minutes: impl IntoIterator<Item = i64>) -> Vec<Trigger> {
        let strip = |minute: i64| {
            triggers.handle_written(&key(), &converged(), &(100 + 2 * minute).to_string());
            let version = (101 + 2 * minute).to_string();
            triggers.handle_seen(&stripped(), &version, at(minute)).unwrap()
        };
        minutes.into_iter().map(strip).collect()
    }

    #[test]
    fn c104_somebody_who_does_not_stop_is_answered_once_per_drift_round() {
        use Trigger::{LeftStripped, Stripped, StrippedAgain};
        let mut triggers = watching();
        let found = strip_at(&mut triggers, (0..60).step_by(3));
        assert_eq!(found[..3], [Stripped, Stripped, StrippedAgain]);
        assert_eq!(found[3..], [LeftStripped; 17]);
        assert!(!LeftStripped.needs_sync() && StrippedAgain.needs_sync());
        // Each drift round writes it back, and it is stripped again.
        assert_eq!(strip_at(&mut triggers, (60..180).step_by(10)), [LeftStripped; 12]);
        // After an hour of peace it is as before.
        assert_eq!(strip_at(&mut triggers, [240]), [Stripped]);
    }

    #[test]
    fn c104_seldom_strips_are_always_written_back() {
        let found = strip_at(&mut watching(), (0..600).step_by(31));
        assert!(found.iter().all(|trigger| *trigger == Trigger::Stripped), "{found:?}");
    }

    #[test]
    fn c104_a_stripped_service_that_changes_too_is_synced() {
        let mut triggers = watching();
        strip_at(&mut triggers, 0..10);
        let both = edited(|raw| {
            raw.annotations.clear();
            raw.ports[0].port = 81;
        });
        assert_eq!(triggers.handle_seen(&both, "900", at(11)), Some(Trigger::Changed));
    }

    #[test]
    fn a_service_that_went_and_came_back_is_new() {
        let mut triggers = watching();
        triggers.handle_gone(&key());
        assert_eq!(triggers.handle_seen(&converged(), "20", at(0)), Some(Trigger::New));
        let cleaned = RawService {
            service_type: Some("ClusterIP".into()),
            name: "web".into(),
            namespace: "shop".into(),
            ..RawService::default()
        };
        assert_eq!(triggers.handle_seen(&cleaned, "21", at(0)), None);
        assert_eq!(triggers.handle_seen(&converged(), "22", at(0)), Some(Trigger::New));
    }

    /// The annotations of what vanished, and whether our finalizer holds it.
    fn vanished(triggers: &mut Triggers) -> Vec<(String, BTreeMap<String, String>)> {
        let gone = triggers.take_vanished().into_iter();
        gone.inspect(|raw| assert!(raw.deleting && raw.finalizers == [FINALIZER]))
            .map(|raw| (raw.name, raw.annotations))
            .collect()
    }

    fn remains() -> [(String, BTreeMap<String, String>); 1] {
        [(format!("web@{UID}"), converged().annotations)]
    }

    #[test]
    fn what_vanishes_is_remembered_once_as_we_wrote_it_last() {
        let mut triggers = watching();
        triggers.handle_gone(&key());
        assert_eq!(vanished(&mut triggers), remains());
        triggers.handle_gone(&key());
        assert_eq!(vanished(&mut triggers), []);
    }

    #[test]
    fn what_was_stripped_before_it_vanished_is_known_all_the_same() {
        let mut triggers = watching();
        let bare = edited(|raw| {
            raw.annotations.clear();
            raw.finalizers.clear();
        });
        triggers.handle_seen(&bare, "11", at(0));
        triggers.handle_gone(&key());
        assert_eq!(vanished(&mut triggers), remains());
    }

    #[test]
    fn what_we_let_go_leaves_nothing() {
        let mut triggers = watching();
        let let_go = edited(|raw| {
            raw.deleting = true;
            raw.annotations.clear();
            raw.finalizers.clear();
        });
        triggers.handle_written(&key(), &let_go, "12");
        triggers.handle_gone(&key());
        assert_eq!(vanished(&mut triggers), []);
    }

    #[test]
    fn what_was_stripped_is_recalled_until_it_is_written_back() {
        let mut triggers = watching();
        assert_eq!(triggers.recall(&stripped()), None, "not before its turn");
        triggers.handle_seen(&stripped(), "11", at(0));
        assert_eq!(triggers.recall(&stripped()), Some(converged()));
        let edited = edited(|raw| annotate(raw, annotations::VERDICT, "false"));
        triggers.handle_seen(&edited, "12", at(0));
        assert_eq!(triggers.recall(&edited), Some(converged()));
        triggers.handle_written(&key(), &converged(), "13");
        assert_eq!(triggers.recall(&converged()), None);
    }

    #[test]
    fn what_we_removed_is_not_recalled() {
        let mut triggers = watching();
        let removed = edited(|raw| _ = raw.annotations.remove(annotations::RECORD));
        triggers.handle_written(&key(), &removed, "12");
        triggers.handle_seen(&removed, "12", at(0));
        assert_eq!(triggers.recall(&removed), None);
    }

    #[test]
    fn what_a_lost_write_may_have_done_is_no_strip() {
        for seen_between in [false, true] {
            let mut triggers = watching();
            triggers.handle_failed(&key(), Effect::Unknown);
            if seen_between {
                triggers.handle_seen(&converged(), "10", at(0));
            }
            triggers.handle_seen(&stripped(), "11", at(0));
            assert_eq!(triggers.recall(&stripped()), None);
            triggers.handle_written(&key(), &converged(), "12");
            triggers.handle_seen(&stripped(), "13", at(0));
            assert_eq!(triggers.recall(&stripped()), Some(converged()), "it is known again");
        }
    }

    #[test]
    fn what_a_lost_write_did_is_known_once_it_was_seen() {
        let intended = || {
            edited(|raw| {
                raw.ingress.clear();
                raw.annotations.clear();
                annotate(raw, annotations::INTENT, "x");
            })
        };
        let mut triggers = Triggers::new(context());
        triggers.handle_seen(&stripped(), "10", at(0));
        triggers.handle_failed(&key(), Effect::Unknown);
        assert_eq!(triggers.handle_seen(&intended(), "11", at(0)), Some(Trigger::Stripped));
        let mut bare = intended();
        bare.annotations.clear();
        triggers.handle_seen(&bare, "12", at(0));
        assert_eq!(triggers.recall(&bare), Some(intended()));
    }

    #[test]
    fn lost_answers_are_no_strips_to_be_told() {
        let mut triggers = watching();
        for minute in 0..10 {
            triggers.handle_failed(&key(), Effect::Unknown);
            let raw = edited(|raw| annotate(raw, annotations::INTENT, &minute.to_string()));
            let version = (11 + minute).to_string();
            let seen = triggers.handle_seen(&raw, &version, at(minute));
            assert_eq!(seen, Some(Trigger::Stripped));
        }
    }

    #[test]
    fn a_service_that_is_stripped_and_turned_away_at_once_still_concerns_us() {
        let stripped = |edit: fn(&mut RawService)| {
            let mut raw = stripped();
            raw.finalizers.clear();
            edit(&mut raw);
            raw
        };
        for raw in [
            stripped(|raw| raw.service_type = Some("ClusterIP".into())),
            stripped(|raw| raw.load_balancer_class = Some(CLASS.into())),
        ] {
            let mut triggers = watching();
            assert_eq!(triggers.handle_seen(&raw, "11", at(0)), Some(Trigger::Changed));
            let whole = triggers.recall(&raw).unwrap();
            assert!(concerns(&whole, &context()));
        }
    }

    #[test]
    fn another_service_of_its_name_takes_nothing_over() {
        let mut triggers = watching();
        let other = RawService {
            uid: Some("7f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f".into()),
            finalizers: Vec::new(),
            annotations: BTreeMap::new(),
            ..converged()
        };
        assert_eq!(triggers.handle_seen(&other, "20", at(0)), Some(Trigger::Changed));
        assert_eq!(vanished(&mut triggers), remains());
        triggers.handle_gone(&key());
        assert_eq!(vanished(&mut triggers), [], "nothing was made for it yet");
    }
}
