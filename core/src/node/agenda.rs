//! When Nodes are looked at: new ones at once, all of them now and then, and how often CloudStack is
//! asked for the machine of one that is not ready.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::exec::backoff::Backoff;
use crate::exec::error::Fault;
use crate::ids::VirtualMachineId;
use crate::model::node::Node;
use crate::node::lifecycle::Answer;
use crate::time::later;

/// How long the watch may take to show what was written on a Node: until then it seems to be new.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// When Nodes get their metadata.
#[derive(Clone, Debug)]
pub struct NodeAgenda {
    every: Duration,
    refresh: Timestamp,
    waiting: BTreeMap<String, (Backoff, Timestamp)>,
}

/// Which Nodes are due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// All of them.
    All,
    /// These, which are not initialised.
    New(BTreeSet<String>),
    /// None before this time, unless one comes.
    NoneUntil(Timestamp),
}

impl NodeAgenda {
    /// Everything is due at `now`, and `every` so often from then on.
    pub fn new(every: Duration, now: Timestamp) -> Self {
        Self { every, refresh: now, waiting: BTreeMap::new() }
    }

    /// Which are due.
    pub fn due(&mut self, nodes: &BTreeMap<String, Node>, now: Timestamp) -> Due {
        self.waiting.retain(|name, _| nodes.contains_key(name));
        if self.refresh <= now {
            return Due::All;
        }
        let new = nodes.values().filter(|node| node.taints.uninitialized);
        let is_due = |node: &&Node| self.waiting.get(&node.name).is_none_or(|(_, at)| *at <= now);
        let due: BTreeSet<String> = new.filter(is_due).map(|node| node.name.clone()).collect();
        if due.is_empty() {
            let waits =
                |name: &String| nodes.get(name).is_some_and(|node| node.taints.uninitialized);
            let retries = self.waiting.iter().filter(|(name, _)| waits(name));
            let retries = retries.map(|(_, (_, at))| *at);
            Due::NoneUntil(retries.chain([self.refresh]).min().unwrap_or(self.refresh))
        } else {
            Due::New(due)
        }
    }

    /// All were looked at.
    pub fn handle_refresh(&mut self, now: Timestamp) {
        self.refresh = later(now, self.every);
    }

    /// A new Node is initialised, or could not be. `jitter` as in [`Backoff::handle_failure`].
    pub fn handle_new(&mut self, node: &str, failure: Option<Fault>, now: Timestamp, jitter: f64) {
        let (backoff, at) =
            self.waiting.entry(node.to_owned()).or_insert((Backoff::default(), now));
        match failure {
            None => {
                backoff.handle_success();
                *at = later(now, SEEN_WITHIN);
            }
            Some(fault) => *at = later(now, backoff.handle_failure(fault, jitter)),
        }
    }
}

/// How often CloudStack is asked for the machine of a Node that is not ready: in each round as long
/// as the answers change or say that it is gone, and less and less often while they stay the same.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    asked: BTreeMap<VirtualMachineId, Asked>,
}

#[derive(Clone, Debug)]
struct Asked {
    answer: Answer,
    next: Timestamp,
    wait: Duration,
}

impl Pace {
    const SHORTEST: Duration = Duration::from_secs(4);
    const LONGEST: Duration = Duration::from_mins(1);

    /// Those of the questions that are asked now. The others are forgotten if nobody has them.
    pub fn due(
        &mut self,
        questions: &BTreeSet<VirtualMachineId>,
        now: Timestamp,
    ) -> BTreeSet<VirtualMachineId> {
        self.asked.retain(|id, _| questions.contains(id));
        let due = |id: &&VirtualMachineId| self.asked.get(id).is_none_or(|asked| asked.next <= now);
        questions.iter().filter(due).cloned().collect()
    }

