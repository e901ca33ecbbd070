//! Which commands the key may use, without changing anything.
//!
//! 1. Commands that read are tried, as small as they get: a list by its first row, and what needs
//!    an id with one that nobody has. Any answer but a denial says that the command may be used.
//! 2. listApis tells of the others. It tells what the *role* may use: a key pair with rules of its
//!    own (from 4.23) may have less. That shows if a command that the list has is denied; then, as
//!    without listApis, only their use tells.

use std::collections::BTreeMap;

use ccm_core::exec::error::CallError;
use ccm_core::observe::Listing;
use ccm_core::permission::report::State;
use ccm_core::version::Version;
use serde_json::Value;

use crate::calls::Params;
use crate::client::Client;
use crate::command::Command;
use crate::discover::read_capabilities;
use crate::envelope::Object;
use crate::error::{Failure, decode_error};
use crate::fields::Fields;
use crate::observe::decoded;
use crate::pages::{PageStep, Pages};
use crate::wire::{Runtime, Transport};

const APIS: Command = Command::ListApis;

/// What a key may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Of the server, if it tells.
    pub version: Option<Version>,
    /// Every command.
    pub commands: BTreeMap<Command, State>,
    /// Whether there is a VPC tier; `None` if networks can't be listed.
    pub vpc_tiers: Option<bool>,
}

impl<T: Transport, R: Runtime> Client<T, R> {
    /// Finds out what the key may use.
    ///
    /// # Errors
    /// [`CallError`] if the server can't be asked, or does not know the key.
    pub async fn permissions(&self) -> Result<Permissions, CallError> {
        let apis = self.apis().await?;
        let of_apis = match &apis {
            Listing::Listed(_) => State::Allowed,
            Listing::Denied => State::Missing,
        };
        let commands = BTreeMap::from([(APIS, of_apis)]);
        let mut found = Permissions { version: None, commands, vpc_tiers: None };
        for command in Command::ALL.iter().copied() {
            if let Some(params) = self.smallest(command) {
                let state = self.tried(command, &params, &mut found).await?;
                found.commands.insert(command, state);
            }
        }
        found.add_untried(&apis);
        Ok(found)
    }

    /// Names of the commands that the role may use, sorted.
    ///
    /// # Errors
    /// [`CallError`] if the list can't be read whole. A missing permission is no error.
    pub async fn apis(&self) -> Result<Listing<Vec<String>>, CallError> {
        let answer = match self.ask(APIS, &Vec::new()).await {
            Ok(answer) => answer,
            Err(failure) if failure.is_denial() => return Ok(Listing::Denied),
            Err(failure) => return Err(failure.into_error(APIS)),
        };
        // It has no pages.
        let rows = match Pages::new(u32::MAX).handle_page(&answer, "api") {
            PageStep::Complete(rows) => rows,
            PageStep::Inconsistent(found) => return Err(Failure::Pages(found).into_error(APIS)),
            PageStep::Next(_) => {
                let found = "more pages than one".to_owned();
                return Err(Failure::Pages(found).into_error(APIS));
            }
        };
        let names = rows.iter().map(|row| {
            let fields = Fields::of("API", row)?;
            fields.text("name").map(str::to_owned)
        });
        let mut names: Vec<String> = decoded(APIS, names.collect())?;
        names.sort();
        Ok(Listing::Listed(names))
    }

    /// Tries a command that reads, and keeps what else its answer tells.
    async fn tried(
        &self,
        command: Command,
        params: &Params,
        found: &mut Permissions,
    ) -> Result<State, CallError> {
        match self.ask(command, params).await {
            Ok(answer) => {
                found.learn(command, &answer)?;
                Ok(State::Allowed)
            }
            Err(failure) if failure.is_denial() => Ok(State::Missing),
            // It got as far as its parameters, or what they name.
            Err(failure)
                if failure.server().is_some_and(|error| matches!(error.code, 431 | 530)) =>
            {
                Ok(State::Allowed)
            }
            Err(failure) => Err(failure.into_error(command)),
        }
    }

    /// The parameters of the smallest request; `None` if the command is not tried.
    fn smallest(&self, command: Command) -> Option<Params> {
        let id = || self.runtime.fresh_uuid();
        Some(match command {
            Command::ListCapabilities => Vec::new(),
            Command::QueryAsyncJobResult => vec![("jobid", id())],
            Command::ListLoadBalancerRuleInstances => vec![("id", id())],
            // Whether there are tiers is worth knowing.
            Command::ListNetworks => self.scoped(None, first(self.options.page_size)),
            Command::ListVpcs
            | Command::ListVirtualMachines
            | Command::ListPublicIpAddresses
            | Command::ListLoadBalancerRules
            | Command::ListFirewallRules
            | Command::ListPortForwardingRules
            | Command::ListNetworkAclLists
            | Command::ListNetworkAcls => self.scoped(None, first(1)),
            Command::ListApis
            | Command::AssociateIpAddress
            | Command::DisassociateIpAddress
            | Command::CreateLoadBalancerRule
            | Command::UpdateLoadBalancerRule
            | Command::DeleteLoadBalancerRule
            | Command::AssignToLoadBalancerRule
            | Command::RemoveFromLoadBalancerRule
            | Command::CreateFirewallRule
            | Command::DeleteFirewallRule
            | Command::CreateNetworkAcl
            | Command::DeleteNetworkAcl
            | Command::CreateTags => return None,
        })
    }
}

impl Permissions {
    /// Adds what was not tried, by what the role may use.
    fn add_untried(&mut self, apis: &Listing<Vec<String>>) {
        let listed = |command: Command| match apis {
            Listing::Listed(names) => Some(names.iter().any(|name| name == command.name())),
            Listing::Denied => None,
        };
        let key_has_less = self
            .commands
            .iter()
            .any(|(command, state)| *state == State::Missing && listed(*command) == Some(true));
        for command in Command::ALL.iter().copied() {
            self.commands.entry(command).or_insert(match listed(command) {
                Some(false) => State::Missing,
                Some(true) if !key_has_less => State::Allowed,
                Some(true) | None => State::Unknown,
            });
        }
    }

    /// Keeps what an answer tells besides.
    fn learn(&mut self, command: Command, answer: &Object) -> Result<(), CallError> {
        if command == Command::ListCapabilities {
            let read = read_capabilities(answer).map_err(|error| decode_error(command, &error))?;
            self.version = read.0;
        }
        if command == Command::ListNetworks {
            let rows = answer.get("network").and_then(Value::as_array);
            let is_tier = |row: &Value| row.get("vpcid").is_some();
            self.vpc_tiers = Some(rows.into_iter().flatten().any(is_tier));
        }
        Ok(())
    }
}

fn first(rows: u32) -> Params {
    vec![("page", "1".to_owned()), ("pagesize", rows.to_string())]
}
