//! The Service controller: every Service of type LoadBalancer gets what its plan says.
//!
//! | File | Does |
//! |---|---|
//! | `queue.rs` | brings up Services: watch, drift round, changes of nodes |
//! | `sync.rs` | reads, plans, executes and tells, for one Service |
//! | `vanished.rs` | keeps what is left of Services that vanished among those that are there |
//!
//! One Service is never worked on twice at once (the queue's word). What is due, and how closely it
//! is looked at, is the agenda's word; what is done, the plan's.

mod queue;
mod sync;
mod vanished;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccm_cloudstack::Runtime;
use ccm_core::agenda::{Agenda, End, Tick, Turn};
use ccm_core::event::announced::Announced;
use ccm_core::event::correlate::ObjectRef;
use ccm_core::event::dry_run::DryRun;
use ccm_core::ids::{PublicIpId, ServiceKey};
use ccm_core::model::Learned;
use ccm_core::model::policy::Policy;
use ccm_core::model::service::Service;
use ccm_core::trigger::Trigger;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use crate::controller::plans::LatestPlans;
use crate::controller::ports::{Fence, Look, Tell, Watch};
use crate::controller::snapshots::Snapshots;
use crate::controller::{between, jitter, record_outcome, sync_span};
use crate::driver::SharedLanes;
use crate::metrics::{self, Metrics, ServiceStates};
use crate::ports::{Cloud, Cluster};
use crate::serve::Heart;

use vanished::WithVanished;

pub use queue::{Queue, Schedule, Turns};

/// How the controller works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A Service that changed is planned with a state of CloudStack that is at most so old.
    pub fresh: Duration,
    /// Most Services that are worked on at once: so many that changed, and as many others. Those that
    /// changed don't wait for a start or a drift round that looks after all.
    pub at_once: usize,
    /// One that is looked after for another reason, which says how old the state may be: if it is
    /// its turn late, then at most so old.
    pub shared: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { fresh: Duration::from_secs(10), at_once: 16, shared: Duration::from_mins(5) }
    }
}

/// See the module.
pub struct ServiceController<C, K, R> {
    cloud: C,
    cluster: WithVanished<K>,
    runtime: R,
    policy: Policy,
    settings: Settings,
    snapshots: Snapshots,
    lanes: SharedLanes,
    places: Places,
    teller: Arc<dyn Tell>,
    fence: Arc<dyn Fence>,
    metrics: Arc<Metrics>,
    heart: Heart,
    /// In a dry run: plans are made and shown, and not carried out.
    shown: Option<Arc<LatestPlans>>,
    memory: Mutex<Memory>,
}

/// Places to work in.
#[derive(Debug)]
struct Places {
    changed: Semaphore,
    others: Semaphore,
}

impl Places {
    fn new(of_each: usize) -> Self {
        Self { changed: Semaphore::new(of_each), others: Semaphore::new(of_each) }
    }

    /// Where a Service is worked on. Right after a start all of them are new.
    fn of(&self, trigger: Option<Trigger>) -> &Semaphore {
        match trigger {
            Some(Trigger::Changed | Trigger::Stripped | Trigger::StrippedAgain) => &self.changed,
            Some(Trigger::New | Trigger::LeftStripped) | None => &self.others,
        }
    }
}

/// What is remembered between syncs. Losing it costs time, never safety.
#[derive(Debug, Default)]
struct Memory {
    agenda: Agenda,
    learned: Learned,
    announced: Announced<ServiceKey>,
    dry_run: DryRun,
    /// How each Service stands.
    standings: BTreeMap<ServiceKey, Stand>,
    node_pass: NodePass,
    /// When something of ours was last written to an address, by whichever Service.
    written: BTreeMap<PublicIpId, Tick>,
}

impl<C: Cloud, K: Cluster + Watch, R: Runtime> ServiceController<C, K, R> {
    /// A controller that has seen nothing yet.
    pub fn new(
        (cloud, cluster, runtime): (C, K, R),
        policy: Policy,
        settings: Settings,
        teller: Arc<dyn Tell>,
        fence: Arc<dyn Fence>,
        metrics: Arc<Metrics>,
        heart: Heart,
    ) -> Self {
        Self {
            cloud,
            cluster: WithVanished::new(cluster, policy.cluster_id.clone()),
            runtime,
            policy,
            settings,
            snapshots: Snapshots::default(),
            lanes: SharedLanes::default(),
            places: Places::new(settings.at_once),
            teller,
            fence,
            metrics,
            heart,
            shown: None,
            memory: Mutex::new(Memory { learned: Learned::remembering(), ..Memory::default() }),
        }
    }

    /// The same, and plans are only shown.
    #[must_use]
    pub fn dry_run(self, shown: Arc<LatestPlans>) -> Self {
        Self { shown: Some(shown), ..self }
    }

