//! Everything around the controllers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccm_cloudstack::{
    Client, Credentials, Options, Runtime, Transport, TransportError, TransportErrorKind,
    WireRequest, WireResponse,
};
use ccm_core::controllers::Controller;
use ccm_core::debounce::Windows;
use ccm_core::event::Event;
use ccm_core::event::correlate::ObjectRef;
use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::ids::{ClusterId, NodeUid, ServiceKey};
use ccm_core::model::node::NodeAddress;
use ccm_core::model::policy::Policy;
use ccm_core::node::metadata::NodePatch;
use ccm_core::node::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
use ccm_core::parse::ParseContext;
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::plan::action::ResolvedPatch;
use ccm_core::trigger::Triggers;
use ccm_kubernetes::live::nodes::TaintChange;
use ccm_kubernetes::memory::MemoryCluster;
use ccm_simulator::world::World;
use ccm_simulator::{Request, Simulator};
use ccm_tests::lab::{fixture, node_of, uid_of, web};
use cloudstack_ccm::controller::plans::LatestPlans;
use cloudstack_ccm::controller::ports::{Fence, Look, NodeWrites, Tell, Watch};
use cloudstack_ccm::controller::services::{Queue, Schedule, ServiceController, Settings};
use cloudstack_ccm::metrics::Metrics;
use cloudstack_ccm::ports::{Cluster, InMemory, Objects};
use cloudstack_ccm::serve::{Health, Heart, Probe};
use futures_util::stream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::{Store, store::Writer};
use kube::runtime::watcher;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// As the process has it: a job's ten minutes, and as many more.
const PATIENCE: Duration = Duration::from_mins(20);

/// Time that passes when nobody has anything to do.
#[derive(Clone, Debug)]
pub struct PausedClock {
    start: Timestamp,
    started: Instant,
    ids: Arc<AtomicU64>,
}

impl Runtime for PausedClock {
    fn now(&self) -> Timestamp {
        self.start.saturating_add(self.started.elapsed()).expect("a time")
    }

    async fn sleep_until(&self, at: Timestamp) {
        let wait = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(wait).await;
    }

    fn fresh_uuid(&self) -> String {
        let id = self.ids.fetch_add(1, Ordering::SeqCst);
        format!("10000000-0000-4000-8000-{id:012x}")
    }
}

/// CloudStack.
#[derive(Clone)]
pub struct Cloud {
    simulator: Arc<Mutex<Simulator>>,
    clock: PausedClock,
    sent: Arc<Mutex<Vec<String>>>,
    down: Arc<AtomicBool>,
}

impl Cloud {
    pub fn with<T>(&self, work: impl FnOnce(&mut Simulator) -> T) -> T {
        let mut simulator = lock(&self.simulator);
        simulator.advance(self.clock.now());
        work(&mut simulator)
    }

    /// A person acts in the account of the controller; the job is waited for.
    pub async fn by_hand(&self, command: &str, params: &[(&str, &str)]) {
        let now = self.clock.now();
        let answer = self.with(|simulator| simulator.call("prod", command, params, now));
        assert_eq!(answer.status, 200, "{command}: {}", answer.body);
        tokio::time::sleep(Duration::from_secs(20)).await;
    }

    /// Nothing answers, or everything again.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// The ids of what a list shows.
    pub fn ids(&self, command: &str, rows: &str) -> Vec<String> {
        let now = self.clock.now();
        let params = [("listall", "true")];
        let answer = self.with(|simulator| simulator.call("prod", command, &params, now));
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let root = body.as_object().and_then(|root| root.values().next()).expect("a root");
        let rows = root[rows].as_array().cloned().unwrap_or_default();
        rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    }
}

impl Transport for Cloud {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        lock(&self.sent).push(request.param("command").unwrap_or_default().to_owned());
        let refused = |text: &str| TransportError {
            kind: TransportErrorKind::Connect,
            sent: false,
            text: text.to_owned(),
        };
        if self.down.load(Ordering::SeqCst) {
            return Err(refused("connection refused"));
        }
        let request = Request { method: ccm_simulator::Method::Post, params: request.params };
        let now = self.clock.now();
        let response = self.with(|simulator| simulator.receive(&request, now));
        let response = response.map_err(|_| refused("no answer"))?;
        Ok(WireResponse { status: response.status, content_type: None, body: response.body })
    }
}

/// Kubernetes, with a watch.
pub struct PausedCluster {
    inner: InMemory,
    watch: Mutex<WatchState>,
    touched: mpsc::UnboundedSender<ServiceKey>,
    nodes: watch::Sender<()>,
    node_writes: Mutex<NodeWritesState>,
}

/// Writes to Nodes.
#[derive(Default)]
struct NodeWritesState {
    done: Vec<&'static str>,
    refused: bool,
}

