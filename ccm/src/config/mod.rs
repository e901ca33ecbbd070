//! The configuration: the INI file of the Go controller, or of the `cs` tool, the environment, and
//! flags.
//!
//! 1. Each source says which settings it sets (`sources.rs`); a flag wins over the environment, the
//!    environment over the file.
//! 2. Each setting is read into its type here.
//! 3. All mistakes go into one message, without any secret; what is merely risky is a warning.
//!
//! Not decided here: which cluster id holds where none is configured, proxies (the HTTP client's),
//! and whether a CA file can be used.

mod error;
mod ini;
mod keys;
mod sources;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccm_core::ids::{ClusterId, ProjectId};
use ccm_core::model::policy::{
    AdoptUnrecorded, NodeReadiness, Policy, SourceRangesMode, UdpOnRouter,
};

pub use error::{ConfigError, ConfigErrors, Origin, Warning};
pub use keys::{Setting, Spec, markdown};
pub use sources::{NoFlag, Overrides};
pub use values::{ApiUrl, duration};

use crate::files;

use sources::Sources;

/// What the process works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `api-url`.
    pub api_url: ApiUrl,
    /// `api-key` and `secret-key`.
    pub credentials: Credentials,
    /// `project-id`.
    pub project: Option<ProjectId>,
    /// `zone`.
    pub zone: Option<String>,
    /// `region`.
    pub region: Option<String>,
    /// `ssl-no-verify` and `ca-file`.
    pub tls: Tls,
    /// `cluster-id`; where there is none, the cluster knows it.
    pub cluster_id: Option<ClusterId>,
    /// `cluster-name`.
    pub cluster_name: String,
    /// `ownership-tags`.
    pub ownership_tags: bool,
    /// `adopt-unrecorded-addresses`.
    pub adopt_unrecorded_addresses: AdoptUnrecorded,
    /// `source-ranges-mode`.
    pub source_ranges_mode: SourceRangesMode,
    /// `udp-on-router`.
    pub udp_on_router: UdpOnRouter,
    /// `node-readiness`.
    pub node_readiness: NodeReadiness,
    /// `request-timeout`.
    pub request_timeout: Duration,
    /// `connect-timeout`.
    pub connect_timeout: Duration,
    /// `job-timeout`.
    pub job_timeout: Duration,
    /// `page-size`.
    pub page_size: u32,
    /// `get-if-post-refused`.
    pub get_if_post_refused: bool,
    /// What was set, and where; for people.
    pub effective: Vec<Effective>,
}

/// The keys of a CloudStack user. They can be used, and not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    api_key: String,
    secret_key: String,
}

impl Credentials {
    /// `api-key`.
    pub fn api_key(&self) -> &str {
        &self.api_key
    }

    /// `secret-key`.
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

/// Who vouches for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// The authorities that the system trusts.
    System,
    /// The authorities in a PEM file.
    CaFile(PathBuf),
    /// Nobody.
    NoVerification,
}

/// A setting that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The setting.
    pub setting: Setting,
    /// Its value; `(hidden)` for a secret.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, value, origin } = self;
        write!(f, "{setting} = {value} ({origin})")
    }
}

impl Config {
    /// Reads the file, if there is one, and puts environment and flags on top.
    ///
    /// # Errors
    /// [`ConfigErrors`] with every mistake.
    pub fn load(
        path: Option<&Path>,
        env: &BTreeMap<String, String>,
        overrides: &Overrides,
    ) -> Result<(Self, Vec<Warning>), ConfigErrors> {
        let Some(path) = path else {
            return Self::read("", env, overrides);
        };
        let named = |errors| ConfigErrors { path: Some(path.to_owned()), errors };
        let text = files::text(path, files::CLOUD_CONFIG_LIMIT).map_err(|cause| {
            named(vec![ConfigError::Unreadable { path: path.to_owned(), cause }])
        })?;
        Self::read(&text, env, overrides).map_err(|ConfigErrors { path: _, errors }| named(errors))
    }

    /// As [`Config::load`], with the text of the file. No file is an empty one.
    ///
    /// # Errors
    /// [`ConfigErrors`] with every mistake.
    pub fn read(
        text: &str,
        env: &BTreeMap<String, String>,
        overrides: &Overrides,
    ) -> Result<(Self, Vec<Warning>), ConfigErrors> {
        let mut sources = Sources::collect(text, env, overrides);
        let config = read(&mut sources);
        let (errors, warnings) = sources.finish();
        match config {
            Some(config) if errors.is_empty() => Ok((config, warnings)),
            Some(_) | None => Err(ConfigErrors { path: None, errors }),
        }
    }

