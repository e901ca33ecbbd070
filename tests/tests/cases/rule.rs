//! Cases 3, 4, 12 and 14: rules and their settings.

use ccm_core::ids::ServiceKey;
use ccm_core::plan::action::{Action, UpdateLoadBalancerRule};
use ccm_core::plan::report::Severity;
use ccm_core::plan::{Planned, reason::Disruption};
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup, annotation, port};

use crate::support::{
    A, CLIENT, accepted, all_nodes, allocated, annotate, assert_refused, codes, commands,
    left_by_go, load_balancer_name, prefix, report_of_nothing, says, served_by_go, severity,
    status, steps,
};

fn two_ports(lab: &mut Lab) -> ServiceKey {
    let web = lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
    lab.settle(&web);
    web
}

fn updates(planned: &Planned) -> Vec<&UpdateLoadBalancerRule> {
    let steps = planned.plan.steps.iter();
    let updates = steps.filter_map(|step| match &step.action {
        Action::UpdateLoadBalancerRule(update) => Some(update),
        _ => None,
    });
    updates.collect()
}

#[test]
fn c025_rules_of_others_on_our_address() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let id = lab.objects().address(A).id();
    let uid = "11111111-5b7e-4c11-9d02-1a2b3c4d5e6f";
    let other_lb: String = format!("a{}", uid.replace('-', "")).chars().take(32).collect();
    let other_cluster =
        format!("cloudstack-ccm/1 cluster=c2 service={uid} port=tcp-8443 address=ours");
    for (name, description, number) in [
        (format!("{other_lb}-tcp-8080"), "", "8080"),
        ("second".to_owned(), other_cluster.as_str(), "8443"),
        ("manual".to_owned(), "by hand", "25"),
    ] {
        let made = lab.by_hand(
            "createLoadBalancerRule",
            &[
                ("publicipid", &id),
                ("name", &name),
                ("description", description),
                ("algorithm", "leastconn"),
                ("publicport", number),
                ("privateport", "2525"),
                ("protocol", "tcp"),
                ("openfirewall", "false"),
            ],
        );
        let made = made["id"].as_str().expect("an id").to_owned();
        let vm = "00000000-0000-4000-8000-000000000004";
        lab.by_hand("assignToLoadBalancerRule", &[("id", &made), ("virtualmachineids", vm)]);
    }
    lab.by_hand(
        "createFirewallRule",
        &[("ipaddressid", &id), ("protocol", "tcp"), ("startport", "25"), ("endport", "25")],
    );
    let theirs = |lab: &Lab| {
        lab.objects().only(|object| {
            let number = format!("{}{}", object.text("publicport"), object.text("startport"));
            ["8080", "8443", "25"].contains(&number.as_str())
        })
    };
    let before = theirs(&lab);
    assert_eq!(before.iter().count(), 4);
    let planned = report_of_nothing(&lab, &web);
    for word in ["8080", "manual"] {
        assert!(planned.report.notes.iter().any(|note| note.to_string().contains(word)), "{word}");
    }
    lab.edit(&web, |raw| raw.ports[0].port = 81);
    for length in 0..lab.plan(&web).0.plan.steps.len() {
        let mut twin = lab.plan(&web).0;
        twin.plan.steps.truncate(1);
        assert!(lab.execute(&twin).is_success());
        assert_eq!(theirs(&lab), before, "after {length} steps");
    }
    lab.settle(&web);
    assert_eq!(theirs(&lab), before);
    assert_eq!(lab.reach(CLIENT, A, 81), all_nodes());
    lab.delete(&web);
    let (planned, _) = lab.plan(&web);
    let text = says(&planned, "AddressInUse");
    for word in [A, "manual", "second", &format!("{other_lb}-tcp-8080")] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!(severity(&planned, "AddressInUse"), Severity::Warning);
    lab.settle(&web);
    assert_eq!(theirs(&lab), before);
    assert_eq!(lab.service(&web), None);
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
    assert_eq!(lab.objects().rules().len(), 3);
}

