//! Callers of the controller's server that show a certificate.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::harness::access::{Authority, certificate_of};
use crate::harness::eventually::eventually;
use crate::harness::objects::PATIENCE;
use crate::harness::scene::Scene;

/// Lets a user read metrics.
async fn let_read_metrics(scene: &Scene, user: &str) {
    let role = json!({
        "metadata": { "name": "metrics" },
        "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }],
    });
    let binding = json!({
        "metadata": { "name": "metrics" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    let (params, client) = (PostParams::default(), &scene.cluster.client);
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let role = serde_json::from_value(role).expect("a role");
    roles.create(&params, &role).await.expect("a new role");
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = serde_json::from_value(binding).expect("a binding");
    bindings.create(&params, &binding).await.expect("a new binding");
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_certificate_of_the_clusters_authority_is_its_users_and_another_ones_nobodys() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let mut controller = scene.controller("controller", &[]);
    controller.until_ok("/readyz").await;
    let_read_metrics(&scene, "prometheus").await;

    let prometheus = scene.cluster.certificate_of("prometheus");
    eventually("metrics for who may read them", PATIENCE, async || {
        match controller.get_as(prometheus.clone(), "/metrics").await? {
            (200, body) if body.contains("kubernetes_build_info") => Ok(()),
            (code, body) => Err(format!("{code}: {body}")),
        }
    })
    .await;

    let jane = scene.cluster.certificate_of("jane");
    let (code, body) = controller.get_as(jane, "/metrics").await.expect("an answer");
    assert!(code == 403 && body.contains("jane"), "{code}: {body}");

    let theirs = Authority::new(rcgen::KeyPair::generate().expect("a P-256 key"));
    let file = scene.cluster.folder().join("stranger");
    let stranger = certificate_of("prometheus", &theirs, &file);
    for path in ["/metrics", "/healthz"] {
        let (code, body) = controller.get_as(stranger.clone(), path).await.expect("an answer");
        assert_eq!(code, 401, "{path}: {body}");
    }
}
