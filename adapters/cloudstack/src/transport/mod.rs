//! HTTP: the only file that names the HTTP client.
//!
//! A signed request is sent to the configured address and nowhere else: redirects are refused.
//! Proxies come from the environment, except for loopback. Errors name hosts, and of a redirect where
//! it points to; what they say of a failure is in `failure.rs`.

mod failure;
mod proxy;

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Response, Url};
use thiserror::Error;

use crate::wire::{
    Method, Transport, TransportError, TransportErrorKind, WireRequest, WireResponse,
};
use failure::{Peer, find};
use proxy::proxy_for;

/// Idle connections are dropped sooner than servers and balancers usually do so: a request that
/// meets the end of its connection is lost.
const IDLE: Duration = Duration::from_secs(20);

/// Where the API is, and how to reach it.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// `api-url`, for example `https://cloud.example/client/api`.
    pub url: String,
    /// Certificates in PEM, trusted beside those of the system.
    pub extra_certificates: Option<Vec<u8>>,
    /// `ssl-no-verify` turns this off.
    pub verify_certificates: bool,
    /// Whether `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` count.
    pub system_proxy: bool,
    /// For the connection, TLS included.
    pub connect_timeout: Duration,
    /// For one request from its start to the last byte of its answer. A create behind a slow
    /// release answers after many seconds.
    pub request_timeout: Duration,
    /// Largest body that is read, in bytes.
    pub max_body: usize,
}

/// Largest body that is read unless told otherwise, in bytes. A page of 500 virtual machines has
/// some 2 MiB, the list of all commands that an administrator may use some 6 MiB. Read as JSON, the
/// worst body of this size takes about 16 times as much memory, which a pod has.
const MAX_BODY: usize = 16 << 20;

impl HttpOptions {
    /// The defaults for a URL: 10 s to connect, 90 s for a request, 16 MiB of body.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            extra_certificates: None,
            verify_certificates: true,
            system_proxy: true,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(90),
            max_body: MAX_BODY,
        }
    }
}

