//! The Node controller (`cloud-node`): new Nodes are initialised, all of them kept right.
//!
//! One reading of the virtual machines serves all Nodes that are due. What is written is the core's
//! word; here it is written: addresses first, then the rest in one patch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloudstack::Runtime;
use ccm_core::event::Occasion;
use ccm_core::event::announced::Announced;
use ccm_core::exec::error::{CallError, Fault};
use ccm_core::model::node::Node;
use ccm_core::model::policy::NodeReadiness;
use ccm_core::node::agenda::{Due, NodeAgenda};
use ccm_core::node::label::Spellings;
use ccm_core::node::metadata::{self, Metadata, Surroundings};
use ccm_core::node::note::NodeNote;
use ccm_core::observe::VirtualMachine;
use ccm_core::observe::machines::{Machines, Match, VirtualMachines};
use futures_util::{Stream, StreamExt as _, stream};
use tracing::{Instrument as _, debug, debug_span, info, warn};

use super::ports::{Fence, Inventory, NodeWrites, Tell};
use super::{between, jitter, node_reference, nodes_by_name, record_outcome, sync_span};
use crate::metrics::{Lookup, Metrics, Outcome};
use crate::ports::Cluster;
use crate::serve::Heart;

/// How the Node controller works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--node-status-update-frequency`.
    pub every: Duration,
    /// `--concurrent-node-syncs`: new Nodes that are written on at once.
    pub new_at_once: usize,
    /// `--concurrent-node-status-updates`: as many of all, when they are refreshed.
    pub refreshed_at_once: usize,
    /// `region` of the cloud-config.
    pub region: Option<String>,
}

/// The Nodes that are due.
struct Work<'a> {
    nodes: &'a BTreeMap<String, Node>,
    due: BTreeSet<String>,
    at_once: usize,
}

/// See the module.
pub struct NodeController<C, K, R> {
    /// CloudStack.
    pub cloud: C,
    /// Kubernetes.
    pub cluster: K,
    /// Time.
    pub runtime: R,
    /// How it works.
    pub settings: Settings,
    /// Hears of what happens.
    pub teller: Arc<dyn Tell>,
    /// Says whether this process may change anything.
    pub fence: Arc<dyn Fence>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Beats while there is work.
    pub heart: Heart,
}

impl<C: Inventory, K: Cluster + NodeWrites, R: Runtime> NodeController<C, K, R> {
    /// Works as long as `changed` has items: one whenever a Node may have changed.
    pub async fn run(&self, changed: impl Stream<Item = ()>) {
        tokio::pin!(changed);
        let mut agenda = NodeAgenda::new(self.settings.every, self.runtime.now());
        let mut announced = Announced::new();
        loop {
            let nodes = nodes_by_name(&self.cluster).await;
            let now = self.runtime.now();
            let (due, at_once) = match agenda.due(&nodes, now) {
                Due::All => {
                    agenda.handle_refresh(now);
                    (nodes.keys().cloned().collect(), self.settings.refreshed_at_once)
                }
                Due::New(names) => (names, self.settings.new_at_once),
                Due::NoneUntil(at) => {
                    tokio::select! {
                        biased;
                        item = changed.next() => if item.is_none() { return },
                        () = tokio::time::sleep(between(now, at)) => {}
                    }
                    continue;
                }
            };
            let due = Work { nodes: &nodes, due, at_once };
            let round = debug_span!("nodes", due = due.due.len());
            self.look_after(&due, &mut agenda, &mut announced).instrument(round).await;
        }
    }

    async fn look_after(
        &self,
        work: &Work<'_>,
        agenda: &mut NodeAgenda,
        announced: &mut Announced<String>,
    ) {
        let Work { nodes, due, at_once } = work;
        let at_work = self.heart.work();
        let queue = self.metrics.queue("node");
        let machines = match self.cloud.machines().await {
            Ok(machines) => machines,
            Err(error) => {
                warn!(%error, nodes = due.len(), "virtual machines could not be listed");
                for name in due {
                    self.note(agenda, nodes, name, Some(error.fault));
                }
                return;
            }
        };
        let planned = self.plan(work, machines, announced);
        for _ in &planned {
            queue.added();
        }
        let came = self.runtime.now();
        let writes = planned.into_iter().map(async |(node, metadata)| {
            let began = self.runtime.now();
            queue.taken(between(came, began));
            let span = sync_span!(self.runtime.fresh_uuid(), node = node.name);
            let failure = self.write(node, &metadata).instrument(span.clone()).await;
            at_work.beat();
            let took = between(began, self.runtime.now());
            record_outcome(&span, self.count_sync(failure, metadata.waits, took));
            (node, failure.or(metadata.waits.then_some(Fault::Transient)))
        });
        let mut writes = stream::iter(writes).buffer_unordered(*at_once);
        while let Some((node, failure)) = writes.next().await {
            self.note(agenda, nodes, &node.name, failure);
        }
    }

