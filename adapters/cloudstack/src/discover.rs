//! What the server and the role can do, with whatever the role allows.
//!
//! 1. listCapabilities: version and announced rate limit (every default role).
//! 2. If that is refused, or hides the version: the attribute `cloud-stack-version` of a small
//!    answer in XML, which every role sees.
//!
//! Which other commands a role lacks shows when they are used ([`Client::observe`]), or when somebody
//! asks ([`Client::permissions`]).

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_core::exec::error::CallError;
use ccm_core::observe::{Capabilities, RateLimit};
use ccm_core::permission::cloudstack::without;
use ccm_core::version::{Features, Version};
use tracing::{info, warn};

use crate::client::{Client, Format};
use crate::command::Command;
use crate::envelope::{EnvelopeError, Object, xml_error, xml_version};
use crate::error::{Failure, decode_error};
use crate::fields::{DecodeError, Fields};
use crate::wire::{Runtime, Transport, WireResponse, later};

const CAPABILITIES: Command = Command::ListCapabilities;
const NETWORKS: Command = Command::ListNetworks;

/// How long a refusal, or what was discovered, is believed.
pub(crate) const BELIEVED: Duration = Duration::from_hours(1);

impl<T: Transport, R: Runtime> Client<T, R> {
    /// Asks what the server and the role can do. What it finds is used for an hour, and a rate
    /// limit that it finds from now on.
    ///
    /// # Errors
    /// [`CallError`] if the server can't be asked. A missing permission is no error.
    pub async fn discover(&self) -> Result<Capabilities, CallError> {
        let found = self.ask_capabilities().await?;
        self.limiter.announce(found.rate_limit);
        let before = self.learned().capabilities.take();
        if before.is_none_or(|(_, before)| before != found) {
            let version = found.version.map(|version| version.to_string());
            let version = version.as_deref().unwrap_or("unknown");
            info!(version, rate_limit = ?found.rate_limit, "discovered");
        }
        let shown = self.with_denials(&found);
        self.learned().capabilities = Some((self.runtime.now(), found));
        Ok(shown)
    }

    /// What was discovered within the hour; discovers if need be.
    pub(crate) async fn capabilities(&self) -> Result<Capabilities, CallError> {
        let now = self.runtime.now();
        let known = self.learned().capabilities.clone();
        match known.filter(|(at, _)| later(*at, BELIEVED) > now) {
            Some((_, found)) => Ok(self.with_denials(&found)),
            None => self.discover().await,
        }
    }

    async fn ask_capabilities(&self) -> Result<Capabilities, CallError> {
        let (mut version, mut rate_limit) = (None, None);
        match self.ask(CAPABILITIES, &Vec::new()).await {
            Ok(answer) => {
                self.note_allowed(CAPABILITIES.name());
                let found = read_capabilities(&answer);
                (version, rate_limit) =
                    found.map_err(|error| decode_error(CAPABILITIES, &error))?;
            }
            Err(failure) if !self.lacks(&failure).await => {
                return Err(failure.into_error(CAPABILITIES));
            }
            Err(_) => self.note_denied(CAPABILITIES.name()),
        }
        if version.is_none() {
            version = self.version_by_attribute().await?;
        }
        Ok(Capabilities { version, denied: BTreeSet::new(), rate_limit })
    }

    fn with_denials(&self, found: &Capabilities) -> Capabilities {
        let now = self.runtime.now();
        let learned = self.learned();
        let believed = learned.denied.iter().filter(|(_, since)| later(**since, BELIEVED) > now);
        let denied = believed.map(|(name, _)| (*name).to_owned());
        Capabilities { denied: denied.collect(), ..found.clone() }
    }

    /// Whether the role lacks the command that failed. Where a server answers a denial as it
    /// answers a wrong key, a small list that every role has tells which of them it is, and whether
    /// the server is such a one.
    pub(crate) async fn lacks(&self, failure: &Failure) -> bool {
        failure.is_denial()
            || failure.is_unauthorized()
                && self.known_features().denies_as_unauthorized()
                && self.small_list().await.is_ok_and(|answer| proves_a_denial(&answer))
    }

