//! Proxy protocol, hostname, session affinity, class and type.

use ccm_tests::lab::{Setup, annotation};

use crate::story::{CLIENT, FIRST, Story, golden};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// Proxy protocol on, then off; gives whether the rule is the same one afterwards.
fn toggle_proxy(story: &mut Story) -> bool {
    let web = story.lab.create("web", |_| ());
    story.settle(&web);
    let before = story.rule(80);
    story.lab.edit(&web, |raw| {
        raw.annotations.insert(annotation("proxy-protocol"), "true".into());
    });
    story.change("proxy protocol is turned on", &web);
    assert_eq!(story.rules(80)[0]["protocol"], "tcp-proxy");
    assert_eq!(story.lab.service(&web).unwrap().ingress[0].ip_mode.as_deref(), Some("Proxy"));
    story.answers(CLIENT, FIRST, 80, &NODES);
    story.lab.edit(&web, |raw| drop(raw.annotations.remove(&annotation("proxy-protocol"))));
    story.change("proxy protocol is turned off", &web);
    assert_eq!(story.rules(80)[0]["protocol"], "tcp");
    assert_eq!(story.lab.service(&web).unwrap().ingress[0].ip_mode.as_deref(), Some("VIP"));
    story.answers(CLIENT, FIRST, 80, &NODES);
    story.rule(80) == before
}

#[test]
fn proxy_protocol_is_toggled_in_place() {
    golden("options/proxy-protocol", Setup::standard, |story| assert!(toggle_proxy(story)));
}

#[test]
fn proxy_protocol_is_pushed_by_a_changed_algorithm_before_4_22() {
    let setup = || Setup::standard().release("4.20.0.0");
    golden("options/proxy-protocol-4.20", setup, |story| assert!(toggle_proxy(story)));
}

#[test]
fn proxy_protocol_takes_another_rule_before_4_17_1() {
    let setup = || Setup::standard().release("4.16.1.0");
    golden("options/proxy-protocol-4.16", setup, |story| assert!(!toggle_proxy(story)));
}

#[test]
fn malformed_proxy_protocol_refuses_the_service_and_leaves_it_working() {
    golden("options/proxy-protocol-malformed", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        story.lab.edit(&web, |raw| {
            raw.annotations.insert(annotation("proxy-protocol"), "yes please".into());
        });
        story.stay("the value is no boolean", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn hostname_is_published_in_place_of_the_address() {
    golden("options/hostname", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.annotations.insert(annotation("hostname"), "lb.example.com".into());
        });
        story.change("a new Service with a hostname", &web);
        assert_eq!(story.published(&web), ["lb.example.com"]);
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.lab.edit(&web, |raw| drop(raw.annotations.remove(&annotation("hostname"))));
        story.change("the hostname is removed", &web);
        assert_eq!(story.published(&web), [FIRST]);
    });
}

#[test]
fn session_affinity_changes_the_algorithm_in_place() {
    golden("options/affinity", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.session_affinity = Some("None".into()));
        story.settle(&web);
        let before = story.rule(80);
        story.lab.edit(&web, |raw| raw.session_affinity = Some("ClientIP".into()));
        story.change("None becomes ClientIP", &web);
        assert_eq!(story.rules(80)[0]["algorithm"], "source");
        story.lab.edit(&web, |raw| raw.session_affinity = Some("None".into()));
        story.change("ClientIP becomes None", &web);
        assert_eq!(story.rules(80)[0]["algorithm"], "roundrobin");
        assert_eq!(story.rule(80), before);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn unsupported_affinity_refuses_the_service_and_leaves_it_working() {
    golden("options/affinity-unsupported", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        story.lab.edit(&web, |raw| raw.session_affinity = Some("Sticky".into()));
        let text = story.stay("an affinity that nobody knows", &web);
        assert!(text.contains("unsupported load balancer affinity"), "{text}");
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn unknown_annotation_is_a_warning_only() {
    golden("options/unknown-annotation", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.annotations.insert(annotation("host-name"), "lb.example.com".into());
        });
        story.change("a new Service with a misspelt annotation", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        assert_eq!(story.published(&web), [FIRST]);
    });
}

#[test]
fn service_with_a_class_is_somebody_elses() {
    golden("options/class", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.load_balancer_class = Some("example.com/my-own-lb".into());
        });
        story.stay("a new Service with a class", &web);
        assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
        assert_eq!(story.lab.service(&web).unwrap().finalizers, Vec::<String>::new());
    });
}

#[test]
fn class_set_on_a_service_of_ours_hands_it_over() {
    golden("options/class-set-later", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        // The field can be set only together with the type; between two looks that is one change.
        story.lab.edit(&web, |raw| {
            raw.load_balancer_class = Some("example.com/my-own-lb".into());
            raw.ingress.clear();
        });
        story.change("a class is set", &web);
        story.answers(CLIENT, FIRST, 80, &[]);
        assert!(!story.holds(FIRST));
    });
}

#[test]
fn change_of_type_takes_everything_away_but_the_service() {
    golden("options/type", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        story.lab.cluster.with(|cluster| cluster.set_type(&web, "ClusterIP")).unwrap();
        story.change("LoadBalancer becomes ClusterIP", &web);
        story.answers(CLIENT, FIRST, 80, &[]);
        assert!(!story.holds(FIRST));
        let service = story.lab.service(&web).unwrap();
        assert_eq!(service.finalizers, Vec::<String>::new());
        assert!(service.annotations.is_empty(), "{:#?}", service.annotations);
        story.lab.cluster.with(|cluster| cluster.set_type(&web, "LoadBalancer")).unwrap();
        story.change("ClusterIP becomes LoadBalancer again", &web);
        let address = story.published(&web).remove(0);
        story.answers(CLIENT, &address, 80, &NODES);
    });
}

#[test]
fn service_with_ipv6_only_is_refused() {
    golden("options/ipv6-only", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.ip_families = vec!["IPv6".into()]);
        story.stay("a new Service of family IPv6", &web);
        assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
        let both = ["IPv4".to_owned(), "IPv6".to_owned()];
        let dual = story.lab.create("dual", |raw| raw.ip_families = both.to_vec());
        story.change("a new Service of both families", &dual);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn ownership_tags_follow_everything_else() {
    golden("options/ownership-tags", Setup::standard, |story| {
        story.lab.policy.ownership_tags = true;
        let web = story.lab.create("web", |_| ());
        story.change("a new Service, with ownership-tags = on", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.stay("nothing changed", &web);
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
    });
}