    /// The settings that differ in effect.
    pub fn differing(&self, other: &Self) -> BTreeSet<Setting> {
        let Self {
            api_url,
            credentials: Credentials { api_key, secret_key },
            project,
            zone,
            region,
            tls,
            cluster_id,
            cluster_name,
            ownership_tags,
            adopt_unrecorded_addresses,
            source_ranges_mode,
            udp_on_router,
            node_readiness,
            request_timeout,
            connect_timeout,
            job_timeout,
            page_size,
            get_if_post_refused,
            effective: _,
        } = self;
        let verifies = |tls: &Tls| *tls != Tls::NoVerification;
        let verification = verifies(tls) != verifies(&other.tls);
        [
            (Setting::ApiUrl, *api_url != other.api_url),
            (Setting::ApiKey, *api_key != other.credentials.api_key),
            (Setting::SecretKey, *secret_key != other.credentials.secret_key),
            (Setting::ProjectId, *project != other.project),
            (Setting::Zone, *zone != other.zone),
            (Setting::Region, *region != other.region),
            (Setting::SslNoVerify, verification),
            (Setting::CaFile, *tls != other.tls && !verification),
            (Setting::ClusterId, *cluster_id != other.cluster_id),
            (Setting::ClusterName, *cluster_name != other.cluster_name),
            (Setting::OwnershipTags, *ownership_tags != other.ownership_tags),
            (
                Setting::AdoptUnrecordedAddresses,
                *adopt_unrecorded_addresses != other.adopt_unrecorded_addresses,
            ),
            (Setting::SourceRangesMode, *source_ranges_mode != other.source_ranges_mode),
            (Setting::UdpOnRouter, *udp_on_router != other.udp_on_router),
            (Setting::NodeReadiness, *node_readiness != other.node_readiness),
            (Setting::RequestTimeout, *request_timeout != other.request_timeout),
            (Setting::ConnectTimeout, *connect_timeout != other.connect_timeout),
            (Setting::JobTimeout, *job_timeout != other.job_timeout),
            (Setting::PageSize, *page_size != other.page_size),
            (Setting::GetIfPostRefused, *get_if_post_refused != other.get_if_post_refused),
        ]
        .into_iter()
        .filter_map(|(setting, differs)| differs.then_some(setting))
        .collect()
    }

    /// The same, with what another one says of the settings that a running process takes.
    #[must_use]
    pub fn with_live_settings_of(&self, other: &Self) -> Self {
        let verified = [&self.tls, &other.tls].iter().all(|tls| **tls != Tls::NoVerification);
        let tls = if verified { &other.tls } else { &self.tls };
        let of = |config: &Self, live: bool| {
            let effective = config.effective.clone().into_iter();
            effective.filter(move |set| set.setting.is_live() == live)
        };
        let mut effective: Vec<_> = of(self, false).chain(of(other, true)).collect();
        effective.sort_by_key(|set| set.setting);
        Self { credentials: other.credentials.clone(), tls: tls.clone(), effective, ..self.clone() }
    }

    /// The planner's policy, for the cluster of that id.
    pub fn policy(&self, cluster_id: ClusterId) -> Policy {
        let mut policy = Policy::new(cluster_id);
        policy.project.clone_from(&self.project);
        policy.cluster_name.clone_from(&self.cluster_name);
        policy.ownership_tags = self.ownership_tags;
        policy.adopt_unrecorded_addresses = self.adopt_unrecorded_addresses;
        policy.source_ranges_mode = self.source_ranges_mode;
        policy.udp_on_router = self.udp_on_router;
        policy.node_readiness = self.node_readiness;
        policy
    }
}

