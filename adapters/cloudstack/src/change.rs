//! Commands that change something: sent with a job id of our choice, followed to the end.
//!
//! The job id makes an answer that got lost recoverable: the server knows the job by it. Only what
//! the job says settles the call; silence settles nothing.

use std::net::Ipv4Addr;
use std::time::Duration;

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::job::JobStep;
use ccm_core::exec::output::{AddressUse, Output};
use ccm_core::ids::{FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, PublicIpId};
use ccm_core::observe::{AddressState, PublicIpAddress, RuleState};
use ccm_core::plan::action::{CheckAddressUnused, ResolvedAddress};
use serde_json::Value;
use tracing::{Instrument, debug, debug_span, warn};

use crate::calls::{Change, Gives, Params};
use crate::client::Client;
use crate::decode::address::{address, associated};
use crate::decode::rule::{firewall_rule, load_balancer_rule};
use crate::decode::sorted;
use crate::error::{
    Command, Failure, Stage, Verb, already_so, call_error, decode_error, failed_job, is_unknown_id,
};
use crate::fields::DecodeError;
use crate::jobs::{Following, JobAnswer, JobOutcome};
use crate::wire::{Runtime, Transport, later};

const QUERY: Command = Command::read("queryAsyncJobResult");
const ADDRESSES: Command = Command::read("listPublicIpAddresses");
const RULES: Command = Command::read("listLoadBalancerRules");
const FIREWALL: Command = Command::read("listFirewallRules");

/// How often a new address is looked for after its job.
const REREADS: u32 = 3;

/// What the request itself came to.
enum Accepted {
    /// The job to follow, and the id of what was made if the answer had one.
    Job {
        job: JobId,
        id: Option<String>,
        lost: Option<Failure>,
    },
    /// Nothing was to be done.
    AlreadySo,
}

impl<T: Transport, R: Runtime> Client<T, R> {
    /// Sends a command and follows its job.
    pub(crate) async fn change(&self, change: Change) -> Result<Output, CallError> {
        let command = change.command;
        let (job, id, lost) = match self.request(&change).await? {
            Accepted::AlreadySo => return Ok(Output::Done),
            Accepted::Job { job, id, lost } => (job, id, lost),
        };
        let span = debug_span!("job", id = %job, command = command.name);
        let answer = self.follow(command, &job, lost).instrument(span).await?;
        if let JobOutcome::Failed { code, error } = &answer.outcome {
            let gone = error
                .as_ref()
                .is_some_and(|error| already_so(command.verb, Stage::Job, error));
            if gone {
                debug!(command = command.name, "it was so already");
                return Ok(Output::Done);
            }
            return Err(failed_job(command, *code, error.as_ref()));
        }
        self.output(&change, &answer, id.as_deref()).await
    }

    /// Sends a command. A lost answer leaves the job that it would have named.
    async fn request(&self, change: &Change) -> Result<Accepted, CallError> {
        let Change {
            command,
            params,
            gives: _,
            witness,
        } = change;
        let (job, expires) = match witness {
            Some((job, expires)) => (job.clone(), Some(*expires)),
            None => (self.fresh_job(*command)?, None),
        };
        if expires.is_some_and(|expires| expires <= self.runtime.now()) {
            let message = "its time was over before it was sent: the server would refuse it";
            let error = call_error(*command, Fault::Transient, Effect::No, message.to_owned());
            return Err(error);
        }
        let mut params = params.clone();
        params.push(("customjobid", job.to_string()));
        let failure = match self.ask_until(*command, &params, expires).await {
            Ok(answer) => {
                let text = |field: &str| answer.get(field).and_then(Value::as_str);
                let id = text("id").map(str::to_owned);
                // An answer without job id leaves the one that we chose.
                let named = text("jobid").and_then(|text| JobId::parse(text).ok());
                return Ok(Accepted::Job {
                    job: named.unwrap_or(job),
                    id,
                    lost: None,
                });
            }
            Err(failure) => failure,
        };
        if failure.is_lost() {
            warn!(command = command.name, %job, "the answer is lost, asking for the job");
            return Ok(Accepted::Job {
                job,
                id: None,
                lost: Some(failure),
            });
        }
        let refusal = failure.server();
        if refusal.is_some_and(|error| already_so(command.verb, Stage::Request, error)) {
            debug!(command = command.name, "it was so already");
            return Ok(Accepted::AlreadySo);
        }
        // Releasing a free address is a 530 with a text that says nothing (observed).
        let unclear = refusal.is_some_and(|error| error.code == 530);
        if command.verb == Verb::Release && unclear && !self.is_held(&params).await? {
            return Ok(Accepted::AlreadySo);
        }
        Err(failure.into_error(*command))
    }

