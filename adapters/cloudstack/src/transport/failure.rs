//! Why there is no answer: what was found, what was expected, and what to do.
//!
//! The outer errors of the HTTP client repeat the URL or say nothing: what counts is the innermost
//! one, and whether one on the way is of TLS, of HTTP, or of a proxy.

use std::error::Error;
use std::iter::successors;
use std::time::Duration;

use rustls::{CertificateError, InvalidMessage};

use crate::secret::quotable;
use crate::wire::{TransportError, TransportErrorKind};

/// How much of what a peer says of itself a text shows.
const EXCERPT: usize = 200;
/// What the HTTP client's errors about a tunnel begin with.
const TUNNEL: &str = "tunnel error: ";

/// Whom requests go to, and how long they may take.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Host and port of the API.
    pub(super) host: String,
    /// Host and port of the proxy on the way, if there is one.
    pub(super) proxy: Option<String>,
    /// For the connection.
    pub(super) connect_timeout: Duration,
    /// For all of a request.
    pub(super) request_timeout: Duration,
}

impl Peer {
    /// What the failure of a request means.
    pub(super) fn failed(&self, error: &reqwest::Error) -> TransportError {
        let tls = find(error, <dyn Error>::downcast_ref::<rustls::Error>);
        let http = find(error, <dyn Error>::downcast_ref::<hyper::Error>);
        let (kind, text) = if let Some(tls) = tls {
            (TransportErrorKind::Tls, self.tls(tls))
        } else if error.is_connect() {
            (TransportErrorKind::Connect, self.unconnected(error))
        } else if error.is_timeout() {
            (TransportErrorKind::Timeout, self.late())
        } else if http.is_some_and(hyper::Error::is_parse) {
            (TransportErrorKind::Broken, self.no_http(&root_cause(error)))
        } else {
            (TransportErrorKind::Broken, self.broken(&root_cause(error)))
        };
        let sent = !(error.is_connect() || error.is_builder());
        TransportError { kind, sent, text }
    }

    fn tls(&self, error: &rustls::Error) -> String {
        let Self { host, .. } = self;
        let (cause, remedy) = tls_cause(error);
        format!("TLS with {host} failed: {}; {remedy}", quotable(&cause, EXCERPT))
    }

    fn unconnected(&self, error: &reqwest::Error) -> String {
        let Self { host, proxy, connect_timeout, .. } = self;
        let cause = if error.is_timeout() {
            format!("none came about within {connect_timeout:?} (connect-timeout)")
        } else {
            let chain = successors(Some(error as &(dyn Error + 'static)), |error| inner(*error));
            let tunnel = chain.map(ToString::to_string).find_map(|text| tunnel_cause(&text));
            tunnel.map_or_else(|| root_cause(error), str::to_owned)
        };
        match proxy {
            Some(proxy) => format!(
                "no connection to {host} through the proxy {proxy}: {cause}; check HTTPS_PROXY, HTTP_PROXY and \
                 NO_PROXY in the environment, and that the proxy lets {host} through"
            ),
            None => format!(
                "no connection to {host}: {cause}; check api-url, and whether the server is up"
            ),
        }
    }

    fn late(&self) -> String {
        let Self { host, request_timeout, .. } = self;
        format!(
            "no whole answer from {host} in time, which is {request_timeout:?} (request-timeout); check \
             whether the server is overloaded"
        )
    }

    fn no_http(&self, cause: &str) -> String {
        let Self { host, .. } = self;
        format!(
            "what {host} answers is not HTTP ({cause}); check scheme and port of api-url: it may be \
             a port for https"
        )
    }

    fn broken(&self, cause: &str) -> String {
        let Self { host, .. } = self;
        format!("the connection to {host} broke: {cause}")
    }
}

/// What is wrong with the TLS of a peer, and what to do.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's words do for the rest")]
fn tls_cause(error: &rustls::Error) -> (String, &'static str) {
    let certificate = match error {
        rustls::Error::InvalidCertificate(certificate) => certificate,
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            return (
                "it does not speak TLS on this port".to_owned(),
                "check scheme and port of api-url: it may be a port for http",
            );
        }
        other => {
            return (
                other.to_string(),
                "check that both sides have a version of TLS in common, 1.2 or 1.3",
            );
        }
    };
    match certificate {
        CertificateError::UnknownIssuer => (
            "its certificate is of an authority that is not trusted".to_owned(),
            "name a file with the certificate of that authority in ca-file",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            certificate.to_string(),
            "set api-url to a name that the certificate holds, or give the server one for this name",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            certificate.to_string(),
            "renew the certificate of the server, or set the clock of this machine right",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            certificate.to_string(),
            "set the clock of this machine right, or correct the certificate of the server",
        ),
        other => (other.to_string(), "check the certificate of the server, and ca-file"),
    }
}

/// Why a tunnel could not be made, if that is what a text says.
fn tunnel_cause(text: &str) -> Option<&'static str> {
    Some(match text.strip_prefix(TUNNEL)? {
        "proxy authorization required" => "it wants a user and a password",
        "unsuccessful" => "it refuses",
        "proxy response headers too long" => "its answer is too long",
        "unexpected end of file" => "it hung up",
        // What lies below says more.
        _ => return None,
    })
}

fn root_cause(error: &(dyn Error + 'static)) -> String {
    let Some(cause) = successors(Some(error), |error| inner(*error)).last() else {
        return String::new();
    };
    match cause.downcast_ref::<reqwest::Error>() {
        Some(_) => "request failed".to_owned(),
        None => quotable(&cause.to_string(), EXCERPT),
    }
}

/// The first error of a chain that `is` takes.
pub(super) fn find<'a, T>(
    error: &'a (dyn Error + 'static),
    is: impl Fn(&'a (dyn Error + 'static)) -> Option<&'a T>,
) -> Option<&'a T> {
    successors(Some(error), |error| inner(*error)).find_map(is)
}

/// What an error wraps. An I/O error hides what it wraps from `source`.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<std::io::Error>() {
        Some(wrapper) => wrapper.get_ref().map(|wrapped| wrapped as &(dyn Error + 'static)),
        None => error.source(),
    }
}
