//! `apply`: what a saved plan says, and nothing else.
//!
//! 1. Both sides are read (files stay as they were saved) and every Service with saved steps is
//!    planned again. Any difference refuses the whole plan.
//! 2. Services are done in the order of the plan. From the second one on, both sides are read again
//!    first: a Service whose steps are not the saved ones any more (what ran before it, or somebody
//!    else, changed something that it touches) is left as it is, and the others go on.
//! 3. A failed step skips its dependents. Other Services go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use ccm_cloudstack::{Client, HttpTransport, Runtime as _, TokioRuntime};
use ccm_core::ids::ServiceKey;
use ccm_core::model::Learned;
use ccm_core::model::policy::{Mode, Policy};
use ccm_core::permission::Task;
use ccm_core::plan::action::Kind;
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::plan::{Planned, StepId};
use ccm_core::render::document::{Document, StepView};
use ccm_core::render::human::counted;

use super::{Exit, VERSION, cluster};
use crate::cli::{ApplyArgs, KubeArgs};
use crate::config::Config;
use crate::connect;
use crate::console::Console;
use crate::controller::HeldLease;
use crate::driver::{self, Progress as _, SharedLanes, World};
use crate::moved::differences;
use crate::ports::Cluster;
use crate::progress::{Steps, Writes, shortfall};
use crate::saved::SavedPlan;

/// Carries out a saved plan.
pub(super) async fn run(args: &ApplyArgs, console: Console) -> Result<Exit> {
    let saved = SavedPlan::read(&args.plan)?;
    let config = connect::config(&args.connect)?;
    same_scope(&saved.policy, &config)?;
    if by_service(&saved.document).is_empty() {
        console.print("Applied: no changes; the plan has no steps.\n")?;
        return Ok(Exit::Done);
    }
    match saved.policy.mode {
        Mode::Manifests => from_files(args, &saved, &config, console).await,
        Mode::Cluster => to_cluster(args, &saved, &config, console).await,
    }
}

/// Nothing keeps writes to Services from files, so they don't count.
async fn from_files(
    args: &ApplyArgs,
    saved: &SavedPlan,
    config: &Config,
    console: Console,
) -> Result<Exit> {
    let KubeArgs { kubeconfig, context } = &args.cluster;
    if kubeconfig.is_some() || context.is_some() {
        bail!(
            "the plan was made from files, and is applied without a cluster; for one of a live \
             cluster, `plan --kubeconfig` without --services"
        );
    }
    made_up(saved, config, console).await
}

/// For Services that no cluster has.
pub(super) async fn made_up(saved: &SavedPlan, config: &Config, console: Console) -> Result<Exit> {
    let stopped = stop_on_interrupt(console);
    let goes_on = || !stopped.load(Ordering::Relaxed);
    Apply::new(saved, config, &saved.objects, console, &goes_on)?.all().await
}

/// While no controller works.
async fn to_cluster(
    args: &ApplyArgs,
    saved: &SavedPlan,
    config: &Config,
    console: Console,
) -> Result<Exit> {
    let (cluster, _) = cluster::open(&args.cluster, config, Task::Apply, console).await?;
    if cluster.id != saved.policy.cluster_id {
        let (url, id, planned) = (&cluster.url, &cluster.id, &saved.policy.cluster_id);
        bail!("the plan was made for cluster {planned}, and {url} is cluster {id}");
    }
    console.say(&format!("waiting for the Lease {}", args.lease));
    let lease = HeldLease::take(cluster.client.clone(), &args.lease).await?;
    let stopped = stop_on_interrupt(console);
    let goes_on = || !stopped.load(Ordering::Relaxed) && lease.lasts();
    let ended = match Apply::new(saved, config, &cluster, console, &goes_on) {
        Ok(mut apply) => apply.all().await,
        Err(error) => Err(error),
    };
    if !lease.lasts() {
        console.say("the Lease was lost: no new call was started since");
    }
    lease.end().await;
    ended
}

struct Apply<'a, K> {
    saved: &'a SavedPlan,
    client: Client<HttpTransport, TokioRuntime>,
    cluster: &'a K,
    console: Console,
    goes_on: &'a (dyn Fn() -> bool + Sync),
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

impl<'a, K: Cluster> Apply<'a, K> {
    fn new(
        saved: &'a SavedPlan,
        config: &Config,
        cluster: &'a K,
        console: Console,
        goes_on: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Self> {
        let client = connect::client(config, saved.policy.project.as_ref(), TokioRuntime)?;
        Ok(Self { saved, client, cluster, console, goes_on, learned: Learned::default() })
    }

    async fn all(&mut self) -> Result<Exit> {
        let services = by_service(&self.saved.document);
        let mut world = self.read().await?;
        let mut refused = Vec::new();
        for service in &services {
            if let Err(found) = self.plan(&world, service)? {
                refused.extend(found.into_iter().map(|text| format!("  {}: {text}", service.key)));
            }
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
            if !(self.goes_on)() {
                tally.left.push(service.key.to_string());
                continue;
            }
            if index > 0 {
                world = self.read().await?;
            }
            match self.plan(&world, service)? {
                Ok(planned) => self.execute(&planned, &mut tally).await?,
                Err(found) => {
                    self.console.say(&format!(
                        "{}: left as it is, its plan is another one now",
                        service.key
                    ));
                    for text in &found {
                        self.console.say(&format!("  {text}"));
                    }
                    tally.moved += 1;
                }
            }
        }
        self.close(&tally)
    }

    async fn read(&self) -> Result<World> {
        let policy = &self.saved.policy;
        let learned = self.learned.clone();
        let read = driver::read(&self.client, self.cluster, policy, learned, Depth::Thorough);
        Ok(read.await?)
    }

    /// The plan as of now if it is the saved one, else how it differs.
    fn plan(
        &self,
        World { desired, observed }: &World,
        service: &Saved<'_>,
    ) -> Result<Result<Planned, Vec<String>>> {
        if !desired.services.contains_key(&service.key) {
            return Ok(Err(vec!["there is no such Service any more".to_owned()]));
        }
        let planner = Planner::new(desired, observed, &self.saved.policy, TokioRuntime.now());
        let fresh = planner.plan(&service.key)?;
        let document = Document::new(&planner, std::slice::from_ref(&fresh), VERSION);
        let counts = |step: &&StepView| self.writes() == Writes::Shown || step.kind != "write";
        let saved: Vec<StepView> = service.steps.iter().copied().filter(counts).cloned().collect();
        let now: Vec<StepView> = document.steps.iter().filter(counts).cloned().collect();
        let found = differences(&saved, &now);
        Ok(if found.is_empty() { Ok(fresh) } else { Err(found) })
    }

    fn writes(&self) -> Writes {
        match self.saved.policy.mode {
            Mode::Cluster => Writes::Shown,
            Mode::Manifests => Writes::Hidden,
        }
    }

    async fn execute(&mut self, planned: &Planned, tally: &mut Tally) -> Result<()> {
        let plan = &planned.plan;
        self.console.say(&plan.service.to_string());
        let writes = self.writes();
        let progress = Steps::new(self.console, writes, self.goes_on);
        let lanes = SharedLanes::default();
        let outcome = driver::execute(&self.client, self.cluster, plan, &lanes, &progress).await?;
        self.learned.absorb(outcome.lessons.clone(), TokioRuntime.now());
        let counts = |id: &&StepId| {
            let step = plan.step(id);
            step.is_some_and(|step| writes == Writes::Shown || step.action.kind() != Kind::Write)
        };
        tally.steps += outcome.done.iter().filter(counts).count();
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
