//! `apply`: what a saved plan says, and nothing else.
//!
//! 1. CloudStack is read and every Service with saved steps is planned again. Any difference
//!    refuses the whole plan.
//! 2. Services are done in the order of the plan. From the second one on, CloudStack is read again
//!    first: a Service whose steps are not the saved ones any more (what ran before it, or somebody
//!    else, changed something that it touches) is left as it is, and the others go on.
//! 3. A failed step skips its dependents. Other Services go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use ccm_cloudstack::{Client, HttpTransport, Runtime as _, TokioRuntime};
use ccm_core::ids::ServiceKey;
use ccm_core::model::policy::{Mode, Policy};
use ccm_core::model::{Desired, Learned};
use ccm_core::observe::index::Observed;
use ccm_core::plan::Planned;
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::render::document::{Document, StepView};
use ccm_core::render::human::counted;

use super::{Exit, VERSION};
use crate::cli::ApplyArgs;
use crate::config::Config;
use crate::connect;
use crate::console::Console;
use crate::driver::{self, Progress as _, SharedLanes};
use crate::moved::differences;
use crate::progress::{Steps, Writes, shortfall};
use crate::saved::SavedPlan;

/// Carries out a saved plan.
pub(super) async fn run(args: &ApplyArgs, console: Console) -> Result<Exit> {
    let saved = SavedPlan::read(&args.plan)?;
    let config = connect::config(&args.connect)?;
    same_scope(&saved.policy, &config)?;
    let steps = by_service(&saved.document);
    if steps.is_empty() {
        console.print("Applied: no changes; the plan has no steps.\n")?;
        return Ok(Exit::Done);
    }
    let client = connect::client(&config, saved.policy.project.as_ref(), TokioRuntime)?;
    let stopped = stop_on_interrupt(console);
    let mut apply = Apply { saved: &saved, client, console, learned: Learned::default() };
    apply.all(&steps, &stopped).await
}

struct Apply<'a> {
    saved: &'a SavedPlan,
    client: Client<HttpTransport, TokioRuntime>,
    console: Console,
    learned: Learned,
}

/// The saved steps of one Service.
struct Saved<'a> {
    key: ServiceKey,
    steps: Vec<&'a StepView>,
}

/// What became of the Services.
#[derive(Default)]
struct Tally {
    services: usize,
    steps: usize,
    failed: usize,
    moved: usize,
    left: Vec<String>,
}

