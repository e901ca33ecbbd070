//! Spans that wait to be sent: as many as `OTEL_BSP_MAX_QUEUE_SIZE` says, and not one more.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};

use super::setting;

/// As the specification of OpenTelemetry has it.
const CAPACITY: usize = 2048;

/// What became of spans. Those that wait are not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The collector took them.
    pub exported: u64,
    /// The collector did not answer, or refused them.
    pub failed: u64,
    /// Too many waited already.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicUsize,
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// See the module. A thread of its own sends what waits, in batches.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    batches: Arc<RwLock<BatchSpanProcessor>>,
    counts: Arc<Counts>,
    capacity: usize,
}

impl Queue {
    pub(super) fn new(exporter: impl SpanExporter + 'static) -> Self {
        let size = setting(["OTEL_BSP_MAX_QUEUE_SIZE"]).and_then(|size| size.parse().ok());
        let capacity = size.filter(|size| *size > 0).unwrap_or(CAPACITY);
        let counts = Arc::<Counts>::default();
        let counted = Counted { exporter, counts: Arc::clone(&counts) };
        let batches = BatchSpanProcessor::builder(counted)
            .with_batch_config(BatchConfigBuilder::default().with_max_queue_size(capacity).build())
            .build();
        Self { batches: Arc::new(RwLock::new(batches)), counts, capacity }
    }

    pub(super) fn sent(&self) -> Sent {
        let Counts { waiting: _, exported, failed, dropped } = &*self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Sent { exported: read(exported), failed: read(failed), dropped: read(dropped) }
    }

    /// What is sent from now on is that resource's.
    pub(super) fn describe(&self, resource: &Resource) {
        let mut batches = self.batches.write().unwrap_or_else(PoisonError::into_inner);
        batches.set_resource(resource);
    }

    fn with<T>(&self, work: impl FnOnce(&BatchSpanProcessor) -> T) -> T {
        work(&self.batches.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.with(|batches| batches.on_start(span, context));
    }

    fn on_end(&self, span: SpanData) {
        let Counts { waiting, dropped, .. } = &*self.counts;
        if waiting.fetch_add(1, Ordering::Relaxed) < self.capacity {
            self.with(|batches| batches.on_end(span));
        } else {
            waiting.fetch_sub(1, Ordering::Relaxed);
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.with(SpanProcessor::force_flush)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.with(|batches| batches.shutdown_with_timeout(timeout))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.describe(resource);
    }
}

/// An exporter whose successes and failures are counted.
#[derive(Debug)]
struct Counted<E> {
    exporter: E,
    counts: Arc<Counts>,
}

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        let Counts { waiting, exported, failed, dropped: _ } = &*self.counts;
        waiting.fetch_sub(spans, Ordering::Relaxed);
        let ended = if result.is_ok() { exported } else { failed };
        ended.fetch_add(u64::try_from(spans).unwrap_or(u64::MAX), Ordering::Relaxed);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
