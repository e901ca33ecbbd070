//! What tells one cluster from another.

use ccm_core::exec::error::CallError;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client, Resource as _};
use tracing::debug;

use super::call_error;

/// The uid of an object that every cluster has and that the stock role may read; else that of the
/// namespace that every cluster has.
///
/// # Errors
/// [`CallError`] if neither can be read.
pub async fn uid(client: &Client) -> Result<String, CallError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    match maps.get("extension-apiserver-authentication").await {
        Ok(map) => return Ok(map.meta().uid.clone().unwrap_or_default()),
        Err(error) => debug!(%error, "the cluster id is taken from namespace kube-system"),
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespaces.get("kube-system").await;
    let namespace = namespace.map_err(|error| call_error("get namespaces", &error))?;
    Ok(namespace.meta().uid.clone().unwrap_or_default())
}
