//! What a collector of traces is sent of the controller's work.

use std::sync::LazyLock;
use std::time::Duration;

use ccm_core::ids::ClusterId;
use ccm_tests::collector::{Arrived, Collector};
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::stage::Stage;

/// While there is one subscriber only, what another thread meets first is judged by that thread's,
/// and for all threads: the tests beside would switch spans off. So there is always a second one.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

const MINUTE: Duration = Duration::from_mins(1);

/// Sends traces of what this thread does during a story, then waits for enough of them.
async fn traced(
    collector: &mut Collector,
    story: impl Future<Output = ()>,
    enough: impl Fn(&[Arrived]) -> bool,
) -> Vec<Arrived> {
    let traces = collector.traces();
    traces.of_cluster(&ClusterId::parse("prod").unwrap());
    LazyLock::force(&SECOND);
    let guard = tracing_subscriber::registry().with(traces.layer()).set_default();
    story.await;
    drop(guard);
    traces.end().await;
    collector.wait(enough).to_vec()
}

/// The sync of a Service that ended so.
fn sync<'a>(spans: &'a [Arrived], outcome: &str) -> Option<&'a Arrived> {
    let wanted = |span: &&Arrived| span.name == "sync" && span.says("outcome") == Some(outcome);
    spans.iter().find(wanted)
}

/// Spans right inside another one, by name.
fn inside<'a>(spans: &'a [Arrived], around: &Arrived, name: &str) -> Vec<&'a Arrived> {
    spans.iter().filter(|span| span.parent == around.id && span.name == name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_sync_is_a_trace_of_its_steps_requests_and_jobs() {
    let mut collector = Collector::start();
    let stage = Stage::new();
    let story = stage.with_services(async {
        stage.create("web", |_| ());
        stage.pass(MINUTE).await;
    });
    let spans = traced(&mut collector, story, |spans| sync(spans, "done").is_some()).await;

    let sync = sync(&spans, "done").unwrap();
    assert_eq!(sync.says("service"), Some("shop/web"));
    assert!(sync.says("reconcile").is_some_and(|id| id.len() == 36), "{sync:?}");
    assert!(!sync.failed && sync.parent.is_empty(), "{sync:?}");
    for (key, value) in [
        ("service.name", "cloudstack-ccm"),
        ("service.version", "1.2.3"),
        ("cloudstack_ccm.cluster_id", "prod"),
    ] {
        assert_eq!(sync.sender.get(key).map(String::as_str), Some(value), "{:?}", sync.sender);
    }

    let [observe] = inside(&spans, sync, "observe")[..] else { panic!("{spans:#?}") };
    let [list] = inside(&spans, observe, "listLoadBalancerRules")[..] else { panic!("{spans:#?}") };
    assert!(list.is_client && list.says("outcome") == Some("ok"), "{list:?}");

    let steps = inside(&spans, sync, "step");
    let create = steps.iter().find(|step| step.says("command") == Some("createLoadBalancerRule"));
    let create = create.unwrap();
    assert_eq!((create.says("id"), create.says("outcome")), (Some("rule/tcp-80"), Some("ok")));
    let [request] = inside(&spans, create, "createLoadBalancerRule")[..] else {
        panic!("{spans:#?}")
    };
    let [job] = inside(&spans, create, "job")[..] else { panic!("{spans:#?}") };
    assert_eq!(request.says("job"), job.says("id"), "the request names the job that it begins");
    let polls = inside(&spans, job, "queryAsyncJobResult");
    assert!(!polls.is_empty());
    assert!(polls.iter().all(|poll| poll.says("job") == job.says("id")), "{polls:?}");

    let of_trace = |span: &&Arrived| span.trace == sync.trace;
    let commands = spans.iter().filter(of_trace).filter(|span| span.is_client).count();
    assert!(commands > polls.len() + 1, "{commands}");
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_an_error_with_its_class() {
    let mut collector = Collector::start();
    let stage = Stage::new();
    let story = stage.with_services(async {
        stage.cloud.set_down(true);
        stage.create("web", |_| ());
        stage.pass(Duration::from_secs(1)).await;
    });
    let spans = traced(&mut collector, story, |spans| sync(spans, "transient").is_some()).await;
    let sync = sync(&spans, "transient").unwrap();
    assert!(sync.failed, "{sync:?}");
    let of_sync = |span: &&Arrived| span.trace == sync.trace && span.is_client;
    let requests: Vec<_> = spans.iter().filter(of_sync).collect();
    assert!(!requests.is_empty());
    for request in requests {
        assert!(request.failed && request.says("outcome") == Some("no-answer"), "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c088_no_key_and_no_signature_in_any_span() {
    let mut collector = Collector::start();
    let stage = Stage::new();
    let story = stage.with_services(async {
        let web = stage.create("web", |_| ());
        stage.pass(MINUTE).await;
        stage.cluster.with(|cluster| cluster.delete(&web)).expect("a Service");
        stage.pass(MINUTE).await;
    });
    let deleted = |spans: &[Arrived]| spans.iter().any(|span| span.name == "disassociateIpAddress");
    traced(&mut collector, story, deleted).await;
    let (api_key, secret_key) = stage.keys();
    for body in collector.bodies() {
        let text = String::from_utf8_lossy(body).to_lowercase();
        for secret in [&api_key, &secret_key, "apikey", "signature"] {
            assert!(!text.contains(&secret.to_lowercase()), "{secret} is in {text}");
        }
    }
}