struct WatchState {
    known: BTreeMap<ServiceKey, (RawService, u64)>,
    version: u64,
    writer: Writer<Service>,
    triggers: Triggers,
    patches: usize,
}

impl PausedCluster {
    /// Changes something as a person or a kubelet would.
    pub fn with<T>(&self, work: impl FnOnce(&mut MemoryCluster) -> T) -> T {
        let result = self.inner.with(work);
        self.publish();
        result
    }

    pub fn service(&self, key: &ServiceKey) -> Option<RawService> {
        self.inner.with(|cluster| cluster.service(key).cloned())
    }

    pub fn node(&self, name: &str) -> Option<RawNode> {
        self.inner.with(|cluster| cluster.nodes().find(|node| node.name == name).cloned())
    }

    /// The API server refuses writes to Nodes, or takes them again.
    pub fn refuse_node_writes(&self, refused: bool) {
        lock(&self.node_writes).refused = refused;
    }

    /// Writes to Nodes that were taken, in order.
    pub fn node_writes(&self) -> Vec<&'static str> {
        lock(&self.node_writes).done.clone()
    }

    fn take_node_write(&self, write: &'static str) -> Result<(), CallError> {
        let mut writes = lock(&self.node_writes);
        if writes.refused {
            return Err(CallError {
                command: write.to_owned(),
                code: Some(403),
                fault: Fault::Permission,
                effect: Effect::No,
                retry_after: None,
                message: "forbidden".to_owned(),
            });
        }
        writes.done.push(write);
        Ok(())
    }

    fn change_node(
        &self,
        write: &'static str,
        name: &str,
        change: impl FnOnce(&mut RawNode),
    ) -> Result<(), CallError> {
        self.take_node_write(write)?;
        let mut node = self.node(name).expect("a Node of that name");
        change(&mut node);
        self.with(|cluster| cluster.set_node(node));
        Ok(())
    }

    /// Tells the watch of what changed.
    fn publish(&self) {
        let now = self.inner.with(|cluster| {
            let services = cluster.services().map(|raw| (key_of(raw), raw.clone()));
            services.collect::<BTreeMap<_, _>>()
        });
        let mut watch = lock(&self.watch);
        let WatchState { known, version, writer, .. } = &mut *watch;
        for key in known.keys().filter(|key| !now.contains_key(*key)) {
            writer.apply_watcher_event(&watcher::Event::Delete(object(key)));
            let _ = self.touched.send(key.clone());
        }
        known.retain(|key, _| now.contains_key(key));
        for (key, raw) in now {
            if known.get(&key).is_none_or(|(seen, _)| *seen != raw) {
                *version += 1;
                writer.apply_watcher_event(&watcher::Event::Apply(object(&key)));
                known.insert(key.clone(), (raw, *version));
                let _ = self.touched.send(key);
            }
        }
        self.nodes.send_replace(());
    }
}

fn key_of(raw: &RawService) -> ServiceKey {
    ServiceKey::new(raw.namespace.clone(), raw.name.clone())
}

/// As much of a Service as the queue looks at.
fn object(key: &ServiceKey) -> Service {
    let (namespace, name) = (Some(key.namespace.clone()), Some(key.name.clone()));
    Service {
        metadata: ObjectMeta { namespace, name, ..ObjectMeta::default() },
        ..Service::default()
    }
}

impl Cluster for PausedCluster {
    async fn read(&self) -> Result<Objects, CallError> {
        self.inner.read().await
    }

    async fn patch(&self, patch: &ResolvedPatch) -> Result<(), CallError> {
        let after = self.inner.apply(patch)?;
        self.publish();
        let mut watch = lock(&self.watch);
        watch.patches += 1;
        let version = watch.version.to_string();
        watch.triggers.handle_written(&patch.service, &after, &version);
        Ok(())
    }
}

impl Watch for PausedCluster {
    fn look(&self, key: &ServiceKey, now: Timestamp) -> Look {
        let mut watch = lock(&self.watch);
        let WatchState { known, triggers, .. } = &mut *watch;
        match known.get(key) {
            Some((raw, version)) => {
                Look::Seen(triggers.handle_seen(raw, &version.to_string(), now))
            }
            None => {
                triggers.handle_gone(key);
                Look::Gone
            }
        }
    }

    fn vanished(&self) -> Vec<RawService> {
        lock(&self.watch).triggers.take_vanished()
    }
}

impl NodeWrites for PausedCluster {
    async fn set_addresses(&self, node: &str, addresses: &[NodeAddress]) -> Result<(), CallError> {
        let texts = addresses.iter().map(|a| (a.kind.as_str().to_owned(), a.address.clone()));
        self.change_node("addresses", node, |raw| raw.addresses = texts.collect())
    }