#[test]
fn c026_a_rule_renamed_by_hand_is_still_the_rule() {
    for (name, description) in
        [(Some("web"), None), (None, Some("my rule")), (Some("web"), Some("my rule"))]
    {
        let mut lab = Setup::standard().start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        let rule = lab.objects().rule(80).id();
        let mut params = vec![("id", rule.as_str())];
        params.extend(name.map(|name| ("name", name)));
        params.extend(description.map(|text| ("description", text)));
        lab.by_hand("updateLoadBalancerRule", &params);
        let (planned, outcome) = lab.drift_round(&web);
        assert!(outcome.is_success());
        let commands = commands(&planned);
        assert!(commands.is_empty() || commands == ["updateLoadBalancerRule"], "{commands:?}");
        lab.settle(&web);
        let objects = lab.objects();
        assert_eq!(objects.rule(80).id(), rule);
        assert_eq!(objects.rules().len(), 1);
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
        lab.delete(&web);
        lab.settle(&web);
        assert!(lab.objects().rules().is_empty());
    }
}

#[test]
fn c027_no_setting_is_ignored_in_silence() {
    type Edit = Box<dyn Fn(&mut ccm_core::parse::raw::RawService)>;
    fn set(name: &'static str, value: &'static str) -> Edit {
        Box::new(move |raw| annotate(raw, name, value))
    }
    let settings: Vec<(Edit, Edit)> = vec![
        (set("proxy-protocol", "true"), set("proxy-protocol", "maybe")),
        (set("hostname", "lb.example.test"), set("hostname", "lb2.example.test")),
        (set("hostname", ""), set("hostname", "UPPER")),
        (set("source-cidrs", "192.0.2.0/24"), set("source-cidrs", "192.0.2.0/25")),
        (set("source-cidrs", ""), set("source-cidrs", "192.0.2.0")),
        (set("address", "203.0.113.20"), set("address", "203.0.113.21")),
        (set("algorythm", "source"), set("proxy_protocol", "true")),
        (
            Box::new(|raw| raw.load_balancer_ip = Some("203.0.113.20".into())),
            Box::new(|raw| raw.load_balancer_ip = Some("x".into())),
        ),
        (
            Box::new(|raw| raw.source_ranges = vec!["192.0.2.0/24".into()]),
            Box::new(|raw| raw.source_ranges = vec!["192.0.2.0/25".into()]),
        ),
        (
            Box::new(|raw| raw.session_affinity = Some("ClientIP".into())),
            Box::new(|raw| raw.session_affinity = Some("Sticky".into())),
        ),
        (
            Box::new(|raw| raw.ip_families = vec!["IPv6".into()]),
            Box::new(|raw| raw.ports.push(port("udp", "UDP", 53, 30053))),
        ),
        (
            Box::new(|raw| raw.ports[0].node_port = Some(30081)),
            Box::new(|raw| raw.ports[0].protocol = Some("SCTP".into())),
        ),
        (
            Box::new(|raw| {
                let key = "service.beta.kubernetes.io/load-balancer-source-ranges";
                raw.annotations.insert(key.to_owned(), "192.0.2.0/24".to_owned());
            }),
            Box::new(|raw| raw.load_balancer_class = Some("example.test/other".into())),
        ),
    ];
    for (number, (first, second)) in settings.iter().enumerate() {
        for (changed, edit) in [first, second].into_iter().enumerate() {
            let mut lab = Setup::standard().start();
            let web = lab.create("web", |_| ());
            lab.settle(&web);
            lab.edit(&web, edit);
            let (planned, _) = lab.plan(&web);
            let silent = planned.plan.is_empty() && planned.report.is_empty();
            assert!(!silent, "setting {number}.{changed} is ignored");
        }
    }
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.edit(&web, |raw| annotate(raw, "sourcecidr", "192.0.2.0/24"));
    let planned = report_of_nothing(&lab, &web);
    let text = says(&planned, "OddSpec");
    assert!(text.contains(&annotation("source-cidrs")), "{text}");
    assert_eq!(severity(&planned, "OddSpec"), Severity::Warning);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c033_a_port_without_a_node_port() {
    let mut lab = Setup::standard().start();
    for second in [false, true] {
        let name = if second { "two" } else { "one" };
        let web = lab.create(name, |raw| {
            raw.ports[0].node_port = Some(0);
            if second {
                raw.ports.insert(0, port("https", "TCP", 443, 30443));
            }
        });
        let text = assert_refused(&mut lab, &web, "InvalidSpec");
        assert!(text.contains("port 80"), "{text}");
        assert!(text.contains("spec.allocateLoadBalancerNodePorts"), "{text}");
    }
    assert_eq!(lab.changing_calls(), Vec::<&str>::new());
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.edit(&web, |raw| raw.ports[0].node_port = Some(0));
    assert_refused(&mut lab, &web, "InvalidSpec");
    assert_eq!(lab.objects().rule(80).text("privateport"), "30080");
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c034_udp_beside_tcp_where_the_router_has_no_udp() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |raw| raw.ports.push(port("quic", "UDP", 443, 30443)));
    lab.settle(&web);
    assert_eq!(status(&lab, &web), [format!("{A} VIP")]);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    for _ in 0..10 {
        let planned = report_of_nothing(&lab, &web);
        assert_eq!(codes(&planned), ["UdpNotServed"]);
        let text = says(&planned, "UdpNotServed");
        assert!(text.contains("443") && text.contains("virtual router"), "{text}");
        assert!(planned.report.look_again().is_some_and(|wait| wait.as_secs() >= 300));
    }
    lab.edit(&web, |raw| _ = raw.ports.pop());
    let planned = report_of_nothing(&lab, &web);
    assert!(codes(&planned).is_empty());
    assert_eq!(lab.objects().openings(), ["80 0.0.0.0/0"]);
    assert_eq!(lab.objects().rules().len(), 1);
}

