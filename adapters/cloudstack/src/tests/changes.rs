//! Calls: what goes out, how jobs are followed, what a lost answer proves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::cidr::{CidrSet, Sources};
use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::output::Output;
use ccm_core::ids::{
    FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, NetworkAclListId, NetworkId,
    ProjectId, PublicIpId, ServiceKey, ServiceUid, VirtualMachineId, VpcId,
};
use ccm_core::model::service::{Algorithm, Port, RuleProtocol, Transport};
use ccm_core::plan::action::{
    AclTarget, AssignToLoadBalancerRule, AssociateIpAddress, Call, CreateFirewallRule,
    CreateLoadBalancerRule, CreateNetworkAcl, DeleteFirewallRule, DeleteLoadBalancerRule,
    DeleteNetworkAcl, DisassociateIpAddress, PatchService, Placement, RemoveFromLoadBalancerRule,
    ResolvedAddress, UpdateLoadBalancerRule,
};
use serde_json::json;

use super::support::{
    Reply, Scripted, body, broken, client, failed_job, job, of, ok, refused, unknown,
};
use crate::{TransportErrorKind, WireRequest};

const WITNESS: &str = "0a9d3c1e-4f5b-4c6d-8e7f-001122334455";

fn rule() -> LoadBalancerRuleId {
    LoadBalancerRuleId::parse("r1").unwrap()
}

pub(super) fn address() -> PublicIpId {
    PublicIpId::parse("a1").unwrap()
}

fn port() -> Port {
    Port { transport: Transport::Tcp, number: 443 }
}

fn cidrs(text: &str) -> CidrSet {
    CidrSet::parse_listed(text).unwrap()
}

fn create_rule() -> CreateLoadBalancerRule<PublicIpId> {
    CreateLoadBalancerRule {
        address: address(),
        network: NetworkId::parse("n1").unwrap(),
        name: "web-tcp-443".to_owned(),
        description: "cloudstack-ccm/1 port=tcp-443".to_owned(),
        public_port: 443,
        private_port: 30443,
        protocol: RuleProtocol::TcpProxy,
        algorithm: Algorithm::Source,
        sources: Sources::Everybody,
    }
}

fn associate(placement: Placement) -> AssociateIpAddress {
    AssociateIpAddress {
        placement,
        address: None,
        project: None,
        job: JobId::parse(WITNESS).unwrap(),
        expires: "2026-12-01T20:09:00Z".parse().unwrap(),
    }
}

fn in_network() -> Call {
    Call::AssociateIpAddress(associate(Placement::Network(NetworkId::parse("n1").unwrap())))
}

fn delete_rule() -> Call {
    Call::DeleteLoadBalancerRule(DeleteLoadBalancerRule { rule: rule() })
}

fn assign() -> Call {
    let vms = ["vm-2", "vm-1"].map(|id| VirtualMachineId::parse(id).unwrap());
    Call::AssignToLoadBalancerRule(AssignToLoadBalancerRule {
        rule: rule(),
        vms: BTreeSet::from(vms),
    })
}

fn release() -> Call {
    Call::DisassociateIpAddress(DisassociateIpAddress { address: address() })
}

/// Runs a call against a server; gives its result and what the server was asked.
pub(super) async fn run(
    call: &Call,
    script: impl FnMut(&WireRequest) -> Reply + Send + 'static,
) -> (Result<Output, CallError>, Scripted) {
    let (client, server) = client(script);
    (client.call(call).await, server)
}

/// A server where every command is accepted and every job succeeds at once.
pub(super) fn willing(request: &WireRequest) -> Reply {
    match of(request, "command") {
        "queryAsyncJobResult" => job(1, json!({"jobresult": {"success": true}})),
        "listPublicIpAddresses" => ok(&json!({"count": 1, "publicipaddress": [listed()]})),
        _ => ok(&json!({"id": "a1", "jobid": of(request, "customjobid")})),
    }
}

fn listed() -> serde_json::Value {
    json!({"id": "a1", "ipaddress": "203.0.113.25", "state": "Allocated",
        "allocated": "2026-12-01T20:00:00+0000", "issourcenat": false, "hasrules": true})
}

