//! The cluster together with what Services left that vanished from it: they are planned and written
//! like any other, until nothing of theirs is left in CloudStack.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ccm_core::exec::error::CallError;
use ccm_core::ids::{ClusterId, ServiceKey};
use ccm_core::plan::action::ResolvedPatch;
use ccm_kubernetes::memory::MemoryCluster;
use jiff::Timestamp;
use tracing::info;

use crate::controller::ports::{Look, Watch};
use crate::ports::{Cluster, InMemory, Objects};

/// See the module.
#[derive(Debug)]
pub(super) struct WithVanished<K> {
    cluster: K,
    vanished: InMemory,
    news: Mutex<Vec<ServiceKey>>,
}

impl<K: Watch> WithVanished<K> {
    /// A cluster that nothing has vanished from yet.
    pub(super) fn new(cluster: K, cluster_id: ClusterId) -> Self {
        let vanished = InMemory::new(MemoryCluster::default(), cluster_id);
        Self { cluster, vanished, news: Mutex::default() }
    }

    /// Looks at a Service, vanished or not, as it was seen last.
    pub(super) fn look(&self, key: &ServiceKey, now: Timestamp) -> Look {
        if key.is_vanished() {
            return if self.remembers(key) { Look::Seen(None) } else { Look::Gone };
        }
        let look = self.cluster.look(key, now);
        self.remember_vanished();
        look
    }

    /// Services that vanished since this was last asked, each under a key of its own.
    pub(super) fn news(&self) -> Vec<ServiceKey> {
        std::mem::take(&mut *self.news_mut())
    }

    /// Whether something of a vanished Service is left, as far as is known.
    pub(super) fn remembers(&self, key: &ServiceKey) -> bool {
        self.vanished.with(|vanished| vanished.service(key).is_some())
    }

    fn remember_vanished(&self) {
        for raw in self.cluster.vanished() {
            info!(namespace = raw.namespace, service = raw.name, "a Service has vanished");
            // One that is remembered already is being removed.
            if let Ok(key) = self.vanished.with(|vanished| vanished.create(raw)) {
                self.news_mut().push(key);
            }
        }
    }

    /// Forgets those that are there after all.
    fn forget_returned(&self, live: &Objects) {
        self.vanished.with(|vanished| {
            let is_live = |uid| live.services.iter().any(|service| service.uid == uid);
            let returned = vanished.services().filter(|gone| is_live(gone.uid.clone()));
            let returned: Vec<ServiceKey> =
                returned.map(|gone| ServiceKey::new(&*gone.namespace, &*gone.name)).collect();
            for key in &returned {
                vanished.forget(key);
            }
        });
    }

    fn news_mut(&self) -> MutexGuard<'_, Vec<ServiceKey>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Cluster + Watch> Cluster for WithVanished<K> {
    async fn read(&self) -> Result<Objects, CallError> {
        let mut objects = self.cluster.read().await?;
        self.forget_returned(&objects);
        self.vanished.with(|vanished| objects.services.extend(vanished.services().cloned()));
        Ok(objects)
    }

    async fn patch(&self, patch: &ResolvedPatch) -> Result<(), CallError> {
        if patch.service.is_vanished() {
            self.vanished.patch(patch).await
        } else {
            self.cluster.patch(patch).await
        }
    }
}
