//! HTTP on connections that have shaken hands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustls::pki_types::CertificateDer;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;
use tracing::debug;

use super::tls::TlsListener;

/// Answers requests until `ending` comes, then those that are under way. A connection on which no
/// whole request comes within `patience` is closed: peers that died without a word leave none open.
pub(super) async fn serve(
    mut listener: TlsListener,
    router: Router,
    patience: Duration,
    mut ending: oneshot::Receiver<()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience);
    let open = GracefulShutdown::new();
    let ended = CancellationToken::new();
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            // A sender that is gone wants the end too.
            _ = &mut ending => break,
        };
        let begun = Arc::new(AtomicBool::new(false));
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
        let service = service(router.clone(), Shown(Arc::new(shown)), Arc::clone(&begun));
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        let unused = unused_at_the_end(ended.clone(), begun);
        connections.spawn(async move {
            tokio::select! {
                served = connection => if let Err(error) = served {
                    debug!(%peer, %error, "connection failed");
                },
                () = unused => {}
            }
        });
    }
    drop(listener);
    ended.cancel();
    open.shutdown().await;
}

/// The certificates that a peer showed when it shook hands.
#[derive(Clone)]
pub(super) struct Shown(pub(super) Arc<Vec<CertificateDer<'static>>>);

/// A service for one connection, which notes that a request has come.
fn service(
    router: Router,
    shown: Shown,
    begun: Arc<AtomicBool>,
) -> impl HttpService<Incoming, ResBody = Body, Error = std::convert::Infallible, Future: Send> + Send
{
    service_fn(move |mut request: Request<Incoming>| {
        begun.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(shown.clone());
        router.clone().call(request)
    })
}

/// Comes at the end, if no request has come before: a connection that waits for its first one is not
/// closed by a graceful end.
async fn unused_at_the_end(ended: CancellationToken, begun: Arc<AtomicBool>) {
    ended.cancelled().await;
    if begun.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}