#[test]
fn c035_a_protocol_that_cloudstack_does_not_know() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |raw| raw.ports = vec![port("sip", "SCTP", 5060, 30560)]);
    let text = assert_refused(&mut lab, &web, "ProtocolNotServed");
    for word in ["SCTP", "TCP", "UDP"] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(lab.changing_calls(), Vec::<&str>::new());
}

#[test]
fn c036_a_network_without_a_load_balancer() {
    let mut setup = Setup::standard();
    let services = ["Firewall", "SourceNat", "Dns"].map(str::to_owned).to_vec();
    setup.world.networks[0].services = Some(services);
    let mut lab = setup.start();
    let web = lab.create("web", |_| ());
    let text = assert_refused(&mut lab, &web, "NetworkWithoutLoadBalancer");
    assert!(text.contains("iso-1") && text.contains("Lb"), "{text}");
    assert_eq!(lab.changing_calls(), Vec::<&str>::new());
}

#[test]
fn c042_proxy_protocol_toggle_keeps_the_rule() {
    for release in ["4.22.0.0", "4.21.0.0", "4.17.1.0"] {
        let mut lab = Setup::standard().release(release).start();
        let web = two_ports(&mut lab);
        let before = lab.objects().only(|object| object.list != "listLoadBalancerRules");
        let ids = [80, 443].map(|number| lab.objects().rule(number).id());
        for (value, protocol) in [("true", "tcp-proxy"), ("false", "tcp")] {
            lab.edit(&web, |raw| annotate(raw, "proxy-protocol", value));
            let (planned, _) = lab.plan(&web);
            assert!(
                commands(&planned).iter().all(|found| *found == "updateLoadBalancerRule"),
                "{}",
                lab.print(&web)
            );
            lab.settle(&web);
            let objects = lab.objects();
            for (number, id) in [80, 443].into_iter().zip(&ids) {
                let rule = objects.rule(number);
                assert_eq!(&rule.id(), id);
                assert_eq!(rule.text("protocol"), protocol);
                let name = format!("{}-{protocol}-{number}", load_balancer_name("web"));
                assert_eq!(rule.text("name"), name);
                assert_eq!(rule.text("algorithm"), "roundrobin");
                assert_eq!(lab.reach(CLIENT, A, number), all_nodes());
            }
            assert_eq!(objects.only(|o| o.list != "listLoadBalancerRules"), before);
        }
        assert_eq!(accepted(&lab, "createLoadBalancerRule"), 2);
    }
}

#[test]
fn c042_an_update_that_failed_half_way_is_seen() {
    // A failed update keeps protocol and description, but not the name.
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let rule = lab.objects().rule(80).id();
    lab.by_hand("updateLoadBalancerRule", &[("id", &rule), ("protocol", "tcp-proxy")]);
    lab.edit(&web, |raw| annotate(raw, "proxy-protocol", "true"));
    let (planned, _) = lab.plan(&web);
    assert_eq!(commands(&planned), ["updateLoadBalancerRule"]);
    lab.settle(&web);
    assert!(lab.objects().rule(80).text("name").ends_with("-tcp-proxy-80"));
}

