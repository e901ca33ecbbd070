//! The Lease: who may change anything. The rules are the core's; here requests are sent and time
//! passes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ccm_cloudstack::{Runtime as _, TokioRuntime};
use ccm_core::election::{Action, Election, Timing};
use ccm_kubernetes::live::lease::LeaseLock;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::ports::Fence;
use super::{between, jitter};

/// Where this process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It waits for its turn.
    Candidate,
    /// It leads.
    Leader,
    /// It led and no longer does: it must exit.
    Lost,
    /// It gave the Lease up, as asked.
    Released,
}

/// A clock that is never set: one reading of the wall clock, and what has passed since.
#[derive(Clone, Copy, Debug)]
struct SteadyClock {
    start: Timestamp,
    started: Instant,
}

impl SteadyClock {
    fn new() -> Self {
        Self { start: TokioRuntime.now(), started: Instant::now() }
    }

    fn now(&self) -> Timestamp {
        self.start.saturating_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// See the module.
pub(super) struct Leadership {
    election: Mutex<Election>,
    clock: SteadyClock,
    standing: watch::Sender<Standing>,
    hurry: Notify,
}

impl Leadership {
    /// Takes part from now on, in a task that ends once the Lease is lost or released.
    pub(super) fn seek(
        lock: LeaseLock,
        identity: &str,
        timing: Timing,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let clock = SteadyClock::new();
        let election = Mutex::new(Election::new(identity, timing, clock.now()));
        let (standing, _) = watch::channel(Standing::Candidate);
        let leadership = Arc::new(Self { election, clock, standing, hurry: Notify::new() });
        let candidate = Arc::clone(&leadership);
        let campaign = tokio::spawn(async move { candidate.campaign(&lock).await });
        (leadership, campaign)
    }

    /// Hears of changes.
    pub(super) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Who holds the Lease, as far as is known.
    pub(super) fn holder(&self) -> Option<String> {
        self.election().holder().map(ToOwned::to_owned)
    }

    /// Gives the Lease up; [`Standing::Released`] says when that is done.
    pub(super) fn release(&self) {
        self.election().release(self.clock.now());
        self.hurry.notify_one();
    }

    async fn campaign(&self, lock: &LeaseLock) {
        let mut holder = None;
        loop {
            let action = self.election().poll(self.clock.now());
            self.publish(&action);
            match action {
                Action::Lost | Action::Released => return,
                Action::Wait(at) => {
                    let wait = between(self.clock.now(), at);
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.hurry.notified() => {}
                    }
                }
                request @ (Action::Get | Action::Create(_) | Action::Update(..)) => {
                    if let Some(answer) = lock.request(request).await {
                        let jitter = jitter(&TokioRuntime.fresh_uuid());
                        self.election().handle(answer, self.clock.now(), jitter);
                    }
                }
            }
            let seen = self.holder();
            if seen != holder {
                info!(holder = seen.as_deref().unwrap_or("nobody"), "the Lease is held");
                holder = seen;
            }
        }
    }

    fn publish(&self, action: &Action) {
        let leads = self.election().is_leader(self.clock.now());
        self.standing.send_if_modified(|standing| {
            let next = match (action, *standing) {
                (Action::Lost, _) => Standing::Lost,
                (Action::Released, _) => Standing::Released,
                (_, Standing::Candidate) if leads => Standing::Leader,
                (_, same) => same,
            };
            let changed = next != *standing;
            if changed && next == Standing::Lost {
                warn!("leader election lost");
            }
            *standing = next;
            changed
        });
    }

    fn election(&self) -> MutexGuard<'_, Election> {
        self.election.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fence for Leadership {
    fn may_change(&self) -> bool {
        self.election().is_leader(self.clock.now())
    }
}
