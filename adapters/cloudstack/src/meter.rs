//! What a client tells of its requests and jobs while they happen, for metrics.

use std::time::Duration;

use ccm_core::exec::error::Fault;

use crate::command::Command;
use crate::envelope;
use crate::error::Failure;
use crate::wire::{TransportErrorKind, WireResponse};

/// Hears of requests and jobs. It must not block.
pub trait Meter: Send + Sync {
    /// A request waited so long for its turn.
    fn waited(&self, wait: Duration);
    /// A request that was sent came to its end.
    fn answered(&self, command: Command, ending: Ending, took: Duration);
    /// The job of a command is followed from now on.
    fn job_began(&self, command: Command);
    /// It is not followed any more: it ended, or patience did.
    fn job_ended(&self, command: Command, took: Duration);
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With what was asked for.
    Ok,
    /// With an error of the server.
    Failed(Fault),
    /// Without an answer in time.
    TimedOut,
    /// Without an answer: no connection, or a broken one.
    NoAnswer,
}

impl Ending {
    /// A stable label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(fault) => fault.label(),
            Self::TimedOut => "timeout",
            Self::NoAnswer => "no-answer",
        }
    }

    pub(crate) fn of(command: Command, answer: &Result<WireResponse, Failure>) -> Self {
        let failure = match answer {
            Ok(answer) if answer.status < 400 => return Self::Ok,
            Ok(answer) => match envelope::read(answer) {
                Ok(_) => return Self::Ok,
                Err(error) => Failure::Answer(error),
            },
            Err(failure) => failure.clone(),
        };
        match &failure {
            Failure::Transport(error) if error.kind == TransportErrorKind::Timeout => {
                Self::TimedOut
            }
            Failure::Transport(_) => Self::NoAnswer,
            Failure::Answer(_) | Failure::Throttled(..) | Failure::Pages(_) => {
                Self::Failed(failure.into_error(command).fault)
            }
        }
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unmetered;

impl Meter for Unmetered {
    fn waited(&self, _: Duration) {}
    fn answered(&self, _: Command, _: Ending, _: Duration) {}
    fn job_began(&self, _: Command) {}
    fn job_ended(&self, _: Command, _: Duration) {}
}
