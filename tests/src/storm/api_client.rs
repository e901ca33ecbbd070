//! The way from a process to its API server: the real client, whose requests take time, are refused
//! or get lost; and a watch that lags, breaks and lists again.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use ccm_core::ids::ServiceKey;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::client::Body;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tower_service::Service as TowerService;

use super::api_server::{ApiServer, Change, Kind, Place, Refusal};
use super::clock::Dice;
use super::script::KubeTrouble;
use super::watcher::Watcher;
use crate::lab::lock;

/// What goes wrong between all processes of a cluster and their API server, for now.
#[derive(Clone, Default)]
pub struct Troubles(Arc<Mutex<Vec<KubeTrouble>>>);

impl Troubles {
    /// From now on.
    pub fn begin(&self, trouble: KubeTrouble) {
        lock(&self.0).push(trouble);
    }

    /// Once less.
    pub fn end(&self, trouble: KubeTrouble) {
        let mut all = lock(&self.0);
        if let Some(at) = all.iter().position(|found| *found == trouble) {
            all.remove(at);
        }
    }

    fn any(&self, trouble: KubeTrouble) -> bool {
        lock(&self.0).contains(&trouble)
    }

    /// How a write fares.
    fn of_write(&self, dice: &Dice) -> Option<KubeTrouble> {
        let all = lock(&self.0).clone();
        let writes = all.into_iter().filter(|trouble| match trouble {
            KubeTrouble::Refused(_) | KubeTrouble::WriteLost | KubeTrouble::AnswerLost => true,
            KubeTrouble::WatchLags | KubeTrouble::WatchBroken => false,
        });
        writes.into_iter().find(|_| dice.hits(50))
    }
}

/// Requests to the API server.
#[derive(Clone)]
pub struct ApiClient {
    /// The server.
    pub server: Arc<ApiServer>,
    /// Who looks at what is asked and done.
    pub watcher: Arc<Watcher>,
    /// The number of the cluster.
    pub cluster: usize,
    /// What goes wrong.
    pub troubles: Troubles,
    /// How long things take.
    pub dice: Dice,
}

impl TowerService<Request<Body>> for ApiClient {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { this.exchange(request).await })
    }
}

impl ApiClient {
    async fn exchange(&self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.expect("a body in memory");
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        self.pause().await;
        let writes = parts.method != Method::GET;
        let trouble = if writes { self.troubles.of_write(&self.dice) } else { None };
        if let Some(trouble) = trouble {
            self.watcher.note_kubernetes(trouble);
        }
        let answer = match trouble {
            Some(KubeTrouble::Refused(code)) => Err(Refusal::new(code, "refused")),
            Some(KubeTrouble::WriteLost) => return Err(lost()),
            _ => self.handle(&parts.method, parts.uri.path(), &body),
        };
        if writes {
            let answer = answer.as_ref().map(|object| object["metadata"].to_string());
            let path = parts.uri.path();
            self.watcher
                .log(|| format!("k{} {path} {body} {trouble:?} -> {answer:?}", self.cluster));
        }
        self.pause().await;
        if trouble == Some(KubeTrouble::AnswerLost) {
            return Err(lost());
        }
        Ok(response(answer))
    }

    async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(self.dice.between(1, 20))).await;
    }

    fn handle(&self, method: &Method, path: &str, body: &Value) -> Result<Value, Refusal> {
        let parts: Vec<&str> = path.trim_start_matches("/api/v1/").split('/').collect();
        let (place, of_status) = match parts.as_slice() {
            ["namespaces", namespace, "services", name, "status"] => {
                (Place::service(namespace, name), true)
            }
            ["nodes", name, "status"] => (Place::node(name), true),
            ["nodes", name] => (Place::node(name), false),
            _ => panic!("no controller of ours asks for {method} {path}"),
        };
        match *method {
            Method::GET => self
                .server
                .get(&place)
                .ok_or_else(|| Refusal::new(404, format!("{:?} not found", place.name))),
            Method::PATCH => self.patch(&place, body, of_status),
            Method::DELETE => {
                let uid = body["preconditions"]["uid"].as_str().unwrap_or_default();
                let gone = self.server.delete_node(&place.name, uid)?;
                self.watcher.node_deleted(self.cluster, &gone);
                Ok(gone)
            }
            _ => panic!("no controller of ours asks for {method} {path}"),
        }
    }

    fn patch(&self, place: &Place, body: &Value, of_status: bool) -> Result<Value, Refusal> {
        let before = self.server.get(place);
        let after = self.server.patch(place, body, of_status)?;
        if let Some(before) = before.filter(|_| place.kind == Kind::Service) {
            self.watcher.service_written(self.cluster, &before, &after);
        }
        Ok(after)
    }
}

