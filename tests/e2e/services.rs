//! Services of type LoadBalancer, from the first to the last (contract: appendix 1 to 4 and 7).

use ccm_tests::lab::annotation;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::harness::audit::Request;
use crate::harness::eventually::eventually;
use crate::harness::objects::{FINALIZER, PATIENCE, ingress, is_held};
use crate::harness::process::Signal;
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

/// Waits until a Service has neither our finalizer nor an address.
async fn until_let_go(scene: &Scene, name: &str) {
    let let_go = |service: &Service| !is_held(service) && ingress(service).is_empty();
    eventually(&format!("{name} is let go"), PATIENCE, async || {
        let service = scene.objects.service(name).await.ok_or("no such Service")?;
        if let_go(&service) { Ok(()) } else { Err(format!("{service:?}")) }
    })
    .await;
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
    until_let_go(&scene, "web").await;
    assert_eq!(scene.in_cloud().changes_since(&before), Vec::<String>::new());
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_service_of_another_class_is_never_touched() {
    let scene = Scene::with_nodes(&NODES).await;
    let _controller = scene.controller("controller", &[]);
    let class = json!({ "loadBalancerClass": "example.test/other" });
    scene.objects.create_service("theirs", class.clone()).await;
    // Another controller may use the finalizer of the framework too.
    scene.objects.create_service("held", class).await;
    let finalizer = json!({ "metadata": { "finalizers": [FINALIZER] } });
    scene.objects.patch_service("held", finalizer).await;
    scene.objects.create_service("first", json!({})).await;
    scene.objects.until_published("first").await;
    for name in ["theirs", "held"] {
        scene.objects.delete_service(name).await;
    }
    scene.objects.until_gone("theirs").await;
    // The watch tells of this one after all of that.
    scene.objects.create_service("second", json!({})).await;
    scene.objects.until_published("second").await;
    let held = scene.objects.service("held").await.expect("its own controller lets it go");
    assert!(is_held(&held), "{held:?}");
    for name in ["theirs", "held"] {
        assert!(patches(&scene, name).is_empty(), "{name}");
        assert_eq!(scene.objects.reasons(name).await, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_what_changed_while_nobody_worked_is_done_at_the_start() {
    let scene = Scene::with_nodes(&NODES).await;
    let before = scene.in_cloud();
    let mut first = scene.controller("first", &[]);
    for name in ["deleted", "turned", "edited"] {
        scene.objects.create_service(name, json!({})).await;
    }
    for name in ["deleted", "turned", "edited"] {
        scene.objects.until_published(name).await;
        scene.objects.until_event(name, "EnsuredLoadBalancer").await;
    }
    first.signal(Signal::TERM);
    first.end().await;

    scene.objects.delete_service("deleted").await;
    scene.objects.patch_service("turned", json!({ "spec": { "type": "NodePort" } })).await;
    let ports = json!({ "spec": { "ports": [{ "name": "https", "port": 443 }] } });
    scene.objects.patch_service("edited", ports).await;
    let _second = scene.controller("second", &[]);
    scene.objects.until_gone("deleted").await;
    until_let_go(&scene, "turned").await;
    let (_, address) = scene.objects.until_published("edited").await;
    scene.until_reached(&address, 443, &NODES).await;
    scene.until_reached(&address, 80, &[]).await;
    scene.objects.delete_service("edited").await;
    scene.objects.until_gone("edited").await;
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
