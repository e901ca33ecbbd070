//! `snapshot`: everything that planning needs, in one file.

use anyhow::Result;
use ccm_cloudstack::TokioRuntime;
use ccm_core::model::Learned;
use ccm_core::plan::planner::Depth;

use super::Exit;
use crate::cli::{ConnectArgs, ManifestArgs, SnapshotArgs};
use crate::connect;
use crate::console::Console;
use crate::driver;
use crate::pseudonym;
use crate::saved::{self, Snapshot};

/// Takes a snapshot and writes it.
pub(super) async fn run(args: &SnapshotArgs, console: Console) -> Result<Exit> {
    let SnapshotArgs { connect, manifests, out, pseudonymise } = args;
    let mut snapshot = take(connect, manifests).await?;
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

/// Reads manifests and CloudStack.
pub(super) async fn take(connect: &ConnectArgs, manifests: &ManifestArgs) -> Result<Snapshot> {
    let config = connect::config(connect)?;
    let policy = connect::manifest_policy(&config)?;
    let objects = connect::objects(manifests)?;
    let client = connect::client(&config, policy.project.as_ref(), TokioRuntime)?;
    let desired = driver::desire(&objects, &policy, Learned::default());
    let cloud = driver::observe_state(&client, &desired, &policy, Depth::Thorough).await?;
    Ok(Snapshot::new(policy, objects, cloud))
}
