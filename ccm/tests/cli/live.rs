//! A live cluster, as far as lists tell it; a real API server is met in tests/e2e.

use serde_json::{Value, json};

use crate::harness::{Ran, Served, run};
use crate::wire::{Peer, http};

fn service(name: &str, number: u32) -> Value {
    let uid = format!("00000000-0000-4000-8000-{number:012}");
    json!({
        "metadata": { "namespace": "shop", "name": name, "uid": uid },
        "spec": {
            "type": "LoadBalancer",
            "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" }],
        },
    })
}

fn node(name: &str) -> Value {
    let ready = json!({ "type": "Ready", "status": "True" });
    json!({ "metadata": { "name": name }, "status": { "conditions": [ready] } })
}

/// A page of a list; `more` is the token of the next one.
fn page(items: &[Value], more: &str) -> String {
    let list = json!({ "metadata": { "continue": more }, "items": items });
    http("200 OK", "Content-Type: application/json\r\n", &list.to_string())
}

fn refusal(code: u16, message: &str) -> String {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "code": code, "message": message, "reason": "Expired" });
    http(&format!("{code} No"), "Content-Type: application/json\r\n", &status.to_string())
}

fn plan(served: &Served, api_server: &Peer) -> Ran {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{ "name": "x",
            "cluster": { "server": format!("http://{}", api_server.address()) } }],
        "users": [{ "name": "x", "user": {} }],
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
    });
    let kubeconfig = served.directory.write("kubeconfig", &kubeconfig.to_string());
    let whom = ["--cloud-config", &served.config, "--kubeconfig", &kubeconfig];
    run(&[&["plan", "--detailed-exitcode"], &whom[..]].concat())
}

#[test]
fn lists_are_read_to_their_last_page() {
    let served = Served::start();
    let api_server = Peer::start(|request| {
        let first = request.lines().next().unwrap_or_default();
        Some(match (first.contains("/services?"), first.contains("continue=")) {
            (true, false) => page(&[service("first", 1)], "more"),
            (true, true) => page(&[service("last", 2)], ""),
            (false, false) => page(&[node("node-1")], "more"),
            (false, true) => page(&[node("node-2")], ""),
        })
    });
    let ran = plan(&served, &api_server).exits(2);
    for text in ["shop/first", "shop/last", "+ node-1 + node-2"] {
        assert!(ran.stdout.contains(text), "{text} is not in:\n{}", ran.stdout);
    }
    let asked = api_server.received();
    let asked: Vec<&str> = asked.iter().filter_map(|request| request.lines().next()).collect();
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(asked.iter().all(|line| line.starts_with("GET ") && line.contains("limit=500")));
    assert!(asked.iter().all(|line| !line.contains("watch=")), "{asked:?}");
}

#[test]
fn a_part_of_a_list_is_no_list() {
    let served = Served::start();
    let api_server = Peer::start(|request| {
        let rest = request.lines().next().is_some_and(|line| line.contains("continue="));
        let old = "the provided continue parameter is too old";
        Some(if rest { refusal(410, old) } else { page(&[service("first", 1)], "more") })
    });
    plan(&served, &api_server).fails_with(&[
        "does not answer as it should",
        "list services",
        "too old",
    ]);
}
