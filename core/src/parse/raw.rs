//! Kubernetes objects reduced to what we read, nothing checked yet. Adapters fill these in.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::service::Ingress;

/// A Service as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RawService {
    /// `metadata.namespace`; empty means `default`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; manifests often have none.
    pub uid: Option<String>,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Option<Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.type`; `None` means ClusterIP.
    pub service_type: Option<String>,
    /// `spec.loadBalancerClass`.
    pub load_balancer_class: Option<String>,
    /// `spec.loadBalancerIP`.
    pub load_balancer_ip: Option<String>,
    /// `spec.loadBalancerSourceRanges`.
    pub source_ranges: Vec<String>,
    /// `spec.sessionAffinity`.
    pub session_affinity: Option<String>,
    /// `spec.ipFamilies`.
    pub ip_families: Vec<String>,
    /// `spec.ports`.
    pub ports: Vec<RawServicePort>,
    /// `status.loadBalancer.ingress`.
    pub ingress: Vec<Ingress>,
}

/// An entry of `spec.ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RawServicePort {
    /// `name`.
    pub name: Option<String>,
    /// `protocol`; `None` means TCP.
    pub protocol: Option<String>,
    /// `port`.
    pub port: i32,
    /// `nodePort`.
    pub node_port: Option<i32>,
}

/// A Node as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RawNode {
    /// `metadata.name`.
    pub name: String,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// Keys of `spec.taints`.
    pub taints: Vec<String>,
    /// `status.addresses` as (type, address).
    pub addresses: Vec<(String, String)>,
    /// `metadata.uid`; manifests often have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// `metadata.creationTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// `status` of the condition `Ready`: True, False or Unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Annotation `alpha.kubernetes.io/provided-node-ip`: kubelet's `--node-ip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provided_node_ip: Option<String>,
}
