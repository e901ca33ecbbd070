//! One request and its answer, and the two doors to the outside: [`Transport`] and [`Runtime`].

use std::fmt;
use std::future::Future;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use thiserror::Error;
use uuid::Uuid;

use crate::secret::REMOVED;

/// Sends requests. [`HttpTransport`](crate::HttpTransport) is the real one.
pub trait Transport: Send + Sync {
    /// Sends one request and reads its answer whole.
    fn send(
        &self,
        request: WireRequest,
    ) -> impl Future<Output = Result<WireResponse, TransportError>> + Send;
}

impl<T: Transport> Transport for std::sync::Arc<T> {
    fn send(
        &self,
        request: WireRequest,
    ) -> impl Future<Output = Result<WireResponse, TransportError>> + Send {
        T::send(self, request)
    }
}

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Parameters in a form body.
    Post,
    /// Parameters in the URL.
    Get,
}

/// A signed request.
#[derive(Clone, PartialEq, Eq)]
pub struct WireRequest {
    /// How it travels.
    pub method: Method,
    /// All parameters, `apiKey` and `signature` included.
    pub params: Vec<(String, String)>,
}

impl WireRequest {
    /// The value of a parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        let same = |(key, _): &&(String, String)| key == name;
        self.params.iter().find(same).map(|(_, value)| value.as_str())
    }

    /// The parameters as `application/x-www-form-urlencoded`: a form body, or a query string.
    pub fn encoded(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.params).finish()
    }
}

/// Shows the parameters, but never the values of `apiKey` and `signature`.
impl fmt::Debug for WireRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, params } = self;
        write!(f, "{method:?}")?;
        for (name, value) in params {
            let secret = name.eq_ignore_ascii_case("apikey") || name == "signature";
            let shown = if secret { REMOVED } else { value };
            write!(f, " {name}={shown:?}")?;
        }
        Ok(())
    }
}

/// An answer, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireResponse {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// The body; bytes that are not UTF-8 are replaced.
    pub body: String,
}

/// Why there is no answer. Names the host at most: no path, no query.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text}")]
pub struct TransportError {
    /// What failed.
    pub kind: TransportErrorKind,
    /// Whether the request may have reached the server.
    pub sent: bool,
    /// What was found.
    pub text: String,
}

/// What failed while a request was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportErrorKind {
    /// No connection: refused, no route, no such host.
    Connect,
    /// No answer in time.
    Timeout,
    /// The certificate or the TLS handshake.
    Tls,
    /// The server points elsewhere; a signed request is never sent on.
    Redirect,
    /// The answer is larger than the limit.
    TooLarge,
    /// The connection ended early.
    Broken,
}

/// Time and randomness.
pub trait Runtime: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
    /// Returns once it is `at` or later.
    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> + Send;
    /// A random UUID (version 4) in lower case: CloudStack refuses upper case in `customjobid`.
    fn fresh_uuid(&self) -> String;
}

impl<R: Runtime> Runtime for std::sync::Arc<R> {
    fn now(&self) -> Timestamp {
        R::now(self)
    }

    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> + Send {
        R::sleep_until(self, at)
    }

    fn fresh_uuid(&self) -> String {
        R::fresh_uuid(self)
    }
}

/// The system's clock and random numbers, tokio's timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioRuntime;

impl Runtime for TokioRuntime {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        later(Timestamp::UNIX_EPOCH, since)
    }

    async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep(between(self.now(), at)).await;
    }

    fn fresh_uuid(&self) -> String {
        Uuid::new_v4().hyphenated().to_string()
    }
}

/// `now` plus a time, at most the end of time.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// From `start` to `end`; zero if that is not ahead.
pub(crate) fn between(start: Timestamp, end: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(start)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_encode_every_value_and_show_no_secret() {
        let request = WireRequest {
            method: Method::Post,
            params: vec![
                ("command".to_owned(), "createTags".to_owned()),
                ("tags[0].value".to_owned(), "a b*~+é&=".to_owned()),
                ("apiKey".to_owned(), "AKtest-01_x".to_owned()),
                ("signature".to_owned(), "PQaV8/A=".to_owned()),
            ],
        };
        assert_eq!(
            request.encoded(),
            "command=createTags&tags%5B0%5D.value=a+b*%7E%2B%C3%A9%26%3D\
             &apiKey=AKtest-01_x&signature=PQaV8%2FA%3D"
        );
        let shown = format!("{request:?}");
        assert!(!shown.contains("AKtest") && !shown.contains("PQaV8"), "{shown}");
    }

    #[test]
    fn fresh_uuids_are_lower_case_and_differ() {
        let uuid = TokioRuntime.fresh_uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid, uuid.to_lowercase());
        assert_ne!(uuid, TokioRuntime.fresh_uuid());
    }
}