    /// Takes the turn of a Service that a queue brings up; says when to bring it up again if nothing
    /// else happens.
    pub async fn take_turn(&self, key: &ServiceKey) -> Option<Timestamp> {
        let now = self.runtime.now();
        let Look::Seen(trigger) = self.cluster.look(key, now) else {
            self.forget(key);
            return None;
        };
        let turn = self.memory().agenda.turn(key, trigger, now);
        match turn {
            Turn::Nothing => None,
            Turn::Later(at) => Some(at),
            Turn::Sync { since, depth, cause, changed } => {
                let queue = self.metrics.queue("service");
                queue.added();
                let _place = self.places.of(trigger).acquire().await;
                let began = self.runtime.now();
                queue.taken(between(now, began));
                let at_most = if changed { self.settings.fresh } else { self.settings.shared };
                let request = sync::Request { since, at_most, depth, cause };
                let span = sync_span!(self.runtime.fresh_uuid(), service = %key);
                let work = self.heart.work();
                let end = self.sync(key, request, trigger, &work).instrument(span.clone()).await;
                let outcome = self.count(key, end, between(began, self.runtime.now()));
                record_outcome(&span, outcome);
                let jitter = jitter(&self.runtime.fresh_uuid());
                let at = (self.runtime.now(), self.snapshots.tick());
                let mut memory = self.memory();
                memory.agenda.handle_end(key, end, at, jitter);
                memory.agenda.next(key)
            }
        }
    }

    fn count(&self, key: &ServiceKey, end: End, took: Duration) -> metrics::Outcome {
        let queue = self.metrics.queue("service");
        queue.worked(took);
        if matches!(end, End::Failed { .. } | End::Displaced) {
            queue.retried();
        }
        let mut memory = self.memory();
        let outcome = outcome(end, memory.standings.get(key).copied());
        self.metrics.reconciled("service", outcome, took);
        if memory.node_pass.handle_through(key) {
            self.metrics.hosts_synced(outcome, took);
        }
        self.count_node_pass(&mut memory);
        outcome
    }

    fn count_node_pass(&self, memory: &mut Memory) {
        if let Some(began) = memory.node_pass.take_end() {
            self.metrics.nodes_synced(between(began, self.runtime.now()));
        }
    }

    fn forget(&self, key: &ServiceKey) {
        let mut memory = self.memory();
        memory.node_pass.handle_through(key);
        self.count_node_pass(&mut memory);
        memory.agenda.forget(key);
        memory.announced.forget(key);
        memory.dry_run.forget(key);
        memory.standings.remove(key);
        self.metrics.services(states(&memory.standings));
        if let Some(shown) = &self.shown {
            shown.forget(key);
        }
    }

    /// Tells that somebody keeps removing what we write.
    fn tell_stripped(&self, service: &Service, trigger: Option<Trigger>) {
        if let Some(event) = trigger.and_then(Trigger::event) {
            self.teller.tell(&reference(service), &event);
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a Service stands, for the gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Programmed,
    Pending,
    Blocked,
    Degraded,
}

fn states(standings: &BTreeMap<ServiceKey, Stand>) -> ServiceStates {
    let count = |wanted| standings.values().filter(|stand| **stand == wanted).count();
    ServiceStates {
        programmed: count(Stand::Programmed),
        pending: count(Stand::Pending),
        blocked: count(Stand::Blocked),
        degraded: count(Stand::Degraded),
    }
}

/// A sync of all Services because Nodes came or went, as it is counted. Where Nodes come or go
/// again before it is over, it goes on.
#[derive(Debug, Default)]
struct NodePass {
    began: Option<Timestamp>,
    left: BTreeSet<ServiceKey>,
}

impl NodePass {
    fn begin(&mut self, services: impl IntoIterator<Item = ServiceKey>, now: Timestamp) {
        self.began.get_or_insert(now);
        self.left = services.into_iter().collect();
    }

    /// One is synced, or gone. Whether it was part of this.
    fn handle_through(&mut self, key: &ServiceKey) -> bool {
        self.left.remove(key)
    }

    /// When it began, once it is over.
    fn take_end(&mut self) -> Option<Timestamp> {
        if self.left.is_empty() { self.began.take() } else { None }
    }
}

fn outcome(end: End, stand: Option<Stand>) -> metrics::Outcome {
    match end {
        End::Done(_) | End::Waits(_) if stand == Some(Stand::Blocked) => metrics::Outcome::Blocked,
        End::Done(None) => metrics::Outcome::Done,
        End::Done(Some(_)) | End::Waits(_) | End::Displaced => metrics::Outcome::Waiting,
        End::Failed { fault, retry_after: _ } => metrics::Outcome::Failed(fault),
    }
}

/// A Service as events name it.
fn reference(service: &Service) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "Service",
        namespace: service.key.namespace.clone(),
        name: service.key.object_name().to_owned(),
        uid: service.uid.to_string(),
    }
}