fn lost() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "the connection was reset")
}

fn response(answer: Result<Value, Refusal>) -> Response<Body> {
    let (code, body) = match answer {
        Ok(object) => (200, object),
        Err(Refusal { code, message }) => {
            let reason = StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason());
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": message, "reason": reason.unwrap_or_default(), "code": code,
            });
            (code, status)
        }
    };
    let body = Body::from(serde_json::to_vec(&body).expect("JSON"));
    Response::builder().status(code).body(body).expect("a response")
}

/// What a process has heard of its cluster.
pub struct Informer {
    /// The server.
    pub server: Arc<ApiServer>,
    /// What goes wrong.
    pub troubles: Troubles,
    /// How long things take.
    pub dice: Dice,
    /// Services as they were heard of.
    pub services: Writer<Service>,
    /// Nodes as they were heard of.
    pub nodes: Writer<Node>,
    /// Hears of Services that may have changed.
    pub touched: mpsc::UnboundedSender<ServiceKey>,
    /// Hears whenever a Node may have changed.
    pub node_changes: watch::Sender<()>,
}

impl Informer {
    /// Tells of everything from one change on.
    pub async fn run(mut self, mut heard: usize) {
        let mut changed = self.server.subscribe();
        changed.mark_changed();
        loop {
            changed.changed().await.expect("a server");
            let lag = if self.troubles.any(KubeTrouble::WatchLags) { 20_000 } else { 200 };
            tokio::time::sleep(Duration::from_millis(self.dice.between(1, lag))).await;
            if self.troubles.any(KubeTrouble::WatchBroken) {
                while self.troubles.any(KubeTrouble::WatchBroken) {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                let missed = self.server.changes_since(heard);
                heard = self.list(&missed);
                continue;
            }
            let news = self.server.changes_since(heard);
            heard += news.len();
            for change in &news {
                self.hear(change);
            }
        }
    }

    /// Lists everything, and tells of what is there and of what went unheard; gives how many changes
    /// that covers.
    pub fn list(&mut self, missed: &[Change]) -> usize {
        let services = self.server.list(Kind::Service);
        relist(&mut self.services, services.iter());
        relist(&mut self.nodes, self.server.list(Kind::Node).iter());
        let gone = missed.iter().filter(|change| change.gone && change.place.kind == Kind::Service);
        for object in gone.map(|change| &change.object).chain(&services) {
            let _ = self.touched.send(key(object));
        }
        self.node_changes.send_replace(());
        self.server.changes()
    }

    fn hear(&mut self, change: &Change) {
        match change.place.kind {
            Kind::Service => {
                self.services.apply_watcher_event(&event(change));
                let _ = self.touched.send(key(&change.object));
            }
            Kind::Node => {
                self.nodes.apply_watcher_event(&event(change));
                self.node_changes.send_replace(());
            }
        }
    }
}

fn event<K: DeserializeOwned>(change: &Change) -> Event<K> {
    let object = object(&change.object);
    if change.gone { Event::Delete(object) } else { Event::Apply(object) }
}

fn object<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).expect("an object of its kind")
}

fn key(object: &Value) -> ServiceKey {
    let text = |field| object["metadata"][field].as_str().expect("a name").to_owned();
    ServiceKey::new(text("namespace"), text("name"))
}

fn relist<'a, K>(writer: &mut Writer<K>, objects: impl Iterator<Item = &'a Value>)
where
    K: kube::runtime::reflector::Lookup + Clone + DeserializeOwned + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    writer.apply_watcher_event(&Event::Init);
    objects.for_each(|found| writer.apply_watcher_event(&Event::InitApply(object(found))));
    writer.apply_watcher_event(&Event::InitDone);
}
