//! What is written on a Node. A new one: addresses first, then, in one patch, provider id, labels
//! and the end of its taint, so that nothing is scheduled on a Node without addresses. Afterwards:
//! addresses and the labels that are there are kept right.

use crate::model::node::{AddressType, Node, NodeAddress};
use crate::node::address::{self, ProvidedIpError};
use crate::node::label::{self, Labels, Spellings, Topic};
use crate::node::note::NodeNote;
use crate::observe::VirtualMachine;
use crate::observe::machines::Match;
use crate::parse::provider_id_of;

/// What is to be written on a Node, in this order, and what is to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `status.addresses`, as a whole.
    pub addresses: Option<Vec<NodeAddress>>,
    /// The Node itself; after the addresses.
    pub patch: NodePatch,
    /// What is told.
    pub notes: Vec<NodeNote>,
    /// Whether a new Node stays uninitialised for now: without a machine, or with addresses that
    /// can't be right.
    pub waits: bool,
}

/// One patch of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// `spec.providerID`, where it is empty.
    pub provider_id: Option<String>,
    /// Labels to set.
    pub labels: Labels,
    /// Whether every taint [`UNINITIALIZED_TAINT`](super::UNINITIALIZED_TAINT) goes.
    pub initialise: bool,
}

impl NodePatch {
    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        let Self { provider_id, labels, initialise } = self;
        provider_id.is_none() && labels.is_empty() && !initialise
    }
}

/// Where all Nodes are looked at together.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// How labels are spelled here.
    pub spellings: &'a Spellings,
    /// The configured region.
    pub region: Option<&'a str>,
}

/// Plans what is written on a Node. `machine` is what `found` names.
pub fn plan(
    node: &Node,
    found: &Match,
    machine: Option<&VirtualMachine>,
    surroundings: &Surroundings<'_>,
) -> Metadata {
    let mut metadata = Metadata::default();
    match found {
        Match::Foreign => return metadata,
        Match::Ambiguous(candidates) => {
            metadata.notes.push(NodeNote::Ambiguous(candidates.iter().cloned().collect()));
        }
        Match::Missing => metadata.notes.push(NodeNote::WithoutMachine),
        Match::Replaced { stale, machine } => metadata
            .notes
            .push(NodeNote::ProviderIdStale { stale: stale.clone(), machine: machine.clone() }),
        Match::Machine(_) => {}
    }
    metadata.waits = node.taints.uninitialized;
    let Some(machine) = machine else { return metadata };
    let addresses = match wanted_addresses(node, machine) {
        Ok(addresses) => addresses,
        Err(error) => {
            metadata.notes.push(NodeNote::ProvidedIpInvalid(error));
            return metadata;
        }
    };
    metadata.addresses = (node.addresses != addresses).then_some(addresses);
    metadata.patch = NodePatch {
        provider_id: (!node.has_provider_id).then(|| provider_id_of(&machine.id)),
        labels: labels(node, machine, surroundings, &mut metadata.notes),
        initialise: node.taints.uninitialized,
    };
    metadata.waits = false;
    metadata
}

fn wanted_addresses(
    node: &Node,
    machine: &VirtualMachine,
) -> Result<Vec<NodeAddress>, ProvidedIpError> {
    let mut addresses = address::of_machine(&node.name, machine);
    // Names that kubelet or others published stay.
    let is_other = |found: &&NodeAddress| matches!(found.kind, AddressType::Other(_));
    addresses.extend(node.addresses.iter().filter(is_other).cloned());
    match &node.provided_node_ip {
        Some(text) => address::honour_provided(&addresses, text),
        None => Ok(addresses),
    }
}

