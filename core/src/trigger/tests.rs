use jiff::ToSpan as _;

use super::*;
use crate::ids::ClusterId;
use crate::model::record::FINALIZER;
use crate::model::service::Ingress;
use crate::parse::annotations;
use crate::parse::raw::RawServicePort;

const UID: &str = "6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f";
const RECORD: &str =
    r#"{"v":1,"cluster":"prod","service":"6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f","addresses":[]}"#;
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
