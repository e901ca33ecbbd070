//! Proxies come from the environment.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, Stream};

use crate::harness::{Directory, Ran, command, fixture};
use crate::wire::{Peer, http};

const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Plans against an address that does not exist, with that environment and no other proxy.
fn plan(url: &str, environment: &[(&str, &str)]) -> Ran {
    plan_with(url, environment, "")
}

/// As [`plan`], with more lines in the cloud-config.
fn plan_with(url: &str, environment: &[(&str, &str)], more: &str) -> Ran {
    let directory = Directory::new();
    let config = directory.write(
        "cloud.conf",
        &format!(
            "[Global]\napi-url = {url}\napi-key = AKtest-0123\nsecret-key = SKsecret-4242\n\
             cluster-id = demo\nconnect-timeout = 2s\nrequest-timeout = 5s\n{more}"
        ),
    );
    let (services, nodes) = (fixture("demo/services"), fixture("demo/nodes"));
    let paths = ["--services", &services, "--nodes", &nodes, "--log-level", "trace"];
    let mut command = command(&[&["plan", "--cloud-config", &config], &paths[..]].concat());
    for name in PROXIES {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.envs(environment.iter().copied()).output().unwrap().into()
}

fn refusing() -> Peer {
    Peer::start(|_| Some(http("403 Forbidden", "", "not from here")))
}

#[test]
fn https_goes_through_a_tunnel_of_the_proxy() {
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        let proxy = refusing();
        let address = format!("http://user:PWproxy-42@{}", proxy.address());
        let ran = plan("https://cloud.invalid/client/api", &[(name, &address)]).exits(1);
        let received = proxy.received();
        assert!(!received.is_empty(), "{name}: {}", ran.stderr);
        for request in received {
            assert!(request.starts_with("CONNECT cloud.invalid:443 "), "{name}: {request}");
            assert!(!request.contains("AKtest"), "{name}: {request}");
        }
        for text in [ran.stdout, ran.stderr] {
            assert!(!text.contains("PWproxy-42") && !text.contains("AKtest"), "{name}: {text}");
        }
    }
}

#[test]
fn http_is_handed_to_the_proxy() {
    let proxy = refusing();
    let address = format!("http://{}", proxy.address());
    plan("http://cloud.invalid/client/api", &[("HTTP_PROXY", &address)]).exits(1);
    let received = proxy.received();
    let first = received.first().expect("a request");
    assert!(first.starts_with("POST http://cloud.invalid/client/api HTTP/1.1"), "{first}");
}

#[test]
fn what_no_proxy_names_and_loopback_are_reached_directly() {
    // The address is reserved for documentation: nobody answers there.
    for (host, exempt) in [
        ("cloud.invalid", "cloud.invalid"),
        ("cloud.invalid", "invalid"),
        ("cloud.invalid", "other.example, cloud.invalid"),
        ("cloud.invalid", "*"),
        ("192.0.2.1", "192.0.2.0/24"),
        ("192.0.2.1", "other.example, *"),
    ] {
        let proxy = refusing();
        let address = format!("http://{}", proxy.address());
        let environment = [("HTTPS_PROXY", address.as_str()), ("NO_PROXY", exempt)];
        let ran = plan(&format!("https://{host}/client/api"), &environment).exits(1);
        assert_eq!(proxy.received(), [""; 0], "{exempt}");
        assert!(ran.stderr.contains(host), "{exempt}: {}", ran.stderr);
    }
    let (proxy, server) = (refusing(), refusing());
    let address = format!("http://{}", proxy.address());
    let url = format!("http://{}/client/api", server.address());
    plan(&url, &[("HTTP_PROXY", &address), ("ALL_PROXY", &address)]).exits(1);
    assert_eq!(proxy.received(), [""; 0]);
    assert!(!server.received().is_empty());
}

/// `user:PWproxy-42`, as it travels.
const BASIC: &str = "dXNlcjpQV3Byb3h5LTQy";

fn assert_discreet(what: &str, ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        for secret in ["PWproxy-42", BASIC, "AKtest-0123", "SKsecret-4242", "kube-token-0123"] {
            assert!(!text.contains(secret), "{what}: {secret} is in\n{text}");
        }
    }
}

#[test]
fn a_proxy_that_fails_is_named_with_the_cause_and_without_its_password() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let answers: [(&str, Option<&str>, &str); 5] = [
        ("refuses", Some("403 Forbidden"), "it refuses"),
        ("wants a user", Some("407 Proxy Authentication Required"), "it wants a user"),
        ("hangs up", Some(""), "it hung up"),
        ("says nothing", None, "within 2s (connect-timeout)"),
        ("is not there", None, "refused"),
    ];
    for (what, status, cause) in answers {
        let silent = status.is_none();
        let peer = Peer::start(move |_| match status {
            Some("") => Some(String::new()),
            status => status.map(|status| http(status, "", "no")),
        });
        let host = if what == "is not there" { dead.clone() } else { peer.address() };
        let proxy = format!("http://user:PWproxy-42@{host}");
        let ran = plan("https://cloud.invalid/client/api", &[("HTTPS_PROXY", &proxy)]).exits(1);
        assert_discreet(what, &ran);
        for word in
            ["listCapabilities", "cloud.invalid", &format!("through the proxy {host}: "), cause]
        {
            assert!(ran.stderr.contains(word), "{what}: {word} is not in\n{}", ran.stderr);
        }
        if !silent {
            let received = peer.received().concat();
            assert!(received.contains(BASIC) && !received.contains("AKtest"), "{received}");
        }
    }
}

