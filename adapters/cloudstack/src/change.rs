//! Commands that change something: sent with a job id of our choice, followed to the end.
//!
//! The job id makes an answer that got lost recoverable: the server knows the job by it. Only what
//! the job says settles the call; silence settles nothing.

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::output::Output;
use ccm_core::ids::{FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, PublicIpId};
use serde_json::Value;
use tracing::{Instrument, debug, debug_span, warn};

use crate::calls::{Change, Gives};
use crate::client::Client;
use crate::command::{Command, Verb};
use crate::decode::address::associated;
use crate::envelope::EnvelopeError;
use crate::error::{Failure, Stage, already_so, call_error, decode_error, failed_job};
use crate::fields::DecodeError;
use crate::jobs::{JobAnswer, JobOutcome};
use crate::wire::{Runtime, Transport};

/// What the request itself came to.
enum Accepted {
    /// The job to follow, and the id of what was made if the answer had one.
    Job { job: JobId, id: Option<String>, lost: Option<Failure> },
    /// Nothing was to be done.
    AlreadySo,
}

impl<T: Transport, R: Runtime> Client<T, R> {
    /// Sends a command and follows its job.
    pub(crate) async fn change(&self, change: Change) -> Result<Output, CallError> {
        let command = change.command;
        self.refuse_while_unfinished(&change).await?;
        let (job, id, lost) = match self.request(&change).await? {
            Accepted::AlreadySo => return Ok(Output::Done),
            Accepted::Job { job, id, lost } => (job, id, lost),
        };
        let span = debug_span!("job", id = %job, command = command.name());
        let answer = self.follow(&change, &job, lost).instrument(span).await?;
        if let JobOutcome::Failed { code, error } = &answer.outcome {
            let gone =
                error.as_ref().is_some_and(|error| already_so(command.verb(), Stage::Job, error));
            if gone {
                debug!(command = command.name(), "it was so already");
                return Ok(Output::Done);
            }
            return Err(failed_job(command, *code, error.as_ref()));
        }
        self.output(&change, &answer, id.as_deref()).await
    }

    /// Sends a command. A lost answer leaves the job that it would have named.
    async fn request(&self, change: &Change) -> Result<Accepted, CallError> {
        let Change { command, params, gives: _, witness } = change;
        let (job, expires) = match witness {
            Some((job, expires)) => (job.clone(), Some(*expires)),
            None => (self.fresh_job(*command)?, None),
        };
        let mut params = params.clone();
        params.push(("customjobid", job.to_string()));
        let failure = match self.ask_until(*command, &params, expires).await {
            Ok(answer) => {
                let text = |field: &str| answer.get(field).and_then(Value::as_str);
                if let Some(job) = text("jobid").and_then(|text| JobId::parse(text).ok()) {
                    let id = text("id").map(str::to_owned);
                    let lost = None;
                    self.note_allowed(command.name());
                    return Ok(Accepted::Job { job, id, lost });
                }
                let found = "no `jobid`".to_owned();
                Failure::Answer(EnvelopeError::Unreadable { status: 200, found })
            }
            Err(failure) => failure,
        };
        if failure.is_lost() {
            warn!(command = command.name(), %job, "the answer is lost, asking for the job");
            return Ok(Accepted::Job { job, id: None, lost: Some(failure) });
        }
        if self.lacks(&failure).await {
            self.note_denied(command.name());
        }
        let refusal = failure.server();
        if refusal.is_some_and(|error| already_so(command.verb(), Stage::Request, error)) {
            debug!(command = command.name(), "it was so already");
            return Ok(Accepted::AlreadySo);
        }
        // Releasing a free address is a 530 with a text that says nothing (observed).
        let unclear = refusal.is_some_and(|error| error.code == 530);
        if command.verb() == Verb::Release && unclear {
            let held = self.is_held(change.target()).await;
            if held == Ok(false) {
                return Ok(Accepted::AlreadySo);
            }
        }
        Err(failure.into_error(*command))
    }

    fn fresh_job(&self, command: Command) -> Result<JobId, CallError> {
        let uuid = self.runtime.fresh_uuid().to_ascii_lowercase();
        JobId::parse(&uuid).map_err(|error| {
            call_error(command, Fault::Bug, Effect::No, format!("{error}; please report"))
        })
    }

    /// What a finished job gives. An id in the first answer goes before one in the result.
    async fn output(
        &self,
        change: &Change,
        answer: &JobAnswer,
        id: Option<&str>,
    ) -> Result<Output, CallError> {
        let command = change.command;
        let missing = |error: &DecodeError| decode_error(command, error);
        let created = |name: &'static str| id.or_else(|| answer.created(name));
        match change.gives {
            Gives::Nothing => Ok(Output::Done),
            Gives::LoadBalancerRule => created("loadbalancer")
                .and_then(|id| LoadBalancerRuleId::parse(id).ok())
                .map(Output::LoadBalancerRule)
                .ok_or_else(|| missing(&answer.without_result("loadbalancer"))),
            Gives::FirewallRule => created("firewallrule")
                .and_then(|id| FirewallRuleId::parse(id).ok())
                .map(Output::FirewallRule)
                .ok_or_else(|| missing(&answer.without_result("firewallrule"))),
            Gives::NetworkAclItem => created("networkacl")
                .and_then(|id| NetworkAclItemId::parse(id).ok())
                .map(Output::NetworkAclItem)
                .ok_or_else(|| missing(&answer.without_result("networkacl"))),
            Gives::Address => {
                let named = id.and_then(|id| PublicIpId::parse(id).ok());
                let (result, ip) = associated(answer).unzip();
                let id =
                    named.or(result).ok_or_else(|| missing(&answer.without_result("ipaddress")))?;
                self.new_address(command, &id, ip.flatten()).await
            }
        }
    }
}
