//! Nodes: from their first look at CloudStack to a machine that stops (contract: appendix 13 to 16).

use ccm_simulator::World;
use ccm_simulator::world::Nic;
use ccm_tests::lab::fixture;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::harness::audit::Request;
use crate::harness::eventually::eventually;
use crate::harness::objects::{PATIENCE, SHUTDOWN, UNINITIALIZED, has_taint};
use crate::harness::scene::Scene;

/// Quick looks at Nodes that are not ready.
const QUICK: &[&str] = &["--node-monitor-period=500ms"];

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_node_is_initialised_from_its_machine() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let _controller = scene.controller("controller", &[]);
    let node = scene.objects.until_initialised("node-1").await;
    let provider = node.spec.and_then(|spec| spec.provider_id).unwrap_or_default();
    assert_eq!(provider, "external-cloudstack://00000000-0000-4000-8000-000000000001");
    let labels = node.metadata.labels.unwrap_or_default();
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "medium"),
        ("beta.kubernetes.io/instance-type", "medium"),
        ("topology.kubernetes.io/zone", "zone-1"),
        ("failure-domain.beta.kubernetes.io/zone", "zone-1"),
        ("topology.kubernetes.io/region", "zone-1"),
        ("failure-domain.beta.kubernetes.io/region", "zone-1"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}: {labels:?}");
    }
    let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
    let addresses: Vec<(&str, &str)> =
        addresses.iter().map(|entry| (entry.type_.as_str(), entry.address.as_str())).collect();
    assert_eq!(addresses, [("InternalIP", "10.1.1.11"), ("Hostname", "node-1")]);
    scene.objects.until_event("node-1", "Synced").await;
    // Workloads may come as soon as the taint is gone, so everything else is there by then.
    let is_patch = |request: &Request| request.resource().starts_with("nodes") && request.writes();
    let writes: Vec<String> =
        scene.requests().into_iter().filter(is_patch).map(|request| request.resource()).collect();
    assert_eq!(writes, ["nodes/status", "nodes"]);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_node_without_a_machine_waits_for_one() {
    let scene = Scene::with_nodes(&["late", "node-1"]).await;
    let _controller = scene.controller("controller", &[]);
    // The other one shows that there was a look.
    scene.objects.until_initialised("node-1").await;
    let late = scene.objects.node("late").await.expect("the Node");
    assert!(has_taint(&late, UNINITIALIZED));
    scene.cloud.with(|simulator| simulator.rename_vm("node-4", "late").expect("a machine"));
    let late = scene.objects.until_initialised("late").await;
    let provider = late.spec.and_then(|spec| spec.provider_id).unwrap_or_default();
    assert!(provider.ends_with("000000000004"), "{provider}");
}

