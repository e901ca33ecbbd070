//! The state of CloudStack, read once for all who need it at about the same time.
//!
//! Whoever needs a state that knows of a certain tick takes the last one if it is new enough, or
//! waits for the reading that is under way if that began late enough, or begins one. One reading
//! runs at a time. A reading that failed counts for all who waited for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ccm_core::agenda::Tick;
use ccm_core::exec::error::CallError;
use ccm_core::observe::index::Observed;
use ccm_core::observe::scope::Scope;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::ports::Cloud;

/// What somebody needs of a state.
#[derive(Clone, Debug)]
pub struct Need {
    /// It began at this tick or later.
    pub since: Tick,
    /// It is not older than this.
    pub at_most: SignedDuration,
    /// It covers this.
    pub scope: Scope,
    /// If something is read, then all of this, for others too.
    pub all: Scope,
}

/// A reading.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What was there.
    pub observed: Arc<Observed>,
    /// When the reading began, in ticks.
    pub began: Tick,
    scope: Scope,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Snapshots {
    tick: AtomicU64,
    last: Mutex<Option<Reading>>,
}

/// The last reading, for better or worse.
#[derive(Debug)]
struct Reading {
    began: Tick,
    result: Result<Snapshot, CallError>,
}

impl Snapshots {
    /// A tick later than everything so far.
    pub fn tick(&self) -> Tick {
        Tick(self.tick.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// A state as needed.
    ///
    /// # Errors
    /// [`CallError`] if CloudStack can't be read.
    pub async fn get(
        &self,
        cloud: &impl Cloud,
        need: &Need,
        now: impl Fn() -> Timestamp,
    ) -> Result<Snapshot, CallError> {
        let asked = self.tick();
        let mut last = self.last.lock().await;
        match last.as_ref() {
            Some(Reading { began: _, result: Ok(found) }) if serves(found, need, now()) => {
                return Ok(found.clone());
            }
            // It was begun for others while this one waited: CloudStack is as it is.
            Some(Reading { began, result: Err(error) }) if *began > asked => {
                return Err(error.clone());
            }
            Some(_) | None => {}
        }
        let began = self.tick();
        let result = cloud.observe(&need.all).await.map(|state| Snapshot {
            observed: Arc::new(Observed::new(state)),
            began,
            scope: need.all.clone(),
        });
        *last = Some(Reading { began, result: result.clone() });
        result
    }
}

fn serves(found: &Snapshot, need: &Need, now: Timestamp) -> bool {
    found.began >= need.since
        && now.duration_since(found.observed.at) <= need.at_most
        && found.scope.covers(&need.scope)
}
