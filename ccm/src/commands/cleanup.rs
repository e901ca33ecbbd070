//! `cleanup`: what is left of a cluster's Services, and nothing else.
//!
//! 1. CloudStack is read. Services of which objects tell, and which exist nowhere, are made up again,
//!    in deletion.
//! 2. Their plan is shown, and what looks like theirs without proof.
//! 3. Whoever runs it types the cluster's id. Then it is applied as a saved plan is.

use std::io::{self, BufRead as _, IsTerminal as _};

use anyhow::{Result, bail};
use ccm_cloudstack::{Client, HttpTransport, TokioRuntime};
use ccm_core::ids::ClusterId;
use ccm_core::model::{Desired, Learned};
use ccm_core::observe::orphan::{self, Orphans};
use ccm_core::permission::Task;
use ccm_core::plan::planner::Depth;
use ccm_core::render::document::Document;
use ccm_core::render::human::{self, counted};

use super::{Exit, apply, cluster, plan};
use crate::cli::{CleanupArgs, Form, KubeArgs};
use crate::config::{Config, Setting};
use crate::connect;
use crate::console::Console;
use crate::driver;
use crate::ports::Objects;
use crate::saved::{SavedPlan, Snapshot};

/// Shows what is left of a cluster, asks, and removes it.
pub(super) async fn run(args: &CleanupArgs, console: Console) -> Result<Exit> {
    let config = connect::config(&args.connect)?;
    let client = connect::client(&config, config.project.as_ref(), TokioRuntime)?;
    let existing = existing(args, &config, console).await?;
    console.say(&format!("reading CloudStack from {}", config.api_url.as_str()));
    // Only the flag counts: a cloud-config is of a cluster that lives.
    if !args.connect.settings.0.has(Setting::ClusterId) {
        bail!("which cluster? Give --cluster-id; {}", clusters(&client, &config).await?);
    }
    let policy = connect::manifest_policy(&config)?;
    let observed = driver::observe(&client, &Desired::default(), &policy, Depth::Quick).await?;
    let Orphans { services, unproven } = orphan::find(&observed, &policy.cluster_id, &existing);
    let objects = Objects::new(services, Vec::new());
    let desired = driver::desire(&objects, &policy, Learned::default());
    let cloud = driver::observe_state(&client, &desired, &policy, Depth::Thorough).await?;
    let document = plan::document(&Snapshot::new(policy.clone(), objects.clone(), cloud), &[])?;
    print(args.output, &document, &unproven, console)?;
    if !document.has_changes() {
        return Ok(Exit::Done);
    }
    if args.dry_run {
        return Ok(if args.detailed_exitcode { Exit::Changes } else { Exit::Done });
    }
    if !args.yes && !is_confirmed(&policy.cluster_id, console)? {
        console.say("stopped: nothing was removed");
        return Ok(Exit::Failed);
    }
    apply::made_up(&SavedPlan::new(policy, objects, document), &config, console).await
}

/// The Services of a live cluster, if one is named: what is theirs is not left over.
async fn existing(args: &CleanupArgs, config: &Config, console: Console) -> Result<Desired> {
    let (kubeconfig, context) = (args.kubeconfig.clone(), args.context.clone());
    if kubeconfig.is_none() && context.is_none() {
        return Ok(Desired::default());
    }
    let whom = KubeArgs { kubeconfig, context };
    let (cluster, objects) = cluster::open(&whom, config, Task::Plan, console).await?;
    Ok(driver::desire(&objects, &config.policy(cluster.id), Learned::default()))
}

/// The clusters that objects name.
async fn clusters(client: &Client<HttpTransport, TokioRuntime>, config: &Config) -> Result<String> {
    let policy = config.policy(ClusterId::parse("none")?);
    let observed = driver::observe(client, &Desired::default(), &policy, Depth::Quick).await?;
    let clusters = orphan::clusters(&observed);
    let named = clusters
        .iter()
        .map(|(cluster, services)| format!("{cluster} ({})", counted(*services, "Service")));
    let named: Vec<String> = named.collect();
    Ok(if named.is_empty() {
        "no object here names one".to_owned()
    } else {
        format!("objects here name {}", named.join(", "))
    })
}

fn print(
    form: Form,
    document: &Document,
    unproven: &[orphan::Unproven],
    console: Console,
) -> Result<()> {
    let lines: Vec<String> = unproven.iter().map(|what| format!("  ?   {what}")).collect();
    let apart = "Not proven to be of this cluster, and left alone:";
    match form {
        Form::Human => {
            console.print(&if document.services.is_empty() {
                format!("Nothing of cluster {} is left.\n", document.scope.cluster_id)
            } else {
                human::print(document, console.colour)
            })?;
            if !lines.is_empty() {
                console.print(&format!("\n{apart}\n{}\n", lines.join("\n")))?;
            }
        }
        Form::Json => {
            console.print(&(serde_json::to_string_pretty(document)? + "\n"))?;
            if !lines.is_empty() {
                console.say(&format!("{apart}\n{}", lines.join("\n")));
            }
        }
    }
    Ok(())
}

fn is_confirmed(cluster: &ClusterId, console: Console) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody can be asked here: look at it with --dry-run, then give --yes");
    }
    console.say("To remove all this, type the id of the cluster; anything else stops:");
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    Ok(typed.trim() == cluster.as_str())
}
