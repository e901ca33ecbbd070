//! Cases 14: what a real server was seen to do.

use ccm_core::ids::ServiceKey;
use ccm_core::plan::action::Action;
use ccm_core::plan::planner::Depth;
use ccm_simulator::faults::{Fault, FaultKind, JobFault, RouterFault, RouterPart};
use ccm_tests::lab::{Lab, Setup, port};
use ccm_tests::objects::Objects;
use jiff::SignedDuration;

use crate::support::{A, CLIENT, accepted, all_nodes, commands, names, remove_node, status};

fn router(lab: &Lab, part: RouterPart, fault: Option<RouterFault>) {
    lab.simulator.with(|simulator| match fault {
        Some(fault) => simulator.fault_router(part, fault),
        None => simulator.heal_router(part),
    });
}

/// Syncs a few times, as time passes, whatever comes of it.
fn sync_again_and_again(lab: &mut Lab, key: &ServiceKey) {
    for _ in 0..4 {
        let _ = lab.reconcile(key);
        lab.runtime.pass(300);
    }
}

/// Served at its published address by all nodes, with nothing beside it.
fn assert_served(lab: &Lab, key: &ServiceKey, before: &Objects) {
    let published = status(lab, key).remove(0);
    let ip = published.split(' ').next().expect("an address");
    assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes());
    let objects = lab.objects();
    assert_eq!(objects.rules().len(), 1);
    assert_eq!(objects.firewall_rules().len(), 1);
    assert_eq!(objects.addresses().len(), before.addresses().len() + 1);
}

#[test]
fn c095_what_is_on_its_way_out_is_not_taken_for_good() {
    for (fault, deleted) in [
        (RouterFault::Fail, false),
        (RouterFault::Fail, true),
        (RouterFault::Throw, false),
        (RouterFault::Throw, true),
    ] {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        router(&lab, RouterPart::LoadBalancer, Some(fault));
        let (_, outcome) = lab.reconcile(&web);
        assert_eq!(outcome.failed.len(), 1, "the assign: {outcome:?}");
        let (rule, address) = (lab.objects().rule(80).id(), lab.objects().address(A).id());
        router(&lab, RouterPart::Address, Some(fault));
        lab.by_hand("disassociateIpAddress", &[("id", &address)]);
        assert_eq!(lab.objects().rule(80).text("state"), "Deleting");
        let hidden = [("id", address.as_str()), ("state", "Releasing")];
        assert_eq!(lab.by_hand("listPublicIpAddresses", &hidden)["count"], 1);
        if deleted {
            lab.delete(&web);
        }
        let calls = lab.changing_calls().len();
        for _ in 0..4 {
            let (planned, _) = lab.plan(&web);
            for step in &planned.plan.steps {
                let uses = match &step.action {
                    Action::UpdateLoadBalancerRule(update) => update.rule.as_str() == rule,
                    Action::AssignToLoadBalancerRule(assign) => assign.rule.to_string() == rule,
                    Action::CreateLoadBalancerRule(create) => create.address.to_string() == address,
                    _ => false,
                };
                assert!(!uses, "{}", lab.print(&web));
            }
            assert!(commands(&planned).contains(&"disassociateIpAddress"), "{}", lab.print(&web));
            let _ = lab.execute(&planned);
            assert_eq!(status(&lab, &web), [""; 0]);
            lab.runtime.pass(600);
        }
        let again = &lab.changing_calls()[calls..];
        // The old address goes only after the Service is served on another one.
        let next = if deleted { "deleteLoadBalancerRule" } else { "assignToLoadBalancerRule" };
        let tries = again.iter().filter(|command| **command == next).count();
        assert!(tries >= 4, "{next} is tried again: {again:?}");
        router(&lab, RouterPart::LoadBalancer, None);
        router(&lab, RouterPart::Address, None);
        lab.recover(&web);
        if deleted {
            assert_eq!(lab.service(&web), None);
            assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        } else {
            assert_served(&lab, &web, &before);
        }
    }
}

#[test]
fn c095_a_firewall_rule_stuck_in_deleting_is_deleted_again() {
    for deleted in [false, true] {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        let opening = lab.objects().firewall_rules()[0].id();
        router(&lab, RouterPart::Firewall, Some(RouterFault::Fail));
        lab.by_hand("deleteFirewallRule", &[("id", &opening)]);
        assert_eq!(lab.objects().firewall_rules()[0].text("state"), "Deleting");
        if deleted {
            lab.delete(&web);
        }
        sync_again_and_again(&mut lab, &web);
        assert!(lab.service(&web).is_some());
        router(&lab, RouterPart::Firewall, None);
        lab.recover(&web);
        if deleted {
            assert_eq!(lab.service(&web), None);
            assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        } else {
            assert_eq!(lab.objects().openings(), ["80 0.0.0.0/0"]);
            assert_served(&lab, &web, &before);
        }
    }
}

