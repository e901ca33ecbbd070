//! A cluster, a CloudStack, and controllers between them that may do what our manifests grant.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use ccm_simulator::world::Role;
use ccm_simulator::{Protocol, TrafficQuery, World};
use ccm_tests::lab::fixture;
use ccm_tests::objects::{Object, Objects as CloudObjects};
use ccm_tests::replay::world_of_lists;
use ccm_tests::{deploy, recorded};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::audit::Request;
use super::cloud::Cloud;
use super::cluster::Cluster;
use super::controller::{Controller, Surroundings};
use super::eventually::eventually;
use super::manifests;
use super::objects::{Objects, PATIENCE};

/// The service account of `deploy/manifests/rbac.yaml`.
pub(crate) const ACCOUNT: &str = "cloud-controller-manager";

/// The one of `deploy/manifests/dry-run.yaml`.
pub(crate) const DRY_RUN: &str = "cloudstack-ccm-dry-run";

/// See the module.
pub(crate) struct Scene {
    pub(crate) cloud: Cloud,
    pub(crate) cluster: Cluster,
    pub(crate) objects: Objects,
    /// Of the service account of the controller.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) cloud_config: PathBuf,
    /// The account of the controller in CloudStack.
    account: String,
}

impl Scene {
    /// With the standard world of the cases: account `prod`, machines node-1 to node-4 in `iso-1`.
    pub(crate) async fn standard() -> Self {
        let mut world = World::load(&fixture("worlds/standard.yaml")).expect("a world");
        // As users have it: the cluster is asked for its id.
        world.cluster_id = None;
        Self::new(world).await
    }

    /// With the standard world, and Nodes that join as a controller works.
    pub(crate) async fn with_nodes(names: &[&str]) -> Self {
        let scene = Self::standard().await;
        for name in names {
            scene.objects.join(name).await;
        }
        scene
    }

    /// With a world.
    pub(crate) async fn new(world: World) -> Self {
        Self::with_grants(world, &deploy::objects("rbac.yaml")).await
    }

    /// With what another controller left in both systems (a folder of `fixtures/adoption`), and with
    /// the grants that it had. `shape` is what is different in CloudStack.
    pub(crate) async fn left_by(state: &str, shape: fn(&mut World)) -> Self {
        let mut world = world_of_lists(&recorded::answers(state)).expect("a world");
        shape(&mut world);
        let grants = deploy::read(&fixture("adoption/go-controller-rbac.yaml"));
        let scene = Self::with_grants(world, &grants).await;
        for node in recorded::objects(state, "nodes.json", "Node") {
            scene.restore("minions", node).await;
        }
        for service in recorded::objects(state, "services.json", "Service") {
            scene.restore("services/specs/default", service).await;
        }
        scene
    }

