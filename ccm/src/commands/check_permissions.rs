//! `check-permissions`: what the credentials of either side may do, and what is lost without the
//! rest. It changes nothing.

use std::env;

use anyhow::{Result, bail};
use ccm_cloudstack::{Permissions, TokioRuntime};
use ccm_core::permission::Task;
use ccm_core::permission::kubernetes::{self, Grant};
use ccm_core::permission::report::{Report, Side};
use ccm_kubernetes::live::connect::ApiServer;
use ccm_kubernetes::live::review::Reviewer;
use k8s_openapi::api::authorization::v1::ResourceAttributes;

use super::{Exit, cluster};
use crate::cli::{CheckPermissionsArgs, ConnectArgs, Form, KubeArgs};
use crate::config::Setting;
use crate::connect;
use crate::console::Console;

/// Finds out, and prints.
pub(super) async fn run(args: &CheckPermissionsArgs, console: Console) -> Result<Exit> {
    let CheckPermissionsArgs { connect, cluster, task, output } = args;
    let (asks_cloud, asks_cluster) = (names_cloudstack(args), names_cluster(cluster));
    if !asks_cloud && !asks_cluster {
        bail!(
            "nothing says whose permissions to check: give --cloud-config for CloudStack, \
             --kubeconfig for a cluster, or both"
        );
    }
    let cloudstack =
        if asks_cloud { Some(cloud_side(connect, *task, console).await?) } else { None };
    let kubernetes =
        if asks_cluster { Some(cluster_side(cluster, *task, console).await?) } else { None };
    let report = Report::new(*task, cloudstack, kubernetes);
    let text = match output {
        Form::Human => report.human(),
        Form::Json => serde_json::to_string_pretty(&report)? + "\n",
    };
    console.print(&text)?;
    Ok(if report.is_complete() { Exit::Done } else { Exit::Missing })
}

fn names_cloudstack(args: &CheckPermissionsArgs) -> bool {
    args.connect.cloud_config.is_some() || is_set(Setting::ApiUrl.spec().env)
}

/// In a pod its own cluster is meant.
fn names_cluster(args: &KubeArgs) -> bool {
    let KubeArgs { kubeconfig, context } = args;
    kubeconfig.is_some()
        || context.is_some()
        || is_set("KUBECONFIG")
        || is_set("KUBERNETES_SERVICE_HOST")
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

async fn cloud_side(args: &ConnectArgs, task: Task, console: Console) -> Result<Side> {
    let config = connect::config(args)?;
    let url = config.api_url.as_str().to_owned();
    console.say(&format!("asking CloudStack at {url}"));
    let client = connect::client(&config, config.project.as_ref(), TokioRuntime)?;
    let Permissions { version, commands, vpc_tiers } = client.permissions().await?;
    let states = commands.into_iter().map(|(command, state)| (command.name(), state)).collect();
    let version = version.map(|version| version.to_string());
    Ok(Side::cloudstack(url, version, task, &states, vpc_tiers))
}

async fn cluster_side(args: &KubeArgs, task: Task, console: Console) -> Result<Side> {
    let ApiServer { client, url } = cluster::connect(args).await?;
    console.say(&format!("asking the API server {url}"));
    let reviewer = Reviewer::new(client);
    let mut answers = Vec::new();
    for grant in kubernetes::of(task) {
        let allowed = reviewer.may_i(attributes(grant)).await;
        answers.push((grant, allowed.map_err(|error| cluster::explained(error, &url, task))?));
    }
    Ok(Side::kubernetes(url, answers))
}

fn attributes(grant: &Grant) -> ResourceAttributes {
    let (resource, subresource) = match grant.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (grant.resource, None),
    };
    ResourceAttributes {
        group: Some(grant.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(grant.verb.to_owned()),
        namespace: grant.place.namespace().map(str::to_owned),
        name: grant.place.name().map(str::to_owned),
        ..ResourceAttributes::default()
    }
}
