//! A laboratory: the simulator behind the real client, without a network and in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use ccm_cloudstack::{
    Client, Credentials, Method, Options, Runtime, Transport, TransportError, TransportErrorKind,
    WireRequest, WireResponse,
};
use ccm_core::exec::execution::Outcome;
use ccm_core::ids::{ClusterId, ProjectId, ServiceKey};
use ccm_core::model::Learned;
use ccm_core::model::policy::Policy;
use ccm_core::parse::raw::{RawNode, RawService, RawServicePort};
use ccm_core::plan::Planned;
use ccm_core::plan::check::check;
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::plan::report::{Note, Severity};
use ccm_core::render::document::Document;
use ccm_core::render::human::{self, Colour};
use ccm_kubernetes::memory::MemoryCluster;
use ccm_simulator::world::World;
use ccm_simulator::{NoAnswer, Protocol, Request, Response, Simulator, TrafficQuery};
use cloudstack_ccm::driver::{self, Displaced, DriverError, SharedLanes, Silent};
use cloudstack_ccm::ports::InMemory;
use jiff::{Timestamp, ToSpan as _};

use crate::door::Door;
use crate::objects::Objects;
use crate::schema;
use crate::trouble::{TroubledCloud, Troubles};

/// Rounds in which anything must have converged.
const ROUNDS: usize = 12;

/// The path of a fixture.
pub fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(path)
}

/// Runs a future that never waits for the outside.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without drivers").block_on(future)
}

/// Virtual time and ids without randomness.
#[derive(Clone, Debug)]
pub struct VirtualRuntime {
    state: Arc<Mutex<(Timestamp, u64)>>,
}

impl VirtualRuntime {
    /// Starts at an instant.
    pub fn new(start: Timestamp) -> Self {
        Self { state: Arc::new(Mutex::new((start, 0))) }
    }

    /// Lets time pass.
    pub fn pass(&self, seconds: i64) {
        let mut state = lock(&self.state);
        state.0 = state.0.checked_add(seconds.seconds()).expect("time within range");
    }
}

impl Runtime for VirtualRuntime {
    fn now(&self) -> Timestamp {
        lock(&self.state).0
    }

    async fn sleep_until(&self, at: Timestamp) {
        let mut state = lock(&self.state);
        state.0 = state.0.max(at);
    }

    fn fresh_uuid(&self) -> String {
        let mut state = lock(&self.state);
        state.1 += 1;
        format!("10000000-0000-4000-8000-{:012x}", state.1)
    }
}

/// Done to the simulator before a request of a command reaches it.
type Interruption = Box<dyn FnMut(&mut Simulator, &str) + Send>;

/// A simulator that several parts of a test work with.
#[derive(Clone)]
pub struct SharedSimulator {
    simulator: Arc<Mutex<Simulator>>,
    runtime: VirtualRuntime,
    sent: Arc<Mutex<BTreeMap<String, usize>>>,
    interruption: Arc<Mutex<Option<Interruption>>>,
}

impl SharedSimulator {
    /// Works on the simulator.
    pub fn with<T>(&self, work: impl FnOnce(&mut Simulator) -> T) -> T {
        let mut simulator = lock(&self.simulator);
        simulator.advance(self.runtime.now());
        work(&mut simulator)
    }

    /// The simulator itself, for a façade.
    pub fn shared(&self) -> Arc<Mutex<Simulator>> {
        Arc::clone(&self.simulator)
    }

    /// Its clock.
    pub fn clock(&self) -> VirtualRuntime {
        self.runtime.clone()
    }

    /// Commands that were ever sent to it over the wire, refused ones too.
    pub fn sent(&self) -> BTreeSet<String> {
        lock(&self.sent).keys().cloned().collect()
    }

    /// How often a command was sent to it over the wire.
    pub fn times_sent(&self, command: &str) -> usize {
        lock(&self.sent).get(command).copied().unwrap_or_default()
    }

    /// From now on something happens to it before each request reaches it.
    pub fn interrupt(&self, work: impl FnMut(&mut Simulator, &str) + Send + 'static) {
        *lock(&self.interruption) = Some(Box::new(work));
    }
}

