//! A collector of traces that is down: it costs one line in the log, and no time.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ccm_tests::collector::Collector;
use cloudstack_ccm::metrics::Metrics;
use cloudstack_ccm::traces::{CollectorUrl, Sent, Traces};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// As many as are sent at once, without waiting for more.
const BATCH: usize = 512;
/// As many may wait.
const CAPACITY: usize = 2048;
/// Long enough for a machine that does much else.
const PATIENCE: Duration = Duration::from_mins(1);

/// Makes spans as the controller does.
fn work(traces: &Traces, spans: usize) {
    let _guard = tracing_subscriber::registry().with(traces.layer()).set_default();
    for number in 0..spans {
        drop(tracing::trace_span!(target: "ccm_cloudstack", "request", number));
    }
}

fn wait(traces: &Traces, enough: impl Fn(Sent) -> bool) {
    let since = Instant::now();
    while !enough(traces.sent()) {
        assert!(since.elapsed() < PATIENCE, "{:?}", traces.sent());
        std::thread::yield_now();
    }
}

#[test]
fn a_collector_that_fails_and_recovers_is_told_once_each_and_counted() {
    let log = Log::of_this_process();
    let collector = Collector::start();
    let traces = collector.traces();
    collector.refuse(true);
    work(&traces, BATCH);
    wait(&traces, |sent| sent.failed >= 512);
    work(&traces, BATCH);
    wait(&traces, |sent| sent.failed >= 1024);
    collector.refuse(false);
    work(&traces, BATCH);
    wait(&traces, |sent| sent.exported >= 512);
    let lines: Vec<String> = log.lines_with(collector.url());
    let [fails, recovers] = &lines[..] else { panic!("{lines:#?}") };
    assert!(fails.contains("WARN") && fails.contains("it answers 503"), "{fails}");
    assert!(recovers.contains("INFO") && recovers.contains("takes spans again"), "{recovers}");
    let metrics = Metrics::new("test").tracing(Some(traces)).text();
    for line in [
        "cloudstack_ccm_trace_spans_total{result=\"exported\"} 512.0",
        "cloudstack_ccm_trace_spans_total{result=\"failed\"} 1024.0",
        "cloudstack_ccm_trace_spans_total{result=\"dropped\"} 0.0",
    ] {
        assert!(metrics.contains(line), "{line:?} is not in:\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_beyond_the_queue_are_dropped_and_the_end_is_not_held_up() {
    // Connections are taken, and nothing is ever answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let url = CollectorUrl::parse(&url).unwrap();
    let traces = Traces::new(&url, "1.2.3", &tokio::runtime::Handle::current()).unwrap();
    let began = Instant::now();
    work(&traces, 2 * CAPACITY);
    assert!(began.elapsed() < Duration::from_secs(5), "spans wait for a collector");
    let sent = traces.sent();
    assert_eq!((sent.dropped, sent.exported), (2048, 0));
    let began = Instant::now();
    traces.end().await;
    assert!(began.elapsed() < Duration::from_secs(5), "the end waits for a collector");
}

/// What all threads log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn of_this_process() -> Self {
        static LOG: LazyLock<Log> = LazyLock::new(|| {
            let log = Log::default();
            let writer = log.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_writer(move || writer.clone())
                .with_ansi(false)
                .finish();
            tracing::subscriber::set_global_default(subscriber).expect("no other subscriber");
            log
        });
        LOG.clone()
    }

    fn lines_with(&self, words: &str) -> Vec<String> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
