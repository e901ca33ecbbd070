//! Whether a Node that is not ready is shut down, or gone and to be deleted.
//!
//! Deleting a Node that lives is the worst that can happen here, so *gone* needs all of: a provider
//! id of ours; not ready; an empty answer (or 431) for that id while the same credentials see
//! something else of the scope in the same round, and no list in that round shows the machine; the
//! same again after a while; and a Node that is not brand-new. To a user a machine of another account looks exactly like one that was expunged:
//! so no more than a share of all Nodes goes in any ten minutes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::ids::{NodeUid, VirtualMachineId};
use crate::model::node::{Eligibility, Node, ProviderId};
use crate::observe::machines::is_alive;

/// When a Node may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecyclePolicy {
    /// How long after the first answer the second must say the same.
    pub confirmation: SignedDuration,
    /// How long a Node is left alone after its creation.
    pub grace: SignedDuration,
    /// At most so many of 100 Nodes, but at least one, are deleted in a window.
    pub percent: usize,
    /// The window.
    pub window: SignedDuration,
}

impl Default for LifecyclePolicy {
    fn default() -> Self {
        Self {
            confirmation: SignedDuration::from_secs(30),
            grace: SignedDuration::from_mins(5),
            percent: 10,
            window: SignedDuration::from_mins(10),
        }
    }
}

/// What CloudStack said when it was asked for one machine by id, in every scope that we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is there, in this `state`.
    Found(String),
    /// An empty list, or 431.
    Absent,
    /// No answer that says anything: an error, a short or stale list.
    Failed(String),
}

impl Answer {
    /// Whether the machine seems to be gone: then a list is to be read too.
    pub fn seems_gone(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Found(state) => !is_alive(state),
            Self::Failed(_) => false,
        }
    }
}

/// Everything that one round learned.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// By id, for the machines that were asked for.
    pub answers: BTreeMap<VirtualMachineId, Answer>,
    /// Whether the same credentials saw another machine, or the Node's network, in this round.
    pub scope_proven: bool,
    /// The machines that a list shows alive: it is read where one seems to be gone.
    pub listed: BTreeSet<VirtualMachineId>,
}

/// What is to be done about a Node, or why nothing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeVerdict {
    /// Add the shutdown taint: its machine is stopped.
    ShutDown,
    /// Remove the shutdown taint: it is ready.
    Return,
    /// Delete it, if it still has this uid.
    Delete(NodeUid),
    /// It looks gone, but not for long enough.
    Unconfirmed,
    /// It is gone, but so are too many others.
    TooMany,
    /// Whether it is gone can't be told: why.
    Unknown(String),
}

/// Memory of what was absent, and of what was deleted.
#[derive(Clone, Debug, Default)]
pub struct NodeWatch {
    absent_since: BTreeMap<NodeUid, Timestamp>,
    deletions: BTreeMap<NodeUid, Timestamp>,
}

/// The machines to ask for: those of Nodes that are not ready.
pub fn questions<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> BTreeSet<VirtualMachineId> {
    nodes.into_iter().filter(|node| !node.ready).filter_map(own_machine).cloned().collect()
}

fn own_machine(node: &Node) -> Option<&VirtualMachineId> {
    match &node.provider_id {
        ProviderId::CloudStack(id) => Some(id),
        ProviderId::None | ProviderId::Foreign(_) => None,
    }
}

impl NodeWatch {
    /// Judges all Nodes of the cluster. Nodes about which there is nothing to say are left out.
    pub fn judge(
        &mut self,
        nodes: &BTreeMap<String, Node>,
        round: &Round,
        policy: &LifecyclePolicy,
        now: Timestamp,
    ) -> BTreeMap<String, NodeVerdict> {
        let uids: BTreeSet<&NodeUid> =
            nodes.values().filter_map(|node| node.uid.as_ref()).collect();
        self.absent_since.retain(|uid, _| uids.contains(uid));
        self.deletions.retain(|_, at| now.duration_since(*at) < policy.window);
        let limit = (nodes.len() * policy.percent / 100).max(1);
        let mut verdicts = BTreeMap::new();
        for (name, node) in nodes {
            let verdict = if node.ready {
                self.forget(node);
                node.taints.shutdown.then_some(NodeVerdict::Return)
            } else {
                self.judge_unready(node, round, policy, now, limit)
            };
            verdicts.extend(verdict.map(|verdict| (name.clone(), verdict)));
        }
        verdicts
    }

