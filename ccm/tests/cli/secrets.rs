//! Key, secret and signature are in no text and no file, at any log level (C088).

use crate::harness::{Directory, Ran, Served, fixture, run};
use crate::wire::{Peer, http};

const SECRETS: [&str; 2] = ["demo-api-key", "demo-secret-key"];

#[test]
fn c088_no_key_and_no_signature_in_any_text() {
    let served = Served::start_with("{default: 0s}", &["--log-level", "trace"]);
    let trace = ["--log-level", "trace"];
    let plan = served.directory.path("plan.json");
    let snapshot = served.directory.path("snapshot.json");
    let (services, nodes) = (fixture("demo/services"), fixture("demo/nodes"));
    let sources = ["--services", &services, "--nodes", &nodes, "--out", &snapshot];
    let take = [&["snapshot", "--cloud-config", &served.config], &sources[..], &trace].concat();
    let runs = [
        ("plan", served.plan(&[&["--out", &plan], &trace[..]].concat()).exits(2)),
        ("snapshot", run(&take).exits(0)),
        ("apply", served.apply(&plan, &trace).exits(0)),
        ("apply again", served.apply(&plan, &trace).exits(4)),
        ("wrong key", {
            let text = std::fs::read_to_string(&served.config).unwrap();
            let wrong = served
                .directory
                .write("wrong.conf", &text.replace("demo-secret-key", "demo-secret-kez"));
            let ran = run(&[&["apply", &plan, "--cloud-config", &wrong], &trace[..]].concat());
            ran.exits(1)
        }),
    ];
    let mut texts: Vec<(String, String)> = Vec::new();
    for (name, ran) in runs {
        assert!(ran.stderr.contains("TRACE"), "{name} logs at level trace");
        texts.push((format!("stdout of {name}"), ran.stdout));
        texts.push((format!("stderr of {name}"), ran.stderr));
    }
    let files = served.directory.files().into_iter();
    texts.extend(files.filter(|(name, _)| {
        // These two are where the keys belong.
        !name.contains(".conf") && name != "world.yaml"
    }));
    assert!(texts.len() >= 12, "{}", texts.len());
    for (name, text) in texts {
        for secret in SECRETS.iter().chain(&["demo-secret-kez", "client/api?"]) {
            assert!(!text.contains(secret), "{secret} is in {name}");
        }
        for rest in text.split("signature=").skip(1) {
            assert!(rest.starts_with("\"[removed]\""), "a signature is in {name}");
        }
    }
}

/// A kubeconfig with `"cluster"` and `"user"` as given.
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        r#"{{"clusters": [{{"name": "c", "cluster": {{"server": "https://127.0.0.1:9"{cluster}}}}}],
  "users": [{{"name": "u", "user": {{{user}}}}}],
  "contexts": [{{"name": "x", "context": {{"cluster": "c", "user": "u"}}}}],
  "current-context": "x"}}"#
    )
}

