//! What the controllers need of their surroundings, besides [`Cloud`](crate::ports::Cloud)
//! and [`Cluster`](crate::ports::Cluster). The process
//! implements it with watches and an API server, tests with a cluster in memory.

use std::sync::Arc;

use ccm_cloudstack::{Client, Runtime, Transport};
use ccm_core::event::Event;
use ccm_core::event::correlate::ObjectRef;
use ccm_core::exec::error::CallError;
use ccm_core::ids::{NodeUid, ServiceKey, VirtualMachineId};
use ccm_core::model::node::NodeAddress;
use ccm_core::node::lifecycle::Answer;
use ccm_core::node::metadata::NodePatch;
use ccm_core::observe::VirtualMachine;
use ccm_core::parse::raw::RawService;
use ccm_core::trigger::Trigger;
use ccm_kubernetes::live::nodes::TaintChange;
use jiff::Timestamp;

/// Tells what changed on a Service since it was last looked at.
pub trait Watch {
    /// Looks at a Service as it was seen last.
    fn look(&self, key: &ServiceKey, now: Timestamp) -> Look;

    /// Services that vanished, or were replaced by others of their names, by the looks since this
    /// was last asked: as they are to be planned.
    fn vanished(&self) -> Vec<RawService>;
}

/// What a look at a Service shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// It is not there any more.
    Gone,
    /// It is there, and this is news.
    Seen(Option<Trigger>),
}

/// Publishes events.
pub trait Tell: Send + Sync {
    /// Tells something about an object. It may be folded into others, or dropped.
    fn tell(&self, about: &ObjectRef, event: &Event);
}

/// Says whether this process may change anything.
pub trait Fence: Send + Sync {
    /// To be asked before each change.
    fn may_change(&self) -> bool;
}

/// Virtual machines, for what is done about Nodes.
pub trait Inventory {
    /// All of the account or project.
    fn machines(&self) -> impl Future<Output = Result<Vec<VirtualMachine>, CallError>>;

    /// One by id.
    fn machine(&self, id: &VirtualMachineId) -> impl Future<Output = Answer>;
}

/// Writes to Nodes.
pub trait NodeWrites {
    /// Replaces `status.addresses`.
    fn set_addresses(
        &self,
        node: &str,
        addresses: &[NodeAddress],
    ) -> impl Future<Output = Result<(), CallError>>;

    /// Provider id, labels and the end of the uninitialized taint.
    fn patch_node(
        &self,
        node: &str,
        patch: &NodePatch,
    ) -> impl Future<Output = Result<(), CallError>>;

    /// The shutdown taint.
    fn taint(&self, node: &str, change: TaintChange)
    -> impl Future<Output = Result<(), CallError>>;

    /// Deletes a Node, if it still has this uid.
    fn delete_node(&self, node: &str, uid: &NodeUid)
    -> impl Future<Output = Result<(), CallError>>;
}

impl<K: Watch> Watch for Arc<K> {
    fn look(&self, key: &ServiceKey, now: Timestamp) -> Look {
        K::look(self, key, now)
    }

    fn vanished(&self) -> Vec<RawService> {
        K::vanished(self)
    }
}

impl<T: Transport, R: Runtime> Inventory for Client<T, R> {
    async fn machines(&self) -> Result<Vec<VirtualMachine>, CallError> {
        Client::machines(self).await
    }

    async fn machine(&self, id: &VirtualMachineId) -> Answer {
        Client::machine(self, id).await
    }
}

impl<C: Inventory> Inventory for Arc<C> {
    async fn machines(&self) -> Result<Vec<VirtualMachine>, CallError> {
        C::machines(self).await
    }

    async fn machine(&self, id: &VirtualMachineId) -> Answer {
        C::machine(self, id).await
    }
}

impl<K: NodeWrites> NodeWrites for Arc<K> {
    async fn set_addresses(&self, node: &str, addresses: &[NodeAddress]) -> Result<(), CallError> {
        K::set_addresses(self, node, addresses).await
    }

    async fn patch_node(&self, node: &str, patch: &NodePatch) -> Result<(), CallError> {
        K::patch_node(self, node, patch).await
    }

    async fn taint(&self, node: &str, change: TaintChange) -> Result<(), CallError> {
        K::taint(self, node, change).await
    }

    async fn delete_node(&self, node: &str, uid: &NodeUid) -> Result<(), CallError> {
        K::delete_node(self, node, uid).await
    }
}