    /// What is to be written on the Nodes that are due, and counts and tells how they stand.
    fn plan<'a>(
        &self,
        Work { nodes, due, at_once: _ }: &Work<'a>,
        machines: Vec<VirtualMachine>,
        announced: &mut Announced<String>,
    ) -> Vec<(&'a Node, Metadata)> {
        let machines: VirtualMachines =
            machines.into_iter().map(|machine| (machine.id.clone(), machine)).collect();
        let matched = Machines::new(nodes, &machines, NodeReadiness::Ignore);
        let spellings = Spellings::of(nodes.values());
        let region = self.settings.region.as_deref();
        let surroundings = Surroundings { spellings: &spellings, region };
        let mut planned = Vec::new();
        for node in due.iter().filter_map(|name| nodes.get(name)) {
            let Some(found) = matched.matches.get(&node.name) else { continue };
            self.count_lookup(node, found);
            let machine = match found {
                Match::Machine(id) | Match::Replaced { machine: id, .. } => machines.get(id),
                Match::Ambiguous(_) | Match::Missing | Match::Foreign => None,
            };
            let metadata = metadata::plan(node, found, machine, &surroundings);
            self.tell_standing(node, &metadata, announced);
            planned.push((node, metadata));
        }
        planned
    }

    fn count_sync(&self, failure: Option<Fault>, waits: bool, took: Duration) -> Outcome {
        let queue = self.metrics.queue("node");
        queue.worked(took);
        if failure.is_some() || waits {
            queue.retried();
        }
        let outcome = match failure {
            Some(fault) => Outcome::Failed(fault),
            None if waits => Outcome::Waiting,
            None => Outcome::Done,
        };
        self.metrics.reconciled("node", outcome, took);
        outcome
    }

    fn count_lookup(&self, node: &Node, found: &Match) {
        let result = match found {
            Match::Machine(_) if node.has_provider_id => Lookup::Id,
            Match::Machine(_) | Match::Replaced { .. } => Lookup::Name,
            Match::Ambiguous(_) => Lookup::Ambiguous,
            Match::Missing => Lookup::Missing,
            Match::Foreign => return,
        };
        self.metrics.node_lookup(result);
    }

    fn count_initialised(&self, node: &Node) {
        if let Some(created) = node.created {
            self.metrics.node_initialised(between(created, self.runtime.now()));
        }
    }

    /// Whether a new Node is initialised now, for the agenda.
    fn note(
        &self,
        agenda: &mut NodeAgenda,
        nodes: &BTreeMap<String, Node>,
        name: &str,
        failure: Option<Fault>,
    ) {
        if nodes.get(name).is_some_and(|node| node.taints.uninitialized) {
            let jitter = jitter(&self.runtime.fresh_uuid());
            agenda.handle_new(name, failure, self.runtime.now(), jitter);
        }
    }

    fn tell_standing(&self, node: &Node, metadata: &Metadata, announced: &mut Announced<String>) {
        let standing = metadata.notes.iter().map(NodeNote::event).collect();
        let settled = !node.taints.uninitialized;
        let now = self.runtime.now();
        for event in announced.handle(node.name.clone(), standing, settled, now) {
            self.teller.tell(&node_reference(node), &event);
        }
    }

    /// Writes what is planned; gives the fault of what failed.
    async fn write(&self, node: &Node, metadata: &Metadata) -> Option<Fault> {
        let Metadata { addresses, patch, notes: _, waits: _ } = metadata;
        if addresses.is_none() && patch.is_empty() {
            return None;
        }
        match self.write_in_order(node, metadata).await {
            Ok(true) => {
                info!(initialised = patch.initialise, "written");
                if patch.initialise {
                    self.count_initialised(node);
                    let event = Occasion::Synced {}.event();
                    self.teller.tell(&node_reference(node), &event);
                }
                None
            }
            Ok(false) => {
                debug!("not written: this process does not lead any more");
                None
            }
            Err(error) => {
                warn!(%error, "could not be written");
                Some(error.fault)
            }
        }
    }

    async fn write_in_order(&self, node: &Node, metadata: &Metadata) -> Result<bool, CallError> {
        let Metadata { addresses, patch, notes: _, waits: _ } = metadata;
        if let Some(addresses) = addresses {
            if !self.fence.may_change() {
                return Ok(false);
            }
            self.cluster.set_addresses(&node.name, addresses).await?;
        }
        if !patch.is_empty() {
            if !self.fence.may_change() {
                return Ok(false);
            }
            self.cluster.patch_node(&node.name, patch).await?;
        }
        Ok(true)
    }
}
