//! The Node lifecycle controller (`cloud-node-lifecycle`): Nodes whose machine is stopped are
//! tainted, those whose machine is gone are deleted. Whether one is gone is the core's word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloudstack::Runtime;
use ccm_core::event::Occasion;
use ccm_core::event::announced::Announced;
use ccm_core::exec::error::CallError;
use ccm_core::ids::VirtualMachineId;
use ccm_core::model::node::{Node, ProviderId};
use ccm_core::node::agenda::Pace;
use ccm_core::node::lifecycle::{
    Answer, LifecyclePolicy, NodeVerdict, NodeWatch, Round, questions,
};
use ccm_core::observe::VirtualMachine;
use ccm_core::observe::machines::is_alive;
use ccm_kubernetes::live::nodes::TaintChange;
use tracing::{Instrument as _, Span, debug, debug_span, info, warn};

use super::ports::{Fence, Inventory, NodeWrites, Tell};
use super::{node_reference, nodes_by_name, record_outcome, sync_span};
use crate::metrics::Outcome;
use crate::ports::Cluster;
use crate::serve::{AtWork, Heart};

/// See the module.
pub struct LifecycleController<C, K, R> {
    /// CloudStack.
    pub cloud: C,
    /// Kubernetes.
    pub cluster: K,
    /// Time.
    pub runtime: R,
    /// `--node-monitor-period`.
    pub period: Duration,
    /// When a Node may be deleted.
    pub policy: LifecyclePolicy,
    /// Hears of what happens.
    pub teller: Arc<dyn Tell>,
    /// Says whether this process may change anything.
    pub fence: Arc<dyn Fence>,
    /// Beats while there is work.
    pub heart: Heart,
}

/// What is remembered from round to round.
#[derive(Default)]
struct Memory {
    watch: NodeWatch,
    pace: Pace,
    announced: Announced<String>,
}

impl<C: Inventory, K: Cluster + NodeWrites, R: Runtime> LifecycleController<C, K, R> {
    /// Works for ever.
    pub async fn run(&self) {
        let mut memory = Memory::default();
        loop {
            self.look_around(&mut memory).await;
            tokio::time::sleep(self.period).await;
        }
    }

    async fn look_around(&self, memory: &mut Memory) {
        let work = self.heart.work();
        let nodes = nodes_by_name(&self.cluster).await;
        let round = self.ask(&nodes, &mut memory.pace, &work).await;
        let now = self.runtime.now();
        let verdicts = memory.watch.judge(&nodes, &round, &self.policy, now);
        for (name, verdict) in verdicts {
            let Some(node) = nodes.get(&name).filter(|node| is_settled_by(node, &round)) else {
                continue;
            };
            self.tell_held(node, &verdict, &mut memory.announced);
            if let Err(error) = self.act(node, &verdict).await {
                warn!(node = name, %error, "could not be written");
            }
            work.beat();
        }
    }

    /// Asks for the machines of Nodes that are not ready, those whose turn it is.
    async fn ask(&self, nodes: &BTreeMap<String, Node>, pace: &mut Pace, work: &AtWork) -> Round {
        let due = pace.due(&questions(nodes.values()), self.runtime.now());
        if due.is_empty() {
            return Round::default();
        }
        let span = debug_span!("machines", due = due.len());
        self.ask_for(due, pace, work).instrument(span).await
    }

    async fn ask_for(
        &self,
        due: BTreeSet<VirtualMachineId>,
        pace: &mut Pace,
        work: &AtWork,
    ) -> Round {
        let mut answers: BTreeMap<VirtualMachineId, Answer> = BTreeMap::new();
        for id in due {
            let answer = self.cloud.machine(&id).await;
            work.beat();
            pace.handle(&id, &answer, self.runtime.now());
            answers.insert(id, answer);
        }
        if !answers.values().any(Answer::seems_gone) {
            return Round { answers, ..Round::default() };
        }
        // What the same credentials see in a list.
        let Ok(machines) = self.cloud.machines().await else {
            return Round { answers, ..Round::default() };
        };
        let found = answers.values().any(|answer| matches!(answer, Answer::Found(_)));
        let scope_proven = found || !machines.is_empty();
        Round { answers, scope_proven, listed: alive(&machines) }
    }

    fn tell_held(&self, node: &Node, verdict: &NodeVerdict, announced: &mut Announced<String>) {
        let held = (*verdict == NodeVerdict::TooMany).then(|| verdict.event(&node.name)).flatten();
        let standing = held.into_iter().collect();
        for event in announced.handle(node.name.clone(), standing, false, self.runtime.now()) {
            self.teller.tell(&node_reference(node), &event);
        }
    }

    async fn act(&self, node: &Node, verdict: &NodeVerdict) -> Result<(), CallError> {
        if !self.fence.may_change() {
            return Ok(());
        }
        let span = match verdict {
            NodeVerdict::ShutDown | NodeVerdict::Return | NodeVerdict::Delete(_) => {
                sync_span!(self.runtime.fresh_uuid(), node = node.name)
            }
            NodeVerdict::Unconfirmed | NodeVerdict::TooMany | NodeVerdict::Unknown(_) => {
                Span::none()
            }
        };
        let written = self.write(node, verdict).instrument(span.clone()).await;
        let failed = |error: &CallError| Outcome::Failed(error.fault);
        record_outcome(&span, written.as_ref().map_or_else(failed, |()| Outcome::Done));
        written
    }

    async fn write(&self, node: &Node, verdict: &NodeVerdict) -> Result<(), CallError> {
        match verdict {
            NodeVerdict::ShutDown => {
                info!("its machine is stopped: tainted");
                self.cluster.taint(&node.name, TaintChange::ShutDown).await
            }
            NodeVerdict::Return => {
                info!("ready again: shutdown taint removed");
                self.cluster.taint(&node.name, TaintChange::Return).await
            }
            NodeVerdict::Delete(uid) => {
                info!("its machine is gone: deleted");
                if let Some(event) = verdict.event(&node.name) {
                    self.teller.tell(&node_reference(node), &event);
                }
                let deleted = self.cluster.delete_node(&node.name, uid).await;
                if let Err(error) = &deleted {
                    let (node_name, error) = (node.name.clone(), error.to_string());
                    let failed = Occasion::DeletingNodeFailed { node: node_name, error };
                    self.teller.tell(&node_reference(node), &failed.event());
                }
                deleted
            }
            NodeVerdict::Unconfirmed | NodeVerdict::TooMany | NodeVerdict::Unknown(_) => {
                debug!(node = node.name, ?verdict, "left alone");
                Ok(())
            }
        }
    }
}

fn alive(machines: &[VirtualMachine]) -> BTreeSet<VirtualMachineId> {
    let alive = machines.iter().filter(|machine| is_alive(&machine.state));
    alive.map(|machine| machine.id.clone()).collect()
}

/// Whether this round says anything about a Node: one that is ready, or that was asked for.
fn is_settled_by(node: &Node, round: &Round) -> bool {
    match &node.provider_id {
        ProviderId::CloudStack(id) => node.ready || round.answers.contains_key(id),
        ProviderId::None | ProviderId::Foreign(_) => node.ready,
    }
}
