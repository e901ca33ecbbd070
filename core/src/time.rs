//! Instants and spans.

use std::time::Duration;

use jiff::Timestamp;

/// So much later, or the end of time.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}
