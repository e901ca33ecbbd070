//! What the controller needs of the two sides. The real adapters, and the in-memory ones of demo
//! and tests, implement these.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use ccm_cloudstack::{Client, Runtime, Transport};
use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::output::Output;
use ccm_core::ids::{ClusterId, LoadBalancerRuleId, ServiceKey, VirtualMachineId};
use ccm_core::observe::CloudState;
use ccm_core::observe::scope::Scope;
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::plan::action::{Call, ResolvedPatch};
use ccm_core::trigger::Triggers;
use ccm_kubernetes::memory::MemoryCluster;
use serde::{Deserialize, Serialize};

/// CloudStack.
pub trait Cloud {
    /// Reads everything in scope, but no members.
    fn observe(&self, scope: &Scope) -> impl Future<Output = Result<CloudState, CallError>>;

    /// Reads the members of rules. One that vanished meanwhile is left out.
    fn members(
        &self,
        rules: &BTreeSet<LoadBalancerRuleId>,
    ) -> impl Future<Output = Result<Members, CallError>>;

    /// Makes a call and follows its job to the end.
    fn call(&self, call: &Call) -> impl Future<Output = Result<Output, CallError>>;
}

/// The members of rules.
pub type Members = BTreeMap<LoadBalancerRuleId, BTreeSet<VirtualMachineId>>;

impl<T: Transport, R: Runtime> Cloud for Client<T, R> {
    async fn observe(&self, scope: &Scope) -> Result<CloudState, CallError> {
        Client::observe(self, scope).await
    }

    async fn members(&self, rules: &BTreeSet<LoadBalancerRuleId>) -> Result<Members, CallError> {
        Client::members(self, rules).await
    }

    async fn call(&self, call: &Call) -> Result<Output, CallError> {
        Client::call(self, call).await
    }
}

impl<C: Cloud> Cloud for Arc<C> {
    async fn observe(&self, scope: &Scope) -> Result<CloudState, CallError> {
        C::observe(self, scope).await
    }

    async fn members(&self, rules: &BTreeSet<LoadBalancerRuleId>) -> Result<Members, CallError> {
        C::members(self, rules).await
    }

    async fn call(&self, call: &Call) -> Result<Output, CallError> {
        C::call(self, call).await
    }
}

/// Kubernetes.
pub trait Cluster {
    /// All Services and Nodes.
    fn read(&self) -> impl Future<Output = Result<Objects, CallError>>;

    /// Writes to a Service.
    fn patch(&self, patch: &ResolvedPatch) -> impl Future<Output = Result<(), CallError>>;
}

impl<K: Cluster> Cluster for Arc<K> {
    async fn read(&self) -> Result<Objects, CallError> {
        K::read(self).await
    }

    async fn patch(&self, patch: &ResolvedPatch) -> Result<(), CallError> {
        K::patch(self, patch).await
    }
}

/// The objects that planning needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// Services of any type.
    pub services: Vec<RawService>,
    /// Nodes.
    pub nodes: Vec<RawNode>,
    /// Services of which somebody removed or edited what we wrote on them; they are here as we last
    /// wrote them. Only who watches knows: no file tells of it.
    #[serde(skip)]
    pub stripped: BTreeSet<ServiceKey>,
}

impl Objects {
    /// Objects as they are.
    pub fn new(services: Vec<RawService>, nodes: Vec<RawNode>) -> Self {
        Self { services, nodes, stripped: BTreeSet::new() }
    }

    /// The same, with stripped Services as we last wrote them.
    #[must_use]
    pub fn recalled(mut self, triggers: &Triggers) -> Self {
        for service in &mut self.services {
            if let Some(whole) = triggers.recall(service) {
                *service = whole;
                self.stripped.insert(ServiceKey::new(&*service.namespace, &*service.name));
            }
        }
        self
    }
}

/// Objects from files: nothing keeps writes to them.
impl Cluster for Objects {
    async fn read(&self) -> Result<Objects, CallError> {
        Ok(self.clone())
    }

    async fn patch(&self, _: &ResolvedPatch) -> Result<(), CallError> {
        Ok(())
    }
}

/// A cluster in memory, which keeps what is written.
#[derive(Debug)]
pub struct InMemory {
    cluster: Mutex<MemoryCluster>,
    cluster_id: ClusterId,
}

impl InMemory {
    /// The cluster of that id.
    pub fn new(cluster: MemoryCluster, cluster_id: ClusterId) -> Self {
        Self { cluster: Mutex::new(cluster), cluster_id }
    }

    /// Works on the cluster, as a person with kubectl would.
    pub fn with<T>(&self, work: impl FnOnce(&mut MemoryCluster) -> T) -> T {
        work(&mut self.cluster.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Carries out a planned write; gives the Service as it is afterwards, or as it went.
    ///
    /// # Errors
    /// [`CallError`] as an API server would refuse it.
    pub fn apply(&self, patch: &ResolvedPatch) -> Result<RawService, CallError> {
        self.with(|cluster| cluster.apply(patch, &self.cluster_id)).map_err(|error| CallError {
            command: "patch services/status".to_owned(),
            code: None,
            fault: Fault::Refused,
            effect: Effect::No,
            retry_after: None,
            message: error.to_string(),
        })
    }
}

impl Cluster for InMemory {
    async fn read(&self) -> Result<Objects, CallError> {
        Ok(self.with(|cluster| {
            let (services, nodes) = (cluster.services().cloned(), cluster.nodes().cloned());
            Objects::new(services.collect(), nodes.collect())
        }))
    }

    async fn patch(&self, patch: &ResolvedPatch) -> Result<(), CallError> {
        self.apply(patch).map(|_| ())
    }
}
