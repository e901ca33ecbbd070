//! What a leader does: watch, and run the controllers.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use ccm_cloudstack::TokioRuntime;
use ccm_core::controllers::Controller;
use ccm_core::ids::{ClusterId, ServiceKey};
use ccm_core::node::lifecycle::LifecyclePolicy;
use ccm_core::parse::ParseContext;
use ccm_kubernetes::convert;
use ccm_kubernetes::live::nodes::NodeWriter;
use ccm_kubernetes::live::services::{WatchedCluster, key};
use ccm_kubernetes::live::watch::watch;
use futures_util::{Stream, stream};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::runtime::reflector::Store;
use tokio::sync::{mpsc, watch as latest};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::lifecycle::LifecycleController;
use super::live::LiveCluster;
use super::monitored::MonitoredCloud;
use super::nodes::{self, NodeController};
use super::plans::LatestPlans;
use super::ports::{Fence, Tell};
use super::services::{self, Queue, Schedule, ServiceController};
use crate::cli::ControllerOptions;
use crate::config::Config;
use crate::connect;
use crate::metrics::Metrics;
use crate::serve::{Health, Heart};
use crate::traces::Traces;

/// The members of every rule are read once in this time.
const ALL_MEMBERS_WITHIN: std::time::Duration = std::time::Duration::from_hours(1);

/// The longest that is done without a beat, besides a job: a reading of everything from a slow
/// server.
const BETWEEN_BEATS: std::time::Duration = std::time::Duration::from_mins(10);

/// See the module.
pub(super) struct Work<'a> {
    pub(super) options: &'a ControllerOptions,
    pub(super) config: &'a Config,
    pub(super) kubernetes: &'a kube::Client,
    pub(super) cloud: &'a Arc<MonitoredCloud>,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) health: &'a Health,
    pub(super) plans: &'a Arc<LatestPlans>,
    pub(super) traces: Option<&'a Traces>,
    pub(super) teller: Arc<dyn Tell>,
    pub(super) fence: Arc<dyn Fence>,
    pub(super) stop: CancellationToken,
}

/// What the watches bring, as long as this lives.
struct Watches {
    services: Store<Service>,
    nodes: Store<Node>,
    node_changes: latest::Receiver<()>,
    _tasks: JoinSet<()>,
}

