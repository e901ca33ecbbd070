//! A Node as it came → [`Node`]: which machine it names, and whether load balancers send traffic
//! to it.
//!
//! Eligibility is the stable set of the Go framework since v0.34. In this order:
//! 1. not in deletion,
//! 2. not excluded by label, whose value must be a boolean false to mean "included",
//! 3. not marked by the cluster autoscaler.
//!
//! Cordons and the control-plane role make no difference. Nor does readiness: where it is to count,
//! which machines serve says so (`observe/machines.rs`).

use crate::ids::NodeUid;
use crate::model::node::{AddressType, CloudTaints, Eligibility, Node, NodeAddress};
use crate::node::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
use crate::parse::provider_id;
use crate::parse::raw::RawNode;

/// Keeps a Node out of load balancers.
pub(super) const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Set by the cluster autoscaler on a Node that it is about to delete.
pub(super) const SCALED_DOWN_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// What Go's `strconv.ParseBool` takes for false.
const FALSE: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];

/// Reads a Node. Nothing about it can be wrong enough to refuse it.
pub fn node(raw: &RawNode) -> Node {
    let RawNode {
        name,
        deleting: _,
        labels,
        provider_id,
        taints,
        addresses,
        uid,
        creation_timestamp,
        ready,
        provided_node_ip,
    } = raw;
    let provider_id = provider_id.as_deref().unwrap_or_default();
    let address = |(kind, address): &(String, String)| NodeAddress {
        kind: AddressType::parse(kind),
        address: address.clone(),
    };
    let tainted = |key: &str| taints.iter().any(|taint| taint == key);
    Node {
        name: name.clone(),
        uid: uid.as_deref().and_then(|uid| NodeUid::parse(uid).ok()),
        created: *creation_timestamp,
        labels: labels.clone(),
        provider_id: provider_id::provider_id(provider_id),
        has_provider_id: !provider_id.is_empty(),
        taints: CloudTaints {
            uninitialized: tainted(UNINITIALIZED_TAINT),
            shutdown: tainted(SHUTDOWN_TAINT),
        },
        ready: ready.as_deref() == Some("True"),
        addresses: addresses.iter().map(address).collect(),
        provided_node_ip: provided_node_ip.clone(),
        eligibility: eligibility(raw),
    }
}

fn eligibility(raw: &RawNode) -> Eligibility {
    if raw.deleting {
        return Eligibility::Deleting;
    }
    match raw.labels.get(EXCLUDE_LABEL) {
        Some(value) if !FALSE.contains(&value.as_str()) => return Eligibility::Excluded,
        Some(_) | None => {}
    }
    if raw.taints.iter().any(|key| key == SCALED_DOWN_TAINT) {
        return Eligibility::ScaledDown;
    }
    Eligibility::Eligible
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::node::ProviderId;

    fn labelled(value: &str) -> RawNode {
        RawNode {
            name: "node-3".to_owned(),
            labels: [(EXCLUDE_LABEL.to_owned(), value.to_owned())].into(),
            ..RawNode::default()
        }
    }

    #[test]
    fn c032_only_a_false_label_includes() {
        for value in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(node(&labelled(value)).eligibility, Eligibility::Eligible, "{value:?}");
        }
        for value in ["true", "", "no", " false", "fAlse", "1"] {
            assert_eq!(node(&labelled(value)).eligibility, Eligibility::Excluded, "{value:?}");
        }
    }

    #[test]
    fn c032_deletion_and_the_autoscaler_exclude_and_other_taints_do_not() {
        let mut raw = RawNode {
            taints: vec!["node.kubernetes.io/not-ready".to_owned()],
            ..RawNode::default()
        };
        assert_eq!(node(&raw).eligibility, Eligibility::Eligible);
        raw.taints.push(SCALED_DOWN_TAINT.to_owned());
        assert_eq!(node(&raw).eligibility, Eligibility::ScaledDown);
        raw.deleting = true;
        assert_eq!(node(&raw).eligibility, Eligibility::Deleting);
    }

    #[test]
    fn addresses_of_other_types_and_bad_ones_are_left_out() {
        let address = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
        let raw = RawNode {
            addresses: vec![
                address("InternalIP", "10.1.1.11"),
                address("InternalIP", "not an address"),
                address("ExternalIP", "203.0.113.9"),
                address("InternalIP", "2001:db8::1"),
                address("Hostname", "node-1"),
            ],
            ..RawNode::default()
        };
        let read = node(&raw);
        assert_eq!(read.provider_id, ProviderId::None);
        assert_eq!(
            read.internal_ips().collect::<Vec<_>>(),
            ["10.1.1.11".parse::<std::net::IpAddr>().unwrap(), "2001:db8::1".parse().unwrap()]
        );
    }
}
