//! Cases 10: what other controllers left, and restarts.

use ccm_core::ids::ServiceKey;
use ccm_core::parse::raw::RawService;
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup, port};

use crate::support::{
    CLIENT, USERS, all_nodes, allocated, annotate, assert_nothing_planned, codes, left_by_go,
    load_balancer_name, opening, report_of_nothing, rule, served_by_go, status, verdict,
};

type Shape = (&'static str, fn(&mut RawService));

/// Every shape that a Service in `iso-1` can have; each has node ports of its own.
const SHAPES: &[Shape] = &[
    ("plain", |_| ()),
    ("ports", |raw| raw.ports.push(port("https", "TCP", 443, 31443))),
    ("proxy", |raw| annotate(raw, "proxy-protocol", "true")),
    ("ranges", |raw| raw.source_ranges = vec!["198.51.100.0/24".into(), "192.0.2.0/24".into()]),
    ("listed", |raw| annotate(raw, "source-cidrs", "198.51.100.0/24,192.0.2.7/32")),
    ("named", |raw| annotate(raw, "hostname", "lb.example.test")),
    ("affine", |raw| raw.session_affinity = Some("ClientIP".into())),
    ("asked", |raw| raw.load_balancer_ip = Some(USERS.into())),
    ("asked-free", |raw| raw.load_balancer_ip = Some("203.0.113.30".into())),
    ("shared", |raw| {
        raw.load_balancer_ip = Some("203.0.113.30".into());
        raw.ports[0].port = 8443;
    }),
    ("udp-too", |raw| raw.ports.push(port("dns", "UDP", 5353, 31353))),
];

fn restarts_in_silence(lab: &mut Lab, keys: &[ServiceKey]) {
    let calls = lab.changing_calls().len();
    let objects = lab.objects();
    let revision = lab.cluster.with(|cluster| cluster.revision());
    for _ in 0..2 {
        lab.restart();
        for key in keys {
            lab.settle(key);
        }
    }
    assert_eq!(lab.changing_calls().len(), calls);
    assert_eq!(lab.objects().changes_since(&objects), Vec::<String>::new());
    assert_eq!(lab.cluster.with(|cluster| cluster.revision()), revision);
}

#[test]
fn c079_a_restart_changes_nothing() {
    let mut lab = Setup::standard().start();
    let before = lab.objects().addresses();
    let keys: Vec<_> = SHAPES
        .iter()
        .enumerate()
        .map(|(number, (name, shape))| {
            let key = lab.create(name, |raw| {
                raw.ports[0].node_port = Some(32000 + i32::try_from(number).expect("few"));
                shape(raw);
            });
            lab.settle(&key);
            key
        })
        .collect();
    for key in &keys {
        lab.settle(key);
    }
    restarts_in_silence(&mut lab, &keys);
    for key in &keys {
        lab.delete(key);
        lab.settle(key);
    }
    assert_eq!(lab.objects().addresses(), before);
    assert!(lab.objects().rules().is_empty() && lab.objects().firewall_rules().is_empty());
}

#[test]
fn c079_a_restart_changes_nothing_in_tiers_and_projects() {
    let tiers = [
        Setup::standard().nodes(&["tier1-1", "tier1-2"]),
        Setup::standard().nodes(&["allow-1"]),
        Setup::standard().nodes(&["none-1"]),
        crate::project::tier_setup(),
        Setup::standard().project("member", "web").nodes(&["web-1", "web-2"]),
    ];
    for setup in tiers {
        let mut lab = setup.start();
        let web = lab.create("web", |_| ());
        lab.recover(&web);
        let listed = lab.create("listed", |raw| {
            raw.ports[0].node_port = Some(30081);
            annotate(raw, "source-cidrs", "198.51.100.0/24");
        });
        lab.recover(&listed);
        restarts_in_silence(&mut lab, &[web, listed]);
    }
}

/// How the Go controllers name and shape things.
struct Left {
    /// `<lb>-<port>` instead of `<lb>-<protocol>-<port>`.
    in_tree: bool,
    /// cidrlist of an unrestricted rule.
    everybody: Option<&'static str>,
}

/// Lays down a Service of some shape as a Go controller does. Gives its address.
fn lay_down(setup: &mut Setup, left: &Left, number: usize, name: &str, raw: &RawService) -> String {
    let proxied = raw.annotations.values().any(|value| value == "true");
    let asked = raw.load_balancer_ip.clone();
    let ip = asked.clone().unwrap_or_else(|| format!("203.0.113.{}", 100 + number));
    let known = setup.world.addresses.iter().any(|found| found.address.to_string() == ip);
    if !known {
        setup.world.addresses.push(allocated(&ip));
    }
    let list = raw.annotations.values().find(|value| value.contains('/'));
    for wanted in raw.ports.iter().filter(|port| port.protocol.as_deref() == Some("TCP")) {
        let protocol = if proxied { "tcp-proxy" } else { "tcp" };
        let public = u16::try_from(wanted.port).expect("a port");
        let name = if left.in_tree {
            format!("{}-{public}", load_balancer_name(name))
        } else {
            format!("{}-{protocol}-{public}", load_balancer_name(name))
        };
        let everybody = left.everybody.map(|cidr| vec![cidr.to_owned()]);
        let cidrs = list.map(|list| list.split(',').map(str::to_owned).collect());
        setup.world.rules.push(world::Rule {
            private_port: u16::try_from(wanted.node_port.unwrap_or(0)).expect("a port"),
            protocol: Some(protocol.to_owned()),
            algorithm: if raw.session_affinity.is_some() { "source" } else { "roundrobin" }.into(),
            cidrs: cidrs.or(everybody),
            members: ["node-1", "node-2", "node-3"].map(str::to_owned).to_vec(),
            ..rule(&name, &ip, public)
        });
        let ranges: Vec<&str> = raw.source_ranges.iter().map(String::as_str).collect();
        let ranges = if ranges.is_empty() { vec!["0.0.0.0/0"] } else { ranges };
        setup.world.firewall_rules.push(opening(&ip, public, &ranges));
    }
    ip
}

#[test]
fn c079_a_swap_of_the_image_changes_nothing() {
    for (in_tree, everybody) in
        [(false, Some("0.0.0.0/0")), (false, None), (true, None), (true, Some("0.0.0.0/0"))]
    {
        let left = Left { in_tree, everybody };
        let mut setup = Setup::standard();
        let mut raws = Vec::new();
        for (number, (name, shape)) in SHAPES.iter().enumerate() {
            let mut raw = ccm_tests::lab::web(name);
            raw.ports[0].node_port = Some(32000 + i32::try_from(number).expect("few"));
            shape(&mut raw);
            let ip = lay_down(&mut setup, &left, number, name, &raw);
            let users = raw.load_balancer_ip.as_deref() == Some(USERS);
            served_by_go(&mut raw, &ip);
            annotate(&mut raw, "ip-associated-by-controller", if users { "false" } else { "true" });
            if let Some(hostname) = raw.annotations.values().find(|v| v.contains("example.test")) {
                raw.ingress[0].hostname = Some(hostname.clone());
                raw.ingress[0].ip = None;
                raw.ingress[0].ip_mode = None;
            }
            raws.push((*name, raw));
        }
        let mut lab = setup.start();
        let objects = lab.objects();
        let keys: Vec<_> = raws
            .into_iter()
            .map(|(name, raw)| {
                lab.create(name, |new| {
                    let (uid, created) = (new.uid.clone(), new.creation_timestamp);
                    *new = RawService { uid, creation_timestamp: created, ..raw };
                })
            })
            .collect();
        for key in &keys {
            lab.settle(key);
            let mode = if key.name == "proxy" { "Proxy" } else { "VIP" };
            let shown = status(&lab, key).remove(0);
            assert!(shown.ends_with(mode) || key.name == "named", "{key}: {shown}");
        }
        assert_eq!(lab.changing_calls(), Vec::<&str>::new());
        assert_eq!(lab.objects().changes_since(&objects), Vec::<String>::new());
        restarts_in_silence(&mut lab, &keys);
        for key in &keys {
            lab.delete(key);
            lab.settle(key);
        }
        let objects = lab.objects();
        assert!(objects.rules().is_empty() && objects.firewall_rules().is_empty());
        let stays = Setup::standard().start().objects().addresses();
        assert_eq!(objects.addresses(), stays);
    }
}

/// A tier with the rule of `web` that the Go controller made, and maybe one of somebody else's.
pub fn tier_left_by_go(others: bool) -> Lab {
    let mut setup = Setup::standard().nodes(&["tier1-1", "tier1-2"]);
    setup.world.addresses.push(world::Address {
        network: Some("tier-1".to_owned()),
        vpc: Some("vpc-1".to_owned()),
        ..allocated("203.0.113.60")
    });
    setup.world.rules.push(world::Rule {
        private_port: 30080,
        members: ["tier1-1", "tier1-2"].map(str::to_owned).to_vec(),
        ..rule(&format!("{}-tcp-80", load_balancer_name("web")), "203.0.113.60", 80)
    });
    if others {
        setup.world.addresses.push(world::Address {
            network: Some("tier-2".to_owned()),
            vpc: Some("vpc-1".to_owned()),
            ..allocated("203.0.113.61")
        });
        setup.world.rules.push(rule("somebody-elses", "203.0.113.61", 80));
    }
    setup.world.vpcs[0].acl_lists[0].items.push(world::AclItem {
        number: None,
        protocol: "tcp".to_owned(),
        start_port: Some(80),
        end_port: None,
        cidrs: vec!["0.0.0.0/0".to_owned()],
        traffic: world::TrafficType::Ingress,
        action: world::AclAction::Allow,
        reason: None,
        id: None,
    });
    setup.start()
}

#[test]
fn c079_a_tier_that_the_go_controller_served() {
    for others in [false, true] {
        let mut lab = tier_left_by_go(others);
        let web = lab.create("web", |raw| served_by_go(raw, "203.0.113.60"));
        lab.settle(&web);
        assert_eq!(lab.changing_calls(), Vec::<&str>::new());
        assert_eq!(verdict(&lab, &web).as_deref(), Some("true"));
        restarts_in_silence(&mut lab, std::slice::from_ref(&web));
        lab.delete(&web);
        lab.settle(&web);
        let objects = lab.objects();
        assert_eq!(objects.acl_items().len(), usize::from(others), "shared by {others}");
        assert_eq!(objects.rules().len(), usize::from(others));
        assert!(!objects.addresses().contains(&"203.0.113.60".to_owned()));
    }
}

#[test]
fn c079_killed_half_way_through_the_deletion_of_what_go_left() {
    for died_after in 0..8 {
        let mut lab = left_by_go(Setup::standard(), "web", allocated("203.0.113.60")).start();
        let web = lab.create("web", |raw| served_by_go(raw, "203.0.113.60"));
        lab.delete(&web);
        let planned = crate::support::prefix(&lab.plan(&web).0, died_after);
        assert!(lab.execute(&planned).is_success());
        lab.restart();
        lab.recover(&web);
        assert_eq!(lab.service(&web), None);
        let left = lab.objects();
        assert!(left.rules().is_empty() && left.firewall_rules().is_empty());
        assert!(!left.addresses().contains(&"203.0.113.60".to_owned()), "died after {died_after}");
    }
}

#[test]
fn an_adopted_service_is_changed_like_any_other() {
    let mut lab = left_by_go(Setup::standard(), "web", allocated("203.0.113.60")).start();
    let web = lab.create("web", |raw| {
        served_by_go(raw, "203.0.113.60");
        raw.ports.push(port("https", "TCP", 443, 30443));
        annotate(raw, "proxy-protocol", "true");
    });
    let rule = lab.objects().rule(80).id();
    lab.settle(&web);
    assert_eq!(lab.objects().rule(80).id(), rule);
    assert_eq!(lab.reach(CLIENT, "203.0.113.60", 80), all_nodes());
    assert_eq!(lab.reach(CLIENT, "203.0.113.60", 443), all_nodes());
    assert!(codes(&report_of_nothing(&lab, &web)).is_empty());
    assert_nothing_planned(&lab, &web);
}
