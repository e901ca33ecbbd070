//! OpenTelemetry traces, if `--otlp-endpoint` asks for them: a trace for each sync of an object, and
//! in it a span for each request to CloudStack.
//!
//! | File | Holds |
//! |---|---|
//! | `queue.rs` | spans that wait to be sent; how many there are, and what became of the others |
//! | `collector.rs` | the way to the collector |
//!
//! Spans are those of the log, from level TRACE on and whatever is logged; events are not sent. What
//! is traced never waits for the collector: spans beyond the queue, and those that the collector
//! does not take, are dropped and counted.

mod collector;
mod queue;

use std::time::Duration;

use ccm_core::ids::ClusterId;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::EnvResourceDetector;
use opentelemetry_sdk::trace::SdkTracerProvider;
use thiserror::Error;
use tokio::runtime::Handle;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use collector::Collector;
use queue::Queue;

pub use collector::CollectorUrl;
pub use queue::Sent;

/// What spans are sent as, unless the environment says something else.
const SERVICE: &str = "cloudstack-ccm";
/// How long what still waits may take to be sent at the end. It comes after the grace period of 24 s
/// and the farewells of 2 s each, and Kubernetes kills after 30 s by default.
const FAREWELL: Duration = Duration::from_secs(1);

/// Traces can't be sent.
#[derive(Debug, Error)]
pub enum TracesError {
    /// The certificates of the collector can't be used.
    #[error("OTEL_EXPORTER_OTLP_CERTIFICATE is {path:?}, which holds no certificates in PEM")]
    Certificates {
        /// As the environment says it.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The HTTP client refused its options.
    #[error("the HTTP client for traces can't be set up")]
    Client(#[from] reqwest::Error),
    /// The exporter refused what the environment says.
    #[error("traces can't be sent as OTEL_EXPORTER_OTLP_* say")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// Traces on their way to a collector. See the module.
#[derive(Clone, Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    queue: Queue,
    version: &'static str,
}

impl Traces {
    /// Sends spans to a collector. `version` is this program's; requests run on `runtime`.
    ///
    /// # Errors
    /// [`TracesError`] if the environment (`OTEL_*`) says what can't be done.
    pub fn new(
        url: &CollectorUrl,
        version: &'static str,
        runtime: &Handle,
    ) -> Result<Self, TracesError> {
        let collector = Collector::new(url, runtime)?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(url.traces())
            .with_timeout(collector.timeout())
            .with_http_client(collector)
            .build()?;
        let queue = Queue::new(exporter);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(version, None))
            .with_span_processor(queue.clone())
            .build();
        Ok(Self { provider, queue, version })
    }

    /// What makes spans of this program part of traces.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(filter_fn(is_span_of_ours))
    }

    /// What became of the spans so far.
    pub fn sent(&self) -> Sent {
        self.queue.sent()
    }

    /// What is sent from now on is of that cluster.
    pub fn of_cluster(&self, cluster_id: &ClusterId) {
        self.queue.describe(&resource(self.version, Some(cluster_id)));
    }

    /// Sends what still waits, if that is quick; nothing is sent afterwards.
    pub async fn end(&self) {
        let provider = self.provider.clone();
        // What could not be sent is counted; nobody is there to read that any more.
        let _ = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FAREWELL)).await;
    }
}

/// Who sends spans. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` go first.
fn resource(version: &'static str, cluster_id: Option<&ClusterId>) -> Resource {
    let host = hostname::get().ok().and_then(|name| name.into_string().ok());
    let attributes = [
        Some(KeyValue::new("service.version", version)),
        host.map(|host| KeyValue::new("host.name", host)),
        cluster_id.map(|id| KeyValue::new("cloudstack_ccm.cluster_id", id.to_string())),
    ];
    let resource = Resource::builder_empty()
        .with_service_name(SERVICE)
        .with_attributes(attributes.into_iter().flatten())
        .with_detector(Box::new(EnvResourceDetector::new()));
    match setting(["OTEL_SERVICE_NAME"]) {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

/// The first of these variables that is set to something.
fn setting<const N: usize>(names: [&str; N]) -> Option<String> {
    let values = names.into_iter().filter_map(|name| std::env::var(name).ok());
    values.into_iter().find(|value| !value.is_empty())
}

fn is_span_of_ours(metadata: &Metadata<'_>) -> bool {
    let ours = ["cloudstack_ccm", "ccm_"].iter().any(|name| metadata.target().starts_with(name));
    metadata.is_span() && ours
}
