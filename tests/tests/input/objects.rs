//! Services and Nodes as the API server sends them, and what we wrote on them, tampered with.

use std::sync::LazyLock;

use ccm_core::model::Learned;
use ccm_core::observe::index::Observed;
use ccm_core::observe::scope::Scope;
use ccm_core::parse::annotations;
use ccm_core::parse::raw::RawService;
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::render::document::Document;
use ccm_core::render::human::{self, Colour};
use ccm_kubernetes::convert;
use ccm_tests::garble::{garble, garbles};
use ccm_tests::lab::{Setup, annotation, block_on};
use cloudstack_ccm::driver;
use cloudstack_ccm::ports::Cluster as _;
use cloudstack_ccm::saved::Snapshot;
use k8s_openapi::api::core::v1::{Node, Service};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::{cases, changed, changes};

/// A Service that is served, and all around it.
static SERVED: LazyLock<Snapshot> = LazyLock::new(|| {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |service| {
        service.source_ranges = vec!["198.51.100.0/24".to_owned()];
    });
    lab.converge(&web);
    let objects = block_on(lab.cluster.read()).expect("objects");
    let desired = driver::desire(&objects, &lab.policy, Learned::default());
    let state = driver::observe_state(&lab.client, &desired, &lab.policy, Depth::Thorough);
    Snapshot::new(lab.policy.clone(), objects, block_on(state).expect("a state"))
});

/// The events and the plan of the Service as it is now.
fn told(edit: impl FnOnce(&mut Snapshot)) -> String {
    let mut snapshot = SERVED.clone();
    edit(&mut snapshot);
    let Snapshot { policy, objects, cloud, .. } = &snapshot;
    let desired = driver::desire(objects, policy, Learned::default());
    let observed = Observed::new(cloud.clone());
    let planner = Planner::new(&desired, &observed, policy, cloud.at);
    let plans = driver::plan_all(&planner).expect("a plan of whatever people write");
    let document = Document::new(&planner, &plans, "test");
    let events = plans.iter().flat_map(|plan| ccm_core::event::of_report(&plan.report));
    let events: Vec<String> = events.map(|event| format!("{event:?}")).collect();
    format!("{}{}", human::print(&document, Colour::Never), events.join("\n"))
}

fn service(snapshot: &mut Snapshot) -> &mut RawService {
    snapshot.objects.services.first_mut().expect("the Service")
}

fn service_json() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": "shop", "name": "web", "uid": SERVED.objects.services[0].uid,
            "creationTimestamp": "2026-12-01T20:41:36Z", "finalizers": ["a/b"],
            "annotations": SERVED.objects.services[0].annotations,
        },
        "spec": {
            "type": "LoadBalancer", "loadBalancerIP": "203.0.113.10", "sessionAffinity": "ClientIP",
            "loadBalancerSourceRanges": ["10.0.0.0/8"], "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}]
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.10", "ipMode": "VIP"}]}}
    })
}

fn node_json() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "node-1", "uid": "7a1c2a30", "creationTimestamp": "2026-12-01T20:41:36Z",
            "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "false"},
            "annotations": {"alpha.kubernetes.io/provided-node-ip": "10.1.1.11"}
        },
        "spec": {"providerID": "cloudstack:///u1", "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.1.1.11"}],
            "conditions": [{"type": "Ready", "status": "Unknown"}]
        }
    })
}

#[test]
fn huge_annotations_give_short_texts_and_few_questions() {
    // What the API server takes.
    let size = 256 << 10;
    let uid = SERVED.objects.services[0].uid.clone().unwrap();
    let intent = format!("83ab0ded-0000-4000-8000-000000000001 2026-12-01T20:48:10Z {uid}, ");
    let address = r#"{"id":"a","allocated":"","ours":true},"#.repeat(5_000);
    let record = format!(
        r#"{{"v":1,"cluster":"c","service":"{uid}","addresses":[{}]}}"#,
        address.trim_end_matches(',')
    );
    let deep = format!(r#"{{"v":1,"cluster":{}"#, "[".repeat(size));
    let intents = intent.repeat(size / intent.len());
    for (key, value) in [
        (annotations::SOURCE_CIDRS, ",".repeat(size)),
        (annotations::SOURCE_CIDRS, "x".repeat(size)),
        (annotations::HOSTNAME, "a.".repeat(size / 2)),
        (annotations::ADDRESS, "1".repeat(size)),
        (annotations::PROXY_PROTOCOL, "true".repeat(size / 4)),
        (annotations::VERDICT, "é".repeat(size / 2)),
        (annotations::RECORD, record),
        (annotations::RECORD, deep),
        (annotations::INTENT, intents.trim_end_matches(", ").to_owned()),
        (annotations::FORK_ID, "x".repeat(size)),
    ] {
        let annotate = |snapshot: &mut Snapshot| {
            service(snapshot).annotations.insert(key.to_owned(), value.clone());
        };
        let text = told(annotate);
        assert!(text.contains(key), "{key} is not named:\n{text}");
        assert!(text.len() < 12_000, "{key}: {} characters", text.len());
        let mut snapshot = SERVED.clone();
        annotate(&mut snapshot);
        let desired = driver::desire(&snapshot.objects, &snapshot.policy, Learned::default());
        let Scope { jobs, address_ids, addresses, .. } = Scope::new(&desired, &snapshot.policy);
        assert!(jobs.len() + address_ids.len() + addresses.len() < 200, "{key}");
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_changed_service_is_planned_or_refused(changes in changes()) {
        let json = changed(&service_json(), &changes);
        match serde_json::from_value::<Service>(json) {
            Ok(object) => {
                told(|snapshot| *service(snapshot) = convert::service(&object));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn a_changed_node_is_planned_or_refused(changes in changes()) {
        let json = changed(&node_json(), &changes);
        if let Ok(object) = serde_json::from_value::<Node>(json) {
            told(|snapshot| snapshot.objects.nodes[0] = convert::node(&object));
        }
    }

    #[test]
    fn objects_of_garbled_bytes_are_read_or_refused(changes in garbles()) {
        let bytes = garble(service_json().to_string().as_bytes(), &changes);
        if let Ok(object) = serde_json::from_slice::<Service>(&bytes) {
            told(|snapshot| *service(snapshot) = convert::service(&object));
        }
        let bytes = garble(node_json().to_string().as_bytes(), &changes);
        if let Ok(object) = serde_json::from_slice::<Node>(&bytes) {
            told(|snapshot| snapshot.objects.nodes[0] = convert::node(&object));
        }
    }

    /// What we wrote, tampered with: it is understood, or counts as absent and is told.
    #[test]
    fn tampered_annotations_are_planned_or_refused(
        changes in garbles(),
        which in select(vec!["record", "ip-associated-by-controller", "ip-intent", "id"]),
    ) {
        let key = annotation(which);
        let text = told(|snapshot| {
            let uid = service(snapshot).uid.clone().unwrap_or_default();
            let annotations = &mut service(snapshot).annotations;
            let fresh = format!("83ab0ded-0000-4000-8000-000000000001 2026-12-01T20:48:10Z {uid}");
            let value = annotations.get(&key).cloned().unwrap_or(fresh);
            let bytes = garble(value.as_bytes(), &changes);
            annotations.insert(key.clone(), String::from_utf8_lossy(&bytes).into_owned());
        });
        prop_assert!(text.len() < 20_000, "{text}");
    }
}
