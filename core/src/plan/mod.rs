//! From what is wanted and what is there to an ordered list of steps.

//!
//! [`planner::Planner`] works out what all Services have in common; its `plan` leads to `ensure`
//! (a load balancer is wanted) or `teardown` (it is not). One planner per kind of object says
//! what that object needs: `public_ip`, `network`, `port`, `load_balancer_rule`, `member`,
//! `firewall_rule`, `network_acl`, `release`. `serve` puts the needs of one port in order,
//! `writes` puts the writes on the Service around them. What is refused still gets `upkeep`.

pub mod action;
pub mod builder;
pub mod check;
mod draft;
mod ensure;
mod firewall_rule;
mod intent;
mod load_balancer_rule;
mod member;
mod network;
mod network_acl;
pub mod planner;
mod port;
mod public_ip;
pub mod reason;
mod release;
pub mod report;
mod restore;
mod serve;
mod service_patch;
pub mod standing;
mod tag;
mod teardown;
mod upkeep;
mod writes;

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{PublicIpId, ServiceKey};
use crate::model::Desired;
use crate::model::policy::Policy;
use crate::observe::index::Observed;
use action::{Action, Kind};
use reason::{Disruption, Reason};

/// The name of a step within its plan, for example `rule/tcp-443`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepId(String);

impl StepId {
    /// The step of that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A plan, and what is not in it and why. Both empty: the Service is converged.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What is to be done.
    pub plan: Plan,
    /// What is not, and why.
    pub report: report::Report,
}

impl Planned {
    /// Nothing to do and nothing to say.
    pub fn nothing(service: ServiceKey) -> Self {
        Self { plan: Plan::new(service), report: report::Report::default() }
    }

    /// Nothing to do for now.
    pub(crate) fn waiting(service: &ServiceKey, why: report::Note) -> Self {
        let mut planned = Self::nothing(service.clone());
        planned.report.add(why);
        planned
    }

    /// Whether nothing is to be done and nothing that is wanted is missing. Without Nodes all is.
    pub fn is_settled(&self) -> bool {
        let missing = |note: &report::Note| {
            note.severity() >= report::Severity::Waiting
                || matches!(note, report::Note::NoEligibleNodes {})
        };
        self.plan.is_empty() && !self.report.notes.iter().any(missing)
    }
}

/// Plans one Service.
///
/// # Errors
/// [`planner::PlanError`] if the Service is not there or the observation is too narrow for it.
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    policy: &Policy,
    now: Timestamp,
    service: &ServiceKey,
) -> Result<Planned, planner::PlanError> {
    planner::Planner::new(desired, observed, policy, now).plan(service)
}

/// What is to be done for one Service, in order.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The Service.
    pub service: ServiceKey,
    /// The addresses that are there and that it works on: those that the Service holds or asks for.
    pub addresses: BTreeSet<PublicIpId>,
    /// The steps; each stands behind those that it waits for.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Nothing to do for a Service.
    pub fn new(service: ServiceKey) -> Self {
        Self { service, addresses: BTreeSet::new(), steps: Vec::new() }
    }

    /// Whether it releases an address.
    pub fn releases(&self, address: &PublicIpId) -> bool {
        self.steps.iter().any(|step| {
            matches!(&step.action, Action::DisassociateIpAddress(release) if release.address == *address)
        })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether any step changes CloudStack.
    pub fn touches_cloud(&self) -> bool {
        self.steps.iter().any(|step| step.action.kind() == Kind::Change)
    }

    /// A step by name.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.steps.iter().find(|step| &step.id == id)
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub id: StepId,
    /// What it does.
    pub action: Action,
    /// The steps that must have succeeded before.
    pub after: BTreeSet<StepId>,
    /// Why it is planned.
    pub reason: Reason,
    /// What it costs the Service's users.
    pub disruption: Disruption,
}
