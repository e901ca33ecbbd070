//! Everything around the controllers.

mod cloud;
mod cluster;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccm_cloudstack::{Client, Credentials, Options, Runtime as _};
use ccm_core::controllers::Controller;
use ccm_core::debounce::Windows;
use ccm_core::event::Event;
use ccm_core::event::correlate::ObjectRef;
use ccm_core::ids::{ClusterId, ServiceKey};
use ccm_core::model::policy::Policy;
use ccm_core::node::lifecycle::LifecyclePolicy;
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_simulator::world::World;
use ccm_tests::lab::{fixture, node_of, uid_of, web};
use cloudstack_ccm::controller::lifecycle::LifecycleController;
use cloudstack_ccm::controller::nodes::{self, NodeController};
use cloudstack_ccm::controller::plans::LatestPlans;
use cloudstack_ccm::controller::ports::{Fence, Inventory, Tell};
use cloudstack_ccm::controller::services::{Queue, Schedule, ServiceController, Settings};
use cloudstack_ccm::metrics::Metrics;
use cloudstack_ccm::serve::{Health, Heart, Probe};
use futures_util::stream;
use tokio_util::sync::CancellationToken;

pub use cloud::{Cloud, PausedClock};
use cluster::{PausedCluster, Watched};

/// As the process has it: a job's ten minutes, and as many more.
const PATIENCE: Duration = Duration::from_mins(20);

