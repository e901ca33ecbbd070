//! CloudStack, as it answers: every answer tells whether it is there and takes the credentials.

use std::collections::BTreeSet;
use std::sync::Arc;

use ccm_cloudstack::{Client, HttpTransport, Runtime, TokioRuntime, Transport};
use ccm_core::exec::error::{CallError, Fault};
use ccm_core::exec::output::Output;
use ccm_core::ids::{LoadBalancerRuleId, VirtualMachineId};
use ccm_core::node::lifecycle::Answer;
use ccm_core::observe::scope::Scope;
use ccm_core::observe::{CloudState, VirtualMachine};
use ccm_core::plan::action::Call;
use ccm_core::reload::{Unproven, prove_account};

use super::ports::Inventory;
use crate::metrics::Metrics;
use crate::ports::{Cloud, Members};
use crate::serve::{Condition, Health};

/// See the module.
pub struct MonitoredCloud<T = HttpTransport, R = TokioRuntime> {
    cloud: Client<T, R>,
    metrics: Arc<Metrics>,
    reachable: Condition,
    credentials: Condition,
}

impl<T: Transport, R: Runtime> MonitoredCloud<T, R> {
    /// Tells metrics, and the checks `cloudstack` and `credentials`, of what this client is answered.
    pub fn new(cloud: Client<T, R>, metrics: Arc<Metrics>, health: &Health) -> Self {
        let (reachable, credentials) =
            (health.readiness("cloudstack"), health.readiness("credentials"));
        Self { cloud, metrics, reachable, credentials }
    }

    /// Asks what the server and the role can do.
    ///
    /// # Errors
    /// [`CallError`] if the server can't be asked, or refuses the credentials.
    pub async fn discover(&self) -> Result<(), CallError> {
        let found = self.note(self.cloud.discover().await)?;
        let version = found.version.map(|version| version.to_string()).unwrap_or_default();
        self.metrics.server(&version);
        Ok(())
    }

    /// Goes on with the credentials of another client, if they work and act for the same account.
    ///
    /// # Errors
    /// [`Unproven`] says why not.
    pub async fn renew(&self, proposed: &Client<T, R>) -> Result<(), Unproven> {
        proposed.discover().await?;
        prove_account(proposed.machines().await, self.cloud.machines().await)?;
        self.cloud.take_over(proposed);
        self.note_credentials(None);
        Ok(())
    }

    fn note<X>(&self, result: Result<X, CallError>) -> Result<X, CallError> {
        match &result {
            Ok(_) => self.note_credentials(None),
            // 401: nobody knows these keys, or their user is disabled.
            Err(error) if error.code == Some(401) => self.note_credentials(Some(error)),
            Err(error) if error.fault == Fault::Transient && error.code.is_none() => {
                self.reachable.fails(error.to_string());
            }
            Err(_) => self.reachable.holds(),
        }
        result
    }

    fn note_credentials(&self, refused: Option<&CallError>) {
        self.reachable.holds();
        self.metrics.credentials_valid(refused.is_none());
        match refused {
            Some(error) => self.credentials.fails(error.to_string()),
            None => self.credentials.holds(),
        }
    }
}

impl<T: Transport, R: Runtime> Cloud for MonitoredCloud<T, R> {
    async fn observe(&self, scope: &Scope) -> Result<CloudState, CallError> {
        let state = self.note(self.cloud.observe(scope).await)?;
        self.metrics.observed(state.capabilities.rate_limit);
        let denied = state.capabilities.denied.iter().map(String::as_str);
        self.metrics.permissions_missing(&denied.collect());
        Ok(state)
    }

    async fn members(&self, rules: &BTreeSet<LoadBalancerRuleId>) -> Result<Members, CallError> {
        self.note(self.cloud.members(rules).await)
    }

    async fn call(&self, call: &Call) -> Result<Output, CallError> {
        self.note(self.cloud.call(call).await)
    }
}

impl<T: Transport, R: Runtime> Inventory for MonitoredCloud<T, R> {
    async fn machines(&self) -> Result<Vec<VirtualMachine>, CallError> {
        self.note(self.cloud.machines().await)
    }

    async fn machine(&self, id: &VirtualMachineId) -> Answer {
        self.cloud.machine(id).await
    }
}
