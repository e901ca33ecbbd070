//! Cases 2: another address is asked for, or none any more.

use ccm_core::plan::reason::Disruption;
use ccm_tests::lab::{Setup, port};

use super::asks_for;
use crate::support::{
    A, CLIENT, USERS, accepted, all_nodes, annotated, assert_nothing_planned, assert_refused,
    codes, commands, opening, prefix, rule, status,
};

#[test]
fn c016_a_requested_address_changes_make_before_break() {
    for users in [false, true] {
        let old = if users { USERS } else { A };
        let mut lab = Setup::standard().start();
        let web = if users { asks_for(&lab, "web", USERS) } else { lab.create("web", |_| ()) };
        lab.settle(&web);
        let new = "203.0.113.20";
        lab.edit(&web, |raw| raw.load_balancer_ip = Some(new.to_owned()));
        let (planned, _) = lab.plan(&web);
        let mut expected = vec![
            "associateIpAddress",
            "createLoadBalancerRule",
            "assignToLoadBalancerRule",
            "createFirewallRule",
            "deleteFirewallRule",
            "deleteLoadBalancerRule",
        ];
        expected.extend((!users).then_some("disassociateIpAddress"));
        assert_eq!(commands(&planned), expected);
        let classes: Vec<_> = planned.plan.steps.iter().map(|step| step.disruption).collect();
        assert!(classes.contains(&Disruption::AddressChange), "{}", lab.print(&web));
        let length = planned.plan.steps.len();
        for died_after in 0..=length {
            let mut lab = Setup::standard().start();
            let web = if users { asks_for(&lab, "web", USERS) } else { lab.create("web", |_| ()) };
            lab.settle(&web);
            lab.edit(&web, |raw| raw.load_balancer_ip = Some(new.to_owned()));
            let planned = prefix(&lab.plan(&web).0, died_after);
            assert!(lab.execute(&planned).is_success());
            let published = status(&lab, &web).remove(0);
            let (ip, _) = published.split_once(' ').unwrap();
            assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes(), "after {died_after} steps");
            lab.restart();
            lab.recover(&web);
            assert_eq!(status(&lab, &web), [format!("{new} VIP")]);
            assert_eq!(lab.reach(CLIENT, new, 80), all_nodes());
            assert!(lab.reach(CLIENT, old, 80).is_empty());
            assert_eq!(lab.objects().addresses().contains(&old.to_owned()), users);
            assert_eq!(lab.objects().rules().len(), 1);
            assert_eq!(lab.objects().openings(), ["80 0.0.0.0/0"]);
            assert_eq!(accepted(&lab, "associateIpAddress"), if users { 1 } else { 2 });
        }
    }
}

#[test]
fn c017_a_new_address_that_can_not_be_used() {
    let mut setup = Setup::standard();
    setup.world.rules.push(rule("manual", USERS, 80));
    for (address, code, word) in [
        (USERS, "PortTaken", "manual"),
        ("203.0.113.51", "AddressInOtherNetwork", "iso-2"),
        ("203.0.113.53", "AddressNotFound", "could not find IP address"),
        ("203.0.113.52", "AddressIsStaticNat", "node-4"),
    ] {
        let mut lab = setup.clone().start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        lab.edit(&web, |raw| raw.load_balancer_ip = Some(address.to_owned()));
        let text = assert_refused(&mut lab, &web, code);
        assert!(text.contains(word) && text.contains(address), "{text}");
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
        lab.edit(&web, |raw| raw.load_balancer_ip = None);
        assert_nothing_planned(&lab, &web);
    }
}

#[test]
fn c017_one_blocked_port_of_two_on_a_new_address() {
    let mut setup = Setup::standard();
    setup.world.rules.push(rule("manual", USERS, 80));
    let mut lab = setup.start();
    let web = lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
    lab.settle(&web);
    lab.edit(&web, |raw| raw.load_balancer_ip = Some(USERS.to_owned()));
    lab.recover(&web);
    let published = status(&lab, &web).remove(0);
    let (ip, _) = published.split_once(' ').unwrap();
    assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes(), "port 80 went down: {published}");
}

#[test]
fn c097_the_request_is_cleared_on_a_live_service() {
    for (address, stays) in [(USERS, true), ("203.0.113.20", false)] {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let web = asks_for(&lab, "web", address);
        lab.settle(&web);
        lab.edit(&web, |raw| raw.load_balancer_ip = None);
        assert_nothing_planned(&lab, &web);
        lab.restart();
        assert_nothing_planned(&lab, &web);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.objects().addresses(), before);
        assert_eq!(accepted(&lab, "disassociateIpAddress"), usize::from(!stays));
    }
}

/// Until it can be released, only the record leads back to it.
#[test]
fn an_old_address_that_others_use_is_recorded_until_it_can_go() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let id = lab.objects().address(A).id();
    let ssh = [("ipaddressid", &*id), ("protocol", "tcp"), ("startport", "22"), ("endport", "22")];
    let opened = lab.by_hand("createFirewallRule", &ssh);
    lab.edit(&web, |raw| raw.load_balancer_ip = Some(USERS.to_owned()));
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, USERS, 80), all_nodes());
    assert_eq!(codes(&lab.plan(&web).0), ["AddressInUse"]);
    assert!(annotated(&lab, &web, "record").is_some_and(|record| record.contains(&id)));
    let opening = opened["firewallrule"]["id"].as_str().or(opened["id"].as_str());
    lab.by_hand("deleteFirewallRule", &[("id", opening.expect("an id"))]);
    lab.settle(&web);
    assert!(!lab.objects().addresses().contains(&A.to_owned()));
}

/// What is recorded as open by us was open on the old address.
#[test]
fn an_equal_opening_of_others_on_the_new_address_is_left_alone() {
    let mut setup = Setup::standard();
    setup.world.firewall_rules.push(opening(USERS, 80, &["0.0.0.0/0"]));
    let mut lab = setup.start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let before = lab.objects().only(|object| object.text("ipaddress") == USERS);
    lab.edit(&web, |raw| {
        raw.load_balancer_ip = Some(USERS.to_owned());
        raw.source_ranges = vec!["198.51.100.0/24".to_owned()];
    });
    lab.settle(&web);
    assert!(!before.firewall_rules().is_empty());
    for rule in before.firewall_rules() {
        assert!(lab.objects().firewall_rules().iter().any(|found| found.id() == rule.id()));
    }
    lab.delete(&web);
    lab.recover(&web);
    assert_eq!(
        lab.objects().only(|object| object.text("ipaddress") == USERS).openings(),
        before.openings()
    );
}
