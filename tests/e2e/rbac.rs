//! What the shipped role grants is what the controller needs: the API server's audit log tells.

use std::collections::BTreeSet;

use ccm_tests::deploy;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::audit::Request;
use crate::harness::eventually::eventually;
use crate::harness::manifests;
use crate::harness::objects::{PATIENCE, SHUTDOWN, has_taint};
use crate::harness::process::Signal;
use crate::harness::scene::{DRY_RUN, Scene};

/// What is asked for only where an API server has no authority for clients, and so no `ConfigMap`
/// with the id of the cluster.
const FALLBACK: (&str, &str) = ("namespaces", "get");

/// What takes longer than a test may: a dry run tells of a plan that it made twice, a minute apart.
const NOT_REACHED_BY_DRY_RUN: [(&str, &str); 3] =
    [FALLBACK, ("events", "create"), ("events", "patch")];

/// Resource and verb of what both roles in a manifest grant.
fn granted(file: &str) -> BTreeSet<(String, String)> {
    let roles = deploy::objects(file).into_iter();
    let roles = roles.filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut granted = BTreeSet::new();
    for rule in roles.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()) {
        for resource in texts(&rule["resources"]) {
            granted.extend(texts(&rule["verbs"]).into_iter().map(|verb| (resource.clone(), verb)));
        }
    }
    granted
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_the_role_grants_what_is_needed_and_no_more() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    scene.old_node("node-4", "00000000-0000-4000-8000-000000000004").await;
    scene.cloud.with(|simulator| simulator.expunge_vm("node-4").expect("a machine"));
    scene.objects.set_ready("node-4", "Unknown").await;
    let mut controller = scene.controller("controller", &["--node-monitor-period=500ms"]);
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    // What is told about it again is counted up.
    for port in [443, 8443] {
        let ports = json!({ "spec": { "ports": [{ "name": "other", "port": port }] } });
        scene.objects.patch_service("web", ports).await;
        scene.until_reached(&address, port, &["node-1", "node-2"]).await;
    }
    scene.objects.delete_service("web").await;
    scene.objects.until_gone("web").await;
    scene.cloud.with(|simulator| simulator.stop_vm("node-1").expect("a machine"));
    scene.objects.set_ready("node-1", "Unknown").await;
    let is_shut_down = |node: &_| has_taint(node, SHUTDOWN);
    scene.objects.until_node("node-1", "is shut down", is_shut_down).await;
    scene.objects.until_node_gone("node-4").await;
    read_metrics(&scene, &controller).await;
    controller.signal(Signal::TERM);
    controller.end().await;

    let used = used(&scene.requests(), &granted("rbac.yaml"), &[FALLBACK]);
    for (resource, verb) in
        [("tokenreviews", "create"), ("subjectaccessreviews", "create"), ("configmaps", "get")]
    {
        assert!(used.contains(&(resource.to_owned(), verb.to_owned())), "{verb} {resource}");
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_the_role_of_the_dry_run_grants_what_is_needed_and_no_more() {
    let mut scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    manifests::apply(&scene.cluster.client, "dry-run.yaml").await;
    scene.kubeconfig = scene.cluster.kubeconfig_of("kube-system", DRY_RUN).await;
    let mut controller = scene.controller("dry-run", &["--dry-run"]);
    scene.objects.create_service("web", json!({})).await;
    controller.until_says("Plan: 3 to add").await;
    controller.until_ok("/readyz").await;
    controller.signal(Signal::TERM);
    controller.end().await;

    let requests = scene.requests_of(DRY_RUN);
    used(&requests, &granted("dry-run.yaml"), &NOT_REACHED_BY_DRY_RUN);
    let written: BTreeSet<String> =
        requests.iter().filter(|request| request.writes()).map(Request::resource).collect();
    let its_own = ["leases", "events"].map(str::to_owned);
    assert!(written.is_subset(&its_own.into()), "{written:?}");
    assert_eq!(scene.changes(), Vec::<&str>::new());
}

/// Resource and verb of what was asked for: nothing was refused, and everything that is granted
/// was used, but for what a test does not reach.
fn used(
    requests: &[Request],
    granted: &BTreeSet<(String, String)>,
    not_reached: &[(&str, &str)],
) -> BTreeSet<(String, String)> {
    let refused: BTreeSet<String> = requests
        .iter()
        .filter(|request| request.code() == 403)
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect();
    assert_eq!(refused, BTreeSet::new());
    let used: BTreeSet<(String, String)> =
        requests.iter().map(|request| (request.resource(), request.verb.clone())).collect();
    let unused: BTreeSet<&(String, String)> = granted
        .difference(&used)
        .filter(|(resource, verb)| !not_reached.contains(&(resource.as_str(), verb.as_str())))
        .collect();
    assert_eq!(unused, BTreeSet::new(), "granted, and not used");
    used
}

/// Reads the metrics as somebody who may: a service account with the right to.
async fn read_metrics(scene: &Scene, controller: &crate::harness::controller::Controller) {
    let role = json!({
        "metadata": { "name": "scrape" },
        "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }],
    });
    let binding = json!({
        "metadata": { "name": "scrape" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrape" },
        "subjects": [{ "kind": "ServiceAccount", "name": "scraper", "namespace": "default" }],
    });
    let account = json!({ "metadata": { "name": "scraper" } });
    let (params, client) = (PostParams::default(), &scene.cluster.client);
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(client.clone());
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(client.clone());
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(client.clone(), "default");
    let typed = "an object of its kind";
    roles.create(&params, &serde_json::from_value(role).expect(typed)).await.expect("a role");
    bindings
        .create(&params, &serde_json::from_value(binding).expect(typed))
        .await
        .expect("a binding");
    accounts
        .create(&params, &serde_json::from_value(account).expect(typed))
        .await
        .expect("an account");
    let token = scene.cluster.token_of("default", "scraper").await;
    eventually("metrics for who may read them", PATIENCE, async || {
        match controller.get("/metrics", Some(&token)).await? {
            (200, body) if body.contains("cloudstack_ccm_build_info") => Ok(()),
            (code, body) => Err(format!("{code}: {body}")),
        }
    })
    .await;
}
