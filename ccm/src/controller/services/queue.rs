//! Brings up Services: when the watch tells of them, when nodes change, and once in each drift
//! round.
//!
//! The queue itself is kube-runtime's ([`Store`] as [`Turns`]): one Service is never brought up twice
//! at once, and what was put off comes up again. A simulation brings an order of its own, which a
//! seed decides.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloudstack::Runtime;
use ccm_core::agenda::Demand;
use ccm_core::debounce::{NodeChanges, Windows};
use ccm_core::event::sync::Cause;
use ccm_core::ids::ServiceKey;
use ccm_core::parse;
use ccm_core::plan::planner::Depth;
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::core::DynamicObject;
use kube::runtime::controller::{self, Action, Config, ReconcileRequest};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, trace};

use super::ServiceController;
use crate::controller::ports::{Look, Watch};
use crate::controller::{between, jitter, nodes_by_name};
use crate::ports::{Cloud, Cluster};

/// How often the queue shows that it moves when nothing comes in.
const BEAT: Duration = Duration::from_mins(1);

/// How often things are looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// From one drift round to the next.
    pub drift: Duration,
    /// In so many rounds the members of every rule are read once.
    pub rounds: u32,
    /// How long changes of nodes are collected.
    pub windows: Windows,
}

/// Lets Services take their turns.
pub trait Turns {
    /// Lets every Service of `requests` take a turn, never one of them twice at once, and again at the
    /// time that its turn gives; calls `turn_over` after each. Ends with `requests`, once what has
    /// begun is over.
    fn take<C, K, R>(
        self,
        controller: Arc<ServiceController<C, K, R>>,
        requests: impl Stream<Item = ServiceKey>,
        turn_over: impl FnMut(),
    ) -> impl Future<Output = ()>
    where
        C: Cloud,
        K: Cluster + Watch,
        R: Runtime;
}

/// What makes Services come up.
pub struct Queue<T, S, N> {
    /// Who lets them take their turns.
    pub turns: T,
    /// Those that the watch tells of.
    pub touched: S,
    /// An item whenever a Node may have changed.
    pub nodes: N,
    /// When.
    pub schedule: Schedule,
}

