//! HTTP on connections that have shaken hands.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
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
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            // A sender that is gone wants the end too.
            _ = &mut ending => break,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        connections.spawn(async move {
            if let Err(error) = connection.await {
                debug!(%peer, %error, "connection failed");
            }
        });
    }
    drop(listener);
    open.shutdown().await;
}
