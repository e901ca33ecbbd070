//! Writes to Nodes.

use ccm_core::exec::error::CallError;
use ccm_core::ids::NodeUid;
use ccm_core::model::node::NodeAddress;
use ccm_core::node::metadata::NodePatch;
use ccm_core::node::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::core::v1::Taint;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use super::call_error;

/// Writes to the Nodes of a cluster.
pub struct NodeWriter {
    nodes: Api<Node>,
}

/// What a patch of taints changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintChange {
    /// Every uninitialized taint goes, whatever its effect.
    Initialise,
    /// The shutdown taint comes, with effect `NoSchedule`.
    ShutDown,
    /// The shutdown taint goes.
    Return,
}

impl NodeWriter {
    /// A writer to the Nodes of that client's cluster.
    pub fn new(client: Client) -> Self {
        Self { nodes: Api::all(client) }
    }

    /// Replaces `status.addresses`.
    ///
    /// # Errors
    /// [`CallError`] if the API server did not take it.
    pub async fn set_addresses(
        &self,
        node: &str,
        addresses: &[NodeAddress],
    ) -> Result<(), CallError> {
        let addresses: Vec<Value> = addresses
            .iter()
            .map(|found| json!({ "type": found.kind.as_str(), "address": found.address }))
            .collect();
        let body = json!({ "status": { "addresses": addresses } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&body));
        let patched = self.nodes.patch_status(node, &params, &patch).await;
        patched.map(drop).map_err(|error| call_error("patch nodes/status", &error))
    }

    /// Writes provider id, labels and the end of the uninitialized taint in one patch.
    ///
    /// # Errors
    /// [`CallError`] if the API server did not take it, also if the Node changed meanwhile.
    pub async fn patch(&self, node: &str, patch: &NodePatch) -> Result<(), CallError> {
        let NodePatch { provider_id, labels, initialise } = patch;
        let mut spec = Map::new();
        if let Some(id) = provider_id {
            spec.insert("providerID".to_owned(), json!(id));
        }
        let mut metadata = Map::new();
        if !labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(labels));
        }
        if *initialise {
            self.change_taints(node, TaintChange::Initialise, &mut metadata, &mut spec).await?;
        }
        self.send(node, &metadata, &spec).await
    }

    /// Adds or removes a taint.
    ///
    /// # Errors
    /// [`CallError`] if the API server did not take it, also if the Node changed meanwhile.
    pub async fn taint(&self, node: &str, change: TaintChange) -> Result<(), CallError> {
        let (mut metadata, mut spec) = (Map::new(), Map::new());
        self.change_taints(node, change, &mut metadata, &mut spec).await?;
        self.send(node, &metadata, &spec).await
    }

    /// Deletes a Node, if it still is the one of that uid.
    ///
    /// # Errors
    /// [`CallError`] if it was not deleted. One that is gone already is no error.
    pub async fn delete(&self, node: &str, uid: &NodeUid) -> Result<(), CallError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.as_str().to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.nodes.delete(node, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(call_error("delete nodes", &error)),
        }
    }

    /// A merge patch replaces the taints as a whole: it names the version it was made from, so that
    /// a taint that somebody else sets meanwhile is not lost.
    async fn change_taints(
        &self,
        node: &str,
        change: TaintChange,
        metadata: &mut Map<String, Value>,
        spec: &mut Map<String, Value>,
    ) -> Result<(), CallError> {
        let current =
            self.nodes.get(node).await.map_err(|error| call_error("get nodes", &error))?;
        let taints = current.spec.and_then(|spec| spec.taints).unwrap_or_default();
        spec.insert("taints".to_owned(), json!(taints_after(taints, change)));
        if let Some(version) = current.metadata.resource_version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        Ok(())
    }

    async fn send(
        &self,
        node: &str,
        metadata: &Map<String, Value>,
        spec: &Map<String, Value>,
    ) -> Result<(), CallError> {
        let body = json!({ "metadata": metadata, "spec": spec });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&body));
        let patched = self.nodes.patch(node, &params, &patch).await;
        patched.map(drop).map_err(|error| call_error("patch nodes", &error))
    }
}

fn taints_after(mut taints: Vec<Taint>, change: TaintChange) -> Vec<Taint> {
    let gone = match change {
        TaintChange::Initialise => UNINITIALIZED_TAINT,
        TaintChange::ShutDown | TaintChange::Return => SHUTDOWN_TAINT,
    };
    taints.retain(|taint| taint.key != gone);
    if change == TaintChange::ShutDown {
        taints.push(Taint {
            key: SHUTDOWN_TAINT.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    taints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, effect: &str) -> Taint {
        Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
    }

    #[test]
    fn every_uninitialized_taint_goes_and_others_stay() {
        let taints = vec![
            taint(UNINITIALIZED_TAINT, "NoSchedule"),
            taint("a/b", "NoExecute"),
            taint(UNINITIALIZED_TAINT, "NoExecute"),
        ];
        assert_eq!(taints_after(taints, TaintChange::Initialise), [taint("a/b", "NoExecute")]);
    }

    #[test]
    fn the_shutdown_taint_comes_once_and_goes() {
        let shut = taints_after(vec![taint(SHUTDOWN_TAINT, "NoSchedule")], TaintChange::ShutDown);
        assert_eq!(shut, [taint(SHUTDOWN_TAINT, "NoSchedule")]);
        assert_eq!(taints_after(shut, TaintChange::Return), []);
    }
}
