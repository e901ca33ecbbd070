//! Changes under faults of the request and its answer: what is reported as done is done, what is
//! reported as without effect had none, and everything else is unknown.

use ccm_cloudstack::{Command, Verb};
use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_simulator::faults::{FaultKind, JobFault, Mishap};

use crate::faults::{CODES, check_wait, error, lost, turned_away};
use crate::scene::{Scene, changes};

/// Runs a change, and holds what it reports against what happened.
pub fn run_truly(scene: &Scene, command: Command, case: &str) -> Result<String, CallError> {
    let before = scene.objects();
    let found = scene.run(command);
    let changed = scene.objects() != before;
    match &found {
        Ok(_) => assert!(changed, "{case}: reported as done, and nothing changed"),
        Err(error) => match error.effect {
            Effect::No => assert!(!changed, "{case}: reported without effect: {error}"),
            Effect::Yes => assert!(changed, "{case}: reported with effect: {error}"),
            Effect::Unknown => {}
        },
    }
    found
}

/// Runs a change under a fault in a fresh world.
fn run(command: Command, kind: FaultKind, case: &str) -> Result<String, CallError> {
    let scene = Scene::new();
    scene.inject(command, kind, None);
    run_truly(&scene, command, case)
}

/// Something succeeded.
pub fn check_done(found: Result<String, CallError>, case: &str) -> String {
    found.unwrap_or_else(|error| panic!("{case}: {error}"))
}

/// A change failed as it should have.
pub fn check_error(
    found: Result<String, CallError>,
    command: Command,
    expected: (Fault, Effect),
    case: &str,
) {
    let error = found.expect_err(case);
    assert_eq!((error.fault, error.effect), expected, "{case}: {error}");
    assert_eq!(error.command, command.name(), "{case}: {error}");
    check_wait(&error, case);
}

/// What a refusal proves. A create may have made its object first, and a release touches every
/// rule of its address: of their internal errors nobody knows how far they got.
fn effect_of_refusal(verb: Verb, code: u16) -> Effect {
    match (verb, code) {
        (_, 500) => Effect::Unknown,
        (Verb::Create, 503 | 511 | 530 | 534) => Effect::Unknown,
        (Verb::Release, 530 | 534 | 511) => Effect::Unknown,
        (_, 511) => Effect::Unknown,
        _ => Effect::No,
    }
}

#[test]
fn healthy_changes_are_done() {
    for command in changes() {
        check_done(run_truly(&Scene::new(), command, command.name()), command.name());
    }
}

#[test]
fn a_refusal_says_whose_fault_it_is_and_what_it_proves() {
    for command in changes() {
        for (code, fault) in CODES {
            let case = format!("{} {code}", command.name());
            let found = run(command, FaultKind::Before(error(*code)), &case);
            let effect = effect_of_refusal(command.verb(), *code);
            check_error(found, command, (*fault, effect), &case);
        }
    }
}

#[test]
fn a_request_that_is_lost_on_its_way_is_unknown() {
    for command in changes() {
        for mishap in lost() {
            let case = format!("{} {mishap:?}", command.name());
            let found = run(command, FaultKind::Before(mishap), &case);
            check_error(found, command, (Fault::Transient, Effect::Unknown), &case);
        }
    }
}

#[test]
fn an_answer_that_is_lost_on_its_way_is_found_by_its_job() {
    for command in changes() {
        for mishap in lost() {
            let case = format!("{} {mishap:?}", command.name());
            check_done(run(command, FaultKind::After(mishap), &case), &case);
        }
    }
}

#[test]
fn what_is_turned_away_in_between_had_no_effect() {
    for command in changes() {
        for (mishap, fault) in turned_away() {
            let case = format!("{} {mishap:?}", command.name());
            let found = run(command, FaultKind::Before(mishap), &case);
            check_error(found, command, (fault, Effect::No), &case);
        }
    }
}

#[test]
fn a_throttled_change_is_sent_again_but_an_intent_is_not() {
    for command in changes() {
        let scene = Scene::new();
        scene.inject(command, FaultKind::Before(error(429)), Some(1));
        let found = run_truly(&scene, command, command.name());
        if command == Command::AssociateIpAddress {
            check_error(found, command, (Fault::Throttled, Effect::No), command.name());
        } else {
            check_done(found, command.name());
        }
    }
}

/// The real rule of tokens: 25 calls in a second, of which a signed one takes two.
#[test]
fn a_window_that_others_used_up_is_waited_out() {
    for command in changes() {
        let scene = Scene::new();
        let (before, now) = (scene.objects(), scene.now());
        scene.simulator(|simulator| {
            simulator.set("api.throttling.enabled", "true").expect("a setting");
            for _ in 0..30 {
                simulator.call("prod", "listZones", &[], now);
            }
        });
        let found = scene.run(command);
        let (waited, is_intent) = (scene.now() > now, command == Command::AssociateIpAddress);
        scene.simulator(|simulator| {
            simulator.set("api.throttling.enabled", "false").expect("a setting");
        });
        let changed = scene.objects() != before;
        if is_intent {
            check_error(found, command, (Fault::Throttled, Effect::No), command.name());
        } else {
            check_done(found, command.name());
            assert!(waited, "{} did not wait", command.name());
        }
        assert_eq!(changed, !is_intent, "{}", command.name());
    }
}

/// A change is tried until it succeeds, while requests, answers and jobs meet with faults.
#[test]
fn whatever_strikes_by_chance_the_report_is_true() {
    let kinds = [
        FaultKind::Before(Mishap::Closed),
        FaultKind::After(Mishap::Silence),
        FaultKind::Before(error(530)),
        FaultKind::Job(JobFault::Vanishes),
    ];
    for command in changes() {
        let scene = Scene::new();
        for kind in &kinds {
            scene.inject_by_chance(kind.clone(), 30);
        }
        let mut was_changed = false;
        for attempt in 1..=6 {
            let case = format!("{} by chance, attempt {attempt}", command.name());
            let before = scene.objects();
            let found = scene.run(command);
            let is_changed = scene.objects() != before;
            was_changed |= is_changed;
            match found {
                Ok(_) => {
                    assert!(was_changed, "{case}: reported as done");
                    break;
                }
                Err(error) => match error.effect {
                    Effect::No => assert!(!is_changed, "{case}: {error}"),
                    Effect::Yes => assert!(was_changed, "{case}: {error}"),
                    Effect::Unknown => {}
                },
            }
        }
    }
}
