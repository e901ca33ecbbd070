//! The process: who leads, what it answers, how it ends (contract: appendix 17 to 20).

use std::fs;
use std::time::{Duration, Instant};

use ccm_simulator::World;
use ccm_simulator::faults::{Fault, FaultKind, JobFault};
use ccm_simulator::world::State;
use ccm_tests::lab::fixture;
use ccm_tests::rotation::{MountedSecret, SECOND, add_second_user, with_keys};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::harness::eventually::eventually;
use crate::harness::objects::PATIENCE;
use crate::harness::process::Signal;
use crate::harness::scene::Scene;

/// An election whose durations are a third of the usual ones.
const QUICK: &[&str] = &[
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=700ms",
];

const LEASE: &str = "cloud-controller-manager";

/// Holder and transitions of the Lease.
async fn lease(scene: &Scene) -> Option<(String, i32)> {
    let leases: Api<Lease> = Api::namespaced(scene.cluster.client.clone(), "kube-system");
    let lease = leases.get_opt(LEASE).await.expect("an API server")?;
    let spec = lease.spec?;
    Some((spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or_default()))
}

/// Waits until somebody else than `last` leads; gives who.
async fn next_leader(scene: &Scene, last: &str) -> String {
    eventually("another leader", PATIENCE, async || {
        let lease = lease(scene).await;
        let leads = lease.as_ref().filter(|(holder, _)| !holder.is_empty() && holder != last);
        leads.map(|(holder, _)| holder.clone()).ok_or(format!("{lease:?}"))
    })
    .await
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_leader_that_is_told_to_stop_gives_its_lease_up() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let mut first = scene.controller("first", &[]);
    let leader = next_leader(&scene, "").await;
    let mut second = scene.controller("second", &[]);
    second.until_says("waiting for the Lease").await;
    first.signal(Signal::TERM);
    assert!(first.end().await.success(), "it was told to stop");
    // A Lease that is not given up lasts 15 s, and another one is looked for every 2 to 4.4 s.
    let successor = tokio::time::timeout(Duration::from_secs(8), next_leader(&scene, &leader));
    successor.await.expect("a successor at once");
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_published("web").await;
    second.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_leader_that_is_killed_is_replaced_in_the_middle_of_its_work() {
    replace_in_the_middle(Signal::KILL).await;
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_leader_that_is_told_to_stop_is_replaced_in_the_middle_of_its_work() {
    replace_in_the_middle(Signal::TERM).await;
}

async fn replace_in_the_middle(signal: Signal) {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let before = scene.in_cloud();
    let mut first = scene.controller("first", QUICK);
    let leader = next_leader(&scene, "").await;
    let mut second = scene.controller("second", QUICK);
    second.until_says("waiting for the Lease").await;
    scene.objects.create_service("web", json!({})).await;
    eventually("the first change", PATIENCE, async || {
        if scene.changes().is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    first.signal(signal);
    first.end().await;
    next_leader(&scene, &leader).await;
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1", "node-2"]).await;
    assert_eq!(
        scene.in_cloud().addresses().len(),
        before.addresses().len() + 1,
        "no address is lost"
    );
    scene.objects.delete_service("web").await;
    scene.objects.until_gone("web").await;
    assert_eq!(scene.in_cloud().changes_since(&before), Vec::<String>::new());
    second.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_leader_whose_lease_is_taken_stops_at_once() {
    let scene = Scene::with_nodes(&["node-1", "node-2"]).await;
    let mut leader = scene.controller("leader", &[]);
    next_leader(&scene, "").await;
    // Work under way: the job that takes the address is not done yet.
    scene.cloud.with(|simulator| {
        let slow = FaultKind::Job(JobFault::Slow(SignedDuration::from_secs(30)));
        simulator.inject(Fault::on("associateIpAddress", slow));
    });
    scene.objects.create_service("web", json!({})).await;
    eventually("the first change", PATIENCE, async || {
        if scene.changes().is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    let leases: Api<Lease> = Api::namespaced(scene.cluster.client.clone(), "kube-system");
    let taken = Patch::Merge(json!({ "spec": { "holderIdentity": "somebody-else" } }));
    let patched = leases.patch(LEASE, &PatchParams::default(), &taken).await;
    patched.expect("a Lease to take");
    assert_eq!(leader.end().await.code(), Some(1), "{}", leader.log());
    assert_eq!(scene.changes(), ["associateIpAddress"], "nothing after that");
    assert_eq!(lease(&scene).await.expect("the Lease").0, "somebody-else", "it is not given up");
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_health_is_told_by_leader_and_standby() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let mut leader = scene.controller("leader", &[]);
    next_leader(&scene, "").await;
    let mut standby = scene.controller("standby", &[]);
    for replica in [&mut leader, &mut standby] {
        assert_eq!(replica.until_ok("/healthz").await, "ok");
        replica.until_ok("/livez").await;
        replica.until_ok("/readyz").await;
        let verbose = replica.until_ok("/healthz?verbose").await;
        assert!(verbose.contains("[+]leaderElection ok"), "{verbose}");
        let excluded = replica.until_ok("/healthz?verbose&exclude=leaderElection").await;
        assert!(!excluded.contains("[+]leaderElection ok"), "{excluded}");
        let (code, _) = replica.get("/metrics", None).await.expect("an answer");
        assert_eq!(code, 403, "metrics are not for everybody");
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_each_controller_has_a_check_and_requests_are_counted() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let flags = ["--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics*"];
    let mut leader = scene.controller("leader", &flags);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_published("web").await;
    let verbose = leader.until_ok("/healthz?verbose").await;
    for name in
        ["cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller"]
    {
        assert!(verbose.contains(&format!("[+]{name} ok")), "{verbose}");
    }
    let slis = leader.until_ok("/metrics/slis").await;
    assert!(
        slis.contains("kubernetes_healthcheck{name=\"service-lb-controller\",type=\"healthz\"} 1"),
        "{slis}"
    );
    let metrics = leader.until_ok("/metrics").await;
    for line in [
        "rest_client_requests_total{code=\"200\",method=\"PATCH\",host=\"127.0.0.1:",
        "rest_client_request_duration_seconds_count{verb=\"GET\",host=\"127.0.0.1:",
        "cloudstack_ccm_reconcile_total{kind=\"node\",outcome=\"done\"}",
        "workqueue_adds_total{name=\"node\"}",
    ] {
        assert!(metrics.contains(line), "{line} is not in:\n{metrics}");
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_one_that_has_nothing_to_do_ends_at_once() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let mut controller = scene.controller("controller", &[]);
    scene.objects.until_initialised("node-1").await;
    controller.until_ok("/readyz").await;
    // Somebody has connected and asks nothing.
    let _silent = controller.connect().await;
    let told = Instant::now();
    controller.signal(Signal::TERM);
    assert!(controller.end().await.success(), "it was told to stop");
    let took = told.elapsed();
    // As long as each of the things may take that are waited for at the end.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_only_the_controllers_that_are_named_run() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let controller = scene.controller("controller", &["--controllers=*,-service"]);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_initialised("node-1").await;
    let service = scene.objects.service("web").await.expect("the Service");
    assert_eq!(service.metadata.finalizers, None);
    assert!(
        controller.log().contains("the Service controller is disabled"),
        "{}",
        controller.log()
    );
    assert_eq!(scene.changes(), Vec::<&str>::new());
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_controllers_have_long_names_and_route_may_be_switched_off() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let nodes = "--controllers=cloud-node-controller,cloud-node-lifecycle-controller";
    let mut first = scene.controller("first", &[nodes]);
    scene.objects.create_service("web", json!({})).await;
    scene.objects.until_initialised("node-1").await;
    let service = scene.objects.service("web").await.expect("the Service");
    assert_eq!(service.metadata.finalizers, None, "nobody looks after Services");
    first.signal(Signal::TERM);
    first.end().await;

    let mut second = scene.controller("second", &["--controllers=-route,*"]);
    let (_, address) = scene.objects.until_published("web").await;
    scene.until_reached(&address, 80, &["node-1"]).await;
    second.assert_lives();
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_an_unknown_controller_is_an_error_that_names_it() {
    let scene = Scene::standard().await;
    let mut controller = scene.controller("controller", &["--controllers=bogus"]);
    assert_eq!(controller.end().await.code(), Some(1));
    assert!(controller.log().contains("bogus"), "{}", controller.log());
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_credentials_are_rotated_while_it_works_and_wrong_ones_kept_out() {
    let mut world = World::load(&fixture("worlds/standard.yaml")).expect("a world");
    world.cluster_id = None;
    add_second_user(&mut world);
    let scene = Scene::new(world).await;
    scene.objects.join("node-1").await;
    let folder = scene.cluster.folder();
    let config = fs::read_to_string(scene.cloud.config(folder)).expect("a cloud-config");
    let mut secret = MountedSecret::new(folder.join("secret"), "cloud-config", &config);
    let from_secret = format!("--cloud-config={}", secret.path().display());
    let mut controller = scene.controller("controller", &[&from_secret]);
    next_leader(&scene, "").await;

    secret.replace(&with_keys(&config, "no-such-api-key", "no-such-secret-key"));
    let kept = scene.objects.until_event("cloud-controller-manager", "CredentialsKept").await;
    assert!(kept.contains("unable to verify user credentials"), "{kept}");
    scene.objects.create_service("before", json!({})).await;
    scene.objects.until_published("before").await;

    let (_, api_key, secret_key) = SECOND;
    secret.replace(&with_keys(&config, api_key, secret_key));
    scene.objects.until_event("cloud-controller-manager", "CredentialsReplaced").await;
    let disabled = scene.cloud.with(|simulator| simulator.set_user_state("prod", State::Disabled));
    disabled.expect("a user of that name");
    scene.objects.create_service("after", json!({})).await;
    let (_, address) = scene.objects.until_published("after").await;
    scene.until_reached(&address, 80, &["node-1"]).await;
    controller.until_ok("/readyz").await;
    let log = controller.log();
    for text in ["no-such-api-key", "no-such-secret-key", api_key, secret_key] {
        assert!(!log.contains(text), "a key is in the log");
    }
}
