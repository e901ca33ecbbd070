//! How the client keeps its pace.

use std::time::Duration;

use ccm_core::exec::error::{Effect, Fault};
use ccm_core::ids::{JobId, NetworkId};
use ccm_core::observe::scope::Scope;
use ccm_core::plan::action::{AssociateIpAddress, Call, Placement};
use serde_json::json;

use super::support::{client, client_with, of, ok, refused};
use crate::Options;

const TEXT: &str =
    "The given user has reached his/her account api limit, please retry after [900] ms.";

#[tokio::test(start_paused = true)]
async fn c087_no_call_of_any_kind_goes_out_before_a_named_window_ends() {
    let mut calls = 0;
    let (client, server) = client(move |_| {
        calls += 1;
        if calls == 4 { refused(429, TEXT) } else { ok(&json!({})) }
    });
    client.observe(&Scope::default()).await.unwrap();
    // Another observation, under way in the same client, waits as well.
    let asked = server.asked();
    let refused_at = asked[3].0 + Duration::from_millis(5);
    let after: Vec<Duration> =
        asked.iter().map(|(at, _)| *at).filter(|at| *at > refused_at).collect();
    assert!(!after.is_empty());
    for at in after {
        assert!(at >= refused_at + Duration::from_millis(900), "{at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_on_refusing_is_given_up() {
    let (client, server) = client(|_| refused(429, TEXT));
    let error = client.discover().await.unwrap_err();
    assert_eq!((error.fault, error.effect), (Fault::Throttled, Effect::No));
    assert_eq!(error.code, Some(429));
    assert!(error.retry_after.unwrap() >= Duration::from_millis(900));
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_something_in_between_backs_off_too() {
    let mut calls = 0;
    let (client, server) = client(move |_| {
        calls += 1;
        match calls {
            1 | 2 => super::support::body(429, "<html>Too Many Requests</html>"),
            _ => ok(&json!({"capability": {"cloudstackversion": "4.22.0.0"}})),
        }
    });
    client.discover().await.unwrap();
    let times: Vec<u64> = server.asked().iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!(times, [0, 1, 3]);
}

#[tokio::test(start_paused = true)]
async fn the_request_of_an_intent_is_sent_once() {
    let (client, server) = client(|_| refused(429, TEXT));
    let call = Call::AssociateIpAddress(AssociateIpAddress {
        placement: Placement::Network(NetworkId::parse("n1").unwrap()),
        address: None,
        project: None,
        job: JobId::parse("0a9d3c1e-4f5b-4c6d-8e7f-001122334455").unwrap(),
        expires: "2026-12-01T20:10:00Z".parse().unwrap(),
    });
    let error = client.call(&call).await.unwrap_err();
    assert_eq!((error.fault, error.effect), (Fault::Throttled, Effect::No));
    assert_eq!(server.count("associateIpAddress"), 1);
}

#[tokio::test(start_paused = true)]
async fn half_of_an_announced_limit_is_used() {
    let (client, server) = client(|request| match of(request, "command") {
        "listCapabilities" => ok(&json!({"capability": {"cloudstackversion": "4.23.0.0",
            "apilimitinterval": 1, "apilimitmax": 4}})),
        _ => ok(&json!({})),
    });
    client.observe(&Scope::default()).await.unwrap();
    client.observe(&Scope::default()).await.unwrap();
    let times: Vec<Duration> = server.asked().iter().map(|(at, _)| *at).collect();
    assert!(times.len() > 10);
    // The first request came before the limit was known.
    for pair in times[1..].windows(3) {
        assert!(pair[2] >= pair[0] + Duration::from_secs(1), "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_allowed_number_are_in_flight() {
    let options = Options { in_flight: 2, ..Options::default() };
    let (client, server) = client_with(options, |_| ok(&json!({})));
    client.observe(&Scope::default()).await.unwrap();
    let times: Vec<Duration> = server.asked().iter().map(|(at, _)| *at).collect();
    // Each answer takes 5 ms.
    for pair in times.windows(3) {
        assert!(pair[2] >= pair[0] + Duration::from_millis(5), "{times:?}");
    }
}