/// From now on the management server dies in the middle of one job of a command and
/// comes up again.
fn dies_during(lab: &Lab, command: &'static str) {
    let slow = FaultKind::Job(JobFault::Slow(SignedDuration::from_mins(5)));
    lab.simulator.with(|simulator| simulator.inject(Fault::on(command, slow).times(1)));
    let mut polls = None;
    lab.simulator.interrupt(move |simulator, sent| {
        if sent == command && polls.is_none() {
            polls = Some(0);
        } else if let Some(polls) = &mut polls
            && sent == "queryAsyncJobResult"
        {
            *polls += 1;
            if *polls == 3 {
                simulator.kill();
                simulator.restart();
            }
        }
    });
}

/// Syncs once while the server dies during a job of the command, then until all is well.
fn survive(lab: &mut Lab, web: &ServiceKey, command: &'static str) -> Vec<&'static str> {
    dies_during(lab, command);
    let (_, outcome) = lab.reconcile(web);
    assert!(!outcome.is_success(), "{command}");
    let after = lab.changing_calls().len();
    lab.recover(web);
    let (planned, _) = lab.plan_in(&lab.read_at(Depth::Thorough), web);
    assert!(planned.plan.is_empty(), "{command}: {}", lab.print(web));
    lab.changing_calls()[after..].to_vec()
}

#[test]
fn c101_after_a_killed_assign_the_rule_gets_one_update_and_no_second_assign() {
    for (release, updates) in [("4.21.0.0", 2), ("4.22.0.0", 1), ("4.23.0.0", 1)] {
        let mut lab = Setup::standard().release(release).start();
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        let after = survive(&mut lab, &web, "assignToLoadBalancerRule");
        assert_eq!(accepted(&lab, "assignToLoadBalancerRule"), 1, "{release}");
        let pushes = after.iter().filter(|command| **command == "updateLoadBalancerRule").count();
        assert_eq!(pushes, updates, "{release}");
        assert_eq!(lab.objects().rule(80).text("algorithm"), "roundrobin");
        assert_served(&lab, &web, &before);
    }
}

#[test]
fn c101_a_killed_remove_is_made_again() {
    for release in ["4.21.0.0", "4.22.0.0", "4.23.0.0"] {
        let mut lab = Setup::standard().release(release).start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        remove_node(&lab, "node-3");
        let after = survive(&mut lab, &web, "removeFromLoadBalancerRule");
        assert!(after.contains(&"removeFromLoadBalancerRule"), "{release}: {after:?}");
        assert_eq!(lab.objects().rule(80).text("state"), "Active");
        assert_eq!(lab.reach(CLIENT, A, 80), names(["node-1", "node-2"]), "{release}");
    }
}

#[test]
fn c101_a_killed_update_is_made_again() {
    for release in ["4.21.0.0", "4.22.0.0", "4.23.0.0"] {
        let mut lab = Setup::standard().release(release).start();
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        lab.edit(&web, |raw| raw.session_affinity = Some("ClientIP".to_owned()));
        let after = survive(&mut lab, &web, "updateLoadBalancerRule");
        assert!(after.contains(&"updateLoadBalancerRule"), "{release}: {after:?}");
        let field = |name| lab.objects().rule(80).text(name);
        assert_eq!(["algorithm", "state"].map(field), ["source", "Active"], "{release}");
        assert_served(&lab, &web, &before);
    }
}

#[test]
fn c101_a_killed_delete_is_made_again() {
    let mut lab = Setup::standard().start();
    let before = lab.objects();
    let web = lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
    lab.settle(&web);
    lab.edit(&web, |raw| _ = raw.ports.pop());
    let after = survive(&mut lab, &web, "deleteLoadBalancerRule");
    assert_eq!(after, ["deleteLoadBalancerRule"]);
    assert_served(&lab, &web, &before);

    lab.delete(&web);
    survive_deletion(&mut lab, &web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

fn survive_deletion(lab: &mut Lab, web: &ServiceKey) {
    dies_during(lab, "deleteLoadBalancerRule");
    let (_, outcome) = lab.reconcile(web);
    assert!(!outcome.is_success());
    lab.recover(web);
    assert_eq!(lab.service(web), None);
}

#[test]
fn c101_the_address_of_a_killed_associate_is_released() {
    for dies_too in [false, true] {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        dies_during(&lab, "associateIpAddress");
        let (_, outcome) = lab.reconcile(&web);
        assert_eq!(outcome.failed.len(), 1, "{outcome:?}");
        if dies_too {
            lab.restart();
        }
        lab.recover(&web);
        assert_served(&lab, &web, &before);
        assert_eq!(accepted(&lab, "associateIpAddress"), 2);
        assert_eq!(accepted(&lab, "disassociateIpAddress"), 1);
        lab.delete(&web);
        lab.recover(&web);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
}