    /// Takes an answer.
    pub fn handle(&mut self, id: &VirtualMachineId, answer: &Answer, now: Timestamp) {
        let same = self.asked.get(id).filter(|asked| asked.answer == *answer);
        let wait = match (same, answer) {
            (Some(_), Answer::Absent) | (None, _) => Self::SHORTEST,
            (Some(asked), Answer::Found(_) | Answer::Failed(_)) => {
                asked.wait.saturating_mul(2).min(Self::LONGEST)
            }
        };
        let asked = Asked { answer: answer.clone(), next: later(now, wait), wait };
        self.asked.insert(id.clone(), asked);
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;
    use crate::parse::node;
    use crate::parse::raw::RawNode;

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn nodes(taint: Option<&str>) -> BTreeMap<String, Node> {
        let raw = RawNode {
            name: "node-1".into(),
            taints: taint.into_iter().map(Into::into).collect(),
            ..RawNode::default()
        };
        [("node-1".to_owned(), node(&raw))].into()
    }

    fn machine() -> VirtualMachineId {
        VirtualMachineId::parse("cdaf2677-9bae-4306-85f3-f52877d106bb").unwrap()
    }

    fn agenda() -> NodeAgenda {
        let mut agenda = NodeAgenda::new(Duration::from_mins(5), start());
        agenda.handle_refresh(start());
        agenda
    }

    #[test]
    fn all_are_due_at_first_and_after_each_period() {
        let mut agenda = NodeAgenda::new(Duration::from_mins(5), start());
        assert_eq!(agenda.due(&nodes(None), start()), Due::All);
        agenda.handle_refresh(start());
        let next = start() + 5.minutes();
        assert_eq!(agenda.due(&nodes(None), start()), Due::NoneUntil(next));
        assert_eq!(agenda.due(&nodes(None), next), Due::All);
    }

    #[test]
    fn a_new_node_is_due_at_once_and_after_a_failure_with_back_off() {
        let tainted = nodes(Some(crate::node::UNINITIALIZED_TAINT));
        let mut agenda = agenda();
        let due = Due::New(["node-1".to_owned()].into());
        assert_eq!(agenda.due(&tainted, start()), due);
        agenda.handle_new("node-1", Some(Fault::Transient), start(), 0.0);
        let retry = start() + 5.seconds();
        assert_eq!(agenda.due(&tainted, start()), Due::NoneUntil(retry));
        assert_eq!(agenda.due(&tainted, retry), due);
        agenda.handle_new("node-1", Some(Fault::Transient), retry, 0.0);
        assert_eq!(agenda.due(&tainted, retry), Due::NoneUntil(retry + 10.seconds()));
        agenda.handle_new("node-1", None, retry, 0.0);
        let seen = retry + 5.seconds();
        assert_eq!(agenda.due(&tainted, retry), Due::NoneUntil(seen), "not written twice");
        assert_eq!(agenda.due(&tainted, seen), due);
    }

    #[test]
    fn a_machine_that_stays_as_it_is_is_asked_for_less_and_less_often() {
        let (mut pace, id) = (Pace::default(), machine());
        let questions: BTreeSet<_> = [id.clone()].into();
        let (mut now, mut asked) = (start(), 0);
        while now < start() + 10.minutes() {
            if !pace.due(&questions, now).is_empty() {
                asked += 1;
                pace.handle(&id, &Answer::Found("Running".into()), now);
            }
            now += 5.seconds();
        }
        assert!((10..=15).contains(&asked), "{asked} questions in ten minutes");
    }

    #[test]
    fn a_machine_that_is_gone_or_changes_is_asked_for_in_each_round() {
        let (mut pace, id) = (Pace::default(), machine());
        let questions: BTreeSet<_> = [id.clone()].into();
        let running = Answer::Found("Running".into());
        for (seconds, answer) in [(0, &running), (5, &running), (15, &Answer::Absent)] {
            let now = start() + i64::from(seconds).seconds();
            assert_eq!(pace.due(&questions, now), questions, "{seconds}");
            pace.handle(&id, answer, now);
        }
        for seconds in [20, 25, 30] {
            let now = start() + i64::from(seconds).seconds();
            assert_eq!(pace.due(&questions, now), questions, "{seconds}");
            pace.handle(&id, &Answer::Absent, now);
        }
        assert!(pace.due(&BTreeSet::new(), start()).is_empty());
    }
}
