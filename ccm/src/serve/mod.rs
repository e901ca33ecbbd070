//! What the controller serves over HTTPS on one port.
//!
//! | Path | Who | What |
//! |---|---|---|
//! | `/healthz`, `/livez`, `/readyz` | everybody | checks (`health.rs`); `?verbose`, `?exclude=` |
//! | `/healthz/<check>`, `/livez/<check>`, `/readyz/<check>` | who may | one check |
//! | `/metrics` | who may | metrics, as Prometheus reads them |
//! | `/metrics/slis` | who may | what checks said (`slis.rs`); `DELETE` forgets it |
//! | `/configz` | who may | what the controller works with, as JSON |
//! | `/plan` | who may | the latest plans, as JSON; in a dry run |
//!
//! `access.rs` decides who may, `vouchers.rs` whose a certificate is, `tls.rs` has our own,
//! `connections.rs` answers.

mod access;
mod configuration;
mod connections;
mod health;
mod slis;
mod tls;
mod vouchers;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, info};

use crate::cli::{CertificateFiles, ServingOptions};
use crate::metrics::{self, Metrics};

pub use access::{Delegated, Reviews};
pub use configuration::configz;
pub use health::{AtWork, Condition, Health, Heart, Probe};
pub use tls::CertificateError;

use access::{Access, Admission, Caller};
use connections::{Shown, serve};
use health::Asked;
use tls::{Certificate, Pair, TlsListener};

/// How the server keeps its house.
#[derive(Clone, Copy)]
struct Pace {
    /// How often certificate files are looked at.
    certificate: Duration,
    /// How often it is looked who vouches for callers.
    vouchers: Duration,
    /// How long a connection may be open without a request.
    patience: Duration,
}

const PACE: Pace = Pace {
    certificate: Duration::from_secs(20),
    vouchers: Duration::from_mins(1),
    patience: Duration::from_secs(90),
};
/// How long requests that are under way may take once the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// What is shown.
pub struct Site {
    /// The checks.
    pub health: Health,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The JSON of `/configz` ([`configz`]).
    pub configuration: Page,
    /// The JSON of the latest plans; `None` if plans are not shown.
    pub plans: Option<Page>,
}

/// Makes a page when it is asked for.
pub type Page = Box<dyn Fn() -> String + Send + Sync>;

/// The server can't be started.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The port is taken, or the address is another machine's.
    #[error("can't listen on {address}; see --bind-address and --secure-port")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The certificate can't be used.
    #[error("the certificate can't be served; see --tls-cert-file and --tls-private-key-file")]
    Certificate(#[from] CertificateError),
    /// TLS can't be set up.
    #[error("TLS can't be set up")]
    Tls(#[from] rustls::Error),
}

/// A running server. It ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    requests: Task<()>,
    /// Keep up to date: the certificate, and who vouches for callers.
    _keepers: (Option<Task<()>>, Task<()>),
}

impl Server {
    /// Starts one.
    ///
    /// # Errors
    /// [`ServeError`] if the port or the certificate can't be used.
    pub async fn start<R: Reviews>(
        options: &ServingOptions,
        site: Site,
        reviews: R,
    ) -> Result<Self, ServeError> {
        Self::start_with(options, site, reviews, PACE).await
    }

