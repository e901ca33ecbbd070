//! From flags, environment and file to clients; and from paths to the objects of a cluster.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;

use anyhow::{Context as _, Result, bail};
use ccm_cloudstack::{
    Client, Credentials, HttpOptions, HttpTransport, Options, PostPolicy, Runtime,
    TransportConfigError,
};
use ccm_core::ids::{ClusterId, ProjectId};
use ccm_core::model::policy::{Mode, Policy};
use ccm_core::parse::{self, raw::RawService};
use ccm_kubernetes::live::identity;
use ccm_kubernetes::manifests::{self, Assume, Manifests, Source};
use tracing::{info, warn};

use crate::cli::{ConnectArgs, ManifestArgs};
use crate::config::{Config, Tls};
use crate::controller::reload::{self, Reading};
use crate::files;
use crate::ports::Objects;

/// Reads the configuration; warns of what is risky.
pub(crate) fn config(args: &ConnectArgs) -> Result<Config> {
    read(&source(args)).map(|reading| reading.config)
}

/// Where settings come from.
pub(crate) fn source(args: &ConnectArgs) -> reload::Source {
    // What is no Unicode in a value shows as U+FFFD, which no setting takes.
    let utf8 = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    };
    let environment: BTreeMap<String, String> = env::vars_os().filter_map(utf8).collect();
    reload::Source { path: args.cloud_config.clone(), environment, flags: args.settings.0.clone() }
}

/// Reads the configuration; warns of what is risky.
pub(crate) fn read(source: &reload::Source) -> Result<Reading> {
    let reading = source.read()?;
    for warning in &reading.warnings {
        warn!("{warning}");
    }
    Ok(reading)
}

/// A client that sees the given project, and has asked nothing yet.
pub(crate) fn client<R: Runtime>(
    config: &Config,
    project: Option<&ProjectId>,
    runtime: R,
) -> Result<Client<HttpTransport, R>> {
    let extra_certificates = match &config.tls {
        Tls::System | Tls::NoVerification => None,
        Tls::CaFile(path) => Some(
            files::bytes(path, files::CERTIFICATES_LIMIT)
                .with_context(|| format!("ca-file {} can't be read", path.display()))?,
        ),
    };
    let defaults = HttpOptions::new(config.api_url.as_str());
    let transport = HttpTransport::new(&HttpOptions {
        extra_certificates,
        verify_certificates: config.tls != Tls::NoVerification,
        connect_timeout: config.connect_timeout,
        request_timeout: config.request_timeout,
        ..defaults
    })
    .map_err(|error| located(error, &config.tls))?;
    let options = Options {
        project: project.cloned(),
        page_size: config.page_size,
        job_patience: config.job_timeout,
        post: if config.get_if_post_refused {
            PostPolicy::UnlessRefused
        } else {
            PostPolicy::Always
        },
        ..Options::default()
    };
    let credentials =
        Credentials::new(config.credentials.api_key(), config.credentials.secret_key());
    Ok(Client::new(transport, runtime, credentials, options))
}

/// Names the file, if certificates in it are what is wrong.
fn located(error: TransportConfigError, tls: &Tls) -> anyhow::Error {
    let of_certificates = matches!(
        error,
        TransportConfigError::Certificates(_) | TransportConfigError::NoCertificate
    );
    match tls {
        Tls::CaFile(path) if of_certificates => {
            anyhow::Error::new(error).context(format!("ca-file {} can't be used", path.display()))
        }
        Tls::CaFile(_) | Tls::System | Tls::NoVerification => error.into(),
    }
}

/// The policy for Services that come from files.
pub(crate) fn manifest_policy(config: &Config) -> Result<Policy> {
    let Some(cluster_id) = config.cluster_id.clone() else {
        bail!(
            "Services come from files, so the cluster can't be asked for its id: \
             set `cluster-id` in the cloud-config or give --cluster-id"
        );
    };
    Ok(Policy { mode: Mode::Manifests, ..config.policy(cluster_id) })
}

/// The id of a live cluster: as configured; else the one that Services carry; else the uid of
/// something that every cluster has.
pub(crate) async fn cluster_id(
    config: &Config,
    services: &[RawService],
    kubernetes: &kube::Client,
) -> Result<ClusterId> {
    if let Some(id) = &config.cluster_id {
        return Ok(id.clone());
    }
    if let Some(id) = parse::cluster_id_in_use(services) {
        return Ok(id);
    }
    let uid = identity::uid(kubernetes).await.context(
        "this cluster has no id: neither ConfigMap kube-system/extension-apiserver-authentication \
         nor namespace kube-system can be read; grant one of them, or set `cluster-id` in the \
         cloud-config",
    )?;
    ClusterId::parse(&uid).context("the uid that would be the cluster id can't be used")
}

/// Reads Services and Nodes from files.
pub(crate) fn objects(args: &ManifestArgs) -> Result<Objects> {
    let ManifestArgs { services, nodes } = args;
    if services.is_empty() {
        bail!("--nodes without --services: where are the Services? Give --services PATH...");
    }
    let source = |assume| move |path: &std::path::PathBuf| Source { path: path.clone(), assume };
    let sources: Vec<Source> = services
        .iter()
        .map(source(Assume::Service))
        .chain(nodes.iter().map(source(Assume::Node)))
        .collect();
    let Manifests { services, nodes, skipped } =
        manifests::read(&sources).context("the manifests can't be used")?;
    for (kind, count) in &skipped {
        info!(kind, count, "objects of another kind are skipped");
    }
    if nodes.is_empty() {
        bail!("the manifests hold no Node, so nothing could serve; give --nodes PATH...");
    }
    Ok(Objects::new(services, nodes))
}
