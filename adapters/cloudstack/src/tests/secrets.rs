//! No secret gets out, whatever the server does.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use ccm_core::ids::LoadBalancerRuleId;
use ccm_core::observe::scope::Scope;
use ccm_core::plan::action::{Call, DeleteLoadBalancerRule};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use super::support::{API_KEY, Reply, SECRET_KEY, body, client_with, of, ok};
use crate::{
    Credentials, Method, Options, PostPolicy, TransportError, TransportErrorKind, WireRequest,
};

/// Collects what a subscriber writes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The log of this process at its most talkative. One subscriber for all tests: with one for each,
/// tests that run beside each other switch off each other's log lines.
fn whole_log() -> Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    let start = || {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(log.clone())
            .with_ansi(false)
            .finish();
        let only = tracing::subscriber::set_global_default(subscriber);
        only.expect("no other test sets a subscriber");
        log
    };
    LOG.get_or_init(start).clone()
}

/// Everything that the request held, as a hostile or helpful server would throw it back.
fn echo(request: &WireRequest) -> String {
    let raw: Vec<String> =
        request.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {} {SECRET_KEY}", raw.join("&"), request.encoded())
}

fn hostile(variant: usize) -> impl FnMut(&WireRequest) -> Reply + Send {
    move |request| {
        let echo = echo(request);
        let entry = json!({"id": "r1", "name": echo, "publicport": echo});
        let lines = json!({"someresponse": {"errorcode": 530, "errortext": echo}}).to_string();
        match variant {
            0 => body(530, &lines),
            1 => body(200, &format!("<html>{echo}</html>")),
            2 => body(502, &echo),
            3 => body(200, &format!("{{\"{echo}\": ")),
            4 => ok(&json!({"count": 1, "loadbalancerrule": [entry], "virtualmachine": [entry],
                "network": [entry], "publicipaddress": [entry], "vpc": [entry]})),
            5 => ok(&json!({"jobid": "j", "jobstatus": 2, "jobresultcode": 530,
                "jobresult": {"errorcode": 530, "errortext": echo}})),
            6 => body(429, &lines.replace("530", "429")),
            7 => ok(&json!({"count": echo, "network": echo, "jobstatus": echo})),
            8 => body(405, &echo),
            _ => Err(TransportError {
                kind: TransportErrorKind::Broken,
                sent: of(request, "command") == "queryAsyncJobResult",
                text: echo,
            }),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c088_no_error_and_no_log_line_holds_a_secret() {
    let log = whole_log();
    let mut told: Vec<String> = Vec::new();
    let mut signatures: Vec<String> = Vec::new();
    for variant in 0..10 {
        let options = Options { post: PostPolicy::UnlessRefused, ..Options::default() };
        let (client, server) = client_with(options, hostile(variant));
        let rule = LoadBalancerRuleId::parse("r1").unwrap();
        let call = Call::DeleteLoadBalancerRule(DeleteLoadBalancerRule { rule });
        let scope = Scope::default();
        let observed = client.observe(&scope).await;
        let called = client.call(&call).await;
        let shown = observed.as_ref().err().map(ToString::to_string);
        told.push(format!("{observed:?} {called:?} {shown:?} {:?}", server.asked()));
        signatures
            .extend(server.asked().iter().map(|(_, request)| of(request, "signature").to_owned()));
    }
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("sending"), "nothing was logged");
    told.push(logged);
    for text in &told {
        let lower = text.to_lowercase();
        assert!(!lower.contains(&API_KEY.to_lowercase()), "{text}");
        assert!(!lower.contains(&SECRET_KEY.to_lowercase()), "{text}");
        for signature in &signatures {
            let encoded = crate::sign::encode_value(signature);
            assert!(!text.contains(signature.as_str()), "{text}");
            assert!(!text.contains(&encoded), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn keys_travel_in_urls_only_if_that_is_allowed_and_needed() {
    for (post, expected) in [
        (PostPolicy::Always, vec![Method::Post]),
        (PostPolicy::UnlessRefused, vec![Method::Post, Method::Get, Method::Get]),
    ] {
        let options = Options { post, ..Options::default() };
        let (client, server) = client_with(options, |request| match request.method {
            Method::Post => body(405, "<html>Method Not Allowed</html>"),
            Method::Get => ok(&json!({"capability": {"cloudstackversion": "4.22.0.0"}})),
        });
        let first = client.discover().await;
        assert_eq!(first.is_ok(), post == PostPolicy::UnlessRefused);
        if first.is_ok() {
            client.discover().await.unwrap();
        }
        let methods: Vec<Method> =
            server.asked().iter().map(|(_, request)| request.method).collect();
        assert_eq!(methods, expected);
    }
}

#[test]
fn credentials_and_requests_show_nothing() {
    let credentials = Credentials::new(API_KEY, SECRET_KEY);
    assert!(!format!("{credentials:?}").contains("test"));
    let options = format!("{:?}", Options::default());
    assert!(!options.contains("key"), "{options}");
}
