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
use ccm_core::version::Version;

use crate::calls::Params;
use crate::client::Client;
use crate::command::{Command, Verb};
use crate::discover::read_capabilities;
use crate::envelope::Object;
use crate::error::{Failure, decode_error};
use crate::fields::Fields;
use crate::observe::decoded;
use crate::pages::{PageStep, Pages};
use crate::wire::{Runtime, Transport};

const APIS: Command = Command::ListApis;

/// Whether a command may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was tried, or the server says so.
    Allowed,
    /// It was refused, or the server says so.
    Denied,
    /// Only its use would tell.
    Unknown,
}

/// What a key may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Of the server, if it tells.
    pub version: Option<Version>,
    /// Every command.
    pub commands: BTreeMap<Command, Standing>,
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
        let mut found = Permissions { version: None, commands: BTreeMap::new(), vpc_tiers: None };
        for command in Command::ALL.iter().copied().filter(|known| known.verb() == Verb::Read) {
            let standing = match (command, &apis) {
                (APIS, Listing::Listed(_)) => Standing::Allowed,
                (APIS, Listing::Denied) => Standing::Denied,
                _ => self.tried(command, &mut found).await?,
            };
            found.commands.insert(command, standing);
        }
        let listed = |command: Command| match &apis {
            Listing::Listed(names) => Some(names.iter().any(|name| name == command.name())),
            Listing::Denied => None,
        };
        let narrowed = found.commands.iter().any(|(command, standing)| {
            *standing == Standing::Denied && listed(*command) == Some(true)
        });
        for command in Command::ALL.iter().copied().filter(|known| known.verb() != Verb::Read) {
            let standing = match listed(command) {
                Some(false) => Standing::Denied,
                Some(true) if !narrowed => Standing::Allowed,
                Some(true) | None => Standing::Unknown,
            };
            found.commands.insert(command, standing);
        }
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
        found: &mut Permissions,
    ) -> Result<Standing, CallError> {
        match self.ask(command, &self.smallest(command)).await {
            Ok(answer) => {
                learn(command, &answer, found)?;
                Ok(Standing::Allowed)
            }
            Err(failure) if failure.is_denial() => Ok(Standing::Denied),
            // It got as far as its parameters, or what they name.
            Err(failure)
                if failure.server().is_some_and(|error| matches!(error.code, 431 | 530)) =>
            {
                Ok(Standing::Allowed)
            }
            Err(failure) => Err(failure.into_error(command)),
        }
    }

    /// The parameters of the smallest request.
    fn smallest(&self, command: Command) -> Params {
        let id = || self.runtime.fresh_uuid();
        match command {
            Command::ListCapabilities | Command::ListApis => Vec::new(),
            Command::QueryAsyncJobResult => vec![("jobid", id())],
            Command::ListLoadBalancerRuleInstances => vec![("id", id())],
            // Whether there are tiers is worth knowing.
            Command::ListNetworks => self.scoped(None, first(self.options.page_size)),
            _ => self.scoped(None, first(1)),
        }
    }
}

fn first(rows: u32) -> Params {
    vec![("page", "1".to_owned()), ("pagesize", rows.to_string())]
}

fn learn(command: Command, answer: &Object, found: &mut Permissions) -> Result<(), CallError> {
    if command == Command::ListCapabilities {
        let read = read_capabilities(answer).map_err(|error| decode_error(command, &error))?;
        found.version = read.0;
    }
    if command == Command::ListNetworks {
        let rows = answer.get("network").and_then(serde_json::Value::as_array);
        let is_tier = |row: &serde_json::Value| row.get("vpcid").is_some();
        found.vpc_tiers = Some(rows.into_iter().flatten().any(is_tier));
    }
    Ok(())
}
