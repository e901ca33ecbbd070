//! One Service: read, plan, execute, tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloudstack::Runtime;
use ccm_core::agenda::{End, Tick};
use ccm_core::event::Occasion;
use ccm_core::event::of_report;
use ccm_core::event::sync::{self, Cause};
use ccm_core::exec::error::{CallError, Fault};
use ccm_core::exec::execution::{Outcome, StepError};
use ccm_core::exec::output::Output;
use ccm_core::ids::ServiceKey;
use ccm_core::model::node::Eligibility;
use ccm_core::model::service::{Lifecycle, Service};
use ccm_core::model::{Desired, Learned};
use ccm_core::observe::index::Observed;
use ccm_core::observe::scope::Scope;
use ccm_core::plan::action::{Action, Call, Placement};
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::plan::{Plan, Planned, StepId};
use ccm_core::render::document::Document;
use ccm_core::render::human::summary_line;
use ccm_core::trigger::Trigger;
use jiff::SignedDuration;
use tracing::{debug, info, warn};

use super::{ServiceController, Stand, reference, states};
use crate::commands::VERSION;
use crate::controller::chain;
use crate::controller::plans::LatestPlans;
use crate::controller::ports::{Fence, Watch};
use crate::controller::snapshots::Need;
use crate::driver::{self, DriverError, Progress};
use crate::metrics::Mode;
use crate::ports::{Cloud, Cluster};
use crate::serve::AtWork;

/// What is asked of a sync.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The state of CloudStack is not older.
    pub(super) since: Tick,
    /// And at most so old.
    pub(super) at_most: Duration,
    /// How closely members are looked at.
    pub(super) depth: Depth,
    /// Why it happens.
    pub(super) cause: Cause,
}

/// A plan, and what it was made from.
struct Made {
    desired: Desired,
    planned: Planned,
    /// The id of the network, or the VPC, whose router serves it; empty if there is none yet.
    network: String,
    /// In a dry run, for people.
    shown: Option<Document>,
}

impl<C: Cloud, K: Cluster + Watch, R: Runtime> ServiceController<C, K, R> {
    pub(super) async fn sync(
        &self,
        key: &ServiceKey,
        request: Request,
        trigger: Option<Trigger>,
        work: &AtWork,
    ) -> End {
        let made = match self.plan(key, request).await {
            Ok(Some(made)) => made,
            Ok(None) => return End::Done(None),
            Err(error) => return self.fail(key, &error).await,
        };
        let Some(service) = made.desired.services.get(key) else {
            return End::Done(None);
        };
        if let (Some(plans), Some(document)) = (&self.shown, &made.shown) {
            self.show(service, &made.planned, document, plans);
            return End::Done(None);
        }
        self.metrics.plan(&made.planned.plan, &made.planned.report, Mode::Apply);
        self.tell_stripped(service, trigger);
        self.tell_standing(service, &made.planned);
        let end = if made.planned.plan.is_empty() {
            debug!("nothing to do");
            made.planned.report.look_again().map_or(End::Done(None), End::Waits)
        } else {
            self.carry_out(service, &made, request.cause, work).await
        };
        self.count_standing(service, &made.planned, end);
        end
    }

    /// Plans with a state that knows of everything that was written to the plan's addresses.
    async fn plan(&self, key: &ServiceKey, request: Request) -> Result<Option<Made>, DriverError> {
        let mut since = request.since;
        loop {
            let objects = self.cluster.read().await?;
            let learned = self.memory().learned.clone();
            let desired = driver::desire(&objects, &self.policy, learned);
            let Some(service) = desired.services.get(key) else { return Ok(None) };
            let (observed, began) =
                self.observe(service, &desired, Request { since, ..request }).await?;
            let stock = Planner::new(&desired, &observed, &self.policy, self.runtime.now());
            let planned = stock.plan(key)?;
            match self.written_since(&planned.plan, began) {
                None => {
                    let (unseen, of_service) = (stock.unseen(), stock.unseen_of(key));
                    self.memory().learned.handle_reading(&unseen, &of_service, observed.at);
                    let document =
                        || Document::new(&stock, std::slice::from_ref(&planned), VERSION);
                    let shown = self.shown.is_some().then(document);
                    let network = network_of(&planned.plan, &observed).unwrap_or_default();
                    self.count_addresses(&desired);
                    return Ok(Some(Made { desired, planned, network, shown }));
                }
                Some(tick) => since = tick,
            }
        }
    }

