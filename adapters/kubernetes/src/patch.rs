//! A planned write to a Service → the body of a JSON merge patch of `services/status`.
//!
//! - One request holds finalizer, annotations and status: the order between them is part of the
//!   plan. The status subresource takes metadata too, so the stock role of the Go framework suffices.
//! - A merge patch replaces a list as a whole. Where the finalizers change, the patch names the
//!   `resourceVersion` it was made from: a list that somebody else changed meanwhile answers 409
//!   instead of losing a finalizer.
//! - It always names the `uid` that was planned for, so that a Service of the same name made since
//!   is never patched.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Map, Value, json};

use ccm_core::ids::ClusterId;
use ccm_core::model::record::{FINALIZER, Verdict};
use ccm_core::model::service::Ingress;
use ccm_core::parse::annotations;
use ccm_core::plan::action::{
    Edit, FinalizerChange, IngressDraft, PatchService, ResolvedAddress, ResolvedPatch,
};

/// The body of the patch. `current` is the Service as it was seen last.
pub fn body(current: &Service, patch: &ResolvedPatch, cluster: &ClusterId) -> Value {
    let metadata = &current.metadata;
    let mut changes = Map::new();
    changes.insert("uid".to_owned(), json!(patch.uid.as_str()));
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    if let Some(list) = patch.finalizer.and_then(|change| finalizers_after(finalizers, change)) {
        changes.insert("finalizers".to_owned(), json!(list));
        if let Some(version) = &metadata.resource_version {
            changes.insert("resourceVersion".to_owned(), json!(version));
        }
    }
    let annotations = annotations_after(patch, cluster);
    if !annotations.is_empty() {
        changes.insert("annotations".to_owned(), json!(annotations));
    }
    let mut body = Map::new();
    body.insert("metadata".to_owned(), Value::Object(changes));
    if let Some(draft) = &patch.ingress {
        let status = json!({ "loadBalancer": { "ingress": ingress(draft) } });
        body.insert("status".to_owned(), status);
    }
    Value::Object(body)
}

/// The finalizers after a change; `None` if it changes nothing.
pub(crate) fn finalizers_after(current: &[String], change: FinalizerChange) -> Option<Vec<String>> {
    let present = current.iter().any(|name| name == FINALIZER);
    match change {
        FinalizerChange::Add if !present => {
            Some(current.iter().cloned().chain([FINALIZER.to_owned()]).collect())
        }
        FinalizerChange::Remove if present => {
            Some(current.iter().filter(|name| *name != FINALIZER).cloned().collect())
        }
        FinalizerChange::Add | FinalizerChange::Remove => None,
    }
}

/// The annotations that a write sets, or removes (`None`).
pub(crate) fn annotations_after(
    patch: &ResolvedPatch,
    cluster: &ClusterId,
) -> BTreeMap<&'static str, Option<String>> {
    let PatchService { service: _, uid, finalizer: _, verdict, intents, record: draft, ingress: _ } =
        patch;
    let mut changes = BTreeMap::new();
    let mut change = |key, text: Edit<String>| match text {
        Edit::Keep => {}
        Edit::Set(text) => _ = changes.insert(key, Some(text)),
        Edit::Remove => _ = changes.insert(key, None),
    };
    change(annotations::VERDICT, verdict.map(|verdict| verdict_text(*verdict).to_owned()));
    change(annotations::INTENT, intents.map(ToString::to_string));
    change(annotations::RECORD, draft.map(|draft| draft.to_record(cluster, uid).to_text()));
    changes
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ours => "true",
        Verdict::User => "false",
    }
}

