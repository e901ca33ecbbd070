//! A Kubernetes API server in memory, as far as controllers of this kind can tell: it keeps Services
//! and Nodes as JSON, takes merge patches, and remembers every change for those who watch.
//!
//! - Every write gives an object a larger `resourceVersion`; a patch that names an older one, or
//!   another `uid`, is refused with 409.
//! - A Service in deletion goes with its last finalizer, and takes no new one.
//! - Only a Service of type LoadBalancer has a load balancer status.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ccm_core::parse::raw::{RawNode, RawService};
use ccm_kubernetes::convert;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::lab::lock;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// In a namespace.
    Service,
    /// In none.
    Node,
}

/// Where an object is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for a Node.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Place {
    /// A Service.
    pub fn service(namespace: &str, name: &str) -> Self {
        Self { kind: Kind::Service, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// A Node.
    pub fn node(name: &str) -> Self {
        Self { kind: Kind::Node, namespace: String::new(), name: name.to_owned() }
    }
}

/// A change of an object: as it is afterwards, or as it was when it went.
#[derive(Clone, Debug)]
pub struct Change {
    /// The object.
    pub object: Value,
    /// Where it is kept.
    pub place: Place,
    /// Whether it went.
    pub gone: bool,
}

/// What is refused, in the words of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// The message.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// See the module.
pub struct ApiServer {
    state: Mutex<State>,
    changed: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Place, Value>,
    version: u64,
    log: Vec<Change>,
}

impl Default for ApiServer {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: watch::channel(0).0 }
    }
}

impl ApiServer {
    /// Tells how many changes there were, whenever there is one more.
    pub fn subscribe(&self) -> watch::Receiver<usize> {
        self.changed.subscribe()
    }

    /// How many changes there were so far.
    pub fn changes(&self) -> usize {
        lock(&self.state).log.len()
    }

    /// The changes from one on.
    pub fn changes_since(&self, from: usize) -> Vec<Change> {
        lock(&self.state).log[from..].to_vec()
    }

    /// All objects of a kind, as they are now.
    pub fn list(&self, kind: Kind) -> Vec<Value> {
        let state = lock(&self.state);
        let of_kind = state.objects.iter().filter(|(place, _)| place.kind == kind);
        of_kind.map(|(_, object)| object.clone()).collect()
    }

    /// All Services, as the core reads them.
    pub fn services(&self) -> Vec<RawService> {
        self.list(Kind::Service).into_iter().map(|object| raw_service(&object)).collect()
    }

    /// All Nodes, as the core reads them.
    pub fn nodes(&self) -> Vec<RawNode> {
        let node = |object| serde_json::from_value::<Node>(object).expect("a Node");
        self.list(Kind::Node).into_iter().map(|object| convert::node(&node(object))).collect()
    }

    /// One object.
    pub fn get(&self, place: &Place) -> Option<Value> {
        lock(&self.state).objects.get(place).cloned()
    }

    /// Makes an object, unless there is one in its place.
    pub fn create(&self, place: &Place, mut object: Value, now: Timestamp) {
        let mut state = lock(&self.state);
        if state.objects.contains_key(place) {
            return;
        }
        object["metadata"]["creationTimestamp"] = json!(seconds(now));
        state.put(place, object);
        self.tell(&state);
    }

    /// Changes an object as somebody with every right would; nothing is checked.
    pub fn edit(&self, place: &Place, change: impl FnOnce(&mut Value)) {
        let mut state = lock(&self.state);
        let Some(mut object) = state.objects.get(place).cloned() else { return };
        change(&mut object);
        state.put(place, object);
        self.tell(&state);
    }

