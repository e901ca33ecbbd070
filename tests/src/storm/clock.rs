//! Time and chance: both virtual, both the same for the same seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_cloudstack::Runtime;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tokio::time::Instant;

use crate::lab::lock;

/// Chance that a seed decides.
#[derive(Clone, Debug)]
pub struct Dice(Arc<Mutex<TestRng>>);

impl Dice {
    /// The chance of one party: `who` tells those of one seed apart.
    pub fn new(seed: u64, who: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&who.to_le_bytes());
        Self(Arc::new(Mutex::new(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))))
    }

    /// From `from` to `to`, both included.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        from + self.number() % (to - from + 1)
    }

    /// Whether something happens that does so `percent` times of a hundred.
    pub fn hits(&self, percent: u8) -> bool {
        self.number() % 100 < percent.into()
    }

    /// A UUID (version 4).
    pub fn uuid(&self) -> String {
        let (high, low) = (self.number(), self.number());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )
    }

    fn number(&self) -> u64 {
        lock(&self.0).next_u64()
    }
}

/// Tokio's paused time, on the clock of one party.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Timestamp,
    started: Instant,
    ahead: Arc<Mutex<SignedDuration>>,
    dice: Dice,
}

impl Clock {
    /// A clock that shows `start` now.
    pub fn new(start: Timestamp, dice: Dice) -> Self {
        Self { start, started: Instant::now(), ahead: Arc::default(), dice }
    }

    /// A right clock of another party, which has its own chance.
    #[must_use]
    pub fn of(&self, dice: Dice) -> Self {
        Self { ahead: Arc::default(), dice, ..self.clone() }
    }

    /// Puts it forward or back.
    pub fn jump(&self, by: SignedDuration) {
        *lock(&self.ahead) += by;
    }

    /// Seconds since the start, whatever it shows.
    pub fn seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// The right time.
    pub fn right(&self) -> Timestamp {
        self.start.saturating_add(self.started.elapsed()).expect("a time")
    }
}

impl Runtime for Clock {
    fn now(&self) -> Timestamp {
        self.right().saturating_add(*lock(&self.ahead)).expect("a time")
    }

    async fn sleep_until(&self, at: Timestamp) {
        let wait = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(wait).await;
    }

    fn fresh_uuid(&self) -> String {
        self.dice.uuid()
    }
}
