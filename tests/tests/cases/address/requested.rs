//! Cases 2: an address that a Service asks for, alone or with others.

use ccm_core::ids::ServiceKey;
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup, port};

use super::{asks_for, tier_setup};
use crate::support::{
    A, CLIENT, USERS, accepted, all_nodes, assert_nothing_planned, assert_refused, calls_of,
    load_balancer_name, names, nic, opening, param, rule, says, status, verdict,
};

/// `shop/web` with port 80 and `shop/tls` with port 443 on one address.
fn two_on_one_address(lab: &mut Lab, address: &str) -> (ServiceKey, ServiceKey) {
    let web = asks_for(lab, "web", address);
    let tls = lab.create("tls", |raw| {
        raw.load_balancer_ip = Some(address.to_owned());
        raw.ports = vec![port("https", "TCP", 443, 30443)];
    });
    lab.settle(&web);
    lab.settle(&tls);
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, address, 80), all_nodes());
    assert_eq!(lab.reach(CLIENT, address, 443), all_nodes());
    (web, tls)
}

#[test]
fn c013_the_last_one_out_closes_the_door() {
    for web_goes_first in [true, false] {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let (web, tls) = two_on_one_address(&mut lab, A);
        let (first, last) = if web_goes_first { (&web, &tls) } else { (&tls, &web) };
        let last_port = if web_goes_first { 443 } else { 80 };
        let kept = lab.objects().only(|object| {
            let of_last = |field: &str| object.text(field) == last_port.to_string();
            let is_address = object.list == "listPublicIpAddresses";
            of_last("publicport")
                || of_last("startport")
                || is_address && object.text("ipaddress") == A
        });
        assert_eq!(kept.iter().count(), 3);
        lab.delete(first);
        lab.settle(first);
        assert_eq!(lab.service(first), None);
        assert_eq!(lab.objects().only(|o| kept.iter().any(|k| k.id() == o.id())), kept);
        assert_nothing_planned(&lab, last);
        assert_eq!(lab.reach(CLIENT, A, last_port), all_nodes());
        lab.delete(last);
        lab.settle(last);
        assert_eq!(lab.objects().addresses(), before);
    }
}

#[test]
fn c013_two_leave_at_once() {
    for web_is_planned_first in [true, false] {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let (web, tls) = two_on_one_address(&mut lab, A);
        lab.delete(&web);
        lab.delete(&tls);
        let order = if web_is_planned_first { [&web, &tls] } else { [&tls, &web] };
        // Both plans are made from the same observation.
        let plans = order.map(|key| lab.plan(key).0);
        for planned in &plans {
            let _ = lab.execute(planned);
        }
        for key in order {
            lab.recover(key);
            assert_eq!(lab.service(key), None);
        }
        assert_eq!(lab.objects().addresses(), before);
        assert!(lab.objects().rules().is_empty());
    }
}

#[test]
fn c013_a_users_address_outlives_both() {
    let mut lab = Setup::standard().start();
    let before = lab.objects().addresses();
    let (web, tls) = two_on_one_address(&mut lab, USERS);
    for key in [&web, &tls] {
        assert_eq!(verdict(&lab, key).as_deref(), Some("false"));
    }
    for key in [&web, &tls] {
        lab.delete(key);
        lab.settle(key);
    }
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
    assert_eq!(lab.objects().addresses(), before);
    assert!(lab.objects().rules().is_empty() && lab.objects().firewall_rules().is_empty());
}

#[test]
fn c014_somebody_of_ours_has_that_port() {
    let mut lab = Setup::standard().start();
    let (web, _) = two_on_one_address(&mut lab, A);
    lab.runtime.pass(60);
    let late = asks_for(&lab, "late", A);
    let before = lab.objects();
    lab.converge(&late);
    let (planned, _) = lab.plan(&late);
    let text = says(&planned, "PortTaken");
    for word in ["shop/web", "80", A] {
        assert!(text.contains(word), "{text}");
    }
    assert!(planned.report.look_again().is_some());
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    assert!(status(&lab, &late).is_empty());
    lab.delete(&web);
    lab.settle(&web);
    lab.recover(&late);
    assert_eq!(status(&lab, &late), [format!("{A} VIP")]);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c014_the_refused_one_goes_without_touching_the_other() {
    for users in [false, true] {
        let address = if users { USERS } else { A };
        let mut lab = Setup::standard().start();
        let (web, tls) = two_on_one_address(&mut lab, address);
        lab.runtime.pass(60);
        let late = lab.create("late", |raw| {
            raw.load_balancer_ip = Some(address.to_owned());
            raw.ports.push(port("alt", "TCP", 8080, 30088));
        });
        lab.recover(&late);
        assert_eq!(lab.reach(CLIENT, address, 8080), all_nodes());
        let kept = lab.objects().only(|object| {
            object.text("publicport") != "8080" && object.text("startport") != "8080"
        });
        lab.delete(&late);
        lab.recover(&late);
        assert_eq!(lab.service(&late), None);
        assert_eq!(lab.objects().changes_since(&kept), Vec::<String>::new());
        assert_nothing_planned(&lab, &web);
        assert_nothing_planned(&lab, &tls);
    }
}

#[test]
fn c015_a_free_address_is_associated_and_released() {
    let mut lab = Setup::standard().start();
    let before = lab.objects().addresses();
    let web = asks_for(&lab, "web", "203.0.113.20");
    lab.settle(&web);
    let call = calls_of(&lab, "associateIpAddress").remove(0);
    assert_eq!(param(&call, "ipaddress"), Some("203.0.113.20"));
    assert_eq!(param(&call, "networkid"), Some("00000000-0000-4000-8000-0000000000a1"));
    assert_eq!(param(&call, "vpcid"), None);
    assert_eq!(verdict(&lab, &web).as_deref(), Some("true"));
    assert_eq!(status(&lab, &web), ["203.0.113.20 VIP"]);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().addresses(), before);

    let mut lab = tier_setup().start();
    let web = asks_for(&lab, "web", "203.0.113.20");
    lab.settle(&web);
    let call = calls_of(&lab, "associateIpAddress").remove(0);
    assert_eq!(param(&call, "vpcid"), Some("00000000-0000-4000-8000-0000000000c1"));
    assert_eq!(param(&call, "networkid"), None);
    assert_eq!(status(&lab, &web), ["203.0.113.20 VIP"]);
}

