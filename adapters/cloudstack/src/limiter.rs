//! When the next request may go out.
//!
//! 1. At most so many are in flight.
//! 2. After a 429 nothing is sent before the window that the server named ends; where it names
//!    none, waits double from a second up.
//! 3. With an announced limit, at most half of it in any interval: since 4.23 the server counts
//!    a signed request twice (observed), and other users of the account want some too.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccm_core::observe::RateLimit;
use jiff::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::wire::{Runtime, between, later};

/// Longest wait after a 429 that names no window, and the longest that is believed.
const LONGEST_HOLD: Duration = Duration::from_mins(1);
const LONGEST_NAMED: Duration = Duration::from_hours(1);
/// Added to a named window that turned out too short, doubled each time.
const MARGIN: Duration = Duration::from_millis(10);
const LONGEST_MARGIN: Duration = Duration::from_secs(5);

/// Shared by all requests of a client.
#[derive(Debug)]
pub(crate) struct Limiter {
    in_flight: Semaphore,
    window: Mutex<Window>,
}

impl Limiter {
    pub(crate) fn new(in_flight: usize) -> Self {
        Self { in_flight: Semaphore::new(in_flight.max(1)), window: Mutex::default() }
    }

    /// Waits for a turn. `None` never happens: the semaphore is not closed.
    pub(crate) async fn admit(&self, runtime: &impl Runtime) -> Option<SemaphorePermit<'_>> {
        let permit = self.in_flight.acquire().await.ok();
        loop {
            let now = runtime.now();
            let slot = self.window().poll(now);
            match slot {
                None => return permit,
                Some(at) => runtime.sleep_until(at).await,
            }
        }
    }

    /// Takes a 429 and says how long nothing may be sent.
    pub(crate) fn handle_throttled(&self, now: Timestamp, named: Option<Duration>) -> Duration {
        self.window().handle_throttled(now, named)
    }

    /// Takes any other answer.
    pub(crate) fn handle_answer(&self, now: Timestamp) {
        self.window().handle_answer(now);
    }

    /// Takes what listCapabilities announced.
    pub(crate) fn announce(&self, limit: Option<RateLimit>) {
        self.window().limit = limit;
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time as the limiter sees it; pure.
#[derive(Debug, Default)]
struct Window {
    held_until: Option<Timestamp>,
    refusals: u32,
    limit: Option<RateLimit>,
    recent: VecDeque<Timestamp>,
}

impl Window {
    /// Counts a request in, or says when to ask again.
    fn poll(&mut self, now: Timestamp) -> Option<Timestamp> {
        if let Some(until) = self.held_until.filter(|until| *until > now) {
            return Some(until);
        }
        let RateLimit { calls, seconds } = self.limit?;
        let interval = Duration::from_secs(u64::from(seconds.max(1)));
        let share = usize::try_from((calls / 2).max(1)).unwrap_or(1);
        while self.recent.front().is_some_and(|sent| later(*sent, interval) <= now) {
            self.recent.pop_front();
        }
        if self.recent.len() < share {
            self.recent.push_back(now);
            return None;
        }
        let oldest = self.recent.len() - share;
        self.recent.get(oldest).map(|sent| later(*sent, interval))
    }

    fn handle_throttled(&mut self, now: Timestamp, named: Option<Duration>) -> Duration {
        let held = self.held_until.filter(|until| *until > now);
        if held.is_none() {
            // A refusal within a window was sent before it began: it says nothing new.
            self.refusals = self.refusals.saturating_add(1);
        }
        let factor = 1_u32.checked_shl(self.refusals.saturating_sub(1)).unwrap_or(u32::MAX);
        let wait = match named {
            Some(named) => {
                let margin = MARGIN.saturating_mul(factor).min(LONGEST_MARGIN);
                named.min(LONGEST_NAMED) + margin
            }
            None => Duration::from_secs(1).saturating_mul(factor).min(LONGEST_HOLD),
        };
        let until = later(now, wait).max(held.unwrap_or(Timestamp::MIN));
        self.held_until = Some(until);
        between(now, until)
    }

    fn handle_answer(&mut self, now: Timestamp) {
        if self.held_until.is_none_or(|until| until <= now) {
            self.refusals = 0;
        }
    }
}

/// The window in a 429: "…please retry after [21] ms." (observed).
pub(crate) fn named_window(text: &str) -> Option<Duration> {
    let (before, _) = text.rsplit_once("ms")?;
    let digits: String = before
        .trim_end_matches([' ', ']'])
        .chars()
        .rev()
        .take_while(char::is_ascii_digit)
        .collect();
    let number: String = digits.chars().rev().collect();
    number.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        later(Timestamp::UNIX_EPOCH, Duration::from_millis(millis))
    }

    #[test]
    fn reads_the_window_of_a_refusal() {
        let text =
            "The given user has reached his/her account api limit, please retry after [670] ms.";
        assert_eq!(named_window(text), Some(Duration::from_millis(670)));
        assert_eq!(named_window("retry after 5 ms"), Some(Duration::from_millis(5)));
        assert_eq!(named_window("too many items"), None);
        assert_eq!(named_window("Too Many Requests"), None);
    }

    #[test]
    fn without_an_announced_limit_nothing_waits() {
        let mut window = Window::default();
        assert!((0..1000).all(|_| window.poll(at(0)).is_none()));
    }

    #[test]
    fn half_of_an_announced_limit_is_used_in_any_interval() {
        let mut window =
            Window { limit: Some(RateLimit { calls: 25, seconds: 1 }), ..Window::default() };
        let mut now = at(0);
        let mut sent = Vec::new();
        while sent.len() < 60 {
            match window.poll(now) {
                None => sent.push(now),
                Some(next) => {
                    assert!(next > now);
                    now = next;
                }
            }
        }
        for (early, late) in sent.iter().zip(sent.iter().skip(12)) {
            assert!(between(*early, *late) >= Duration::from_secs(1));
        }
        assert_eq!(sent.last(), Some(&at(4000)));
    }

    #[test]
    fn nothing_is_sent_before_a_named_window_ends() {
        let mut window = Window::default();
        let wait = window.handle_throttled(at(0), Some(Duration::from_millis(670)));
        assert!(wait >= Duration::from_millis(670));
        window.handle_throttled(at(5), Some(Duration::from_millis(10)));
        assert!(window.poll(at(670)).is_some_and(|until| until > at(670)));
        assert!(window.poll(at(700)).is_none());
    }

    #[test]
    fn unnamed_windows_double_and_an_answer_ends_that() {
        let mut window = Window::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = window.handle_throttled(now, None);
            waits.push(wait.as_secs());
            now = later(now, wait);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        window.handle_answer(now);
        assert_eq!(window.handle_throttled(now, None).as_secs(), 1);
    }
}
