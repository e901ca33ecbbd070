//! Objects of the API → the raw types of the core. Nothing is checked, nothing is left out that the
//! core reads.

use k8s_openapi::api::core::v1::{
    LoadBalancerIngress, Node, NodeSpec, NodeStatus, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use ccm_core::model::service::Ingress;
use ccm_core::node::PROVIDED_NODE_IP_ANNOTATION;
use ccm_core::parse::raw::{RawNode, RawService, RawServicePort};

/// Reduces a Service to what the core reads.
pub fn service(service: &Service) -> RawService {
    let metadata = service.metadata.clone();
    let spec = service.spec.clone().unwrap_or_default();
    RawService {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid,
        creation_timestamp: metadata.creation_timestamp.map(|time| time.0),
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        ports: ports(&spec),
        service_type: spec.type_,
        load_balancer_class: spec.load_balancer_class,
        load_balancer_ip: spec.load_balancer_ip,
        source_ranges: spec.load_balancer_source_ranges.unwrap_or_default(),
        session_affinity: spec.session_affinity,
        ip_families: spec.ip_families.unwrap_or_default(),
        ingress: ingress(service).iter().map(entry).collect(),
    }
}

fn ports(spec: &ServiceSpec) -> Vec<RawServicePort> {
    let port = |port: &ServicePort| RawServicePort {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: port.port,
        node_port: port.node_port,
    };
    spec.ports.iter().flatten().map(port).collect()
}

fn ingress(service: &Service) -> &[LoadBalancerIngress] {
    service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref())
        .and_then(|balancer| balancer.ingress.as_deref())
        .unwrap_or_default()
}

fn entry(ingress: &LoadBalancerIngress) -> Ingress {
    let LoadBalancerIngress { hostname, ip, ip_mode, ports: _ } = ingress;
    Ingress { ip: ip.clone(), hostname: hostname.clone(), ip_mode: ip_mode.clone() }
}

/// Reduces a Node to what the core reads.
pub fn node(node: &Node) -> RawNode {
    let Node { metadata, spec, status } = node;
    let ObjectMeta {
        name, labels, annotations, uid, creation_timestamp, deletion_timestamp, ..
    } = metadata;
    let provided = annotations.as_ref().and_then(|known| known.get(PROVIDED_NODE_IP_ANNOTATION));
    let spec: Option<&NodeSpec> = spec.as_ref();
    let status: Option<&NodeStatus> = status.as_ref();
    RawNode {
        name: name.clone().unwrap_or_default(),
        deleting: deletion_timestamp.is_some(),
        labels: labels.clone().unwrap_or_default(),
        provider_id: spec.and_then(|spec| spec.provider_id.clone()),
        taints: spec
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default()
            .iter()
            .map(|taint| taint.key.clone())
            .collect(),
        addresses: status
            .and_then(|status| status.addresses.as_deref())
            .unwrap_or_default()
            .iter()
            .map(|address| (address.type_.clone(), address.address.clone()))
            .collect(),
        uid: uid.clone(),
        creation_timestamp: creation_timestamp.as_ref().map(|time| time.0),
        ready: status.and_then(ready),
        provided_node_ip: provided.cloned(),
    }
}

fn ready(status: &NodeStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready").map(|found| found.status.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_of_a_service_arrives() {
        let object: Service = serde_json::from_value(json!({
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "6f1c2a30",
                "creationTimestamp": "2026-12-01T20:41:36Z",
                "deletionTimestamp": "2026-12-01T21:00:00Z",
                "finalizers": ["x/y"], "annotations": {"a": "b"}
            },
            "spec": {
                "type": "LoadBalancer", "loadBalancerClass": "c/d", "loadBalancerIP": "203.0.113.10",
                "loadBalancerSourceRanges": ["10.0.0.0/8"], "sessionAffinity": "ClientIP",
                "ipFamilies": ["IPv4"],
                "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}]
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.10", "ipMode": "VIP"}]}}
        }))
        .unwrap();
        let expected = RawService {
            namespace: "shop".into(),
            name: "web".into(),
            uid: Some("6f1c2a30".into()),
            creation_timestamp: Some("2026-12-01T20:41:36Z".parse().unwrap()),
            deleting: true,
            finalizers: vec!["x/y".into()],
            annotations: [("a".into(), "b".into())].into(),
            service_type: Some("LoadBalancer".into()),
            load_balancer_class: Some("c/d".into()),
            load_balancer_ip: Some("203.0.113.10".into()),
            source_ranges: vec!["10.0.0.0/8".into()],
            session_affinity: Some("ClientIP".into()),
            ip_families: vec!["IPv4".into()],
            ports: vec![RawServicePort {
                name: Some("http".into()),
                protocol: Some("TCP".into()),
                port: 80,
                node_port: Some(30080),
            }],
            ingress: vec![Ingress {
                ip: Some("203.0.113.10".into()),
                hostname: None,
                ip_mode: Some("VIP".into()),
            }],
        };
        assert_eq!(service(&object), expected);
        assert_eq!(service(&Service::default()), RawService::default());
    }

    #[test]
    fn every_field_of_a_node_arrives() {
        let object: Node = serde_json::from_value(json!({
            "metadata": {
                "name": "node-1", "labels": {"a": "b"}, "uid": "7a1c2a30",
                "creationTimestamp": "2026-12-01T20:41:36Z",
                "annotations": {"alpha.kubernetes.io/provided-node-ip": "10.1.1.11"}
            },
            "spec": {
                "providerID": "cloudstack:///u1",
                "taints": [{"key": "k", "effect": "NoSchedule"}]
            },
            "status": {
                "addresses": [{"type": "InternalIP", "address": "10.1.1.11"}],
                "conditions": [
                    {"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}
                ]
            }
        }))
        .unwrap();
        let expected = RawNode {
            name: "node-1".into(),
            deleting: false,
            labels: [("a".into(), "b".into())].into(),
            provider_id: Some("cloudstack:///u1".into()),
            taints: vec!["k".into()],
            addresses: vec![("InternalIP".into(), "10.1.1.11".into())],
            uid: Some("7a1c2a30".into()),
            creation_timestamp: Some("2026-12-01T20:41:36Z".parse().unwrap()),
            ready: Some("Unknown".into()),
            provided_node_ip: Some("10.1.1.11".into()),
        };
        assert_eq!(node(&object), expected);
        assert_eq!(node(&Node::default()), RawNode::default());
    }
}
