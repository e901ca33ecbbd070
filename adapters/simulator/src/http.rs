//! The HTTP façade: the only part that waits. It decodes parameters, takes the time, and hands both to the simulator.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method as HttpMethod, StatusCode, Uri};
use axum::response::Response as HttpResponse;
use jiff::Timestamp;
use tokio::net::TcpListener;

use crate::message::{Method, Request, Response};
use crate::simulator::Simulator;

/// Longest request line that CloudStack takes, in bytes.
const LONGEST_URI: usize = 8192;

/// What every request needs.
struct Front<Clock> {
    simulator: Arc<Mutex<Simulator>>,
    clock: Clock,
    latency: Duration,
}

/// Serves a simulator under `/client/api` until `shutdown` is ready, then finishes the requests under way. `clock` gives
/// the time of each request, and every answer is held back for `latency`.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    simulator: Arc<Mutex<Simulator>>,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    latency: Duration,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let front = Arc::new(Front { simulator, clock, latency });
    let router = Router::new().fallback(answer).with_state(front);
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await
}

async fn answer<Clock: Fn() -> Timestamp + Send + Sync + 'static>(
    State(front): State<Arc<Front<Clock>>>,
    method: HttpMethod,
    uri: Uri,
    body: Bytes,
) -> HttpResponse {
    if !matches!(uri.path(), "/client/api" | "/client/api/") {
        return plain(StatusCode::NOT_FOUND);
    }
    if uri.path_and_query().is_some_and(|text| text.as_str().len() > LONGEST_URI) {
        return plain(StatusCode::URI_TOO_LONG);
    }
    let method = match method {
        HttpMethod::GET | HttpMethod::HEAD => Method::Get,
        HttpMethod::POST => Method::Post,
        HttpMethod::OPTIONS => return plain(StatusCode::OK),
        _ => return plain(StatusCode::METHOD_NOT_ALLOWED),
    };
    let request = decode(method, uri.query().unwrap_or_default(), &body);
    let now = (front.clock)();
    let response = {
        // A panic of another request leaves the world as it was between two requests.
        let mut simulator = front.simulator.lock().unwrap_or_else(PoisonError::into_inner);
        simulator.handle(&request, now)
    };
    tokio::time::sleep(front.latency).await;
    encode(response)
}

/// Parameters of the body first, so that those of the query string win.
fn decode(method: Method, query: &str, body: &[u8]) -> Request {
    let form: &[u8] = match method {
        Method::Get => &[],
        Method::Post => body,
    };
    let params = form_urlencoded::parse(form)
        .into_owned()
        .chain(form_urlencoded::parse(query.as_bytes()).into_owned())
        .collect();
    Request { method, params: last_of_each(params) }
}

/// Of a repeated parameter only the last counts, also for the signature.
fn last_of_each(params: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut kept: Vec<(String, String)> = Vec::with_capacity(params.len());
    for (name, value) in params {
        match kept.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => kept.push((name, value)),
        }
    }
    kept
}

fn encode(response: Response) -> HttpResponse {
    let Response { status, headers, body } = response;
    let mut builder = HttpResponse::builder().status(status);
    for (name, value) in headers {
        // Header values are one line of visible characters; error texts may hold anything.
        let line: String = value
            .chars()
            .map(|letter| if letter.is_ascii_graphic() { letter } else { ' ' })
            .collect();
        builder = builder.header(name, line);
    }
    builder.body(Body::from(body)).unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
}

fn plain(status: StatusCode) -> HttpResponse {
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = status;
    response
}
