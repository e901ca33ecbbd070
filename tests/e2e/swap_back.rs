//! Swap back: the Go controller finds what it reads as it would have left it, also on Services that
//! we created and changed. What it reads stands in its documentation: rule names, algorithm,
//! protocol and ports, its one annotation, the finalizer, the status, and an opening for each port.
//!
//! It is not so with two or more source ranges: each has a firewall rule of its own, and the Go
//! controller, which makes one of them all, replaces them once.

use std::collections::BTreeSet;

use ccm_simulator::World;
use ccm_tests::lab::annotation;
use ccm_tests::objects::Object;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use serde_json::{Value, json};

use crate::harness::eventually::eventually;
use crate::harness::objects::{PATIENCE, ingress, is_held};
use crate::harness::process::Signal;
use crate::harness::scene::Scene;

/// An address that somebody allocated before.
const USERS: &str = "203.0.113.60";
/// An address that nobody has.
const FREE: &str = "203.0.113.61";

/// A Service as the Go controller would have left it.
struct Expected {
    name: &'static str,
    /// Whether the address goes with the Service.
    verdict: &'static str,
    protocol: &'static str,
    algorithm: &'static str,
    /// The list of a rule; none and everybody are the same.
    rule_sources: &'static str,
    /// The one firewall rule of each port, on an isolated network.
    firewall_sources: &'static str,
}

impl Expected {
    const fn plain(name: &'static str) -> Self {
        Self {
            name,
            verdict: "true",
            protocol: "tcp",
            algorithm: "roundrobin",
            rule_sources: "0.0.0.0/0",
            firewall_sources: "0.0.0.0/0",
        }
    }
}

/// How a Service is opened.
#[derive(Clone, Copy)]
enum Opened {
    ByFirewall,
    ByAclItem,
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_swap_back_to_the_go_controller() {
    let ranges = json!({ "spec": { "loadBalancerSourceRanges": ["198.51.100.0/24"] } });
    let expected = [
        Expected::plain("plain"),
        Expected::plain("named"),
        Expected::plain("pinned"),
        Expected::plain("affine"),
        Expected { protocol: "tcp-proxy", ..Expected::plain("proxy") },
        Expected { firewall_sources: "198.51.100.0/24", ..Expected::plain("ranges") },
    ];
    swap_back("go-1.2.0", Opened::ByFirewall, ("ranges", ranges), &expected).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_swap_back_to_the_go_controller_on_a_tier() {
    let cidrs = annotated("source-cidrs", "10.0.0.0/8");
    let expected = [
        Expected::plain("plain"),
        Expected::plain("pinned"),
        Expected::plain("affine"),
        Expected { rule_sources: "10.0.0.0/8", ..Expected::plain("cidrs") },
    ];
    swap_back("go-1.2.0-vpc", Opened::ByAclItem, ("cidrs", cidrs), &expected).await;
}

/// Some Services of a state are changed, one of them by a patch of the caller's, and others are made.
/// Then all are as the Go controller would have left them.
async fn swap_back(
    state: &str,
    opened: Opened,
    (patched, patch): (&str, Value),
    found: &[Expected],
) {
    let scene = Scene::left_by(state, with_an_address_of_somebody).await;
    let mut controller = scene.controller("controller", &[]);
    change_some(&scene).await;
    create_some(&scene).await;
    scene.objects.patch_service(patched, patch).await;
    let created = [
        Expected::plain("fresh"),
        Expected { protocol: "tcp-proxy", ..Expected::plain("fresh-proxy") },
        Expected { algorithm: "source", ..Expected::plain("fresh-affine") },
        Expected::plain("asked"),
        Expected { verdict: "false", ..Expected::plain("of-user") },
    ];
    for one in found.iter().chain(&created) {
        until_as_go_leaves_it(&scene, one, opened).await;
    }
    stop(&scene, &mut controller).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_swap_back_with_several_ranges() {
    let scene = Scene::left_by("go-1.2.0", |_| ()).await;
    let _controller = scene.controller("controller", &[]);
    let ranges = ["192.0.2.0/24", "198.51.100.0/24"];
    let spec = json!({ "loadBalancerSourceRanges": ranges });
    scene.objects.create_service("fresh", spec).await;
    let (_, address) = scene.objects.until_published("fresh").await;
    eventually("a firewall rule for each range", PATIENCE, async || {
        let objects = scene.in_cloud().only(|object| object.text("ipaddress") == address);
        let openings = objects.openings();
        let expected = ranges.map(|range| format!("80 {range}"));
        if openings == expected { Ok(()) } else { Err(format!("{openings:?}")) }
    })
    .await;
}

fn with_an_address_of_somebody(world: &mut World) {
    let tier = world.vpcs.first().and_then(|vpc| {
        let nic = world.virtual_machines.first()?.nics.first()?;
        vpc.tiers.iter().find(|tier| tier.id.as_ref() == Some(&nic.network))
    });
    let network = tier.or(world.networks.first()).expect("a network");
    let owner = world.accounts.first().expect("an account");
    let address = json!({ "address": USERS, "owner": owner.name, "network": network.name });
    world.addresses.push(serde_json::from_value(address).expect("an address"));
}

/// A port more, an affinity less.
async fn change_some(scene: &Scene) {
    let ports = [80, 443, 8080].map(|port| json!({ "name": format!("p{port}"), "port": port }));
    scene.objects.patch_service("plain", json!({ "spec": { "ports": ports } })).await;
    let affinity = json!({ "spec": { "sessionAffinity": "None", "sessionAffinityConfig": null } });
    scene.objects.patch_service("affine", affinity).await;
}

/// Services that only we know.
async fn create_some(scene: &Scene) {
    let ports = [80, 443].map(|port| json!({ "name": format!("p{port}"), "port": port }));
    scene.objects.create_service("fresh", json!({ "ports": ports })).await;
    scene.objects.create_service("fresh-proxy", json!({})).await;
    scene.objects.patch_service("fresh-proxy", annotated("proxy-protocol", "true")).await;
    let affinity = json!({ "sessionAffinity": "ClientIP" });
    scene.objects.create_service("fresh-affine", affinity).await;
    scene.objects.create_service("asked", json!({ "loadBalancerIP": FREE })).await;
    scene.objects.create_service("of-user", json!({ "loadBalancerIP": USERS })).await;
}

fn annotated(key: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { annotation(key): value } } })
}