#[test]
fn c050_what_the_status_says() {
    let plain = format!("{A} VIP");
    let proxy = format!("{A} Proxy");
    let name = "lb.example.test".to_owned();
    for (proxied, named, expected) in
        [(false, false, &plain), (true, false, &proxy), (false, true, &name), (true, true, &name)]
    {
        let set = |raw: &mut ccm_core::parse::raw::RawService| {
            if proxied {
                annotate(raw, "proxy-protocol", "true");
            }
            if named {
                annotate(raw, "hostname", "lb.example.test");
            }
        };
        let mut lab = Setup::standard().start();
        let web = lab.create("web", set);
        lab.settle(&web);
        assert_eq!(status(&lab, &web), std::slice::from_ref(expected));
        // The same, set and unset on a live Service: one status write each.
        let live = lab.create("live", |raw| raw.ports[0].node_port = Some(30081));
        lab.settle(&live);
        let before = status(&lab, &live);
        for on in [true, false] {
            lab.edit(&live, |raw| {
                crate::support::unset(raw, "proxy-protocol");
                crate::support::unset(raw, "hostname");
                if on {
                    set(raw);
                }
            });
            let (planned, _) = lab.plan(&live);
            let writes = planned.plan.steps.iter().filter(|step| match &step.action {
                Action::PatchService(patch) => patch.ingress.is_some(),
                _ => false,
            });
            assert_eq!(writes.count(), usize::from(proxied || named), "{}", lab.print(&live));
            lab.settle(&live);
            let shown = status(&lab, &live);
            assert_eq!(shown == before, !on || !(proxied || named), "{shown:?}");
        }
    }
}

#[test]
fn c052_a_port_is_renumbered() {
    let new = || {
        let mut lab = Setup::standard().start();
        let web = two_ports(&mut lab);
        let other = lab.objects().only(|object| {
            let numbers = [object.text("publicport"), object.text("startport")];
            numbers.contains(&"443".to_owned())
        });
        lab.edit(&web, |raw| raw.ports[0].port = 8080);
        (lab, web, other)
    };
    let (lab, web, _) = new();
    let length = lab.plan(&web).0.plan.steps.len();
    for died_after in 0..=length {
        let (mut lab, web, other) = new();
        for done in 0..died_after {
            let step = prefix(&lab.plan(&web).0, 1);
            if step.plan.is_empty() {
                break;
            }
            assert!(lab.execute(&step).is_success());
            assert_open_ports_are_served(&lab, &format!("step {done}"));
        }
        lab.restart();
        lab.settle(&web);
        let objects = lab.objects();
        assert_eq!(objects.openings(), ["443 0.0.0.0/0", "8080 0.0.0.0/0"]);
        assert_eq!(objects.rules().len(), 2);
        assert_eq!(lab.reach(CLIENT, A, 8080), all_nodes());
        let kept = objects.only(|object| other.iter().any(|found| found.id() == object.id()));
        assert_eq!(kept, other);
    }
}

/// No port is open that has no rule with members.
fn assert_open_ports_are_served(lab: &Lab, when: &str) {
    let objects = lab.objects();
    for opening in objects.firewall_rules() {
        let number = opening.text("startport").parse().expect("a port");
        assert!(!objects.rule(number).members.is_empty(), "{when}: {objects:#?}");
    }
}

#[test]
fn c082_changes_made_by_hand_are_put_back() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let rule = lab.objects().rule(80).id();
    for params in [
        vec![("algorithm", "source")],
        vec![("cidrlist", "192.0.2.0/24")],
        vec![("algorithm", "bogus")],
    ] {
        let mut all = vec![("id", rule.as_str()), ("protocol", "tcp")];
        all.extend(params);
        lab.by_hand("updateLoadBalancerRule", &all);
        let (planned, _) = lab.plan(&web);
        assert_eq!(commands(&planned), ["updateLoadBalancerRule"]);
        assert_eq!(updates(&planned).len(), 1);
        lab.settle(&web);
        assert_eq!(lab.objects().rule(80).text("algorithm"), "roundrobin");
        assert_eq!(lab.objects().rule(80).text("cidrlist"), "");
    }
    let opening = lab.objects().firewall_rules()[0].id();
    lab.by_hand("deleteFirewallRule", &[("id", &opening)]);
    let (planned, _) = lab.plan(&web);
    assert_eq!(commands(&planned), ["createFirewallRule"]);
    lab.settle(&web);
    lab.by_hand("deleteLoadBalancerRule", &[("id", &rule)]);
    let (planned, _) = lab.plan(&web);
    assert_eq!(commands(&planned), ["createLoadBalancerRule", "assignToLoadBalancerRule"]);
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    let calls = lab.changing_calls().len();
    lab.settle(&web);
    assert_eq!(lab.changing_calls().len(), calls);
}