    fn fresh_job(&self, command: Command) -> Result<JobId, CallError> {
        let uuid = self.runtime.fresh_uuid().to_ascii_lowercase();
        JobId::parse(&uuid).map_err(|error| {
            call_error(
                command,
                Fault::Bug,
                Effect::No,
                format!("{error}; please report"),
            )
        })
    }

    /// Asks for a job until it is over; the answer says how it ended.
    async fn follow(
        &self,
        command: Command,
        job: &JobId,
        lost: Option<Failure>,
    ) -> Result<JobAnswer, CallError> {
        let now = self.runtime.now();
        let (patience, lost_patience) = (self.options.job_patience, self.options.lost_patience);
        let mut following = Following::new(now, lost.is_none(), patience, lost_patience);
        let mut at = following.first_poll(now);
        loop {
            self.runtime.sleep_until(at).await;
            let answer = match self.query(job).await {
                Ok(answer) => Some(answer),
                Err(error) if error.fault == Fault::Permission => {
                    let message = format!(
                        "its job {job} can't be followed, its outcome is unknown: {}",
                        error.message
                    );
                    let fault = Fault::Permission;
                    return Err(call_error(command, fault, Effect::Unknown, message));
                }
                Err(error) => {
                    debug!(%error, "job unclear");
                    None
                }
            };
            match (
                following.handle(self.runtime.now(), answer.as_ref()),
                answer,
            ) {
                (JobStep::Succeeded | JobStep::Failed, Some(answer)) => return Ok(answer),
                (JobStep::PollAt(next), _) => at = next,
                (JobStep::TimedOut | JobStep::Succeeded | JobStep::Failed, _) => {
                    let seen = following.was_seen();
                    return Err(self.never_ended(command, job, lost, seen));
                }
            }
        }
    }

    fn never_ended(
        &self,
        command: Command,
        job: &JobId,
        lost: Option<Failure>,
        seen: bool,
    ) -> CallError {
        let unknown = |fault, message| call_error(command, fault, Effect::Unknown, message);
        match lost {
            Some(failure) if !seen => {
                let cause = failure.into_error(command).message;
                let seconds = self.options.lost_patience.as_secs();
                let message = format!(
                    "{cause}; the server did not know its job {job} for {seconds} s, so nobody knows whether it was carried out"
                );
                unknown(Fault::Transient, message)
            }
            Some(_) | None => {
                let seconds = self.options.job_patience.as_secs();
                let message =
                    format!("its job {job} did not end within {seconds} s, its outcome is unknown");
                unknown(Fault::Cloud, message)
            }
        }
    }

