//! `plan`: what would be done, from a live cluster or manifests and a live cloud, or from a snapshot.

use anyhow::{Result, bail};
use ccm_core::ids::ServiceKey;
use ccm_core::model::Learned;
use ccm_core::observe::index::Observed;
use ccm_core::plan::Planned;
use ccm_core::plan::planner::Planner;
use ccm_core::render::document::Document;
use ccm_core::render::human;

use super::{Exit, VERSION, snapshot};
use crate::cli::{Form, PlanArgs};
use crate::console::Console;
use crate::driver;
use crate::saved::{self, SavedPlan, Snapshot};

/// Plans, prints, and saves if asked to.
pub(super) async fn run(args: &PlanArgs, console: Console) -> Result<Exit> {
    let inputs = match &args.from {
        Some(path) if args.connect.settings.0.is_empty() => Snapshot::read(path)?,
        Some(path) => bail!(
            "settings by flag have no effect on a snapshot, which holds those that it was taken with: leave \
             them out, or take another one than {}",
            path.display()
        ),
        None => snapshot::take(&args.connect, &args.objects, console).await?,
    };
    let document = document(&inputs, &args.only)?;
    if let Some(path) = &args.out {
        let Snapshot { policy, objects, .. } = inputs;
        saved::write(path, &SavedPlan::new(policy, objects, document.clone()))?;
    }
    let text = match args.output {
        Form::Human => human::print(&document, console.colour),
        Form::Json => serde_json::to_string_pretty(&document)? + "\n",
    };
    console.print(&text)?;
    let changes = args.detailed_exitcode && document.has_changes();
    Ok(if changes { Exit::Changes } else { Exit::Done })
}

/// As of the moment when CloudStack was read, so that a snapshot leads to the same plan.
pub(super) fn document(inputs: &Snapshot, only: &[ServiceKey]) -> Result<Document> {
    let Snapshot { kind: _, format_version: _, policy, objects, cloud } = inputs;
    let desired = driver::desire(objects, policy, Learned::default());
    let observed = Observed::new(cloud.clone());
    let planner = Planner::new(&desired, &observed, policy, cloud.at);
    let plans =
        if only.is_empty() { driver::plan_all(&planner)? } else { selected(&planner, only)? };
    Ok(Document::new(&planner, &plans, VERSION))
}

fn selected(planner: &Planner<'_>, only: &[ServiceKey]) -> Result<Vec<Planned>> {
    let services = &planner.desired.services;
    if let Some(missing) = only.iter().find(|key| !services.contains_key(key)) {
        let known: Vec<String> = services.keys().take(5).map(ToString::to_string).collect();
        bail!(
            "there is no Service {missing}; there are {} of them: {}{}",
            services.len(),
            known.join(", "),
            if services.len() > known.len() { ", ..." } else { "" }
        );
    }
    // In the order of names, each once, however they were given.
    let keys = services.keys().filter(|key| only.contains(key));
    keys.map(|key| Ok(planner.plan(key)?)).collect()
}
