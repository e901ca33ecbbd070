//! Commands against a live cluster (issue: the controller in a cluster, part 5).

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::audit::Request;
use crate::harness::command::{Ran, command, run, text};
use crate::harness::eventually::eventually;
use crate::harness::manifests;
use crate::harness::objects::{PATIENCE, ingress, is_held};
use crate::harness::scene::{DRY_RUN, Scene};

const NODES: [&str; 2] = ["node-1", "node-2"];

impl Scene {
    /// A command that knows CloudStack and, by the controller's account, the cluster.
    fn run(&self, verb: &[&str], more: &[&str]) -> Ran {
        self.run_as(&self.kubeconfig, verb, more)
    }

    /// The same by another account.
    fn run_as(&self, kubeconfig: &Path, verb: &[&str], more: &[&str]) -> Ran {
        let whom = ["--cloud-config", text(&self.cloud_config), "--kubeconfig", text(kubeconfig)];
        run(&[verb, &whom[..], more].concat())
    }

    fn file(&self, name: &str) -> String {
        text(&self.cluster.folder().join(name)).to_owned()
    }

    /// The kubeconfig of the dry run's account.
    async fn dry_run_kubeconfig(&self) -> PathBuf {
        manifests::apply(&self.cluster.client, "dry-run.yaml").await;
        self.cluster.kubeconfig_of("kube-system", DRY_RUN).await
    }

    /// The kubeconfig of an account that nobody granted anything.
    async fn nobodys_kubeconfig(&self) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.cluster.client.clone(), "default");
        let account = serde_json::from_value(json!({ "metadata": { "name": "nobody" } }));
        let account = account.expect("an account");
        accounts.create(&PostParams::default(), &account).await.expect("a new account");
        self.cluster.kubeconfig_of("default", "nobody").await
    }

    /// Waits until a plan shows nothing more to do.
    async fn until_nothing_is_planned(&self) {
        eventually("a plan without changes", PATIENCE, async || {
            let ran = self.run(&["plan", "--detailed-exitcode"], &[]);
            if ran.code == Some(0) { Ok(()) } else { Err(format!("{ran:?}")) }
        })
        .await;
    }
}

