//! The image swap: what another controller left in both systems, its grants, and the real binary in
//! its place. Then every Service is changed, and in the end deleted.

use std::collections::BTreeSet;

use ccm_simulator::World;
use ccm_tests::lab::annotation;
use ccm_tests::objects::{Object, Objects as CloudObjects};
use ccm_tests::recorded;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::harness::audit::Request;
use crate::harness::controller::Controller;
use crate::harness::eventually::eventually;
use crate::harness::objects::{PATIENCE, ingress};
use crate::harness::scene::Scene;

/// Looks often for what others changed, so that a test sees several rounds.
const ROUNDS: &[&str] = &["--drift-interval=1s"];

/// A source within the one range that `ranges` keeps, and one within the range that it loses.
const KEPT: &str = "198.51.100.7";
const LOST: &str = "192.0.2.7";

/// What another controller left.
struct Left {
    /// Folder of `fixtures/adoption`.
    state: &'static str,
    /// What is different in CloudStack.
    shape: fn(&mut World),
    /// The Services of which the status is written.
    published: &'static [&'static str],
    /// Addresses of users: they stay.
    of_users: &'static [&'static str],
    /// Whether `loadBalancerSourceRanges` close something: no ACL item knows them.
    has_firewall: bool,
}

const GO: Left = Left {
    state: "go-1.2.0",
    shape: |_| (),
    published: &["proxy"],
    of_users: &[],
    has_firewall: true,
};

/// Its rules are called `<lb>-<port>`.
const IN_TREE: Left = Left { shape: without_protocols, ..GO };

const FORK: Left = Left { state: "fork-1.8.1", published: &[], of_users: &["203.0.113.120"], ..GO };

const GO_TIER: Left = Left { state: "go-1.2.0-vpc", published: &[], has_firewall: false, ..GO };

const GO_DEFAULT_ALLOW: Left = Left { state: "go-1.2.0-vpc-default-allow", ..GO_TIER };

