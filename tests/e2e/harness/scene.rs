//! A cluster, a CloudStack, and controllers between them that may do what our manifests grant.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ccm_simulator::{Protocol, TrafficQuery, World};
use ccm_tests::lab::fixture;
use ccm_tests::objects::Objects as CloudObjects;
use jiff::Timestamp;

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
        let cluster = Cluster::start().await;
        manifests::apply(&cluster.client, "rbac.yaml").await;
        let cloud = Cloud::start(world);
        let kubeconfig = cluster.kubeconfig_of("kube-system", ACCOUNT).await;
        let cloud_config = cloud.config(cluster.folder());
        let objects = Objects::new(cluster.client.clone());
        Self { cloud, cluster, objects, kubeconfig, cloud_config }
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

    /// What the account of the controller sees in CloudStack.
    pub(crate) fn in_cloud(&self) -> CloudObjects {
        self.cloud.with(|simulator| CloudObjects::of(simulator, &["prod"], Timestamp::now()))
    }

    /// Names of the machines that answer a connection from somewhere in the world.
    pub(crate) fn reach(&self, address: &str, port: u16) -> BTreeSet<String> {
        let query = TrafficQuery {
            source: "198.51.100.7".parse().expect("a source"),
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

    /// What a service account in kube-system asked the API server for.
    pub(crate) fn requests_of(&self, account: &str) -> Vec<Request> {
        let user = format!("system:serviceaccount:kube-system:{account}");
        let requests = self.cluster.audit().into_iter();
        requests.filter(|request| request.user() == user).collect()
    }

    /// Commands that could change something in CloudStack, in order.
    pub(crate) fn changes(&self) -> Vec<&'static str> {
        let calls = self.cloud.calls().into_iter().filter(|call| call.mutates);
        calls.map(|call| call.command).collect()
    }
}
