//! The same over HTTP, where the transport decides what a broken connection is.

use ccm_core::exec::error::{Effect, Fault};
use ccm_simulator::faults::{FaultKind, Mishap};

use crate::changes::{check_done, check_error, run_truly};
use crate::scene::{Scene, changes, reads};

#[test]
fn connections_that_end_without_an_answer_are_told_from_refusals() {
    for command in changes() {
        let scene = Scene::over_http();
        scene.inject(command, FaultKind::Before(Mishap::Closed), None);
        let found = run_truly(&scene, command, command.name());
        check_error(found, command, (Fault::Transient, Effect::Unknown), command.name());

        let scene = Scene::over_http();
        scene.inject(command, FaultKind::After(Mishap::Closed), None);
        check_done(run_truly(&scene, command, command.name()), command.name());
    }
}

#[test]
fn a_list_whose_answer_does_not_arrive_changed_nothing() {
    for command in reads() {
        for kind in [FaultKind::Before(Mishap::Closed), FaultKind::After(Mishap::Closed)] {
            let scene = Scene::over_http();
            scene.inject(command, kind, None);
            let found = scene.run(command);
            check_error(found, command, (Fault::Transient, Effect::No), command.name());
        }
    }
}