/// Stops the controller; whoever comes next may lead at once.
async fn stop(scene: &Scene, controller: &mut crate::harness::controller::Controller) {
    controller.signal(Signal::TERM);
    assert!(controller.end().await.success(), "it was told to stop");
    let holder = scene.objects.lease_holder("cloud-controller-manager").await;
    assert_eq!(holder, Some(String::new()));
}

async fn until_as_go_leaves_it(scene: &Scene, expected: &Expected, opened: Opened) {
    let what = format!("{} as the Go controller leaves it", expected.name);
    eventually(&what, PATIENCE, async || {
        let service = scene.objects.service(expected.name).await.ok_or("no such Service")?;
        let missing = missing(scene, &service, expected, opened);
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:#?}")) }
    })
    .await;
}

/// What the Go controller would change or not find.
fn missing(scene: &Scene, service: &Service, expected: &Expected, opened: Opened) -> Vec<String> {
    let mut missing = Vec::new();
    let mut hold = |holds: bool, what: String| missing.extend((!holds).then_some(what));
    let verdict = annotation("ip-associated-by-controller");
    let verdict = service.metadata.annotations.as_ref().and_then(|all| all.get(&verdict));
    hold(verdict.is_some_and(|found| found == expected.verdict), format!("verdict: {verdict:?}"));
    hold(is_held(service), "finalizer".to_owned());

    let load_balancer = load_balancer_name(service);
    let objects = scene.in_cloud();
    let rules: Vec<&Object> = objects
        .rules()
        .into_iter()
        .filter(|rule| rule.text("name").starts_with(&load_balancer))
        .collect();
    let addresses: BTreeSet<String> = rules.iter().map(|rule| rule.text("publicip")).collect();
    hold(addresses.len() == 1, format!("one address: {addresses:?}"));
    let shown = ingress(service);
    let is_shown = expected.name == "named" || shown.iter().eq(addresses.iter());
    hold(is_shown, format!("status {shown:?}, rules on {addresses:?}"));

    let spec = service.spec.clone().expect("a spec");
    let ports = spec.ports.unwrap_or_default();
    hold(rules.len() == ports.len(), format!("a rule for each port: {rules:?}"));
    for port in &ports {
        let name = format!("{load_balancer}-{}-{}", expected.protocol, port.port);
        let rule = rules.iter().find(|rule| rule.text("name") == name);
        hold(rule.is_some(), format!("a rule {name}: {rules:?}"));
        let Some(rule) = rule else { continue };
        hold(serves(rule, port, expected), format!("rule of {}: {rule:?}", port.port));
        let is_open = match opened {
            Opened::ByFirewall => is_opened_by_firewall(scene, rule, expected),
            Opened::ByAclItem => is_opened_by_acl_item(scene, rule),
        };
        hold(is_open, format!("an opening of {}: {:#?}", port.port, scene.in_cloud()));
    }
    missing
}

/// `a` and the uid without dashes, 32 characters.
fn load_balancer_name(service: &Service) -> String {
    let uid = service.metadata.uid.as_ref().expect("a uid").replace('-', "");
    format!("a{uid}").chars().take(32).collect()
}

fn serves(rule: &Object, port: &ServicePort, expected: &Expected) -> bool {
    let sources = rule.text("cidrlist");
    let sources = if sources.is_empty() { "0.0.0.0/0" } else { &sources };
    rule.text("publicport") == port.port.to_string()
        && Some(rule.text("privateport")) == port.node_port.map(|port| port.to_string())
        && rule.text("protocol") == expected.protocol
        && rule.text("algorithm") == expected.algorithm
        && sources == expected.rule_sources
        && rule.members.len() == 3
}

/// Exactly one firewall rule on the port, for exactly the sources.
fn is_opened_by_firewall(scene: &Scene, rule: &Object, expected: &Expected) -> bool {
    let objects = scene.in_cloud();
    let on_port = objects.firewall_rules().into_iter().filter(|opening| {
        opening.text("ipaddress") == rule.text("publicip")
            && opening.text("startport") == rule.text("publicport")
    });
    let sources: Vec<String> = on_port.map(|opening| opening.text("cidrlist")).collect();
    sources == [expected.firewall_sources]
}

/// An item that lets everybody in on the port.
fn is_opened_by_acl_item(scene: &Scene, rule: &Object) -> bool {
    let port = rule.text("publicport");
    scene.in_cloud().acl_items().into_iter().any(|item| {
        ["startport", "endport"].iter().all(|field| item.text(field) == port)
            && item.text("protocol") == "tcp"
            && item.text("traffictype") == "Ingress"
            && item.text("action") == "Allow"
            && item.text("cidrlist") == "0.0.0.0/0"
    })
}
