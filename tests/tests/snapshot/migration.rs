//! Rules of both old naming schemes are taken over as they are.

use ccm_core::model::service::Ingress;
use ccm_tests::lab::{Setup, annotation, port, uid_of};
use serde_json::json;

use crate::story::{CLIENT, FIRST, Story, golden};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// A Service with ports 80 and 443 whose rules are called `<lb><infix>80` and `<lb><infix>443`.
fn served(infix: &'static str) -> impl Fn() -> Setup {
    move || {
        let mut setup = Setup::standard();
        let uid: String = uid_of("web").replace('-', "").chars().take(31).collect();
        let allocated = setup.world.started + jiff::SignedDuration::from_secs(10);
        let address = json!({
            "address": FIRST, "owner": "prod", "network": "iso-1", "allocated": allocated,
        });
        setup.world.addresses.push(serde_json::from_value(address).unwrap());
        for (port, node_port) in [(80, 30080), (443, 30443)] {
            let rule = json!({
                "name": format!("a{uid}{infix}{port}"),
                "address": FIRST,
                "port": port,
                "private-port": node_port,
                "protocol": "tcp",
                "members": NODES,
            });
            setup.world.rules.push(serde_json::from_value(rule).unwrap());
            let opening = json!({"address": FIRST, "start-port": port});
            setup.world.firewall_rules.push(serde_json::from_value(opening).unwrap());
        }
        setup
    }
}

fn tell(story: &mut Story) {
    let web = story.lab.create("web", |raw| {
        raw.ports.push(port("https", "TCP", 443, 30443));
        raw.finalizers.push("service.kubernetes.io/load-balancer-cleanup".to_owned());
        let ip_mode = Some("VIP".to_owned());
        raw.ingress.push(Ingress { ip: Some(FIRST.to_owned()), hostname: None, ip_mode });
    });
    let names = |story: &Story| -> Vec<String> {
        let rules = story.rules(80).into_iter().chain(story.rules(443));
        rules.map(|rule| rule["name"].as_str().unwrap().to_owned()).collect()
    };
    let before = names(story);
    story.change("the first look at a Service of the old controller", &web);
    assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
    story.answers(CLIENT, FIRST, 80, &NODES);
    assert_eq!(names(story), before);
    story.lab.edit(&web, |raw| {
        raw.annotations.insert(annotation("proxy-protocol"), "true".into());
    });
    story.change("proxy protocol is turned on", &web);
    assert_ne!(names(story), before);
    story.answers(CLIENT, FIRST, 443, &NODES);
    story.lab.edit(&web, |raw| drop(raw.ports.pop()));
    story.change("port 443 is removed", &web);
    story.answers(CLIENT, FIRST, 443, &[]);
    story.lab.delete(&web);
    story.change("the Service is deleted", &web);
    assert!(!story.holds(FIRST));
}

#[test]
fn rules_of_the_go_controller_are_taken_over() {
    golden("migration/go-controller", served("-tcp-"), tell);
}

#[test]
fn rules_of_the_in_tree_provider_are_taken_over() {
    golden("migration/in-tree", served("-"), tell);
}

#[test]
fn changed_ranges_in_the_same_roll_out_close_what_the_old_controller_opened() {
    golden("migration/ranges-in-the-same-roll-out", served("-tcp-"), |story| {
        let web = story.lab.create("web", |raw| {
            raw.ports.push(port("https", "TCP", 443, 30443));
            raw.finalizers.push("service.kubernetes.io/load-balancer-cleanup".to_owned());
            raw.source_ranges = vec!["198.51.100.0/24".to_owned()];
        });
        story.change("adopted with a range that the old controller never saw", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.answers("192.0.2.99", FIRST, 80, &[]);
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 2);
    });
}

#[test]
fn change_of_type_in_the_same_roll_out_leaves_no_record() {
    golden("migration/type-in-the-same-roll-out", served("-tcp-"), |story| {
        let web = story.lab.create("web", |raw| {
            raw.service_type = Some("ClusterIP".to_owned());
            raw.ports.push(port("https", "TCP", 443, 30443));
            raw.finalizers.push("service.kubernetes.io/load-balancer-cleanup".to_owned());
        });
        story.change("its type was changed while no controller ran", &web);
        story.answers(CLIENT, FIRST, 80, &[]);
        assert!(!story.holds(FIRST));
        let service = story.lab.service(&web).unwrap();
        assert!(service.annotations.is_empty(), "{:#?}", service.annotations);
        assert!(service.finalizers.is_empty(), "{:#?}", service.finalizers);
    });
}
