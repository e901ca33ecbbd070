//! Cases 6: VPC tiers and their ACL lists.

use ccm_core::ids::ServiceKey;
use ccm_core::observe::Listing;
use ccm_core::plan::report::Severity;
use ccm_simulator::world::{self, AclAction, AclItem, TrafficType, VpcServices};
use ccm_tests::lab::{Lab, Setup, port};
use ccm_tests::objects::Objects;

use crate::support::{
    CLIENT, accepted, all_nodes, allocated, assert_nothing_planned, calls_of, codes, commands,
    names, param, report_of_nothing, says, severity, status,
};

/// Bound to `tier-2`.
const IN_TIER_2: &str = "203.0.113.60";

fn address_of(lab: &Lab, key: &ServiceKey) -> String {
    let published = status(lab, key).remove(0);
    published.split(' ').next().expect("an address").to_owned()
}

fn two_tiers() -> Setup {
    let mut setup = Setup::standard().nodes(&["tier1-1", "tier1-2", "tier2-1"]);
    setup.world.vpcs[0].acl_lists[0].items.push(AclItem {
        number: Some(5),
        protocol: "tcp".to_owned(),
        start_port: Some(443),
        end_port: None,
        cidrs: vec!["198.51.100.0/24".to_owned()],
        traffic: TrafficType::Ingress,
        action: AclAction::Allow,
        reason: Some("ops".to_owned()),
        id: None,
    });
    setup.world.addresses.push(world::Address {
        network: Some("tier-2".to_owned()),
        vpc: Some("vpc-1".to_owned()),
        ..allocated(IN_TIER_2)
    });
    setup
}

/// Port 443 in tier-1 and in tier-2, whose list is the same.
fn two_services() -> (Lab, ServiceKey, ServiceKey) {
    let mut lab = two_tiers().start();
    lab.simulator.with(|simulator| simulator.set_acl_gates_traffic(true));
    let https = || vec![port("https", "TCP", 443, 30443)];
    let web = lab.create("web", |raw| raw.ports = https());
    let tls = lab.create("tls", |raw| {
        raw.ports = https();
        raw.load_balancer_ip = Some(IN_TIER_2.to_owned());
    });
    lab.settle(&web);
    lab.settle(&tls);
    (lab, web, tls)
}

#[test]
fn c054_deletion_takes_only_our_acl_item() {
    let before = two_tiers().start().objects();
    let (mut lab, web, tls) = two_services();
    let web_at = address_of(&lab, &web);
    assert_eq!(lab.reach("192.0.2.99", &web_at, 443), names(["tier1-1", "tier1-2"]));
    assert_eq!(lab.reach("192.0.2.99", IN_TIER_2, 443), names(["tier2-1"]));
    assert_eq!(lab.objects().acl_items().len(), 3);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.reach("192.0.2.99", IN_TIER_2, 443), names(["tier2-1"]));
    assert_eq!(lab.objects().acl_items().len(), 2);
    assert_nothing_planned(&lab, &tls);
    lab.delete(&tls);
    lab.settle(&tls);
    assert_only_the_users(&lab, &before);

    let (mut lab, web, tls) = two_services();
    lab.delete(&web);
    lab.delete(&tls);
    let plans = [&web, &tls].map(|key| lab.plan(key).0);
    for planned in &plans {
        assert!(lab.execute(planned).is_success());
    }
    assert_eq!(lab.service(&web), None);
    assert_eq!(lab.service(&tls), None);
    assert_only_the_users(&lab, &before);
}

/// Everything is as before, but that CloudStack itself took the user's address off the tier with
/// its last rule.
fn assert_only_the_users(lab: &Lab, before: &Objects) {
    let but_it = |objects: &Objects| objects.only(|o| o.text("ipaddress") != IN_TIER_2);
    assert_eq!(but_it(&lab.objects()).changes_since(&but_it(before)), Vec::<String>::new());
    assert_eq!(lab.objects().address(IN_TIER_2).id(), before.address(IN_TIER_2).id());
}

