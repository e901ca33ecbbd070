//! What is promised, whatever happens. Each promise has an oracle, and each violation names it. For
//! operators they stand in `deploy/docs/reliability.md`, whose text is `promise.md` with the table here
//! and that of the faults in it (`mutants.rs`).

use std::fmt;

use jiff::Timestamp;

use crate::mutants;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Only what is its own is changed.
    Ownership,
    /// Only what nobody needs is released.
    Release,
    /// No address is forgotten.
    Leaks,
    /// Nobody comes in who may not.
    Sources,
    /// What proves comes before what it proves, and who answers before who asks.
    Order,
    /// What is shown serves.
    Publication,
    /// Nothing is left behind.
    Farewell,
    /// No Node of a living machine is deleted.
    Nodes,
    /// It all comes right.
    Convergence,
    /// What is right stays as it is.
    Rest,
    /// Calls are bounded.
    Economy,
}

impl Promise {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Ownership,
        Self::Release,
        Self::Leaks,
        Self::Sources,
        Self::Order,
        Self::Publication,
        Self::Farewell,
        Self::Nodes,
        Self::Convergence,
        Self::Rest,
        Self::Economy,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ownership => "ownership",
            Self::Release => "release",
            Self::Leaks => "leaks",
            Self::Sources => "sources",
            Self::Order => "order",
            Self::Publication => "publication",
            Self::Farewell => "farewell",
            Self::Nodes => "nodes",
            Self::Convergence => "convergence",
            Self::Rest => "rest",
            Self::Economy => "economy",
        }
    }

    /// What it says.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ownership => {
                "A cluster changes only what its own controller made or adopted, and uses only \
                 addresses of its own or those that a Service asked for"
            }
            Self::Release => {
                "An address is released only when nothing of anybody is left on it and no Service \
                 shows it"
            }
            Self::Leaks => "Every address that a controller made is named by a Service",
            Self::Sources => {
                "Nobody comes in to a port who was neither let in before nor is to be from now on"
            }
            Self::Order => {
                "Finalizer, intent and record are written before what they are for is made; a port \
                 is opened after its first member and closed before its rule goes"
            }
            Self::Publication => "An address that a Service shows serves",
            Self::Farewell => {
                "A Service that is let go leaves nothing behind, in CloudStack and on itself"
            }
            Self::Nodes => "A Node is deleted only after its machine",
            Self::Convergence => {
                "Once the trouble is over, everything comes to be as people asked for it"
            }
            Self::Rest => "Where everything is as asked for, nothing is changed",
            Self::Economy => "The calls of an hour are bounded, whatever goes wrong",
        }
    }
}

/// `deploy/docs/reliability.md`.
pub fn markdown() -> String {
    let rows = Promise::ALL.map(|promise| format!("| {} | {} |\n", promise.name(), promise.text()));
    let page = include_str!("promise.md").replace("{promises}", rows.concat().trim_end());
    page.replace("{mutants}", mutants::table().trim_end())
}

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// When.
    pub at: Timestamp,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise, at, what } = self;
        write!(f, "{at} {}: {what}", promise.name())
    }
}