/// Remembers what was told.
#[derive(Default)]
pub struct Told(Mutex<Vec<(String, &'static str, String)>>);

impl Tell for Told {
    fn tell(&self, about: &ObjectRef, event: &Event) {
        lock(&self.0).push((about.name.clone(), event.reason, event.message.clone()));
    }
}

struct Free;

impl Fence for Free {
    fn may_change(&self) -> bool {
        true
    }
}

/// See the module.
pub struct Stage {
    pub clock: PausedClock,
    pub cloud: Cloud,
    pub cluster: Arc<PausedCluster>,
    pub told: Arc<Told>,
    pub plans: Arc<LatestPlans>,
    pub metrics: Arc<Metrics>,
    pub health: Health,
    /// Of the Service controllers to come.
    pub policy: Policy,
    world: World,
    watched: Mutex<Option<Watched>>,
}

impl Stage {
    /// The standard world of the cases, with its three Nodes; no controller runs.
    pub fn new() -> Self {
        Self::with_world(|_| {})
    }

    /// The same with a world that differs.
    pub fn with_world(edit: impl FnOnce(&mut World)) -> Self {
        let mut world = World::load(&fixture("worlds/standard.yaml")).expect("the standard world");
        edit(&mut world);
        let clock = PausedClock::new(world.started);
        let cloud = Cloud::new(&world, clock.clone());
        let (cluster, watched) = PausedCluster::new();
        let stage = Self {
            clock,
            cloud,
            cluster: Arc::new(cluster),
            told: Arc::default(),
            plans: Arc::default(),
            metrics: Arc::new(Metrics::new("test")),
            health: Health::new(),
            policy: Policy::new(cluster_id()),
            world,
            watched: Mutex::new(Some(watched)),
        };
        for name in ["node-1", "node-2", "node-3"] {
            stage.add_node(name);
        }
        stage
    }

    /// The Node of a VM joins.
    pub fn add_node(&self, name: &str) {
        let node = RawNode {
            uid: Some(format!("uid-of-{name}")),
            creation_timestamp: Some(self.clock.now()),
            ready: Some("True".to_owned()),
            ..node_of(&self.world, name)
        };
        self.cluster.with(|cluster| cluster.set_node(node));
    }

    /// Makes a Service of type LoadBalancer.
    pub fn create(&self, name: &str, edit: impl FnOnce(&mut RawService)) -> ServiceKey {
        let mut raw = web(name);
        raw.uid = Some(uid_of(name));
        raw.creation_timestamp = Some(self.clock.now());
        edit(&mut raw);
        self.cluster.with(|cluster| cluster.create(raw)).expect("a new Service")
    }

    /// The same, once it is served.
    pub async fn serve(&self, name: &str) -> ServiceKey {
        let key = self.create(name, |_| ());
        self.pass(Duration::from_mins(1)).await;
        assert!(self.published(&key).is_some(), "{name} is not served");
        key
    }

    /// The same, and then somebody deletes its rule.
    pub async fn serve_and_delete_rule(&self, name: &str) -> ServiceKey {
        let key = self.serve(name).await;
        let rule = self.cloud.rules().remove(0);
        self.cloud.by_hand("deleteLoadBalancerRule", &[("id", &rule)]).await;
        key
    }

    pub fn client(&self) -> Client<Cloud, PausedClock> {
        let (api_key, secret_key) = self.keys();
        self.client_with(&api_key, &secret_key)
    }

    /// API key and secret key of the controller.
    pub fn keys(&self) -> (String, String) {
        let keys = self.world.accounts.iter().find(|account| account.name == "prod");
        let keys = keys.expect("the account of the controller");
        (keys.api_key.clone(), keys.secret_key.clone())
    }

    pub fn client_with(&self, api_key: &str, secret_key: &str) -> Client<Cloud, PausedClock> {
        let credentials = Credentials::new(api_key, secret_key);
        Client::new(self.cloud.clone(), self.clock.clone(), credentials, Options::default())
    }

    pub fn teller(&self) -> Arc<dyn Tell> {
        Arc::<Told>::clone(&self.told)
    }

    pub fn fence() -> Arc<dyn Fence> {
        Arc::new(Free)
    }

    pub fn heart(&self, controller: Controller) -> Heart {
        self.health.controller(controller, PATIENCE)
    }

    /// The controller of metadata, as the process makes it; it refreshes every five minutes.
    pub fn node_controller<C: Inventory>(
        &self,
        cloud: C,
    ) -> NodeController<C, Arc<PausedCluster>, PausedClock> {
        NodeController {
            cloud,
            cluster: Arc::clone(&self.cluster),
            runtime: self.clock.clone(),
            settings: nodes::Settings {
                every: Duration::from_mins(5),
                new_at_once: 16,
                refreshed_at_once: 16,
                region: None,
            },
            teller: self.teller(),
            fence: Self::fence(),
            metrics: Arc::clone(&self.metrics),
            heart: self.heart(Controller::CloudNode),
        }
    }

    /// The controller of their life, as the process makes it.
    pub fn lifecycle_controller<C: Inventory>(
        &self,
        cloud: C,
    ) -> LifecycleController<C, Arc<PausedCluster>, PausedClock> {
        LifecycleController {
            cloud,
            cluster: Arc::clone(&self.cluster),
            runtime: self.clock.clone(),
            period: Duration::from_secs(5),
            policy: LifecyclePolicy::default(),
            teller: self.teller(),
            fence: Self::fence(),
            heart: self.heart(Controller::CloudNodeLifecycle),
        }
    }

    /// Whether `/livez` finds a controller well.
    pub fn lives(&self, controller: Controller) -> bool {
        let check = self.health.check(Probe::Livez, controller.name());
        check.expect("a controller that has started").is_ok()
    }

    /// Whether the text of all metrics has a line that begins so.
    pub fn counted(&self, line: &str) -> bool {
        self.metrics.text().lines().any(|found| found.starts_with(line))
    }

    /// Runs the Service controller from its start while a story is told, and then stops it.
    pub async fn with_services<T>(&self, story: impl Future<Output = T>) -> T {
        self.run(self.client(), false, story).await
    }

    /// The same with a client of the caller's.
    pub async fn with_services_of<T>(
        &self,
        cloud: impl cloudstack_ccm::ports::Cloud,
        story: impl Future<Output = T>,
    ) -> T {
        self.run(cloud, false, story).await
    }

    /// The same in a dry run.
    pub async fn with_dry_run<T>(&self, story: impl Future<Output = T>) -> T {
        self.run(self.client(), true, story).await
    }

    async fn run<T>(
        &self,
        cloud: impl cloudstack_ccm::ports::Cloud,
        dry_run: bool,
        story: impl Future<Output = T>,
    ) -> T {
        let controller = ServiceController::new(
            (cloud, Arc::clone(&self.cluster), self.clock.clone()),
            self.policy.clone(),
            Settings::default(),
            self.teller(),
            Self::fence(),
            Arc::clone(&self.metrics),
            self.heart(Controller::Service),
        );
        let controller =
            if dry_run { controller.dry_run(Arc::clone(&self.plans)) } else { controller };
        let mut watched = lock(&self.watched).take().expect("one controller at a time");
        self.cluster.start(&mut watched);
        let Watched { store, touched } = &mut watched;
        let queue = Queue {
            turns: store.clone(),
            touched: stream::poll_fn(|context| touched.poll_recv(context)),
            nodes: stream::unfold(self.cluster.nodes(), async |mut nodes| {
                nodes.changed().await.ok()?;
                Some(((), nodes))
            }),
            schedule: Schedule {
                drift: Duration::from_mins(10),
                rounds: 6,
                windows: Windows::default(),
            },
        };
        let stop = CancellationToken::new();
        let told = async {
            let result = story.await;
            stop.cancel();
            result
        };
        let (result, ()) = tokio::join!(told, Arc::new(controller).run(queue, stop.clone()));
        *lock(&self.watched) = Some(watched);
        result
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Reasons of events about an object, in order.
    pub fn reasons(&self, name: &str) -> Vec<&'static str> {
        let told = lock(&self.told.0);
        told.iter().filter(|(about, ..)| about == name).map(|(_, reason, _)| *reason).collect()
    }

    pub fn messages(&self, reason: &str) -> Vec<String> {
        let told = lock(&self.told.0);
        told.iter()
            .filter(|(_, found, _)| *found == reason)
            .map(|(.., text)| text.clone())
            .collect()
    }

    /// Changing commands that reached CloudStack.
    pub fn changes(&self) -> Vec<&'static str> {
        self.cloud.with(|simulator| {
            let changing = simulator.calls().iter().filter(|call| call.mutates);
            changing.map(|call| call.command).collect()
        })
    }

    /// How often a command was sent.
    pub fn sent(&self, command: &str) -> usize {
        self.cloud.sent(command)
    }

    /// The address that a Service publishes.
    pub fn published(&self, key: &ServiceKey) -> Option<String> {
        self.cluster.service(key)?.ingress.first()?.ip.clone()
    }
}

fn cluster_id() -> ClusterId {
    ClusterId::parse("prod").expect("a cluster id")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