impl Apply<'_> {
    async fn all(&mut self, services: &[Saved<'_>], stopped: &AtomicBool) -> Result<Exit> {
        let mut world = self.observe().await?;
        let mut refused = Vec::new();
        for service in services {
            let (_, found) = self.plan(&world, service)?;
            refused.extend(found.into_iter().map(|text| format!("  {}: {text}", service.key)));
        }
        if !refused.is_empty() {
            self.console
                .say("refused: the world has moved since the plan was made; nothing was done");
            for line in &refused {
                self.console.say(line);
            }
            self.console.say("make a new plan, and look at it");
            return Ok(Exit::Moved);
        }
        let mut tally = Tally::default();
        for (index, service) in services.iter().enumerate() {
            if stopped.load(Ordering::Relaxed) {
                tally.left.push(service.key.to_string());
                continue;
            }
            if index > 0 {
                world = self.observe().await?;
            }
            let (planned, found) = self.plan(&world, service)?;
            if found.is_empty() {
                self.execute(&planned, stopped, &mut tally).await?;
            } else {
                self.console
                    .say(&format!("{}: left as it is, its plan is another one now", service.key));
                for text in &found {
                    self.console.say(&format!("  {text}"));
                }
                tally.moved += 1;
            }
        }
        self.close(&tally)
    }

    async fn observe(&self) -> Result<(Desired, Observed)> {
        let SavedPlan { policy, objects, .. } = self.saved;
        let desired = driver::desire(objects, policy, self.learned.clone());
        let observed = driver::observe(&self.client, &desired, policy, Depth::Thorough).await?;
        Ok((desired, observed))
    }

    /// The plan as of now, and how it differs from the saved one.
    fn plan(
        &self,
        (desired, observed): &(Desired, Observed),
        service: &Saved<'_>,
    ) -> Result<(Planned, Vec<String>)> {
        let policy = &self.saved.policy;
        let planner = Planner::new(desired, observed, policy, TokioRuntime.now());
        let fresh = planner.plan(&service.key)?;
        let document = Document::new(&planner, std::slice::from_ref(&fresh), VERSION);
        // Nothing keeps writes to Services from files, so they don't count.
        let counts = |step: &&StepView| policy.mode == Mode::Cluster || step.kind != "write";
        let saved: Vec<StepView> = service.steps.iter().copied().filter(counts).cloned().collect();
        let now: Vec<StepView> = document.steps.iter().filter(counts).cloned().collect();
        let found = differences(&saved, &now);
        Ok((fresh, found))
    }

    async fn execute(
        &mut self,
        planned: &Planned,
        stopped: &AtomicBool,
        tally: &mut Tally,
    ) -> Result<()> {
        let plan = &planned.plan;
        self.console.say(&plan.service.to_string());
        let progress = Steps::new(self.console, Writes::Hidden, stopped);
        let lanes = SharedLanes::default();
        let objects = &self.saved.objects;
        let outcome = driver::execute(&self.client, objects, plan, &lanes, &progress).await?;
        self.learned.absorb(outcome.lessons.clone(), TokioRuntime.now());
        let is_call = |id: &&ccm_core::plan::StepId| {
            let step = plan.step(id);
            step.is_some_and(|step| step.action.kind() != ccm_core::plan::action::Kind::Write)
        };
        tally.steps += outcome.done.iter().filter(is_call).count();
        tally.services += 1;
        if outcome.is_success() {
            return Ok(());
        }
        if outcome.failed.is_empty() && !progress.goes_on() {
            tally.left.push(plan.service.to_string());
        } else {
            tally.failed += 1;
        }
        for line in shortfall(plan, &outcome) {
            self.console.say(&line);
        }
        Ok(())
    }

    fn close(&self, tally: &Tally) -> Result<Exit> {
        let Tally { services, steps, failed, moved, left } = tally;
        let done =
            format!("{} done for {}", counted(*steps, "step"), counted(*services, "Service"));
        if !left.is_empty() {
            self.console.say(&format!("interrupted: not finished: {}", left.join(", ")));
        }
        if *failed > 0 || !left.is_empty() {
            self.console.say(&format!(
                "error: {done}, {} failed; a new plan continues from here",
                counted(*failed, "Service")
            ));
            return Ok(Exit::Failed);
        }
        if *moved > 0 {
            self.console
                .say(&format!("{done}, {moved} left as they are; a new plan continues from here"));
            return Ok(Exit::Moved);
        }
        self.console.print(&format!("Applied: {done}.\n"))?;
        Ok(Exit::Done)
    }
}

/// Services with saved steps, in the order of the plan.
fn by_service(document: &Document) -> Vec<Saved<'_>> {
    let mut order = Vec::new();
    let mut groups: BTreeMap<&str, Vec<&StepView>> = BTreeMap::new();
    for step in &document.steps {
        let group = groups.entry(&step.service).or_default();
        if group.is_empty() {
            order.push(step.service.as_str());
        }
        group.push(step);
    }
    let saved = |name: &str| {
        let (namespace, service) = name.split_once('/')?;
        let steps = groups.get(name)?.clone();
        Some(Saved { key: ServiceKey::new(namespace, service), steps })
    };
    order.into_iter().filter_map(saved).collect()
}

/// A plan for one cluster and project is not carried out in another.
fn same_scope(policy: &Policy, config: &Config) -> Result<()> {
    if let Some(configured) = &config.cluster_id
        && *configured != policy.cluster_id
    {
        bail!(
            "the plan was made for cluster {}, and the configuration is for cluster {configured}",
            policy.cluster_id
        );
    }
    if config.project != policy.project {
        let text = |project: &Option<ccm_core::ids::ProjectId>| {
            project.as_ref().map_or("no project".to_owned(), |id| format!("project {id}"))
        };
        bail!(
            "the plan was made for {}, and the configuration is for {}",
            text(&policy.project),
            text(&config.project)
        );
    }
    Ok(())
}

/// The first ctrl-C ends it in order; the second one at once.
fn stop_on_interrupt(console: Console) -> Arc<AtomicBool> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_err() {
            return;
        }
        flag.store(true, Ordering::Relaxed);
        console.say("stopping: running calls are finished, no new one is started");
        console.say("(ctrl-C again stops at once, and what running calls did is then unknown)");
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(1);
        }
    });
    stopped
}
