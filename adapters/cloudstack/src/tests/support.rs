//! A transport that answers from a script, and tokio's paused clock as the runtime.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::wire::later;
use crate::{
    Client, Credentials, Options, Runtime, Transport, TransportError, TransportErrorKind,
    WireRequest, WireResponse,
};

pub(super) const API_KEY: &str = "AKtest-01_x";
pub(super) const SECRET_KEY: &str = "SKsecret_42";

/// Tokio's clock; run tests with `start_paused = true`.
#[derive(Clone)]
pub(super) struct Virtual {
    start: Instant,
    uuids: Arc<Mutex<u32>>,
}

impl Virtual {
    fn new() -> Self {
        Self { start: Instant::now(), uuids: Arc::default() }
    }
}

impl Runtime for Virtual {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2026-12-01T20:00:00Z".parse().unwrap();
        later(start, self.start.elapsed())
    }

    async fn sleep_until(&self, at: Timestamp) {
        let wait = crate::wire::between(self.now(), at);
        tokio::time::sleep(wait).await;
    }

    fn fresh_uuid(&self) -> String {
        let mut count = self.uuids.lock().unwrap();
        *count += 1;
        format!("00000000-0000-4000-8000-{:012x}", *count)
    }
}

pub(super) type Reply = Result<WireResponse, TransportError>;
type Script = Box<dyn FnMut(&WireRequest) -> Reply + Send>;

/// Answers by a function, and keeps what it was asked.
#[derive(Clone)]
pub(super) struct Scripted(Arc<Inner>);

struct Inner {
    script: Mutex<Script>,
    asked: Mutex<Vec<(Duration, WireRequest)>>,
    start: Instant,
    slow: Duration,
}

impl Transport for Scripted {
    async fn send(&self, request: WireRequest) -> Reply {
        let inner = &self.0;
        let at = inner.start.elapsed();
        inner.asked.lock().unwrap().push((at, request.clone()));
        tokio::time::sleep(inner.slow).await;
        let mut script = inner.script.lock().unwrap();
        (*script)(&request)
    }
}

impl Scripted {
    /// When each request went out, since the start, and what it was.
    pub(super) fn asked(&self) -> Vec<(Duration, WireRequest)> {
        self.0.asked.lock().unwrap().clone()
    }

    /// The commands in order.
    pub(super) fn commands(&self) -> Vec<String> {
        let command = |(_, request): &(Duration, WireRequest)| of(request, "command").to_owned();
        self.asked().iter().map(command).collect()
    }

    /// How often a command was sent.
    pub(super) fn count(&self, command: &str) -> usize {
        self.commands().iter().filter(|name| *name == command).count()
    }
}

/// A client whose server is `script`.
pub(super) fn client(
    script: impl FnMut(&WireRequest) -> Reply + Send + 'static,
) -> (Client<Scripted, Virtual>, Scripted) {
    client_with(Options::default(), script)
}

pub(super) fn client_with(
    options: Options,
    script: impl FnMut(&WireRequest) -> Reply + Send + 'static,
) -> (Client<Scripted, Virtual>, Scripted) {
    let transport = Scripted(Arc::new(Inner {
        script: Mutex::new(Box::new(script)),
        asked: Mutex::default(),
        start: Instant::now(),
        slow: Duration::from_millis(5),
    }));
    let credentials = Credentials::new(API_KEY, SECRET_KEY);
    let client = Client::new(transport.clone(), Virtual::new(), credentials, options);
    (client, transport)
}

/// A parameter of a request, empty if it is absent.
pub(super) fn of<'a>(request: &'a WireRequest, name: &str) -> &'a str {
    request.param(name).unwrap_or_default()
}

/// A success with `inner` under some root key.
pub(super) fn ok(inner: &Value) -> Reply {
    body(200, &json!({ "someresponse": inner }).to_string())
}

#[expect(clippy::unnecessary_wraps, reason = "a script's arms are replies")]
pub(super) fn body(status: u16, text: &str) -> Reply {
    Ok(WireResponse {
        status,
        content_type: Some("application/json;charset=utf-8".to_owned()),
        body: text.to_owned(),
    })
}

/// An error in CloudStack's form.
pub(super) fn refused(code: u16, text: &str) -> Reply {
    let root = if code == 432 { "errorresponse" } else { "someresponse" };
    let inner = json!({"uuidList": [], "errorcode": code, "cserrorcode": 9999, "errortext": text});
    body(code, &json!({ root: inner }).to_string())
}

/// The refusal of an id that no object has.
pub(super) fn unknown(parameter: &str, value: &str) -> Reply {
    refused(
        431,
        &format!(
            "Unable to execute API command x due to invalid value. Invalid parameter {parameter} value={value} due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class."
        ),
    )
}

pub(super) fn broken(kind: TransportErrorKind, sent: bool) -> Reply {
    Err(TransportError {
        kind,
        sent,
        text: "the connection to cloud.example broke: reset".to_owned(),
    })
}

/// The page of `rows` that a request asks for, as a server pages.
pub(super) fn page_of(request: &WireRequest, array: &str, rows: &[Value]) -> Reply {
    let number = |name| of(request, name).parse::<usize>().unwrap();
    let (page, size) = (number("page"), number("pagesize"));
    if rows.is_empty() {
        return ok(&json!({}));
    }
    let shown: Vec<&Value> = rows.iter().skip((page - 1) * size).take(size).collect();
    if shown.is_empty() {
        return ok(&json!({ "count": rows.len() }));
    }
    ok(&json!({ "count": rows.len(), array: shown }))
}

/// A job that is over.
pub(super) fn job(status: u8, more: Value) -> Reply {
    let mut answer =
        json!({"jobid": "j", "jobstatus": status, "jobprocstatus": 0, "jobresultcode": 0});
    let Value::Object(more) = more else {
        panic!("an object is needed");
    };
    answer.as_object_mut().unwrap().extend(more);
    ok(&answer)
}

pub(super) fn failed_job(code: u16, text: &str) -> Reply {
    let result = json!({"errorcode": code, "errortext": text});
    job(2, json!({"jobresultcode": code, "jobresulttype": "object", "jobresult": result}))
}