    /// Asks for a job once.
    pub(crate) async fn query(&self, job: &JobId) -> Result<JobAnswer, CallError> {
        let params = vec![("jobid", job.to_string())];
        let answer = self.ask(QUERY, &params).await;
        let object = answer.map_err(|failure| failure.into_error(QUERY))?;
        JobAnswer::read(&object).map_err(|error| decode_error(QUERY, &error))
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
                let id = named
                    .or(result)
                    .ok_or_else(|| missing(&answer.without_result("ipaddress")))?;
                self.new_address(command, &id, ip.flatten()).await
            }
        }
    }

    /// Reads a new address: the result of its job shows an older state.
    async fn new_address(
        &self,
        command: Command,
        id: &PublicIpId,
        ip: Option<Ipv4Addr>,
    ) -> Result<Output, CallError> {
        for attempt in 1..=REREADS {
            let found = self.address_by_id(id).await.map_err(|error| CallError {
                effect: Effect::Yes,
                ..error
            })?;
            if let Some(PublicIpAddress {
                id,
                address,
                allocated: Some(allocated),
                ..
            }) = found
            {
                return Ok(Output::Address(ResolvedAddress {
                    id,
                    address,
                    allocated,
                }));
            }
            let pause = Duration::from_millis(500) * attempt;
            self.runtime
                .sleep_until(later(self.runtime.now(), pause))
                .await;
        }
        let shown = ip.map_or_else(|| id.to_string(), |ip| format!("{id} ({ip})"));
        Err(call_error(
            command,
            Fault::Cloud,
            Effect::Yes,
            format!("address {shown} was associated, but it is not listed"),
        ))
    }

    /// The address in the parameter `id`: whether it is ours to release still.
    async fn is_held(&self, params: &Params) -> Result<bool, CallError> {
        let text = params.iter().find(|(name, _)| *name == "id");
        let Some(id) = text.and_then(|(_, text)| PublicIpId::parse(text).ok()) else {
            return Ok(true);
        };
        Ok(self.address_by_id(&id).await?.is_some())
    }

    /// An address that is allocated or on its way out; the default list hides the latter.
    async fn address_by_id(&self, id: &PublicIpId) -> Result<Option<PublicIpAddress>, CallError> {
        for state in [None, Some("Releasing"), Some("Allocating")] {
            let mut filter = vec![("id", id.to_string())];
            filter.extend(state.map(|state| ("state", state.to_owned())));
            let params = self.scoped(None, filter);
            let entries = match self.list(ADDRESSES, &params, "publicipaddress").await {
                Ok(entries) => entries,
                Err(failure) if failure.server().is_some_and(is_unknown_id) => return Ok(None),
                Err(failure) => return Err(failure.into_error(ADDRESSES)),
            };
            for entry in &entries {
                let found = address(entry).map_err(|error| decode_error(ADDRESSES, &error))?;
                if let Some(found) = found.filter(|found| &found.id == id) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// What is on an address, read afresh.
    pub(crate) async fn check_address_unused(
        &self,
        check: &CheckAddressUnused,
    ) -> Result<Output, CallError> {
        // Whether `allocated` is still ours is the core's comparison.
        let CheckAddressUnused {
            address: id,
            allocated: _,
        } = check;
        let Some(address) = self.address_by_id(id).await? else {
            return Ok(Output::AddressUse(AddressUse::default()));
        };
        let (rules, firewall_rules) =
            tokio::try_join!(self.rules_on(id), self.firewall_rules_on(id))?;
        Ok(Output::AddressUse(AddressUse {
            allocated: address.allocated,
            held: match address.state {
                AddressState::Allocated | AddressState::Releasing => true,
                AddressState::Allocating | AddressState::Reserved | AddressState::Free => false,
            },
            nat: address.source_nat || address.static_nat.is_some(),
            load_balancer_rules: rules,
            firewall_rules,
            has_rules: address.has_rules,
        }))
    }

    async fn rules_on(&self, id: &PublicIpId) -> Result<Vec<String>, CallError> {
        let params = self.scoped(None, vec![("publicipid", id.to_string())]);
        let entries = self.list(RULES, &params, "loadbalancerrule").await;
        let entries = entries.map_err(|failure| failure.into_error(RULES))?;
        let rules = sorted(&entries, load_balancer_rule, |rule| &rule.id);
        let rules = rules.map_err(|error| decode_error(RULES, &error))?;
        let alive = rules
            .into_iter()
            .filter(|rule| rule.state != RuleState::Deleting);
        Ok(alive.map(|rule| rule.id.to_string()).collect())
    }

    /// An address that is not Allocated answers 431: it has no firewall rules to speak of.
    async fn firewall_rules_on(&self, id: &PublicIpId) -> Result<Vec<String>, CallError> {
        let params = self.scoped(None, vec![("ipaddressid", id.to_string())]);
        let entries = match self.list(FIREWALL, &params, "firewallrule").await {
            Ok(entries) => entries,
            Err(failure) if failure.server().is_some_and(|error| error.code == 431) => Vec::new(),
            Err(failure) => return Err(failure.into_error(FIREWALL)),
        };
        let rules = sorted(&entries, firewall_rule, |rule| &rule.id);
        let rules = rules.map_err(|error| decode_error(FIREWALL, &error))?;
        let alive = rules
            .into_iter()
            .filter(|rule| rule.state != RuleState::Deleting);
        Ok(alive.map(|rule| rule.id.to_string()).collect())
    }
}
