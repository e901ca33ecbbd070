//! Cases 5 and 14: openings in the firewall of an address.

use std::collections::BTreeSet;

use ccm_core::ids::ServiceKey;
use ccm_core::plan::reason::Disruption;
use ccm_core::plan::report::Severity;
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup};
use ccm_tests::trouble::Trouble;

use crate::support::{
    A, CLIENT, USERS, all_nodes, allocated, annotate, assert_nothing_planned, calls_of, codes,
    commands, left_by_go, node, opening, param, prefix, remove_node, report_of_nothing, says,
    served_by_go, set_node, severity, status,
};

const ONE: &str = "198.51.100.1/32";
const TWO: &str = "198.51.100.2/32";
const THREE: &str = "198.51.100.3/32";

fn ranges(lab: &Lab, web: &ServiceKey, wanted: &[&str]) {
    lab.edit(web, |raw| raw.source_ranges = wanted.iter().map(|w| (*w).to_owned()).collect());
}

fn ranged(wanted: &[&str]) -> (Lab, ServiceKey) {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |raw| {
        raw.source_ranges = wanted.iter().map(|w| (*w).to_owned()).collect();
    });
    lab.settle(&web);
    (lab, web)
}

/// Which of some probes get in.
fn let_in(lab: &Lab, address: &str) -> BTreeSet<&'static str> {
    let probes = ["198.51.100.1", "198.51.100.2", "198.51.100.3", "192.0.2.99"];
    probes.into_iter().filter(|probe| !lab.reach(probe, address, 80).is_empty()).collect()
}

/// Carries out a change step by step, as often as it can be stopped. At every step at most what
/// was or will be let in comes in, and what `never_cut` names always does.
fn change_step_by_step(new: impl Fn() -> (Lab, ServiceKey), address: &str, never_cut: &[&str]) {
    let (mut lab, web) = new();
    let length = lab.plan(&web).0.plan.steps.len();
    let old = let_in(&lab, address);
    let rule = lab.objects().rule(80).clone();
    lab.settle(&web);
    let wanted = let_in(&lab, address);
    assert_eq!(lab.objects().rule(80), &rule, "the rule is not touched");
    for died_after in 0..=length {
        let (mut lab, web) = new();
        for _ in 0..died_after {
            let step = prefix(&lab.plan(&web).0, 1);
            assert!(lab.execute(&step).is_success());
            let now = let_in(&lab, address);
            assert!(now.iter().all(|probe| old.contains(probe) || wanted.contains(probe)));
            assert!(never_cut.iter().all(|probe| now.contains(probe)), "{now:?}");
        }
        lab.restart();
        lab.settle(&web);
        assert_eq!(let_in(&lab, address), wanted);
    }
}

#[test]
fn c051_a_source_range_is_added_removed_cleared() {
    let add = || {
        let (lab, web) = ranged(&[ONE]);
        ranges(&lab, &web, &[ONE, TWO]);
        (lab, web)
    };
    assert_eq!(commands(&add().0.plan(&add().1).0), ["createFirewallRule"]);
    change_step_by_step(add, A, &["198.51.100.1"]);

    let (mut lab, web) = add();
    lab.settle(&web);
    assert_eq!(lab.objects().openings(), [format!("80 {ONE}"), format!("80 {TWO}")]);
    ranges(&lab, &web, &[TWO, ONE]);
    assert_nothing_planned(&lab, &web);

    change_step_by_step(
        || {
            let (mut lab, web) = add();
            lab.settle(&web);
            ranges(&lab, &web, &[TWO]);
            (lab, web)
        },
        A,
        &["198.51.100.2"],
    );
    let clear = || {
        let (lab, web) = ranged(&[TWO]);
        ranges(&lab, &web, &[]);
        (lab, web)
    };
    change_step_by_step(clear, A, &["198.51.100.2"]);
    let (mut lab, web) = clear();
    lab.settle(&web);
    assert_eq!(lab.objects().openings(), ["80 0.0.0.0/0"]);
    // And back.
    change_step_by_step(
        || {
            let (lab, web) = ranged(&[]);
            ranges(&lab, &web, &[TWO, ONE]);
            (lab, web)
        },
        A,
        &["198.51.100.1", "198.51.100.2"],
    );
}