    async fn start_with<R: Reviews>(
        options: &ServingOptions,
        site: Site,
        reviews: R,
        pace: Pace,
    ) -> Result<Self, ServeError> {
        let ServingOptions {
            address,
            certificate,
            only_tls13,
            vouchers,
            always_allow,
            beliefs,
            authentication_kubeconfig: _,
            authorization_kubeconfig: _,
        } = options;
        let bind = |cause| ServeError::Bind { address: *address, cause };
        let (certificate, keeper) = served(certificate.as_ref(), pace.certificate)?;
        let tcp = TcpListener::bind(address).await.map_err(bind)?;
        let address = tcp.local_addr().map_err(bind)?;
        let listener = TlsListener::new(tcp, certificate, *only_tls13)?;
        let access = Arc::new(Access::new(reviews, always_allow.clone(), *beliefs));
        let follow = {
            let (access, vouchers) = (Arc::clone(&access), vouchers.clone());
            async move { access.follow_vouchers(&vouchers, pace.vouchers).await }
        };
        let keepers = (keeper, Task(tokio::spawn(follow)));
        let (stop, ending) = oneshot::channel::<()>();
        let router = router(site, access);
        let requests = Task(tokio::spawn(serve(listener, router, pace.patience, ending)));
        info!(%address, "serving health, metrics and plans over HTTPS");
        Ok(Self { address, stop, requests, _keepers: keepers })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new connection and waits a moment for requests that are under way.
    pub async fn stop(self) {
        let Self { address: _, stop, mut requests, _keepers } = self;
        // It may have ended by itself; then that is seen below.
        let _ = stop.send(());
        if timeout(LAST_REQUESTS, &mut requests.0).await.is_err() {
            debug!("some requests were not waited for");
        }
    }
}

/// A task that ends with its owner.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The certificate, and what keeps it up to date.
fn served(
    files: Option<&CertificateFiles>,
    every: Duration,
) -> Result<(Arc<Certificate>, Option<Task<()>>), CertificateError> {
    let Some(files) = files.cloned() else {
        return Ok((Arc::new(Certificate::self_signed()?), None));
    };
    let pair = Pair::read(&files)?;
    let certificate = Arc::new(Certificate::load(&pair)?);
    let kept = certificate.clone();
    let keeper = tokio::spawn(async move { kept.follow(&files, pair, every).await });
    Ok((certificate, Some(Task(keeper))))
}

fn router<R: Reviews>(site: Site, access: Arc<Access<R>>) -> Router {
    let mut router = Router::new()
        .route("/metrics", get(metrics))
        .route("/metrics/slis", get(slis).delete(reset_slis))
        .route("/configz", get(configuration))
        .route("/plan", get(plans));
    for probe in [Probe::Healthz, Probe::Livez, Probe::Readyz] {
        let path = format!("/{}", probe.name());
        let all =
            move |State(site): State<Arc<Site>>, uri: Uri| async move { all(probe, &site, &uri) };
        let one = move |State(site): State<Arc<Site>>, Path(name): Path<String>| async move {
            one(probe, &site, &name)
        };
        router = router.route(&path, get(all)).route(&format!("{path}/{{check}}"), get(one));
    }
    router.route_layer(from_fn_with_state(access, guard::<R>)).with_state(Arc::new(site))
}

/// Lets through who may.
async fn guard<R: Reviews>(
    State(access): State<Arc<Access<R>>>,
    request: Request,
    next: Next,
) -> Response {
    let verb = request.method().as_str().to_ascii_lowercase();
    let path = request.uri().path().to_owned();
    let token = bearer(request.headers());
    let shown = request.extensions().get::<Shown>();
    let caller = Caller {
        token: token.as_deref(),
        certificates: shown.map(|Shown(chain)| chain.as_slice()).unwrap_or_default(),
        headers: request.headers(),
    };
    match access.admit(&caller, &verb, &path).await {
        Admission::Admitted => next.run(request).await,
        Admission::Unknown => {
            let mut answer = text(StatusCode::UNAUTHORIZED, TEXT, "Unauthorized\n");
            answer.headers_mut().insert(WWW_AUTHENTICATE, BEARER);
            answer
        }
        Admission::Forbidden { user } => {
            let why = format!("forbidden: User {user:?} cannot {verb} path {path:?}\n");
            text(StatusCode::FORBIDDEN, TEXT, why)
        }
        Admission::Unclear => {
            let why = "the API server can't be asked who may read this\n";
            text(StatusCode::SERVICE_UNAVAILABLE, TEXT, why)
        }
    }
}

const BEARER: axum::http::HeaderValue = axum::http::HeaderValue::from_static("Bearer");

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

fn all(probe: Probe, site: &Site, uri: &Uri) -> Response {
    let (well, body) = site.health.answer(probe, &Asked::read(uri.query().unwrap_or_default()));
    let status = if well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    text(status, TEXT, body)
}

fn one(probe: Probe, site: &Site, name: &str) -> Response {
    match site.health.check(probe, name) {
        None => text(StatusCode::NOT_FOUND, TEXT, "404 page not found\n"),
        Some(Ok(())) => text(StatusCode::OK, TEXT, "ok"),
        Some(Err(reason)) => {
            let body = format!("internal server error: {reason}\n");
            text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, body)
        }
    }
}

async fn metrics(State(site): State<Arc<Site>>) -> Response {
    text(StatusCode::OK, metrics::CONTENT_TYPE, site.metrics.text())
}

async fn slis(State(site): State<Arc<Site>>) -> Response {
    text(StatusCode::OK, metrics::CONTENT_TYPE, site.health.slis().text())
}

async fn reset_slis(State(site): State<Arc<Site>>) -> Response {
    site.health.slis().reset();
    text(StatusCode::OK, TEXT, "metrics reset\n")
}

async fn configuration(State(site): State<Arc<Site>>) -> Response {
    text(StatusCode::OK, JSON, (site.configuration)())
}

async fn plans(State(site): State<Arc<Site>>) -> Response {
    match &site.plans {
        Some(plans) => text(StatusCode::OK, JSON, plans()),
        None => text(StatusCode::NOT_FOUND, TEXT, "plans are shown in a dry run: --dry-run\n"),
    }
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<String>) -> Response {
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache, private"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body.into()).into_response()
}

#[cfg(test)]
mod tests;
