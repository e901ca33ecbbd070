//! Cases 10: the ACL items that the Go controller left, one for each port of a whole tier.

use ccm_core::ids::ServiceKey;
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup, port};

use crate::adoption::tier_left_by_go;
use crate::support::{
    allocated, annotate, annotated, assert_nothing_planned, codes, left_by_go, load_balancer_name,
    prefix, report_of_nothing, rule, served_by_go, unset,
};

/// The list of the tier.
const LIST: &str = "00000000-0000-4000-8000-0000000000d1";
/// Of `web`, in the tier.
const WEBS: &str = "203.0.113.60";

fn adopted_web() -> (Lab, ServiceKey) {
    let mut lab = tier_left_by_go(false);
    let web = lab.create("web", |raw| served_by_go(raw, WEBS));
    lab.settle(&web);
    (lab, web)
}

/// `api` beside it, which the Go controller served through the same item.
fn web_and_api() -> (Lab, [ServiceKey; 2]) {
    let mut setup = Setup::standard().nodes(&["tier1-1", "tier1-2"]);
    for (name, ip) in [("web", WEBS), ("api", "203.0.113.61")] {
        setup.world.addresses.push(world::Address {
            network: Some("tier-1".to_owned()),
            vpc: Some("vpc-1".to_owned()),
            ..allocated(ip)
        });
        setup.world.rules.push(world::Rule {
            private_port: 30080,
            members: ["tier1-1", "tier1-2"].map(str::to_owned).to_vec(),
            ..rule(&format!("{}-tcp-80", load_balancer_name(name)), ip, 80)
        });
    }
    let lab = setup.start();
    open_by_hand(&lab, "80");
    let web = lab.create("web", |raw| served_by_go(raw, WEBS));
    let api = lab.create("api", |raw| served_by_go(raw, "203.0.113.61"));
    (lab, [web, api])
}

/// An item without a reason, as the Go controller makes them, and as people do.
fn open_by_hand(lab: &Lab, port: &str) {
    let ports = [("protocol", "tcp"), ("startport", port), ("endport", port)];
    let into = [("aclid", LIST), ("cidrlist", "0.0.0.0/0"), ("traffictype", "Ingress")];
    lab.by_hand("createNetworkACL", &[&ports[..], &into].concat());
}

fn items(lab: &Lab) -> Vec<String> {
    lab.objects().acl_items().iter().map(|item| item.text("startport")).collect()
}

#[test]
fn an_adopted_item_is_recorded_until_it_is_gone() {
    for died_after in 0..12 {
        let (mut lab, web) = adopted_web();
        lab.edit(&web, |raw| {
            raw.load_balancer_ip = Some("203.0.113.30".to_owned());
            raw.ports = vec![port("https", "TCP", 443, 30443)];
        });
        let planned = prefix(&lab.plan(&web).0, died_after);
        assert!(lab.execute(&planned).is_success());
        lab.restart();
        lab.recover(&web);
        assert_eq!(items(&lab), ["443"], "died after {died_after}");
        lab.delete(&web);
        lab.recover(&web);
        assert!(items(&lab).is_empty(), "died after {died_after}");
    }
}

#[test]
fn of_two_that_share_an_item_whoever_goes_last_deletes_it() {
    for (first, adopts_before) in [(0, true), (0, false), (1, true), (1, false)] {
        let (mut lab, keys) = web_and_api();
        for key in keys.iter().filter(|_| adopts_before) {
            lab.settle(key);
        }
        lab.delete(&keys[first]);
        lab.settle(&keys[first]);
        assert_eq!(items(&lab), ["80"]);
        lab.delete(&keys[1 - first]);
        lab.settle(&keys[1 - first]);
        assert!(items(&lab).is_empty());
    }
}