#[test]
fn c053_the_opening_is_always_explicit() {
    let new = || {
        let lab = Setup::standard().start();
        let web = lab.create("web", |raw| raw.source_ranges = vec!["198.51.100.0/24".to_owned()]);
        (lab, web)
    };
    let (lab, web) = new();
    let length = lab.plan(&web).0.plan.steps.len();
    for died_after in 0..=length {
        let (mut lab, web) = new();
        assert!(lab.execute(&prefix(&lab.plan(&web).0, died_after)).is_success());
        assert!(lab.reach("192.0.2.99", A, 80).is_empty());
    }
    let (mut lab, web) = new();
    lab.troubles.meet_command(3, Trouble::Fails(530), "createFirewallRule");
    for _ in 0..3 {
        let (_, outcome) = lab.reconcile(&web);
        assert!(!outcome.is_success());
        assert!(lab.reach(CLIENT, A, 80).is_empty());
        assert!(status(&lab, &web).is_empty());
    }
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    assert!(lab.reach("192.0.2.99", A, 80).is_empty());
    for call in calls_of(&lab, "createLoadBalancerRule") {
        assert_eq!(param(&call, "openfirewall"), Some("false"));
    }
}

#[test]
fn c105_the_port_is_already_open() {
    let wide = world::FirewallRule {
        start_port: Some(1),
        end_port: Some(65535),
        ..opening(USERS, 1, &["0.0.0.0/0"])
    };
    let narrow = opening(USERS, 80, &["198.51.100.0/24"]);
    for (theirs, wanted, made) in [
        (wide, vec![], vec![]),
        (narrow, vec!["198.51.100.0/24", "192.0.2.0/24"], vec!["80 192.0.2.0/24"]),
    ] {
        let mut setup = Setup::standard();
        setup.world.firewall_rules.push(theirs);
        let mut lab = setup.start();
        let before = lab.objects();
        let web = lab.create("web", |raw| {
            raw.load_balancer_ip = Some(USERS.to_owned());
            raw.source_ranges = wanted.iter().map(|w| (*w).to_owned()).collect();
        });
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, USERS, 80), all_nodes());
        assert_eq!(lab.reach("192.0.2.99", USERS, 80), all_nodes());
        assert_eq!(status(&lab, &web), [format!("{USERS} VIP")]);
        let planned = report_of_nothing(&lab, &web);
        assert_eq!(codes(&planned), ["OpenedByOthers"]);
        assert_eq!(severity(&planned, "OpenedByOthers"), Severity::LeftAlone);
        let id = before.firewall_rules()[0].id();
        assert!(says(&planned, "OpenedByOthers").contains(&id));
        let ours: Vec<_> = lab.objects().only(|object| object.id() != id).openings();
        assert_eq!(ours, made);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
}

/// Nothing wider is opened before somebody answers, so nothing is closed for its sake either.
#[test]
fn ranges_that_widen_while_there_is_no_node_close_nothing() {
    let (mut lab, web) = ranged(&[ONE]);
    for name in ["node-1", "node-2", "node-3"] {
        remove_node(&lab, name);
    }
    lab.settle(&web);
    ranges(&lab, &web, &["0.0.0.0/0"]);
    let (planned, _) = lab.plan(&web);
    assert_eq!(commands(&planned), [""; 0]);
    lab.settle(&web);
    assert_nothing_planned(&lab, &web);
    set_node(&lab, node("node-4", "10.1.1.14"));
    let (planned, _) = lab.reconcile(&web);
    let expected = ["assignToLoadBalancerRule", "createFirewallRule", "deleteFirewallRule"];
    assert_eq!(commands(&planned), expected);
    lab.settle(&web);
    assert_eq!(let_in(&lab, A).len(), 4, "everybody");
}