    async fn patch_node(&self, node: &str, patch: &NodePatch) -> Result<(), CallError> {
        self.change_node("node", node, |raw| {
            raw.provider_id = patch.provider_id.clone().or(raw.provider_id.take());
            raw.labels.extend(patch.labels.clone());
            if patch.initialise {
                raw.taints.retain(|key| key != UNINITIALIZED_TAINT);
            }
        })
    }

    async fn taint(&self, node: &str, change: TaintChange) -> Result<(), CallError> {
        self.change_node("taint", node, |raw| {
            raw.taints.retain(|key| key != SHUTDOWN_TAINT);
            if change == TaintChange::ShutDown {
                raw.taints.push(SHUTDOWN_TAINT.to_owned());
            }
        })
    }

    async fn delete_node(&self, node: &str, uid: &NodeUid) -> Result<(), CallError> {
        self.take_node_write("delete")?;
        assert_eq!(self.node(node).and_then(|raw| raw.uid).as_deref(), Some(uid.as_str()));
        self.with(|cluster| cluster.remove_node(node));
        Ok(())
    }
}

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
    world: World,
    store: Store<Service>,
    touched: Mutex<Option<mpsc::UnboundedReceiver<ServiceKey>>>,
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
        let clock =
            PausedClock { start: world.started, started: Instant::now(), ids: Arc::default() };
        let simulator = Simulator::new(&world).expect("a world that makes sense");
        let cloud = Cloud {
            simulator: Arc::new(Mutex::new(simulator)),
            clock: clock.clone(),
            sent: Arc::default(),
            down: Arc::default(),
        };
        let cluster_id = ClusterId::parse("prod").expect("a cluster id");
        let (store, mut writer) = kube::runtime::reflector::store();
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let (touch, touched) = mpsc::unbounded_channel();
        let context = ParseContext { cluster_id: cluster_id.clone() };
        let watch = WatchState {
            known: BTreeMap::new(),
            version: 0,
            writer,
            triggers: Triggers::new(context),
            patches: 0,
        };
        let cluster = PausedCluster {
            inner: InMemory::new(MemoryCluster::default(), cluster_id),
            watch: Mutex::new(watch),
            touched: touch,
            nodes: watch::channel(()).0,
            node_writes: Mutex::default(),
        };
        let stage = Self {
            clock,
            cloud,
            cluster: Arc::new(cluster),
            told: Arc::default(),
            plans: Arc::default(),
            metrics: Arc::new(Metrics::new("test")),
            health: Health::new(),
            world,
            store,
            touched: Mutex::new(Some(touched)),
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
        {
            // A process that starts has seen nothing.
            let mut watch = lock(&self.cluster.watch);
            let context =
                ParseContext { cluster_id: ClusterId::parse("prod").expect("a cluster id") };
            watch.triggers = Triggers::new(context);
        }
        let controller = ServiceController::new(
            (cloud, Arc::clone(&self.cluster), self.clock.clone()),
            Policy::new(ClusterId::parse("prod").expect("a cluster id")),
            Settings::default(),
            self.teller(),
            Self::fence(),
            Arc::clone(&self.metrics),
            self.heart(Controller::Service),
        );
        let controller =
            if dry_run { controller.dry_run(Arc::clone(&self.plans)) } else { controller };
        let mut touched = lock(&self.touched).take().expect("one controller at a time");
        while touched.try_recv().is_ok() {}
        let listed = lock(&self.cluster.watch).known.keys().cloned().collect::<Vec<_>>();
        for key in listed {
            let _ = self.cluster.touched.send(key);
        }
        let nodes = self.cluster.nodes.subscribe();
        let queue = Queue {
            store: self.store.clone(),
            touched: stream::poll_fn(|context| touched.poll_recv(context)),
            nodes: stream::unfold(nodes, async |mut nodes| {
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
        *lock(&self.touched) = Some(touched);
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
        lock(&self.cloud.sent).iter().filter(|sent| *sent == command).count()
    }

    /// Writes to Services.
    pub fn patches(&self) -> usize {
        lock(&self.cluster.watch).patches
    }

    /// The address that a Service publishes.
    pub fn published(&self, key: &ServiceKey) -> Option<String> {
        self.cluster.service(key)?.ingress.first()?.ip.clone()
    }

    /// The members of a rule.
    pub fn members(&self, rule: &str) -> usize {
        let now = self.clock.now();
        let params = [("id", rule)];
        let command = "listLoadBalancerRuleInstances";
        let answer = self.cloud.with(|sim| sim.call("prod", command, &params, now));
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let root = &body["listloadbalancerruleinstancesresponse"];
        root["loadbalancerruleinstance"].as_array().map_or(0, Vec::len)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