#[test]
fn c096_a_refused_port_holds_nothing_else_back() {
    let mut lab = Setup::standard().start();
    let web = two_ports(&mut lab);
    let kept = lab.objects().only(|object| {
        let number = format!("{}{}", object.text("publicport"), object.text("startport"));
        number != "443"
    });
    lab.edit(&web, |raw| raw.ports[1] = port("dns", "UDP", 5354, 30354));
    for _ in 0..3 {
        let _ = lab.reconcile(&web);
        assert_eq!(lab.objects().changes_since(&kept), Vec::<String>::new());
        assert!(says(&report_of_nothing(&lab, &web), "UdpNotServed").contains("5354"));
    }
    assert_eq!(accepted(&lab, "associateIpAddress"), 1);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c096_the_last_served_port_goes_beside_a_refused_one() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.edit(&web, |raw| raw.ports = vec![port("dns", "UDP", 5354, 30354)]);
    lab.settle(&web);
    assert!(lab.objects().rules().is_empty());
    assert!(lab.objects().openings().is_empty());
    assert_eq!(codes(&report_of_nothing(&lab, &web)), ["UdpNotServed"]);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 1);
}

#[test]
fn c100_a_rule_without_a_protocol() {
    for proxied in [false, true] {
        let mut setup = left_by_go(Setup::standard(), "web", allocated("203.0.113.60"));
        let made = setup.world.rules.pop().expect("the rule");
        let name = format!("{}-80", load_balancer_name("web"));
        setup.world.rules.push(world::Rule { protocol: None, name, ..made });
        let mut lab = setup.start();
        let web = lab.create("web", |raw| served_by_go(raw, "203.0.113.60"));
        lab.settle(&web);
        assert_eq!(lab.changing_calls(), Vec::<&str>::new());
        let rule = lab.objects().rule(80).id();
        lab.edit(&web, |raw| {
            if proxied {
                annotate(raw, "proxy-protocol", "true");
            } else {
                raw.session_affinity = Some("ClientIP".to_owned());
            }
        });
        lab.settle(&web);
        assert_eq!(lab.changing_calls(), ["updateLoadBalancerRule"]);
        let objects = lab.objects();
        assert_eq!(objects.rule(80).id(), rule);
        assert_eq!(objects.rule(80).text("protocol"), if proxied { "tcp-proxy" } else { "tcp" });
        assert_eq!(lab.reach(CLIENT, "203.0.113.60", 80), all_nodes());
    }
}

#[test]
fn a_node_port_change_recreates_that_rule_only() {
    let mut lab = Setup::standard().start();
    let web = two_ports(&mut lab);
    let other = lab.objects().rule(443).id();
    lab.edit(&web, |raw| raw.ports[0].node_port = Some(30180));
    let (planned, _) = lab.plan(&web);
    let expected = ["deleteLoadBalancerRule", "createLoadBalancerRule", "assignToLoadBalancerRule"];
    assert_eq!(commands(&planned), expected);
    let cut = planned.plan.steps.iter().any(|step| step.disruption == Disruption::Cut);
    assert!(cut, "{:?}", steps(&planned));
    lab.settle(&web);
    assert_eq!(lab.objects().rule(443).id(), other);
    assert_eq!(lab.objects().rule(80).text("privateport"), "30180");
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn tcp_and_udp_of_one_number() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |raw| raw.ports.push(port("quic", "UDP", 80, 30081)));
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    let planned = report_of_nothing(&lab, &web);
    assert_eq!(codes(&planned).len(), 1);
    assert!(planned.report.is_blocked());
}

#[test]
fn the_statistics_port_of_the_router_is_refused() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |raw| raw.ports.push(port("alt", "TCP", 8081, 30081)));
    lab.settle(&web);
    assert_eq!(codes(&report_of_nothing(&lab, &web)), ["PortReserved"]);
}
