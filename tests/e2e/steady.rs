//! Nothing to do: what a controller leaves alone when it starts again, and what outages do.

use serde_json::json;

use crate::harness::eventually::eventually;
use crate::harness::objects::PATIENCE;
use crate::harness::process::Signal;
use crate::harness::scene::Scene;

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// Services at once.
const LOAD: usize = 12;

fn writes(scene: &Scene) -> Vec<String> {
    let writes = scene.writes().into_iter();
    writes.map(|request| format!("{} {}", request.verb, request.uri)).collect()
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_restart_in_a_steady_state_changes_nothing() {
    let scene = Scene::with_nodes(&NODES).await;
    let mut first = scene.controller("first", &[]);
    for name in ["a", "b", "c"] {
        scene.objects.create_service(name, json!({})).await;
    }
    for name in ["a", "b", "c"] {
        scene.objects.until_published(name).await;
        scene.objects.until_event(name, "EnsuredLoadBalancer").await;
    }
    first.signal(Signal::TERM);
    first.end().await;
    let (changes, written, calls) = (scene.changes(), writes(&scene), scene.cloud.calls().len());

    // A new Service behind the old ones shows when the new process is through.
    let _second = scene.controller("second", &[]);
    eventually("the second one looks at CloudStack", PATIENCE, async || {
        let asked = scene.cloud.counts().get("listLoadBalancerRules").copied();
        let more = scene.cloud.calls().len() > calls;
        more.then_some(()).ok_or(format!("{asked:?}"))
    })
    .await;
    scene.objects.create_service("later", json!({})).await;
    scene.objects.until_event("later", "EnsuredLoadBalancer").await;
    let later: Vec<String> = writes(&scene).split_off(written.len());
    let others: Vec<&String> =
        later.iter().filter(|uri| !uri.contains("later") && !uri.contains("/events")).collect();
    assert_eq!(others, Vec::<&String>::new());
    for name in ["a", "b", "c"] {
        assert_eq!(
            scene.objects.reasons(name).await,
            ["EnsuringLoadBalancer", "EnsuredLoadBalancer"],
            "{name}"
        );
    }
    let new: Vec<&str> = scene.changes().split_off(changes.len());
    let expected = [
        "associateIpAddress",
        "createLoadBalancerRule",
        "assignToLoadBalancerRule",
        "createFirewallRule",
    ];
    assert_eq!(new, expected, "only what the new Service needs");
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_cloudstack_may_be_down_at_the_start_and_during_the_work() {
    let mut scene = Scene::with_nodes(&NODES).await;
    scene.cloud.down().await;
    let mut controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    controller.until_says("waiting for CloudStack").await;
    scene.cloud.up();
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &NODES).await;

    scene.cloud.down().await;
    let two = json!({ "spec": { "ports": [
        { "name": "http", "port": 80 }, { "name": "https", "port": 443 } ] } });
    scene.objects.patch_service("web", two).await;
    scene.objects.until_event("web", "SyncLoadBalancerFailed").await;
    scene.cloud.up();
    scene.until_reached(&address, 443, &NODES).await;
    scene.until_reached(&address, 80, &NODES).await;
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_work_goes_on_after_the_api_server_was_away() {
    let mut scene = Scene::with_nodes(&NODES).await;
    let mut controller = scene.controller("controller", &["--leader-elect=false"]);
    scene.objects.create_service("before", json!({})).await;
    scene.objects.until_published("before").await;
    scene.cluster.stop_api_server().await;
    scene.cluster.start_api_server().await;
    scene.objects.create_service("after", json!({})).await;
    scene.objects.until_published("after").await;
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_an_api_server_that_restarts_under_load_loses_nothing() {
    let mut scene = Scene::with_nodes(&NODES).await;
    let before = scene.in_cloud();
    let mut controller = scene.controller("controller", &[]);
    let names: Vec<String> = (0..LOAD).map(|number| format!("web-{number}")).collect();
    for name in &names {
        scene.objects.create_service(name, json!({})).await;
    }
    eventually("work under way", PATIENCE, async || {
        let done = scene.changes().len();
        if done >= LOAD { Ok(()) } else { Err(format!("{done} changes")) }
    })
    .await;
    scene.cluster.stop_api_server().await;
    scene.cluster.start_api_server().await;
    for name in &names {
        let (_, address) = scene.objects.until_published(name).await;
        scene.until_reached(&address, 80, &NODES).await;
    }
    let taken = scene.in_cloud().addresses().len() - before.addresses().len();
    assert_eq!(taken, LOAD, "an address for each, and none is lost");
    for name in &names {
        scene.objects.delete_service(name).await;
    }
    for name in &names {
        scene.objects.until_gone(name).await;
    }
    assert_eq!(scene.in_cloud().changes_since(&before), Vec::<String>::new());
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_no_secret_is_told() {
    let mut scene = Scene::with_nodes(&NODES).await;
    let controller = scene.controller("controller", &["--log-level=trace"]);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_published("web").await;
    scene.cloud.down().await;
    scene.objects.delete_service("web").await;
    scene.objects.until_event("web", "SyncLoadBalancerFailed").await;
    let told = [
        controller.log(),
        format!("{:?}", scene.objects.events("web").await),
        format!("{:?}", scene.objects.service("web").await),
        controller.get("/metrics", Some("e2e-admin")).await.expect("metrics").1,
    ];
    for text in told {
        assert!(!text.is_empty());
        let text = text.replace(r#"signature="[removed]""#, "");
        for secret in ["standard-api-key", "standard-secret-key", "signature="] {
            assert!(!text.contains(secret), "{secret} is in: {text}");
        }
    }
}