impl Transport for SharedSimulator {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        let command = request.param("command").unwrap_or_default();
        *lock(&self.sent).entry(command.to_owned()).or_default() += 1;
        if let Some(interrupt) = &mut *lock(&self.interruption) {
            self.with(|simulator| interrupt(simulator, command));
        }
        let request = received(request);
        answered(self.with(|simulator| simulator.receive(&request, self.runtime.now())))
    }
}

/// A request as the simulator receives it.
pub(crate) fn received(request: WireRequest) -> Request {
    let method = match request.method {
        Method::Get => ccm_simulator::Method::Get,
        Method::Post => ccm_simulator::Method::Post,
    };
    Request { method, params: request.params }
}

/// The simulator's answer as a client hears it.
pub(crate) fn answered(answer: Result<Response, NoAnswer>) -> Result<WireResponse, TransportError> {
    let Response { status, headers, body } = answer.map_err(lost)?;
    let content_type =
        headers.into_iter().find(|(name, _)| name == "Content-Type").map(|(_, value)| value);
    Ok(WireResponse { status, content_type, body })
}

/// What the real transport would say of a connection without an answer.
fn lost(reason: NoAnswer) -> TransportError {
    let (kind, sent) = match reason {
        NoAnswer::Refused => (TransportErrorKind::Connect, false),
        NoAnswer::Closed => (TransportErrorKind::Broken, true),
        NoAnswer::Silence => (TransportErrorKind::Timeout, true),
    };
    TransportError { kind, sent, text: format!("no answer from the simulator: {reason:?}") }
}

/// See the module.
pub struct Lab {
    /// CloudStack.
    pub simulator: SharedSimulator,
    /// The clock of everything.
    pub runtime: VirtualRuntime,
    /// The real client.
    pub client: Client<Door, VirtualRuntime>,
    /// Kubernetes.
    pub cluster: InMemory,
    /// How it is done here.
    pub policy: Policy,
    /// What executions learned.
    pub learned: Learned,
    /// What all executions share.
    pub lanes: Arc<SharedLanes>,
    /// What happens between the client and the rest.
    pub troubles: Troubles,
    door: Door,
    keys: (String, String),
    world: World,
}

/// A world to start from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The world of the simulator.
    pub world: World,
    /// The account that calls.
    pub account: String,
    /// The project that is configured.
    pub project: Option<String>,
    /// Names of the Nodes; each has the VM of its name and names it as provider id.
    pub nodes: Vec<String>,
    /// Whether the client reaches CloudStack over HTTP.
    pub http: bool,
}

impl Setup {
    /// The standard world of the cases: account `prod`, Nodes node-1 to node-3 in `iso-1`.
    pub fn standard() -> Self {
        static WORLD: LazyLock<World> = LazyLock::new(|| {
            World::load(&fixture("worlds/standard.yaml")).expect("the standard world")
        });
        Self {
            world: WORLD.clone(),
            account: "prod".to_owned(),
            project: None,
            nodes: ["node-1", "node-2", "node-3"].map(str::to_owned).to_vec(),
            http: false,
        }
    }

    /// Another CloudStack release.
    #[must_use]
    pub fn release(mut self, release: &str) -> Self {
        release.clone_into(&mut self.world.release);
        self
    }

