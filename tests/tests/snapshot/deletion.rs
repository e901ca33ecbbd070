//! What goes with a Service, and what stays.

use ccm_simulator::world::Rule;
use ccm_tests::lab::{Setup, annotation, port, uid_of};
use serde_json::json;

use crate::story::{CLIENT, FIRST, golden};

#[test]
fn own_address_is_released_last() {
    golden("deletion/own-address", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.ports.push(port("https", "TCP", 443, 30443));
        });
        story.settle(&web);
        story.lab.delete(&web);
        story.change("a Service with two ports is deleted", &web);
        assert_eq!(story.lab.service(&web), None);
        story.answers(CLIENT, FIRST, 80, &[]);
        assert!(!story.holds(FIRST));
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 0);
        assert_eq!(story.listed("listLoadBalancerRules", "loadbalancerrule").len(), 0);
    });
}

#[test]
fn own_address_with_an_object_of_somebody_else_is_kept() {
    golden("deletion/own-address-in-use", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        let id = story.address_id(FIRST);
        let rule = [("ipaddressid", id.as_str()), ("protocol", "tcp")];
        let rest = [("startport", "22"), ("endport", "22")];
        story.lab.by_hand("createFirewallRule", &[rule, rest].concat());
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert_eq!(story.lab.service(&web), None);
        assert!(story.holds(FIRST));
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 1);
        story.answers(CLIENT, FIRST, 80, &[]);
    });
}

#[test]
fn kept_address_stays_and_serves_the_next_service() {
    golden("deletion/kept-address", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.annotations.insert(annotation("keep-ip"), "true".to_owned());
        });
        story.settle(&web);
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert_eq!(story.lab.service(&web), None);
        assert!(story.holds(FIRST));
        story.answers(CLIENT, FIRST, 80, &[]);
        let next = story.lab.create("next", |raw| raw.load_balancer_ip = Some(FIRST.to_owned()));
        story.change("the next Service asks for the address", &next);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-2", "node-3"]);
    });
}

#[test]
fn address_with_a_tag_that_protects_it_is_kept() {
    golden("deletion/protected-address", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        let id = story.address_id(FIRST);
        let what = [("resourceids", id.as_str()), ("resourcetype", "PublicIpAddress")];
        let tag = [("tags[0].key", "k8s-keep"), ("tags[0].value", "true")];
        story.lab.by_hand("createTags", &[what, tag].concat());
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert!(story.holds(FIRST));
        story.answers(CLIENT, FIRST, 80, &[]);
    });
}

#[test]
fn service_that_never_got_anything_goes_at_once() {
    golden("deletion/nothing-made", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.load_balancer_ip = Some("192.0.2.200".to_owned());
            raw.finalizers.push("service.kubernetes.io/load-balancer-cleanup".to_owned());
        });
        story.stay("a Service that is refused", &web);
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
    });
}

/// A Service that the Go controller served: its rule is there, its address too.
fn of_the_go_controller(allocated_after: i64) -> Setup {
    let mut setup = Setup::standard();
    let name: String = uid_of("web").replace('-', "").chars().take(31).collect();
    let rule: Rule = serde_json::from_value(json!({
        "name": format!("a{name}-tcp-80"),
        "address": FIRST,
        "port": 80,
        "private-port": 30080,
        "protocol": "tcp",
        "cidrs": ["0.0.0.0/0"],
        "members": ["node-1", "node-2", "node-3"],
    }))
    .unwrap();
    let allocated = setup.world.started + jiff::SignedDuration::from_secs(allocated_after);
    setup.world.addresses.push(
        serde_json::from_value(json!({
            "address": FIRST, "owner": "prod", "network": "iso-1", "allocated": allocated,
        }))
        .unwrap(),
    );
    setup
        .world
        .firewall_rules
        .push(serde_json::from_value(json!({"address": FIRST, "start-port": 80})).unwrap());
    setup.world.rules.push(rule);
    setup
}