/// The addresses of a Node with their types, in order.
fn addresses(node: Node) -> Vec<String> {
    let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
    addresses.into_iter().map(|entry| format!("{} {}", entry.type_, entry.address)).collect()
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_addresses_are_those_that_kubelet_was_given_or_the_node_waits() {
    let mut world = World::load(&fixture("worlds/standard.yaml")).expect("a world");
    world.cluster_id = None;
    for (number, machine) in world.virtual_machines.iter_mut().take(4).enumerate() {
        let last = 100 + u8::try_from(number).expect("few");
        let mut second: Nic = machine.nics[0].clone();
        "iso-2".clone_into(&mut second.network);
        second.address = [10, 1, 2, last].into();
        let ip6 = json!(format!("fd00::{}", number + 1));
        machine.nics[0].extra = [("ip6address".to_owned(), ip6)].into_iter().collect();
        machine.nics.push(second);
    }
    let scene = Scene::new(world).await;
    let provided = "alpha.kubernetes.io/provided-node-ip";
    let given = [
        ("node-1", "10.1.2.100"),
        ("node-2", "fd00::2,10.1.1.12"),
        ("node-3", "10.9.9.9"),
        ("node-4", "10.1.1.14,10.1.2.103"),
    ];
    for (name, value) in given {
        scene.objects.join(name).await;
        let annotations = json!({ "metadata": { "annotations": { provided: value } } });
        scene.objects.patch_node(name, annotations).await;
    }
    let _controller = scene.controller("controller", &[]);
    let single = scene.objects.until_initialised("node-1").await;
    assert_eq!(addresses(single), ["InternalIP 10.1.2.100", "Hostname node-1"]);
    let dual = scene.objects.until_initialised("node-2").await;
    let both = ["InternalIP fd00::2", "InternalIP 10.1.1.12", "Hostname node-2"];
    assert_eq!(addresses(dual), both);
    // Addresses of other types stay: node-4 has a public one.
    let waiting = [
        ("node-3", "10.1.1.13", None),
        ("node-4", "10.1.1.14", Some("ExternalIP 203.0.113.52".to_owned())),
    ];
    for (name, right, external) in waiting {
        let node = scene.objects.node(name).await.expect("the Node");
        assert!(has_taint(&node, UNINITIALIZED), "{node:?}");
        let annotations = json!({ "metadata": { "annotations": { provided: right } } });
        scene.objects.patch_node(name, annotations).await;
        let node = scene.objects.until_initialised(name).await;
        let internal = Some(format!("InternalIP {right}"));
        let all = [internal, external, Some(format!("Hostname {name}"))].into_iter().flatten();
        assert_eq!(addresses(node), all.collect::<Vec<_>>());
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_stopped_machine_taints_its_node_until_it_is_ready_again() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let _controller = scene.controller("controller", QUICK);
    scene.objects.until_initialised("node-1").await;
    scene.objects.until_initialised("node-2").await;
    scene.cloud.with(|simulator| simulator.stop_vm("node-1").expect("a machine"));
    // One that runs and is not ready has another trouble than a machine that stopped.
    scene.objects.set_ready("node-2", "Unknown").await;
    scene.objects.set_ready("node-1", "Unknown").await;
    let is_shut_down = |node: &_| has_taint(node, SHUTDOWN);
    scene.objects.until_node("node-1", "is shut down", is_shut_down).await;
    assert!(!has_taint(&scene.objects.node("node-2").await.expect("the Node"), SHUTDOWN));

    scene.cloud.with(|simulator| simulator.start_vm("node-1").expect("a machine"));
    scene.objects.set_ready("node-1", "True").await;
    scene.objects.until_node("node-1", "is back", |node| !is_shut_down(node)).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_no_answer_from_cloudstack_says_nothing_about_a_node() {
    let mut scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let mut controller = scene.controller("controller", QUICK);
    scene.objects.until_initialised("node-1").await;
    scene.objects.until_initialised("node-2").await;
    scene.cloud.down().await;
    scene.objects.set_ready("node-1", "Unknown").await;
    scene.cloud.with(|simulator| simulator.stop_vm("node-2").expect("a machine"));
    scene.objects.set_ready("node-2", "Unknown").await;
    scene.cloud.up();
    scene.objects.until_node("node-2", "is shut down", |node| has_taint(node, SHUTDOWN)).await;
    let node = scene.objects.node("node-1").await.expect("the Node is still there");
    assert!(!has_taint(&node, SHUTDOWN), "{node:?}");
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_members_follow_the_nodes() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let _controller = scene.controller("controller", &["--node-added-window=200ms"]);
    scene.objects.create_service("web", serde_json::json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1", "node-2"]).await;
    scene.objects.join("node-3").await;
    scene.until_reached(&address, 80, &["node-1", "node-2", "node-3"]).await;
    let excluded = serde_json::json!({ "metadata": { "labels": {
        "node.kubernetes.io/exclude-from-external-load-balancers": "" } } });
    scene.objects.patch_node("node-1", excluded).await;
    scene.until_reached(&address, 80, &["node-2", "node-3"]).await;
    eventually("the second change is told", PATIENCE, async || {
        let reasons = scene.objects.reasons("web").await;
        let told = reasons.iter().any(|reason| reason == "UpdatedLoadBalancer");
        told.then_some(()).ok_or(format!("{reasons:?}"))
    })
    .await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_node_goes_with_its_machine_unless_it_is_young() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    scene.old_node("node-3", "00000000-0000-4000-8000-000000000003").await;
    let mut controller = scene.controller("controller", QUICK);
    scene.objects.until_initialised("node-1").await;
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1", "node-2", "node-3"]).await;
    for gone in ["node-2", "node-3"] {
        scene.cloud.with(|simulator| simulator.destroy_vm(gone).expect("a machine"));
        scene.objects.set_ready(gone, "Unknown").await;
    }
    scene.objects.until_node_gone("node-3").await;
    let message = scene.objects.until_event("node-3", "DeletingNode").await;
    assert!(message.contains("does not exist in the cloud provider"), "{message}");
    scene.objects.node("node-1").await.expect("it has its machine");
    scene.objects.node("node-2").await.expect("it is not five minutes old");
    scene.until_reached(&address, 80, &["node-1"]).await;
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_machine_that_is_renamed_stays_behind_its_node() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let mut controller = scene.controller("controller", &["--drift-interval=1s"]);
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    for name in ["node-1", "node-2"] {
        scene.objects.until_initialised(name).await;
    }
    scene.until_reached(&address, 80, &["node-1", "node-2"]).await;
    let changes = scene.changes().len();
    scene.cloud.with(|simulator| simulator.rename_vm("node-1", "renamed").expect("a machine"));
    let rounds = controller.log().matches("drift round").count();
    eventually("drift rounds that see the new name", PATIENCE, async || {
        let more = controller.log().matches("drift round").count() - rounds;
        // In six rounds the members of every rule are read, and the last one ends with the next.
        if more > 7 { Ok(()) } else { Err(format!("{more} more")) }
    })
    .await;
    scene.until_reached(&address, 80, &["renamed", "node-2"]).await;
    assert_eq!(scene.changes().len(), changes, "the same machines as before");
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_node_that_could_be_any_of_two_machines_is_none_until_it_is_clear() {
    let scene = Scene::with_nodes(&["node-1", "twin"]).await;
    let twins = ["node-3", "node-4"];
    for machine in twins {
        scene.cloud.with(|simulator| simulator.rename_vm(machine, "twin").expect("a machine"));
    }
    let _controller = scene.controller("controller", &["--node-added-window=200ms"]);
    let message = scene.objects.until_event("twin", "NodeAmbiguous").await;
    assert!(message.contains("providerID"), "{message}");
    let twin = scene.objects.node("twin").await.expect("the Node");
    assert!(has_taint(&twin, UNINITIALIZED));
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1"]).await;

    let other = "00000000-0000-4000-8000-000000000004";
    scene.cloud.with(|simulator| simulator.rename_vm(other, "other").expect("a machine"));
    let twin = scene.objects.until_initialised("twin").await;
    let provider = twin.spec.and_then(|spec| spec.provider_id).unwrap_or_default();
    assert!(provider.ends_with("000000000003"), "{provider}");
    scene.until_reached(&address, 80, &["node-1", "twin"]).await;
}
