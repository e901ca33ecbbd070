//! The HTTP façade: the only part that waits. It decodes parameters, takes the time, and hands both
//! to the simulator.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::uri::PathAndQuery;
use axum::http::{Method as HttpMethod, StatusCode, Uri};
use axum::response::Response as HttpResponse;
use futures_util::future::ready;
use futures_util::{TryStreamExt as _, stream};
use jiff::Timestamp;
use tokio::net::TcpListener;

use crate::message::{Method, NoAnswer, Request, Response};
use crate::simulator::Simulator;

/// How long a request without an answer is kept open: longer than any client waits.
const SILENCE: Duration = Duration::from_mins(10);
/// Longest request line that CloudStack takes, in bytes.
const LONGEST_URI: usize = 8192;

/// What every request needs.
struct Front<Clock> {
    simulator: Arc<Mutex<Simulator>>,
    clock: Clock,
    latency: Duration,
}

/// Serves a simulator under `/client/api` until `shutdown` is ready, then finishes the requests
/// under way. `clock` gives the time of each request, and every answer is held back for `latency`.
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
    let target = uri.path_and_query().map_or(uri.path(), PathAndQuery::as_str);
    let now = (front.clock)();
    let received = {
        // A panic of another request leaves the world as it was between two requests.
        let mut simulator = front.simulator.lock().unwrap_or_else(PoisonError::into_inner);
        exchange(&mut simulator, method.as_str(), target, &body, now)
    };
    tokio::time::sleep(front.latency).await;
    match received {
        Ok(response) => encode(response),
        Err(NoAnswer::Refused | NoAnswer::Closed) => closed(),
        Err(NoAnswer::Silence) => {
            tokio::time::sleep(SILENCE).await;
            closed()
        }
    }
}

/// Ends the connection: a body that fails before its first byte takes the head with it.
fn closed() -> HttpResponse {
    let failure = stream::once(ready(Err::<Bytes, _>(io::ErrorKind::ConnectionAborted)));
    HttpResponse::new(Body::from_stream(failure.map_err(io::Error::from)))
}

/// Answers one HTTP request without a connection: `target` is path and query string, `form` the
/// body.
///
/// # Errors
/// If nothing comes back.
pub fn exchange(
    simulator: &mut Simulator,
    method: &str,
    target: &str,
    form: &[u8],
    now: Timestamp,
) -> Result<Response, NoAnswer> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if !matches!(path, "/client/api" | "/client/api/") {
        return Ok(bare(404));
    }
    if target.len() > LONGEST_URI {
        return Ok(page(414, "<h1>Bad Message 414</h1><pre>reason: URI Too Long</pre>"));
    }
    let request = match method {
        "GET" | "HEAD" => decode(Method::Get, query, form),
        "POST" => decode(Method::Post, query, form),
        "OPTIONS" => return Ok(bare(200)),
        _ => return Ok(bare(405)),
    };
    let mut response = simulator.receive(&request, now)?;
    for (_, value) in &mut response.headers {
        *value = one_line(value);
    }
    if method == "HEAD" {
        response.body.clear();
    }
    Ok(response)
}

/// Header values are one line of visible characters; error texts may hold anything.
fn one_line(value: &str) -> String {
    value.chars().map(|letter| if letter.is_ascii_graphic() { letter } else { ' ' }).collect()
}

/// An answer of the web server, before CloudStack.
fn page(status: u16, body: &str) -> Response {
    let headers = vec![("Content-Type".to_owned(), "text/html;charset=iso-8859-1".to_owned())];
    Response { status, headers, body: body.to_owned() }
}

fn bare(status: u16) -> Response {
    Response { status, headers: Vec::new(), body: String::new() }
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
        builder = builder.header(name, value);
    }
    builder.body(Body::from(body)).unwrap_or_else(|_| {
        let mut failed = HttpResponse::new(Body::empty());
        *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        failed
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use tokio::sync::oneshot;
    use tokio::task::spawn_blocking;

    use super::*;
    use crate::testing::Lab;

    /// Sends one request as text and returns the answer as text.
    async fn exchange(address: SocketAddr, method: &str, target: &str, form: &str) -> String {
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        );
        let sent = spawn_blocking(move || {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            io::Result::Ok(answer)
        });
        sent.await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn speaks_the_wire_protocol_and_stops_when_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lab = Lab::new();
        let now = lab.now;
        let simulator = Arc::new(Mutex::new(lab.simulator));
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async { drop(stopped.await) };
        let server =
            tokio::spawn(serve(listener, simulator, move || now, Duration::ZERO, shutdown));
        let signed = "apiKey=AKprod&command=listZones&response=json&signature=kqw4XCw1MNb8tfQKTvw8f1JmKyM%3D";
        let get = exchange(address, "GET", &format!("/client/api?{signed}"), "").await;
        assert!(get.starts_with("HTTP/1.1 200 OK\r\n"), "{get}");
        assert!(get.contains("content-type: application/json;charset=utf-8\r\n"), "{get}");
        assert!(get.contains(r#"{"listzonesresponse":{"count":1,"#), "{get}");
        let post = exchange(address, "POST", "/client/api", signed).await;
        assert!(post.starts_with("HTTP/1.1 200"), "{post}");
        // The query string wins over the form.
        let both = exchange(address, "POST", "/client/api?command=noSuch", signed).await;
        assert!(both.starts_with("HTTP/1.1 401"), "{both}");
        assert!(both.contains("x-description: unable to verify user credentials"), "{both}");
        let put = exchange(address, "PUT", "/client/api", signed).await;
        assert!(put.starts_with("HTTP/1.1 405"), "{put}");
        let head = exchange(address, "HEAD", &format!("/client/api?{signed}"), "").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let long =
            exchange(address, "GET", &format!("/client/api?x={}", "x".repeat(9000)), "").await;
        assert!(long.starts_with("HTTP/1.1 414"), "{long}");
        let elsewhere = exchange(address, "GET", "/", "").await;
        assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }
}
