//! Cluster identity and configured choices.

use serde::{Deserialize, Serialize};

use crate::ids::{ClusterId, ProjectId};

/// What an operator decides; the planner's third input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Policy {
    /// Written into every mark on a cloud object.
    pub cluster_id: ClusterId,
    /// `--cluster-name`: for people, and for the rule names of the Go controller's fork.
    pub cluster_name: String,
    /// `project-id`: the scope of every list, and the owner of new VPC addresses.
    pub project: Option<ProjectId>,
    /// Whether new objects are tagged (`ownership-tags`). Tags are read in any case.
    pub ownership_tags: bool,
    /// What happens to an address that another controller left without a record.
    pub adopt_unrecorded_addresses: AdoptUnrecorded,
    /// Which layer `spec.loadBalancerSourceRanges` restricts.
    pub source_ranges_mode: SourceRangesMode,
    /// What to do with a UDP port on a virtual router.
    pub udp_on_router: UdpOnRouter,
    /// Whether a Node that is not ready is a member. Snapshots of before it was one lack it.
    #[serde(default)]
    pub node_readiness: NodeReadiness,
    /// Where records live.
    pub mode: Mode,
}

impl Policy {
    /// The defaults, for one cluster.
    pub fn new(cluster_id: ClusterId) -> Self {
        Self {
            cluster_id,
            cluster_name: "kubernetes".to_owned(),
            project: None,
            ownership_tags: false,
            adopt_unrecorded_addresses: AdoptUnrecorded::Evidence,
            source_ranges_mode: SourceRangesMode::Layered,
            udp_on_router: UdpOnRouter::Refuse,
            node_readiness: NodeReadiness::Ignore,
            mode: Mode::Cluster,
        }
    }
}

/// `adopt-unrecorded-addresses`: whose is an address that carries no verdict?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdoptUnrecorded {
    /// Ours if it was allocated around the time the Service was created.
    Evidence,
    /// Never ours: it stays when the Service goes.
    Keep,
    /// Always ours, unless the Service asked for it by address.
    Release,
}

/// `source-ranges-mode`: which layer `spec.loadBalancerSourceRanges` restricts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceRangesMode {
    /// As users have it: the annotation restricts the rule, the ranges restrict the firewall.
    Layered,
    /// The ranges restrict the rule too, on every kind of network.
    Strict,
}

/// `udp-on-router`: a virtual router lists UDP among its protocols but can't balance it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UdpOnRouter {
    /// Refuse the port without a call.
    Refuse,
    /// Send it all the same.
    Try,
}

/// `node-readiness`: whether a Node must be ready to be a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeReadiness {
    /// It makes no difference: the stable set of the Go framework.
    #[default]
    Ignore,
    /// A Node that is not ready is no member, unless no member would be left.
    Ready,
}

/// Where records live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// On the Service, in a cluster.
    Cluster,
    /// Nowhere: Services come from files, verdicts from the descriptions of rules.
    Manifests,
}
