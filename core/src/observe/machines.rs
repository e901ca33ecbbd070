//! Which virtual machine stands behind each Node, and which machines serve in each network.
//!
//! The order of proof: provider id; else the VM of exactly that name; else the VM of the Node's
//! short name that holds one of its addresses. What is ambiguous is said, never guessed.
//!
//! Where readiness counts, machines of Nodes that are not ready serve only in a network in which no
//! ready Node has one: it may be the reports of readiness that fail, and a rule without members
//! serves nobody for sure.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{NetworkId, VirtualMachineId};
use crate::model::node::{Eligibility, Node, ProviderId};
use crate::model::policy::NodeReadiness;
use crate::model::record::members_digest;
use crate::observe::VirtualMachine;

/// Virtual machines by id, as one list showed them.
pub type VirtualMachines = BTreeMap<VirtualMachineId, VirtualMachine>;

/// The outcome of matching one Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// This VM.
    Machine(VirtualMachineId),
    /// The VM of the provider id is gone; this one has the Node's name and address.
    Replaced {
        /// What the provider id says.
        stale: VirtualMachineId,
        /// The VM that serves.
        machine: VirtualMachineId,
    },
    /// Several VMs could be it.
    Ambiguous(BTreeSet<VirtualMachineId>),
    /// No VM could be it.
    Missing,
    /// A Node of another cloud.
    Foreign,
}

/// What eligible Nodes mean for one network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backends {
    /// The VMs that serve.
    pub vms: BTreeSet<VirtualMachineId>,
    /// [`members_digest`] of [`Backends::vms`].
    pub digest: String,
    /// VMs of eligible Nodes without an address in the network, by Node. They are no new
    /// members, but stay if they are.
    pub without_nic: BTreeMap<String, VirtualMachineId>,
}

/// All Nodes matched.
#[derive(Clone, Debug)]
pub struct Machines {
    /// The outcome for each Node, eligible or not.
    pub matches: BTreeMap<String, Match>,
    /// How many Nodes are eligible and not of another cloud.
    pub eligible: usize,
    /// Eligible Nodes without a VM.
    pub unmatched: BTreeSet<String>,
    /// VMs that stay members while somebody finds out which Node they are.
    pub doubtful: BTreeSet<VirtualMachineId>,
    backends: BTreeMap<NetworkId, Backends>,
    default_networks: BTreeMap<NetworkId, usize>,
}

impl Machines {
    /// Matches all Nodes.
    pub fn new(
        nodes: &BTreeMap<String, Node>,
        listed: &VirtualMachines,
        readiness: NodeReadiness,
    ) -> Self {
        let finder = Finder::new(listed);
        let matches: BTreeMap<String, Match> =
            nodes.iter().map(|(name, node)| (name.clone(), finder.find(node))).collect();
        let mut machines = Self {
            matches,
            eligible: 0,
            unmatched: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            backends: BTreeMap::new(),
            default_networks: BTreeMap::new(),
        };
        machines.sort_eligible(nodes, listed, readiness);
        machines
    }

    /// What eligible Nodes mean for a network.
    pub fn backends(&self, network: &NetworkId) -> Backends {
        let nobody = || {
            let digest = members_digest(&BTreeSet::new());
            Backends { digest, ..Backends::default() }
        };
        self.backends.get(network).cloned().unwrap_or_else(nobody)
    }

    /// The network of most eligible Nodes' default NICs among those that `candidate` accepts; ties
    /// go to the lowest id.
    pub fn main_network(&self, candidate: impl Fn(&NetworkId) -> bool) -> Option<&NetworkId> {
        let mut best: Option<(&NetworkId, usize)> = None;
        for (network, count) in &self.default_networks {
            if candidate(network) && best.is_none_or(|(_, most)| *count > most) {
                best = Some((network, *count));
            }
        }
        best.map(|(network, _)| network)
    }

