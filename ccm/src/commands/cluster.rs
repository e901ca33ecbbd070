//! A live cluster, as commands read it: by lists, each time anew.

use std::sync::Arc;

use anyhow::{Error, Result};
use ccm_core::exec::error::CallError;
use ccm_core::ids::ClusterId;
use ccm_core::model::policy::Policy;
use ccm_core::permission::Task;
use ccm_core::plan::action::ResolvedPatch;
use ccm_kubernetes::live::connect::{ApiServer, ConnectError, Unmetered, Whom, api_server};
use ccm_kubernetes::live::listed::ListedCluster;

use crate::cli::KubeArgs;
use crate::config::Config;
use crate::connect;
use crate::console::Console;
use crate::ports::{Cluster, Objects};

/// A client of the cluster that is meant.
pub(super) async fn connect(args: &KubeArgs) -> Result<ApiServer> {
    let KubeArgs { kubeconfig, context } = args;
    let whom =
        Whom { kubeconfig: kubeconfig.as_deref(), context: context.as_deref(), master: None };
    Ok(api_server(whom, Arc::new(Unmetered)).await?)
}

/// Reads what planning needs of a live cluster.
pub(super) async fn read(
    args: &KubeArgs,
    config: &Config,
    console: Console,
) -> Result<(Policy, Objects)> {
    let opened = open(args, config, Task::Plan, console).await;
    let (cluster, objects) = opened.map_err(|error| match error.downcast_ref() {
        Some(ConnectError::Nowhere(_)) => error.context(
            "where are the Services? Give --kubeconfig FILE, or --services PATH... and --nodes PATH...",
        ),
        Some(_) | None => error,
    })?;
    Ok((config.policy(cluster.id), objects))
}

/// Reads a live cluster for the first time.
pub(super) async fn open(
    args: &KubeArgs,
    config: &Config,
    task: Task,
    console: Console,
) -> Result<(LiveCluster, Objects)> {
    let ApiServer { client, url } = connect(args).await?;
    console.say(&format!("reading Services and Nodes from {url}"));
    let listed = ListedCluster::new(client.clone());
    let objects = objects(&listed).await.map_err(|error| explained(error, &url, task))?;
    let id = connect::cluster_id(config, &objects.services, &client).await?;
    Ok((LiveCluster { listed, client, url, id }, objects))
}

/// A cluster that is listed anew each time it is read.
pub(super) struct LiveCluster {
    listed: ListedCluster,
    pub(super) client: kube::Client,
    pub(super) url: String,
    pub(super) id: ClusterId,
}

impl Cluster for LiveCluster {
    async fn read(&self) -> Result<Objects, CallError> {
        objects(&self.listed).await
    }

    async fn patch(&self, patch: &ResolvedPatch) -> Result<(), CallError> {
        self.listed.patch(patch, &self.id).await
    }
}

async fn objects(listed: &ListedCluster) -> Result<Objects, CallError> {
    let (services, nodes) = listed.read().await?;
    Ok(Objects::new(services, nodes))
}

/// What a person can do about a request that failed.
pub(super) fn explained(error: CallError, url: &str, task: Task) -> Error {
    let text = match error.code {
        None => format!("the API server {url} can't be reached"),
        Some(401) => format!("the API server {url} does not know the credentials"),
        Some(403) => {
            let (manifest, role) = task.granted_by();
            format!(
                "the credentials may not {}: bind them to ClusterRole {role}, which {manifest} \
                 has; `check-permissions --for {}` tells what else is missing",
                error.command,
                task.name()
            )
        }
        Some(_) => format!("the API server {url} does not answer as it should"),
    };
    Error::new(error).context(text)
}
