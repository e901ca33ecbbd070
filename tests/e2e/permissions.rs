//! Credentials that are wrong, and keys that may not do all that is needed.

use ccm_simulator::World;
use ccm_simulator::world::{KeyPair, KeyRule, Permission};
use ccm_tests::lab::fixture;
use serde_json::json;

use crate::harness::scene::Scene;

/// The account of the role that CloudStack makes for Kubernetes clusters in projects.
const OF_PROJECT: [(&str, &str); 2] =
    [("standard-api-key", "project-api-key"), ("standard-secret-key", "project-secret-key")];
const PROJECT: &str = "project-id = 00000000-0000-4000-8000-0000000000f0\n";

fn standard() -> World {
    let mut world = World::load(&fixture("worlds/standard.yaml")).expect("a world");
    world.cluster_id = None;
    world
}

/// The standard world with one more key pair for the account, which may do everything but some
/// commands.
fn with_key_without(denied: &[&str]) -> World {
    let mut world = standard();
    // Rules of key pairs are of this release.
    "4.23.0.0".clone_into(&mut world.release);
    let rule = |rule: &str, permission| KeyRule { rule: rule.to_owned(), permission };
    let denied = denied.iter().map(|command| rule(command, Permission::Deny));
    let rules = denied.chain([rule("*", Permission::Allow)]).collect();
    world.accounts[0].key_pairs.push(KeyPair {
        name: Some("narrow".to_owned()),
        api_key: "narrow-api-key".to_owned(),
        secret_key: "narrow-secret-key".to_owned(),
        rules,
        start: None,
        end: None,
        id: None,
    });
    world
}

/// A scene of which the controller uses the narrow key.
async fn narrow(denied: &[&str]) -> Scene {
    let scene = Scene::new(with_key_without(denied)).await;
    scene.edit_config(|config| config.replace("standard-", "narrow-"));
    for name in ["node-1", "node-2"] {
        scene.objects.join(name).await;
    }
    scene
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_wrong_credentials_are_waited_out_and_named() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    scene.edit_config(|config| config.replace("standard-secret-key", "a-wrong-secret"));
    let mut controller = scene.controller("controller", &[]);
    controller.until_says("CloudStack refuses the credentials").await;
    let (code, body) = controller.get("/readyz", None).await.expect("an answer");
    assert_ne!(code, 200, "{body}");
    assert_eq!(controller.until_ok("/livez").await, "ok", "a restart would not help");
    assert!(!controller.log().contains("a-wrong-secret"), "{}", controller.log());
    assert_eq!(scene.changes(), Vec::<&str>::new());
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_the_role_for_clusters_in_projects_is_enough() {
    let scene = Scene::standard().await;
    scene.edit_config(|config| {
        let [key, secret] = OF_PROJECT;
        config.replace(key.0, key.1).replace(secret.0, secret.1) + PROJECT
    });
    let machines = ["web-1", "web-2"];
    for name in machines {
        scene.objects.join(name).await;
    }
    let before = scene.seen_by("member");
    let mut controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &machines).await;
    scene.objects.until_initialised("web-1").await;
    scene.objects.patch_service("web", json!({ "spec": { "ports": [{ "port": 443 }] } })).await;
    scene.until_reached(&address, 443, &machines).await;
    scene.objects.delete_service("web").await;
    scene.objects.until_gone("web").await;
    assert_eq!(scene.seen_by("member").changes_since(&before), Vec::<String>::new());
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_what_is_nice_to_have_may_be_denied() {
    let denied = ["listZones", "listVPCs", "listCapabilities", "createTags", "listNetworkACLLists"];
    let scene = narrow(&denied).await;
    let mut controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1", "node-2"]).await;
    scene.objects.delete_service("web").await;
    scene.objects.until_gone("web").await;
    controller.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_what_a_service_needs_and_is_denied_is_named_and_nodes_go_on() {
    let scene = narrow(&["createLoadBalancerRule"]).await;
    let mut controller = scene.controller("controller", &[]);
    scene.objects.create_service("web", json!({})).await;
    let message = scene.objects.until_event("web", "SyncLoadBalancerFailed").await;
    assert!(message.contains("createLoadBalancerRule"), "{message}");
    scene.objects.until_initialised("node-1").await;
    // What was made before goes with the Service.
    scene.objects.delete_service("web").await;
    scene.objects.until_gone("web").await;
    assert!(scene.in_cloud().rules().is_empty());
    controller.assert_lives();
}
