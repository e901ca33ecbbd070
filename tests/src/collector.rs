//! A collector of OpenTelemetry traces, on loopback.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use cloudstack_ccm::traces::{CollectorUrl, Traces};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::runtime::Runtime;

/// Long enough for a machine that does much else.
const PATIENCE: Duration = Duration::from_mins(1);

/// A span as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its name.
    pub name: String,
    /// What it belongs to.
    pub trace: Vec<u8>,
    /// Its id.
    pub id: Vec<u8>,
    /// The id of the one around it; empty for a root.
    pub parent: Vec<u8>,
    /// Whether it is a request to somebody else.
    pub is_client: bool,
    /// Whether its status is an error.
    pub failed: bool,
    /// What it says.
    pub says: BTreeMap<String, String>,
    /// What it says of who sent it.
    pub sender: BTreeMap<String, String>,
}

impl Arrived {
    /// An attribute.
    pub fn says(&self, key: &str) -> Option<&str> {
        self.says.get(key).map(String::as_str)
    }
}

/// See the module.
pub struct Collector {
    /// There until the end.
    runtime: Option<Runtime>,
    url: String,
    refuses: Arc<AtomicBool>,
    bodies: Receiver<Bytes>,
    received: Vec<Bytes>,
    spans: Vec<Arrived>,
}

impl Collector {
    /// One that takes everything.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (sender, bodies) = channel();
        let refuses = Arc::<AtomicBool>::default();
        let state = (sender, Arc::clone(&refuses));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let site = Router::new().route("/v1/traces", post(take)).with_state(state);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, site).await
        });
        Self {
            runtime: Some(runtime),
            url,
            refuses,
            bodies,
            received: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Its URL, as `--otlp-endpoint` has it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Traces that are sent to it, from a runtime of its own: real time passes there.
    pub fn traces(&self) -> Traces {
        let url = CollectorUrl::parse(&self.url).expect("a URL");
        let runtime = self.runtime.as_ref().expect("it has not ended");
        Traces::new(&url, "1.2.3", runtime.handle()).expect("a way to the collector")
    }

    /// Answers 503, or takes everything again.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Waits until the spans are all that is needed; gives them.
    pub fn wait(&mut self, enough: impl Fn(&[Arrived]) -> bool) -> &[Arrived] {
        let since = Instant::now();
        while !enough(&self.spans) {
            let left = PATIENCE.saturating_sub(since.elapsed());
            let body = self.bodies.recv_timeout(left);
            let body = body.unwrap_or_else(|_| panic!("no more spans than {:#?}", self.spans));
            let export = ExportTraceServiceRequest::decode(body.clone()).expect("OTLP");
            self.spans.extend(arrived(export));
            self.received.push(body);
        }
        &self.spans
    }

    /// What came over the wire and was waited for.
    pub fn bodies(&self) -> &[Bytes] {
        &self.received
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // A test that has a runtime itself must not wait for another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn take(
    State((sender, refuses)): State<(Sender<Bytes>, Arc<AtomicBool>)>,
    body: Bytes,
) -> StatusCode {
    if refuses.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    // Nobody listens any more at the end of a test.
    let _ = sender.send(body);
    StatusCode::OK
}

fn arrived(export: ExportTraceServiceRequest) -> Vec<Arrived> {
    let mut spans = Vec::new();
    for of_sender in export.resource_spans {
        let sender = texts(&of_sender.resource.unwrap_or_default().attributes);
        let found = of_sender.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.extend(found.map(|span| read(span, &sender)));
    }
    spans
}

fn read(span: Span, sender: &BTreeMap<String, String>) -> Arrived {
    let failed = span.status.as_ref().is_some_and(|status| status.code == 2);
    Arrived {
        is_client: span.kind == 3,
        failed,
        says: texts(&span.attributes),
        sender: sender.clone(),
        name: span.name,
        trace: span.trace_id,
        id: span.span_id,
        parent: span.parent_span_id,
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(&pair.value))).collect()
}
