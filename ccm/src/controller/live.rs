//! The watched cluster, as the controllers need it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ccm_core::exec::error::CallError;
use ccm_core::ids::{NodeUid, ServiceKey};
use ccm_core::model::node::NodeAddress;
use ccm_core::node::metadata::NodePatch;
use ccm_core::parse::ParseContext;
use ccm_core::parse::raw::RawService;
use ccm_core::plan::action::ResolvedPatch;
use ccm_core::trigger::Triggers;
use ccm_kubernetes::live::nodes::{NodeWriter, TaintChange};
use ccm_kubernetes::live::services::WatchedCluster;
use jiff::Timestamp;

use super::ports::{Look, NodeWrites, Watch};
use crate::ports::{Cluster, Objects};

/// See the module.
pub struct LiveCluster {
    watched: WatchedCluster,
    nodes: NodeWriter,
    triggers: Mutex<Triggers>,
}

impl LiveCluster {
    /// A watched cluster that nothing was written to yet.
    pub fn new(watched: WatchedCluster, nodes: NodeWriter, context: ParseContext) -> Self {
        Self { watched, nodes, triggers: Mutex::new(Triggers::new(context)) }
    }

    fn triggers(&self) -> MutexGuard<'_, Triggers> {
        self.triggers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster for LiveCluster {
    async fn read(&self) -> Result<Objects, CallError> {
        let objects = Objects::new(self.watched.services(), self.watched.nodes());
        Ok(objects.recalled(&self.triggers()))
    }

    async fn patch(&self, patch: &ResolvedPatch) -> Result<(), CallError> {
        let result = self.watched.patch(patch).await;
        let mut triggers = self.triggers();
        match &result {
            Ok(written) => {
                triggers.handle_written(&patch.service, &written.service, &written.version);
            }
            Err(error) => triggers.handle_failed(&patch.service, error.effect),
        }
        result.map(|_| ())
    }
}

impl Watch for LiveCluster {
    fn look(&self, key: &ServiceKey, now: Timestamp) -> Look {
        let mut triggers = self.triggers();
        match self.watched.seen(key) {
            Some(seen) => Look::Seen(triggers.handle_seen(&seen.service, &seen.version, now)),
            None => {
                triggers.handle_gone(key);
                Look::Gone
            }
        }
    }

    fn vanished(&self) -> Vec<RawService> {
        self.triggers().take_vanished()
    }
}

impl NodeWrites for LiveCluster {
    async fn set_addresses(&self, node: &str, addresses: &[NodeAddress]) -> Result<(), CallError> {
        self.nodes.set_addresses(node, addresses).await
    }

    async fn patch_node(&self, node: &str, patch: &NodePatch) -> Result<(), CallError> {
        self.nodes.patch(node, patch).await
    }

    async fn taint(&self, node: &str, change: TaintChange) -> Result<(), CallError> {
        self.nodes.taint(node, change).await
    }

    async fn delete_node(&self, node: &str, uid: &NodeUid) -> Result<(), CallError> {
        self.nodes.delete(node, uid).await
    }
}
