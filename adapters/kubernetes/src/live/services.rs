//! Services and Nodes as they are watched, and planned writes to Services.
//!
//! A watch lags behind what this process wrote itself. Planning from such an old object could take
//! a second address for a Service, since the intent of the first would be missing: so the answer to
//! each write counts until the watch has caught up with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::ids::{ClusterId, ServiceKey};
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::plan::action::ResolvedPatch;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt as _};

use super::call_error;
use crate::{convert, patch};

const PATCH: &str = "patch services/status";

/// See the module.
pub struct WatchedCluster {
    client: Client,
    services: Store<Service>,
    nodes: Store<Node>,
    cluster_id: ClusterId,
    written: Mutex<BTreeMap<ServiceKey, Arc<Service>>>,
}

/// A Service in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The Service.
    pub service: RawService,
    /// Its `metadata.resourceVersion`.
    pub version: String,
}

impl From<&Service> for Versioned {
    fn from(service: &Service) -> Self {
        let version = service.resource_version().unwrap_or_default();
        Self { service: convert::service(service), version }
    }
}

impl WatchedCluster {
    /// A cluster whose watches fill these stores.
    pub fn new(
        client: Client,
        services: Store<Service>,
        nodes: Store<Node>,
        cluster_id: ClusterId,
    ) -> Self {
        Self { client, services, nodes, cluster_id, written: Mutex::default() }
    }

    /// All Services, as of the last watch event or own write.
    pub fn services(&self) -> Vec<RawService> {
        let watched = self.services.state();
        let mut written = self.written();
        let known: BTreeMap<ServiceKey, Arc<Service>> =
            watched.into_iter().map(|service| (key(&service), service)).collect();
        written.retain(|key, own| known.get(key).is_some_and(|seen| is_newer(own, seen)));
        known.iter().map(|(key, seen)| convert::service(written.get(key).unwrap_or(seen))).collect()
    }

    /// One Service, as of the last watch event.
    pub fn seen(&self, key: &ServiceKey) -> Option<Versioned> {
        self.services.get(&reference(key)).map(|service| Versioned::from(&*service))
    }

    /// All Nodes, as of the last watch event.
    pub fn nodes(&self) -> Vec<RawNode> {
        self.nodes.state().iter().map(|node| convert::node(node)).collect()
    }

    /// Writes to a Service; gives it as it is afterwards.
    ///
    /// # Errors
    /// [`CallError`] if the API server did not take it, or there is no such Service any more.
    pub async fn patch(&self, patch: &ResolvedPatch) -> Result<Versioned, CallError> {
        let key = &patch.service;
        let current = self.current(key);
        let after = write(&self.client, current.as_deref(), patch, &self.cluster_id).await?;
        let written = Versioned::from(&after);
        self.written().insert(key.clone(), Arc::new(after));
        Ok(written)
    }

    fn current(&self, key: &ServiceKey) -> Option<Arc<Service>> {
        let seen = self.services.get(&reference(key))?;
        let own = self.written().get(key).filter(|own| is_newer(own, &seen)).cloned();
        Some(own.unwrap_or(seen))
    }

    fn written(&self) -> MutexGuard<'_, BTreeMap<ServiceKey, Arc<Service>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to a Service as it was read, if it is the one that was planned for; gives it as it is
/// afterwards.
pub(super) async fn write(
    client: &Client,
    current: Option<&Service>,
    patch: &ResolvedPatch,
    cluster_id: &ClusterId,
) -> Result<Service, CallError> {
    let is_planned = |found: &&Service| found.metadata.uid.as_deref() == Some(patch.uid.as_str());
    let current = current.filter(is_planned).ok_or_else(|| vanished(patch))?;
    let body = patch::body(current, patch, cluster_id);
    let ServiceKey { namespace, name } = &patch.service;
    let api: Api<Service> = Api::namespaced(client.clone(), namespace);
    let after = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&body)).await;
    after.map_err(|error| call_error(PATCH, &error))
}

fn reference(key: &ServiceKey) -> ObjectRef<Service> {
    ObjectRef::new(&key.name).within(&key.namespace)
}

/// The key of a Service.
pub fn key(service: &Service) -> ServiceKey {
    ServiceKey::new(service.namespace().unwrap_or_default(), service.name_any())
}

/// Whether our write left the same object in a newer version than the watch has seen. Versions of
/// one object are numbers that grow.
fn is_newer(own: &Service, seen: &Service) -> bool {
    let version = |service: &Service| service.metadata.resource_version.as_ref()?.parse().ok();
    let (own_version, seen_version): (Option<u64>, Option<u64>) = (version(own), version(seen));
    own.metadata.uid == seen.metadata.uid && own_version > seen_version
}

fn vanished(patch: &ResolvedPatch) -> CallError {
    CallError {
        command: PATCH.to_owned(),
        code: None,
        fault: Fault::Transient,
        effect: Effect::No,
        retry_after: None,
        message: format!("Service {} of uid {} does not exist any more", patch.service, patch.uid),
    }
}
