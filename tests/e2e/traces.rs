//! Traces that the real binary sends to a collector.

use ccm_tests::collector::{Arrived, Collector};
use serde_json::json;

use crate::harness::process::Signal;
use crate::harness::scene::Scene;

/// Syncs of Services that were carried out, by the trace that they are.
fn done(spans: &[Arrived]) -> Vec<&Arrived> {
    let is_done = |span: &&Arrived| {
        span.name == "sync"
            && span.says("service").is_some()
            && spans.iter().any(|step| step.name == "step" && step.parent == span.id)
    };
    spans.iter().filter(is_done).collect()
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_sync_is_sent_to_the_collector_and_the_last_spans_at_the_end() {
    let mut collector = Collector::start();
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let endpoint = format!("--otlp-endpoint={}", collector.url());
    let mut controller = scene.controller("controller", &[&endpoint]);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_published("web").await;
    controller.signal(Signal::TERM);
    assert!(controller.end().await.success());

    let spans = collector.wait(|spans| !done(spans).is_empty()).to_vec();
    let sync = done(&spans)[0];
    assert_eq!(sync.says("service"), Some("default/web"));
    assert_eq!(sync.sender.get("service.name").map(String::as_str), Some("cloudstack-ccm"));
    assert!(sync.sender.contains_key("cloudstack_ccm.cluster_id"), "{:?}", sync.sender);
    let of_sync = |span: &&Arrived| span.trace == sync.trace && span.is_client;
    let create = spans.iter().filter(of_sync).find(|span| span.name == "createLoadBalancerRule");
    let create = create.expect("a request of the sync");
    assert!(create.says("job").is_some() && create.says("outcome") == Some("ok"), "{create:?}");
    let reconcile = sync.says("reconcile").expect("an id");
    assert!(controller.log().contains(reconcile), "the log has the id of the trace");
    for body in collector.bodies() {
        let text = String::from_utf8_lossy(body);
        for secret in ["standard-api-key", "standard-secret-key"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_collector_that_is_down_keeps_nothing_from_being_served() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    // Nobody listens on port 9.
    let mut controller = scene.controller("controller", &["--otlp-endpoint=http://127.0.0.1:9"]);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_published("web").await;
    controller.until_says("spans don't reach the collector").await;
    controller.signal(Signal::TERM);
    assert!(controller.end().await.success());
    assert_eq!(controller.log().matches("spans don't reach the collector").count(), 1);
}
