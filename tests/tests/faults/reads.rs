//! Lists under faults: whole, or a typed error. Nothing changes, so the effect is always No.

use std::collections::BTreeSet;

use ccm_cloudstack::Command;
use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_simulator::faults::{FaultKind, PageFault};

use crate::changes::check_done;
use crate::faults::{CODES, check_wait, error, lost, turned_away};
use crate::scene::{Scene, changes, reads};

/// Commands without which what is found out is poorer, not impossible.
const OPTIONAL: [Command; 6] = [
    Command::ListApis,
    Command::ListCapabilities,
    Command::ListVpcs,
    Command::ListPortForwardingRules,
    Command::ListNetworkAclLists,
    Command::ListNetworkAcls,
];

/// Runs a read under a fault.
fn run(command: Command, kind: &FaultKind, times: Option<u32>) -> Result<String, CallError> {
    let scene = Scene::new();
    scene.inject(command, kind.clone(), times);
    scene.run(command)
}

fn healthy(command: Command) -> String {
    Scene::new().run(command).expect("a healthy read")
}

/// A read failed as it should have.
fn check_error(found: Result<String, CallError>, command: Command, fault: Fault, case: &str) {
    let error = found.expect_err(case);
    assert_eq!((error.fault, error.effect), (fault, Effect::No), "{case}: {error}");
    assert_eq!(error.command, command.name(), "{case}: {error}");
    check_wait(&error, case);
}

#[test]
fn errors_of_the_server_are_reported_as_what_they_are() {
    for command in reads() {
        for (code, fault) in CODES {
            let case = format!("{} {code}", command.name());
            let found = run(command, &FaultKind::Before(error(*code)), None);
            if *code == 432 && OPTIONAL.contains(&command) {
                check_done(found, &case);
            } else if *code == 531 && command == Command::QueryAsyncJobResult {
                // A job of another account is a job of which nothing is known.
                assert!(check_done(found, &case).contains("Unknown"), "{case}");
            } else {
                check_error(found, command, *fault, &case);
            }
        }
    }
}

#[test]
fn answers_that_get_lost_or_come_from_elsewhere_are_errors() {
    for command in reads() {
        let lost = lost().into_iter().map(|mishap| (mishap, Fault::Transient));
        for (mishap, fault) in lost.chain(turned_away()) {
            let case = format!("{} {mishap:?}", command.name());
            for kind in [FaultKind::Before(mishap.clone()), FaultKind::After(mishap)] {
                check_error(run(command, &kind, None), command, fault, &case);
            }
        }
    }
}

#[test]
fn a_short_throttling_is_waited_out() {
    for command in reads() {
        let found = run(command, &FaultKind::Before(error(429)), Some(3));
        assert_eq!(check_done(found, command.name()), healthy(command), "{}", command.name());
    }
}

/// Lists that are read page by page.
fn lists() -> impl Iterator<Item = Command> {
    let single = [Command::ListApis, Command::ListCapabilities, Command::QueryAsyncJobResult];
    reads().filter(move |command| !single.contains(command))
}

#[test]
fn a_list_is_whole_or_an_error() {
    for command in lists() {
        for page in [PageFault::Short, PageFault::Duplicated] {
            let case = format!("{} {page:?}", command.name());
            let found = run(command, &FaultKind::Page(page), None);
            check_error(found, command, Fault::Transient, &case);
        }
    }
}

#[test]
fn rows_that_move_between_pages_are_never_lost() {
    for command in lists() {
        let case = command.name();
        match run(command, &FaultKind::Page(PageFault::Shifted), None) {
            // All on one page.
            Ok(found) => assert_eq!(found, healthy(command), "{case}"),
            Err(error) => check_error(Err(error), command, Fault::Transient, case),
        }
    }
    let found = run(Command::ListVirtualMachines, &FaultKind::Page(PageFault::Shifted), None);
    check_error(found, Command::ListVirtualMachines, Fault::Transient, "several pages");
}

#[test]
fn a_list_that_comes_right_is_read_again() {
    for command in lists().filter(|command| *command != Command::ListLoadBalancerRuleInstances) {
        for page in [PageFault::Short, PageFault::Duplicated, PageFault::Shifted] {
            let found = run(command, &FaultKind::Page(page), Some(1));
            assert_eq!(
                check_done(found, command.name()),
                healthy(command),
                "{} {page:?}",
                command.name()
            );
        }
    }
}

#[test]
fn the_order_of_rows_means_nothing() {
    for command in lists() {
        let scene = Scene::new();
        scene.inject(command, FaultKind::Page(PageFault::Reordered), None);
        let found = check_done(scene.run(command), command.name());
        assert_eq!(found, healthy(command), "{}", command.name());
    }
}

#[test]
fn a_page_of_the_past_does_not_mix_with_pages_of_now() {
    for list in lists() {
        let case = list.name();
        let scene = Scene::new();
        let past = check_done(scene.listed(list), case);
        scene.inject(list, FaultKind::Page(PageFault::Stale), Some(1));
        scene.disturb(list);
        match scene.listed(list) {
            // One page, or what was read again.
            Ok(found) if found == past => {}
            Ok(found) => assert_eq!(found, check_done(scene.listed(list), case), "{case}"),
            Err(error) => check_error(Err(error), list, Fault::Transient, case),
        }
        assert_ne!(check_done(scene.listed(list), case), past, "{case} is as before");
    }
}

#[test]
fn a_server_that_is_down_is_transient_and_nothing_was_sent() {
    for command in reads().chain(changes()) {
        let scene = Scene::new();
        scene.run(Command::ListNetworks).expect("discovery");
        scene.simulator(ccm_simulator::Simulator::kill);
        let error =
            scene.run(command).err().unwrap_or_else(|| panic!("{} is done", command.name()));
        assert_eq!((error.fault, error.effect), (Fault::Transient, Effect::No), "{error}");
    }
}

#[test]
fn every_command_in_the_table_is_sent_and_no_other() {
    let mut sent = BTreeSet::new();
    for command in reads().chain(changes()) {
        let scene = Scene::new();
        check_done(scene.run(command), command.name());
        let new = scene.sent();
        assert!(new.contains(command.name()), "{} is not sent by its operation", command.name());
        sent.extend(new);
    }
    let table: BTreeSet<String> =
        reads().chain(changes()).map(|command| command.name().to_owned()).collect();
    assert_eq!(sent, table);
}
