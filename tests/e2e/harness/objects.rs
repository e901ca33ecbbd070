//! Services, Nodes and Events.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::eventually::eventually;

/// Longest way to a state on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
pub(crate) const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The objects of a cluster, as somebody with all rights works on them.
#[derive(Clone)]
pub(crate) struct Objects {
    client: Client,
}

impl Objects {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Makes Service `default/<name>` of type LoadBalancer, TCP port 80, with more in its spec.
    pub(crate) async fn create_service(&self, name: &str, spec: Value) -> Service {
        let mut object = json!({
            "metadata": { "name": name },
            "spec": {
                "type": "LoadBalancer",
                "selector": { "app": name },
                "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
            },
        });
        merge(&mut object["spec"], spec);
        let service = serde_json::from_value(object).expect("a Service");
        self.services().create(&PostParams::default(), &service).await.expect("a new Service")
    }

    /// Changes a Service by a merge patch.
    pub(crate) async fn patch_service(&self, name: &str, patch: Value) {
        let patched =
            self.services().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("a Service to patch");
    }

    /// Deletes a Service. Finalizers hold it.
    pub(crate) async fn delete_service(&self, name: &str) {
        let deleted = self.services().delete(name, &DeleteParams::default()).await;
        deleted.expect("a Service to delete");
    }

    /// The Service, if it is there.
    pub(crate) async fn service(&self, name: &str) -> Option<Service> {
        self.services().get_opt(name).await.expect("an API server")
    }

    /// Waits until a Service has an address in its status; gives both.
    pub(crate) async fn until_published(&self, name: &str) -> (Service, String) {
        eventually(&format!("an address for {name}"), PATIENCE, async || {
            let service = self.service(name).await.ok_or("no such Service")?;
            let address = ingress(&service).into_iter().next();
            let address = address.ok_or_else(|| format!("{:?}", service.status))?;
            Ok((service, address))
        })
        .await
    }

    /// Waits until a Service is no more.
    pub(crate) async fn until_gone(&self, name: &str) {
        eventually(&format!("the end of {name}"), PATIENCE, async || {
            match self.service(name).await {
                None => Ok(()),
                Some(service) => Err(format!("{:?}", service.metadata)),
            }
        })
        .await;
    }

    /// Makes a Node as a kubelet with an external cloud provider does: tainted, ready, without a
    /// provider id.
    pub(crate) async fn join(&self, name: &str) {
        let node = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "spec": { "taints": [{ "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" }] },
        });
        let node: Node = serde_json::from_value(node).expect("a Node");
        self.nodes().create(&PostParams::default(), &node).await.expect("a new Node");
        self.set_ready(name, "True").await;
    }

    /// Writes the Ready condition of a Node.
    pub(crate) async fn set_ready(&self, name: &str, status: &str) {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!({
            "type": "Ready", "status": status, "reason": "Test", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        });
        let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
        let patched = self.nodes().patch_status(name, &PatchParams::default(), &patch).await;
        patched.expect("a Node to patch");
    }

    /// Changes a Node by a merge patch.
    pub(crate) async fn patch_node(&self, name: &str, patch: Value) {
        let patched = self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("a Node to patch");
    }

    /// Deletes a Node.
    pub(crate) async fn delete_node(&self, name: &str) {
        let deleted = self.nodes().delete(name, &DeleteParams::default()).await;
        deleted.expect("a Node to delete");
    }

    /// The Node, if it is there.
    pub(crate) async fn node(&self, name: &str) -> Option<Node> {
        self.nodes().get_opt(name).await.expect("an API server")
    }

    /// Waits until a Node has no uninitialized taint.
    pub(crate) async fn until_initialised(&self, name: &str) -> Node {
        self.until_node(name, "is initialised", |node| !has_taint(node, UNINITIALIZED)).await
    }

    /// Waits until a Node is as it should be.
    pub(crate) async fn until_node(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Node) -> bool,
    ) -> Node {
        eventually(&format!("{name} {what}"), PATIENCE, async || {
            let node = self.node(name).await.ok_or("no such Node")?;
            if is_so(&node) { Ok(node) } else { Err(format!("{node:?}")) }
        })
        .await
    }

    /// Waits until a Node is no more.
    pub(crate) async fn until_node_gone(&self, name: &str) {
        eventually(&format!("the end of {name}"), PATIENCE, async || match self.node(name).await {
            None => Ok(()),
            Some(node) => Err(format!("{:?}", node.metadata)),
        })
        .await;
    }

    /// The Events about an object, oldest first: type, reason, message.
    pub(crate) async fn events(&self, object: &str) -> Vec<(String, String, String)> {
        let text = |text: Option<String>| text.unwrap_or_default();
        let told = self.all_events(object).await.into_iter();
        told.map(|event| (text(event.type_), text(event.reason), text(event.message))).collect()
    }

    async fn all_events(&self, object: &str) -> Vec<Event> {
        let events: Api<Event> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("involvedObject.name={object}"));
        let mut events = events.list(&params).await.expect("an API server").items;
        // A name ends with the time of its first occurrence.
        events.sort_by_key(|event| event.metadata.name.clone());
        events
    }

    /// The Events of a reason about an object, oldest first.
    pub(crate) async fn events_of(&self, object: &str, reason: &str) -> Vec<Event> {
        let mut events = self.all_events(object).await;
        events.retain(|event| event.reason.as_deref() == Some(reason));
        events
    }

    /// Reasons of the Events about an object, oldest first.
    pub(crate) async fn reasons(&self, object: &str) -> Vec<String> {
        self.events(object).await.into_iter().map(|(_, reason, _)| reason).collect()
    }

    /// Names of the objects that Events of a reason are about.
    pub(crate) async fn told_of(&self, reason: &str) -> BTreeSet<String> {
        let events: Api<Event> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("reason={reason}"));
        let events = events.list(&params).await.expect("an API server").items;
        events.into_iter().filter_map(|event| event.involved_object.name).collect()
    }

    /// Who holds a Lease of `kube-system`; empty if it was given up, `None` if it is not there.
    pub(crate) async fn lease_holder(&self, name: &str) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        let lease = leases.get_opt(name).await.expect("an API server")?;
        Some(lease.spec?.holder_identity.unwrap_or_default())
    }

    /// Waits for an Event of a reason; gives its message.
    pub(crate) async fn until_event(&self, object: &str, reason: &str) -> String {
        eventually(&format!("{reason} about {object}"), PATIENCE, async || {
            let events = self.events(object).await;
            let found = events.iter().find(|(_, found, _)| found == reason);
            found.map(|(_, _, message)| message.clone()).ok_or(format!("{events:?}"))
        })
        .await
    }
}

/// Addresses and host names that a Service publishes.
pub(crate) fn ingress(service: &Service) -> Vec<String> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|status| status.ingress.clone()).unwrap_or_default();
    ingress.into_iter().filter_map(|entry| entry.ip.or(entry.hostname)).collect()
}

/// Whether our finalizer holds a Service.
pub(crate) fn is_held(service: &Service) -> bool {
    service.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
}

/// Whether a Node has a taint of that key.
pub(crate) fn has_taint(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == key)
}

/// Puts the fields of one object over those of another.
fn merge(into: &mut Value, from: Value) {
    let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) else { return };
    into.extend(from);
}
