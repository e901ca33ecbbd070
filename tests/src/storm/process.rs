//! One process of the controller: the real controllers, on their real clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_cloudstack::{Client, Credentials, Options};
use ccm_core::controllers::Controller;
use ccm_core::debounce::Windows;
use ccm_core::event::Event;
use ccm_core::event::correlate::ObjectRef;
use ccm_core::ids::ServiceKey;
use ccm_core::model::policy::Policy;
use ccm_core::node::lifecycle::LifecyclePolicy;
use ccm_core::parse::ParseContext;
use ccm_kubernetes::live::nodes::NodeWriter;
use ccm_kubernetes::live::services::WatchedCluster;
use cloudstack_ccm::controller::lifecycle::LifecycleController;
use cloudstack_ccm::controller::live::LiveCluster;
use cloudstack_ccm::controller::nodes::{self, NodeController};
use cloudstack_ccm::controller::ports::{Fence, Tell};
use cloudstack_ccm::controller::services::{Queue, Schedule, ServiceController, Settings};
use cloudstack_ccm::metrics::Metrics;
use cloudstack_ccm::serve::Health;
use futures_util::stream;
use kube::runtime::reflector::store;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::api_client::{ApiClient, Informer};
use super::clock::Clock;
use super::cloud::Wire;
use super::turns::InOrder;

/// What a process runs with.
#[derive(Clone)]
pub struct Configuration {
    /// Identity of its cluster, and how things are done.
    pub policy: Policy,
    /// Its keys.
    pub credentials: Credentials,
    /// The way to CloudStack.
    pub wire: Wire,
    /// The way to Kubernetes.
    pub api: ApiClient,
    /// Its clock.
    pub clock: Clock,
}

/// See the module.
pub struct Process {
    task: JoinHandle<()>,
    leads: Arc<AtomicBool>,
    /// Its clock.
    pub clock: Clock,
}

/// Says whether a process leads.
struct Lease(Arc<AtomicBool>);

impl Fence for Lease {
    fn may_change(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Writes events down.
struct Teller(ApiClient);

impl Tell for Teller {
    fn tell(&self, about: &ObjectRef, event: &Event) {
        let (cluster, Event { reason, message, .. }) = (self.0.cluster, event);
        self.0.watcher.log(|| format!("k{cluster} {}: {reason}: {message}", about.name));
    }
}

impl Process {
    /// Starts a process that leads.
    pub fn start(configuration: &Configuration) -> Self {
        let leads = Arc::new(AtomicBool::new(true));
        let work = run(configuration.clone(), Arc::new(Lease(Arc::clone(&leads))));
        let task = tokio::task::spawn_local(work);
        Self { task, leads, clock: configuration.clock.clone() }
    }

    /// It dies, wherever it is.
    pub fn kill(&self) {
        self.task.abort();
    }

    /// It may begin nothing any more; what it has begun goes on.
    pub fn depose(&self) {
        self.leads.store(false, Ordering::SeqCst);
    }
}

async fn run(configuration: Configuration, fence: Arc<dyn Fence>) {
    let Configuration { policy, credentials, wire, api, clock } = configuration;
    let options = Options { project: policy.project.clone(), ..Options::default() };
    let dice = wire.dice.clone();
    let cloud = Arc::new(Client::new(wire, clock.clone(), credentials, options));
    let (services, service_writer) = store();
    let (known_nodes, node_writer) = store();
    let (touch, mut touched) = mpsc::unbounded_channel::<ServiceKey>();
    let node_changes = watch::channel(()).0;
    let mut informer = Informer {
        server: Arc::clone(&api.server),
        troubles: api.troubles.clone(),
        dice,
        services: service_writer,
        nodes: node_writer,
        touched: touch,
        node_changes: node_changes.clone(),
    };
    let heard = informer.list(&[]);
    let teller: Arc<dyn Tell> = Arc::new(Teller(api.clone()));
    let client = kube::Client::new(api, "default");
    let watched =
        WatchedCluster::new(client.clone(), services, known_nodes, policy.cluster_id.clone());
    let context = ParseContext { cluster_id: policy.cluster_id.clone() };
    let cluster = Arc::new(LiveCluster::new(watched, NodeWriter::new(client), context));
    let (metrics, health) = (Arc::new(Metrics::new("storm")), Health::new());
    let pulse = |controller| health.controller(controller, Duration::from_mins(20));
    let service_controller = ServiceController::new(
        (Arc::clone(&cloud), Arc::clone(&cluster), clock.clone()),
        policy,
        Settings::default(),
        Arc::clone(&teller),
        Arc::clone(&fence),
        Arc::clone(&metrics),
        pulse(Controller::Service),
    );
    let queue = Queue {
        turns: InOrder(clock.clone()),
        touched: stream::poll_fn(move |context| touched.poll_recv(context)),
        nodes: changes(node_changes.subscribe()),
        schedule: Schedule {
            drift: Duration::from_mins(10),
            rounds: 6,
            windows: Windows::default(),
        },
    };
    let node_controller = NodeController {
        cloud: Arc::clone(&cloud),
        cluster: Arc::clone(&cluster),
        runtime: clock.clone(),
        settings: nodes::Settings {
            every: Duration::from_mins(5),
            new_at_once: 1,
            refreshed_at_once: 1,
            region: None,
        },
        teller: Arc::clone(&teller),
        fence: Arc::clone(&fence),
        metrics: Arc::clone(&metrics),
        heart: pulse(Controller::CloudNode),
    };
    let lifecycle_controller = LifecycleController {
        cloud,
        cluster,
        runtime: clock,
        period: Duration::from_secs(30),
        policy: LifecyclePolicy::default(),
        teller,
        fence,
        heart: pulse(Controller::CloudNodeLifecycle),
    };
    tokio::join!(
        informer.run(heard),
        Arc::new(service_controller).run(queue, CancellationToken::new()),
        node_controller.run(changes(node_changes.subscribe())),
        lifecycle_controller.run(),
    );
}

fn changes(changes: watch::Receiver<()>) -> impl futures_util::Stream<Item = ()> {
    stream::unfold(changes, async |mut changes| {
        changes.changed().await.ok()?;
        Some(((), changes))
    })
}
