//! Kinds of cases 2: several Services, one address, and what may happen to either meanwhile.

use ccm_tests::lab::{Setup, port};
use std::sync::Arc;

use cloudstack_ccm::driver::Displaced;

use crate::support::{
    A, CLIENT, USERS, accepted, all_nodes, allocated, annotate, asks_with_port,
    assert_nothing_planned, codes, prefix, rule, served_by_go, status, strip, verdict,
};

#[test]
fn stripped_annotations_of_services_on_one_address() {
    for address in [A, USERS] {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = asks_with_port(&lab, "web", address, 80);
        lab.recover(&web);
        let tls = asks_with_port(&lab, "tls", address, 443);
        lab.recover(&tls);
        for key in [&web, &tls] {
            lab.edit(key, strip);
        }
        lab.restart();
        for key in [&web, &tls] {
            lab.delete(key);
            lab.recover(key);
            assert_eq!(lab.service(key), None);
        }
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
}

#[test]
fn a_service_goes_before_the_one_that_joined_was_ever_looked_at() {
    let mut lab = Setup::standard().start();
    let before = lab.objects();
    let web = asks_with_port(&lab, "web", A, 80);
    lab.recover(&web);
    let tls = asks_with_port(&lab, "tls", A, 443);
    lab.delete(&web);
    let _ = lab.reconcile(&web);
    assert!(lab.service(&web).is_some(), "the verdict has not been handed over");
    assert_eq!(codes(&lab.plan(&web).0), ["AddressInUse", "VerdictNotHandedOver"]);
    lab.recover(&tls);
    lab.recover(&web);
    assert_eq!(lab.service(&web), None);
    assert_eq!(verdict(&lab, &tls).as_deref(), Some("true"));
    assert_eq!(lab.reach(CLIENT, A, 443), all_nodes());
    lab.delete(&tls);
    lab.recover(&tls);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn a_port_goes_from_one_service_to_the_other() {
    for first in [0, 1] {
        let mut lab = Setup::standard().start();
        let web = asks_with_port(&lab, "web", A, 80);
        lab.recover(&web);
        let tls = asks_with_port(&lab, "tls", A, 443);
        lab.recover(&tls);
        lab.edit(&web, |raw| raw.ports[0].port = 8080);
        lab.edit(&tls, |raw| raw.ports.push(port("q", "TCP", 80, 30555)));
        let order = if first == 0 { [&web, &tls] } else { [&tls, &web] };
        for key in order {
            let _ = lab.reconcile(key);
        }
        for key in order {
            lab.recover(key);
        }
        let objects = lab.objects();
        assert_eq!(objects.rule(80).text("privateport"), "30555");
        assert_eq!(objects.rules().len(), 3);
        assert_eq!(objects.openings(), ["443 0.0.0.0/0", "80 0.0.0.0/0", "8080 0.0.0.0/0"]);
        for key in order {
            assert_nothing_planned(&lab, key);
        }
    }
}

#[test]
fn a_move_with_other_ports_killed_after_every_step() {
    let new = || {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
        lab.settle(&web);
        lab.edit(&web, |raw| {
            raw.load_balancer_ip = Some(USERS.to_owned());
            raw.ports[1] = port("alt", "TCP", 8080, 30880);
        });
        (lab, web, before)
    };
    let length = new().0.plan(&new().1).0.plan.steps.len();
    for died_after in 0..=length {
        let (mut lab, web, before) = new();
        assert!(lab.execute(&prefix(&lab.plan(&web).0, died_after)).is_success());
        let published = status(&lab, &web).remove(0);
        let ip = published.split(' ').next().unwrap();
        assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes(), "after {died_after} steps");
        lab.restart();
        lab.settle(&web);
        assert_eq!(status(&lab, &web), [format!("{USERS} VIP")]);
        assert_eq!(lab.objects().addresses(), before.addresses());
        assert_eq!(lab.objects().openings(), ["80 0.0.0.0/0", "8080 0.0.0.0/0"]);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
}

#[test]
fn a_move_is_taken_back_half_way() {
    let new = || {
        let mut lab = Setup::standard().start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        lab.edit(&web, |raw| raw.load_balancer_ip = Some("203.0.113.20".to_owned()));
        (lab, web)
    };
    let length = new().0.plan(&new().1).0.plan.steps.len();
    for stopped_after in 0..=length {
        for cleared in [false, true] {
            let (mut lab, web) = new();
            assert!(lab.execute(&prefix(&lab.plan(&web).0, stopped_after)).is_success());
            let asked = (!cleared).then(|| A.to_owned());
            lab.edit(&web, |raw| raw.load_balancer_ip = asked);
            lab.restart();
            lab.recover(&web);
            let published = status(&lab, &web).remove(0);
            let ip = published.split(' ').next().unwrap();
            assert!(cleared || ip == A);
            assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes());
            lab.delete(&web);
            lab.recover(&web);
            let before = Setup::standard().start().objects().addresses();
            assert_eq!(lab.objects().addresses(), before, "{stopped_after} {cleared}");
            assert!(lab.objects().firewall_rules().is_empty());
        }
    }
}

#[test]
fn two_services_swap_their_users_addresses() {
    let mut setup = Setup::standard();
    setup.world.addresses.push(allocated("203.0.113.60"));
    let mut lab = setup.start();
    let before = lab.objects();
    let web = asks_with_port(&lab, "web", USERS, 80);
    let api = asks_with_port(&lab, "api", "203.0.113.60", 80);
    lab.recover(&web);
    lab.recover(&api);
    lab.edit(&web, |raw| raw.load_balancer_ip = Some("203.0.113.60".to_owned()));
    lab.edit(&api, |raw| raw.load_balancer_ip = Some(USERS.to_owned()));
    for _ in 0..3 {
        for key in [&web, &api] {
            let _ = lab.reconcile(key);
            for ip in [USERS, "203.0.113.60"] {
                assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes(), "{ip} is down");
            }
        }
    }
    for key in [&web, &api] {
        lab.delete(key);
    }
    for _ in 0..2 {
        for key in [&web, &api] {
            if lab.service(key).is_some() {
                let _ = lab.reconcile(key);
            }
        }
    }
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn a_requested_free_address_wherever_we_die() {
    let before = Setup::standard().start().objects();
    for died_after in 0..9 {
        let mut lab = Setup::standard().start();
        let web = asks_with_port(&lab, "web", "203.0.113.20", 80);
        assert!(lab.execute(&prefix(&lab.plan(&web).0, died_after)).is_success());
        lab.restart();
        lab.recover(&web);
        assert_eq!(status(&lab, &web), ["203.0.113.20 VIP"], "after {died_after} steps");
        assert_eq!(verdict(&lab, &web).as_deref(), Some("true"));
        assert_eq!(accepted(&lab, "associateIpAddress"), 1);
        lab.delete(&web);
        lab.recover(&web);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
}

#[test]
fn what_the_fork_left_is_adopted() {
    let mut setup = Setup::standard();
    let id = "00000000-0000-4000-8000-0000000000aa";
    let address =
        ccm_simulator::world::Address { id: Some(id.to_owned()), ..allocated("203.0.113.60") };
    setup.world.addresses.push(address);
    setup.world.rules.push(ccm_simulator::world::Rule {
        private_port: 30080,
        members: ["node-1", "node-2", "node-3"].map(str::to_owned).to_vec(),
        ..rule("K8s_svc_kubernetes_shop_web-tcp-80", "203.0.113.60", 80)
    });
    setup.world.firewall_rules.push(crate::support::opening("203.0.113.60", 80, &["0.0.0.0/0"]));
    let mut lab = setup.start();
    let web = lab.create("web", |raw| {
        served_by_go(raw, "203.0.113.60");
        annotate(raw, "address", "203.0.113.60");
        annotate(raw, "id", id);
        annotate(raw, "network-id", "00000000-0000-4000-8000-0000000000a1");
    });
    lab.settle(&web);
    assert_eq!(lab.changing_calls(), Vec::<&str>::new());
    lab.restart();
    assert_nothing_planned(&lab, &web);
    lab.delete(&web);
    lab.settle(&web);
    let before = Setup::standard().start().objects().addresses();
    assert_eq!(lab.objects().addresses(), before);
    assert!(lab.objects().rules().is_empty());
}

#[test]
fn a_plan_that_releases_an_address_has_it_to_itself() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.delete(&web);
    let (releasing, _) = lab.plan(&web);
    let api = asks_with_port(&lab, "api", A, 8080);
    let (joining, _) = lab.plan(&api);
    for (first, second) in [(&releasing, &joining), (&joining, &releasing)] {
        let lanes = Arc::clone(&lab.lanes);
        let taken = lanes.admit(&first.plan).expect("addresses that nobody works on");
        assert_eq!(lab.try_execute(second), Err(Displaced), "while the other one is executed");
        drop(taken);
    }
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
    assert!(lab.execute(&joining).is_success());
    let (leaving, _) = lab.plan(&web);
    assert!(lab.execute(&leaving).is_success(), "an execution gives back what it took");
    assert_eq!(lab.reach(CLIENT, A, 8080), all_nodes());
}

#[test]
fn the_type_changes_on_a_shared_address() {
    let mut lab = Setup::standard().start();
    let web = asks_with_port(&lab, "web", A, 80);
    lab.recover(&web);
    let tls = asks_with_port(&lab, "tls", A, 443);
    lab.recover(&tls);
    lab.cluster.with(|cluster| cluster.set_type(&web, "ClusterIP")).expect("a Service");
    lab.recover(&web);
    assert_eq!(lab.reach(CLIENT, A, 443), all_nodes());
    assert!(lab.reach(CLIENT, A, 80).is_empty());
    assert!(lab.service(&web).expect("the Service").finalizers.is_empty());
    lab.delete(&tls);
    lab.recover(&tls);
    assert!(!lab.objects().addresses().contains(&A.to_owned()));
}
