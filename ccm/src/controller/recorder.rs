//! Publishes events: what comes in is folded as the Go recorder folds it, and written one after the
//! other by a task of its own, so that nobody waits for it. What does not fit into its queue is
//! dropped.

use std::sync::{Arc, Mutex, PoisonError};

use ccm_core::event::Event;
use ccm_core::event::correlate::{Correlator, Decision, ObjectRef};
use ccm_kubernetes::live::events::EventWriter;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::ports::Tell;
use crate::metrics::Metrics;

/// Events that wait to be written.
const QUEUED: usize = 1000;

/// See the module.
pub(super) struct Recorder {
    correlator: Mutex<Correlator>,
    queue: mpsc::Sender<(ObjectRef, Decision)>,
    now: fn() -> Timestamp,
    metrics: Arc<Metrics>,
}

impl Recorder {
    /// A recorder, and the task that writes. It ends when the recorder is dropped.
    pub(super) fn new(
        writer: EventWriter,
        now: fn() -> Timestamp,
        metrics: Arc<Metrics>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, queued) = mpsc::channel(QUEUED);
        let written = write(writer, queued, Arc::clone(&metrics));
        let recorder = Self { correlator: Mutex::new(Correlator::new()), queue, now, metrics };
        (recorder, written)
    }
}

impl Tell for Recorder {
    fn tell(&self, about: &ObjectRef, event: &Event) {
        let mut correlator = self.correlator.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = correlator.observe(about, event, (self.now)());
        if decision != Decision::Drop && self.queue.try_send((about.clone(), decision)).is_err() {
            self.metrics.event_dropped();
            warn!(object = about.name, reason = event.reason, "an event is dropped: too many wait");
        }
    }
}

async fn write(
    writer: EventWriter,
    mut queued: mpsc::Receiver<(ObjectRef, Decision)>,
    metrics: Arc<Metrics>,
) {
    while let Some((about, decision)) = queued.recv().await {
        if let Err(error) = writer.write(&about, &decision).await {
            metrics.event_dropped();
            debug!(object = about.name, %error, "an event could not be written");
        }
    }
}