    fn sort_eligible(
        &mut self,
        nodes: &BTreeMap<String, Node>,
        listed: &VirtualMachines,
        readiness: NodeReadiness,
    ) {
        let mut machines: BTreeMap<&str, &VirtualMachine> = BTreeMap::new();
        let mut preferred: BTreeSet<&VirtualMachineId> = BTreeSet::new();
        for (name, found) in &self.matches {
            let Some(node) = nodes.get(name) else { continue };
            if node.eligibility != Eligibility::Eligible {
                continue;
            }
            let id = match found {
                Match::Foreign => continue,
                Match::Machine(id) | Match::Replaced { machine: id, .. } => Some(id),
                Match::Ambiguous(candidates) => {
                    self.doubtful.extend(candidates.iter().cloned());
                    None
                }
                Match::Missing => None,
            };
            self.eligible += 1;
            match id.and_then(|id| listed.get(id)) {
                Some(machine) => {
                    machines.insert(name.as_str(), machine);
                    if node.is_preferred(readiness) {
                        preferred.insert(&machine.id);
                    }
                }
                None => _ = self.unmatched.insert(name.clone()),
            }
        }
        self.default_networks = count_default_networks(machines.values().copied());
        self.backends = backends_by_network(&machines, &preferred);
    }
}

fn count_default_networks<'a>(
    machines: impl Iterator<Item = &'a VirtualMachine>,
) -> BTreeMap<NetworkId, usize> {
    let mut counts = BTreeMap::new();
    for nic in machines.filter_map(VirtualMachine::default_nic) {
        *counts.entry(nic.network.clone()).or_insert(0) += 1;
    }
    counts
}

fn backends_by_network(
    machines: &BTreeMap<&str, &VirtualMachine>,
    preferred: &BTreeSet<&VirtualMachineId>,
) -> BTreeMap<NetworkId, Backends> {
    let networks: BTreeSet<&NetworkId> =
        machines.values().flat_map(|machine| machine.nics.iter().map(|nic| &nic.network)).collect();
    let backends = |network: &NetworkId| {
        let mut backends = Backends::default();
        for (node, machine) in machines {
            if machine.nic_in(network).is_some() {
                backends.vms.insert(machine.id.clone());
            } else {
                backends.without_nic.insert((*node).to_owned(), machine.id.clone());
            }
        }
        if backends.vms.iter().any(|vm| preferred.contains(vm)) {
            backends.vms.retain(|vm| preferred.contains(vm));
        }
        backends.digest = members_digest(&backends.vms);
        backends
    };
    networks.into_iter().map(|network| (network.clone(), backends(network))).collect()
}

struct Finder<'a> {
    listed: &'a VirtualMachines,
    by_name: BTreeMap<String, Vec<&'a VirtualMachine>>,
}

impl<'a> Finder<'a> {
    fn new(listed: &'a VirtualMachines) -> Self {
        let mut by_name: BTreeMap<String, Vec<&VirtualMachine>> = BTreeMap::new();
        for machine in listed.values().filter(|machine| is_alive(&machine.state)) {
            by_name.entry(machine.name.to_lowercase()).or_default().push(machine);
        }
        Self { listed, by_name }
    }

    fn find(&self, node: &Node) -> Match {
        match &node.provider_id {
            ProviderId::Foreign(_) => Match::Foreign,
            ProviderId::CloudStack(id) => self.find_by_id(node, id),
            ProviderId::None => self.find_by_name(node),
        }
    }

    fn find_by_id(&self, node: &Node, id: &VirtualMachineId) -> Match {
        if self.listed.get(id).is_some_and(|found| is_alive(&found.state)) {
            return Match::Machine(id.clone());
        }
        let named = self.named(&node.name);
        let mut holders = named.iter().filter(|machine| holds_address(machine, node));
        match (holders.next(), holders.next()) {
            (Some(machine), None) => {
                Match::Replaced { stale: id.clone(), machine: machine.id.clone() }
            }
            _ => Match::Missing,
        }
    }

    /// Names are compared without regard to case: CloudStack does, and Node names are lower case.
    fn find_by_name(&self, node: &Node) -> Match {
        match self.named(&node.name) {
            [] => self.find_by_short_name(node),
            [machine] => Match::Machine(machine.id.clone()),
            several => {
                let exact = several.iter().filter(|machine| machine.name == node.name);
                let holders = several.iter().filter(|machine| holds_address(machine, node));
                only(exact).or_else(|| only(holders)).map_or_else(
                    || Match::Ambiguous(several.iter().map(|m| m.id.clone()).collect()),
                    |machine| Match::Machine(machine.id.clone()),
                )
            }
        }
    }