    fn judge_unready(
        &mut self,
        node: &Node,
        round: &Round,
        policy: &LifecyclePolicy,
        now: Timestamp,
        limit: usize,
    ) -> Option<NodeVerdict> {
        let id = match &node.provider_id {
            ProviderId::CloudStack(id) => id,
            ProviderId::Foreign(_) => return None,
            ProviderId::None => return Some(unknown("it has no providerID")),
        };
        match round.answers.get(id) {
            None => Some(unknown("CloudStack was not asked")),
            Some(Answer::Failed(why)) => Some(unknown(why)),
            Some(Answer::Found(state)) if is_alive(state) => {
                self.forget(node);
                (state == "Stopped" && !node.taints.shutdown).then_some(NodeVerdict::ShutDown)
            }
            Some(Answer::Absent | Answer::Found(_)) if round.listed.contains(id) => {
                self.forget(node);
                Some(unknown("asked for by id it is not there, and a list shows it"))
            }
            Some(Answer::Absent | Answer::Found(_)) if !round.scope_proven => {
                Some(unknown("CloudStack showed nothing at all that we know"))
            }
            Some(Answer::Absent | Answer::Found(_)) => self.judge_absent(node, policy, now, limit),
        }
    }

    fn judge_absent(
        &mut self,
        node: &Node,
        policy: &LifecyclePolicy,
        now: Timestamp,
        limit: usize,
    ) -> Option<NodeVerdict> {
        if node.eligibility == Eligibility::Deleting {
            return None;
        }
        let (Some(uid), Some(created)) = (&node.uid, node.created) else {
            return Some(unknown("its uid or age is not known"));
        };
        let since = *self.absent_since.entry(uid.clone()).or_insert(now);
        let confirmed = now.duration_since(since) >= policy.confirmation;
        let old_enough = now.duration_since(created) >= policy.grace;
        if !(confirmed && old_enough) {
            return Some(NodeVerdict::Unconfirmed);
        }
        // One whose deletion failed, or is not seen yet, is counted once.
        if !self.deletions.contains_key(uid) {
            if self.deletions.len() >= limit {
                return Some(NodeVerdict::TooMany);
            }
            self.deletions.insert(uid.clone(), now);
        }
        Some(NodeVerdict::Delete(uid.clone()))
    }

    fn forget(&mut self, node: &Node) {
        if let Some(uid) = &node.uid {
            self.absent_since.remove(uid);
        }
    }
}

