//! Cases 10: somebody renames a rule that was adopted. Nothing but the record proves it ours then.

use ccm_core::ids::ServiceKey;
use ccm_tests::lab::{Lab, Setup};

use crate::support::{
    allocated, annotate, annotated, codes, left_by_go, prefix, remove_node, report_of_nothing,
    served_by_go,
};

const AT: &str = "203.0.113.60";

fn adopted() -> (Lab, ServiceKey) {
    let mut lab = left_by_go(Setup::standard(), "web", allocated(AT)).start();
    let web = lab.create("web", |raw| served_by_go(raw, AT));
    lab.settle(&web);
    (lab, web)
}

fn rename(lab: &Lab) {
    let id = lab.objects().rule(80).id();
    let params = [("id", id.as_str()), ("name", "the shop"), ("protocol", "tcp")];
    lab.by_hand("updateLoadBalancerRule", &params);
}

fn assert_nothing_left(lab: &Lab) {
    let objects = lab.objects();
    assert!(objects.rules().is_empty() && objects.firewall_rules().is_empty());
    assert_eq!(objects.addresses(), Setup::standard().start().objects().addresses());
}

#[test]
fn a_renamed_rule_goes_on_being_served() {
    let (mut lab, web) = adopted();
    rename(&lab);
    assert!(codes(&report_of_nothing(&lab, &web)).is_empty());
    lab.restart();
    remove_node(&lab, "node-3");
    lab.settle(&web);
    assert_eq!(lab.objects().rule(80).members, ["node-1", "node-2"]);
    lab.delete(&web);
    lab.settle(&web);
    assert_nothing_left(&lab);
}

#[test]
fn a_rule_that_is_renamed_half_way_through_a_change_stays_ours() {
    for died_after in 0..4 {
        let (mut lab, web) = adopted();
        remove_node(&lab, "node-3");
        lab.edit(&web, |raw| raw.session_affinity = Some("ClientIP".to_owned()));
        let planned = prefix(&lab.plan(&web).0, died_after);
        assert!(lab.execute(&planned).is_success());
        rename(&lab);
        lab.restart();
        lab.recover(&web);
        let objects = lab.objects();
        assert_eq!(objects.rule(80).members, ["node-1", "node-2"], "died after {died_after}");
        assert_eq!(objects.rule(80).text("algorithm"), "source", "died after {died_after}");
        lab.delete(&web);
        lab.recover(&web);
        assert_nothing_left(&lab);
    }
}

#[test]
fn a_renamed_rule_on_an_address_that_is_left_goes_with_it() {
    let (all, _) = adopted_that_moves();
    let steps = all.plan(&ServiceKey::new("shop", "web")).0.plan.steps.len();
    for died_after in 0..steps {
        let (mut lab, web) = adopted_that_moves();
        let planned = prefix(&lab.plan(&web).0, died_after);
        assert!(lab.execute(&planned).is_success());
        lab.restart();
        lab.recover(&web);
        assert_eq!(lab.objects().rules().len(), 1, "died after {died_after}");
        lab.delete(&web);
        lab.recover(&web);
        assert_nothing_left(&lab);
    }
}

/// Its rule was renamed, and now it asks for another address.
fn adopted_that_moves() -> (Lab, ServiceKey) {
    let (lab, web) = adopted();
    rename(&lab);
    lab.edit(&web, |raw| raw.load_balancer_ip = Some("203.0.113.30".to_owned()));
    (lab, web)
}

#[test]
fn somebodys_rule_on_a_port_of_ours_does_not_become_ours() {
    let (mut lab, web) = adopted();
    let objects = lab.objects();
    let (ours, address) = (objects.rule(80).id(), objects.address(AT).id());
    lab.by_hand("deleteLoadBalancerRule", &[("id", &ours)]);
    let theirs = [
        ("publicipid", address.as_str()),
        ("name", "the shop"),
        ("algorithm", "roundrobin"),
        ("publicport", "80"),
        ("privateport", "30080"),
        ("protocol", "tcp"),
        ("openfirewall", "false"),
    ];
    lab.by_hand("createLoadBalancerRule", &theirs);
    let theirs = lab.objects().rule(80).clone();
    assert!(codes(&lab.plan(&web).0).contains(&"PortTaken"));
    lab.recover(&web);
    assert_eq!(lab.objects().rule(80), &theirs);
    lab.delete(&web);
    lab.recover(&web);
    assert_eq!(lab.objects().rule(80), &theirs);
    assert!(lab.objects().addresses().contains(&AT.to_owned()), "it serves their rule");
}

#[test]
fn the_record_of_another_service_proves_nothing() {
    let (mut lab, web) = adopted();
    rename(&lab);
    let record = annotated(&lab, &web, "record").expect("a record");
    lab.edit(&web, |raw| raw.finalizers.clear());
    lab.delete(&web);
    let theirs = lab.objects();
    // It is made again from a copy of its manifest.
    let copy = lab.create("copy", |raw| {
        served_by_go(raw, AT);
        annotate(raw, "record", &record);
    });
    assert!(codes(&lab.plan(&copy).0).contains(&"RecordOfAnotherService"));
    lab.settle(&copy);
    assert_eq!(lab.objects().rules().len(), 2);
    lab.delete(&copy);
    lab.settle(&copy);
    assert_eq!(lab.objects().changes_since(&theirs), Vec::<String>::new());
}