/// Reads every setting, so that every mistake is noted; `None` if a required one is missing.
fn read(sources: &mut Sources) -> Option<Config> {
    let effective = sources.effective();
    let api_url = sources.required(Setting::ApiUrl, |text| {
        ApiUrl::parse(text).map_err(|why| {
            format!("and {why}; write for example `https://cloud.example.com/client/api`")
        })
    });
    let api_key = sources.required(Setting::ApiKey, secret);
    let secret_key = sources.required(Setting::SecretKey, secret);
    let project = sources.optional(Setting::ProjectId, |text| {
        ProjectId::parse(text).map_err(|_| "which is no id; `listProjects` tells it".to_owned())
    });
    let zone = sources.text(Setting::Zone);
    let region = sources.text(Setting::Region);
    let no_verify = sources.optional(Setting::SslNoVerify, boolean);
    let ca_file = sources.text(Setting::CaFile).map(PathBuf::from);
    let cluster_id = sources.optional(Setting::ClusterId, cluster_id);
    let cluster_name = sources.text(Setting::ClusterName);
    let ownership_tags = sources.optional(Setting::OwnershipTags, boolean);
    let adopt = sources.optional(Setting::AdoptUnrecordedAddresses, |text| match text {
        "evidence" => Ok(AdoptUnrecorded::Evidence),
        "keep" => Ok(AdoptUnrecorded::Keep),
        "release" => Ok(AdoptUnrecorded::Release),
        _ => Err("which is none of `evidence`, `keep` and `release`".to_owned()),
    });
    let ranges = sources.optional(Setting::SourceRangesMode, |text| match text {
        "layered" => Ok(SourceRangesMode::Layered),
        "strict" => Ok(SourceRangesMode::Strict),
        _ => Err("which is neither `layered` nor `strict`".to_owned()),
    });
    let udp = sources.optional(Setting::UdpOnRouter, |text| match text {
        "refuse" => Ok(UdpOnRouter::Refuse),
        "try" => Ok(UdpOnRouter::Try),
        _ => Err("which is neither `refuse` nor `try`".to_owned()),
    });
    let readiness = sources.optional(Setting::NodeReadiness, |text| match text {
        "ignore" => Ok(NodeReadiness::Ignore),
        "ready" => Ok(NodeReadiness::Ready),
        _ => Err("which is neither `ignore` nor `ready`".to_owned()),
    });
    let seconds = Duration::from_secs;
    let request = sources.optional(Setting::RequestTimeout, |text| {
        bounded(text, seconds(1), seconds(600), "1s to 10m")
    });
    let connect = sources.optional(Setting::ConnectTimeout, |text| {
        bounded(text, Duration::from_millis(100), seconds(120), "100ms to 2m")
    });
    let job = sources.optional(Setting::JobTimeout, |text| {
        bounded(text, seconds(10), seconds(86_400), "10s to 24h")
    });
    let page_size = sources.optional(Setting::PageSize, page_size);
    let get_if_post_refused = sources.optional(Setting::GetIfPostRefused, boolean).unwrap_or(false);
    if get_if_post_refused {
        sources.warn(Warning::KeysInUrls);
    }
    let tls = match (no_verify, ca_file) {
        (Some(true), Some(_)) => {
            sources.mistake(ConfigError::TlsContradiction);
            Tls::System
        }
        (Some(true), None) => {
            sources.warn(Warning::NoVerification);
            Tls::NoVerification
        }
        (Some(false) | None, Some(path)) => Tls::CaFile(path),
        (Some(false) | None, None) => Tls::System,
    };
    let api_url = api_url?;
    if !api_url.is_https() && !api_url.is_loopback() {
        sources.warn(Warning::PlainHttp { host: api_url.host().to_owned() });
    }
    Some(Config {
        api_url,
        credentials: Credentials { api_key: api_key?, secret_key: secret_key? },
        project,
        zone,
        region,
        tls,
        cluster_id,
        cluster_name: cluster_name.unwrap_or_else(|| "kubernetes".to_owned()),
        ownership_tags: ownership_tags.unwrap_or(false),
        adopt_unrecorded_addresses: adopt.unwrap_or(AdoptUnrecorded::Evidence),
        source_ranges_mode: ranges.unwrap_or(SourceRangesMode::Layered),
        udp_on_router: udp.unwrap_or(UdpOnRouter::Refuse),
        node_readiness: readiness.unwrap_or_default(),
        request_timeout: request.unwrap_or(seconds(60)),
        connect_timeout: connect.unwrap_or(seconds(10)),
        job_timeout: job.unwrap_or(seconds(600)),
        page_size: page_size.unwrap_or(500),
        get_if_post_refused,
        effective,
    })
}

fn secret(text: &str) -> Result<String, String> {
    if text.chars().all(|c| c.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("and has blanks or characters outside of ASCII; copy it again".to_owned())
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    values::boolean(text).ok_or_else(|| "which is no boolean; write `true` or `false`".to_owned())
}

/// Marks on cloud objects have room for 63 characters.
fn cluster_id(text: &str) -> Result<ClusterId, String> {
    match ClusterId::parse(text) {
        Ok(id) if text.len() <= 63 => Ok(id),
        Ok(_) | Err(_) => {
            Err("which is no cluster id; write 1 to 63 printable characters without blanks"
                .to_owned())
        }
    }
}

fn bounded(text: &str, least: Duration, most: Duration, range: &str) -> Result<Duration, String> {
    match duration(text) {
        Some(duration) if (least..=most).contains(&duration) => Ok(duration),
        Some(_) => Err(format!("which is not within {range}")),
        None => Err(format!("which is no duration; write for example `30s`, within {range}")),
    }
}

fn page_size(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(size) if (1..=10_000).contains(&size) => Ok(size),
        Ok(_) | Err(_) => Err("which is no number from 1 to 10000".to_owned()),
    }
}

#[cfg(test)]
mod tests;
