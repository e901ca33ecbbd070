//! Waiting for a state, never for a time.

use std::time::{Duration, Instant};

/// Between two looks.
const STEP: Duration = Duration::from_millis(100);

/// Looks until it sees what it waits for, and gives that. A look that does not see it says what it
/// saw in its place; if the time is over, the test fails with the last of these.
pub(crate) async fn eventually<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + within;
    loop {
        let seen = match look().await {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        assert!(Instant::now() < deadline, "{what}: not within {within:?}; last seen: {seen}");
        tokio::time::sleep(STEP).await;
    }
}