#[test]
fn c106_a_b_becomes_b_c() {
    let own = || {
        let (lab, web) = ranged(&[ONE, TWO]);
        ranges(&lab, &web, &[TWO, THREE]);
        (lab, web)
    };
    let (lab, web) = own();
    assert_eq!(commands(&lab.plan(&web).0), ["deleteFirewallRule", "createFirewallRule"]);
    change_step_by_step(own, A, &["198.51.100.2"]);

    let adopted = || {
        let mut setup = left_by_go(Setup::standard(), "web", allocated("203.0.113.60"));
        setup.world.firewall_rules = vec![opening("203.0.113.60", 80, &[ONE, TWO])];
        let mut lab = setup.start();
        let web = lab.create("web", |raw| {
            served_by_go(raw, "203.0.113.60");
            raw.source_ranges = vec![ONE.to_owned(), TWO.to_owned()];
        });
        lab.settle(&web);
        assert_eq!(lab.changing_calls(), Vec::<&str>::new());
        ranges(&lab, &web, &[TWO, THREE]);
        (lab, web)
    };
    let (lab, web) = adopted();
    let (planned, _) = lab.plan(&web);
    let expected = ["deleteFirewallRule", "createFirewallRule", "createFirewallRule"];
    assert_eq!(commands(&planned), expected);
    let delete = planned.plan.steps.iter().find(|s| s.action.command() == "deleteFirewallRule");
    assert_eq!(delete.map(|step| step.disruption), Some(Disruption::Cut));
    change_step_by_step(adopted, "203.0.113.60", &[]);
}

#[test]
fn c106_in_the_same_roll_out_as_the_adoption() {
    let new = || {
        let mut setup = left_by_go(Setup::standard(), "web", allocated("203.0.113.60"));
        setup.world.firewall_rules = vec![opening("203.0.113.60", 80, &[ONE, TWO])];
        let lab = setup.start();
        let web = lab.create("web", |raw| {
            served_by_go(raw, "203.0.113.60");
            raw.source_ranges = vec![TWO.to_owned(), THREE.to_owned()];
        });
        (lab, web)
    };
    change_step_by_step(new, "203.0.113.60", &[]);
    let (mut lab, web) = new();
    lab.settle(&web);
    assert_eq!(let_in(&lab, "203.0.113.60"), ["198.51.100.2", "198.51.100.3"].into());
}

#[test]
fn ranges_change_on_a_users_address_step_by_step() {
    let new = || {
        let mut setup = Setup::standard();
        setup.world.firewall_rules.push(opening(USERS, 22, &["0.0.0.0/0"]));
        let mut lab = setup.start();
        let web = lab.create("web", |raw| {
            raw.load_balancer_ip = Some(USERS.to_owned());
            raw.source_ranges = vec![ONE.to_owned(), TWO.to_owned()];
        });
        lab.settle(&web);
        ranges(&lab, &web, &[TWO, THREE]);
        (lab, web)
    };
    change_step_by_step(new, USERS, &["198.51.100.2"]);
    let (mut lab, web) = new();
    lab.settle(&web);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().openings(), ["22 0.0.0.0/0"]);
}

#[test]
fn both_layers_change_at_once_and_nobody_else_slips_in() {
    for release in ["4.22.0.0", "4.21.0.0"] {
        let new = || {
            let mut lab = Setup::standard().release(release).start();
            let web = lab.create("web", |raw| {
                raw.source_ranges = vec!["198.51.100.0/24".to_owned()];
                annotate(raw, "source-cidrs", "198.51.100.1/32");
            });
            lab.settle(&web);
            lab.edit(&web, |raw| {
                raw.source_ranges = vec!["192.0.2.0/24".to_owned(), "198.51.100.2/32".to_owned()];
                annotate(raw, "source-cidrs", "192.0.2.0/25,198.51.100.2/32,198.51.100.3/32");
            });
            (lab, web)
        };
        let (mut lab, web) = new();
        let length = lab.plan(&web).0.plan.steps.len();
        let old = let_in(&lab, A);
        lab.settle(&web);
        let wanted = let_in(&lab, A);
        assert_eq!(wanted, ["192.0.2.99", "198.51.100.2"].into());
        for stop in 0..length {
            let (mut lab, web) = new();
            assert!(lab.execute(&prefix(&lab.plan(&web).0, stop)).is_success());
            let now = let_in(&lab, A);
            assert!(now.iter().all(|p| old.contains(p) || wanted.contains(p)), "{now:?}");
            lab.settle(&web);
            assert_eq!(let_in(&lab, A), wanted);
        }
    }
}
