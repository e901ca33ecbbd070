//! Flags of the HTTPS server, and of who may use it.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::controller::{FlagError, Mistakes};
use super::values::{go_duration, path, switch};

#[derive(Debug, Args)]
#[command(next_help_heading = "Controller: HTTPS server")]
pub(super) struct ServingArgs {
    /// Address that health, metrics and plans are served on.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0", hide_short_help = true)]
    bind_address: IpAddr,
    /// Port of it; 0 serves nothing.
    #[arg(long, value_name = "PORT", default_value_t = 10258, hide_short_help = true)]
    secure_port: u16,
    /// Certificate to serve, in PEM with its chain; read again when it changes [default:
    /// self-signed, made at each start].
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    tls_cert_file: String,
    /// Private key of `--tls-cert-file`.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    tls_private_key_file: String,
    /// Directory with `cloud-controller-manager.crt` and `.key`, used if they are there and
    /// `--tls-cert-file` is not given.
    #[arg(long, value_name = "DIRECTORY", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    cert_dir: String,
    /// Least version of TLS; below 1.2 none is spoken.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12", hide_short_help = true)]
    pub(super) tls_min_version: TlsVersion,
    /// Kubeconfig for asking whose a bearer token is [default: as `--kubeconfig`].
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    authentication_kubeconfig: String,
    /// How long an answer about a bearer token is believed.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    authentication_token_webhook_cache_ttl: Duration,
    /// Certificate authorities of callers that show a certificate, in PEM; read again when they
    /// change [default: those in `ConfigMap`
    /// kube-system/extension-apiserver-authentication].
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    client_ca_file: String,
    /// Certificate authorities of front proxies, which name the caller in headers [default: those in
    /// `ConfigMap` kube-system/extension-apiserver-authentication, with its names and headers].
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    requestheader_client_ca_file: String,
    /// Common names that a front proxy may have; none is any.
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_short_help = true)]
    requestheader_allowed_names: Vec<String>,
    /// Headers in which a front proxy names the caller; the first one that is there counts.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-user")]
    #[arg(hide_short_help = true)]
    requestheader_username_headers: Vec<String>,
    /// Headers in which a front proxy names groups of the caller.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-group")]
    #[arg(hide_short_help = true)]
    requestheader_group_headers: Vec<String>,
    /// Prefixes of headers in which a front proxy names what else is known of the caller.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-extra-")]
    #[arg(hide_short_help = true)]
    requestheader_extra_headers_prefix: Vec<String>,
    /// Headers in which a front proxy names the UID of the caller; the first one that is there counts.
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_short_help = true)]
    requestheader_uid_headers: Vec<String>,
    /// Do not look for certificate authorities of callers in `ConfigMap`
    /// kube-system/extension-apiserver-authentication.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = switch)]
    #[arg(action = clap::ArgAction::Set, hide_short_help = true)]
    authentication_skip_lookup: bool,
    /// Kubeconfig for asking what callers may do [default: as `--kubeconfig`].
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    authorization_kubeconfig: String,
    /// Paths that everybody may read, separated by commas; a `*` at the end stands for the rest.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(default_value = "/healthz,/readyz,/livez", hide_short_help = true)]
    authorization_always_allow_paths: Vec<String>,
    /// How long it is believed that a caller may do something.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// How long it is believed that a caller may not do something.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
}

/// A version of TLS, as Go names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TlsVersion {
    #[value(name = "VersionTLS10", hide = true)]
    V10,
    #[value(name = "VersionTLS11", hide = true)]
    V11,
    #[value(name = "VersionTLS12")]
    V12,
    #[value(name = "VersionTLS13")]
    V13,
}

/// The HTTPS server, and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingOptions {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its certificate and key; `None` is self-signed.
    pub certificate: Option<CertificateFiles>,
    /// Whether TLS 1.3 is the least version; else 1.2 is.
    pub only_tls13: bool,
    /// `--authentication-kubeconfig`, else `--kubeconfig`.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// `--authorization-kubeconfig`, else `--kubeconfig`.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// Who vouches for callers that show a certificate.
    pub vouchers: VoucherOptions,
    /// Paths that everybody may read.
    pub always_allow: Vec<String>,
    /// How long answers of the API server are believed.
    pub beliefs: Beliefs,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM, with the chain.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

/// Who vouches for callers that show a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoucherOptions {
    /// `--client-ca-file`.
    pub client_ca: Option<PathBuf>,
    /// `--requestheader-client-ca-file`.
    pub proxy_ca: Option<PathBuf>,
    /// How front proxies name callers, if `proxy_ca` is given.
    pub proxy: FrontProxy,
    /// Whether the cluster is asked for what is not given.
    pub look_up: bool,
}

/// How a front proxy names callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontProxy {
    /// Common names that it may have; none is any.
    pub allowed_names: Vec<String>,
    /// Headers with the name of a caller; the first one that is there counts.
    pub user_headers: Vec<String>,
    /// Headers with its groups.
    pub group_headers: Vec<String>,
    /// Beginnings of headers with what else is known of it.
    pub extra_prefixes: Vec<String>,
    /// Headers with its UID; the first one that is there counts.
    pub uid_headers: Vec<String>,
}

/// How long answers of the API server are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beliefs {
    /// Whose a token is.
    pub user: Duration,
    /// That somebody may do something.
    pub allowed: Duration,
    /// That somebody may not.
    pub denied: Duration,
}

impl ServingArgs {
    pub(super) fn read(&self, kubeconfig: &str, mistakes: &mut Mistakes) -> Option<ServingOptions> {
        let files = (path(&self.tls_cert_file), path(&self.tls_private_key_file));
        let certificate = match files {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            (None, None) => path(&self.cert_dir).and_then(|directory| in_directory(&directory)),
            (Some(_), None) | (None, Some(_)) => {
                mistakes.push(FlagError::HalfCertificate);
                None
            }
        };
        let or_kubeconfig = |own: &str| path(own).or_else(|| path(kubeconfig));
        let options = ServingOptions {
            address: SocketAddr::new(self.bind_address, self.secure_port),
            certificate,
            only_tls13: self.tls_min_version == TlsVersion::V13,
            authentication_kubeconfig: or_kubeconfig(&self.authentication_kubeconfig),
            authorization_kubeconfig: or_kubeconfig(&self.authorization_kubeconfig),
            vouchers: VoucherOptions {
                client_ca: path(&self.client_ca_file),
                proxy_ca: path(&self.requestheader_client_ca_file),
                proxy: FrontProxy {
                    allowed_names: self.requestheader_allowed_names.clone(),
                    user_headers: self.requestheader_username_headers.clone(),
                    group_headers: self.requestheader_group_headers.clone(),
                    extra_prefixes: self.requestheader_extra_headers_prefix.clone(),
                    uid_headers: self.requestheader_uid_headers.clone(),
                },
                look_up: !self.authentication_skip_lookup,
            },
            always_allow: self.authorization_always_allow_paths.clone(),
            beliefs: Beliefs {
                user: self.authentication_token_webhook_cache_ttl,
                allowed: self.authorization_webhook_cache_authorized_ttl,
                denied: self.authorization_webhook_cache_unauthorized_ttl,
            },
        };
        (self.secure_port != 0).then_some(options)
    }
}

/// The pair of a Go controller's `--cert-dir`, if it is there.
fn in_directory(directory: &Path) -> Option<CertificateFiles> {
    let pair = CertificateFiles {
        certificate: directory.join("cloud-controller-manager.crt"),
        key: directory.join("cloud-controller-manager.key"),
    };
    (pair.certificate.exists() && pair.key.exists()).then_some(pair)
}
