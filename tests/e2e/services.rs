//! Services of type LoadBalancer, from the first to the last (contract: appendix 1 to 3).

use ccm_tests::lab::annotation;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::harness::audit::Request;
use crate::harness::eventually::eventually;
use crate::harness::objects::{FINALIZER, PATIENCE, ingress, is_held};
use crate::harness::scene::Scene;

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// Patches of a Service's status by the controller, in order.
fn patches(scene: &Scene, service: &str) -> Vec<Request> {
    let is_patch = |request: &Request| {
        request.resource() == "services/status"
            && request.object.as_ref().is_some_and(|object| object.name == service)
    };
    scene.requests().into_iter().filter(is_patch).collect()
}

fn adds_finalizer(patch: &Request) -> bool {
    patch.body["metadata"]["finalizers"].to_string().contains(FINALIZER)
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_service_is_served_and_says_so() {
    let scene = Scene::with_nodes(&NODES).await;
    let _controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    let (service, address) = scene.objects.until_published("web").await;
    assert!(is_held(&service), "{service:?}");
    scene.until_reached(&address, 80, &NODES).await;
    scene.objects.until_event("web", "EnsuredLoadBalancer").await;
    let reasons = scene.objects.reasons("web").await;
    assert_eq!(reasons, ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]);

    let first = patches(&scene, "web").into_iter().find(adds_finalizer);
    let held = first.expect("a patch with the finalizer").answered;
    let calls = scene.cloud.calls();
    let change = calls.iter().find(|call| call.mutates).expect("a change in CloudStack");
    assert!(held <= change.at, "{} before the finalizer of {held}: {}", change.command, change.at);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_deleted_service_leaves_nothing_behind() {
    let scene = Scene::with_nodes(&NODES).await;
    let before = scene.in_cloud();
    let _controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_published("web").await;
    scene.objects.delete_service("web").await;
    scene.objects.until_gone("web").await;
    assert_eq!(scene.in_cloud().changes_since(&before), Vec::<String>::new());
    scene.objects.until_event("web", "DeletedLoadBalancer").await;
    let reasons = scene.objects.reasons("web").await;
    assert!(
        reasons.ends_with(&["DeletingLoadBalancer".into(), "DeletedLoadBalancer".into()]),
        "{reasons:?}"
    );

    let let_go = patches(&scene, "web").pop().expect("a patch that lets it go").answered;
    let calls = scene.cloud.calls();
    let last = calls.iter().rfind(|call| call.mutates).expect("a change in CloudStack");
    assert_eq!(last.command, "disassociateIpAddress");
    assert!(last.at <= let_go, "{} after the finalizer went", last.at);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_service_that_is_no_load_balancer_any_more_is_let_go() {
    let scene = Scene::with_nodes(&NODES).await;
    let before = scene.in_cloud();
    let _controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_published("web").await;
    scene.objects.patch_service("web", json!({ "spec": { "type": "ClusterIP" } })).await;
    let let_go = |service: &Service| !is_held(service) && ingress(service).is_empty();
    eventually("web is let go", PATIENCE, async || {
        let service = scene.objects.service("web").await.ok_or("no such Service")?;
        if let_go(&service) { Ok(()) } else { Err(format!("{service:?}")) }
    })
    .await;
    assert_eq!(scene.in_cloud().changes_since(&before), Vec::<String>::new());
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_service_that_is_torn_out_leaves_nothing_and_its_successor_is_served() {
    let mut scene = Scene::with_nodes(&NODES).await;
    let before = scene.in_cloud();
    let _controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    let (first, _) = scene.objects.until_published("web").await;

    // Nobody can remove anything before its finalizer is taken off.
    scene.cloud.down().await;
    scene.objects.delete_service("web").await;
    scene.objects.patch_service("web", json!({ "metadata": { "finalizers": null } })).await;
    scene.objects.until_gone("web").await;
    scene.objects.create_service("web", json!({})).await;
    scene.cloud.up();

    let (second, address) = scene.objects.until_published("web").await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    scene.until_reached(&address, 80, &NODES).await;
    scene.objects.until_event("web", "DeletedLoadBalancer").await;
    scene.objects.delete_service("web").await;
    scene.objects.until_gone("web").await;
    eventually("nothing is left", PATIENCE, async || {
        let left = scene.in_cloud().changes_since(&before);
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_proxy_protocol_comes_and_goes_without_an_interruption() {
    let scene = Scene::with_nodes(&NODES).await;
    let mut controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &NODES).await;
    scene.objects.until_event("web", "EnsuredLoadBalancer").await;
    let rule = scene.rule(&address, 80).expect("a rule").id();
    let asked = scene.changes().len();
    for (value, protocol) in [(json!("true"), "tcp-proxy"), (Value::Null, "tcp")] {
        let annotations = json!({ annotation("proxy-protocol"): value });
        let patch = json!({ "metadata": { "annotations": annotations } });
        scene.objects.patch_service("web", patch).await;
        eventually(&format!("{protocol} on the same rule"), PATIENCE, async || {
            controller.assert_lives();
            assert_eq!(scene.reach(&address, 80).len(), NODES.len(), "it answers all the while");
            let found = scene.rule(&address, 80).expect("the rule is there all the while");
            assert_eq!(found.id(), rule);
            let is_so = found.text("protocol") == protocol && found.text("state") == "Active";
            is_so.then_some(()).ok_or(format!("{found:?}"))
        })
        .await;
    }
    let changes = scene.changes().split_off(asked);
    assert_eq!(changes, ["updateLoadBalancerRule", "updateLoadBalancerRule"], "nothing is remade");
}