    /// Deletes an object: a Service that has a finalizer is in deletion from now on.
    pub fn delete(&self, place: &Place, now: Timestamp) {
        let mut state = lock(&self.state);
        let Some(mut object) = state.objects.get(place).cloned() else { return };
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = json!(seconds(now));
        }
        state.put(place, object);
        self.tell(&state);
    }

    /// Takes an object out, whatever holds it.
    pub fn erase(&self, place: &Place) {
        let mut state = lock(&self.state);
        state.take(place);
        self.tell(&state);
    }

    /// Deletes a Node, if it has that uid.
    ///
    /// # Errors
    /// 404 or 409, as an API server.
    pub fn delete_node(&self, name: &str, uid: &str) -> Result<Value, Refusal> {
        let place = Place::node(name);
        let found = self.get(&place).ok_or_else(|| not_found(&place))?;
        if found["metadata"]["uid"] != uid {
            return Err(Refusal::new(409, "the UID in the precondition does not match"));
        }
        self.erase(&place);
        Ok(found)
    }

    /// Takes a merge patch, of an object or of its status: the latter changes metadata and status,
    /// the former metadata and spec.
    ///
    /// # Errors
    /// 404, 409 or 422, as an API server.
    pub fn patch(&self, place: &Place, patch: &Value, of_status: bool) -> Result<Value, Refusal> {
        let mut state = lock(&self.state);
        let before = state.objects.get(place).ok_or_else(|| not_found(place))?.clone();
        for precondition in ["uid", "resourceVersion"] {
            let asked = &patch["metadata"][precondition];
            if !asked.is_null() && *asked != before["metadata"][precondition] {
                let text = format!("the object has another {precondition}: it has been modified");
                return Err(Refusal::new(409, text));
            }
        }
        let mut after = before.clone();
        for part in ["metadata", if of_status { "status" } else { "spec" }] {
            if let Some(part_patch) = patch.get(part) {
                merge(&mut after[part], part_patch);
            }
        }
        if place.kind == Kind::Service {
            check_service(&before, &mut after)?;
        }
        if after != before {
            state.put(place, after.clone());
            self.tell(&state);
            after = state.objects.get(place).cloned().unwrap_or(after);
        }
        Ok(after)
    }

    fn tell(&self, state: &State) {
        self.changed.send_replace(state.log.len());
    }
}

impl State {
    fn put(&mut self, place: &Place, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(place.clone(), object.clone());
        let metadata = &object["metadata"];
        let held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if !metadata["deletionTimestamp"].is_null() && !held {
            self.take(place);
        } else {
            self.log.push(Change { object, place: place.clone(), gone: false });
        }
    }

    fn take(&mut self, place: &Place) {
        if let Some(object) = self.objects.remove(place) {
            self.version += 1;
            self.log.push(Change { object, place: place.clone(), gone: true });
        }
    }
}

/// A Service as the core reads it.
pub fn raw_service(object: &Value) -> RawService {
    let service: Service = serde_json::from_value(object.clone()).expect("a Service");
    convert::service(&service)
}

/// A Service as an API server keeps it.
pub fn service_object(raw: &RawService) -> Value {
    let ports = raw.ports.iter().map(|port| {
        json!({
            "name": port.name, "protocol": port.protocol, "port": port.port,
            "nodePort": port.node_port,
        })
    });
    let ingress = raw
        .ingress
        .iter()
        .map(|entry| json!({"ip": entry.ip, "hostname": entry.hostname, "ipMode": entry.ip_mode}));
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": raw.namespace, "name": raw.name, "uid": raw.uid,
            "annotations": raw.annotations, "finalizers": raw.finalizers,
            "creationTimestamp": raw.creation_timestamp.map(seconds),
        },
        "spec": {
            "type": raw.service_type, "ports": ports.collect::<Value>(),
            "loadBalancerClass": raw.load_balancer_class,
            "loadBalancerIP": raw.load_balancer_ip,
            "loadBalancerSourceRanges": raw.source_ranges,
            "sessionAffinity": raw.session_affinity,
        },
        "status": {"loadBalancer": {"ingress": ingress.collect::<Value>()}},
    })
}

/// A time as Kubernetes writes it.
pub fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).expect("a time");
    whole.to_string()
}

fn not_found(place: &Place) -> Refusal {
    Refusal::new(404, format!("{:?} {:?} not found", place.kind, place.name))
}

fn check_service(before: &Value, after: &mut Value) -> Result<(), Refusal> {
    let finalizers =
        |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let (old, new) = (finalizers(before), finalizers(after));
    let deleting = !after["metadata"]["deletionTimestamp"].is_null();
    if deleting && new.iter().any(|name| !old.contains(name)) {
        return Err(Refusal::new(422, "no new finalizers can be added while it is in deletion"));
    }
    let balanced = after["spec"]["type"] == "LoadBalancer";
    let entries = after.pointer_mut("/status/loadBalancer/ingress").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if !balanced {
            return Err(Refusal::new(422, "an ingress needs type LoadBalancer"));
        }
        if !entry["ip"].is_null() && entry["ipMode"].is_null() {
            entry["ipMode"] = json!("VIP");
        }
    }
    Ok(())
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("an object");
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}
