//! HTTP: the only file that names the HTTP client.
//!
//! A signed request is sent to the configured address and nowhere else: redirects are refused.
//! Proxies come from the environment, except for loopback. Errors name the host at most.

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
    /// Largest body that is read.
    pub max_body: usize,
}

impl HttpOptions {
    /// The defaults for a URL: 10 s to connect, 90 s for a request, 64 MiB of body.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            extra_certificates: None,
            verify_certificates: true,
            system_proxy: true,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(90),
            max_body: 64 << 20,
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
    /// Not certificates.
    #[error("the certificate file holds no PEM certificate")]
    Certificates(#[source] reqwest::Error),
    /// The HTTP client refused its options.
    #[error("the HTTP client can't be set up")]
    Client(#[source] reqwest::Error),
}

/// The real transport.
#[derive(Clone)]
pub struct HttpTransport {
    client: Client,
    url: Url,
    host: String,
    max_body: usize,
}

impl HttpTransport {
    /// A transport with its own connection pool. Installs ring as the process's crypto provider
    /// if none is installed yet.
    ///
    /// # Errors
    /// [`TransportConfigError`] for a bad URL or certificate file.
    pub fn new(options: &HttpOptions) -> Result<Self, TransportConfigError> {
        // An error says that a provider is installed already: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = parse_url(&options.url).ok_or(TransportConfigError::Url)?;
        let host = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let mut builder = builder(options)?;
        if is_loopback(&url) {
            // A proxy has another loopback.
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(TransportConfigError::Client)?;
        Ok(Self { client, url, host, max_body: options.max_body })
    }

    /// Host and port, for texts.
    pub fn host(&self) -> &str {
        &self.host
    }

    async fn read(&self, mut response: Response) -> Result<WireResponse, TransportError> {
        let status = response.status();
        if status.is_redirection() {
            return Err(self.redirected(&response));
        }
        let header = response.headers().get(CONTENT_TYPE);
        let content_type = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error))? {
            if body.len() + chunk.len() > self.max_body {
                let text =
                    format!("the answer of {} is larger than {} bytes", self.host, self.max_body);
                return Err(TransportError {
                    kind: TransportErrorKind::TooLarge,
                    sent: true,
                    text,
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(WireResponse {
            status: status.as_u16(),
            content_type,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    fn redirected(&self, response: &Response) -> TransportError {
        let location = response.headers().get(LOCATION);
        let target = location
            .and_then(|value| value.to_str().ok())
            .and_then(|text| self.url.join(text).ok());
        let elsewhere = match &target {
            Some(url) => format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default()),
            None => "somewhere else".to_owned(),
        };
        TransportError {
            kind: TransportErrorKind::Redirect,
            sent: true,
            text: format!(
                "{} answers {} and points to {elsewhere}; signed requests are not sent on: set api-url to the final address",
                self.host,
                response.status().as_u16()
            ),
        }
    }

    fn failed(&self, error: &reqwest::Error) -> TransportError {
        let host = &self.host;
        let cause = root_cause(error);
        let (kind, text) = if is_tls(error) {
            (
                TransportErrorKind::Tls,
                format!("TLS with {host} failed: {cause}; check the certificate, or set ca-file"),
            )
        } else if error.is_connect() {
            (
                TransportErrorKind::Connect,
                format!(
                    "no connection to {host}: {cause}; check api-url, and whether the server is up"
                ),
            )
        } else if error.is_timeout() {
            (TransportErrorKind::Timeout, format!("no answer from {host} in time"))
        } else {
            (TransportErrorKind::Broken, format!("the connection to {host} broke: {cause}"))
        };
        let sent = !(error.is_connect() || error.is_builder());
        TransportError { kind, sent, text }
    }
}

/// Shows the host: proxies from the environment may hold credentials.
impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpTransport({})", self.host)
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
        let response = prepared.send().await.map_err(|error| self.failed(&error))?;
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

fn builder(options: &HttpOptions) -> Result<ClientBuilder, TransportConfigError> {
    let mut builder = Client::builder()
        .user_agent(concat!("cloudstack-ccm/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(options.connect_timeout)
        .timeout(options.request_timeout)
        .pool_idle_timeout(IDLE)
        .tls_danger_accept_invalid_certs(!options.verify_certificates);
    if !options.system_proxy {
        builder = builder.no_proxy();
    }
    if let Some(pem) = &options.extra_certificates {
        let certificates =
            Certificate::from_pem_bundle(pem).map_err(TransportConfigError::Certificates)?;
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(builder)
}

/// The innermost error: the outer ones repeat the URL or say nothing.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let Some(cause) = std::iter::successors(Some(error), |error| inner(*error)).last() else {
        return String::new();
    };
    match cause.downcast_ref::<reqwest::Error>() {
        Some(_) => "request failed".to_owned(),
        None => cause.to_string(),
    }
}

fn is_tls(error: &(dyn Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(error), |error| inner(*error));
    chain.any(<dyn Error + 'static>::is::<rustls::Error>)
}

/// What an error wraps. An I/O error hides what it wraps from `source`.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<std::io::Error>() {
        Some(wrapper) => wrapper.get_ref().map(|wrapped| wrapped as &(dyn Error + 'static)),
        None => error.source(),
    }
}
