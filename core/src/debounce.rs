//! When changes of Nodes make Services be synced: not each at once, but soon.
//!
//! What counts is what a Node means for load balancers: that it is there, that it is not excluded by
//! label, and which virtual machine it names (without a provider id, its addresses too: they tell
//! machines of one name apart). All else is no reason: heartbeats, cordons, other labels, and readiness
//! unless members are to be ready.
//! Nor are a deletion that has begun and the taint of the cluster autoscaler: connections drain
//! while the Node is still there. A sync that comes for another reason leaves such a Node out.
//!
//! The first change opens a window, which collects what follows: shorter for a Node that goes, whose
//! connections fail, than for one that comes. Whatever is pending goes along with what is due.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use crate::ids::VirtualMachineId;
use crate::model::node::{Eligibility, Node, ProviderId};
use crate::model::policy::NodeReadiness;
use crate::time::later;

/// How long changes are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// After a Node came.
    pub added: Duration,
    /// After a Node went.
    pub removed: Duration,
}

impl Default for Windows {
    /// 5 s and 1 s.
    fn default() -> Self {
        Self { added: Duration::from_secs(5), removed: Duration::from_secs(1) }
    }
}

/// Watches Nodes for changes that matter to Services.
#[derive(Clone, Debug)]
pub struct NodeChanges {
    windows: Windows,
    readiness: NodeReadiness,
    members: BTreeMap<String, Member>,
    due: Option<Timestamp>,
}

/// A Node as load balancers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    machine: Machine,
    /// Whether its readiness lets it serve.
    preferred: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Machine {
    Named(VirtualMachineId),
    Unnamed(BTreeSet<IpAddr>),
}

impl NodeChanges {
    /// Begins with the Nodes for which all Services are synced anyway.
    pub fn new(windows: Windows, readiness: NodeReadiness, nodes: &BTreeMap<String, Node>) -> Self {
        let members = members(nodes, readiness, &BTreeMap::new());
        Self { windows, readiness, members, due: None }
    }

    /// Takes all Nodes as they are at `now`.
    pub fn handle(&mut self, nodes: &BTreeMap<String, Node>, now: Timestamp) {
        let members = members(nodes, self.readiness, &self.members);
        let came = members.iter().any(|(name, member)| match self.members.get(name) {
            None => true,
            Some(known) => member != known && !is_lost(known, member),
        });
        let went = self.members.iter().any(|(name, known)| match members.get(name) {
            None => true,
            Some(member) => is_lost(known, member),
        });
        self.members = members;
        let windows = [came.then_some(self.windows.added), went.then_some(self.windows.removed)];
        let opened = windows.into_iter().flatten().map(|window| later(now, window));
        self.due = self.due.into_iter().chain(opened).min();
    }

    /// Whether Services are to be synced now. Said once.
    pub fn due(&mut self, now: Timestamp) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }

    /// When they will be.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due
    }
}

/// Nodes that load balancers send traffic to, or would but for their draining.
fn members(
    nodes: &BTreeMap<String, Node>,
    readiness: NodeReadiness,
    known: &BTreeMap<String, Member>,
) -> BTreeMap<String, Member> {
    let members = nodes.iter().filter_map(|(name, node)| {
        let member = match node.eligibility {
            Eligibility::Eligible | Eligibility::ScaledDown => member(node, readiness),
            Eligibility::Deleting => known.get(name).cloned(),
            Eligibility::Excluded => None,
        };
        Some((name.clone(), member?))
    });
    members.collect()
}

fn member(node: &Node, readiness: NodeReadiness) -> Option<Member> {
    let machine = match &node.provider_id {
        ProviderId::CloudStack(machine) => Machine::Named(machine.clone()),
        ProviderId::None => Machine::Unnamed(node.internal_ips().collect()),
        ProviderId::Foreign(_) => return None,
    };
    Some(Member { machine, preferred: node.is_preferred(readiness) })
}