#[test]
fn a_proxy_that_can_not_be_used_is_not_gone_around() {
    for proxy in [
        "ftp://user:PWproxy-42@127.0.0.1:9",
        "socks5://user:PWproxy-42@127.0.0.1:9",
        "http://user:PWproxy-42@host name",
        "://user:PWproxy-42",
    ] {
        for name in ["HTTPS_PROXY", "all_proxy"] {
            let ran = plan("https://cloud.invalid/client/api", &[(name, proxy)]).exits(1);
            assert_discreet(proxy, &ran);
            let told = format!("environment variable {name} holds no proxy");
            assert!(ran.stderr.contains(&told), "{proxy}: {}", ran.stderr);
            let excepted = [(name, proxy), ("NO_PROXY", "cloud.invalid")];
            let ran = plan("https://cloud.invalid/client/api", &excepted).exits(1);
            assert!(!ran.stderr.contains("holds no proxy"), "{proxy}: {}", ran.stderr);
        }
    }
}

/// A server for `cloud.invalid` that refuses every key; its port, and its certificate.
fn https_server() -> (u16, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["cloud.invalid".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut tls = Stream::new(&mut connection, &mut stream);
            if tls.read(&mut [0; 4096]).is_ok() {
                let refusal = r#"{"x":{"errorcode":401,"errortext":"not you"}}"#;
                let _ = tls.write_all(http("401 Unauthorized", "", refusal).as_bytes());
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        }
    });
    (port, cert.pem())
}

#[test]
fn through_a_tunnel_the_proxy_sees_its_own_password_and_no_key() {
    let (port, certificate) = https_server();
    let directory = Directory::new();
    let ca_file = directory.write("ca.pem", &certificate);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://user:PWproxy-42@{}", listener.local_addr().unwrap());
    let (sender, seen) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut client, sender) = (stream.unwrap(), sender.clone());
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|read| read > 0)
            {
                head.extend(byte);
            }
            sender.send(String::from_utf8_lossy(&head).into_owned()).unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            thread::spawn(move || {
                let _ = io::copy(&mut server, &mut client);
                let _ = client.shutdown(Shutdown::Write);
            });
        }
    });
    let environment = [("HTTPS_PROXY", proxy.as_str())];
    let ca = format!("ca-file = {ca_file}\n");
    let ran = plan_with("https://cloud.invalid/client/api", &environment, &ca).exits(1);
    assert_discreet("tunnel", &ran);
    assert!(ran.stderr.contains("refused with 401: not you"), "{}", ran.stderr);
    let head = seen.try_recv().expect("a tunnel");
    assert!(head.starts_with("CONNECT cloud.invalid:443 HTTP/1.1\r\n"), "{head}");
    assert!(
        head.to_lowercase().contains("proxy-authorization: basic ") && head.contains(BASIC),
        "{head}"
    );
    assert!(!head.contains("AKtest"), "{head}");
}

const KUBECONFIG: &str = r#"{
  "apiVersion": "v1", "kind": "Config", "current-context": "c",
  "clusters": [{"name": "c", "cluster": {"server": "https://cluster.invalid:6443"}}],
  "users": [{"name": "u", "user": {"token": "kube-token-0123"}}],
  "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
}"#;

#[test]
fn the_proxy_of_the_api_server_keeps_its_password_and_its_exceptions() {
    let directory = Directory::new();
    let config = directory.write(
        "cloud.conf",
        "[Global]\napi-url = http://127.0.0.1:9/client/api\napi-key = AKtest-0123\n\
         secret-key = SKsecret-4242\n",
    );
    let kubeconfig = directory.write("kubeconfig", KUBECONFIG);
    let plan = |environment: &[(&str, &str)]| -> Ran {
        let paths = ["plan", "--cloud-config", &config, "--kubeconfig", &kubeconfig];
        let mut command = command(&[&paths[..], &["--log-level", "trace"]].concat());
        let ran: Ran = command.envs(environment.iter().copied()).output().unwrap().into();
        ran.exits(1)
    };
    for proxy in ["socks5://user:PWproxy-42@127.0.0.1:9", "user:PWproxy-42@127.0.0.1:9"] {
        let ran = plan(&[("HTTPS_PROXY", proxy)]);
        assert_discreet(proxy, &ran);
        assert!(ran.stderr.contains("the proxy 127.0.0.1:9, which is none"), "{}", ran.stderr);
    }
    let proxy = refusing();
    let address = format!("http://user:PWproxy-42@{}", proxy.address());
    let ran = plan(&[("HTTPS_PROXY", &address), ("NO_PROXY", "cluster.invalid")]);
    assert_eq!(proxy.received(), [""; 0], "{}", ran.stderr);
    let ran = plan(&[("HTTPS_PROXY", &address), ("NO_PROXY", "127.0.0.1")]);
    assert_discreet("refusing", &ran);
    assert!(proxy.received().concat().contains("CONNECT cluster.invalid:6443 "), "{}", ran.stderr);
}
