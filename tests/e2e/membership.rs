//! Which Nodes serve, and what of a Node brings that up again (contract: appendix 8 to 12).

use ccm_simulator::faults::{Fault, FaultKind, Mishap};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::eventually::eventually;
use crate::harness::objects::PATIENCE;
use crate::harness::scene::Scene;

/// Short waits for further changes of Nodes.
const QUICK: &[&str] = &["--node-added-window=200ms", "--node-removed-window=200ms"];
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const ASSIGN: &str = "assignToLoadBalancerRule";
const REMOVE: &str = "removeFromLoadBalancerRule";

/// A Service that the first two Nodes serve; gives its address.
async fn served(scene: &Scene) -> String {
    for name in ["node-1", "node-2"] {
        scene.objects.until_initialised(name).await;
    }
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1", "node-2"]).await;
    scene.objects.until_event("web", "EnsuredLoadBalancer").await;
    address
}

async fn exclude(scene: &Scene, node: &str, value: Value) {
    scene.objects.patch_node(node, json!({ "metadata": { "labels": { EXCLUDE: value } } })).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_each_change_of_the_set_of_nodes_is_one_change_of_members() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let _controller = scene.controller("controller", QUICK);
    let address = served(&scene).await;
    let before = scene.changes().len();
    scene.objects.join("node-3").await;
    scene.until_reached(&address, 80, &["node-1", "node-2", "node-3"]).await;
    exclude(&scene, "node-1", json!("true")).await;
    scene.until_reached(&address, 80, &["node-2", "node-3"]).await;
    exclude(&scene, "node-1", json!("false")).await;
    scene.until_reached(&address, 80, &["node-1", "node-2", "node-3"]).await;
    exclude(&scene, "node-1", json!("")).await;
    scene.until_reached(&address, 80, &["node-2", "node-3"]).await;
    // Excluded as before, so the next change is the first one that is seen again.
    exclude(&scene, "node-1", json!("certainly")).await;
    scene.objects.delete_node("node-2").await;
    scene.until_reached(&address, 80, &["node-3"]).await;
    // No machine is called so: its provider id says which it is.
    scene.objects.join("elsewhere").await;
    let machine = "external-cloudstack://00000000-0000-4000-8000-000000000004";
    scene.objects.patch_node("elsewhere", json!({ "spec": { "providerID": machine } })).await;
    scene.until_reached(&address, 80, &["node-3", "node-4"]).await;
    let changes = scene.changes().split_off(before);
    assert_eq!(changes, [ASSIGN, REMOVE, ASSIGN, REMOVE, REMOVE, ASSIGN]);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_what_load_balancers_do_not_look_at_changes_no_member() {
    let scene = Scene::with_nodes(&["node-1", "node-2", "node-3"]).await;
    let _controller = scene.controller("controller", QUICK);
    scene.objects.until_initialised("node-3").await;
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1", "node-2", "node-3"]).await;
    scene.objects.until_event("web", "EnsuredLoadBalancer").await;
    let before = scene.changes().len();
    scene.objects.set_ready("node-1", "Unknown").await;
    scene.objects.patch_node("node-1", json!({ "metadata": { "labels": { "a": "b" } } })).await;
    scene.objects.patch_node("node-2", json!({ "spec": { "unschedulable": true } })).await;
    let draining = json!({ "spec": { "taints": [
        { "key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule" }] } });
    scene.objects.patch_node("node-3", draining).await;
    // The watch tells of them in this order, so whoever knows of this one has seen all others. It
    // takes the draining one along.
    scene.objects.join("node-4").await;
    scene.until_reached(&address, 80, &["node-1", "node-2", "node-4"]).await;
    assert_eq!(scene.changes().split_off(before), [ASSIGN, REMOVE]);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_service_without_nodes_says_so_and_is_served_when_they_come() {
    let scene = Scene::standard().await;
    let mut controller = scene.controller("controller", QUICK);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_event("web", "UnAvailableLoadBalancer").await;
    scene.objects.join("node-1").await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1"]).await;
    exclude(&scene, "node-1", json!("true")).await;
    scene.until_reached(&address, 80, &[]).await;
    exclude(&scene, "node-1", Value::Null).await;
    scene.until_reached(&address, 80, &["node-1"]).await;
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_members_that_can_not_be_changed_are_told_and_tried_again() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let _controller = scene.controller("controller", QUICK);
    let address = served(&scene).await;
    let refusal = Mishap::Error { code: 530, text: "Failed to assign".to_owned() };
    let fault = Fault::on(ASSIGN, FaultKind::Before(refusal)).times(1);
    scene.cloud.with(|simulator| simulator.inject(fault));
    scene.objects.join("node-3").await;
    let message = scene.objects.until_event("web", "UpdateLoadBalancerFailed").await;
    assert!(message.contains("node-3") && message.contains("Failed to assign"), "{message}");
    scene.until_reached(&address, 80, &["node-1", "node-2", "node-3"]).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_members_of_a_rule_that_is_gone_are_no_failure() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let _controller = scene.controller("controller", QUICK);
    let address = served(&scene).await;
    let rule = scene.rule(&address, 80).expect("a rule").id();
    scene.cloud.with(|simulator| {
        simulator.call("prod", "deleteLoadBalancerRule", &[("id", &rule)], Timestamp::now())
    });
    eventually("the rule is gone", PATIENCE, async || {
        scene.rule(&address, 80).map_or(Ok(()), |found| Err(format!("{found:?}")))
    })
    .await;
    scene.objects.join("node-3").await;
    scene.until_reached(&address, 80, &["node-1", "node-2", "node-3"]).await;
    let reasons = scene.objects.reasons("web").await;
    assert!(!reasons.iter().any(|reason| reason.ends_with("Failed")), "{reasons:?}");
}