/// The status that a draft becomes.
pub fn ingress(draft: &IngressDraft<ResolvedAddress>) -> Vec<Ingress> {
    match draft {
        IngressDraft::Empty => Vec::new(),
        IngressDraft::Address { address, ip_mode } => vec![Ingress {
            ip: Some(address.address.to_string()),
            hostname: None,
            ip_mode: Some(ip_mode.as_str().to_owned()),
        }],
        IngressDraft::Hostname(name) => {
            vec![Ingress { ip: None, hostname: Some(name.clone()), ip_mode: None }]
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ccm_core::ids::{LoadBalancerRuleId, PublicIpId, ServiceKey, ServiceUid};
    use ccm_core::model::record::{Intent, Intents, members_digest};
    use ccm_core::model::service::{Port, Transport};
    use ccm_core::plan::action::{AddressDraft, IpMode, MemberDraft, RecordDraft};

    pub(crate) const UID: &str = "6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f";

    pub(crate) fn cluster() -> ClusterId {
        ClusterId::parse("prod").unwrap()
    }

    pub(crate) fn nothing() -> ResolvedPatch {
        PatchService::nothing(ServiceKey::new("shop", "web"), ServiceUid::parse(UID).unwrap())
    }

    pub(crate) fn address() -> ResolvedAddress {
        ResolvedAddress {
            id: PublicIpId::parse("0b332beb-3d9a-4c8c-971b-57079ccdbdcd").unwrap(),
            address: "203.0.113.10".parse().unwrap(),
            allocated: "2026-12-01T20:48:10+0000".to_owned(),
        }
    }

    pub(crate) fn draft() -> RecordDraft<ResolvedAddress, LoadBalancerRuleId> {
        let port = Port { transport: Transport::Tcp, number: 80 };
        let member = MemberDraft {
            rule: LoadBalancerRuleId::parse("60ab8e3f-5327-4dfd").unwrap(),
            digest: members_digest([]),
        };
        RecordDraft {
            addresses: vec![AddressDraft { address: address(), ours: true }],
            openings: [].into(),
            acl: [].into(),
            firewall: None,
            members: [(port, member)].into(),
        }
    }

    fn current(finalizers: &[&str]) -> Service {
        serde_json::from_value(json!({ "metadata": {
            "namespace": "shop", "name": "web", "uid": UID, "resourceVersion": "17",
            "finalizers": finalizers
        }}))
        .unwrap()
    }

    fn text(finalizers: &[&str], patch: &ResolvedPatch) -> String {
        body(&current(finalizers), patch, &cluster()).to_string()
    }

    #[test]
    fn the_first_write_holds_finalizer_and_intent() {
        let uid = ServiceUid::parse(UID).unwrap();
        let patch = PatchService {
            finalizer: Some(FinalizerChange::Add),
            intents: Edit::Set(Intents::from_iter([Intent {
                job: ccm_core::ids::JobId::parse("83ab0ded-0000-4000-8000-000000000001").unwrap(),
                at: "2026-12-01T20:48:10Z".parse().unwrap(),
                service: uid,
            }])),
            ..nothing()
        };
        insta::assert_snapshot!(text(&["foreign/x"], &patch), @r#"{"metadata":{"annotations":{"service.beta.kubernetes.io/cloudstack-load-balancer-ip-intent":"83ab0ded-0000-4000-8000-000000000001 2026-12-01T20:48:10Z 6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f"},"finalizers":["foreign/x","service.kubernetes.io/load-balancer-cleanup"],"resourceVersion":"17","uid":"6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f"}}"#);
    }

    #[test]
    fn a_record_verdict_and_status_go_in_one_write() {
        let patch = PatchService {
            verdict: Edit::Set(Verdict::Ours),
            intents: Edit::Remove,
            record: Edit::Set(draft()),
            ingress: Some(IngressDraft::Address { address: address(), ip_mode: IpMode::Proxy }),
            ..nothing()
        };
        insta::assert_snapshot!(text(&[FINALIZER], &patch), @r#"{"metadata":{"annotations":{"service.beta.kubernetes.io/cloudstack-load-balancer-ip-associated-by-controller":"true","service.beta.kubernetes.io/cloudstack-load-balancer-ip-intent":null,"service.beta.kubernetes.io/cloudstack-load-balancer-record":"{\"v\":1,\"cluster\":\"prod\",\"service\":\"6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f\",\"addresses\":[{\"id\":\"0b332beb-3d9a-4c8c-971b-57079ccdbdcd\",\"allocated\":\"2026-12-01T20:48:10+0000\",\"ours\":true}],\"members\":{\"tcp-80\":\"60ab8e3f:e3b0c44298fc\"}}"},"uid":"6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f"},"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.10","ipMode":"Proxy"}]}}}"#);
    }

    #[test]
    fn leaving_removes_only_our_finalizer_and_annotations() {
        let patch = PatchService {
            finalizer: Some(FinalizerChange::Remove),
            verdict: Edit::Remove,
            record: Edit::Remove,
            ingress: Some(IngressDraft::Empty),
            ..nothing()
        };
        insta::assert_snapshot!(text(&["foreign/x", FINALIZER], &patch), @r#"{"metadata":{"annotations":{"service.beta.kubernetes.io/cloudstack-load-balancer-ip-associated-by-controller":null,"service.beta.kubernetes.io/cloudstack-load-balancer-record":null},"finalizers":["foreign/x"],"resourceVersion":"17","uid":"6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f"},"status":{"loadBalancer":{"ingress":[]}}}"#);
    }

    #[test]
    fn a_finalizer_that_is_as_wanted_is_not_written() {
        let add = PatchService { finalizer: Some(FinalizerChange::Add), ..nothing() };
        let remove = PatchService { finalizer: Some(FinalizerChange::Remove), ..nothing() };
        let only_uid = format!(r#"{{"metadata":{{"uid":"{UID}"}}}}"#);
        assert_eq!(text(&[FINALIZER], &add), only_uid);
        assert_eq!(text(&["foreign/x"], &remove), only_uid);
    }

    #[test]
    fn c050_a_hostname_stands_alone() {
        let patch = PatchService {
            ingress: Some(IngressDraft::Hostname("lb.example.test".to_owned())),
            ..nothing()
        };
        assert!(text(&[], &patch).ends_with(
            r#""status":{"loadBalancer":{"ingress":[{"hostname":"lb.example.test"}]}}}"#
        ));
    }
}
