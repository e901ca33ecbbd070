//! A dry run beside a live controller: what it may and does write, as the API server tells.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::audit::Request;
use crate::harness::eventually::eventually;
use crate::harness::objects::PATIENCE;
use crate::harness::process::Signal;
use crate::harness::scene::Scene;

/// The service account, and the Lease, of `deploy/manifests/dry-run.yaml`.
const ACCOUNT: &str = "cloudstack-ccm-dry-run";

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_dry_run_beside_a_live_controller_writes_nothing_but_events_and_its_lease() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    scene.grant("dry-run.yaml").await;
    let mut live = scene.controller("live", &[]);
    let mut dry =
        scene.controller_as(ACCOUNT, "dry", &["--dry-run", "--drift-interval=2s", "--v=4"]).await;
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_published("web").await;
    dry.until_says("drift round").await;
    assert!(!scene.objects.lease_holder(ACCOUNT).await.expect("its Lease").is_empty());

    // With nobody who works, there is something to be planned.
    live.signal(Signal::TERM);
    live.end().await;
    let (changes, objects) = (scene.changes().len(), scene.in_cloud());
    scene.objects.create_service("planned", json!({})).await;
    eventually("a plan for the new Service", PATIENCE, async || {
        dry.assert_lives();
        let (code, plans) = dry.get("/plan", Some("e2e-admin")).await?;
        let is_planned =
            ["default/planned", "associateIpAddress"].iter().all(|text| plans.contains(text));
        (code == 200 && is_planned).then_some(()).ok_or(format!("{code}: {plans}"))
    })
    .await;
    assert_eq!(scene.changes().len(), changes, "CloudStack is left alone");
    assert_eq!(scene.in_cloud().changes_since(&objects), Vec::<String>::new());
    let planned = scene.objects.service("planned").await.expect("the Service");
    assert_eq!(planned.metadata.finalizers, None);
    assert_eq!(planned.metadata.annotations, None);

    let requests = scene.requests_of(ACCOUNT);
    let refused = requests.iter().filter(|request| request.code() == 403);
    let refused: Vec<_> = refused.map(|request| &request.uri).collect();
    assert_eq!(refused, Vec::<&String>::new(), "the smaller role is enough");
    let written: BTreeSet<String> = requests
        .iter()
        .filter(|request| request.writes())
        .map(Request::resource)
        .filter(|resource| !["events", "leases"].contains(&resource.as_str()))
        // It asks who reads its plans.
        .filter(|resource| !["tokenreviews", "subjectaccessreviews"].contains(&resource.as_str()))
        .collect();
    assert_eq!(written, BTreeSet::new());
    let leases = requests.iter().filter(|request| request.resource() == "leases");
    let leases: BTreeSet<&str> = leases
        .filter_map(|request| request.object.as_ref())
        .map(|object| object.name.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(leases, BTreeSet::from([ACCOUNT]));
    dry.signal(Signal::TERM);
    assert!(dry.end().await.success(), "it was told to stop");
}