fn unknown(why: &str) -> NodeVerdict {
    NodeVerdict::Unknown(why.to_owned())
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;
    use crate::parse::node;
    use crate::parse::raw::RawNode;

    const START: &str = "2026-01-01T00:00:00Z";

    fn start() -> Timestamp {
        START.parse().unwrap()
    }

    fn after(seconds: i64) -> Timestamp {
        start() + seconds.seconds()
    }

    /// A Node that is not ready, an hour old.
    fn down(name: &str) -> RawNode {
        RawNode {
            name: name.into(),
            uid: Some(format!("uid-of-{name}")),
            provider_id: Some(format!("external-cloudstack://vm-of-{name}")),
            creation_timestamp: Some(start() - 1.hour()),
            ready: Some("Unknown".into()),
            ..RawNode::default()
        }
    }

    fn cluster(nodes: impl IntoIterator<Item = RawNode>) -> BTreeMap<String, Node> {
        nodes.into_iter().map(|raw| (raw.name.clone(), node(&raw))).collect()
    }

    fn round(nodes: &BTreeMap<String, Node>, answer: &Answer) -> Round {
        let answers = questions(nodes.values()).into_iter().map(|id| (id, answer.clone()));
        Round { answers: answers.collect(), scope_proven: true, listed: BTreeSet::new() }
    }

    fn failed(why: &str) -> Answer {
        Answer::Failed(why.to_owned())
    }

    fn found(state: &str) -> Answer {
        Answer::Found(state.to_owned())
    }

    /// The verdicts on the one Node of a cluster, round after round, 10 seconds apart.
    fn judge(raw: RawNode, answers: &[Answer]) -> Vec<Option<NodeVerdict>> {
        let nodes = cluster([raw]);
        let mut lifecycle = NodeWatch::default();
        let mut verdicts = Vec::new();
        for (at, answer) in (0_i64..).step_by(10).zip(answers) {
            let round = round(&nodes, answer);
            let policy = LifecyclePolicy::default();
            verdicts.push(lifecycle.judge(&nodes, &round, &policy, after(at)).into_values().next());
        }
        verdicts
    }

    fn deletes(verdicts: &[Option<NodeVerdict>]) -> bool {
        verdicts.iter().any(|verdict| matches!(verdict, Some(NodeVerdict::Delete(_))))
    }

    #[test]
    fn c074_a_machine_that_is_gone_takes_its_node_along_once_confirmed() {
        let verdicts = judge(down("node-3"), &vec![Answer::Absent; 4]);
        let uid = NodeUid::parse("uid-of-node-3").unwrap();
        let wait = Some(NodeVerdict::Unconfirmed);
        assert_eq!(verdicts, [wait.clone(), wait.clone(), wait, Some(NodeVerdict::Delete(uid))]);
    }

    #[test]
    fn c073_absence_that_proves_nothing_deletes_nobody() {
        let forever = |answer: Answer| vec![answer; 360];
        for answer in ["429", "timeout", "401", "432", "count 10 with 4 entries"].map(failed) {
            let verdicts = judge(down("node-1"), &forever(answer));
            assert!(
                verdicts.iter().all(|verdict| matches!(verdict, Some(NodeVerdict::Unknown(_))))
            );
        }
        // Absent now and then, and there in between.
        let blinking = [Answer::Absent, Answer::Absent, found("Running"), Answer::Absent];
        let blinking: Vec<Answer> = blinking.into_iter().cycle().take(360).collect();
        assert!(!deletes(&judge(down("node-1"), &blinking)));
        // No id of ours.
        for provider_id in [None, Some(String::new()), Some("aws:///zone/i-1".to_owned())] {
            let raw = RawNode { provider_id, ..down("node-1") };
            assert!(!deletes(&judge(raw, &forever(Answer::Absent))));
        }
    }

    #[test]
    fn c073_nothing_is_gone_where_nothing_is_seen() {
        let nodes = cluster([down("node-1")]);
        let mut lifecycle = NodeWatch::default();
        let blind = Round { scope_proven: false, ..round(&nodes, &Answer::Absent) };
        let policy = LifecyclePolicy::default();
        for at in (0..3600).step_by(5) {
            let verdicts = lifecycle.judge(&nodes, &blind, &policy, after(at));
            assert!(matches!(verdicts["node-1"], NodeVerdict::Unknown(_)));
        }
        // The blind time does not count.
        let seen = round(&nodes, &Answer::Absent);
        let verdicts = lifecycle.judge(&nodes, &seen, &policy, after(3600));
        assert_eq!(verdicts["node-1"], NodeVerdict::Unconfirmed);
    }

    /// A question by id that is answered wrongly now and then, for a machine that is stopped.
    #[test]
    fn c073_what_a_list_shows_is_not_gone() {
        let nodes = cluster([down("node-1")]);
        let mut lifecycle = NodeWatch::default();
        let policy = LifecyclePolicy::default();
        let absent = round(&nodes, &Answer::Absent);
        let listed = Round { listed: questions(nodes.values()), ..absent.clone() };
        for at in (0..3600).step_by(30) {
            let verdicts = lifecycle.judge(&nodes, &listed, &policy, after(at));
            assert!(matches!(verdicts["node-1"], NodeVerdict::Unknown(_)));
        }
        // The time in which it was listed does not count.
        let verdicts = lifecycle.judge(&nodes, &absent, &policy, after(3600));
        assert_eq!(verdicts["node-1"], NodeVerdict::Unconfirmed);
    }

    #[test]
    fn c073_not_more_than_a_share_goes_in_a_window() {
        let names: Vec<String> = (0..100).map(|number| format!("node-{number:03}")).collect();
        let raws = names.iter().map(|name| {
            let gone = name.as_str() < "node-040";
            let ready = if gone { "Unknown" } else { "True" };
            RawNode { ready: Some(ready.into()), ..down(name) }
        });
        let mut nodes = cluster(raws);
        let mut lifecycle = NodeWatch::default();
        let policy = LifecyclePolicy::default();
        let mut deleted = Vec::new();
        for at in (0..=700).step_by(5) {
            let round = round(&nodes, &Answer::Absent);
            let verdicts = lifecycle.judge(&nodes, &round, &policy, after(at));
            let held =
                verdicts.values().filter(|verdict| **verdict == NodeVerdict::TooMany).count();
            let gone: Vec<String> = verdicts
                .iter()
                .filter(|(_, verdict)| matches!(verdict, NodeVerdict::Delete(_)))
                .map(|(name, _)| name.clone())
                .collect();
            assert!(at < 30 || held + gone.len() + deleted.len() == 40, "at {at}");
            nodes.retain(|name, _| !gone.contains(name));
            deleted.extend(gone);
            let allowed = if at < 30 {
                0
            } else if at < 630 {
                10
            } else {
                19
            };
            assert_eq!(deleted.len(), allowed, "at {at}");
        }
    }

    #[test]
    fn a_deletion_that_is_not_seen_yet_is_said_again_and_counted_once() {
        let verdicts = judge(down("node-3"), &vec![Answer::Absent; 6]);
        let deletes = verdicts.iter().filter(|found| matches!(found, Some(NodeVerdict::Delete(_))));
        assert_eq!(deletes.count(), 3);
        let destroyed = judge(down("node-3"), &vec![found("Expunging"); 6]);
        assert_eq!(destroyed, verdicts, "as an administrator sees it");
    }

    #[test]
    fn a_young_node_is_left_alone() {
        let raw = RawNode { creation_timestamp: Some(start() - 1.minute()), ..down("node-1") };
        let verdicts = judge(raw, &vec![Answer::Absent; 40]);
        let first =
            verdicts.iter().position(|verdict| matches!(verdict, Some(NodeVerdict::Delete(_))));
        assert_eq!(first, Some(24), "five minutes after its creation");
    }

    #[test]
    fn c074_a_node_that_came_back_under_the_same_name_starts_anew() {
        let policy = LifecyclePolicy::default();
        let mut lifecycle = NodeWatch::default();
        let old = cluster([down("node-1")]);
        let absent = round(&old, &Answer::Absent);
        assert_eq!(
            lifecycle.judge(&old, &absent, &policy, after(0))["node-1"],
            NodeVerdict::Unconfirmed
        );
        let new = cluster([RawNode { uid: Some("another".into()), ..down("node-1") }]);
        let verdict = lifecycle.judge(&new, &absent, &policy, after(60));
        assert_eq!(verdict["node-1"], NodeVerdict::Unconfirmed);
    }

    #[test]
    fn c076_the_shutdown_taint_comes_at_stopped_only_and_goes_when_ready() {
        let taint = vec![super::super::SHUTDOWN_TAINT.to_owned()];
        for (state, tainted, expected) in [
            ("Running", false, None),
            ("Stopping", false, None),
            ("Stopped", false, Some(NodeVerdict::ShutDown)),
            ("Stopped", true, None),
            ("Starting", true, None),
            ("Running", true, None),
        ] {
            let taints = if tainted { taint.clone() } else { Vec::new() };
            let raw = RawNode { taints, ..down("node-2") };
            assert_eq!(judge(raw, &[found(state)]), [expected], "{state}, tainted: {tainted}");
        }
        let ready = RawNode { ready: Some("True".into()), taints: taint, ..down("node-2") };
        assert_eq!(judge(ready, &[found("Running")]), [Some(NodeVerdict::Return)]);
    }

    #[test]
    fn a_ready_node_is_not_even_asked_about() {
        let ready = RawNode { ready: Some("True".into()), ..down("node-1") };
        assert!(questions(cluster([ready]).values()).is_empty());
        assert_eq!(questions(cluster([down("node-1")]).values()).len(), 1);
    }
}