#[tokio::test(start_paused = true)]
async fn every_call_sends_exactly_its_parameters() {
    for (call, expected) in every_call() {
        let (result, server) = run(&call, willing).await;
        result.unwrap();
        let (_, request) = server.asked().remove(0);
        assert_eq!(of(&request, "command"), call.command());
        let fixed = [
            "command",
            "response",
            "apiKey",
            "signatureversion",
            "expires",
            "signature",
            "customjobid",
        ];
        for name in fixed {
            assert!(!of(&request, name).is_empty(), "{name}");
        }
        assert_eq!(of(&request, "signatureversion"), "3");
        let mut sent: Vec<String> = request
            .params
            .iter()
            .filter(|(name, _)| !fixed.contains(&name.as_str()))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        sent.sort();
        assert_eq!(sent.join(" "), expected, "{}", call.command());
    }
}

/// Each command, and what it sends besides the parameters that all have.
fn every_call() -> Vec<(Call, String)> {
    let lists = NetworkAclListId::parse("l1").unwrap();
    let vpc = AssociateIpAddress {
        address: Some("203.0.113.25".parse().unwrap()),
        project: Some(ProjectId::parse("p1").unwrap()),
        ..associate(Placement::Vpc(VpcId::parse("v1").unwrap()))
    };
    let restricted = CreateLoadBalancerRule {
        sources: Sources::Only(cidrs("192.0.2.0/24,10.0.0.0/8")),
        ..create_rule()
    };
    let update = UpdateLoadBalancerRule {
        rule: rule(),
        protocol: RuleProtocol::Tcp,
        name: None,
        description: None,
        algorithm: None,
        sources: None,
    };
    let full_update = UpdateLoadBalancerRule {
        name: Some("n".to_owned()),
        description: Some("d".to_owned()),
        algorithm: Some(Algorithm::RoundRobin),
        sources: Some(Sources::Everybody),
        ..update.clone()
    };
    let vms = BTreeSet::from([VirtualMachineId::parse("vm-1").unwrap()]);
    let item = CreateNetworkAcl {
        target: AclTarget::List(lists.clone()),
        port: port(),
        number: Some(7),
        reason: "why".to_owned(),
    };
    let tier = CreateNetworkAcl {
        target: AclTarget::Network(NetworkId::parse("n1").unwrap()),
        number: None,
        ..item.clone()
    };
    let base = "algorithm=source description=cloudstack-ccm/1 port=tcp-443 name=web-tcp-443 networkid=n1 openfirewall=false privateport=30443 protocol=tcp-proxy publicipid=a1 publicport=443";
    let item_base = "aclid=l1 action=Allow cidrlist=0.0.0.0/0 endport=443 number=7 protocol=tcp reason=why startport=443 traffictype=Ingress";
    vec![
        (in_network(), "networkid=n1".into()),
        (Call::AssociateIpAddress(vpc), "ipaddress=203.0.113.25 projectid=p1 vpcid=v1".into()),
        (release(), "id=a1".into()),
        (Call::CreateLoadBalancerRule(create_rule()), base.into()),
        (
            Call::CreateLoadBalancerRule(restricted),
            base.replace(" description", " cidrlist=10.0.0.0/8,192.0.2.0/24 description"),
        ),
        (Call::UpdateLoadBalancerRule(update), "id=r1 protocol=tcp".into()),
        (
            Call::UpdateLoadBalancerRule(full_update),
            "algorithm=roundrobin cidrlist= description=d id=r1 name=n protocol=tcp".into(),
        ),
        (delete_rule(), "id=r1".into()),
        (assign(), "id=r1 virtualmachineids=vm-1,vm-2".into()),
        (
            Call::RemoveFromLoadBalancerRule(RemoveFromLoadBalancerRule { rule: rule(), vms }),
            "id=r1 virtualmachineids=vm-1".into(),
        ),
        (
            Call::CreateFirewallRule(CreateFirewallRule {
                address: address(),
                port: port(),
                cidrs: cidrs("192.0.2.0/24,10.0.0.0/8"),
                trial: None,
            }),
            "cidrlist=10.0.0.0/8,192.0.2.0/24 endport=443 ipaddressid=a1 protocol=tcp startport=443"
                .into(),
        ),
        (
            Call::DeleteFirewallRule(DeleteFirewallRule {
                rule: FirewallRuleId::parse("f1").unwrap(),
                port: port(),
                cidrs: CidrSet::everybody(),
            }),
            "id=f1".into(),
        ),
        (Call::CreateNetworkAcl(item), item_base.into()),
        (
            Call::CreateNetworkAcl(tier),
            item_base
                .replace("aclid=l1 ", "")
                .replace("number=7", "networkid=n1"),
        ),
        (
            Call::DeleteNetworkAcl(DeleteNetworkAcl {
                item: NetworkAclItemId::parse("i1").unwrap(),
                list: lists,
                port: port(),
            }),
            "id=i1".into(),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_job() {
    let mut polls = 0;
    let (result, server) =
        run(&Call::CreateLoadBalancerRule(create_rule()), move |request| {
            match of(request, "command") {
                "queryAsyncJobResult" if polls < 3 => {
                    polls += 1;
                    job(0, json!({}))
                }
                "queryAsyncJobResult" => {
                    job(1, json!({"jobresult": {"loadbalancer": {"id": "r9"}}}))
                }
                _ => ok(&json!({"id": "r9", "jobid": "its-own-id"})),
            }
        })
        .await;
    let id = LoadBalancerRuleId::parse("r9").unwrap();
    assert_eq!(result, Ok(Output::LoadBalancerRule(id)));
    assert_eq!(server.count("queryAsyncJobResult"), 4);
    let asked = server.asked();
    assert_eq!(of(&asked[1].1, "jobid"), "its-own-id");
    assert_eq!(of(&asked[0].1, "expires"), "2026-12-01T20:10:00+0000");
}

#[tokio::test(start_paused = true)]
async fn an_address_is_read_again_after_its_job() {
    let mut reads = 0;
    let (result, server) = run(&in_network(), move |request| match of(request, "command") {
        // Not listed at first: its state lags.
        "listPublicIpAddresses" if reads < 3 => {
            reads += 1;
            ok(&json!({}))
        }
        _ => willing(request),
    })
    .await;
    assert_eq!(
        result,
        Ok(Output::Address(ResolvedAddress {
            id: address(),
            address: "203.0.113.25".parse().unwrap(),
            allocated: "2026-12-01T20:00:00+0000".to_owned(),
        }))
    );
    let (_, request) = server.asked().remove(0);
    assert_eq!(of(&request, "customjobid"), WITNESS);
    assert_eq!(of(&request, "expires"), "2026-12-01T20:09:00+0000");
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_never_listed_took_effect_all_the_same() {
    let (result, _) = run(&in_network(), |request| match of(request, "command") {
        "listPublicIpAddresses" => ok(&json!({})),
        _ => willing(request),
    })
    .await;
    assert_eq!(result.unwrap_err().effect, Effect::Yes);
}

#[tokio::test(start_paused = true)]
async fn an_intent_whose_time_is_over_is_not_sent() {
    let late = AssociateIpAddress {
        expires: "2026-12-01T19:59:59Z".parse().unwrap(),
        ..associate(Placement::Network(NetworkId::parse("n1").unwrap()))
    };
    let (result, server) = run(&Call::AssociateIpAddress(late), willing).await;
    assert_eq!(result.unwrap_err().effect, Effect::No);
    assert!(server.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn c109_a_lost_answer_is_settled_by_the_job_that_we_named() {
    let lost: [fn() -> Reply; 6] = [
        || ok(&json!({})),
        || broken(TransportErrorKind::Timeout, true),
        || broken(TransportErrorKind::Broken, true),
        || body(200, ""),
        || body(502, "<html>Bad Gateway</html>"),
        || body(200, "{\"createloadbalancerruleresponse\":{\"id\":"),
    ];
    for lost in lost {
        let mut polls = 0;
        let call = Call::CreateLoadBalancerRule(create_rule());
        let (result, server) = run(&call, move |request| match of(request, "command") {
            "queryAsyncJobResult" => {
                polls += 1;
                match polls {
                    // Not known while the request is under way: proves nothing.
                    1..=3 => unknown("jobid", of(request, "jobid")),
                    4 => job(0, json!({})),
                    _ => job(1, json!({"jobinstanceid": "r9"})),
                }
            }
            _ => lost(),
        })
        .await;
        let id = LoadBalancerRuleId::parse("r9").unwrap();
        assert_eq!(result, Ok(Output::LoadBalancerRule(id)));
        let asked = server.asked();
        assert_eq!(of(&asked[0].1, "customjobid"), of(&asked[1].1, "jobid"));
        assert_eq!(server.count("createLoadBalancerRule"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_arrived_leaves_its_effect_unknown() {
    let (result, server) = run(&assign(), |request| match of(request, "command") {
        "queryAsyncJobResult" => unknown("jobid", of(request, "jobid")),
        _ => broken(TransportErrorKind::Broken, true),
    })
    .await;
    let error = result.unwrap_err();
    assert_eq!((error.effect, error.fault), (Effect::Unknown, Fault::Transient));
    assert!(error.message.contains("reset"), "{error}");
    assert_eq!(server.count("assignToLoadBalancerRule"), 1);
    let end = server.asked().last().unwrap().0;
    assert!(end >= Duration::from_mins(2) && end < Duration::from_mins(3), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_was_changed_nothing() {
    for kind in [TransportErrorKind::Connect, TransportErrorKind::Tls] {
        let (result, server) = run(&delete_rule(), move |_| broken(kind, false)).await;
        let error = result.unwrap_err();
        assert_eq!((error.effect, error.fault), (Effect::No, Fault::Transient));
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_a_setting_to_correct() {
    let (result, server) =
        run(&delete_rule(), |_| broken(TransportErrorKind::Redirect, true)).await;
    let error = result.unwrap_err();
    assert_eq!((error.effect, error.fault), (Effect::No, Fault::Refused));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_vanishes_or_never_ends_is_unknown_after_ten_minutes() {
    for vanishes in [true, false] {
        let mut polls = 0;
        let (result, server) = run(&delete_rule(), move |request| match of(request, "command") {
            "queryAsyncJobResult" => {
                polls += 1;
                if vanishes && polls > 2 {
                    unknown("jobid", of(request, "jobid"))
                } else {
                    job(0, json!({}))
                }
            }
            _ => willing(request),
        })
        .await;
        let error = result.unwrap_err();
        assert_eq!((error.effect, error.fault), (Effect::Unknown, Fault::Cloud));
        let end = server.asked().last().unwrap().0;
        assert!(end >= Duration::from_mins(10) && end < Duration::from_mins(11), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn polling_survives_a_server_that_restarts() {
    let mut polls = 0;
    let (result, _) = run(&delete_rule(), move |request| match of(request, "command") {
        "queryAsyncJobResult" => {
            polls += 1;
            match polls {
                1 => broken(TransportErrorKind::Connect, false),
                2 => body(503, "<html>starting</html>"),
                3 => body(200, ""),
                _ => job(2, json!({"jobresultcode": 530, "managementserverid": "m"})),
            }
        }
        _ => willing(request),
    })
    .await;
    let error = result.unwrap_err();
    assert_eq!((error.code, error.effect), (Some(530), Effect::Unknown));
    assert_eq!(error.fault, Fault::Transient);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_may_not_be_followed_is_unknown_at_once() {
    let (result, server) = run(&delete_rule(), |request| match of(request, "command") {
        "queryAsyncJobResult" => refused(432, "The API [queryAsyncJobResult] does not exist"),
        _ => willing(request),
    })
    .await;
    let error = result.unwrap_err();
    assert_eq!((error.effect, error.fault), (Effect::Unknown, Fault::Permission));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn c060_what_is_gone_counts_as_deleted() {
    let firewall = Call::DeleteFirewallRule(DeleteFirewallRule {
        rule: FirewallRuleId::parse("f1").unwrap(),
        port: port(),
        cidrs: CidrSet::everybody(),
    });
    let (result, server) =
        run(&firewall, |_| refused(431, "Unable to find firewall rule by ID=86")).await;
    assert_eq!((result, server.asked().len()), (Ok(Output::Done), 1));

    let (result, _) = run(&delete_rule(), |request| unknown("id", of(request, "id"))).await;
    assert_eq!(result, Ok(Output::Done));

    let (result, _) = run(&delete_rule(), |request| match of(request, "command") {
        "queryAsyncJobResult" => failed_job(431, "Unable to find load balancer rule: 4"),
        _ => willing(request),
    })
    .await;
    assert_eq!(result, Ok(Output::Done));

    // A member that can't be assigned to a rule that is gone is not there.
    let (result, _) = run(&assign(), |request| match of(request, "command") {
        "queryAsyncJobResult" => failed_job(431, "Unable to find load balancer rule: 4"),
        _ => willing(request),
    })
    .await;
    assert_eq!(result.unwrap_err().fault, Fault::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_done_if_the_address_is_not_held_any_more() {
    let generic = "Internal error executing command, please contact your system administrator";
    let (result, server) = run(&release(), move |request| match of(request, "command") {
        "listPublicIpAddresses" => ok(&json!({})),
        _ => refused(530, generic),
    })
    .await;
    assert_eq!(result, Ok(Output::Done));
    assert!(server.count("listPublicIpAddresses") > 1);

    let (result, _) = run(&release(), move |request| match of(request, "command") {
        "listPublicIpAddresses" => willing(request),
        _ => refused(530, generic),
    })
    .await;
    let error = result.unwrap_err();
    assert_eq!((error.code, error.effect), (Some(530), Effect::Unknown));
}

#[tokio::test(start_paused = true)]
async fn refusals_and_failures_say_what_they_changed() {
    let create = Call::CreateLoadBalancerRule(create_rule());
    let (result, _) =
        run(&create, |_| refused(537, "The range specified, 443-443, conflicts with rule x")).await;
    let error = result.unwrap_err();
    assert_eq!((error.code, error.fault, error.effect), (Some(537), Fault::Refused, Effect::No));
    assert_eq!(
        error.to_string(),
        "createLoadBalancerRule: refused with 537: The range specified, 443-443, conflicts with rule x"
    );

    let (result, _) = run(&in_network(), |_| {
        refused(532, "Maximum number of public IP addresses for account: x has been exceeded.")
    })
    .await;
    let error = result.unwrap_err();
    assert_eq!((error.fault, error.effect), (Fault::Quota, Effect::No));

    let (result, _) = run(&in_network(), |request| match of(request, "command") {
        "queryAsyncJobResult" => failed_job(530, "Failed to associate IP address"),
        _ => willing(request),
    })
    .await;
    let error = result.unwrap_err();
    assert_eq!((error.fault, error.effect), (Fault::Quota, Effect::Unknown));
}

/// An assign that takes longer than we wait for it.
#[tokio::test(start_paused = true)]
async fn c083_nothing_is_sent_beside_a_job_that_goes_on() {
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let (client, server) = client(move |request| match of(request, "command") {
        "queryAsyncJobResult" if !ended.load(Ordering::Relaxed) => job(0, json!({})),
        _ => willing(request),
    });
    let slow = client.call(&assign()).await.unwrap_err();
    assert_eq!(slow.effect, Effect::Unknown);
    for call in [assign(), delete_rule()] {
        let error = client.call(&call).await.unwrap_err();
        assert_eq!((error.fault, error.effect), (Fault::Transient, Effect::No));
    }
    assert_eq!(server.count("assignToLoadBalancerRule"), 1);
    assert_eq!(server.count("deleteLoadBalancerRule"), 0);
    over.store(true, Ordering::Relaxed);
    // Other objects are not held up.
    assert_eq!(client.call(&release()).await, Ok(Output::Done));
    // It has ended: the object is read again before anything is sent.
    let error = client.call(&delete_rule()).await.unwrap_err();
    assert_eq!(error.effect, Effect::Unknown);
    assert_eq!(client.call(&delete_rule()).await, Ok(Output::Done));
}

#[tokio::test(start_paused = true)]
async fn a_kubernetes_write_is_a_bug_here() {
    let service = ServiceKey::new("default", "web");
    let uid = ServiceUid::parse("u1").unwrap();
    let call = Call::PatchService(PatchService::nothing(service, uid));
    let (result, server) = run(&call, willing).await;
    assert_eq!(result.unwrap_err().fault, Fault::Bug);
    assert!(server.asked().is_empty());
}
