//! From a recorded request to the bytes that its caller sent: parameters, signature, encoding.

use std::fmt::Write as _;

use ccm_cloudstack::sign::signature;
use ccm_simulator::{Response, Simulator, http};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::names::Names;
use super::recording::Exchange;
use super::setup::{Expires, Setup, Signature};

/// Path of the API.
const PATH: &str = "/client/api";

/// How a time was written, to how it is written here; `+0200` counts from another zone.
const TIME_FORMS: &[(&str, &str, i32)] = &[
    ("YYYY-MM-DDThh:mm:ss+0000", "%Y-%m-%dT%H:%M:%S+0000", 0),
    ("YYYY-MM-DDThh:mm:ss+00:00", "%Y-%m-%dT%H:%M:%S+00:00", 0),
    ("YYYY-MM-DDThh:mm:ss+0200", "%Y-%m-%dT%H:%M:%S+0200", 2),
    ("YYYY-MM-DDThh:mm:ss.SSSZ", "%Y-%m-%dT%H:%M:%S.%3fZ", 0),
    ("YYYY-MM-DDThh:mm:ssZ", "%Y-%m-%dT%H:%M:%SZ", 0),
    ("YYYY-MM-DDThh:mm:ss", "%Y-%m-%dT%H:%M:%S", 0),
];

/// Key and secret of a caller.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) api_key: String,
    pub(super) secret_key: String,
}

impl Keys {
    /// The keys that every account of a seeded world has, made from its name.
    pub(super) fn of(caller: &str) -> Self {
        Self { api_key: format!("key-{caller}"), secret_key: format!("secret-{caller}") }
    }
}

/// Parameters that are times.
const TIMES: &[&str] = &["startdate", "enddate"];

/// Whether a parameter is a time.
pub(super) fn is_time(param: &str) -> bool {
    TIMES.contains(&param)
}

/// A request as it goes out.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    method: String,
    target: String,
    form: String,
}

impl Outgoing {
    /// The request of a line with the names of this run, as `setup` says that it was sent.
    pub(super) fn of(
        exchange: &Exchange,
        setup: &[&Setup],
        names: &Names,
        keys: &Keys,
        now: Timestamp,
    ) -> Self {
        let form = setup.iter().find(|entry| entry.is_form());
        let full = |name: &str| setup.iter().find_map(|entry| entry.params_full.get(name));
        let mut params: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: String| params.push((name.to_owned(), value));
        if let Some(command) = &exchange.command {
            add("command", command.clone());
        }
        for (name, value) in &exchange.params {
            let text = full(name).map_or_else(|| plain(value), super::setup::Full::text);
            add(name, names.translate(&text));
        }
        for (name, value) in form.iter().flat_map(|form| &form.extra_params) {
            let moment = form.and_then(|form| form.expires.as_ref());
            match moment.filter(|_| name == "expires") {
                Some(moment) => add(name, written(moment, now)),
                None => add(name, value.clone()),
            }
        }
        let response = form.map_or(Some("json"), |form| form.response.as_deref());
        if let Some(response) = response {
            add("response", response.to_owned());
        }
        let signed = form.and_then(|form| form.signature).unwrap_or(Signature::Good);
        sign(&mut params, signed, keys);
        Self::new(&exchange.method, &encoded(&params))
    }

    fn new(method: &str, params: &str) -> Self {
        let (target, form) = match method {
            "POST" => (PATH.to_owned(), params.to_owned()),
            _ => (format!("{PATH}?{params}"), String::new()),
        };
        Self { method: method.to_owned(), target, form }
    }

    /// The answer of a simulator.
    pub(super) fn send(&self, simulator: &mut Simulator, now: Timestamp) -> Response {
        let form = self.form.as_bytes();
        http::exchange(simulator, &self.method, &self.target, form, now)
            .expect("a server that runs")
    }
}

fn sign(params: &mut Vec<(String, String)>, how: Signature, keys: &Keys) {
    if how == Signature::None {
        return;
    }
    params.push(("apiKey".to_owned(), keys.api_key.clone()));
    let value = match how {
        Signature::Good => signature(params, &keys.secret_key),
        Signature::Wrong => signature(params, "of somebody else"),
        Signature::Empty | Signature::None => String::new(),
    };
    params.push(("signature".to_owned(), value));
}

/// A parameter as it goes over the wire.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn written(moment: &Expires, now: Timestamp) -> String {
    let at = now + SignedDuration::from_secs(moment.offset_s);
    let known = TIME_FORMS.iter().find(|(form, ..)| *form == moment.form);
    let (_, format, hours) = known.expect("a form of time that the table names");
    let offset = jiff::tz::offset(i8::try_from(*hours).expect("a small offset"));
    at.to_zoned(TimeZone::fixed(offset)).strftime(format).to_string()
}

/// `name=value` pairs with everything but letters and digits as `%XX`.
fn encoded(params: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        params.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("writing to a string");
        }
        escaped
    })
}