/// A plan in JSON, without what is another one each time: when CloudStack was read, and the job id
/// of an intent.
fn timeless(json: &str) -> Value {
    let mut plan: Value = serde_json::from_str(json).expect("a plan");
    plan["observedAt"].take();
    let steps = plan["steps"].as_array_mut().expect("steps");
    assert!(!steps.is_empty());
    for step in steps {
        if step["call"]["args"]["intent"].as_str().is_some_and(|text| text.starts_with("job ")) {
            step["call"]["args"]["intent"].take();
        }
    }
    plan
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_plan_of_a_live_cluster_shows_changes_until_the_controller_made_them() {
    let scene = Scene::with_nodes(&NODES).await;
    scene.objects.create_service("web", json!({})).await;
    scene.objects.create_service("api", json!({})).await;
    let plan = ["plan", "--detailed-exitcode"];
    let both = scene.run(&plan, &[]).exits(2).says(&["reading Services and Nodes from https://"]);
    assert!(both.stdout.contains("default/web") && both.stdout.contains("default/api"));
    assert!(both.stdout.contains("\nPlan: 6 to add, "), "{}", both.stdout);
    let one = scene.run(&plan, &["--service", "default/web"]).exits(2);
    assert!(one.stdout.contains("default/web") && !one.stdout.contains("default/api"));
    // The cluster of $KUBECONFIG is meant where no flag says another one.
    let mut of_environment =
        command(&["plan", "--cloud-config", text(&scene.cloud_config), "--detailed-exitcode"]);
    let of_environment = of_environment.env("KUBECONFIG", &scene.kubeconfig).output();
    let of_environment = Ran::from(of_environment.expect("it runs")).exits(2);
    assert!(of_environment.stdout.contains("\nPlan: 6 to add, "), "{}", of_environment.stdout);
    assert_eq!(scene.changes(), Vec::<&str>::new());
    let wrote: Vec<_> = scene.requests().into_iter().filter(Request::writes).collect();
    assert!(wrote.is_empty(), "{wrote:?}");

    let _controller = scene.controller("controller", &[]);
    scene.objects.until_published("web").await;
    scene.objects.until_published("api").await;
    scene.until_nothing_is_planned().await;
    let done = scene.run(&plan, &[]).exits(0);
    assert!(done.stdout.contains("\nPlan: no changes."), "{}", done.stdout);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_records_alone_count_as_changes_of_a_live_cluster() {
    let scene = Scene::with_nodes(&NODES).await;
    scene.objects.create_service("web", json!({})).await;
    let mut controller = scene.controller("controller", &[]);
    let (service, _) = scene.objects.until_published("web").await;
    scene.until_nothing_is_planned().await;
    controller.signal(crate::harness::process::Signal::TERM);
    controller.end().await;
    let annotations = service.metadata.annotations.unwrap_or_default();
    let cut: serde_json::Map<String, Value> =
        annotations.keys().map(|key| (key.clone(), Value::Null)).collect();
    assert!(!cut.is_empty());
    scene.objects.patch_service("web", json!({ "metadata": { "annotations": cut } })).await;
    let ran = scene.run(&["plan", "--detailed-exitcode"], &[]).exits(2);
    assert!(ran.stdout.contains("Plan: 0 CloudStack changes, 1 write to Kubernetes."), "{ran:?}");
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_snapshot_of_a_live_cluster_leads_to_the_same_plan() {
    let scene = Scene::with_nodes(&NODES).await;
    let ranges = json!({ "loadBalancerSourceRanges": ["198.51.100.0/24"] });
    let service = scene.objects.create_service("storefront", ranges).await;
    scene
        .objects
        .patch_service(
            "storefront",
            json!({ "metadata": { "annotations": {
        "example.com/owner": "somebody@example.com",
    } } }),
        )
        .await;
    let (plain, hidden) = (scene.file("plain.json"), scene.file("hidden.json"));
    scene.run(&["snapshot", "--out", &plain], &[]).exits(0);
    scene.run(&["snapshot", "--out", &hidden, "--pseudonymise"], &[]).exits(0);
    let live = scene.run(&["plan", "--output", "json"], &[]).exits(0);
    let offline = run(&["plan", "--from", &plain, "--output", "json"]).exits(0);
    assert_eq!(offline.stderr, "", "nothing is asked");
    assert_eq!(timeless(&live.stdout), timeless(&offline.stdout));

    let plain = std::fs::read_to_string(plain).expect("a snapshot");
    let hidden_text = std::fs::read_to_string(&hidden).expect("a snapshot");
    let uid = service.metadata.uid.expect("a uid");
    for word in [uid.as_str(), "storefront", "node-1", "10.1.1.11", "198.51.100", "iso-1"] {
        assert!(plain.contains(word), "{word} is in a snapshot");
        assert!(!hidden_text.contains(word), "{word} is in a pseudonymised snapshot");
    }
    assert!(!hidden_text.contains("somebody@example.com") && !hidden_text.contains("example.com"));
    let steps = |plan: &Value| plan["steps"].as_array().map(Vec::len);
    let of_hidden = run(&["plan", "--from", &hidden, "--output", "json"]).exits(0);
    assert_eq!(steps(&timeless(&of_hidden.stdout)), steps(&timeless(&live.stdout)));
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_plan_names_what_credentials_lack_and_the_role_that_has_it() {
    let scene = Scene::with_nodes(&NODES).await;
    scene.objects.create_service("web", json!({})).await;
    let nobody = scene.nobodys_kubeconfig().await;
    let refused = scene.run_as(&nobody, &["plan"], &[]).exits(1);
    refused.says(&[
        "may not list services",
        "system:cloudstack-ccm-dry-run",
        "deploy/manifests/dry-run.yaml",
        "check-permissions --for plan",
        "cannot list resource",
    ]);
    let reader = scene.dry_run_kubeconfig().await;
    scene.run_as(&reader, &["plan", "--detailed-exitcode"], &[]).exits(2);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_plan_of_a_live_cluster_is_applied_with_its_writes() {
    let scene = Scene::with_nodes(&NODES).await;
    scene.objects.create_service("web", json!({})).await;
    scene.objects.create_service("api", json!({})).await;
    let plan = scene.file("plan.json");
    scene.run(&["plan", "--out", &plan], &[]).exits(0);
    let applied = scene.run(&["apply", &plan], &[]).exits(0);
    assert!(applied.stdout.contains("done for 2 Services"), "{applied:?}");
    for name in ["web", "api"] {
        let service = scene.objects.service(name).await.expect("the Service");
        assert!(is_held(&service));
        let addresses = ingress(&service);
        let [address] = addresses.as_slice() else { panic!("{addresses:?}") };
        scene.until_reached(address, 80, &NODES).await;
    }
    scene.run(&["plan", "--detailed-exitcode"], &[]).exits(0);

    // The Lease was given up: a controller need not wait, and finds nothing to do.
    let before = scene.changes();
    let mut controller = scene.controller("controller", &[]);
    controller.until_says("leading").await;
    controller.until_ok("/readyz").await;
    assert_eq!(scene.changes(), before);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_plan_is_refused_when_its_cluster_has_moved_or_a_controller_leads() {
    let scene = Scene::with_nodes(&NODES).await;
    scene.objects.create_service("web", json!({})).await;
    let plan = scene.file("plan.json");
    scene.run(&["plan", "--out", &plan], &[]).exits(0);
    let ports = json!({ "spec": { "ports": [{ "name": "other", "port": 443 }] } });
    scene.objects.patch_service("web", ports).await;
    scene.run(&["apply", &plan], &[]).exits(4).says(&["refused", "default/web", "tcp-443"]);
    scene.objects.delete_service("web").await;
    scene.run(&["apply", &plan], &[]).exits(4).says(&["no such Service any more"]);
    assert_eq!(scene.changes(), Vec::<&str>::new());

    let mut controller = scene.controller("controller", &[]);
    controller.until_says("leading").await;
    let refused = scene.run(&["apply", &plan], &[]).exits(1);
    refused.says(&["a controller works", "kube-system/cloud-controller-manager"]);
    controller.assert_lives();
    // Files and a cluster are two things.
    let other = ["--cluster-id", "another"];
    scene.run(&["apply", &plan], &other).exits(1).says(&["cluster another"]);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_the_shipped_roles_lack_nothing_of_what_they_are_for() {
    let scene = Scene::standard().await;
    let reader = scene.dry_run_kubeconfig().await;
    let complete = "\nPermissions: all that is needed is there.\n";
    for task in ["controller", "apply"] {
        let ran = scene.run(&["check-permissions", "--for", task], &[]).exits(0);
        assert!(ran.stdout.ends_with(complete), "{task}: {}", ran.stdout);
        assert!(ran.stdout.contains("allowed  patch services/status"), "{}", ran.stdout);
        assert!(ran.stdout.contains("allowed  createLoadBalancerRule"), "{}", ran.stdout);
    }
    for task in ["dry-run", "plan"] {
        let ran = scene.run_as(&reader, &["check-permissions", "--for", task], &[]).exits(0);
        assert!(ran.stdout.ends_with(complete), "{task}: {}", ran.stdout);
    }
    assert_eq!(scene.changes(), Vec::<&str>::new());
    let wrote: Vec<String> = scene
        .cluster
        .audit()
        .into_iter()
        .filter(|request| request.user().starts_with("system:serviceaccount:") && request.writes())
        .map(|request| request.resource())
        .filter(|resource| resource != "selfsubjectaccessreviews")
        .collect();
    assert_eq!(wrote, Vec::<String>::new());
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_what_a_role_lacks_is_told_with_what_is_lost() {
    let scene = Scene::standard().await;
    let reader = scene.dry_run_kubeconfig().await;
    let only_cluster = |kubeconfig: &Path, more: &[&str]| {
        run(&[&["check-permissions", "--kubeconfig", text(kubeconfig)], more].concat())
    };
    let ran = only_cluster(&reader, &[]).exits(2);
    for line in [
        "missing  patch services/status",
        "nothing is recorded, so no load balancer is touched",
        "missing  update leases.coordination.k8s.io cloud-controller-manager -n kube-system",
        "allowed  list services",
    ] {
        assert!(ran.stdout.contains(line), "{line:?} is not in:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("CloudStack"), "nobody asked for it");

    let nobody = scene.nobodys_kubeconfig().await;
    let ran = only_cluster(&nobody, &["--for", "plan", "--output", "json"]).exits(2);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&report["task"], &report["complete"]), (&json!("plan"), &json!(false)));
    let missing: Vec<&str> = report["kubernetes"]["permissions"]
        .as_array()
        .expect("permissions")
        .iter()
        .filter(|row| row["state"] == "missing" && row["needed"] == true)
        .filter_map(|row| row["name"].as_str())
        .collect();
    assert_eq!(missing, ["list services", "list nodes"]);
}
