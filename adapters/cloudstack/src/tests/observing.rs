//! Observation with each role, and the odd corners of lists.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::exec::error::{Effect, Fault};
use ccm_core::ids::{JobId, LoadBalancerRuleId, ProjectId, PublicIpId, VirtualMachineId};
use ccm_core::observe::scope::Scope;
use ccm_core::observe::{AddressState, AssociateJob, Listing, RuleState};
use ccm_core::version::Version;
use serde_json::{Value, json};

use super::support::{Reply, body, client, failed_job, job, of, ok, refused, unknown};
use crate::WireRequest;

fn address(id: &str, ip: &str, state: &str) -> Value {
    json!({"id": id, "ipaddress": ip, "state": state, "allocated": "2026-12-01T20:00:00+0000"})
}

fn tier() -> Value {
    json!({"count": 1, "network": [
        {"id": "n1", "name": "tier", "type": "Isolated", "vpcid": "v1", "aclid": "l1"}]})
}

fn item() -> Value {
    json!({"id": "i1", "aclid": "l1", "protocol": "tcp", "startport": "443", "endport": "443",
        "cidrlist": "0.0.0.0/0", "traffictype": "Ingress", "action": "Allow", "number": 1,
        "state": "Active"})
}

/// "Project Kubernetes Service Role": what it may not call is refused with 432.
fn restricted(request: &WireRequest) -> Reply {
    match of(request, "command") {
        "listCapabilities" | "listVPCs" | "listNetworkACLLists" | "listZones" => {
            refused(432, "The API [x] does not exist or is not available for the account y.")
        }
        "listNetworks" if of(request, "response") == "xml" => body(
            200,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><listnetworksresponse cloud-stack-version=\"4.23.0.0-SNAPSHOT\"><count>1</count></listnetworksresponse>",
        ),
        "listNetworks" => ok(&tier()),
        "listNetworkACLs" => ok(&json!({"count": 1, "networkacl": [item()]})),
        _ => ok(&json!({})),
    }
}

