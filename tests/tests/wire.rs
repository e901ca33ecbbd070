//! The client's transport against stubs on the loopback interface: what travels, and what becomes
//! of answers that are slow, cut, too large or point elsewhere.

#[cfg(test)]
mod wire {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use ccm_cloudstack::sign::signature;
    use ccm_cloudstack::{
        Client, Credentials, HttpOptions, HttpTransport, Method, Options, TokioRuntime, Transport,
        TransportConfigError, TransportErrorKind, WireRequest,
    };
    use ccm_core::exec::error::{Effect, Fault};
    use ccm_core::observe::scope::Scope;
    use ccm_core::version::Version;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use crate::stub::{Stub, answer, decoded, plain_text};

    const HOSTILE: &str = "a b*~[c]+d,é€𝄞%&=;\"'<>#?/\\\r\n\u{7f}";

    fn options(url: &str) -> HttpOptions {
        HttpOptions {
            system_proxy: false,
            request_timeout: Duration::from_millis(400),
            max_body: 10_000,
            ..HttpOptions::new(url)
        }
    }

    fn transport(url: &str) -> HttpTransport {
        HttpTransport::new(&options(url)).unwrap()
    }

    fn request(method: Method) -> WireRequest {
        let params = [
            ("command", "createTags"),
            ("tags[0].value", HOSTILE),
            ("cidrlist", ""),
            ("apiKey", "AKtest-01_x"),
            ("signature", "PQaV8/AnLyBWZkrcGfvBlGyl8uI="),
        ];
        let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
        WireRequest { method, params: params.to_vec() }
    }

    #[tokio::test]
    async fn a_form_arrives_as_it_was_signed() {
        let stub = Stub::start(|_| answer(200, "{}"));
        let sent = request(Method::Post);
        let response = transport(&stub.url).send(sent.clone()).await.unwrap();
        assert_eq!((response.status, response.body.as_str()), (200, "{}"));
        assert_eq!(response.content_type.as_deref(), Some("application/json;charset=utf-8"));
        let arrived = stub.next();
        assert!(arrived.head.starts_with("POST /client/api HTTP/1.1\r\n"), "{}", arrived.head);
        let head = arrived.head.to_lowercase();
        assert!(head.contains("content-type: application/x-www-form-urlencoded\r\n"), "{head}");
        assert_eq!(decoded(&arrived.body), sent.params);
    }

    #[tokio::test]
    async fn a_query_arrives_as_it_was_signed() {
        let stub = Stub::start(|_| answer(200, "{}"));
        let sent = request(Method::Get);
        transport(&stub.url).send(sent.clone()).await.unwrap();
        let arrived = stub.next();
        let target = arrived.head.split(' ').nth(1).unwrap().to_owned();
        let (path, query) = target.split_once('?').unwrap();
        assert_eq!((path, arrived.body.as_str()), ("/client/api", ""));
        assert_eq!(decoded(query), sent.params);
    }

