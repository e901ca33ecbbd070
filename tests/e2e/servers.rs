//! What the other tests stand on, without a controller: a test that fails there and not here has
//! something to say about the controller.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use ccm_simulator::World;
use ccm_tests::lab::fixture;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::harness::access;
use crate::harness::cloud::Cloud;
use crate::harness::cluster::Cluster;
use crate::harness::manifests;
use crate::harness::settings;

const ACCOUNT: &str = "system:serviceaccount:kube-system:cloud-controller-manager";

fn service(name: &str) -> Service {
    let object = json!({
        "metadata": { "name": name },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }], "selector": { "app": name } },
    });
    serde_json::from_value(object).expect("a Service")
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_service_gets_addresses_and_ports_but_no_load_balancer_without_us() {
    let cluster = Cluster::start().await;
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), "default");
    services.create(&PostParams::default(), &service("web")).await.expect("a new Service");
    let found = services.get("web").await.expect("the Service");
    let spec = found.spec.expect("a spec");
    assert!(spec.cluster_ip.is_some_and(|ip| ip.starts_with("10.")));
    let ports = spec.ports.unwrap_or_default();
    assert!(ports[0].node_port.is_some_and(|port| (30_000..32_768).contains(&port)), "{ports:?}");
    let status = found.status.and_then(|status| status.load_balancer).unwrap_or_default();
    assert!(status.ingress.is_none_or(|ingress| ingress.is_empty()));
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_an_account_may_do_what_the_shipped_roles_say_and_the_audit_log_tells() {
    let cluster = Cluster::start().await;
    manifests::apply_kind(&cluster.client, "rbac.yaml", "ServiceAccount").await;
    let kubeconfig = cluster.kubeconfig_of("kube-system", "cloud-controller-manager").await;
    let theirs = access::client(&kubeconfig).await.expect("a client");
    let services: Api<Service> = Api::all(theirs.clone());
    let refused = services.list(&ListParams::default()).await.expect_err("no role yet");
    assert_eq!(code(&refused), Some(403), "{refused}");

    manifests::apply(&cluster.client, "rbac.yaml").await;
    services.list(&ListParams::default()).await.expect("a role by now");
    let services: Api<Service> = Api::namespaced(theirs, "default");
    let edit = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let refused = services.patch("kubernetes", &PatchParams::default(), &edit).await;
    assert_eq!(code(&refused.expect_err("only the status")), Some(403));

    let requests = cluster.audit();
    let ours = requests.iter().filter(|request| request.user() == ACCOUNT);
    let seen: Vec<(&str, String, u16)> =
        ours.map(|request| (request.verb.as_str(), request.resource(), request.code())).collect();
    let expected = [("list", 403), ("list", 200), ("patch", 403)]
        .map(|(verb, code)| (verb, "services".to_owned(), code));
    assert_eq!(seen, expected);
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_the_shipped_manifests_are_taken_as_they_are() {
    let cluster = Cluster::start().await;
    for file in ccm_tests::deploy::files() {
        manifests::apply(&cluster.client, &file).await;
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_objects_outlive_the_api_server() {
    let mut cluster = Cluster::start().await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let node = json!({ "metadata": { "name": "node-1" } });
    let node: Node = serde_json::from_value(node).expect("a Node");
    nodes.create(&PostParams::default(), &node).await.expect("a new Node");
    cluster.stop_api_server().await;
    nodes.get("node-1").await.expect_err("nobody answers");
    cluster.start_api_server().await;
    nodes.delete("node-1", &DeleteParams::default()).await.expect("the Node is there");
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_the_binary_reaches_cloudstack_with_the_configuration_it_is_given() {
    let cluster = Cluster::start().await;
    let world = World::load(&fixture("demo/world.yaml")).expect("a world");
    let mut cloud = Cloud::start(world);
    let config = cloud.config(cluster.folder());
    let plan = || -> Output {
        let mut command = Command::new(settings::binary());
        command.arg("plan").arg("--cloud-config").arg(&config);
        command.arg("--services").arg(fixture("demo/services"));
        command.arg("--nodes").arg(fixture("demo/nodes"));
        command.output().expect("the binary runs")
    };
    let planned = plan();
    let text = String::from_utf8_lossy(&planned.stdout);
    assert!(planned.status.success() && text.contains("associateIpAddress"), "{planned:?}");
    let asked: BTreeSet<&str> = cloud.counts().into_keys().collect();
    assert!(asked.contains("listLoadBalancerRules"), "{asked:?}");
    assert!(cloud.calls().iter().all(|call| !call.mutates), "{asked:?}");

    cloud.down().await;
    assert_eq!(plan().status.code(), Some(1), "nobody answers");
    cloud.up();
    assert!(plan().status.success(), "it answers again");
}