fn adopted(raw: &mut ccm_core::parse::raw::RawService) {
    raw.finalizers.push("service.kubernetes.io/load-balancer-cleanup".to_owned());
    raw.ingress.push(ccm_core::model::service::Ingress {
        ip: Some(FIRST.to_owned()),
        hostname: None,
        ip_mode: Some("VIP".to_owned()),
    });
}

#[test]
fn adopted_address_is_released_if_it_was_allocated_for_the_service() {
    golden(
        "deletion/adopted-address",
        || of_the_go_controller(20),
        |story| {
            let web = story.lab.create("web", adopted);
            story.change("the Service is adopted", &web);
            assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
            story.answers(CLIENT, FIRST, 80, &["node-1", "node-2", "node-3"]);
            story.lab.delete(&web);
            story.change("the Service is deleted", &web);
            assert!(!story.holds(FIRST));
            story.answers(CLIENT, FIRST, 80, &[]);
        },
    );
}

#[test]
fn adopted_address_without_proof_is_kept() {
    golden(
        "deletion/adopted-address-without-proof",
        || of_the_go_controller(-3600),
        |story| {
            let web = story.lab.create("web", adopted);
            story.change("the Service is adopted", &web);
            story.lab.delete(&web);
            story.change("the Service is deleted", &web);
            assert!(story.holds(FIRST));
            story.answers(CLIENT, FIRST, 80, &[]);
        },
    );
}

#[test]
fn adoption_and_deletion_in_one_step_prove_the_same() {
    golden(
        "deletion/adopted-while-deleting",
        || of_the_go_controller(20),
        |story| {
            let web = story.lab.create("web", adopted);
            story.lab.delete(&web);
            story.answers(CLIENT, FIRST, 80, &["node-1", "node-2", "node-3"]);
            story.change("the Service was deleted while no controller ran", &web);
            assert!(!story.holds(FIRST));
            story.answers(CLIENT, FIRST, 80, &[]);
            assert_eq!(story.lab.service(&web), None);
        },
    );
}

#[test]
fn verdict_of_the_go_controller_decides() {
    golden(
        "deletion/adopted-verdict",
        || of_the_go_controller(-3600),
        |story| {
            let web = story.lab.create("web", |raw| {
                adopted(raw);
                raw.annotations.insert(annotation("ip-associated-by-controller"), "true".into());
            });
            story.lab.delete(&web);
            story.answers(CLIENT, FIRST, 80, &["node-1", "node-2", "node-3"]);
            story.change("an address that the Go controller associated", &web);
            assert!(!story.holds(FIRST));
            story.answers(CLIENT, FIRST, 80, &[]);
        },
    );
}

#[test]
fn stripped_record_is_written_again_and_the_descriptions_prove() {
    golden("deletion/stripped-record", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        story.lab.edit(&web, |raw| raw.annotations.clear());
        story.change("a deployment tool removed what it does not know", &web);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-2", "node-3"]);
        story.lab.edit(&web, |raw| raw.annotations.clear());
        story.lab.delete(&web);
        story.change("it did so again, and the Service is deleted", &web);
        assert!(!story.holds(FIRST));
        story.answers(CLIENT, FIRST, 80, &[]);
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 0);
    });
}

#[test]
fn copied_manifest_proves_nothing() {
    golden("deletion/copied-manifest", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        let original = story.lab.service(&web).unwrap();
        let copy = story.lab.create("copy", |raw| {
            raw.annotations = original.annotations.clone();
            raw.ports[0].node_port = Some(30099);
        });
        story.change("a Service is created from the manifest of another one", &copy);
        let address = story.published(&copy).remove(0);
        assert_ne!(address, FIRST);
        story.lab.delete(&copy);
        story.change("the copy is deleted", &copy);
        assert!(story.holds(FIRST));
        assert!(!story.holds(&address));
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-2", "node-3"]);
        let again = story.lab.create("copy", |raw| raw.annotations = original.annotations.clone());
        story.lab.delete(&again);
        assert_eq!(story.lab.service(&again), None, "without a finalizer it goes at once");
        assert!(story.holds(FIRST));
    });
}