    #[tokio::test]
    async fn a_redirect_is_refused_and_nothing_is_sent_on() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        other.set_nonblocking(true).unwrap();
        let host = other.local_addr().unwrap();
        let elsewhere = format!("http://{host}/client/api");
        for (location, shown) in [
            (format!("{elsewhere}?apiKey=AKtest-01_x#x"), elsewhere.clone()),
            (format!("http://u:p4ss@{host}/a;jsessionid=s3ssion/b"), format!("http://{host}/a;")),
            (format!("//{host}/{}", "x".repeat(500)), "x…;".to_owned()),
            ("/client/api/?apiKey=AKtest-01_x".to_owned(), "/client/api/;".to_owned()),
            ("http://[".to_owned(), "points to nowhere".to_owned()),
        ] {
            for status in [301, 302, 303, 307, 308] {
                let location = location.clone();
                let stub = Stub::start(move |_| {
                    format!(
                        "HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
                    )
                });
                for method in [Method::Post, Method::Get] {
                    let error = transport(&stub.url).send(request(method)).await.unwrap_err();
                    assert_eq!(error.kind, TransportErrorKind::Redirect);
                    for word in [&shown, "keys and signature were not sent", "set api-url"] {
                        assert!(error.text.contains(word), "{word}: {error}");
                    }
                    for secret in ["AKtest", "p4ss", "s3ssion"] {
                        assert!(!error.text.contains(secret), "{error}");
                    }
                    stub.next();
                }
                assert!(stub.is_idle(), "one request each");
            }
        }
        let nobody = other.accept().map(drop).unwrap_err();
        assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock, "somebody connected");
    }

    /// Sends what `first` says at once, then `again` byte by byte, one a second, for ever.
    async fn drip(first: &str, again: &'static str) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/client/api", listener.local_addr().unwrap());
        let first = first.to_owned();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !String::from_utf8_lossy(&request).contains("PQaV8") {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0);
            }
            let mut bytes = again.bytes().cycle();
            stream.write_all(first.as_bytes()).await.unwrap();
            while let Some(byte) = bytes.next()
                && stream.write_all(&[byte]).await.is_ok()
            {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        url
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_drips_has_the_same_time_as_one_that_does_not() {
        let head = "HTTP/1.1 200 OK\r\n";
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
        for (what, first, again) in [
            ("a body", format!("{head}Content-Length: 5000\r\n\r\n"), " "),
            ("a body without length", format!("{head}\r\n"), " "),
            ("chunks", chunked.clone(), "1\r\n \r\n"),
            ("the size of a chunk", chunked, "0"),
            ("a header", head.to_owned(), "x"),
            ("headers", head.to_owned(), "a: b\r\n"),
            ("a status line", String::new(), "HTTP/1.1 200 OK"),
            ("provisional answers", String::new(), "HTTP/1.1 103 Early Hints\r\n\r\n"),
        ] {
            let limit = Duration::from_mins(1);
            let options = HttpOptions {
                system_proxy: false,
                request_timeout: limit,
                ..HttpOptions::new(drip(&first, again).await)
            };
            let start = tokio::time::Instant::now();
            let error = HttpTransport::new(&options).unwrap().send(request(Method::Post)).await;
            let error = error.expect_err(what);
            assert!(start.elapsed() < limit + Duration::from_secs(1), "{what}: {error}");
            // The chunk size may be found out to be too large before.
            if what == "the size of a chunk" || what == "a status line" {
                continue;
            }
            assert_eq!(
                (error.kind, error.sent),
                (TransportErrorKind::Timeout, true),
                "{what}: {error}"
            );
            assert!(error.text.contains("60s (request-timeout)"), "{what}: {error}");
        }
    }

    #[tokio::test]
    async fn an_answer_is_read_up_to_a_limit_and_not_begun_if_it_says_to_be_larger() {
        let most = Stub::start(|_| answer(200, &"x".repeat(10_000)));
        let read = transport(&most.url).send(request(Method::Post)).await.unwrap();
        assert_eq!(read.body.len(), 10_000);
        let announced = Stub::start(|_| {
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999\r\n\r\n".to_owned()
        });
        let endless = Stub::start(|_| {
            let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
            let chunks = chunk.repeat(1000);
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
        });
        for stub in [announced, endless] {
            let error = transport(&stub.url).send(request(Method::Post)).await.unwrap_err();
            assert_eq!((error.kind, error.sent), (TransportErrorKind::TooLarge, true));
            for word in ["larger than 10000 bytes", "check that api-url"] {
                assert!(error.text.contains(word), "{error}");
            }
        }
        let head = Stub::start(|_| {
            let header = format!("x: {}\r\n", "y".repeat(500));
            format!("HTTP/1.1 200 OK\r\n{}\r\n", header.repeat(2000))
        });
        let error = transport(&head.url).send(request(Method::Post)).await.unwrap_err();
        assert_eq!((error.kind, error.sent), (TransportErrorKind::Broken, true), "{error}");
        assert!(error.text.contains("head is too large"), "{error}");
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_replaced() {
        let stub = Stub::start_with_bytes(|_| {
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\"\xff\xc3\"".to_vec()
        });
        let read = transport(&stub.url).send(request(Method::Post)).await.unwrap();
        assert_eq!(read.body, "\"\u{fffd}\u{fffd}\"");
    }

    #[tokio::test]
    async fn failures_say_whether_the_request_may_have_arrived() {
        let cut = Stub::start(|_| {
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"listzonesresponse\":".to_owned()
        });
        let silent = Stub::start(|_| String::new());
        let slow = Stub::start(|_| {
            std::thread::sleep(Duration::from_secs(1));
            answer(200, "{}")
        });
        let large = Stub::start(|_| answer(200, &"x".repeat(20_000)));
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            format!("http://{}/client/api", listener.local_addr().unwrap())
        };
        let not_tls = plain_text().replace("http://", "https://");
        for (url, kind, sent) in [
            (&cut.url, TransportErrorKind::Broken, true),
            (&silent.url, TransportErrorKind::Broken, true),
            (&slow.url, TransportErrorKind::Timeout, true),
            (&large.url, TransportErrorKind::TooLarge, true),
            (&closed, TransportErrorKind::Connect, false),
            (&not_tls, TransportErrorKind::Tls, false),
        ] {
            for method in [Method::Post, Method::Get] {
                let error = transport(url).send(request(method)).await.unwrap_err();
                assert_eq!((error.kind, error.sent), (kind, sent), "{error}");
                let text = format!("{error} {error:?}");
                assert!(text.contains("127.0.0.1"), "{text}");
                for secret in ["AKtest", "PQaV8", "client/api", "createTags"] {
                    assert!(!text.contains(secret), "{text}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_timeout_is_kept() {
        let slow = Stub::start(|_| {
            std::thread::sleep(Duration::from_secs(2));
            answer(200, "{}")
        });
        let start = Instant::now();
        let _ = transport(&slow.url).send(request(Method::Post)).await;
        assert!(start.elapsed() < Duration::from_millis(1500));
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        for url in [
            "",
            "cloud.example",
            "ftp://cloud.example/client/api",
            "https://user:pass@cloud.example/client/api",
            "https://cloud.example/client/api?apiKey=x",
        ] {
            let error = HttpTransport::new(&options(url)).unwrap_err();
            assert!(matches!(error, TransportConfigError::Url), "{url}");
        }
        let certificates = HttpOptions {
            extra_certificates: Some(b"-----BEGIN CERTIFICATE-----\nno\n".to_vec()),
            ..options("https://cloud.example/client/api")
        };
        assert!(HttpTransport::new(&certificates).is_err());
        assert!(HttpTransport::new(&options(" https://cloud.example:8443/client/api ")).is_ok());
    }

    #[tokio::test]
    async fn the_client_works_over_the_wire() {
        let stub = Stub::start(|request| {
            let params = decoded(&request.body);
            let value = |name: &str| {
                let found = params.iter().find(|(key, _)| key == name);
                found.map_or_else(String::new, |(_, value)| value.clone())
            };
            let unsigned: Vec<_> =
                params.iter().filter(|(name, _)| name != "signature").cloned().collect();
            if signature(&unsigned, "SKsecret_42") != value("signature") {
                let text = "unable to verify user credentials and/or request signature";
                let body = format!("{{\"x\":{{\"errorcode\":401,\"errortext\":\"{text}\"}}}}");
                return answer(401, &body);
            }
            match value("command").as_str() {
                "listCapabilities" => {
                    answer(200, r#"{"x":{"capability":{"cloudstackversion":"4.22.0.0"}}}"#)
                }
                _ => answer(200, r#"{"x":{}}"#),
            }
        });
        let client = |secret: &str| {
            Client::new(
                transport(&stub.url),
                TokioRuntime,
                Credentials::new("AKtest-01_x", secret),
                Options::default(),
            )
        };
        let state = client("SKsecret_42").observe(&Scope::default()).await.unwrap();
        assert_eq!(state.capabilities.version, Some(Version::new(4, 22, 0)));
        let error = client("SKsecret_43").observe(&Scope::default()).await.unwrap_err();
        assert_eq!((error.fault, error.effect), (Fault::Permission, Effect::No));
    }

    proptest! {
        /// What a server decodes is what was signed, whatever the value.
        #[test]
        fn every_value_survives_the_encoding(values in prop::collection::vec(any::<String>(), 0..6)) {
            let numbered = values.into_iter().enumerate();
            let params: Vec<_> =
                numbered.map(|(index, value)| (format!("tags[{index}].value"), value)).collect();
            let request = WireRequest { method: Method::Post, params };
            let arrived = decoded(&request.encoded());
            prop_assert_eq!(signature(&arrived, "SK"), signature(&request.params, "SK"));
            prop_assert_eq!(arrived, request.params);
        }
    }
}

#[cfg(test)]
mod garbage {
    //! Whatever a server answers, the client gives a result or an error: no panic, no endless wait.

    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use ccm_cloudstack::{
        Client, Credentials, Options, Runtime, Transport, TransportError, WireRequest, WireResponse,
    };
    use ccm_core::ids::{JobId, LoadBalancerRuleId, PublicIpId};
    use ccm_core::observe::scope::Scope;
    use ccm_core::plan::action::{Call, DeleteLoadBalancerRule, DisassociateIpAddress};
    use jiff::Timestamp;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    /// Keys that the decoders look at.
    const KEYS: [&str; 30] = [
        "id",
        "jobid",
        "jobstatus",
        "jobresult",
        "jobresultcode",
        "jobinstanceid",
        "errorcode",
        "errortext",
        "count",
        "virtualmachine",
        "network",
        "vpc",
        "publicipaddress",
        "loadbalancerrule",
        "firewallrule",
        "networkacl",
        "networkacllist",
        "capability",
        "nic",
        "service",
        "name",
        "state",
        "ipaddress",
        "publicport",
        "privateport",
        "cidrlist",
        "vpcid",
        "networkid",
        "publicipid",
        "loadbalancerruleinstance",
    ];

    /// Texts that mean something somewhere.
    const TEXTS: [&str; 12] = [
        "Allocated",
        "Active",
        "203.0.113.7",
        "2001:db8::1",
        "80",
        "10.0.0.0/8",
        "4.22.0.0",
        "Unable to find x",
        "page size 0",
        "please retry after [99999999999999999999] ms",
        "",
        "é\u{0}",
    ];

    /// A clock that jumps to where somebody waits for.
    #[derive(Clone, Default)]
    struct Jumping(Arc<Mutex<Timestamp>>);

    impl Runtime for Jumping {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }

        async fn sleep_until(&self, at: Timestamp) {
            let mut now = self.0.lock().unwrap();
            *now = at.max(*now);
        }

        fn fresh_uuid(&self) -> String {
            "00000000-0000-4000-8000-000000000001".to_owned()
        }
    }

    /// Gives its answers in turn, again and again.
    struct Cycling(Vec<(u16, String)>, Mutex<usize>);

    impl Transport for Cycling {
        async fn send(&self, _: WireRequest) -> Result<WireResponse, TransportError> {
            let mut next = self.1.lock().unwrap();
            *next += 1;
            assert!(*next < 50_000, "it never stops asking");
            let (status, body) = self.0[*next % self.0.len()].clone();
            Ok(WireResponse { status, content_type: None, body })
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (0..4_u64).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop::sample::select(TEXTS.to_vec()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), object(inner)]
        })
    }

    fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        let entry = (prop::sample::select(KEYS.to_vec()), inner);
        vec(entry, 0..8).prop_map(|entries| {
            let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value));
            Value::Object(entries.collect::<Map<_, _>>())
        })
    }

    fn answer() -> impl Strategy<Value = (u16, String)> {
        let statuses = vec![200, 200, 200, 401, 404, 405, 414, 429, 431, 432, 500, 502, 530, 537];
        let body = prop_oneof![
            4 => object(value()).prop_map(|inner| json!({"x": inner}).to_string()),
            1 => value().prop_map(|value| value.to_string()),
            1 => any::<String>(),
            1 => Just("<a cloud-stack-version=\"4\"><errorcode>429</errorcode>".to_owned()),
        ];
        (prop::sample::select(statuses), body)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_answer_gives_a_result_or_an_error(answers in vec(answer(), 1..6)) {
            let transport = Cycling(answers, Mutex::new(0));
            let options = Options { job_patience: Duration::from_mins(1), ..Options::default() };
            let credentials = Credentials::new("AKtest-01_x", "SKsecret_42");
            let client = Client::new(transport, Jumping::default(), credentials, options);
            let rule = LoadBalancerRuleId::parse("r1").unwrap();
            let address = PublicIpId::parse("a1").unwrap();
            let scope = Scope {
                jobs: BTreeSet::from([JobId::parse("j1").unwrap()]),
                address_ids: BTreeSet::from([address.clone()]),
                ..Scope::default()
            };
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let _ = client.observe(&scope).await;
                let _ = client.members(&BTreeSet::from([rule.clone()])).await;
                let delete = DeleteLoadBalancerRule { rule };
                let _ = client.call(&Call::DeleteLoadBalancerRule(delete)).await;
                let release = DisassociateIpAddress { address };
                let _ = client.call(&Call::DisassociateIpAddress(release)).await;
            });
        }
    }
}