#[tokio::test(start_paused = true)]
async fn c003_c004_the_restricted_project_role_sees_all_that_it_may() {
    let (client, server) = client(restricted);
    let scope = Scope { project: Some(ProjectId::parse("p1").unwrap()), ..Scope::default() };
    let state = client.observe(&scope).await.unwrap();
    assert_eq!(state.capabilities.version, Some(Version::new(4, 23, 0)));
    assert_eq!((&state.vpcs, &state.acl_lists), (&Listing::Denied, &Listing::Denied));
    assert_eq!(state.acl_items.listed().unwrap().len(), 1);
    let denied: Vec<&str> = state.capabilities.denied.iter().map(String::as_str).collect();
    assert_eq!(denied, ["listCapabilities", "listNetworkACLLists", "listVPCs"]);
    for (_, request) in server.asked() {
        let command = of(&request, "command");
        let scoped = command != "listCapabilities" && of(&request, "response") == "json";
        if scoped {
            assert_eq!(of(&request, "projectid"), "p1", "{command}");
            assert_eq!(of(&request, "listall"), "true", "{command}");
            assert!(!of(&request, "page").is_empty() && !of(&request, "pagesize").is_empty());
        }
    }
    client.observe(&scope).await.unwrap();
    assert_eq!(server.count("listVPCs"), 1);
    tokio::time::sleep(Duration::from_hours(1)).await;
    client.observe(&scope).await.unwrap();
    assert_eq!(server.count("listVPCs"), 2);
    assert_eq!(server.count("listCapabilities"), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_role_denies_as_if_the_key_were_wrong_is_told_from_a_wrong_key() {
    let text = "unable to verify user credentials and/or request signature";
    for (release, denies) in [("4.16.1.0", true), ("4.17.2.0", true), ("4.18.0.0", false)] {
        let attribute = format!("<listnetworksresponse cloud-stack-version=\"{release}\"/>");
        let (client, server) = client(move |request| match of(request, "command") {
            "listCapabilities" => refused(432, "not available"),
            "listVPCs" | "listNetworkACLLists" => refused(401, text),
            "listNetworks" if of(request, "response") == "xml" => body(200, &attribute),
            _ => restricted(request),
        });
        let seen = client.observe(&Scope::default()).await;
        assert_eq!(seen.is_ok(), denies, "{release}");
        if let Ok(state) = seen {
            assert_eq!((state.vpcs, state.acl_lists), (Listing::Denied, Listing::Denied));
            client.observe(&Scope::default()).await.unwrap();
            assert_eq!(server.count("listVPCs"), 1, "it is remembered");
        }
    }
    for (release, denies) in [("4.17.2.0", true), ("4.23.0.0", false)] {
        let attribute = format!("<listnetworksresponse cloud-stack-version=\"{release}\"/>");
        let (client, _) = client(move |request| match of(request, "command") {
            "listCapabilities" => refused(401, text),
            "listNetworks" if of(request, "response") == "xml" => body(200, &attribute),
            _ => restricted(request),
        });
        assert_eq!(client.discover().await.is_ok(), denies, "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_key_is_no_denial() {
    let (client, _) =
        client(|_| refused(401, "unable to verify user credentials and/or request signature"));
    let error = client.discover().await.unwrap_err();
    assert_eq!((error.fault, error.effect), (Fault::Permission, Effect::No));
    assert!(error.message.contains("clocks"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_may_hide_its_version() {
    let (client, _) = client(|request| match of(request, "response") {
        "xml" => body(200, "<listnetworksresponse></listnetworksresponse>"),
        _ => ok(&json!({"capability": {"supportELB": "false"}})),
    });
    assert_eq!(client.discover().await.unwrap().version, None);
}

#[tokio::test(start_paused = true)]
async fn without_a_tier_no_acl_is_read() {
    let (client, server) = client(|_| ok(&json!({})));
    let state = client.observe(&Scope::default()).await.unwrap();
    assert_eq!(state.acl_lists, Listing::Listed(Vec::new()));
    assert_eq!(server.count("listNetworkACLLists") + server.count("listNetworkACLs"), 0);
    assert_eq!(server.asked().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_acl_item_elsewhere_does_not_stop_the_observation() {
    let (client, _) = client(|request| match of(request, "command") {
        "listNetworkACLs" if of(request, "aclid").is_empty() => refused(530, "Internal error"),
        _ => restricted(request),
    });
    let state = client.observe(&Scope::default()).await.unwrap();
    assert_eq!(state.acl_items.listed().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn hidden_addresses_are_asked_for_only_if_one_is_missing() {
    let script = |request: &WireRequest| match of(request, "command") {
        "listPublicIpAddresses" => {
            let rows = match (of(request, "state"), of(request, "ipaddress")) {
                ("Releasing", _) => vec![address("a2", "203.0.113.26", "Releasing")],
                ("", "203.0.113.78") => {
                    assert_eq!(of(request, "allocatedonly"), "false");
                    vec![json!({"id": "a0", "ipaddress": "203.0.113.78", "state": "Free"})]
                }
                ("", "") => vec![address("a1", "203.0.113.25", "Allocated")],
                _ => Vec::new(),
            };
            super::support::page_of(request, "publicipaddress", &rows)
        }
        _ => ok(&json!({})),
    };
    let id = |text| PublicIpId::parse(text).unwrap();
    let (client, server) = client(script);
    let mut scope = Scope {
        addresses: BTreeSet::from([Ipv4Addr::new(203, 0, 113, 78), Ipv4Addr::new(203, 0, 113, 25)]),
        address_ids: BTreeSet::from([id("a1")]),
        ..Scope::default()
    };
    let state = client.observe(&scope).await.unwrap();
    let ids: Vec<&str> = state.addresses.iter().map(|address| address.id.as_str()).collect();
    assert_eq!(ids, ["a0", "a1"]);
    assert_eq!(server.count("listPublicIpAddresses"), 2);

    scope.address_ids.insert(id("a2"));
    let state = client.observe(&scope).await.unwrap();
    let ids: Vec<&str> = state.addresses.iter().map(|address| address.id.as_str()).collect();
    assert_eq!(ids, ["a0", "a1", "a2"]);
    assert_eq!(server.count("listPublicIpAddresses"), 6);
}

/// A Service that was just made: an intent, and no address yet.
#[tokio::test(start_paused = true)]
async fn the_address_that_a_failed_job_left_is_seen() {
    let (client, server) = client(|request| match of(request, "command") {
        "queryAsyncJobResult" => job(2, json!({"jobresultcode": 530, "jobinstanceid": "a2"})),
        "listPublicIpAddresses" => {
            let rows = match of(request, "state") {
                "" => vec![address("a1", "203.0.113.25", "Allocated")],
                "Allocating" => vec![address("a2", "203.0.113.26", "Allocating")],
                _ => Vec::new(),
            };
            super::support::page_of(request, "publicipaddress", &rows)
        }
        _ => ok(&json!({})),
    });
    let job = JobId::parse("failed").unwrap();
    let scope = Scope { jobs: BTreeSet::from([job.clone()]), ..Scope::default() };
    let state = client.observe(&scope).await.unwrap();
    let left = PublicIpId::parse("a2").unwrap();
    assert_eq!(state.jobs[&job], AssociateJob::Failed(Some(left.clone())));
    let found = state.addresses.iter().find(|address| address.id == left);
    assert_eq!(found.map(|address| address.state), Some(AddressState::Allocating));
    assert_eq!(server.count("listPublicIpAddresses"), 3);
}

/// An address that a job made is in the list, since the list is newer than the job's end.
#[tokio::test(start_paused = true)]
async fn jobs_are_read_before_addresses() {
    let associated = Arc::new(AtomicBool::new(false));
    let (client, server) = client(move |request| match of(request, "command") {
        // The first list that comes after this shows the address.
        "queryAsyncJobResult" => {
            associated.store(true, Ordering::Relaxed);
            job(1, json!({"jobresult": {"ipaddress": {"id": "a1", "state": "Allocating"}}}))
        }
        "listPublicIpAddresses" => {
            let there = of(request, "state").is_empty() && associated.load(Ordering::Relaxed);
            let row = address("a1", "203.0.113.25", "Allocated");
            let rows = if there { vec![row] } else { Vec::new() };
            super::support::page_of(request, "publicipaddress", &rows)
        }
        _ => ok(&json!({})),
    });
    let job = JobId::parse("done").unwrap();
    let scope = Scope { jobs: BTreeSet::from([job]), ..Scope::default() };
    let state = client.observe(&scope).await.unwrap();
    assert_eq!(state.addresses.len(), 1);
    let commands = server.commands();
    let at = |command: &str| commands.iter().position(|sent| sent == command);
    assert!(at("queryAsyncJobResult") < at("listPublicIpAddresses"), "{commands:?}");
}

#[tokio::test(start_paused = true)]
async fn jobs_of_intents_are_asked_for() {
    let (client, _) = client(|request| match of(request, "jobid") {
        "pending" => job(0, json!({})),
        "done" => job(1, json!({"jobresult": {"ipaddress": {"id": "a1", "state": "Allocating"}}})),
        "failed" => job(2, json!({"jobresultcode": 530, "jobinstanceid": "a2"})),
        "refused" => failed_job(431, "x"),
        "foreign" => refused(531, "not authorized to see job id=367"),
        "" => ok(&json!({})),
        other => unknown("jobid", other),
    });
    let id = |text| JobId::parse(text).unwrap();
    let names = ["pending", "done", "failed", "refused", "foreign", "never"];
    let scope = Scope { jobs: names.into_iter().map(id).collect(), ..Scope::default() };
    let jobs = client.observe(&scope).await.unwrap().jobs;
    let address = |text| PublicIpId::parse(text).unwrap();
    assert_eq!(jobs[&id("pending")], AssociateJob::Pending);
    assert_eq!(jobs[&id("done")], AssociateJob::Succeeded(address("a1")));
    assert_eq!(jobs[&id("failed")], AssociateJob::Failed(Some(address("a2"))));
    assert_eq!(jobs[&id("refused")], AssociateJob::Failed(None));
    assert_eq!(jobs[&id("foreign")], AssociateJob::Unknown);
    assert_eq!(jobs[&id("never")], AssociateJob::Unknown);
}

#[tokio::test(start_paused = true)]
async fn members_are_read_by_rule_and_vanished_rules_are_left_out() {
    let (client, server) = client(|request| match of(request, "id") {
        _ if of(request, "command") == "listLoadBalancerRules" => ok(&json!({})),
        "r1" => {
            ok(&json!({"count": 2, "loadbalancerruleinstance": [{"id": "VM-2"}, {"id": "vm-1"}]}))
        }
        "r2" => ok(&json!({})),
        "r3" => refused(530, "Internal error executing command"),
        "r4" => unknown("id", "r4"),
        _ => ok(&json!({"count": 1, "lbrulevmidip": [
            {"loadbalancerruleinstance": {"id": "vm-1"}, "lbvmipaddresses": ["10.1.1.5"]}]})),
    });
    let rules: BTreeSet<LoadBalancerRuleId> = ["r1", "r2", "r3", "r4", "r5"]
        .into_iter()
        .map(|id| LoadBalancerRuleId::parse(id).unwrap())
        .collect();
    let members = client.members(&rules).await.unwrap();
    let seen: Vec<(String, String)> = members
        .iter()
        .map(|(rule, vms)| {
            let vms: Vec<&str> = vms.iter().map(VirtualMachineId::as_str).collect();
            (rule.to_string(), vms.join(","))
        })
        .collect();
    let own = |rule: &str, vms: &str| (rule.to_owned(), vms.to_owned());
    assert_eq!(seen, [own("r1", "vm-1,vm-2"), own("r2", ""), own("r5", "vm-1")]);
    assert_eq!(server.count("listLoadBalancerRuleInstances"), 5);
    assert!(client.members(&BTreeSet::new()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn members_that_can_not_be_read_of_a_rule_that_is_there_are_an_error() {
    let (client, _) = client(|request| match of(request, "command") {
        "listLoadBalancerRules" => {
            ok(&json!({"count": 1, "loadbalancerrule": [{"id": "r1", "state": "Active"}]}))
        }
        _ => refused(530, "Internal error executing command"),
    });
    let rule = LoadBalancerRuleId::parse("r1").unwrap();
    let error = client.members(&BTreeSet::from([rule])).await.unwrap_err();
    assert_eq!((error.code, error.fault), (Some(530), Fault::Cloud));
}

#[tokio::test(start_paused = true)]
async fn members_that_do_not_add_up_are_an_error() {
    let (client, _) =
        client(|_| ok(&json!({"count": 3, "loadbalancerruleinstance": [{"id": "vm-1"}]})));
    let rule = LoadBalancerRuleId::parse("r1").unwrap();
    let error = client.members(&BTreeSet::from([rule])).await.unwrap_err();
    assert!(error.message.contains("count is 3"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_in_a_state_of_the_future_is_there_and_stops_nobody() {
    let (client, _) = client(|request| match of(request, "command") {
        "listFirewallRules" => ok(&json!({"count": 1, "firewallrule": [
            {"id": "f1", "ipaddressid": "a1", "protocol": "tcp", "startport": 22,
             "cidrlist": "0.0.0.0/0", "state": "Quarantined"}]})),
        _ => ok(&json!({})),
    });
    let state = client.observe(&Scope::default()).await.unwrap();
    assert_eq!(state.firewall_rules[0].state, RuleState::Active);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_named() {
    let (client, _) = client(|request| match of(request, "command") {
        "listLoadBalancerRules" => ok(&json!({"count": 1, "loadbalancerrule": [
            {"id": "r1", "publicipid": "a1", "publicport": "many", "privateport": "1",
             "networkid": "n1", "state": "Add", "algorithm": "source"}]})),
        _ => ok(&json!({})),
    });
    let error = client.observe(&Scope::default()).await.unwrap_err();
    assert_eq!(error.fault, Fault::Bug);
    assert_eq!(
        error.to_string(),
        "listLoadBalancerRules: load balancer rule r1: `publicport` is `\"many\"`, expected a number in range; please report"
    );
}