    /// With a Node that is an hour old, initialised and ready: what happens to a young one is held
    /// back.
    pub(crate) async fn old_node(&self, name: &str, machine: &str) {
        let made = Timestamp::now() - SignedDuration::from_hours(1);
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": machine,
                "creationTimestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "labels": { "kubernetes.io/hostname": name },
            },
            "spec": { "providerID": format!("external-cloudstack://{machine}") },
            "status": {},
        });
        self.restore("minions", node).await;
        self.objects.set_ready(name, "True").await;
    }

    async fn restore(&self, folder: &str, mut object: Value) {
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        // That is etcd's own.
        metadata.remove("resourceVersion");
        let name = metadata["name"].as_str().expect("a name");
        let key = format!("{folder}/{name}");
        self.cluster.restore(&key, &object).await;
    }

    async fn with_grants(world: World, grants: &[Value]) -> Self {
        let users = world.accounts.iter().find(|account| account.role == Role::User);
        let account = users.expect("an account for the controller").name.clone();
        let cluster = Cluster::start().await;
        manifests::apply_all(&cluster.client, grants).await;
        let cloud = Cloud::start(world);
        let kubeconfig = cluster.kubeconfig_of("kube-system", ACCOUNT).await;
        let cloud_config = cloud.config(cluster.folder());
        let objects = Objects::new(cluster.client.clone());
        Self { cloud, cluster, objects, kubeconfig, cloud_config, account }
    }

    /// Starts a controller, with flags beside those that name its surroundings.
    pub(crate) fn controller(&self, name: &str, flags: &[&str]) -> Controller {
        let around = Surroundings {
            folder: self.cluster.folder(),
            kubeconfig: &self.kubeconfig,
            cloud_config: &self.cloud_config,
        };
        Controller::start(name, &around, flags)
    }

    /// Starts one that may do what another service account may.
    pub(crate) async fn controller_as(
        &self,
        account: &str,
        name: &str,
        flags: &[&str],
    ) -> Controller {
        let kubeconfig = self.cluster.kubeconfig_of("kube-system", account).await;
        let around = Surroundings {
            folder: self.cluster.folder(),
            kubeconfig: &kubeconfig,
            cloud_config: &self.cloud_config,
        };
        Controller::start(name, &around, flags)
    }

    /// Applies a file of `deploy/manifests`.
    pub(crate) async fn grant(&self, file: &str) {
        manifests::apply(&self.cluster.client, file).await;
    }

    /// Changes the cloud-config.
    pub(crate) fn edit_config(&self, edit: impl FnOnce(String) -> String) {
        let config = fs::read_to_string(&self.cloud_config).expect("a cloud-config");
        fs::write(&self.cloud_config, edit(config)).expect("a cloud-config");
    }

    /// What the account of the controller sees in CloudStack.
    pub(crate) fn in_cloud(&self) -> CloudObjects {
        self.seen_by(&self.account)
    }

    /// What an account sees in CloudStack.
    pub(crate) fn seen_by(&self, account: &str) -> CloudObjects {
        self.cloud.with(|simulator| CloudObjects::of(simulator, &[account], Timestamp::now()))
    }

    /// The load balancer rule on a port of an address, if there is one.
    pub(crate) fn rule(&self, address: &str, port: u16) -> Option<Object> {
        let objects = self.in_cloud();
        let rule = objects.rules().into_iter().find(|rule| {
            rule.text("publicip") == address && rule.text("publicport") == port.to_string()
        });
        rule.cloned()
    }

    /// Names of the machines that answer a connection from somewhere in the world.
    pub(crate) fn reach(&self, address: &str, port: u16) -> BTreeSet<String> {
        self.reach_from("198.51.100.7", address, port)
    }

    /// Names of the machines that answer a connection from a source.
    pub(crate) fn reach_from(&self, source: &str, address: &str, port: u16) -> BTreeSet<String> {
        let query = TrafficQuery {
            source: source.parse().expect("a source"),
            address: address.parse().expect("a public address"),
            protocol: Protocol::Tcp,
            port,
        };
        let reach = self.cloud.with(|simulator| simulator.reach(&query));
        reach.members.into_iter().map(|member| member.name).collect()
    }

    /// Waits until exactly these machines answer.
    pub(crate) async fn until_reached(&self, address: &str, port: u16, machines: &[&str]) {
        let wanted: BTreeSet<String> = machines.iter().map(|name| (*name).to_owned()).collect();
        eventually(&format!("{address}:{port} leads to {machines:?}"), PATIENCE, async || {
            let found = self.reach(address, port);
            if found == wanted { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }

    /// What the controller asked the API server for.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests_of(ACCOUNT)
    }

    /// What a service account of `kube-system` asked the API server for.
    pub(crate) fn requests_of(&self, account: &str) -> Vec<Request> {
        let user = format!("system:serviceaccount:kube-system:{account}");
        let requests = self.cluster.audit().into_iter();
        requests.filter(|request| request.user() == user).collect()
    }

    /// What the controller wrote in Kubernetes, but for the Lease and what tells of it.
    pub(crate) fn writes(&self) -> Vec<Request> {
        let is_election = |request: &Request| {
            request.resource() == "leases" || request.uri.contains("/namespaces/kube-system/events")
        };
        // Who reads its metrics: asked by a POST, and kept nowhere.
        let asks = |request: &Request| request.resource().ends_with("reviews");
        let requests = self.requests().into_iter().filter(Request::writes);
        requests.filter(|request| !is_election(request) && !asks(request)).collect()
    }

    /// Commands that could change something in CloudStack, in order.
    pub(crate) fn changes(&self) -> Vec<&'static str> {
        let calls = self.cloud.calls().into_iter().filter(|call| call.mutates);
        calls.map(|call| call.command).collect()
    }
}
