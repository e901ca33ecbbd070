//! A state that another controller left, read from `fixtures/adoption`: the recorded answers of a
//! real CloudStack behind the real client, the recorded objects in a cluster in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccm_cloudstack::{
    Client, Credentials, Options, Transport, TransportError, WireRequest, WireResponse,
};
use ccm_core::exec::execution::Outcome;
use ccm_core::ids::{ClusterId, ServiceKey};
use ccm_core::model::Learned;
use ccm_core::model::policy::Policy;
use ccm_core::parse::raw::RawService;
use ccm_core::plan::check::check;
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::plan::{Plan, Planned};
use ccm_core::render::document::Document;
use ccm_kubernetes::manifests::{Assume, read_text};
use ccm_kubernetes::memory::MemoryCluster;
use cloudstack_ccm::driver::{self, SharedLanes, Silent, World};
use cloudstack_ccm::ports::InMemory;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::lab::{VirtualRuntime, block_on, fixture};
use crate::schema;

/// Instant of the first look: after the last recording.
const NOW: &str = "2026-12-01T21:30:00Z";

/// Answers list commands from a recording. What would change something it refuses.
#[derive(Clone, Debug)]
struct Recording {
    tape: Arc<Mutex<Tape>>,
}

#[derive(Clone, Debug)]
struct Tape {
    answers: Arc<Map<String, Value>>,
    /// Bodies by request: most questions are asked again and again.
    bodies: BTreeMap<String, Arc<str>>,
    denied: BTreeSet<&'static str>,
}

impl Recording {
    fn new(tape: Tape) -> Self {
        Self { tape: Arc::new(Mutex::new(tape)) }
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tape {
    fn body(&mut self, request: &WireRequest) -> (u16, String) {
        let command = request.param("command").unwrap_or_default();
        let root = format!("{}response", command.to_lowercase());
        let question = ["command", "id", "aclid", "ipaddress", "state", "page", "pagesize"];
        let question = question.map(|name| request.param(name).unwrap_or_default()).join(" ");
        if self.denied.contains(command) {
            let text = "The given command does not exist or it is not available for user";
            return (432, json!({ root: { "errorcode": 432, "errortext": text } }).to_string());
        }
        if let Some(body) = self.bodies.get(&question) {
            return (200, body.to_string());
        }
        match self.answer(command, request) {
            Ok(answer) => {
                let body = json!({ root: answer }).to_string();
                self.bodies.insert(question, body.as_str().into());
                (200, body)
            }
            Err(text) => {
                (431, json!({ root: { "errorcode": 431, "errortext": text } }).to_string())
            }
        }
    }

    fn answer(&self, command: &str, request: &WireRequest) -> Result<Value, String> {
        let Some(answer) = self.answers.get(command) else {
            // What was not recorded is not there: the server answers an empty list with `{}`.
            let list = command.starts_with("list");
            return list.then(|| json!({})).ok_or(format!("{command} was not recorded"));
        };
        if command == "listLoadBalancerRuleInstances" {
            let rule = request.param("id").unwrap_or_default();
            return answer.get(rule).cloned().ok_or(format!("no rule {rule} was recorded"));
        }
        Ok(paged(selected(answer.clone(), request), request))
    }
}

/// Of addresses asked for by text, and of those in a state, only these.
fn selected(mut answer: Value, request: &WireRequest) -> Value {
    for (param, field) in [("ipaddress", "ipaddress"), ("state", "state"), ("aclid", "aclid")] {
        let Some(wanted) = request.param(param) else { continue };
        if let Some(rows) = rows(&mut answer) {
            rows.retain(|row| row[field] == wanted);
            let count = rows.len();
            answer["count"] = json!(count);
        }
    }
    answer
}

fn paged(mut answer: Value, request: &WireRequest) -> Value {
    let number = |name| request.param(name).and_then(|text| text.parse::<usize>().ok());
    if let (Some(page), Some(size), Some(rows)) =
        (number("page"), number("pagesize"), rows(&mut answer))
    {
        *rows = rows.drain(..).skip((page - 1) * size).take(size).collect();
    }
    answer
}

fn rows(answer: &mut Value) -> Option<&mut Vec<Value>> {
    answer.as_object_mut()?.values_mut().find_map(Value::as_array_mut)
}

impl Transport for Recording {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        let (status, body) = self.tape().body(&request);
        let content_type = Some("application/json".to_owned());
        Ok(WireResponse { status, content_type, body })
    }
}

/// See the module.
pub struct Recorded {
    client: Client<Recording, VirtualRuntime>,
    recording: Recording,
    /// Kubernetes.
    pub cluster: InMemory,
    /// How it is done here.
    pub policy: Policy,
    now: Timestamp,
}

impl Recorded {
    /// Loads a folder of `fixtures/adoption`.
    pub fn load(state: &str) -> Self {
        let folder = fixture("adoption").join(state);
        let answers = answers(state);
        let mut cluster = MemoryCluster::default();
        for service in read(&folder, "services.json", "Service").services {
            cluster.create(service).expect("a new Service");
        }
        for node in read(&folder, "nodes.json", "Node").nodes {
            cluster.set_node(node);
        }
        let (bodies, denied) = (BTreeMap::new(), BTreeSet::new());
        let tape = Tape { answers: Arc::new(answers), bodies, denied };
        Self::new(tape, cluster, Policy::new(ClusterId::parse("prod").expect("a cluster id")))
    }

    fn new(tape: Tape, cluster: MemoryCluster, policy: Policy) -> Self {
        let recording = Recording::new(tape);
        let now: Timestamp = NOW.parse().expect("an instant");
        let credentials = Credentials::new("recorded-api-key", "recorded-secret-key");
        let runtime = VirtualRuntime::new(now);
        let client = Client::new(recording.clone(), runtime, credentials, Options::default());
        let cluster = InMemory::new(cluster, policy.cluster_id.clone());
        Self { client, recording, cluster, policy, now }
    }

