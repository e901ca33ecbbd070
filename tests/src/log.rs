//! What the code under test logs.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Warnings and errors that this thread logs during `work`.
pub fn warnings(work: impl FnOnce()) -> Vec<String> {
    start();
    LINES.take();
    work();
    let lines = String::from_utf8(LINES.take()).expect("text");
    lines.lines().map(str::to_owned).collect()
}

/// One subscriber for all tests: with one for each, tests that run beside each other switch off
/// each other's log lines.
fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_writer(ToThisThread)
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("no other subscriber");
    });
}

#[derive(Clone, Copy)]
struct ToThisThread;

impl io::Write for ToThisThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for ToThisThread {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}
