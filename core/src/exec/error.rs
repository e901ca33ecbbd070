//! What a call reports when it does not succeed: whose fault, whether it took effect, how long to
//! wait.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A call that did not succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{command}: {message}")]
pub struct CallError {
    /// The API command or Kubernetes write.
    pub command: String,
    /// `errorcode`, or `jobresultcode` of a failed job; `None` if no answer was understood.
    pub code: Option<u16>,
    /// Whose fault it is.
    pub fault: Fault,
    /// Whether the call changed anything.
    pub effect: Effect,
    /// The earliest moment for the next call of any kind, from now (429).
    pub retry_after: Option<Duration>,
    /// What was found: the server's text, or what happened to the connection. Holds no secret.
    pub message: String,
}

/// Whose fault a failure is; decides how soon it is worth trying again. The order is the one of
/// waiting: what needs the longest wait comes last ([`Backoff`](crate::exec::backoff::Backoff)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The network, a busy or restarting server: soon.
    Transient,
    /// The server refuses for a while (429): when it says.
    Throttled,
    /// The backend failed (530, 534).
    Cloud,
    /// We were wrong.
    Bug,
    /// The request can't work as it is (430, 431, 537).
    Refused,
    /// A limit of the account, project or domain, or no free address (532, 533, 535).
    Quota,
    /// Credentials or role (401, 432, 531).
    Permission,
}

/// Whether a failed call changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Certainly not.
    No,
    /// Certainly, at least in part.
    Yes,
    /// Nobody knows: observe before anything else.
    Unknown,
}

impl Fault {
    /// A stable label for metrics and texts.
    pub fn label(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Cloud => "cloud",
            Self::Bug => "bug",
            Self::Refused => "refused",
            Self::Quota => "quota",
            Self::Permission => "permission",
        }
    }
}