    async fn observe(
        &self,
        service: &Service,
        desired: &Desired,
        request: Request,
    ) -> Result<(Arc<Observed>, Tick), DriverError> {
        let Request { since, at_most, depth, cause: _ } = request;
        let need = Need {
            since,
            at_most: SignedDuration::try_from(at_most).unwrap_or(SignedDuration::MAX),
            scope: Scope::of(service, &self.policy),
            all: Scope::new(desired, &self.policy),
        };
        let found = self.snapshots.get(&self.cloud, &need, || self.runtime.now()).await?;
        let lists = found.observed;
        let now = self.runtime.now();
        let wanted = Planner::new(desired, &lists, &self.policy, now)
            .members_to_read_of(&service.key, depth);
        let observed = driver::observe_members(&self.cloud, lists, &wanted).await?;
        Ok((observed, found.began))
    }

    /// The last write to an address of a plan, if a state that began then does not know of it.
    fn written_since(&self, plan: &Plan, began: Tick) -> Option<Tick> {
        let memory = self.memory();
        let writes = plan.addresses.iter().filter_map(|address| memory.written.get(address));
        writes.copied().filter(|tick| *tick > began).max()
    }

    fn count_addresses(&self, desired: &Desired) {
        let records = desired.services.values().filter_map(|found| found.recorded.record.as_ref());
        let addresses = records.flat_map(|record| &record.addresses);
        let whose: BTreeMap<_, bool> =
            addresses.map(|address| (&address.id, address.ours)).collect();
        let owned = whose.values().filter(|ours| **ours).count();
        self.metrics.addresses(owned, whose.len() - owned);
    }

    fn count_standing(&self, service: &Service, planned: &Planned, end: End) {
        let published = !service.recorded.ingress.is_empty();
        let stand = match end {
            _ if planned.report.is_blocked() => Stand::Blocked,
            End::Failed { .. } if published => Stand::Degraded,
            End::Failed { .. } | End::Displaced => Stand::Pending,
            End::Done(_) | End::Waits(_) if published || planned.plan.touches_cloud() => {
                Stand::Programmed
            }
            End::Done(_) | End::Waits(_) => Stand::Pending,
        };
        let mut memory = self.memory();
        if service.lifecycle == Lifecycle::Wanted {
            memory.standings.insert(service.key.clone(), stand);
        } else {
            memory.standings.remove(&service.key);
        }
        self.metrics.services(states(&memory.standings));
    }

    /// Dry run: tells and shows what would be done.
    fn show(&self, service: &Service, planned: &Planned, document: &Document, plans: &LatestPlans) {
        self.metrics.plan(&planned.plan, &planned.report, Mode::DryRun);
        let summary = summary_line(document);
        let now = self.runtime.now();
        let event = self.memory().dry_run.handle(planned, &summary, now);
        if let Some(event) = event {
            self.teller.tell(&reference(service), &event);
        }
        info!(summary = summary.trim_end(), "dry run");
        plans.set(planned.plan.clone(), document.clone(), &self.metrics);
    }

    async fn carry_out(&self, service: &Service, made: &Made, cause: Cause, work: &AtWork) -> End {
        let Made { desired, planned, network, shown: _ } = made;
        let plan = &planned.plan;
        let about = reference(service);
        let sync = sync::Sync { lifecycle: service.lifecycle, cause, planned };
        if let Some(event) = sync.beginning() {
            self.teller.tell(&about, &event);
        }
        info!(steps = plan.steps.len(), "executing");
        let progress = Steps { fence: self.fence.as_ref(), work };
        let executed =
            driver::execute(&self.cloud, &self.cluster, plan, &self.lanes, &progress).await;
        let Ok(outcome) = executed else {
            debug!("another Service works on the same address");
            return End::Displaced;
        };
        self.note_writes(service, plan, &outcome);
        let done = || plan.steps.iter().filter(|step| outcome.done.contains(&step.id));
        self.metrics.done(network, done());
        if sync.is_repair() {
            self.metrics.drift_repaired(done());
        }
        let eligible =
            |node: &&ccm_core::model::node::Node| node.eligibility == Eligibility::Eligible;
        let hosts = desired.nodes.values().filter(eligible).map(|node| node.name.clone());
        for event in sync.end(&outcome, hosts) {
            self.teller.tell(&about, &event);
        }
        end_of(planned, &outcome, self.fence.may_change())
    }