    /// Other Nodes.
    #[must_use]
    pub fn nodes(mut self, names: &[&str]) -> Self {
        self.nodes = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Another account, in a project.
    #[must_use]
    pub fn project(mut self, account: &str, project: &str) -> Self {
        account.clone_into(&mut self.account);
        self.project = Some(project.to_owned());
        self
    }

    /// The client reaches CloudStack over HTTP, on the loopback device.
    #[must_use]
    pub fn over_http(mut self) -> Self {
        self.http = true;
        self
    }

    /// Starts it.
    pub fn start(self) -> Lab {
        Lab::new(self)
    }
}

impl Lab {
    fn new(setup: Setup) -> Self {
        let Setup { world, account, project, nodes, http } = setup;
        let runtime = VirtualRuntime::new(world.started);
        let simulator = Simulator::new(&world).expect("a world that makes sense");
        let simulator = SharedSimulator {
            simulator: Arc::new(Mutex::new(simulator)),
            runtime: runtime.clone(),
            sent: Arc::default(),
            interruption: Arc::default(),
        };
        let keys = world.accounts.iter().find(|found| found.name == account);
        let keys = keys.expect("an account of that name");
        let project = project.map(|name| {
            let found = world.projects.iter().find(|found| found.name == name);
            let id = found.and_then(|found| found.id.as_deref()).expect("a project with an id");
            ProjectId::parse(id).expect("a project id")
        });
        let cluster_id = ClusterId::parse("prod").expect("a cluster id");
        let keys = (keys.api_key.clone(), keys.secret_key.clone());
        let door = if http { Door::http(&simulator) } else { Door::Direct(simulator.clone()) };
        let policy = Policy { project, ..Policy::new(cluster_id.clone()) };
        let client = client(door.clone(), &runtime, &keys, &policy);
        let cluster = InMemory::new(MemoryCluster::default(), cluster_id);
        let lab = Self {
            simulator,
            runtime,
            client,
            door,
            cluster,
            policy,
            learned: Learned::default(),
            lanes: Arc::default(),
            troubles: Troubles::default(),
            keys,
            world,
        };
        for name in &nodes {
            lab.add_node(name);
        }
        lab
    }

    /// Adds the Node of a VM, as it joins.
    pub fn add_node(&self, name: &str) {
        let node = node_of(&self.world, name);
        self.cluster.with(|cluster| cluster.set_node(node));
    }

    /// Makes a Service of type LoadBalancer.
    pub fn create(&self, name: &str, edit: impl FnOnce(&mut RawService)) -> ServiceKey {
        let mut raw = web(name);
        raw.uid = Some(uid_of(name));
        raw.creation_timestamp = Some(self.runtime.now());
        edit(&mut raw);
        self.cluster.with(|cluster| cluster.create(raw)).expect("a new Service")
    }

    /// Changes a Service as a person would.
    pub fn edit(&self, key: &ServiceKey, edit: impl FnOnce(&mut RawService)) {
        self.cluster.with(|cluster| cluster.edit(key, edit)).expect("a Service to edit");
    }

    /// Deletes a Service.
    pub fn delete(&self, key: &ServiceKey) {
        self.cluster.with(|cluster| cluster.delete(key)).expect("a Service to delete");
    }

    /// The Service as it is now.
    pub fn service(&self, key: &ServiceKey) -> Option<RawService> {
        self.cluster.with(|cluster| cluster.service(key).cloned())
    }

    /// The virtual time.
    pub fn now(&self) -> Timestamp {
        self.runtime.now()
    }

    /// Reads both sides, as far as planning needs it.
    pub fn read(&self) -> driver::World {
        self.read_at(Depth::Quick)
    }

    /// Reads both sides.
    pub fn read_at(&self, depth: Depth) -> driver::World {
        self.try_read_at(depth).expect("a world that can be read")
    }

    /// Reads both sides, or fails to.
    ///
    /// # Errors
    /// If CloudStack's lists can't be read.
    pub fn try_read(&self) -> Result<driver::World, DriverError> {
        self.try_read_at(Depth::Quick)
    }

    fn try_read_at(&self, depth: Depth) -> Result<driver::World, DriverError> {
        let learned = self.learned.clone();
        let cloud = TroubledCloud { cloud: &self.client, troubles: &self.troubles };
        block_on(driver::read(&cloud, &self.cluster, &self.policy, learned, depth))
    }

    /// Plans a Service, and checks the laws of order on the plan.
    pub fn plan(&self, key: &ServiceKey) -> (Planned, Document) {
        self.plan_in(&self.read(), key)
    }