fn without_protocols(world: &mut World) {
    for rule in &mut world.rules {
        let (load_balancer, _) = rule.name.split_once('-').expect("a name of the Go controller");
        rule.name = format!("{load_balancer}-{}", rule.port);
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_swap_from_the_go_controller() {
    swap(&GO).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_swap_from_the_in_tree_provider() {
    swap(&IN_TREE).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_swap_from_the_fork() {
    swap(&FORK).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_swap_from_the_go_controller_on_a_tier() {
    swap(&GO_TIER).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_swap_from_the_go_controller_on_a_tier_that_allows_all() {
    swap(&GO_DEFAULT_ALLOW).await;
}

async fn swap(left: &Left) {
    let scene = Scene::left_by(left.state, left.shape).await;
    let before = scene.in_cloud();
    let names = services(left.state);
    let mut controller = scene.controller("controller", ROUNDS);
    until_looked_after(&scene, &mut controller, &names).await;
    assert_eq!(scene.changes(), Vec::<&str>::new());
    assert_eq!(scene.in_cloud().changes_since(&before), Vec::<String>::new());
    assert_only_records(&scene, left);
    assert_only_told(&scene, &names, left).await;
    assert_nothing_refused(&scene);

    for name in &names {
        change(&scene, left, name).await;
    }
    for name in &names {
        scene.objects.delete_service(name).await;
    }
    for name in &names {
        scene.objects.until_gone(name).await;
    }
    let of_others = before.only(|object| is_of_others(object, left));
    assert!(!of_others.addresses().is_empty(), "at least the address of the network");
    assert_same(&scene.in_cloud(), &of_others);
    assert_nothing_refused(&scene);
    controller.assert_lives();
}

/// Names of the Services of a state.
fn services(state: &str) -> Vec<String> {
    let objects = recorded::objects(state, "services.json", "Service").into_iter();
    let load_balancers = objects.filter(|object| object["spec"]["type"] == "LoadBalancer");
    let name = |object: Value| object["metadata"]["name"].as_str().expect("a name").to_owned();
    load_balancers.map(name).collect()
}

/// Waits until every Service has a record, and for two drift rounds after that.
async fn until_looked_after(scene: &Scene, controller: &mut Controller, names: &[String]) {
    let record = annotation("record");
    for name in names {
        eventually(&format!("a record on {name}"), PATIENCE, async || {
            controller.assert_lives();
            let service = scene.objects.service(name).await.ok_or("no such Service")?;
            let annotations = service.metadata.annotations.unwrap_or_default();
            annotations.contains_key(&record).then_some(()).ok_or(format!("{annotations:?}"))
        })
        .await;
    }
    let rounds = |controller: &Controller| controller.log().matches("drift round").count();
    let begun = rounds(controller);
    eventually("two more drift rounds", PATIENCE, async || {
        let more = rounds(controller) - begun;
        // The one that the third ends.
        if more >= 3 { Ok(()) } else { Err(format!("{more} more")) }
    })
    .await;
}

/// In Kubernetes: one patch for each Service, with our records and, where it is wrong, the ipMode;
/// and addresses that Nodes lacked.
fn assert_only_records(scene: &Scene, left: &Left) {
    let mut patched = BTreeSet::new();
    let is_event = |request: &Request| request.resource() == "events";
    let writes = scene.writes().into_iter().filter(|request| !is_event(request));
    for Request { verb, body, object, .. } in writes {
        let object = object.expect("an object");
        let what = format!("{verb} {object:?} {body}");
        assert_eq!((verb.as_str(), object.subresource.as_str()), ("patch", "status"), "{what}");
        assert!(patched.insert((object.resource.clone(), object.name.clone())), "again: {what}");
        match object.resource.as_str() {
            "services" => assert_is_record(&body, left.published.contains(&object.name.as_str())),
            "nodes" => assert_eq!(keys(&body["status"]), ["addresses"], "{what}"),
            _ => panic!("{what}"),
        }
    }
    let found: BTreeSet<String> = patched
        .into_iter()
        .filter(|(resource, _)| resource == "services")
        .map(|(_, name)| name)
        .collect();
    assert_eq!(found, services(left.state).into_iter().collect());
}

/// Nothing is told but that the ranges of a Service on a tier close nothing, which nobody said before.
async fn assert_only_told(scene: &Scene, names: &[String], left: &Left) {
    for name in names {
        let mut told = scene.objects.reasons(name).await;
        // Of the API server itself, which did not make these Services.
        told.retain(|reason| reason != "ClusterIPNotAllocated");
        let closes_nothing = name == "ranges" && !left.has_firewall;
        let expected: &[&str] = if closes_nothing { &["RangesWithoutEffect"] } else { &[] };
        assert_eq!(told, expected, "{name}");
    }
}

fn assert_is_record(patch: &Value, is_published: bool) {
    let written = ["record", "ip-associated-by-controller"].map(annotation);
    for key in keys(&patch["metadata"]["annotations"]) {
        assert!(written.contains(&key), "{patch}");
    }
    assert_eq!(patch["metadata"]["finalizers"], Value::Null, "it has it: {patch}");
    if is_published {
        assert_eq!(patch["status"]["loadBalancer"]["ingress"][0]["ipMode"], "Proxy", "{patch}");
    } else {
        assert_eq!(patch["status"], Value::Null, "{patch}");
    }
}

fn keys(object: &Value) -> Vec<String> {
    object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

fn assert_nothing_refused(scene: &Scene) {
    let refused = scene.requests().into_iter().filter(|request| request.code() == 403);
    let refused: Vec<String> =
        refused.map(|request| format!("{} {}", request.verb, request.uri)).collect();
    assert_eq!(refused, Vec::<String>::new(), "the grants of the Go controller are enough");
}

/// Changes a Service as its name suggests, and waits until it shows.
async fn change(scene: &Scene, left: &Left, name: &str) {
    let service = scene.objects.service(name).await.expect("the Service");
    let address = address_of(scene, &service);
    let rule_of = |port| scene.rule(&address, port).map(|rule| rule.id());
    let (patch, port): (Value, u16) = match name {
        "plain" => (ports(&[80, 443, 8080]), 8080),
        "affine" => {
            (json!({ "spec": { "sessionAffinity": "None", "sessionAffinityConfig": null } }), 80)
        }
        "proxy" => (annotated("proxy-protocol", &Value::Null), 443),
        "ranges" => (json!({ "spec": { "loadBalancerSourceRanges": ["198.51.100.0/24"] } }), 80),
        "named" => (annotated("hostname", &json!("other.example.test")), 80),
        "pinned" => (ports(&[9443]), 9443),
        "cidrs" => (annotated("source-cidrs", &json!("10.0.0.0/8")), 9000),
        other => panic!("no change for {other}"),
    };
    let before = rule_of(port);
    scene.objects.patch_service(name, patch).await;
    eventually(&format!("the change of {name}"), PATIENCE, async || {
        let service = scene.objects.service(name).await.ok_or("no such Service")?;
        let rule = scene.rule(&address, port).ok_or("no rule")?;
        let seen = format!("{rule:?} {:?}", service.status);
        shows_change(scene, left, name, &rule, &service).then_some(()).ok_or(seen)
    })
    .await;
    if before.is_some() {
        assert_eq!(rule_of(port), before, "{name} keeps its rule");
    }
}

fn shows_change(scene: &Scene, left: &Left, name: &str, rule: &Object, service: &Service) -> bool {
    let address = rule.text("publicip");
    let answers = |port| scene.reach(&address, port).len() == 3;
    match name {
        "plain" => [80, 443, 8080].into_iter().all(answers),
        "affine" => rule.text("algorithm") == "roundrobin" && answers(80),
        "proxy" => rule.text("protocol") == "tcp" && answers(443),
        "ranges" => {
            let from = |source| !scene.reach_from(source, &address, 80).is_empty();
            from(KEPT) && from(LOST) != left.has_firewall
        }
        "named" => ingress(service) == ["other.example.test"],
        "pinned" => answers(9443) && scene.rule(&address, 8443).is_none(),
        "cidrs" => rule.text("cidrlist") == "10.0.0.0/8",
        other => panic!("no change for {other}"),
    }
}

/// The address of a Service, also where its status shows a name.
fn address_of(scene: &Scene, service: &Service) -> String {
    let record =
        service.metadata.annotations.as_ref().and_then(|all| all.get(&annotation("record")));
    let record: Value = serde_json::from_str(record.expect("a record")).expect("JSON");
    let id = record["addresses"][0]["id"].as_str().expect("an address");
    let objects = scene.in_cloud();
    let address = objects.iter().find(|object| object.id() == id).expect("it is there");
    address.text("ipaddress")
}

fn ports(ports: &[u16]) -> Value {
    let port = |port: &u16| json!({ "name": format!("p{port}-tcp"), "port": port });
    json!({ "spec": { "ports": ports.iter().map(port).collect::<Vec<_>>() } })
}

fn annotated(key: &str, value: &Value) -> Value {
    json!({ "metadata": { "annotations": { annotation(key): value } } })
}

/// Whether an object is none of the controller's, or a user's address.
fn is_of_others(object: &Object, left: &Left) -> bool {
    match object.list {
        "listPublicIpAddresses" => {
            object.text("issourcenat") == "true"
                || left.of_users.contains(&object.text("ipaddress").as_str())
        }
        "listNetworkACLs" => {
            object.text("aclname").starts_with("default_")
                || object.text("reason").starts_with("by hand")
        }
        _ => false,
    }
}

/// The same objects; whether an address still has rules is no matter of ownership.
fn assert_same(found: &CloudObjects, expected: &CloudObjects) {
    let ids =
        |objects: &CloudObjects| -> BTreeSet<String> { objects.iter().map(Object::id).collect() };
    assert_eq!(ids(found), ids(expected), "{:#?}", found.changes_since(expected));
}