#[test]
fn of_two_that_leave_the_port_of_an_item_the_last_one_deletes_it() {
    for first in [0, 1] {
        let (mut lab, keys) = web_and_api();
        for key in [&keys[first], &keys[1 - first]] {
            lab.settle(key);
        }
        for key in [&keys[first], &keys[1 - first]] {
            lab.edit(key, |raw| raw.ports = vec![port("https", "TCP", 443, 30443)]);
            lab.settle(key);
        }
        for key in &keys {
            lab.settle(key);
        }
        assert_eq!(items(&lab), ["443", "443"]);
        for key in &keys {
            assert!(codes(&report_of_nothing(&lab, key)).is_empty());
        }
    }
}

#[test]
fn an_item_that_somebodys_rule_needs_goes_after_that_rule() {
    let mut lab = tier_left_by_go(true);
    let web = lab.create("web", |raw| served_by_go(raw, WEBS));
    lab.settle(&web);
    lab.edit(&web, |raw| raw.ports = vec![port("https", "TCP", 443, 30443)]);
    lab.settle(&web);
    assert_eq!(codes(&report_of_nothing(&lab, &web)), ["AclItemKept"]);
    let theirs = lab.objects().rule(80).id();
    lab.by_hand("deleteLoadBalancerRule", &[("id", &theirs)]);
    lab.settle(&web);
    assert_eq!(items(&lab), ["443"]);
    assert!(codes(&report_of_nothing(&lab, &web)).is_empty());
}

#[test]
fn an_item_for_a_port_that_the_go_controller_did_not_serve_is_not_adopted() {
    let mut lab = tier_left_by_go(false);
    open_by_hand(&lab, "443");
    let web = lab.create("web", |raw| {
        served_by_go(raw, WEBS);
        raw.ports.push(port("https", "TCP", 443, 30443));
    });
    lab.settle(&web);
    let mut open = items(&lab);
    open.sort();
    assert_eq!(open, ["443", "443", "80"], "an own one for 443 beside somebody's");
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(items(&lab), ["443"], "somebody's");
}

#[test]
fn items_go_with_a_service_that_lost_its_address() {
    for adopted in [true, false] {
        let mut lab = tier_left_by_go(false);
        let web = lab.create("web", |raw| {
            if adopted {
                served_by_go(raw, WEBS);
            }
        });
        lab.settle(&web);
        let ip = lab.service(&web).expect("it is there").ingress[0].ip.clone().expect("an address");
        let address = lab.objects().address(&ip).id();
        lab.by_hand("disassociateIpAddress", &[("id", &address)]);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(items(&lab).len(), usize::from(!adopted), "adopted: {adopted}");
    }
}

#[test]
fn a_refused_service_that_takes_an_address_over_goes_on_holding_what_it_adopts() {
    let mut lab = left_by_go(Setup::standard(), "web", allocated(WEBS)).start();
    let other = lab.create("other", |raw| raw.load_balancer_ip = Some("203.0.113.30".to_owned()));
    lab.settle(&other);
    let web = lab.create("web", |raw| {
        served_by_go(raw, WEBS);
        raw.load_balancer_ip = Some("203.0.113.30".to_owned());
        annotate(raw, "ip-associated-by-controller", "true");
        annotate(raw, "proxy-protocol", "perhaps");
    });
    lab.delete(&other);
    for key in [&web, &other] {
        lab.recover(key);
    }
    let record = annotated(&lab, &web, "record").expect("a record");
    assert_eq!(record.matches("\"ours\":true").count(), 2, "{record}");
    lab.edit(&web, |raw| unset(raw, "proxy-protocol"));
    lab.recover(&web);
    assert_nothing_planned(&lab, &web);
    assert!(!lab.objects().addresses().contains(&WEBS.to_owned()));
    lab.delete(&web);
    lab.recover(&web);
    let objects = lab.objects();
    assert_eq!(objects.addresses(), Setup::standard().start().objects().addresses());
    assert!(objects.rules().is_empty() && objects.firewall_rules().is_empty());
}
