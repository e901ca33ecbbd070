//! A rule that two jobs wedged (observed): removals of members, its deletion and the release of its
//! address fail with 530 until somebody repairs CloudStack's database. The client reports that as
//! the cloud's fault each time, and as done or without effect never.

use ccm_cloudstack::Command;
use ccm_core::exec::error::{Effect, Fault};
use ccm_simulator::faults::{RouterFault, RouterPart};
use jiff::SignedDuration;

use crate::changes::{check_done, check_error, run_truly};
use crate::scene::Scene;

/// The commands that were seen to fail.
const ABOUT_A_RULE: [Command; 3] = [
    Command::RemoveFromLoadBalancerRule,
    Command::DeleteLoadBalancerRule,
    Command::DisassociateIpAddress,
];

/// A scene whose rule is wedged by a removal of ours and an assign of somebody else's.
fn wedged() -> Scene {
    let scene = Scene::new();
    let slow = RouterFault::Wait(SignedDuration::from_secs(30));
    scene.simulator(|simulator| simulator.fault_router(RouterPart::LoadBalancer, slow));
    scene.assign_during_the_next_job();
    let removal = Command::RemoveFromLoadBalancerRule;
    let found = run_truly(&scene, removal, "the removal that wedges");
    check_error(found, removal, (Fault::Cloud, Effect::Unknown), "the removal that wedges");
    scene.simulator(|simulator| simulator.heal_router(RouterPart::LoadBalancer));
    scene
}

#[test]
fn what_fails_on_a_wedged_rule_is_the_clouds_fault_each_time() {
    for command in ABOUT_A_RULE {
        let scene = wedged();
        for attempt in ["once", "again"] {
            let case = format!("{} {attempt}", command.name());
            let found = scene.run(command);
            let error = found.clone().expect_err(&case);
            assert_eq!(error.code, Some(530), "{case}");
            assert!(error.message.contains("Entity already exists"), "{case}: {error}");
            check_error(found, command, (Fault::Cloud, Effect::Unknown), &case);
        }
    }
}

#[test]
fn the_members_of_a_wedged_rule_are_listed_as_before() {
    let members = Command::ListLoadBalancerRuleInstances;
    let healthy = check_done(Scene::new().run(members), "healthy");
    assert_eq!(check_done(wedged().run(members), "wedged"), healthy);
}

#[test]
fn a_repaired_rule_can_be_deleted() {
    let scene = wedged();
    scene.repair();
    let deletion = Command::DeleteLoadBalancerRule;
    check_done(run_truly(&scene, deletion, "repaired"), "repaired");
}
