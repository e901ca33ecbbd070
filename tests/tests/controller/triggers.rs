//! Which fields of a Service of Kubernetes bring it up: two versions that differ in one field, as a
//! watch hands them over.

use ccm_core::ids::ClusterId;
use ccm_core::parse::ParseContext;
use ccm_core::trigger::{Trigger, Triggers};
use ccm_kubernetes::convert;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

fn service() -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f",
            "labels": {"app": "web"}, "annotations": {},
        },
        "spec": {
            "type": "LoadBalancer", "selector": {"app": "web"},
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            "externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Cluster",
            "internalTrafficPolicy": "Cluster", "healthCheckNodePort": 32000,
            "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
            "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"],
            "publishNotReadyAddresses": false, "allocateLoadBalancerNodePorts": true,
            "ports": [{
                "name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080,
                "targetPort": 8080, "appProtocol": "http",
            }],
        },
    })
}

/// What a watch makes of the Service once the field at a JSON pointer is another.
fn trigger_of(pointer: &str, value: Value) -> Option<Trigger> {
    let read = |object: Value| {
        let object: Service = serde_json::from_value(object).expect("a Service");
        convert::service(&object)
    };
    let mut changed = service();
    let field = changed.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}"));
    assert_ne!(*field, value, "{pointer} is the same");
    *field = value;
    let cluster_id = ClusterId::parse("prod").expect("a cluster id");
    let mut triggers = Triggers::new(ParseContext { cluster_id });
    let now = Timestamp::UNIX_EPOCH;
    assert_eq!(triggers.handle_seen(&read(service()), "10", now), Some(Trigger::New));
    triggers.handle_seen(&read(changed), "11", now)
}

#[test]
fn fields_that_a_plan_depends_on_bring_a_service_up() {
    for (row, pointer, value) in [
        ("1.4-3", "/spec/ports/0/name", json!("web")),
        ("1.4-3", "/spec/ports/0/protocol", json!("UDP")),
        ("1.4-3", "/spec/ports/0/port", json!(81)),
        ("1.4-3", "/spec/ports/0/nodePort", json!(30081)),
        ("1.4-4", "/spec/sessionAffinity", json!("None")),
        ("1.4-9", "/metadata/uid", json!("7f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f")),
        ("1.4-12", "/spec/ipFamilies", json!(["IPv4", "IPv6"])),
    ] {
        assert_eq!(trigger_of(pointer, value), Some(Trigger::Changed), "{row}: {pointer}");
    }
}

#[test]
fn fields_that_no_plan_depends_on_bring_nothing_up() {
    for (row, pointer, value) in [
        ("1.4-3", "/spec/ports/0/targetPort", json!("http")),
        ("1.4-3", "/spec/ports/0/appProtocol", json!("h2c")),
        ("1.4-5", "/spec/sessionAffinityConfig/clientIP/timeoutSeconds", json!(60)),
        ("1.4-7", "/spec/externalIPs", json!(["192.0.2.1", "192.0.2.2"])),
        ("1.4-10", "/spec/externalTrafficPolicy", json!("Local")),
        ("1.4-11", "/spec/healthCheckNodePort", json!(32001)),
        ("1.4-rest", "/spec/selector", json!({"app": "api"})),
        ("1.4-rest", "/metadata/labels", json!({"app": "api"})),
        ("1.4-rest", "/spec/internalTrafficPolicy", json!("Local")),
        ("1.4-rest", "/spec/clusterIPs", json!(["10.96.0.11"])),
        ("1.4-rest", "/spec/ipFamilyPolicy", json!("PreferDualStack")),
        ("1.4-rest", "/spec/publishNotReadyAddresses", json!(true)),
        ("1.4-rest", "/spec/allocateLoadBalancerNodePorts", json!(false)),
    ] {
        assert_eq!(trigger_of(pointer, value), None, "{row}: {pointer}");
    }
}
