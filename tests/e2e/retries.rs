//! When something is tried again that failed (contract: appendix 5 and 6).

use std::time::{Duration, Instant};

use ccm_simulator::faults::{Fault, FaultKind, Mishap};
use jiff::SignedDuration;
use serde_json::json;

use crate::harness::eventually::eventually;
use crate::harness::objects::PATIENCE;
use crate::harness::scene::Scene;

const CREATE: &str = "createLoadBalancerRule";
/// First wait after a failure, with its jitter and what a busy machine takes.
const FIRST_WAIT: Duration = Duration::from_secs(15);

/// Lets the next rules fail.
fn fail(scene: &Scene, times: u32) {
    let refusal = Mishap::Error { code: 530, text: "Failed to create".to_owned() };
    let fault = Fault::on(CREATE, FaultKind::Before(refusal)).times(times);
    scene.cloud.with(|simulator| simulator.inject(fault));
}

/// How often the same failure was told, and the time from the first to the last one.
async fn failures(scene: &Scene) -> (i32, SignedDuration) {
    let events = scene.objects.events_of("web", "SyncLoadBalancerFailed").await;
    let Some(event) = events.last() else { return (0, SignedDuration::ZERO) };
    let first = event.first_timestamp.as_ref().expect("a first time").0;
    let last = event.last_timestamp.as_ref().expect("a last time").0;
    (event.count.unwrap_or(1), last.duration_since(first))
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_what_fails_is_tried_again_later_each_time_and_a_success_forgets() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let _controller = scene.controller("controller", &[]);
    scene.objects.until_initialised("node-2").await;
    fail(&scene, 3);
    scene.objects.create_service("web", json!({})).await;
    let took = eventually("three failures", PATIENCE, async || match failures(&scene).await {
        (3, took) => Ok(took),
        other => Err(format!("{other:?}")),
    })
    .await;
    // 5 and 10 s, each with a tenth more at most; the times are whole seconds.
    assert!((14..22).contains(&took.as_secs()), "{took:?}");
    let (_, address) = scene.objects.until_published("web").await;
    scene.objects.until_event("web", "EnsuredLoadBalancer").await;

    fail(&scene, 1);
    let ports = json!({ "spec": { "ports": [
        { "name": "http", "port": 80 }, { "name": "https", "port": 443 } ] } });
    scene.objects.patch_service("web", ports).await;
    eventually("another failure", PATIENCE, async || {
        let (count, _) = failures(&scene).await;
        if count == 3 { Err(count.to_string()) } else { Ok(()) }
    })
    .await;
    let failed = Instant::now();
    scene.until_reached(&address, 443, &["node-1", "node-2"]).await;
    assert!(failed.elapsed() < FIRST_WAIT, "{:?}", failed.elapsed());
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_server_that_names_its_wait_is_asked_nothing_before_it_and_nothing_has_failed() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let _controller = scene.controller("controller", &[]);
    scene.objects.until_initialised("node-1").await;
    let text =
        "The given user has reached his/her account api limit, please retry after [7000] ms.";
    let refusal = Mishap::Error { code: 429, text: text.to_owned() };
    let fault = Fault::on(CREATE, FaultKind::Before(refusal)).times(1);
    scene.cloud.with(|simulator| simulator.inject(fault));
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1"]).await;
    scene.objects.until_event("web", "EnsuredLoadBalancer").await;

    let calls = scene.cloud.calls();
    let first = calls.iter().position(|call| call.mutates).expect("a change");
    let waits = calls[first..].windows(2).map(|pair| pair[1].at.duration_since(pair[0].at));
    let longest = waits.max().expect("more than one call");
    assert!((7..15).contains(&longest.as_secs()), "{longest:?}");
    let reasons = scene.objects.reasons("web").await;
    assert_eq!(reasons, ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]);
}
