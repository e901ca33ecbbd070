//! Cases 14: what a real server was seen to do.

use ccm_core::observe::{AddressState, RuleState};
use ccm_core::plan::action::Action;
use ccm_tests::lab::{Lab, Setup};

use crate::support::{A, CLIENT, accepted, all_nodes, commands, remove_node, status};

#[test]
fn c095_what_is_on_its_way_out_is_not_taken_for_good() {
    for deleted in [false, true] {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let web = lab.create("web", |_| ());
        let planned = lab.plan(&web).0;
        // As far as the rule; then its assign fails, and a release by somebody fails too.
        let made = planned.plan.steps.iter().position(|s| s.id.as_str() == "rule/tcp-80");
        assert!(lab.execute(&crate::support::prefix(&planned, made.unwrap() + 1)).is_success());
        let rule = lab.objects().rule(80).id();
        lab.troubles.show(|state| {
            for rule in &mut state.rules {
                rule.state = RuleState::Deleting;
            }
            for address in state.addresses.iter_mut().filter(|a| a.address.to_string() == A) {
                address.state = AddressState::Releasing;
            }
        });
        if deleted {
            lab.delete(&web);
        }
        let (planned, _) = lab.plan(&web);
        for step in &planned.plan.steps {
            let uses = match &step.action {
                Action::UpdateLoadBalancerRule(update) => update.rule.as_str() == rule,
                Action::AssignToLoadBalancerRule(assign) => assign.rule.to_string() == rule,
                Action::CreateLoadBalancerRule(create) => create.address.pending().is_none(),
                _ => false,
            };
            assert!(!uses, "{}", lab.print(&web));
        }
        assert!(commands(&planned).contains(&"disassociateIpAddress"), "the release is repeated");
        lab.troubles.end();
        lab.recover(&web);
        if deleted {
            assert_eq!(lab.service(&web), None);
            assert_eq!(lab.objects().addresses(), before);
            assert!(lab.objects().rules().is_empty());
        } else {
            let published = status(&lab, &web).remove(0);
            let ip = published.split(' ').next().unwrap();
            assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes());
            assert_eq!(lab.objects().addresses().len(), before.len() + 1);
        }
    }
}

#[test]
fn c095_a_rule_stuck_in_deleting_is_deleted_again() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let rule = lab.objects().rule(80).id();
    lab.troubles.show(move |state| {
        for found in state.rules.iter_mut().filter(|found| found.id.as_str() == rule) {
            found.state = RuleState::Deleting;
        }
    });
    let (planned, _) = lab.plan(&web);
    let expected = ["deleteLoadBalancerRule", "createLoadBalancerRule", "assignToLoadBalancerRule"];
    assert_eq!(commands(&planned), expected);
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    assert_eq!(lab.objects().rules().len(), 1);
}

#[test]
fn c095_a_firewall_rule_stuck_in_deleting_is_deleted_again() {
    for deleted in [false, true] {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        let opening = lab.objects().firewall_rules()[0].id();
        lab.troubles.show(move |state| {
            for found in state.firewall_rules.iter_mut().filter(|f| f.id.as_str() == opening) {
                found.state = RuleState::Deleting;
            }
        });
        if deleted {
            lab.delete(&web);
        }
        lab.settle(&web);
        if deleted {
            assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        } else {
            assert_eq!(lab.objects().openings(), ["80 0.0.0.0/0"]);
            assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
        }
    }
}

/// A rule that the server left in Add with its members mapped.
fn owing_a_push(release: &str) -> (Lab, ccm_core::ids::ServiceKey) {
    let mut lab = Setup::standard().release(release).start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.troubles.show(|state| {
        for rule in &mut state.rules {
            rule.state = RuleState::Add;
        }
    });
    (lab, web)
}

#[test]
fn c101_a_rule_in_add_with_members_gets_an_update() {
    let (lab, web) = owing_a_push("4.22.0.0");
    assert_eq!(commands(&lab.plan(&web).0), ["updateLoadBalancerRule"]);
    let (mut lab, web) = owing_a_push("4.21.0.0");
    let (planned, _) = lab.plan(&web);
    assert_eq!(commands(&planned), ["updateLoadBalancerRule", "updateLoadBalancerRule"]);
    assert!(lab.execute(&planned).is_success());
    lab.troubles.end();
    lab.settle(&web);
    assert_eq!(lab.objects().rule(80).text("algorithm"), "roundrobin");
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    assert_eq!(accepted(&lab, "assignToLoadBalancerRule"), 1);
}

#[test]
fn c101_a_remove_that_ended_without_result_is_made_again() {
    let (mut lab, web) = owing_a_push("4.22.0.0");
    remove_node(&lab, "node-3");
    let (planned, outcome) = lab.reconcile(&web);
    assert!(outcome.is_success());
    assert!(commands(&planned).contains(&"removeFromLoadBalancerRule"));
    lab.troubles.end();
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), crate::support::names(["node-1", "node-2"]));
}
