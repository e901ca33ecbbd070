//! The laws of order, in one table, checked on every plan that any test makes.
//!
//! They are checked on the dependencies between steps, not on their order in the list: steps that
//! don't wait for each other may run in any order.

mod address;
mod case;
mod port;
mod sources;
mod status;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::BTreeSet;
use std::fmt;

use crate::model::policy::Policy;
use crate::model::service::Service;
use crate::observe::index::Observed;
use crate::plan::{Plan, StepId};
use case::{Case, ancestors};

/// A law of order.
pub struct Law {
    /// Its name in test output.
    pub name: &'static str,
    /// Why it holds.
    pub why: &'static str,
    breaches: fn(&Case<'_>) -> Vec<StepId>,
}

/// Every law. A plan that keeps them all can be stopped after any step.
pub const LAWS: &[Law] = &[
    Law {
        name: "steps wait only for earlier ones",
        why: "a plan is printed and run from top to bottom",
        breaches: disorder,
    },
    Law {
        name: "finalizer before the first cloud change",
        why: "a deleted Service is never forgotten",
        breaches: writes::unprotected_changes,
    },
    Law {
        name: "finalizer removed after the last cloud change",
        why: "a deleted Service is never forgotten",
        breaches: writes::changes_after_farewell,
    },
    Law {
        name: "record and verdict go with the finalizer",
        why: "no stale address shown, no proof lost",
        breaches: writes::half_farewells,
    },
    Law {
        name: "intent before associate",
        why: "a crash leaves a witness, not a leak",
        breaches: writes::unintended_associates,
    },
    Law {
        name: "new address recorded before it is used",
        why: "a crash leaves something known, not a leak",
        breaches: writes::unrecorded_uses,
    },
    Law {
        name: "openings recorded by content before they are made",
        why: "firewall rules carry no mark",
        breaches: writes::unrecorded_openings,
    },
    Law {
        name: "rule and first members before the opening",
        why: "nobody is let in to a port without backends",
        breaches: port::early_openings,
    },
    Law {
        name: "opening closed before its rule is deleted",
        why: "nothing stays open longer than served",
        breaches: port::early_deletions,
    },
    Law {
        name: "delete unmaps members: no separate remove",
        why: "each call is a router reload",
        breaches: port::needless_removes,
    },
    Law {
        name: "sources at every prefix within old and new",
        why: "never a moment of exposure",
        breaches: sources::exposures,
    },
    Law {
        name: "a port that stays keeps its openings",
        why: "shortest outage: a recreate and an emptied node set leave them as they are",
        breaches: port::needless_closings,
    },
    Law {
        name: "recreate is delete, create, assign, adjacent",
        why: "shortest gap, other ports untouched",
        breaches: port::slow_recreates,
    },
    Law {
        name: "adds before removes, one call per rule and direction",
        why: "no rule is ever without members; each call is a router reload",
        breaches: port::disorderly_members,
    },
    Law {
        name: "status after what it promises",
        why: "no traffic to nothing",
        breaches: status::early_status,
    },
    Law {
        name: "status in one write",
        why: "a change of hostname or ipMode never shows half of it",
        breaches: status::piecemeal_status,
    },
    Law {
        name: "address released last, checked on a fresh read",
        why: "releasing an address revokes everything on it",
        breaches: address::unchecked_releases,
    },
];

/// A law that a plan does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The law.
    pub law: &'static str,
    /// Why it holds.
    pub why: &'static str,
    /// The steps that break it.
    pub steps: Vec<StepId>,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, why, steps } = self;
        let steps: Vec<&str> = steps.iter().map(StepId::as_str).collect();
        write!(f, "law {law:?} ({why}) is broken by {}", steps.join(", "))
    }
}

/// Checks a plan against every law.
pub fn check(plan: &Plan, service: &Service, observed: &Observed, policy: &Policy) -> Vec<Breach> {
    let case = Case { plan, service, observed, policy, before: ancestors(plan) };
    let breach = |law: &Law| {
        let steps = (law.breaches)(&case);
        (!steps.is_empty()).then_some(Breach { law: law.name, why: law.why, steps })
    };
    LAWS.iter().filter_map(breach).collect()
}

fn disorder(case: &Case<'_>) -> Vec<StepId> {
    let mut seen = BTreeSet::new();
    let mut broken = Vec::new();
    for step in &case.plan.steps {
        if !step.after.iter().all(|id| seen.contains(id)) || !seen.insert(step.id.clone()) {
            broken.push(step.id.clone());
        }
    }
    broken
}