    /// What was written, and what was learned by it.
    fn note_writes(&self, service: &Service, plan: &Plan, outcome: &Outcome) {
        let (tick, now) = (self.snapshots.tick(), self.runtime.now());
        let mut memory = self.memory();
        memory.learned.absorb(outcome.lessons.clone(), now);
        if plan.touches_cloud() {
            memory.agenda.note_written(&service.key, tick);
            for address in &plan.addresses {
                memory.written.insert(address.clone(), tick);
            }
        }
    }

    fn tell_standing(&self, service: &Service, planned: &Planned) {
        let standing = of_report(&planned.report);
        let settled = planned.is_settled();
        let now = self.runtime.now();
        let news = self.memory().announced.handle(service.key.clone(), standing, settled, now);
        for event in news {
            self.teller.tell(&reference(service), &event);
        }
    }

    /// Nothing could be read or planned.
    async fn fail(&self, key: &ServiceKey, error: &DriverError) -> End {
        let (fault, retry_after) = match error {
            DriverError::Read(CallError { fault, retry_after, .. }) => (*fault, *retry_after),
            DriverError::Plan(_) => (Fault::Bug, None),
        };
        let text = chain(error);
        if fault == Fault::Throttled {
            debug!(error = text, "CloudStack asks to wait");
            return End::Failed { fault, retry_after };
        }
        warn!(error = text, "could not be planned");
        if let Some(service) = self.parsed(key).await {
            let event = Occasion::SyncLoadBalancerFailed { error: text }.event();
            self.teller.tell(&reference(&service), &event);
        }
        End::Failed { fault, retry_after }
    }

    async fn parsed(&self, key: &ServiceKey) -> Option<Service> {
        let objects = self.cluster.read().await.ok()?;
        let mut desired = driver::desire(&objects, &self.policy, Learned::default());
        desired.services.remove(key)
    }
}

/// Whose router serves what a plan works on.
fn network_of(plan: &Plan, observed: &Observed) -> Option<String> {
    let placed = plan.steps.iter().find_map(|step| {
        let Action::AssociateIpAddress(associate) = &step.action else { return None };
        Some(match &associate.placement {
            Placement::Network(network) => network.to_string(),
            Placement::Vpc(vpc) => vpc.to_string(),
        })
    });
    placed.or_else(|| {
        let address = plan.addresses.iter().find_map(|id| observed.addresses.get(id))?;
        let vpc = address.vpc.as_ref().map(ToString::to_string);
        vpc.or_else(|| address.network.as_ref().map(ToString::to_string))
    })
}

fn end_of(planned: &Planned, outcome: &Outcome, may_change: bool) -> End {
    if outcome.is_success() {
        return End::Done(planned.report.look_again());
    }
    for (step, error) in &outcome.failed {
        warn!(step = step.as_str(), %error, "failed");
    }
    let retry_after = outcome.failed.values().find_map(StepError::retry_after);
    // Steps are left out for want of a failure only when this process may not change anything.
    let stopped = if may_change { Fault::Bug } else { Fault::Transient };
    End::Failed { fault: outcome.worst_fault.unwrap_or(stopped), retry_after }
}

/// Lets steps out while this process leads, and logs them.
struct Steps<'a> {
    fence: &'a dyn Fence,
    work: &'a AtWork,
}

impl Progress for Steps<'_> {
    fn started(&self, step: &StepId, call: &Call) {
        debug!(step = step.as_str(), command = call.command(), "begun");
    }

    fn finished(&self, step: &StepId, result: &Result<Output, CallError>) {
        match result {
            Ok(_) => info!(step = step.as_str(), "done"),
            Err(error) => debug!(step = step.as_str(), %error, "came back with an error"),
        }
    }

    fn goes_on(&self) -> bool {
        // It is asked whenever a step of this plan, or of one that is waited for, is over.
        self.work.beat();
        self.fence.may_change()
    }
}