#[test]
fn c055_a_tier_has_no_firewall() {
    let mut lab = Setup::standard().nodes(&["tier1-1", "tier1-2"]).start();
    let before = lab.objects();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let at = address_of(&lab, &web);
    assert_eq!(lab.reach(CLIENT, &at, 80), names(["tier1-1", "tier1-2"]));
    let associate = calls_of(&lab, "associateIpAddress").remove(0);
    assert_eq!(param(&associate, "vpcid"), Some("00000000-0000-4000-8000-0000000000c1"));
    let create = calls_of(&lab, "createLoadBalancerRule").remove(0);
    assert_eq!(param(&create, "networkid"), Some("00000000-0000-4000-8000-0000000000b1"));
    let item = lab.objects().acl_items()[0].clone();
    assert_eq!(item.text("aclid"), "00000000-0000-4000-8000-0000000000d1");
    assert_eq!((item.text("startport"), item.text("cidrlist")), ("80".into(), "0.0.0.0/0".into()));
    lab.edit(&web, |raw| raw.ports[0].port = 8080);
    lab.settle(&web);
    assert_eq!(lab.objects().acl_items().len(), 1);
    assert_eq!(lab.reach(CLIENT, &at, 8080), names(["tier1-1", "tier1-2"]));
    lab.delete(&web);
    lab.settle(&web);
    assert!(calls_of(&lab, "createFirewallRule").is_empty());
    assert!(calls_of(&lab, "deleteFirewallRule").is_empty());
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn c055_neither_firewall_nor_acl_gets_just_the_rule() {
    let mut setup = Setup::standard();
    setup.world.networks[0].services = Some(["Lb", "SourceNat"].map(str::to_owned).to_vec());
    let mut lab = setup.start();
    let web = lab.create("web", |_| ());
    let expected = ["associateIpAddress", "createLoadBalancerRule", "assignToLoadBalancerRule"];
    assert_eq!(commands(&lab.plan(&web).0), expected);
    lab.settle(&web);
    assert_eq!(status(&lab, &web).len(), 1);
    assert_eq!(lab.objects().rule(80).members.len(), all_nodes().len());
}

#[test]
fn c055_a_vpc_with_firewall() {
    let mut setup = Setup::standard().release("4.23.0.0").nodes(&["tier1-1"]);
    setup.world.vpcs[0].services = VpcServices::WithFirewall;
    for may_list_vpcs in [true, false] {
        let mut lab = setup.clone().start();
        let before = lab.objects();
        if !may_list_vpcs {
            lab.troubles.show(|state| state.vpcs = Listing::Denied);
        }
        let web = lab.create("web", |raw| raw.source_ranges = vec!["198.51.100.0/24".to_owned()]);
        lab.settle(&web);
        let at = address_of(&lab, &web);
        assert_eq!(lab.reach(CLIENT, &at, 80), names(["tier1-1"]));
        assert!(lab.reach("192.0.2.99", &at, 80).is_empty());
        assert_eq!(lab.objects().openings(), ["80 198.51.100.0/24"]);
        assert!(lab.objects().acl_items().is_empty());
        lab.restart();
        lab.settle(&web);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
}

#[test]
fn c055_a_vpc_that_may_have_a_firewall_and_has_none() {
    let mut lab = Setup::standard().release("4.23.0.0").nodes(&["tier1-1"]).start();
    let before = lab.objects();
    lab.troubles.show(|state| state.vpcs = Listing::Denied);
    let web = lab.create("web", |_| ());
    lab.recover(&web);
    assert_eq!(calls_of(&lab, "createFirewallRule").len(), 1, "tried once");
    let at = address_of(&lab, &web);
    assert_eq!(lab.reach(CLIENT, &at, 80), names(["tier1-1"]));
    assert_eq!(lab.objects().acl_items().len(), 1);
    lab.restart();
    lab.edit(&web, |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
    lab.settle(&web);
    assert_eq!(calls_of(&lab, "createFirewallRule").len(), 1, "and remembered");
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn c056_acl_items_do_not_pile_up() {
    let mut lab = crate::project::tier_setup().start();
    let web = lab.create("web", |_| ());
    lab.recover(&web);
    let item = lab.objects().acl_items()[0].id();
    for round in 0..10 {
        lab.edit(&web, |raw| {
            raw.session_affinity = Some(["ClientIP", "None"][round % 2].to_owned());
        });
        lab.settle(&web);
        lab.restart();
    }
    let objects = lab.objects();
    assert_eq!(objects.acl_items().len(), 1);
    assert_eq!(objects.acl_items()[0].id(), item);
}

#[test]
fn c057_default_and_missing_acl_lists() {
    for (node, code) in [("allow-1", None), ("deny-1", Some("AclListDenies"))] {
        for may_list_lists in [true, false] {
            let mut lab = Setup::standard().nodes(&[node]).start();
            let before = lab.objects();
            if !may_list_lists {
                lab.troubles.show(|state| state.acl_lists = Listing::Denied);
            }
            let web = lab.create("web", |_| ());
            lab.settle(&web);
            assert_eq!(lab.objects().rule(80).members, [node]);
            assert_eq!(status(&lab, &web).len(), 1);
            let planned = report_of_nothing(&lab, &web);
            assert_eq!(codes(&planned), code.into_iter().collect::<Vec<_>>());
            if let Some(code) = code {
                assert_eq!(severity(&planned, code), Severity::Warning);
                assert!(says(&planned, code).contains("default_deny"));
            }
            lab.delete(&web);
            lab.settle(&web);
            for command in ["createNetworkACL", "deleteNetworkACL", "updateNetworkACLItem"] {
                assert!(calls_of(&lab, command).is_empty());
            }
            assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        }
    }
}

#[test]
fn c057_items_or_lists_that_may_not_be_listed() {
    let mut lab = Setup::standard().nodes(&["tier1-1"]).start();
    lab.troubles.show(|state| state.acl_items = Listing::Denied);
    let before = lab.objects();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(codes(&report_of_nothing(&lab, &web)), ["AclNotVisible"]);
    assert_eq!(lab.objects().rule(80).members, ["tier1-1"]);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(accepted(&lab, "createNetworkACL"), 0);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());

    let mut lab = Setup::standard().nodes(&["tier1-1"]).start();
    lab.troubles.show(|state| state.acl_lists = Listing::Denied);
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(lab.objects().acl_items().len(), 1);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn a_tier_without_a_list_gets_one_with_the_first_item() {
    let mut lab = Setup::standard().nodes(&["none-1"]).start();
    let web = lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
    lab.settle(&web);
    let objects = lab.objects();
    let lists: std::collections::BTreeSet<_> =
        objects.acl_items().iter().map(|item| item.text("aclid")).collect();
    assert_eq!((objects.acl_items().len(), lists.len()), (2, 1));
    lab.delete(&web);
    lab.settle(&web);
    assert!(lab.objects().acl_items().is_empty());
}

#[test]
fn an_item_that_denies_stands_behind_ours() {
    let mut setup = Setup::standard().nodes(&["tier1-1"]);
    let items = &mut setup.world.vpcs[0].acl_lists[0].items;
    items.push(AclItem {
        number: Some(10),
        protocol: "all".to_owned(),
        start_port: None,
        end_port: None,
        cidrs: vec!["0.0.0.0/0".to_owned()],
        traffic: TrafficType::Ingress,
        action: AclAction::Deny,
        reason: None,
        id: None,
    });
    let mut lab = setup.start();
    lab.simulator.with(|simulator| simulator.set_acl_gates_traffic(true));
    let before = lab.objects();
    let web = lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
    lab.settle(&web);
    let at = address_of(&lab, &web);
    for number in [80, 443] {
        assert_eq!(lab.reach(CLIENT, &at, number), names(["tier1-1"]), "{number}");
    }
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}