    fn known_features(&self) -> Features {
        let known = self.learned().capabilities.clone();
        Features(known.and_then(|(_, found)| found.version))
    }

    /// Remembers that the role lacks a command; says so the first time.
    pub(crate) fn note_denied(&self, command: &'static str) {
        let now = self.runtime.now();
        if self.learned().denied.insert(command, now).is_none() {
            let cost = without(command);
            warn!(command, cost, "the role may not use a command");
        }
    }

    /// Whether a command was denied within the hour.
    pub(crate) fn is_denied(&self, command: &'static str) -> bool {
        let since = self.learned().denied.get(command).copied();
        since.is_some_and(|since| later(since, BELIEVED) > self.runtime.now())
    }

    /// Remembers that the role has a command.
    pub(crate) fn note_allowed(&self, command: &'static str) {
        self.learned().denied.remove(command);
    }

    /// The beginning of a list that every role has, in the form that tells the version.
    async fn small_list(&self) -> Result<WireResponse, Failure> {
        let page = vec![("page", "1".to_owned()), ("pagesize", "1".to_owned())];
        let params = self.scoped(None, page);
        self.exchange(NETWORKS, &params, Format::Xml, None).await
    }

    async fn version_by_attribute(&self) -> Result<Option<Version>, CallError> {
        let answer = self.small_list().await;
        let answer = answer.map_err(|failure| failure.into_error(NETWORKS))?;
        let version = xml_version(&answer.body).and_then(Version::parse);
        match xml_error(&answer.body) {
            Some(error) if version.is_none() => {
                let failure = Failure::Answer(EnvelopeError::Server(error));
                if failure.is_denial() {
                    return Ok(None);
                }
                Err(failure.into_error(NETWORKS))
            }
            _ => Ok(version),
        }
    }
}

/// Whether a small list shows that the key is right, on a server that answers denials with 401.
fn proves_a_denial(small_list: &WireResponse) -> bool {
    let version = xml_version(&small_list.body).and_then(Version::parse);
    small_list.status == 200 && Features(version).denies_as_unauthorized()
}

/// `cloudstackversion`, `apilimitmax`, `apilimitinterval`. The latter two are there only while
/// the server throttles; the version can be hidden by a setting.
pub(crate) fn read_capabilities(
    answer: &Object,
) -> Result<(Option<Version>, Option<RateLimit>), DecodeError> {
    let Some(capability) = answer.get("capability") else {
        return Ok((None, None));
    };
    let fields = Fields::of("capability", capability)?;
    let version = fields.optional_text("cloudstackversion")?.and_then(Version::parse);
    let calls = fields.optional_number::<u32>("apilimitmax")?.filter(|calls| *calls > 0);
    let seconds = fields.optional_number::<u32>("apilimitinterval")?.unwrap_or(1).max(1);
    Ok((version, calls.map(|calls| RateLimit { calls, seconds })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &serde_json::Value) -> (Option<Version>, Option<RateLimit>) {
        read_capabilities(value.as_object().unwrap()).unwrap()
    }

    #[test]
    fn version_and_limit_as_recorded() {
        let value = json!({"capability": {"securitygroupsenabled": false, "supportELB": "false",
            "cloudstackversion": "4.23.0.0-SNAPSHOT", "apilimitinterval": 1, "apilimitmax": 25}});
        let limit = RateLimit { calls: 25, seconds: 1 };
        assert_eq!(read(&value), (Some(Version::new(4, 23, 0)), Some(limit)));
    }

    #[test]
    fn what_a_server_hides_is_absent() {
        assert_eq!(read(&json!({"capability": {"cloudstackversion": "unknown"}})), (None, None));
        assert_eq!(read(&json!({})), (None, None));
        assert_eq!(read(&json!({"capability": {"apilimitmax": 0}})), (None, None));
    }
}