impl Work<'_> {
    /// Runs the controllers until `stop`, and then until what has begun is over.
    pub(super) async fn run(self) -> Result<()> {
        let (watches, touched) = self.watch();
        let caches = self.health.readiness("caches");
        tokio::select! {
            listed = listed(&watches) => listed?,
            () = self.stop.cancelled() => return Ok(()),
        }
        caches.holds();
        let services: Vec<_> =
            watches.services.state().iter().map(|found| convert::service(found)).collect();
        let cluster_id = connect::cluster_id(self.config, &services, self.kubernetes).await?;
        info!(%cluster_id, "the cluster id is known");
        if let Some(traces) = self.traces {
            traces.of_cluster(&cluster_id);
        }
        let cluster = self.cluster(&watches, &cluster_id);
        tokio::join!(
            self.run_services(&cluster, &cluster_id, &watches, touched),
            self.run_nodes(&cluster, &watches),
            self.run_lifecycle(&cluster),
        );
        Ok(())
    }

    fn watch(&self) -> (Watches, mpsc::UnboundedReceiver<ServiceKey>) {
        let mut tasks = JoinSet::new();
        let (touch, touched) = mpsc::unbounded_channel();
        let (services, task) = watch(Api::all(self.kubernetes.clone()), move |service| {
            if let Some(service) = service {
                // Nobody listens where the Service controller is off.
                let _ = touch.send(key(service));
            }
        });
        tasks.spawn(task);
        let (changed, node_changes) = latest::channel(());
        let (nodes, task) = watch(Api::all(self.kubernetes.clone()), move |_| {
            changed.send_replace(());
        });
        tasks.spawn(task);
        (Watches { services, nodes, node_changes, _tasks: tasks }, touched)
    }

    fn cluster(&self, watches: &Watches, cluster_id: &ClusterId) -> Arc<LiveCluster> {
        let services = WatchedCluster::new(
            self.kubernetes.clone(),
            watches.services.clone(),
            watches.nodes.clone(),
            cluster_id.clone(),
        );
        let context = ParseContext { cluster_id: cluster_id.clone() };
        Arc::new(LiveCluster::new(services, NodeWriter::new(self.kubernetes.clone()), context))
    }

    async fn run_services(
        &self,
        cluster: &Arc<LiveCluster>,
        cluster_id: &ClusterId,
        watches: &Watches,
        touched: mpsc::UnboundedReceiver<ServiceKey>,
    ) {
        if !self.options.controllers.runs(Controller::Service) {
            return;
        }
        self.metrics.runs(Controller::Service, true);
        let policy = self.config.policy(cluster_id.clone());
        let controller = ServiceController::new(
            (Arc::clone(self.cloud), Arc::clone(cluster), TokioRuntime),
            policy,
            services::Settings {
                at_once: self.options.service_syncs.get(),
                ..services::Settings::default()
            },
            Arc::clone(&self.teller),
            Arc::clone(&self.fence),
            Arc::clone(self.metrics),
            self.heart(Controller::Service),
        );
        let controller = if self.options.dry_run {
            controller.dry_run(Arc::clone(self.plans))
        } else {
            controller
        };
        let queue = Queue {
            turns: watches.services.clone(),
            touched: stream::unfold(touched, async |mut touched| {
                Some((touched.recv().await?, touched))
            }),
            nodes: changes(watches.node_changes.clone()),
            schedule: self.schedule(),
        };
        Arc::new(controller).run(queue, self.stop.clone()).await;
    }

    fn schedule(&self) -> Schedule {
        let drift = self.options.drift_interval;
        let rounds = ALL_MEMBERS_WITHIN.as_secs().checked_div(drift.as_secs()).unwrap_or(1).max(1);
        Schedule {
            drift,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            windows: self.options.windows,
        }
    }

    fn heart(&self, controller: Controller) -> Heart {
        self.health.controller(controller, self.config.job_timeout + BETWEEN_BEATS)
    }

    async fn run_nodes(&self, cluster: &Arc<LiveCluster>, watches: &Watches) {
        if !self.options.controllers.runs(Controller::CloudNode) || self.options.dry_run {
            return;
        }
        self.metrics.runs(Controller::CloudNode, true);
        let controller = NodeController {
            cloud: Arc::clone(self.cloud),
            cluster: Arc::clone(cluster),
            runtime: TokioRuntime,
            settings: nodes::Settings {
                every: self.options.node_status_period,
                new_at_once: self.options.node_syncs.get(),
                refreshed_at_once: self.options.node_status_updates.get(),
                region: self.config.region.clone(),
            },
            teller: Arc::clone(&self.teller),
            fence: Arc::clone(&self.fence),
            metrics: Arc::clone(self.metrics),
            heart: self.heart(Controller::CloudNode),
        };
        tokio::select! {
            () = controller.run(changes(watches.node_changes.clone())) => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn run_lifecycle(&self, cluster: &Arc<LiveCluster>) {
        if !self.options.controllers.runs(Controller::CloudNodeLifecycle) || self.options.dry_run {
            return;
        }
        self.metrics.runs(Controller::CloudNodeLifecycle, true);
        let controller = LifecycleController {
            cloud: Arc::clone(self.cloud),
            cluster: Arc::clone(cluster),
            runtime: TokioRuntime,
            period: self.options.node_monitor_period,
            policy: LifecyclePolicy::default(),
            teller: Arc::clone(&self.teller),
            fence: Arc::clone(&self.fence),
            heart: self.heart(Controller::CloudNodeLifecycle),
        };
        tokio::select! {
            () = controller.run() => {}
            () = self.stop.cancelled() => {}
        }
    }
}

async fn listed(watches: &Watches) -> Result<()> {
    watches.services.wait_until_ready().await.context("the watch of Services has ended")?;
    watches.nodes.wait_until_ready().await.context("the watch of Nodes has ended")?;
    Ok(())
}

/// An item for everything that happened since the last one.
fn changes(changes: latest::Receiver<()>) -> impl Stream<Item = ()> {
    stream::unfold(changes, async |mut changes| {
        changes.changed().await.ok()?;
        Some(((), changes))
    })
}