/// Whether another machine stands behind the Node now, or the Node ceased to be ready.
fn is_lost(known: &Member, member: &Member) -> bool {
    let is_replaced = matches!(known.machine, Machine::Named(_)) && known.machine != member.machine;
    is_replaced || (known.preferred && !member.preferred)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
    use crate::parse::raw::RawNode;

    const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
    const SCALED_DOWN: &str = "ToBeDeletedByClusterAutoscaler";
    const ADDED: Option<f64> = Some(5.0);
    const REMOVED: Option<f64> = Some(1.0);

    fn at(seconds: f64) -> Timestamp {
        later(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
    }

    fn raw(name: &str) -> RawNode {
        RawNode {
            name: name.to_owned(),
            provider_id: Some(format!("external-cloudstack://vm-of-{name}")),
            addresses: vec![("InternalIP".to_owned(), "10.1.1.11".to_owned())],
            ready: Some("True".to_owned()),
            ..RawNode::default()
        }
    }

    fn cluster(nodes: &[RawNode]) -> BTreeMap<String, Node> {
        nodes.iter().map(|raw| (raw.name.clone(), crate::parse::node(raw))).collect()
    }

    fn watching(nodes: &[RawNode]) -> NodeChanges {
        NodeChanges::new(Windows::default(), NodeReadiness::Ignore, &cluster(nodes))
    }

    fn edited(edit: impl FnOnce(&mut RawNode)) -> RawNode {
        let mut node = raw("node-1");
        edit(&mut node);
        node
    }

    fn excluded(value: &str) -> RawNode {
        edited(|node| _ = node.labels.insert(EXCLUDE.to_owned(), value.to_owned()))
    }

    /// How many seconds after the change Services are synced.
    fn delay(before: &[RawNode], after: &[RawNode]) -> Option<f64> {
        let mut changes = watching(before);
        changes.handle(&cluster(after), at(100.0));
        let due = changes.next_due()?;
        let delay = due.duration_since(at(100.0)).as_secs_f64();
        assert!(!changes.due(at(100.0 + delay - 0.001)));
        assert!(changes.due(at(100.0 + delay)));
        assert!(!changes.due(at(100.0 + delay)) && changes.next_due().is_none(), "said once");
        Some(delay)
    }

    /// Row 8 of the contract's appendix.
    #[test]
    fn a_node_that_comes_goes_or_names_its_machine_is_a_change() {
        let node = || [raw("node-1")];
        let without_id = || [edited(|node| node.provider_id = None)];
        let other_id = [edited(|node| node.provider_id = Some("cloudstack:///other".into()))];
        for (what, before, after, expected) in [
            ("added", &[][..], &node()[..], ADDED),
            ("deleted", &node(), &[], REMOVED),
            ("excluded", &node(), &[excluded("true")], REMOVED),
            ("excluded by an empty value", &node(), &[excluded("")], REMOVED),
            ("excluded by garbage", &node(), &[excluded("no")], REMOVED),
            ("labelled as included", &node(), &[excluded("false")], None),
            ("included again", &[excluded("true")], &[excluded("false")], ADDED),
            ("the label removed", &[excluded("true")], &node(), ADDED),
            ("the label rewritten", &[excluded("true")], &[excluded("")], None),
            ("an excluded one deleted", &[excluded("true")], &[], None),
            ("providerID set", &without_id(), &node(), ADDED),
            ("another providerID", &node(), &other_id, REMOVED),
            (
                "another spelling",
                &node(),
                &[edited(|node| {
                    node.provider_id = Some("cloudstack:///vm-of-node-1".into());
                })],
                None,
            ),
        ] {
            assert_eq!(delay(before, after), expected, "{what}");
        }
    }

    /// Row 9 of the contract's appendix.
    #[test]
    fn what_load_balancers_do_not_look_at_is_no_change() {
        for (what, node) in [
            ("a heartbeat", raw("node-1")),
            ("NotReady", edited(|node| node.ready = Some("False".into()))),
            ("Unknown", edited(|node| node.ready = Some("Unknown".into()))),
            ("cordon", edited(|node| node.taints.push("node.kubernetes.io/unschedulable".into()))),
            ("shutdown", edited(|node| node.taints.push(SHUTDOWN_TAINT.into()))),
            ("initialised", edited(|node| node.taints.push(UNINITIALIZED_TAINT.into()))),
            ("a label", edited(|node| _ = node.labels.insert("team".into(), "a".into()))),
            ("the autoscaler", edited(|node| node.taints.push(SCALED_DOWN.into()))),
            ("an address beside the id", edited(|node| node.addresses.clear())),
        ] {
            assert_eq!(delay(&[raw("node-1")], std::slice::from_ref(&node)), None, "{what}");
            assert_eq!(delay(&[node], &[raw("node-1")]), None, "{what}, and back");
        }
    }

    #[test]
    fn readiness_is_a_change_where_members_are_to_be_ready() {
        let is = |ready: &str| cluster(&[edited(|node| node.ready = Some(ready.into()))]);
        for (before, after, expected) in [
            ("True", "False", REMOVED),
            ("True", "Unknown", REMOVED),
            ("False", "True", ADDED),
            ("Unknown", "False", None),
        ] {
            let mut changes =
                NodeChanges::new(Windows::default(), NodeReadiness::Ready, &is(before));
            changes.handle(&is(after), at(100.0));
            let delay = changes.next_due().map(|due| due.duration_since(at(100.0)).as_secs_f64());
            assert_eq!(delay, expected, "{before} to {after}");
        }
    }

    /// With no ready Node left, the others serve: their going counts.
    #[test]
    fn a_node_that_goes_is_a_change_though_it_was_not_ready() {
        let not_ready = edited(|node| node.ready = Some("False".into()));
        let before = cluster(&[not_ready]);
        let mut changes = NodeChanges::new(Windows::default(), NodeReadiness::Ready, &before);
        changes.handle(&cluster(&[]), at(0.0));
        assert!(changes.due(at(1.0)));
    }

    #[test]
    fn a_node_of_another_cloud_never_counts() {
        let foreign = edited(|node| node.provider_id = Some("aws:///zone/i-1".into()));
        assert_eq!(delay(&[], std::slice::from_ref(&foreign)), None);
        assert_eq!(delay(&[foreign], &[]), None);
    }

    #[test]
    fn a_node_in_deletion_counts_when_it_is_gone_and_not_again_if_it_was_excluded() {
        let deleting = |node: &RawNode| RawNode { deleting: true, ..node.clone() };
        for (node, expected) in [(raw("node-1"), REMOVED), (excluded("true"), None)] {
            let mut changes = watching(std::slice::from_ref(&node));
            changes.handle(&cluster(&[deleting(&node)]), at(1.0));
            assert_eq!(changes.next_due(), None);
            changes.handle(&cluster(&[]), at(100.0));
            let delay = changes.next_due().map(|due| due.duration_since(at(100.0)).as_secs_f64());
            assert_eq!(delay, expected);
        }
    }

    /// Row 10 of the contract's appendix: which Nodes serve is for the plan to say.
    #[test]
    fn a_draining_node_waits_for_another_change() {
        let draining = edited(|node| node.taints.push(SCALED_DOWN.into()));
        let mut changes = watching(&[raw("node-1")]);
        changes.handle(&cluster(std::slice::from_ref(&draining)), at(0.0));
        assert!(!changes.due(at(3600.0)));
        changes.handle(&cluster(&[draining, raw("node-2")]), at(3600.0));
        assert!(changes.due(at(3605.0)));
    }

    #[test]
    fn addresses_count_for_a_node_without_a_provider_id() {
        let unnamed = |address: &str| {
            let addresses = vec![("InternalIP".to_owned(), address.to_owned())];
            edited(|node| (node.provider_id, node.addresses) = (None, addresses))
        };
        assert_eq!(delay(&[unnamed("10.1.1.11")], &[unnamed("10.1.1.12")]), ADDED);
        assert_eq!(delay(&[unnamed("10.1.1.11")], &[unnamed("10.1.1.11")]), None);
    }

    #[test]
    fn c084_a_window_collects_what_comes_and_does_not_grow() {
        let mut changes = watching(&[]);
        let names = ["node-1", "node-2", "node-3", "node-4", "node-5", "node-6", "node-7"];
        for (second, count) in (0..).zip(1..=names.len()) {
            let nodes: Vec<RawNode> = names.iter().take(count).map(|name| raw(name)).collect();
            changes.handle(&cluster(&nodes), at(f64::from(second)));
            assert_eq!(changes.due(at(f64::from(second))), second == 5, "{second}");
        }
        assert_eq!(changes.next_due(), Some(at(11.0)), "the seventh opened another");
    }

    #[test]
    fn c084_what_goes_takes_along_what_comes() {
        let mut changes = watching(&[raw("node-1")]);
        changes.handle(&cluster(&[raw("node-1"), raw("node-2")]), at(0.0));
        changes.handle(&cluster(&[raw("node-2")]), at(2.0));
        assert_eq!(changes.next_due(), Some(at(3.0)));
        assert!(changes.due(at(3.0)));
        assert_eq!(changes.next_due(), None);
    }

    #[test]
    fn what_is_soon_due_is_not_put_off() {
        let mut changes = watching(&[raw("node-1")]);
        changes.handle(&cluster(&[raw("node-1"), raw("node-2")]), at(0.0));
        changes.handle(&cluster(&[raw("node-2")]), at(4.5));
        assert_eq!(changes.next_due(), Some(at(5.0)));
    }

    #[test]
    fn a_node_that_went_and_came_back_is_looked_at_all_the_same() {
        let mut changes = watching(&[raw("node-1")]);
        changes.handle(&cluster(&[]), at(0.0));
        changes.handle(&cluster(&[raw("node-1")]), at(0.5));
        assert!(changes.due(at(1.0)), "a Service may have been synced in between");
    }

    #[test]
    fn windows_are_settings() {
        let windows = Windows { added: Duration::ZERO, removed: Duration::from_mins(1) };
        let mut changes =
            NodeChanges::new(windows, NodeReadiness::Ignore, &cluster(&[raw("node-1")]));
        changes.handle(&cluster(&[]), at(0.0));
        assert_eq!(changes.next_due(), Some(at(60.0)));
        changes.handle(&cluster(&[raw("node-2")]), at(1.0));
        assert!(changes.due(at(1.0)));
    }
}