#[test]
fn c015_a_users_address_is_used_and_stays() {
    let mut lab = Setup::standard().start();
    let before = lab.objects();
    let web = asks_for(&lab, "web", USERS);
    lab.settle(&web);
    assert_eq!(verdict(&lab, &web).as_deref(), Some("false"));
    assert_eq!(lab.reach(CLIENT, USERS, 80), all_nodes());
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(accepted(&lab, "associateIpAddress"), 0);
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn c015_a_foreign_rule_on_the_port_refuses() {
    let mut setup = Setup::standard();
    setup.world.rules.push(rule("manual", USERS, 80));
    let mut lab = setup.start();
    let web = asks_for(&lab, "web", USERS);
    let id = lab.objects().rule(80).id();
    let text = assert_refused(&mut lab, &web, "PortTaken");
    assert!(text.contains("\"manual\"") && text.contains(&id), "{text}");
}

#[test]
fn c015_addresses_that_can_not_serve_are_refused() {
    for (address, code, words) in [
        ("203.0.113.51", "AddressInOtherNetwork", "iso-2"),
        ("203.0.113.53", "AddressNotFound", "could not find IP address"),
        ("192.0.2.1", "AddressNotFound", "could not find IP address"),
        ("203.0.113.52", "AddressIsStaticNat", "node-4"),
    ] {
        let mut lab = Setup::standard().start();
        let web = asks_for(&lab, "web", address);
        let text = assert_refused(&mut lab, &web, code);
        assert!(text.contains(words) && text.contains(address), "{text}");
        lab.delete(&web);
        lab.recover(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.changing_calls(), Vec::<&str>::new());
    }
}

const SOURCE_NAT: &str = "203.0.113.1";

/// The source-NAT address as a cluster uses it: its API server and forwards to its nodes.
fn cluster_setup() -> Setup {
    let mut setup = Setup::standard();
    let members = vec!["node-1".to_owned()];
    setup.world.rules.push(world::Rule { members, ..rule("api-lb", SOURCE_NAT, 6443) });
    setup.world.firewall_rules.push(opening(SOURCE_NAT, 6443, &["0.0.0.0/0"]));
    setup.world.firewall_rules.push(world::FirewallRule {
        end_port: Some(2224),
        ..opening(SOURCE_NAT, 2222, &["0.0.0.0/0"])
    });
    setup.world.port_forwards.push(world::PortForward {
        address: SOURCE_NAT.parse().unwrap(),
        start_port: 2222,
        end_port: Some(2224),
        id: None,
    });
    setup
}

#[test]
fn c019_the_clusters_own_address_is_not_ours() {
    let mut lab = cluster_setup().start();
    let before = lab.objects();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(status(&lab, &web), [format!("{A} VIP")]);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());

    let at = |lab: &Lab, number: i32| {
        lab.create("web", |raw| {
            raw.load_balancer_ip = Some(SOURCE_NAT.to_owned());
            raw.ports = vec![port("api", "TCP", number, 30443)];
        })
    };
    let web = at(&lab, 6443);
    let text = assert_refused(&mut lab, &web, "PortTaken");
    assert!(text.contains("api-lb"), "{text}");
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());

    let mut lab = cluster_setup().start();
    let web = at(&lab, 443);
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, SOURCE_NAT, 443), all_nodes());
    let ours = |object: &ccm_tests::objects::Object| {
        object.text("publicport") == "443" || object.text("startport") == "443"
    };
    assert_eq!(lab.objects().only(|object| !ours(object)), before);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
}

#[test]
fn c020_the_requested_address_decides_the_network() {
    let mut lab = Setup::standard().nodes(&["node-1", "iso2-1"]).start();
    let web = asks_for(&lab, "web", "203.0.113.51");
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, "203.0.113.51", 80), names(["iso2-1"]));
    let objects = lab.objects();
    assert_eq!(objects.rule(80).text("networkid"), "00000000-0000-4000-8000-0000000000a2");
    assert_eq!(objects.rule(80).members, ["iso2-1"]);
    let text = says(&lab.plan(&web).0, "NodeOutsideNetwork");
    assert!(text.contains("node-1") && text.contains("iso-2"), "{text}");
    assert_eq!(status(&lab, &web), ["203.0.113.51 VIP"]);
}

#[test]
fn a_node_with_two_nics_serves_in_the_network_of_the_address() {
    let mut setup = Setup::standard();
    let machine = setup.world.virtual_machines.iter_mut().find(|m| m.name == "node-2").unwrap();
    machine.nics.push(nic("iso-2", "10.1.2.12"));
    let mut lab = setup.start();
    let web = asks_for(&lab, "web", "203.0.113.51");
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, "203.0.113.51", 80), names(["node-2"]));
    assert_eq!(
        lab.objects().rule(80).text("name"),
        format!("{}-tcp-80", load_balancer_name("web"))
    );
}
