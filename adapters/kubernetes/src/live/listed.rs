//! Services and Nodes read by plain lists, for what looks at a cluster once, and planned writes to
//! the Services that were read last.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccm_core::exec::error::CallError;
use ccm_core::ids::{ClusterId, ServiceKey};
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::plan::action::ResolvedPatch;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use super::call_error;
use super::services::{key, write};
use crate::convert;

/// Objects a page, as kubectl has it.
const PAGE: u32 = 500;

/// See the module.
pub struct ListedCluster {
    client: Client,
    services: Mutex<BTreeMap<ServiceKey, Service>>,
}

impl ListedCluster {
    /// A cluster that was not read yet.
    pub fn new(client: Client) -> Self {
        Self { client, services: Mutex::default() }
    }

    /// All Services and Nodes, by name.
    ///
    /// # Errors
    /// [`CallError`] if either list can't be read whole.
    pub async fn read(&self) -> Result<(Vec<RawService>, Vec<RawNode>), CallError> {
        let services = list::<Service>(&self.client, "list services").await?;
        let nodes = list::<Node>(&self.client, "list nodes").await?;
        let services = services.into_iter().map(|service| (key(&service), service)).collect();
        let mut read = self.services();
        *read = services;
        let raw = read.values().map(convert::service).collect();
        let mut nodes: Vec<RawNode> = nodes.iter().map(convert::node).collect();
        nodes.sort_by(|left, right| left.name.cmp(&right.name));
        Ok((raw, nodes))
    }

    /// Writes to a Service.
    ///
    /// # Errors
    /// [`CallError`] if the API server did not take it, or the Service was not there when it was
    /// read last.
    pub async fn patch(
        &self,
        patch: &ResolvedPatch,
        cluster_id: &ClusterId,
    ) -> Result<(), CallError> {
        let key = &patch.service;
        let current = self.services().get(key).cloned();
        let after = write(&self.client, current.as_ref(), patch, cluster_id).await?;
        self.services().insert(key.clone(), after);
        Ok(())
    }

    fn services(&self) -> MutexGuard<'_, BTreeMap<ServiceKey, Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every page of a list.
async fn list<K>(client: &Client, request: &str) -> Result<Vec<K>, CallError>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&params).await.map_err(|error| call_error(request, &error))?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}