    /// The same state once more, to go another way from here.
    #[must_use]
    pub fn branch(&self) -> Self {
        let cluster = self.cluster.with(|cluster| cluster.clone());
        Self::new(self.recording.tape().clone(), cluster, self.policy.clone())
    }

    /// Changes what CloudStack answers to a list command, row by row.
    pub fn edit_rows(&self, command: &str, edit: impl FnMut(&mut Value)) {
        self.edit_answer(command, |rows| rows.iter_mut().for_each(edit));
    }

    /// Takes rows out of what CloudStack answers to a list command.
    pub fn retain_rows(&self, command: &str, keep: impl FnMut(&Value) -> bool) {
        self.edit_answer(command, |rows| rows.retain(keep));
    }

    /// Takes the permission for a command.
    pub fn deny(&self, command: &'static str) {
        self.recording.tape().denied.insert(command);
    }

    fn edit_answer(&self, command: &str, edit: impl FnOnce(&mut Vec<Value>)) {
        let mut tape = self.recording.tape();
        tape.bodies.clear();
        let answer = Arc::make_mut(&mut tape.answers).get_mut(command);
        let answer = answer.expect("a recorded command");
        let rows = rows(answer).expect("rows");
        edit(rows);
        let count = rows.len();
        answer["count"] = json!(count);
    }

    /// All Services of type LoadBalancer, by name.
    pub fn services(&self) -> Vec<ServiceKey> {
        let is_ours = |raw: &&RawService| raw.service_type.as_deref() == Some("LoadBalancer");
        self.cluster.with(|cluster| {
            let services = cluster.services().filter(is_ours);
            services.map(|raw| ServiceKey::new(raw.namespace.as_str(), raw.name.as_str())).collect()
        })
    }

    /// The Service of a name in namespace `default`.
    pub fn service(&self, name: &str) -> RawService {
        let key = ServiceKey::new("default", name);
        self.cluster.with(|cluster| cluster.service(&key).cloned()).expect("the Service")
    }

    /// Changes a Service as a person would.
    pub fn edit(&self, name: &str, edit: impl FnOnce(&mut RawService)) {
        let key = ServiceKey::new("default", name);
        self.cluster.with(|cluster| cluster.edit(&key, edit)).expect("a Service to edit");
    }

    /// Deletes a Service.
    pub fn delete(&self, name: &str) {
        let key = ServiceKey::new("default", name);
        self.cluster.with(|cluster| cluster.delete(&key)).expect("a Service to delete");
    }

    /// Plans a Service, and checks the laws of order on the plan.
    pub fn plan(&self, key: &ServiceKey) -> (Planned, Document) {
        let (mut planned, document) = self.plan_some(std::slice::from_ref(key), Depth::Quick);
        (planned.remove(0), document)
    }

    /// Plans Services into one document.
    pub fn plan_some(&self, keys: &[ServiceKey], depth: Depth) -> (Vec<Planned>, Document) {
        let read =
            driver::read(&self.client, &self.cluster, &self.policy, Learned::default(), depth);
        let World { desired, observed } = block_on(read).expect("a world that can be read");
        let planner = Planner::new(&desired, &observed, &self.policy, self.now);
        let plans: Vec<Planned> =
            keys.iter().map(|key| planner.plan(key).expect("a plan")).collect();
        for Planned { plan, report: _ } in &plans {
            let service = desired.services.get(&plan.service).expect("the Service");
            let breaches = check(plan, service, &observed, &self.policy);
            let breaches: Vec<String> = breaches.iter().map(ToString::to_string).collect();
            assert!(breaches.is_empty(), "{}\n{plan:#?}", breaches.join("\n"));
        }
        let document = Document::new(&planner, &plans, "test");
        schema::check(&document);
        (plans, document)
    }

    /// Carries out a plan that writes to Kubernetes only.
    pub fn write(&self, plan: &Plan) -> Outcome {
        assert!(!plan.touches_cloud(), "a recording takes no changes: {plan:#?}");
        let lanes = SharedLanes::default();
        block_on(driver::execute(&self.client, &self.cluster, plan, &lanes, &Silent))
            .expect("nothing else runs")
    }
}

/// What a state's CloudStack answered to list commands, by command.
pub fn answers(state: &str) -> Map<String, Value> {
    match json_of(&fixture("adoption").join(state).join("cloudstack.json")) {
        Value::Object(answers) => answers,
        other => panic!("{state}: {other}"),
    }
}

/// The Kubernetes objects in a file of a state, as recorded but for its `kind`, which they don't
/// bear in a list.
pub fn objects(state: &str, file: &str, kind: &str) -> Vec<Value> {
    items(&fixture("adoption").join(state), file, kind)
}

fn json_of(path: &Path) -> Value {
    let shown = path.display();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{shown}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{shown}: {error}"))
}

fn items(folder: &Path, file: &str, kind: &str) -> Vec<Value> {
    let Value::Array(mut items) = json_of(&folder.join(file)) else { panic!("{file} is no list") };
    for item in &mut items {
        item["apiVersion"] = json!("v1");
        item["kind"] = json!(kind);
    }
    items
}

/// The items of a list, as the reader of manifests takes them.
fn read(folder: &Path, file: &str, kind: &str) -> ccm_kubernetes::manifests::Manifests {
    let items = items(folder, file, kind);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let path = folder.join(file);
    read_text(&path, &list.to_string(), Assume::Service).expect("manifests that can be read")
}