#[cfg(test)]
mod stub {
    //! An HTTP server that answers each connection once, by a function.

    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Duration;

    /// What arrived.
    #[derive(Clone, Debug)]
    pub(crate) struct Arrived {
        pub(crate) head: String,
        pub(crate) body: String,
    }

    pub(crate) struct Stub {
        pub(crate) url: String,
        arrived: Receiver<Arrived>,
    }

    impl Stub {
        /// Starts on a free port. The text of `answer` goes out as it is; then the connection is
        /// closed.
        pub(crate) fn start(answer: impl Fn(&Arrived) -> String + Send + Sync + 'static) -> Self {
            Self::start_with_bytes(move |arrived| answer(arrived).into_bytes())
        }

        /// As [`Stub::start`], for what is no text.
        pub(crate) fn start_with_bytes(
            answer: impl Fn(&Arrived) -> Vec<u8> + Send + Sync + 'static,
        ) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/client/api", listener.local_addr().unwrap());
            let (sender, arrived) = channel();
            let answer = Arc::new(answer);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let (answer, sender) = (Arc::clone(&answer), sender.clone());
                    thread::spawn(move || serve(stream.unwrap(), &*answer, &sender));
                }
            });
            Self { url, arrived }
        }

        pub(crate) fn next(&self) -> Arrived {
            self.arrived.recv_timeout(Duration::from_secs(5)).unwrap()
        }

        pub(crate) fn is_idle(&self) -> bool {
            self.arrived.try_recv().is_err()
        }
    }

    /// The address of a server that answers to anything at once, a TLS handshake included.
    pub(crate) fn plain_text() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/client/api", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        });
        url
    }

    fn serve(
        mut stream: TcpStream,
        answer: &dyn Fn(&Arrived) -> Vec<u8>,
        arrived: &Sender<Arrived>,
    ) {
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let Ok(read @ 1..) = stream.read(&mut chunk) else {
                return;
            };
            bytes.extend_from_slice(&chunk[..read]);
            if let Some(request) = complete(&bytes) {
                let bytes = answer(&request);
                // Nobody listens any more at the end of a test.
                let _ = arrived.send(request);
                let _ = stream.write_all(&bytes);
                return;
            }
        }
    }

    fn complete(bytes: &[u8]) -> Option<Arrived> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let lower = head.to_lowercase();
        let length = lower.split("content-length: ").nth(1);
        let length = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
        (body.len() >= length)
            .then(|| Arrived { head: format!("{head}\r\n"), body: body.to_owned() })
    }

    /// A whole answer in JSON.
    pub(crate) fn answer(status: u16, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json;charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    }

    /// Takes a form or query apart, without the library that made it.
    pub(crate) fn decoded(form: &str) -> Vec<(String, String)> {
        let pairs = form.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap();
                (unescaped(name), unescaped(value))
            })
            .collect()
    }

    fn unescaped(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            });
        }
        String::from_utf8(bytes).unwrap()
    }
}