    fn find_by_short_name(&self, node: &Node) -> Match {
        let Some((short, _)) = node.name.split_once('.') else {
            return Match::Missing;
        };
        let holders = self.named(short).iter().filter(|machine| holds_address(machine, node));
        only(holders).map_or(Match::Missing, |machine| Match::Machine(machine.id.clone()))
    }

    fn named(&self, name: &str) -> &[&'a VirtualMachine] {
        self.by_name.get(&name.to_lowercase()).map_or(&[], Vec::as_slice)
    }
}

fn only<'a, 'b>(
    mut machines: impl Iterator<Item = &'b &'a VirtualMachine>,
) -> Option<&'a VirtualMachine>
where
    'a: 'b,
{
    let first = machines.next()?;
    machines.next().is_none().then_some(*first)
}

fn holds_address(machine: &VirtualMachine, node: &Node) -> bool {
    node.internal_ips().any(|address| machine.has_address(&address))
}

/// Whether a `state` is one of a machine that there is. Administrators see destroyed ones too;
/// assigning one fails the whole call.
pub fn is_alive(state: &str) -> bool {
    !matches!(state, "Destroyed" | "Expunging" | "Error")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::observe::index::Observed;
    use crate::observe::{Capabilities, CloudState, Nic};
    use crate::parse;
    use crate::parse::raw::RawNode;

    fn machine(id: &str, name: &str, address: &str) -> VirtualMachine {
        VirtualMachine {
            id: VirtualMachineId::parse(id).unwrap(),
            name: name.to_owned(),
            state: "Running".to_owned(),
            zone: "zone-1".to_owned(),
            offering: None,
            nics: vec![Nic {
                network: NetworkId::parse("network").unwrap(),
                network_name: "net".to_owned(),
                ipv4: Some(address.parse().unwrap()),
                ipv6: None,
                default: true,
                device: 0,
            }],
            public_ip: None,
        }
    }

    /// What becomes of a Node without a provider id at 10.1.1.11.
    fn matched(node: &str, machines: Vec<VirtualMachine>) -> Match {
        let raw = RawNode {
            name: node.to_owned(),
            addresses: vec![("InternalIP".to_owned(), "10.1.1.11".to_owned())],
            ..RawNode::default()
        };
        let nodes = BTreeMap::from([(node.to_owned(), parse::node(&raw))]);
        let state = CloudState {
            virtual_machines: machines,
            ..CloudState::empty(Timestamp::UNIX_EPOCH, Capabilities::default())
        };
        let listed = Observed::new(state).virtual_machines;
        let mut machines = Machines::new(&nodes, &listed, NodeReadiness::Ignore);
        machines.matches.remove(node).unwrap()
    }

    fn is(id: &str) -> Match {
        Match::Machine(VirtualMachineId::parse(id).unwrap())
    }

    const FQDN: &str = "node-1.cluster.example";

    #[test]
    fn the_machine_of_the_short_name_needs_an_address_of_the_node() {
        assert_eq!(matched(FQDN, vec![machine("a", "node-1", "10.1.1.11")]), is("a"));
        assert_eq!(matched(FQDN, vec![machine("a", "NODE-1", "10.1.1.11")]), is("a"));
        assert_eq!(matched(FQDN, vec![machine("a", "node-1", "10.1.1.12")]), Match::Missing);
        assert_eq!(
            matched(FQDN, vec![machine("a", "node-1.cluster", "10.1.1.11")]),
            Match::Missing
        );
    }

    #[test]
    fn the_whole_name_goes_before_the_short_one() {
        let short = machine("a", "node-1", "10.1.1.11");
        let whole = machine("b", FQDN, "10.1.1.12");
        assert_eq!(matched(FQDN, vec![short, whole]), is("b"));
    }

    #[test]
    fn of_several_machines_of_the_short_name_the_one_with_the_address_is_it() {
        let (here, there) =
            (machine("a", "node-1", "10.1.1.11"), machine("b", "node-1", "10.1.2.11"));
        assert_eq!(matched(FQDN, vec![here.clone(), there]), is("a"));
        let twin = machine("b", "node-1", "10.1.1.11");
        assert_eq!(matched(FQDN, vec![here, twin]), Match::Missing);
    }

    #[test]
    fn a_short_node_name_is_never_taken_for_a_longer_machine_name() {
        assert_eq!(matched("node-1", vec![machine("a", FQDN, "10.1.1.11")]), Match::Missing);
    }
}
