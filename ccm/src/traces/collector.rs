//! The way to a collector: OTLP over HTTP, with the HTTP client that CloudStack is asked with.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Url};
use tokio::runtime::Handle;
use tracing::{info, warn};

use super::{TracesError, setting};
use crate::files;

/// As the specification of OpenTelemetry has it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a collector is: the part of its URL before `/v1/traces`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorUrl(Url);

impl CollectorUrl {
    /// Reads one.
    ///
    /// # Errors
    /// A sentence, if it is not a URL that spans can be sent to.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim()).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or(
            "not an http or https URL with a host; write for example \
             `http://otel-collector.monitoring:4318`",
        )?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it holds a user or a password, which flags show to everybody; give \
                        OTEL_EXPORTER_OTLP_HEADERS in the environment, from a Secret"
                .to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("it must end with a path: `/v1/traces` is put behind it".to_owned());
        }
        Ok(Self(url))
    }

    /// Where spans are sent to.
    pub(super) fn traces(&self) -> String {
        format!("{}/v1/traces", self.0.as_str().trim_end_matches('/'))
    }

    fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// Sends batches, and tells once when that begins to fail and once when it works again.
#[derive(Debug)]
pub(super) struct Collector {
    url: CollectorUrl,
    client: Client,
    /// The thread that sends batches has no runtime of its own.
    runtime: Handle,
    timeout: Duration,
    fails: AtomicBool,
}

impl Collector {
    pub(super) fn new(url: &CollectorUrl, runtime: &Handle) -> Result<Self, TracesError> {
        // An error says that a provider is installed already: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let timeout = setting(["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]);
        let milliseconds = timeout.and_then(|milliseconds| milliseconds.parse().ok());
        let timeout = milliseconds.map_or(TIMEOUT, Duration::from_millis);
        // Headers may hold a token, which is the collector's alone: redirects are not followed.
        let mut client = Client::builder().redirect(Policy::none()).referer(false).timeout(timeout);
        if url.is_loopback() {
            // A proxy has another loopback.
            client = client.no_proxy();
        }
        if let Some(certificates) = certificates()? {
            client = client.tls_certs_merge(certificates);
        }
        Ok(Self {
            url: url.clone(),
            client: client.build()?,
            runtime: runtime.clone(),
            timeout,
            fails: AtomicBool::new(false),
        })
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = exchange(self.client.clone(), request.try_into()?);
        Ok(self.runtime.spawn(sent).await??)
    }

    fn tell(&self, failure: Option<String>) {
        let collector = &self.url;
        match failure {
            Some(error) if !self.fails.swap(true, Ordering::Relaxed) => warn!(
                %collector,
                error,
                "spans don't reach the collector: they are dropped until it takes them"
            ),
            None if self.fails.swap(false, Ordering::Relaxed) => {
                info!(%collector, "the collector takes spans again");
            }
            Some(_) | None => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let result = self.send(request).await;
        self.tell(match &result {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status())),
            Err(error) => Some(root_cause(&**error)),
        });
        result
    }
}

async fn exchange(
    client: Client,
    request: reqwest::Request,
) -> Result<Response<Bytes>, reqwest::Error> {
    let mut answer = client.execute(request).await?;
    // An answer is empty or short: what may follow its first part is not waited for.
    let mut response = Response::new(answer.chunk().await?.unwrap_or_default());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    Ok(response)
}

/// Certificates that are trusted beside those of the system.
fn certificates() -> Result<Option<Vec<Certificate>>, TracesError> {
    let named = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
    let Some(path) = setting(named) else { return Ok(None) };
    let failed = |source| TracesError::Certificates { path: path.clone(), source };
    let pem = files::bytes(path.as_ref(), files::CERTIFICATES_LIMIT)
        .map_err(|error| failed(error.into()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| failed(error.into()))?;
    if certificates.is_empty() { Err(failed("it has none".into())) } else { Ok(Some(certificates)) }
}

/// The innermost error: the outer ones repeat the URL.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_to_a_path_below_the_url() {
        for text in ["http://collector:4318", "http://collector:4318/"] {
            let url = CollectorUrl::parse(text).unwrap();
            assert_eq!(url.traces(), "http://collector:4318/v1/traces");
            assert_eq!(url.to_string(), "http://collector:4318");
        }
        let url = CollectorUrl::parse("https://observe.example/otlp/").unwrap();
        assert_eq!(url.traces(), "https://observe.example/otlp/v1/traces");
    }

    #[test]
    fn a_url_that_can_not_be_used_says_what_to_do() {
        for (text, words) in [
            ("collector:4318", "write for example"),
            ("grpc://collector:4317", "write for example"),
            ("http://jane:doe@collector", "OTEL_EXPORTER_OTLP_HEADERS"),
            ("http://collector/?key=1", "`/v1/traces`"),
        ] {
            let error = CollectorUrl::parse(text).unwrap_err();
            assert!(error.contains(words) && !error.contains("doe"), "{text}: {error}");
        }
    }
}
