//! Read, plan, execute. It decides nothing: what may run is the execution's word, what to do is the
//! plan's.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccm_core::exec::error::CallError;
use ccm_core::exec::execution::{Execution, Outcome};
use ccm_core::exec::lanes::Lanes;
use ccm_core::exec::output::Output;
use ccm_core::ids::LoadBalancerRuleId;
use ccm_core::model::policy::Policy;
use ccm_core::model::{Desired, Learned};
use ccm_core::observe::CloudState;
use ccm_core::observe::index::Observed;
use ccm_core::observe::scope::Scope;
use ccm_core::parse::{self, ParseContext};
use ccm_core::plan::action::Call;
use ccm_core::plan::planner::{Depth, PlanError, Planner};
use ccm_core::plan::{Plan, Planned, StepId};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use thiserror::Error;
use tokio::sync::Notify;
use tracing::field::Empty;
use tracing::{Instrument as _, debug_span};

use crate::ports::{Cloud, Cluster, Objects};

/// Most calls of one plan that are out at once.
const CALLS_IN_FLIGHT: usize = 16;

/// Reading or planning was not possible.
#[derive(Debug, Error)]
pub enum DriverError {
    /// One side could not be read.
    #[error("could not read the current state")]
    Read(#[from] CallError),
    /// The core could not plan.
    #[error("could not plan")]
    Plan(#[from] PlanError),
}

/// Hears of every step as it happens.
pub trait Progress {
    /// A call goes out.
    fn started(&self, step: &StepId, call: &Call);
    /// A call came back.
    fn finished(&self, step: &StepId, result: &Result<Output, CallError>);
    /// Whether new calls may go out. Once not, those that are out are waited for, and that is all.
    fn goes_on(&self) -> bool {
        true
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _: &StepId, _: &Call) {}
    fn finished(&self, _: &StepId, _: &Result<Output, CallError>) {}
}

/// What planning starts from.
#[derive(Clone, Debug)]
pub struct World {
    /// What is wanted.
    pub desired: Desired,
    /// What is there.
    pub observed: Observed,
}

/// Turns Kubernetes objects into what is wanted.
pub fn desire(objects: &Objects, policy: &Policy, learned: Learned) -> Desired {
    let context = ParseContext { cluster_id: policy.cluster_id.clone() };
    let mut desired = parse::desired(&objects.services, &objects.nodes, &context);
    for key in &objects.stripped {
        if let Some(service) = desired.services.get_mut(key) {
            service.recorded.stripped = true;
        }
    }
    Desired { learned, ..desired }
}

/// Reads both sides.
///
/// # Errors
/// [`DriverError::Read`] if either can't be read.
pub async fn read(
    cloud: &impl Cloud,
    cluster: &impl Cluster,
    policy: &Policy,
    learned: Learned,
    depth: Depth,
) -> Result<World, DriverError> {
    let desired = desire(&cluster.read().await?, policy, learned);
    let observed = observe(cloud, &desired, policy, depth).await?;
    Ok(World { desired, observed })
}

/// Reads CloudStack as far as planning needs it.
///
/// # Errors
/// [`DriverError::Read`] if it can't be read.
pub async fn observe(
    cloud: &impl Cloud,
    desired: &Desired,
    policy: &Policy,
    depth: Depth,
) -> Result<Observed, DriverError> {
    observe_state(cloud, desired, policy, depth).await.map(Observed::new)
}

/// As [`observe`], as plain data.
///
/// # Errors
/// [`DriverError::Read`] if it can't be read.
pub async fn observe_state(
    cloud: &impl Cloud,
    desired: &Desired,
    policy: &Policy,
    depth: Depth,
) -> Result<CloudState, DriverError> {
    let mut state = cloud.observe(&Scope::new(desired, policy)).await?;
    let lists = Observed::new(state.clone());
    let wanted = Planner::new(desired, &lists, policy, lists.at).members_to_read(depth);
    if !wanted.is_empty() {
        state.members = cloud.members(&wanted).await?;
        // A rule that vanished since the lists were read is not there any more.
        let members = &state.members;
        state.rules.retain(|rule| !wanted.contains(&rule.id) || members.contains_key(&rule.id));
    }
    Ok(state)
}

/// The members that planning one Service needs, on top of what was observed.
///
/// # Errors
/// [`DriverError::Read`] if they can't be read.
pub async fn observe_members(
    cloud: &impl Cloud,
    observed: Arc<Observed>,
    wanted: &BTreeSet<LoadBalancerRuleId>,
) -> Result<Arc<Observed>, DriverError> {
    if wanted.is_empty() {
        return Ok(observed);
    }
    let found = cloud.members(wanted).await?;
    Ok(Arc::new(Observed::clone(&observed).with_members(wanted, found)))
}

/// Plans all Services that are in the world, in the order of their names.
///
/// # Errors
/// [`DriverError::Plan`] if the core can't plan.
pub fn plan_all(planner: &Planner<'_>) -> Result<Vec<Planned>, DriverError> {
    let keys = planner.desired.services.keys();
    keys.map(|key| planner.plan(key).map_err(DriverError::from)).collect()
}

/// Executes a plan: independent steps side by side, every failure skips only its dependents. All
/// plans that are executed at one time share their lanes.
///
/// # Errors
/// [`Displaced`] if another one of them is in the way; nothing was done then.
pub async fn execute(
    cloud: &impl Cloud,
    cluster: &impl Cluster,
    plan: &Plan,
    lanes: &SharedLanes,
    progress: &impl Progress,
) -> Result<Outcome, Displaced> {
    let admitted = lanes.admit(plan)?;
    let mut execution = Execution::new(plan);
    let mut running = FuturesUnordered::new();
    loop {
        // Before looking: what is given back from now on is heard of.
        let given_back = lanes.given_back.notified();
        while running.len() < CALLS_IN_FLIGHT && progress.goes_on() {
            let Some((step, call)) = execution.poll_call(&mut admitted.lanes()) else { break };
            progress.started(&step, &call);
            running.push(async move {
                let result = traced(&step, &call, perform(cloud, cluster, &call)).await;
                (step, result)
            });
        }
        if progress.goes_on() && execution.is_held_up() {
            given_back.await;
            continue;
        }
        let Some((step, result)) = running.next().await else { break };
        progress.finished(&step, &result);
        execution.handle_result(&step, result, &mut admitted.lanes());
        lanes.given_back.notify_waiters();
    }
    Ok(execution.finish())
}

/// The lanes of all plans that are executed at one time.
#[derive(Debug, Default)]
pub struct SharedLanes {
    lanes: Mutex<Lanes>,
    given_back: Notify,
}

impl SharedLanes {
    /// Takes the addresses of a plan, until its guard is dropped.
    ///
    /// # Errors
    /// [`Displaced`] if another plan that is being executed is in the way.
    pub fn admit<'a>(&'a self, plan: &'a Plan) -> Result<Admitted<'a>, Displaced> {
        if self.lock().admit(plan) { Ok(Admitted { plan, lanes: self }) } else { Err(Displaced) }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another plan that is being executed releases an address of this one, or works on one that this
/// one releases: plan again once it is through.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("another Service that is being worked on shares an address with this one")]
pub struct Displaced;

/// A plan that is being executed. It gives its addresses back at its end, however that comes.
#[derive(Debug)]
pub struct Admitted<'a> {
    plan: &'a Plan,
    lanes: &'a SharedLanes,
}

impl<'a> Admitted<'a> {
    fn lanes(&self) -> MutexGuard<'a, Lanes> {
        self.lanes.lock()
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.lanes().dismiss(self.plan);
    }
}

/// A step, in traces and in what is logged meanwhile.
async fn traced(
    step: &StepId,
    call: &Call,
    performed: impl Future<Output = Result<Output, CallError>>,
) -> Result<Output, CallError> {
    let span = debug_span!(
        "step",
        id = step.as_str(),
        command = call.command(),
        outcome = Empty,
        otel.status_code = Empty,
    );
    let result = performed.instrument(span.clone()).await;
    span.record("outcome", result.as_ref().map_or_else(|error| error.fault.label(), |_| "ok"));
    if result.is_err() {
        span.record("otel.status_code", "error");
    }
    result
}

async fn perform(
    cloud: &impl Cloud,
    cluster: &impl Cluster,
    call: &Call,
) -> Result<Output, CallError> {
    match call {
        Call::PatchService(patch) => cluster.patch(patch).await.map(|()| Output::Done),
        Call::AssociateIpAddress(_)
        | Call::CheckAddressUnused(_)
        | Call::DisassociateIpAddress(_)
        | Call::CreateLoadBalancerRule(_)
        | Call::UpdateLoadBalancerRule(_)
        | Call::DeleteLoadBalancerRule(_)
        | Call::AssignToLoadBalancerRule(_)
        | Call::RemoveFromLoadBalancerRule(_)
        | Call::CreateFirewallRule(_)
        | Call::DeleteFirewallRule(_)
        | Call::CreateNetworkAcl(_)
        | Call::DeleteNetworkAcl(_)
        | Call::CreateTags(_) => cloud.call(call).await,
    }
}