fn labels(
    node: &Node,
    machine: &VirtualMachine,
    surroundings: &Surroundings<'_>,
    notes: &mut Vec<NodeNote>,
) -> Labels {
    let Surroundings { spellings, region } = surroundings;
    let mut labels = Labels::new();
    for topic in Topic::ALL {
        let Some(value) = label::value(topic, machine, *region) else { continue };
        let spelling = spellings.spell(topic, &value);
        if !label::is_missing(topic, &node.labels) {
            labels.extend(label::to_correct(topic, &node.labels, &value, &spelling));
        } else if node.taints.uninitialized {
            labels.extend(label::for_new(topic, &spelling));
        } else {
            notes.push(NodeNote::LabelMissing(topic.key()));
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{NetworkId, VirtualMachineId};
    use crate::observe::Nic;
    use crate::parse::node;
    use crate::parse::raw::RawNode;

    const U1: &str = "cdaf2677-9bae-4306-85f3-f52877d106bb";

    fn machine() -> VirtualMachine {
        VirtualMachine {
            id: VirtualMachineId::parse(U1).unwrap(),
            name: "node-1".into(),
            state: "Running".into(),
            zone: "zone-1".into(),
            offering: Some("medium".into()),
            nics: vec![Nic {
                network: NetworkId::parse("n").unwrap(),
                network_name: "net".into(),
                ipv4: Some("10.1.1.11".parse().unwrap()),
                ipv6: None,
                default: true,
                device: 0,
            }],
            public_ip: None,
        }
    }

    fn new_node() -> RawNode {
        RawNode {
            name: "node-1".into(),
            taints: vec![super::super::UNINITIALIZED_TAINT.into()],
            ..RawNode::default()
        }
    }

    fn plan_alone(raw: &RawNode, region: Option<&str>) -> Metadata {
        let machine = machine();
        let found = Match::Machine(machine.id.clone());
        let surroundings = Surroundings { spellings: &Spellings::default(), region };
        plan(&node(raw), &found, Some(&machine), &surroundings)
    }

    #[test]
    fn a_new_node_waits_for_its_machine_and_for_nothing_that_is_not_ours() {
        let surroundings = Surroundings { spellings: &Spellings::default(), region: None };
        let waits =
            |raw: &RawNode, found: &Match| plan(&node(raw), found, None, &surroundings).waits;
        assert!(waits(&new_node(), &Match::Missing));
        assert!(!waits(&new_node(), &Match::Foreign));
        assert!(!waits(&RawNode { taints: Vec::new(), ..new_node() }, &Match::Missing));
        assert!(!plan_alone(&new_node(), None).waits);
    }

    /// The Node after what was planned is written.
    fn written(raw: &RawNode, metadata: &Metadata) -> RawNode {
        let mut raw = raw.clone();
        for found in metadata.addresses.iter().flatten() {
            raw.addresses.push((found.kind.as_str().to_owned(), found.address.clone()));
        }
        raw.labels.extend(metadata.patch.labels.clone());
        raw.provider_id = metadata.patch.provider_id.clone().or(raw.provider_id);
        raw.taints.retain(|_| !metadata.patch.initialise);
        raw
    }

    #[test]
    fn c070_a_new_node_gets_everything_at_once_and_then_nothing_more() {
        for (region, expected) in [(None, "zone-1"), (Some("eu-a"), "eu-a")] {
            let metadata = plan_alone(&new_node(), region);
            let provider_id = format!("external-cloudstack://{U1}");
            assert_eq!(metadata.patch.provider_id.as_deref(), Some(provider_id.as_str()));
            assert!(metadata.patch.initialise);
            assert_eq!(metadata.addresses.as_ref().map(Vec::len), Some(2));
            let labels: Vec<_> =
                metadata.patch.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(
                labels,
                [
                    ("beta.kubernetes.io/instance-type", "medium"),
                    ("failure-domain.beta.kubernetes.io/region", expected),
                    ("failure-domain.beta.kubernetes.io/zone", "zone-1"),
                    ("node.kubernetes.io/instance-type", "medium"),
                    ("topology.kubernetes.io/region", expected),
                    ("topology.kubernetes.io/zone", "zone-1"),
                ]
            );
            let after = written(&new_node(), &metadata);
            assert_eq!(plan_alone(&after, region), Metadata::default());
        }
    }

    #[test]
    fn c065_an_existing_provider_id_is_never_rewritten() {
        for text in [format!("cloudstack:///{U1}"), "external-cloudstack://".to_owned()] {
            let raw = RawNode { provider_id: Some(text), ..new_node() };
            assert_eq!(plan_alone(&raw, None).patch.provider_id, None);
        }
    }

    #[test]
    fn c071_a_node_stays_tainted_until_its_machine_and_addresses_are_known() {
        let surroundings = Surroundings { spellings: &Spellings::default(), region: None };
        let missing = plan(&node(&new_node()), &Match::Missing, None, &surroundings);
        assert!(missing.patch.is_empty() && missing.addresses.is_none());
        assert_eq!(missing.notes, [NodeNote::WithoutMachine]);
        let raw = RawNode { provided_node_ip: Some("10.9.9.9".into()), ..new_node() };
        let invalid = plan_alone(&raw, None);
        assert!(invalid.patch.is_empty() && invalid.addresses.is_none());
        assert_eq!(invalid.notes[0].code(), "ProvidedNodeIPInvalid");
    }

    #[test]
    fn c075_nodes_from_elsewhere_get_nothing() {
        let surroundings = Surroundings { spellings: &Spellings::default(), region: None };
        let foreign = plan(&node(&new_node()), &Match::Foreign, None, &surroundings);
        assert_eq!(foreign, Metadata::default());
    }

    /// One that is initialised and in use.
    fn initialised() -> RawNode {
        written(&new_node(), &plan_alone(&new_node(), None))
    }

    #[test]
    fn a_node_in_use_whose_machine_is_not_found_keeps_all_that_it_has() {
        let surroundings = Surroundings { spellings: &Spellings::default(), region: None };
        let plan = |found: &Match| plan(&node(&initialised()), found, None, &surroundings);
        let notes = vec![NodeNote::WithoutMachine];
        assert_eq!(plan(&Match::Missing), Metadata { notes, ..Metadata::default() });
        assert_eq!(plan(&Match::Foreign), Metadata::default());
    }

    fn addresses_after(raw: &RawNode, machine: &VirtualMachine) -> Option<Vec<String>> {
        let found = Match::Machine(machine.id.clone());
        let surroundings = Surroundings { spellings: &Spellings::default(), region: None };
        let addresses = plan(&node(raw), &found, Some(machine), &surroundings).addresses;
        addresses.map(|found| found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn addresses_are_written_exactly_if_their_list_differs() {
        let mut machine = machine();
        machine.nics[0].ipv6 = Some("2001:db8::11".parse().unwrap());
        let mut right = initialised();
        right.addresses.insert(1, ("InternalIP".to_owned(), "2001:db8::11".to_owned()));
        assert_eq!(addresses_after(&right, &machine), None, "two of one type");
        let mut turned = right.clone();
        turned.addresses.swap(0, 1);
        let expected = ["InternalIP 10.1.1.11", "InternalIP 2001:db8::11", "Hostname node-1"];
        assert_eq!(addresses_after(&turned, &machine).unwrap(), expected, "order alone");
    }

    #[test]
    fn labels_of_a_node_in_use_are_corrected_but_missing_ones_are_only_told() {
        let mut raw = initialised();
        raw.labels.insert("topology.kubernetes.io/zone".into(), "zone-9".into());
        raw.labels.insert("failure-domain.beta.kubernetes.io/zone".into(), "zone-9".into());
        raw.labels.retain(|key, _| !key.contains("region"));
        let metadata = plan_alone(&raw, None);
        assert_eq!(metadata.patch.labels, label::for_new(Topic::Zone, "zone-1"));
        assert_eq!(metadata.notes, [NodeNote::LabelMissing("topology.kubernetes.io/region")]);
    }

    #[test]
    fn names_of_other_types_stay() {
        let raw = RawNode {
            addresses: vec![("InternalDNS".into(), "node-1.internal".into())],
            ..new_node()
        };
        let addresses = plan_alone(&raw, None).addresses.unwrap();
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["InternalIP 10.1.1.11", "Hostname node-1", "InternalDNS node-1.internal"]
        );
    }
}
