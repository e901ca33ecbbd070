//! Changes whose job goes wrong: it is slow, fails late, vanishes, or dies with its server, or the
//! router refuses what it pushes.

use ccm_cloudstack::{Command, Verb};
use ccm_core::exec::error::{Effect, Fault};
use ccm_simulator::faults::{FaultKind, JobFault, Mishap, RouterFault, RouterPart};
use jiff::SignedDuration;

use crate::changes::{check_done, check_error, run_truly};
use crate::faults::{CODES, error, lost};
use crate::scene::{Scene, changes};

const ALL_PARTS: [RouterPart; 4] =
    [RouterPart::LoadBalancer, RouterPart::Firewall, RouterPart::Address, RouterPart::Acl];

/// A scene in which the job of a command meets with a fault.
fn with_job(command: Command, fault: JobFault) -> Scene {
    let scene = Scene::new();
    scene.inject(command, FaultKind::Job(fault), None);
    scene
}

/// A scene in which every push to a router meets with a fault.
fn with_router(fault: RouterFault) -> Scene {
    let scene = Scene::new();
    for part in ALL_PARTS {
        scene.simulator(|simulator| simulator.fault_router(part, fault));
    }
    scene
}

#[test]
fn a_slow_job_is_followed_to_its_end() {
    for command in changes() {
        let scene = with_job(command, JobFault::Slow(SignedDuration::from_mins(8)));
        check_done(run_truly(&scene, command, command.name()), command.name());
    }
}

#[test]
fn a_job_that_outlives_patience_is_unknown_and_nothing_is_sent_beside_it() {
    for command in changes() {
        let scene = with_job(command, JobFault::Slow(SignedDuration::from_hours(1)));
        let found = run_truly(&scene, command, command.name());
        check_error(found, command, (Fault::Cloud, Effect::Unknown), command.name());
        // What a create makes is not known yet, and tags hurt no other job.
        if command.verb() != Verb::Create && command != Command::CreateTags {
            let found = scene.run(command);
            check_error(found, command, (Fault::Transient, Effect::No), command.name());
        }
    }
}

/// Of 431 a job means that it stored nothing, which no late failure is: `missing.rs` has it.
#[test]
fn a_job_that_fails_late_has_left_what_nobody_knows() {
    let codes = || CODES.iter().filter(|(code, _)| *code >= 500);
    for command in changes() {
        for (code, fault) in codes() {
            let case = format!("{} {code}", command.name());
            let scene = with_job(command, JobFault::Fails { code: *code, text: "late".to_owned() });
            let found = run_truly(&scene, command, &case);
            check_error(found, command, (*fault, Effect::Unknown), &case);
        }
    }
}

#[test]
fn a_job_that_vanishes_is_neither_done_nor_failed() {
    for command in changes() {
        let scene = with_job(command, JobFault::Vanishes);
        let before = scene.objects();
        let found = run_truly(&scene, command, command.name());
        check_error(found, command, (Fault::Cloud, Effect::Unknown), command.name());
        assert!(scene.objects() != before, "{} was carried out", command.name());
    }
}

#[test]
fn a_job_that_dies_with_its_server_is_unknown() {
    for command in changes() {
        let scene = with_job(command, JobFault::Slow(SignedDuration::from_mins(5)));
        let mut polls = 0;
        scene.interrupt(move |simulator, command| {
            polls += i32::from(command == "queryAsyncJobResult");
            if polls == 3 {
                simulator.kill();
                simulator.restart();
            }
        });
        let found = run_truly(&scene, command, command.name());
        check_error(found, command, (Fault::Transient, Effect::Unknown), command.name());
    }
}

#[test]
fn a_server_that_is_down_for_a_while_is_waited_for() {
    for command in changes() {
        let scene = Scene::new();
        let mut polls = 0;
        scene.interrupt(move |simulator, command| {
            polls += i32::from(command == "queryAsyncJobResult");
            match polls {
                2 => simulator.kill(),
                9 => simulator.restart(),
                _ => {}
            }
        });
        scene.inject(command, FaultKind::Job(JobFault::Slow(SignedDuration::from_mins(1))), None);
        let found = run_truly(&scene, command, command.name());
        check_error(found, command, (Fault::Transient, Effect::Unknown), command.name());
    }
}

#[test]
fn questions_that_fail_do_not_change_the_outcome() {
    let query = Command::QueryAsyncJobResult;
    let refusals = [429, 431, 500, 503, 530].map(error);
    for command in changes() {
        for mishap in lost().into_iter().chain(refusals.clone()) {
            let case = format!("{} {mishap:?}", command.name());
            let scene = Scene::new();
            scene.inject(query, FaultKind::Before(mishap), Some(3));
            check_done(run_truly(&scene, command, &case), &case);
        }
    }
}

#[test]
fn a_job_that_can_not_be_asked_for_is_unknown() {
    let query = Command::QueryAsyncJobResult;
    for command in changes() {
        for (mishap, fault) in [
            (Mishap::Closed, Fault::Cloud),
            (error(431), Fault::Cloud),
            (error(531), Fault::Permission),
            (error(401), Fault::Permission),
        ] {
            let case = format!("{} {mishap:?}", command.name());
            let scene = Scene::new();
            scene.inject(query, FaultKind::Before(mishap), None);
            let found = run_truly(&scene, command, &case);
            check_error(found, command, (fault, Effect::Unknown), &case);
        }
    }
}

/// Whether a command pushes something of which CloudStack takes notice.
fn minds_the_router(command: Command) -> bool {
    let silent = [
        // Nothing is sent with an address, a rule without members, or tags.
        Command::AssociateIpAddress,
        Command::CreateLoadBalancerRule,
        Command::CreateTags,
        // Failed pushes of ACLs are ignored.
        Command::CreateNetworkAcl,
        Command::DeleteNetworkAcl,
    ];
    !silent.contains(&command)
}

#[test]
fn a_router_that_refuses_is_the_clouds_fault() {
    for command in changes() {
        for fault in [RouterFault::Fail, RouterFault::Throw] {
            let scene = with_router(fault);
            let found = run_truly(&scene, command, command.name());
            let effect =
                if command.verb() == Verb::Release { Effect::Yes } else { Effect::Unknown };
            if minds_the_router(command) {
                check_error(found, command, (Fault::Cloud, effect), command.name());
            } else {
                check_done(found, command.name());
            }
        }
    }
}

#[test]
fn a_router_that_is_silent_is_unknown_and_a_slow_one_is_waited_for() {
    for command in changes() {
        let with = |fault| run_truly(&with_router(fault), command, command.name());
        check_done(with(RouterFault::Wait(SignedDuration::from_secs(90))), command.name());
        let found = with(RouterFault::Silence);
        let nothing_sent =
            [Command::AssociateIpAddress, Command::CreateLoadBalancerRule, Command::CreateTags]
                .contains(&command);
        if nothing_sent {
            check_done(found, command.name());
        } else {
            check_error(found, command, (Fault::Cloud, Effect::Unknown), command.name());
        }
    }
}

#[test]
fn without_a_router_nothing_fails() {
    for command in changes() {
        let scene = with_router(RouterFault::Fail);
        scene.stop_routers();
        check_done(run_truly(&scene, command, command.name()), command.name());
    }
}
