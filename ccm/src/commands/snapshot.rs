//! `snapshot`: everything that planning needs, in one file.

use anyhow::Result;
use ccm_cloudstack::TokioRuntime;
use ccm_core::model::Learned;
use ccm_core::plan::planner::Depth;

use super::{Exit, cluster};
use crate::cli::{ConnectArgs, ObjectArgs, SnapshotArgs};
use crate::connect;
use crate::console::Console;
use crate::driver;
use crate::pseudonym;
use crate::saved::{self, Snapshot};

/// Takes a snapshot and writes it.
pub(super) async fn run(args: &SnapshotArgs, console: Console) -> Result<Exit> {
    let SnapshotArgs { connect, objects, out, pseudonymise } = args;
    let mut snapshot = take(connect, objects, console).await?;
    if *pseudonymise {
        snapshot = pseudonym::replace(&snapshot)?;
    }
    saved::write(out, &snapshot)?;
    let objects = &snapshot.objects;
    console.say(&format!(
        "{}: {} Services, {} Nodes, {} rules on {} addresses{}",
        out.display(),
        objects.services.len(),
        objects.nodes.len(),
        snapshot.cloud.rules.len(),
        snapshot.cloud.addresses.len(),
        if *pseudonymise { "; names, ids and addresses are replaced" } else { "" },
    ));
    Ok(Exit::Done)
}

/// Reads Services and Nodes, then CloudStack.
pub(super) async fn take(
    connect: &ConnectArgs,
    objects: &ObjectArgs,
    console: Console,
) -> Result<Snapshot> {
    let config = connect::config(connect)?;
    let ObjectArgs { manifests, cluster: whom } = objects;
    let (policy, objects) = if manifests.services.is_empty() && manifests.nodes.is_empty() {
        let read = cluster::read(whom, &config, console).await?;
        console.say(&format!("reading CloudStack from {}", config.api_url.as_str()));
        read
    } else {
        (connect::manifest_policy(&config)?, connect::objects(manifests)?)
    };
    let client = connect::client(&config, policy.project.as_ref(), TokioRuntime)?;
    let desired = driver::desire(&objects, &policy, Learned::default());
    let cloud = driver::observe_state(&client, &desired, &policy, Depth::Thorough).await?;
    Ok(Snapshot::new(policy, objects, cloud))
}