    /// As [`Lab::plan`], in a world that was read before.
    pub fn plan_in(&self, world: &driver::World, key: &ServiceKey) -> (Planned, Document) {
        let inputs = Planner::new(&world.desired, &world.observed, &self.policy, self.now());
        let planned = inputs.plan(key).expect("a plan");
        if let Some(service) = world.desired.services.get(key) {
            let breaches = check(&planned.plan, service, &world.observed, &self.policy);
            let breaches: Vec<String> = breaches.iter().map(ToString::to_string).collect();
            assert!(breaches.is_empty(), "{}\n{:#?}", breaches.join("\n"), planned.plan);
        }
        let document = Document::new(&inputs, std::slice::from_ref(&planned), "test");
        schema::check(&document);
        (planned, document)
    }

    /// The printed plan of a Service.
    pub fn print(&self, key: &ServiceKey) -> String {
        human::print(&self.plan(key).1, Colour::Never)
    }

    /// Plans and executes a Service once.
    pub fn reconcile(&mut self, key: &ServiceKey) -> (Planned, Outcome) {
        let (planned, _) = self.plan(key);
        let outcome = self.execute(&planned);
        (planned, outcome)
    }

    /// Executes a plan.
    pub fn execute(&mut self, planned: &Planned) -> Outcome {
        self.try_execute(planned).expect("nothing else works on its addresses")
    }

    /// Executes a plan.
    ///
    /// # Errors
    /// [`Displaced`] if another one is in the way.
    pub fn try_execute(&mut self, planned: &Planned) -> Result<Outcome, Displaced> {
        let cloud = TroubledCloud { cloud: &self.client, troubles: &self.troubles };
        let execution = driver::execute(&cloud, &self.cluster, &planned.plan, &self.lanes, &Silent);
        let outcome = block_on(execution)?;
        self.learned.absorb(outcome.lessons.clone(), self.runtime.now());
        Ok(outcome)
    }

    /// Reconciles until nothing is planned. Gives the plans that were executed.
    pub fn converge(&mut self, key: &ServiceKey) -> Vec<Planned> {
        let mut plans = Vec::new();
        for _ in 0..ROUNDS {
            if self.service(key).is_none() {
                return plans;
            }
            let (planned, outcome) = self.reconcile(key);
            if planned.plan.is_empty() {
                return plans;
            }
            assert!(outcome.is_success(), "{outcome:#?}\n{:#?}", planned.plan);
            plans.push(planned);
        }
        panic!("{key} did not converge in {ROUNDS} rounds: {:#?}", plans.last());
    }

    /// Reconciles once, and checks that a second plan is empty, however closely one looks.
    pub fn settle(&mut self, key: &ServiceKey) {
        let plans = self.converge(key);
        assert!(plans.len() <= 1, "{key} took {} plans: {plans:#?}", plans.len());
        if self.service(key).is_some() {
            let (planned, _) = self.plan_in(&self.read_at(Depth::Thorough), key);
            assert!(planned.plan.is_empty(), "{:#?}", planned.plan);
        }
    }

    /// Plans and executes a Service once, with every member read: a drift round.
    pub fn drift_round(&mut self, key: &ServiceKey) -> (Planned, Outcome) {
        let (planned, _) = self.plan_in(&self.read_at(Depth::Thorough), key);
        let outcome = self.execute(&planned);
        (planned, outcome)
    }

    /// Sends a command as the account of the controller, as a person would, and lets its job end.
    pub fn by_hand(&self, command: &str, params: &[(&str, &str)]) -> serde_json::Value {
        self.by_hand_as("prod", command, params)
    }

    /// As [`Lab::by_hand`], for another account.
    pub fn by_hand_as(
        &self,
        account: &str,
        command: &str,
        params: &[(&str, &str)],
    ) -> serde_json::Value {
        let now = self.runtime.now();
        let response = self.simulator.with(|sim| sim.call(account, command, params, now));
        assert_eq!(response.status, 200, "{command}: {}", response.body);
        self.runtime.pass(60);
        self.simulator.with(|_| ());
        let body: serde_json::Value = serde_json::from_str(&response.body).expect("JSON");
        let answer = body.as_object().and_then(|root| root.values().next().cloned());
        answer.expect("one root key")
    }

    /// The process dies and starts again: nothing but what was written is known.
    pub fn restart(&mut self) {
        self.learned = Learned::default();
        self.client = client(self.door.clone(), &self.runtime, &self.keys, &self.policy);
    }