/// A transport can't be made of these options.
#[derive(Debug, Error)]
pub enum TransportConfigError {
    /// Not an address that requests can be sent to.
    #[error(
        "api-url is not an http or https URL with a host and without query; \
         write for example `https://cloud.example/client/api`"
    )]
    Url,
    /// Certificates that are broken.
    #[error("the certificate file holds a PEM certificate that can't be read")]
    Certificates(#[source] reqwest::Error),
    /// No certificates.
    #[error("the certificate file holds no PEM certificate")]
    NoCertificate,
    /// The environment names a proxy for this address that can't be used. Going around it would be
    /// worse than stopping. The value may hold a password.
    #[error(
        "environment variable {0} holds no proxy that can be used; write for example \
         `http://proxy.example:3128`, or except the host of api-url with NO_PROXY"
    )]
    Proxy(&'static str),
    /// The HTTP client refused its options.
    #[error("the HTTP client can't be set up")]
    Client(#[source] reqwest::Error),
}

/// The real transport.
#[derive(Clone)]
pub struct HttpTransport {
    client: Client,
    url: Url,
    peer: Peer,
    max_body: usize,
}

impl HttpTransport {
    /// A transport with its own connection pool. Installs ring as the process's crypto provider
    /// if none is installed yet.
    ///
    /// # Errors
    /// [`TransportConfigError`] for a bad URL, certificate file or proxy.
    pub fn new(options: &HttpOptions) -> Result<Self, TransportConfigError> {
        // An error says that a provider is installed already: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = parse_url(&options.url).ok_or(TransportConfigError::Url)?;
        let mut builder = builder(options)?;
        // A proxy has another loopback.
        let proxy = if is_loopback(&url) || !options.system_proxy {
            None
        } else {
            proxy_for(&url).map_err(TransportConfigError::Proxy)?
        };
        if proxy.is_none() {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(not_built)?;
        let peer = Peer {
            host: authority(&url),
            proxy,
            connect_timeout: options.connect_timeout,
            request_timeout: options.request_timeout,
        };
        Ok(Self { client, url, peer, max_body: options.max_body })
    }

    /// Host and port, for texts.
    pub fn host(&self) -> &str {
        &self.peer.host
    }

    async fn read(&self, mut response: Response) -> Result<WireResponse, TransportError> {
        let status = response.status();
        if status.is_redirection() {
            return Err(self.redirected(&response));
        }
        let header = response.headers().get(CONTENT_TYPE);
        let content_type = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let limit = u64::try_from(self.max_body).unwrap_or(u64::MAX);
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(self.too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.peer.failed(&error))? {
            if body.len() + chunk.len() > self.max_body {
                return Err(self.too_large());
            }
            body.extend_from_slice(&chunk);
        }
        let body = String::from_utf8(body)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok(WireResponse { status: status.as_u16(), content_type, body })
    }

    fn too_large(&self) -> TransportError {
        let limit = match (self.max_body >> 20, self.max_body % (1 << 20)) {
            (1.., 0) => format!("{} MiB", self.max_body >> 20),
            (_, _) => format!("{} bytes", self.max_body),
        };
        TransportError {
            kind: TransportErrorKind::TooLarge,
            sent: true,
            text: format!(
                "the answer of {} is larger than {limit}, the most that is read; check that api-url \
                 is the API of CloudStack and that nothing in between answers in its place",
                self.peer.host
            ),
        }
    }

    fn redirected(&self, response: &Response) -> TransportError {
        let location = response.headers().get(LOCATION);
        let target = location
            .and_then(|value| value.to_str().ok())
            .and_then(|text| self.url.join(text).ok());
        let elsewhere = target.as_ref().map_or_else(|| "nowhere".to_owned(), shown);
        TransportError {
            kind: TransportErrorKind::Redirect,
            sent: true,
            text: format!(
                "{} answers {} and points to {elsewhere}; keys and signature were not sent there: \
                 set api-url to the final address",
                self.peer.host,
                response.status().as_u16()
            ),
        }
    }
}

/// Longest path of a redirect that a text shows.
const SHOWN_PATH: usize = 100;

/// Where a URL leads, without user, query, fragment and session id.
fn shown(url: &Url) -> String {
    let path = url.path().split(';').next().unwrap_or_default();
    let cut: String = path.chars().take(SHOWN_PATH).collect();
    let more = if cut.len() < path.len() { "…" } else { "" };
    format!("{}://{}{cut}{more}", url.scheme(), authority(url))
}

/// Host and port; the port only if it is not that of the scheme.
fn authority(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    }
}

/// Shows the host: proxies from the environment may hold credentials.
impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpTransport({})", self.peer.host)
    }
}

impl Transport for HttpTransport {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        let prepared = match request.method {
            Method::Post => self
                .client
                .post(self.url.clone())
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(request.encoded()),
            Method::Get => {
                let mut url = self.url.clone();
                url.set_query(Some(&request.encoded()));
                self.client.get(url)
            }
        };
        let response = prepared.send().await.map_err(|error| self.peer.failed(&error))?;
        self.read(response).await
    }
}

fn parse_url(text: &str) -> Option<Url> {
    let url = Url::parse(text.trim()).ok()?;
    let web = matches!(url.scheme(), "http" | "https") && url.has_host();
    (web && url.query().is_none() && url.username().is_empty()).then_some(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Certificates are decoded where the client is built.
fn not_built(error: reqwest::Error) -> TransportConfigError {
    match find(&error, <dyn Error>::downcast_ref::<rustls::Error>) {
        Some(_) => TransportConfigError::Certificates(error),
        None => TransportConfigError::Client(error),
    }
}

fn builder(options: &HttpOptions) -> Result<ClientBuilder, TransportConfigError> {
    let mut builder = Client::builder()
        .user_agent(concat!("cloudstack-ccm/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(options.connect_timeout)
        .timeout(options.request_timeout)
        .pool_idle_timeout(IDLE)
        .tls_danger_accept_invalid_certs(!options.verify_certificates);
    if let Some(pem) = &options.extra_certificates {
        let certificates =
            Certificate::from_pem_bundle(pem).map_err(TransportConfigError::Certificates)?;
        if certificates.is_empty() {
            return Err(TransportConfigError::NoCertificate);
        }
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(builder)
}