impl<C, K, R> ServiceController<C, K, R>
where
    C: Cloud,
    K: Cluster + Watch,
    R: Runtime,
{
    /// Works until `stop`, and then until what has begun is over.
    pub async fn run<T, S, N>(self: Arc<Self>, queue: Queue<T, S, N>, stop: CancellationToken)
    where
        T: Turns,
        S: Stream<Item = ServiceKey>,
        N: Stream<Item = ()>,
    {
        let Queue { turns, touched, nodes, schedule } = queue;
        let (wake, woken) = mpsc::unbounded_channel();
        let (told, vanished) = mpsc::unbounded_channel();
        let drift = self.bring_up_in_rounds(schedule, wake.clone());
        let changes = self.bring_up_for_nodes(schedule.windows, nodes, wake.clone());
        let requests = stream::select(touched, received(woken));
        let requests = stream::select(requests, self.beats()).take_until(stop.cancelled());
        let cluster = &self.cluster;
        let tell_vanished = move || {
            for key in cluster.news() {
                // Nobody listens any more when this process is about to end.
                let _ = told.send(key);
            }
        };
        let work = turns.take(Arc::clone(&self), requests, tell_vanished);
        let removals = received(vanished).for_each_concurrent(None, |key| {
            self.remove_vanished(key, schedule.drift, &wake, &stop)
        });
        let work = async { tokio::join!(work, removals) };
        let bring_up = async { tokio::join!(drift, changes) };
        // The work ends with `stop`, once what has begun is over.
        tokio::select! {
            biased;
            _ = work => {}
            _ = bring_up => {}
        }
    }

    /// Shows that somebody takes what comes in; brings up nothing.
    fn beats<T>(&self) -> impl Stream<Item = T> + use<T, C, K, R> {
        let pulse = self.heart.work();
        let ticks = stream::unfold((), async |()| {
            tokio::time::sleep(BEAT).await;
            Some(((), ()))
        });
        ticks.filter_map(move |()| {
            pulse.beat();
            std::future::ready(None)
        })
    }

    fn note_gone(&self, gone: &ObjectRef<DynamicObject>) {
        let key = ServiceKey::new(gone.namespace.as_deref().unwrap_or_default(), &*gone.name);
        if self.cluster.look(&key, self.runtime.now()) == Look::Gone {
            self.forget(&key);
        }
    }

    /// Removes what a vanished Service left, and then lets the one that has its name now go on.
    async fn remove_vanished(
        &self,
        key: ServiceKey,
        drift: Duration,
        wake: &mpsc::UnboundedSender<ServiceKey>,
        stop: &CancellationToken,
    ) {
        self.demand(&key, Depth::Quick, Cause::Wanted);
        while self.cluster.remembers(&key) && !stop.is_cancelled() {
            let next = self.take_turn(&key).await;
            if self.cluster.remembers(&key) {
                let wait = next.map_or(drift, |at| between(self.runtime.now(), at));
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
        self.forget(&key);
        let successor = ServiceKey::new(&*key.namespace, key.object_name());
        self.demand(&successor, Depth::Quick, Cause::Wanted);
        let _ = wake.send(successor);
    }

    async fn bring_up(&self, service: &Service) -> Action {
        let key = ccm_kubernetes::live::services::key(service);
        match self.take_turn(&key).await {
            Some(at) => Action::requeue(between(self.runtime.now(), at)),
            None => Action::await_change(),
        }
    }

    /// The drift round: all Services share one reading of CloudStack.
    async fn bring_up_in_rounds(
        &self,
        schedule: Schedule,
        wake: mpsc::UnboundedSender<ServiceKey>,
    ) {
        for round in 1_u32.. {
            let early = schedule.drift.mul_f64(jitter(&self.runtime.fresh_uuid()) / 10.0);
            tokio::time::sleep(schedule.drift.saturating_sub(early)).await;
            let _work = self.heart.work();
            let depth = Depth::Turn { round, of: schedule.rounds };
            let services = self.demand_all(depth, Cause::Drift, &wake).await;
            info!(round, services = services.len(), "drift round");
        }
    }

    async fn bring_up_for_nodes(
        &self,
        windows: Windows,
        changed: impl Stream<Item = ()>,
        wake: mpsc::UnboundedSender<ServiceKey>,
    ) {
        let nodes = nodes_by_name(&self.cluster).await;
        let mut collected = NodeChanges::new(windows, self.policy.node_readiness, &nodes);
        tokio::pin!(changed);
        loop {
            tokio::select! {
                biased;
                item = changed.next() => match item {
                    Some(()) => {
                        let _work = self.heart.work();
                        let nodes = nodes_by_name(&self.cluster).await;
                        collected.handle(&nodes, self.runtime.now());
                    }
                    None => return,
                },
                () = self.sleep_until(collected.next_due()) => {}
            }
            if collected.due(self.runtime.now()) {
                let _work = self.heart.work();
                let services = self.demand_all(Depth::Quick, Cause::Wanted, &wake).await;
                info!(services = services.len(), "nodes changed");
                let mut memory = self.memory();
                memory.node_pass.begin(services, self.runtime.now());
                self.count_node_pass(&mut memory);
            }
        }
    }

    async fn sleep_until(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => tokio::time::sleep(between(self.runtime.now(), at)).await,
            None => std::future::pending().await,
        }
    }

    /// Demands a sync of all Services; gives them.
    async fn demand_all(
        &self,
        depth: Depth,
        cause: Cause,
        wake: &mpsc::UnboundedSender<ServiceKey>,
    ) -> Vec<ServiceKey> {
        let Ok(objects) = self.cluster.read().await else { return Vec::new() };
        let context = parse::ParseContext { cluster_id: self.policy.cluster_id.clone() };
        let concerned = objects
            .services
            .iter()
            .filter(|service| ccm_core::trigger::concerns(service, &context));
        let mut services = Vec::new();
        for service in concerned {
            let key = ServiceKey::new(service.namespace.clone(), service.name.clone());
            self.demand(&key, depth, cause);
            // Nobody listens any more when this process is about to end.
            let _ = wake.send(key.clone());
            services.push(key);
        }
        services
    }

    /// Demands a sync with a state that is read from now on.
    fn demand(&self, key: &ServiceKey, depth: Depth, cause: Cause) {
        let demand = Demand { at: self.runtime.now(), since: self.snapshots.tick(), depth, cause };
        self.memory().agenda.demand(key, demand);
    }
}

impl Turns for Store<Service> {
    async fn take<C, K, R>(
        self,
        controller: Arc<ServiceController<C, K, R>>,
        requests: impl Stream<Item = ServiceKey>,
        mut turn_over: impl FnMut(),
    ) where
        C: Cloud,
        K: Cluster + Watch,
        R: Runtime,
    {
        let requests = requests.map(|key| Ok::<_, Infallible>(request(&key)));
        let reconcile = |service: Arc<Service>, controller: Arc<ServiceController<C, K, R>>| {
            async move { Ok::<_, Infallible>(controller.bring_up(&service).await) }.boxed_local()
        };
        let never = |_: Arc<Service>, error: &Infallible, _: Arc<_>| match *error {};
        // How many run at once is the controller's word.
        let config = Config::default();
        let context = Arc::clone(&controller);
        let applied = kube::runtime::applier(reconcile, never, context, self, requests, config);
        let note = |item| {
            match item {
                Err(controller::Error::ObjectNotFound(gone)) => controller.note_gone(&gone),
                item => trace!(?item, "turn taken"),
            }
            turn_over();
            std::future::ready(())
        };
        applied.for_each(note).await;
    }
}

fn received(channel: mpsc::UnboundedReceiver<ServiceKey>) -> impl Stream<Item = ServiceKey> {
    stream::unfold(channel, async |mut channel| Some((channel.recv().await?, channel)))
}

fn request(key: &ServiceKey) -> ReconcileRequest<Service> {
    ObjectRef::new(&key.name).within(&key.namespace).into()
}