    /// Reconciles as time passes, whatever fails, until nothing is planned and nothing waited for.
    /// Gives the plans that were not empty.
    pub fn recover(&mut self, key: &ServiceKey) -> Vec<Planned> {
        let mut plans = Vec::new();
        // A job of which nothing is known holds a deletion back for half a day.
        let mut pause = 120;
        for _ in 0..ROUNDS * 2 {
            if self.service(key).is_none() {
                return plans;
            }
            let (planned, outcome) = self.reconcile(key);
            let waits = |note: &Note| note.severity() == Severity::Waiting;
            let done = planned.plan.is_empty() && !planned.report.notes.iter().any(waits);
            if done {
                return plans;
            }
            if !outcome.is_success() || planned.plan.is_empty() {
                self.runtime.pass(pause);
                pause = (pause * 2).min(3600);
            }
            plans.push(planned);
        }
        panic!("{key} did not recover: {:#?}", plans.last());
    }

    /// What the accounts of the controller and of a project see in CloudStack.
    pub fn objects(&self) -> Objects {
        let now = self.runtime.now();
        self.simulator.with(|simulator| Objects::of(simulator, &["prod", "member"], now))
    }

    /// Names of the VMs that answer a connection; empty if nobody does.
    pub fn reach(&self, source: &str, address: &str, port: u16) -> BTreeSet<String> {
        let query = TrafficQuery {
            source: source.parse().expect("a source address"),
            address: address.parse().expect("a public address"),
            protocol: Protocol::Tcp,
            port,
        };
        let reach = self.simulator.with(|simulator| simulator.reach(&query));
        reach.members.into_iter().map(|member| member.name).collect()
    }

    /// Commands that changed something since the laboratory was started.
    pub fn changing_calls(&self) -> Vec<&'static str> {
        self.simulator.with(|simulator| {
            let changing = simulator.calls().iter().filter(|call| call.mutates);
            changing.map(|call| call.command).collect()
        })
    }
}

fn client(
    door: Door,
    runtime: &VirtualRuntime,
    keys: &(String, String),
    policy: &Policy,
) -> Client<Door, VirtualRuntime> {
    let options = Options { project: policy.project.clone(), ..Options::default() };
    let credentials = Credentials::new(&keys.0, &keys.1);
    Client::new(door, runtime.clone(), credentials, options)
}

/// Service `shop/<name>` of type LoadBalancer with one port, 80 to node port 30080.
pub fn web(name: &str) -> RawService {
    RawService {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        service_type: Some("LoadBalancer".to_owned()),
        ports: vec![port("http", "TCP", 80, 30080)],
        ..RawService::default()
    }
}

/// A Node that names the VM of its name.
pub fn node_of(world: &World, name: &str) -> RawNode {
    let machine = world.virtual_machines.iter().find(|machine| machine.name == name);
    let machine = machine.expect("a VM of that name");
    let id = machine.id.as_deref().expect("a VM with an id");
    let addresses = machine.nics.iter().map(|nic| nic.address.to_string());
    RawNode {
        name: name.to_owned(),
        provider_id: Some(format!("external-cloudstack://{id}")),
        addresses: addresses.map(|address| ("InternalIP".to_owned(), address)).collect(),
        ..RawNode::default()
    }
}

/// A uid that differs from others in its first characters, as real ones do: rule names hold only
/// the first 31.
pub fn uid_of(name: &str) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let (high, low) = (hash >> 32, hash & 0xffff_ffff);
    format!("{high:08x}-5b7e-4c11-9d02-0000{low:08x}")
}

/// A port of a Service.
pub fn port(name: &str, protocol: &str, port: i32, node_port: i32) -> RawServicePort {
    RawServicePort {
        name: Some(name.to_owned()),
        protocol: Some(protocol.to_owned()),
        port,
        node_port: Some(node_port),
    }
}

/// The whole key of an annotation of ours.
pub fn annotation(key: &str) -> String {
    format!("service.beta.kubernetes.io/cloudstack-load-balancer-{key}")
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
