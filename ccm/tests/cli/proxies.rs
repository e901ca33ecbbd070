//! Proxies come from the environment.

use crate::harness::{Directory, Ran, command, fixture};
use crate::wire::{Peer, http};

const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Plans against an address that does not exist, with that environment and no other proxy.
fn plan(url: &str, environment: &[(&str, &str)]) -> Ran {
    let directory = Directory::new();
    let config = directory.write(
        "cloud.conf",
        &format!(
            "[Global]\napi-url = {url}\napi-key = AKtest-0123\nsecret-key = SKsecret-4242\n\
             cluster-id = demo\nconnect-timeout = 2s\nrequest-timeout = 5s\n"
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
    for exempt in ["cloud.invalid", "invalid", "other.example, cloud.invalid", "*"] {
        let proxy = refusing();
        let address = format!("http://{}", proxy.address());
        let environment = [("HTTPS_PROXY", address.as_str()), ("NO_PROXY", exempt)];
        let ran = plan("https://cloud.invalid/client/api", &environment).exits(1);
        assert_eq!(proxy.received(), [""; 0], "{exempt}");
        assert!(ran.stderr.contains("cloud.invalid"), "{exempt}: {}", ran.stderr);
    }
    let (proxy, server) = (refusing(), refusing());
    let address = format!("http://{}", proxy.address());
    let url = format!("http://{}/client/api", server.address());
    plan(&url, &[("HTTP_PROXY", &address), ("ALL_PROXY", &address)]).exits(1);
    assert_eq!(proxy.received(), [""; 0]);
    assert!(!server.received().is_empty());
}
