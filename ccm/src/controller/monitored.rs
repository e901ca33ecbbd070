//! CloudStack, as it answers: every answer tells whether it is there and takes the credentials.

use std::collections::BTreeSet;
use std::sync::Arc;

use ccm_core::exec::error::{CallError, Fault};
use ccm_core::exec::output::Output;
use ccm_core::ids::{LoadBalancerRuleId, VirtualMachineId};
use ccm_core::node::lifecycle::Answer;
use ccm_core::observe::scope::Scope;
use ccm_core::observe::{CloudState, VirtualMachine};
use ccm_core::plan::action::Call;

use super::ports::Inventory;
use super::process::CloudStack;
use crate::metrics::{Metrics, Side};
use crate::ports::{Cloud, Members};
use crate::serve::{Condition, Health};

/// See the module.
pub(super) struct MonitoredCloud {
    cloud: CloudStack,
    metrics: Arc<Metrics>,
    reachable: Condition,
    credentials: Condition,
}

impl MonitoredCloud {
    pub(super) fn new(cloud: CloudStack, metrics: Arc<Metrics>, health: &Health) -> Self {
        let (reachable, credentials) =
            (health.readiness("cloudstack"), health.readiness("credentials"));
        Self { cloud, metrics, reachable, credentials }
    }

    /// Asks what the server and the role can do.
    pub(super) async fn discover(&self) -> Result<(), CallError> {
        let found = self.note(self.cloud.discover().await)?;
        let version = found.version.map(|version| version.to_string()).unwrap_or_default();
        self.metrics.server(&version);
        Ok(())
    }

    fn note<T>(&self, result: Result<T, CallError>) -> Result<T, CallError> {
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

impl Cloud for MonitoredCloud {
    async fn observe(&self, scope: &Scope) -> Result<CloudState, CallError> {
        let state = self.note(self.cloud.observe(scope).await)?;
        self.metrics.observed(Side::CloudStack);
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

impl Inventory for MonitoredCloud {
    async fn machines(&self) -> Result<Vec<VirtualMachine>, CallError> {
        self.note(self.cloud.machines().await)
    }

    async fn machine(&self, id: &VirtualMachineId) -> Answer {
        self.cloud.machine(id).await
    }
}