#[test]
fn c088_nothing_secret_of_a_kubeconfig_is_repeated() {
    let directory = Directory::new();
    let config = "[Global]\napi-url = http://127.0.0.1:9/client/api\napi-key = k\nsecret-key = s\n";
    let config = directory.write("cloud.conf", config);
    let plugin = r#""exec": {"apiVersion": "client.authentication.k8s.io/v1",
        "command": "echo", "args": ["kube-token-0123"], "interactiveMode": "Never"}"#;
    let proxy = r#", "proxy-url": "ftp://me:kube-token-0123@127.0.0.1:21""#;
    for (text, told) in [
        (kubeconfig("", r#""token": ["kube-token-0123"]"#), "expected string scalar"),
        (kubeconfig("", plugin), "printed no ExecCredential"),
        (kubeconfig(proxy, ""), "proxy 127.0.0.1:21"),
    ] {
        let kubeconfig = directory.write("kubeconfig", &text);
        let whom = ["plan", "--cloud-config", &config, "--kubeconfig", &kubeconfig];
        let ran = run(&[&whom[..], &["--log-level", "trace"]].concat()).exits(1);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        for text in [&ran.stdout, &ran.stderr] {
            assert!(!text.contains("kube-token-0123"), "{text}");
        }
    }
}

const KEY: &str = "AKtest-0123";
const SECRET: &str = "SKsecret-4242";

/// Plans against a URL with every log level on; it fails.
fn fail_at(url: &str) -> Ran {
    let directory = Directory::new();
    let config = format!(
        "[Global]\napi-url = {url}\napi-key = {KEY}\nsecret-key = {SECRET}\ncluster-id = demo\n\
         connect-timeout = 2s\nrequest-timeout = 1s\nget-if-post-refused = on\n"
    );
    let config = directory.write("cloud.conf", &config);
    let (services, nodes) = (fixture("demo/services"), fixture("demo/nodes"));
    let paths = ["--services", &services, "--nodes", &nodes, "--log-level", "trace"];
    run(&[&["plan", "--cloud-config", &config], &paths[..]].concat()).exits(1)
}

/// Values of `signature` in what a server was sent, as sent and decoded.
fn signatures(received: &[String]) -> Vec<String> {
    let sent = received.iter().flat_map(|request| request.split("signature=").skip(1));
    let sent = sent.map(|rest| rest.split(['&', ' ']).next().unwrap_or_default().to_owned());
    let decoded = |text: String| {
        let plain = text.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
        [text, plain]
    };
    sent.flat_map(decoded).collect()
}

fn assert_discreet(what: &str, ran: &Ran, received: &[String]) {
    for text in [&ran.stdout, &ran.stderr] {
        for secret in [KEY, SECRET, "client/api?"] {
            assert!(!text.contains(secret), "{what}: {secret} is in\n{text}");
        }
        for signature in signatures(received) {
            assert!(!text.contains(&signature), "{what}: a signature is in\n{text}");
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

type Answer = Box<dyn Fn(&str) -> Option<String> + Send>;

#[test]
fn c088_an_error_names_command_host_and_cause_and_no_secret() {
    let elsewhere = Peer::start(|_| Some(http("200 OK", "", "{}")));
    let location = format!("Location: http://{}/client/api?stolen=yes\r\n", elsewhere.address());
    let echo = |status: &'static str| -> Answer {
        Box::new(move |request| Some(http(status, "", request)))
    };
    let echo_in_redirect = |request: &str| {
        let body = request.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
        let signature = body.split("signature=").nth(1).unwrap_or_default();
        let location = format!("Location: /{KEY}/{signature}/x?{body}\r\n");
        Some(http("307 Temporary Redirect", &location, request))
    };
    let answers: [(&str, &str, Answer); 10] = [
        ("redirect with echo", "points to", Box::new(echo_in_redirect)),
        ("nesting", "nested more than 128 levels", {
            Box::new(|request| {
                Some(http("200 OK", "", &format!("{}{request}", "{\"a\":".repeat(200))))
            })
        }),
        ("cut", "broken JSON", {
            Box::new(|request| {
                Some(http("200 OK", "", &format!("{{\"x\": \"{}", one_line(request))))
            })
        }),
        ("too large", "larger than 16 MiB", {
            Box::new(|request| {
                let headers = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999";
                Some(format!("{headers}\r\n\r\n{request}"))
            })
        }),
        ("no HTTP", "not HTTP", Box::new(|request| Some(format!("{request}\r\n\r\n")))),
        ("redirect", "points to", {
            Box::new(move |_| Some(http("302 Found", &location, "elsewhere")))
        }),
        ("unauthorized", "401", echo("401 Unauthorized")),
        ("garbage", "a JSON object was expected", echo("200 OK")),
        ("method refused", "405", {
            Box::new(|_| Some(http("405 Method Not Allowed", "", "neither POST nor GET")))
        }),
        ("timeout", "in time", Box::new(|_| None)),
    ];
    for (what, cause, answer) in answers {
        let server = Peer::start(answer);
        let ran = fail_at(&format!("http://{}/client/api", server.address()));
        let received = server.received();
        assert!(!signatures(&received).is_empty(), "{what}: nothing signed was sent");
        assert_discreet(what, &ran, &received);
        let error = ran.stderr.lines().rev().take(6).collect::<Vec<_>>().join("\n");
        assert!(error.contains("listCapabilities"), "{what}: {error}");
        assert!(ran.stderr.contains(cause), "{what}: {}", ran.stderr);
    }
    assert_eq!(elsewhere.received(), [""; 0], "a redirect is not followed");
}

#[test]
fn c088_a_connection_that_fails_says_where_and_why_and_no_secret() {
    let no_tls = Peer::start(|_| Some("this is no TLS".to_owned()));
    for (what, url, cause) in [
        ("refused", "http://127.0.0.1:9/client/api".to_owned(), "no connection to 127.0.0.1:9"),
        ("TLS", format!("https://{}/client/api", no_tls.address()), "TLS with 127.0.0.1"),
    ] {
        let ran = fail_at(&url);
        assert_discreet(what, &ran, &[]);
        for word in ["listCapabilities", cause] {
            assert!(ran.stderr.contains(word), "{what}: {word} is not in\n{}", ran.stderr);
        }
    }
}
