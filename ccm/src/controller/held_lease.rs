//! The Lease, for as long as a command changes something: no controller works meanwhile.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use ccm_cloudstack::{Runtime as _, TokioRuntime};
use ccm_core::election::Timing;
use ccm_core::ids::ServiceKey;
use ccm_kubernetes::live::lease::LeaseLock;
use tokio::task::JoinHandle;

use super::election::{Leadership, Standing};
use super::ports::Fence as _;
use super::process::hostname;

/// How long the Lease is waited for: one that nobody renews is free after 15 s.
const PATIENCE: Duration = Duration::from_secs(25);
/// How long giving it up may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct HeldLease {
    leadership: Arc<Leadership>,
    campaign: JoinHandle<()>,
}

impl HeldLease {
    /// Waits for the Lease, and takes it.
    ///
    /// # Errors
    /// If it is not to be had: who holds it.
    pub(crate) async fn take(kubernetes: kube::Client, lease: &ServiceKey) -> Result<Self> {
        let ServiceKey { namespace, name } = lease;
        let timing = Timing::default();
        let identity = format!("{}_apply_{}", hostname(), TokioRuntime.fresh_uuid());
        let lock = LeaseLock::new(kubernetes, namespace, name, timing.request_timeout());
        let (leadership, campaign) = Leadership::seek(lock, &identity, timing);
        let mut standing = leadership.standing();
        let elected = standing.wait_for(|standing| *standing == Standing::Leader);
        if tokio::time::timeout(PATIENCE, elected).await.is_ok_and(|waited| waited.is_ok()) {
            return Ok(Self { leadership, campaign });
        }
        campaign.abort();
        match leadership.holder() {
            Some(holder) => bail!(
                "a controller works: {holder} holds the Lease {lease}. It does by itself what is to \
                 be done; to apply a plan by hand, stop it first"
            ),
            None => bail!(
                "the Lease {lease} can't be had: nobody is known to hold it, so these credentials \
                 may not use it; `check-permissions --for apply` tells what is missing"
            ),
        }
    }

    /// Whether something may still be changed.
    pub(crate) fn lasts(&self) -> bool {
        self.leadership.may_change()
    }

    /// Gives the Lease up, so that the next one need not wait.
    pub(crate) async fn end(self) {
        self.leadership.release();
        // If that is not quick, the Lease expires.
        let _ = tokio::time::timeout(FAREWELL, self.campaign).await;
    }
}
