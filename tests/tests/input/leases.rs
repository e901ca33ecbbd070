//! Leases and refusals as an API server sends them, tampered with.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use ccm_core::election::{Action, Answer, Election, Timing};
use ccm_kubernetes::live::lease::LeaseLock;
use ccm_tests::garble::{garble, garbles};
use http::{Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use proptest::prelude::*;
use proptest::sample::select;
use tower_service::Service;

use crate::cases;

const LEASE: &str = r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
    "metadata": {"name": "ccm", "namespace": "kube-system", "resourceVersion": "41"},
    "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 3,
        "acquireTime": "2026-12-01T20:41:36.000000Z", "renewTime": "2026-12-01T21:29:59.123456Z"}}"#;

const REFUSAL: &str = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409,
    "reason": "Conflict", "message": "no", "details": {"name": "ccm", "retryAfterSeconds": 2}}"#;

/// Answers everything with the same.
#[derive(Clone)]
struct Same(u16, Vec<u8>);

impl Service<Request<Body>> for Same {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let Self(status, bytes) = self.clone();
        let answer = Response::builder().status(status).body(Body::from(bytes));
        ready(Ok(answer.expect("an answer")))
    }
}

/// What is understood of an answer about the Lease.
fn understood(answer: Same) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let client = kube::Client::new(answer, "default");
        let lock = LeaseLock::new(client, "kube-system", "ccm", Duration::from_secs(5));
        lock.request(Action::Get).await.expect("a request has an answer")
    })
}

/// How often a candidate asks in a minute in which every answer is the same.
fn asked_in_a_minute(answer: &Answer) -> usize {
    let start: Timestamp = "2026-12-01T21:30:00Z".parse().expect("an instant");
    let mut election = Election::new("us", Timing::default(), start);
    let seconds = (0..60).map(|second| start + Duration::from_secs(second));
    seconds.map(|now| asked_at(&mut election, answer, now)).sum()
}

fn asked_at(election: &mut Election, answer: &Answer, now: Timestamp) -> usize {
    let mut asked = 0;
    while matches!(election.poll(now), Action::Get | Action::Create(_) | Action::Update(..)) {
        asked += 1;
        assert!(asked < 10, "no pause between requests");
        election.handle(answer.clone(), now, 0.5);
    }
    asked
}

#[test]
fn the_examples_are_good() {
    let Answer::Lease(lease) = understood(Same(200, LEASE.into())) else { panic!("no Lease") };
    assert_eq!((lease.record.holder.as_str(), lease.version.as_str()), ("other", "41"));
    assert_eq!(understood(Same(409, REFUSAL.into())), Answer::Conflict);
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_garbled_answer_about_the_lease_is_understood_or_failed(
        status in select(vec![200, 201, 404, 409, 500]),
        changes in garbles(),
    ) {
        let whole = if status < 300 { LEASE } else { REFUSAL };
        let answer = understood(Same(status, garble(whole.as_bytes(), &changes)));
        // One request in two seconds, and some to claim.
        let asked = asked_in_a_minute(&answer);
        prop_assert!((1..=70).contains(&asked), "{asked} requests: {answer:?}");
    }
}
