//! Kubernetes, with a watch.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::ids::{NodeUid, ServiceKey};
use ccm_core::model::node::NodeAddress;
use ccm_core::node::metadata::NodePatch;
use ccm_core::node::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
use ccm_core::parse::ParseContext;
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::plan::action::ResolvedPatch;
use ccm_core::trigger::Triggers;
use ccm_kubernetes::live::nodes::TaintChange;
use ccm_kubernetes::memory::MemoryCluster;
use cloudstack_ccm::controller::ports::{Look, NodeWrites, Watch};
use cloudstack_ccm::ports::{Cluster, InMemory, Objects};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::{Store, store::Writer};
use kube::runtime::watcher;
use tokio::sync::{mpsc, watch};

use super::{cluster_id, lock};

/// See the module.
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
    before_deletion: Option<RawNode>,
}

struct WatchState {
    known: BTreeMap<ServiceKey, (RawService, u64)>,
    version: u64,
    writer: Writer<Service>,
    triggers: Triggers,
    patches: usize,
}

/// What a queue listens to.
pub struct Watched {
    pub store: Store<Service>,
    pub touched: mpsc::UnboundedReceiver<ServiceKey>,
}

impl PausedCluster {
    /// An empty one.
    pub fn new() -> (Self, Watched) {
        let (store, mut writer) = kube::runtime::reflector::store();
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let (touch, touched) = mpsc::unbounded_channel();
        let watch = WatchState {
            known: BTreeMap::new(),
            version: 0,
            writer,
            triggers: triggers(),
            patches: 0,
        };
        let cluster = Self {
            inner: InMemory::new(MemoryCluster::default(), cluster_id()),
            watch: Mutex::new(watch),
            touched: touch,
            nodes: watch::channel(()).0,
            node_writes: Mutex::default(),
        };
        (cluster, Watched { store, touched })
    }

    /// A process starts: it has seen nothing, and hears of all that there is.
    pub fn start(&self, watched: &mut Watched) {
        while watched.touched.try_recv().is_ok() {}
        let mut watch = lock(&self.watch);
        watch.triggers = triggers();
        for key in watch.known.keys() {
            let _ = self.touched.send(key.clone());
        }
    }

    /// Hears whenever a Node may have changed.
    pub fn nodes(&self) -> watch::Receiver<()> {
        self.nodes.subscribe()
    }

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

    /// A person edits a Service.
    pub fn edit(&self, key: &ServiceKey, edit: impl FnOnce(&mut RawService)) {
        self.with(|cluster| cluster.edit(key, edit)).expect("a Service");
    }

    /// A person deletes a Service.
    pub fn delete(&self, key: &ServiceKey) {
        self.with(|cluster| cluster.delete(key)).expect("a Service");
    }

    /// A Node goes.
    pub fn remove_node(&self, name: &str) {
        self.with(|cluster| cluster.remove_node(name));
    }

    /// Writes to Services.
    pub fn patches(&self) -> usize {
        lock(&self.watch).patches
    }

    /// The API server refuses writes to Nodes, or takes them again.
    pub fn refuse_node_writes(&self, refused: bool) {
        lock(&self.node_writes).refused = refused;
    }

    /// Somebody puts a Node in place of the one of its name, just before that one's deletion arrives.
    pub fn replace_before_deletion(&self, node: RawNode) {
        lock(&self.node_writes).before_deletion = Some(node);
    }

    /// Writes to Nodes that were taken, in order.
    pub fn node_writes(&self) -> Vec<&'static str> {
        lock(&self.node_writes).done.clone()
    }

    fn take_node_write(&self, write: &'static str) -> Result<(), CallError> {
        let mut writes = lock(&self.node_writes);
        if writes.refused {
            return Err(refused(write, 403, Fault::Permission));
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

/// What the API server says to a write that it does not take.
fn refused(write: &str, code: u16, fault: Fault) -> CallError {
    CallError {
        command: write.to_owned(),
        code: Some(code),
        fault,
        effect: Effect::No,
        retry_after: None,
        message: "refused".to_owned(),
    }
}

fn triggers() -> Triggers {
    Triggers::new(ParseContext { cluster_id: cluster_id() })
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
        let objects = self.inner.read().await?;
        Ok(objects.recalled(&lock(&self.watch).triggers))
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
        let replacement = lock(&self.node_writes).before_deletion.take();
        if let Some(replacement) = replacement {
            self.with(|cluster| cluster.set_node(replacement));
        }
        if self.node(node).and_then(|raw| raw.uid).as_deref() != Some(uid.as_str()) {
            return Err(refused("delete", 409, Fault::Transient));
        }
        self.take_node_write("delete")?;
        self.with(|cluster| cluster.remove_node(node));
        Ok(())
    }
}
