//! Plans from snapshots, with no network, and from pseudonymised ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::harness::{Served, fixture, run};

fn snapshot(served: &Served, services: &str, name: &str, more: &[&str]) -> String {
    let out = served.directory.path(name);
    let nodes = fixture("demo/nodes");
    let fixed = ["snapshot", "--cloud-config", &served.config, "--services", services];
    run(&[&fixed[..], &["--nodes", &nodes, "--out", &out], more].concat()).exits(0);
    out
}

fn document(from: &str) -> Value {
    let ran = run(&["plan", "--from", from, "--output", "json"]).exits(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// What must be equal under pseudonyms: steps with their commands, order and codes, and counts.
fn shape(document: &Value) -> BTreeMap<&'static str, Vec<String>> {
    let list = |name: &str| document[name].as_array().unwrap().clone();
    let steps = list("steps").into_iter().map(|step| {
        format!(
            "{} {} {} {}",
            step["id"], step["call"]["name"], step["after"], step["reason"]["code"]
        )
    });
    let changes = list("changes").into_iter().map(|change| {
        format!("{} {} {}", change["object"], change["operation"], change["disruption"])
    });
    let notes = list("notes").into_iter().map(|note| note["code"].to_string());
    BTreeMap::from([
        ("steps", steps.collect()),
        ("changes", changes.collect()),
        ("notes", notes.collect()),
        ("summary", vec![document["summary"].to_string()]),
    ])
}

#[test]
fn a_snapshot_leads_to_the_same_plan_without_a_network() {
    let mut served = Served::start();
    let file = snapshot(&served, &fixture("demo/services"), "snapshot.json", &[]);
    let live = served.plan(&["--output", "json"]).exits(2);
    served.stop();
    let live: Value = serde_json::from_str(&live.stdout).unwrap();
    let offline = document(&file);
    assert_eq!(live["steps"].as_array().unwrap().len(), offline["steps"].as_array().unwrap().len());
    assert_eq!(shape(&live), shape(&offline));
    run(&["plan", "--from", &file, "--detailed-exitcode"]).exits(2);
    run(&["plan", "--from", &file, "--services", "x"]).fails_with(&["cannot be used with"]);
    run(&["plan", "--from", &file, "--udp-on-router", "try"])
        .fails_with(&["settings by flag have no effect on a snapshot"]);
}

#[test]
fn a_plan_of_a_snapshot_can_be_saved_and_applied() {
    let served = Served::start();
    let file = snapshot(&served, &fixture("demo/services"), "snapshot.json", &[]);
    let plan = served.directory.path("plan.json");
    run(&["plan", "--from", &file, "--out", &plan]).exits(0);
    served.apply(&plan, &[]).exits(0);
    served.plan(&[]).exits(0);
    served.apply(&plan, &[]).exits(4);
}

#[test]
fn pseudonyms_change_no_plan_and_hide_every_name() {
    let served = Served::start();
    let file = served.directory.path("plan.json");
    served.plan(&["--out", &file]).exits(2);
    let fresh = snapshot(&served, &fixture("demo/services"), "fresh.json", &["--pseudonymise"]);
    let plain = snapshot(&served, &fixture("demo/services"), "plain.json", &[]);
    assert_eq!(shape(&document(&plain)), shape(&document(&fresh)));

    // Once more with rules, firewall rules and ACL items there, and something to change.
    served.apply(&file, &[]).exits(0);
    let changed = std::fs::read_to_string(fixture("demo/services/web.yaml")).unwrap();
    let changed = changed.replace("198.51.100.0/24", "198.51.100.0/25,192.0.2.0/24");
    let services = served.directory.write("web.yaml", &changed);
    let plain = snapshot(&served, &services, "plain.json", &[]);
    let hidden = snapshot(&served, &services, "hidden.json", &["--pseudonymise"]);
    let shapes = (shape(&document(&plain)), shape(&document(&hidden)));
    assert!(!shapes.0["steps"].is_empty());
    assert_eq!(shapes.0, shapes.1);

    let plain: Value = serde_json::from_str(&std::fs::read_to_string(plain).unwrap()).unwrap();
    let hidden = std::fs::read_to_string(hidden).unwrap();
    for word in telling(&plain) {
        let found = words(&hidden).any(|other| other == word);
        assert!(!found, "{word:?} is in the pseudonymised snapshot");
    }
    for uid in ["6f1c2a305b7e4c119d021a2b3c4d5e6f", "a6f1c2a305b7e4c119d021a2b3c4d5e6"] {
        assert!(!hidden.contains(uid), "{uid}");
    }
}

/// Ids, addresses, networks and names in a plain snapshot.
fn telling(snapshot: &Value) -> BTreeSet<String> {
    let text = snapshot.to_string();
    let is_uuid = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let is_address = |word: &str| word.parse::<std::net::IpAddr>().is_ok() && word != "0.0.0.0";
    let mut found: BTreeSet<String> =
        words(&text).filter(|word| is_uuid(word) || is_address(word)).map(str::to_owned).collect();
    assert!(found.len() > 15, "{found:?}");
    let names = ["demo", "shop", "web", "node-1", "tier-node-1", "iso-1", "tier-1"];
    found.extend(
        names.iter().chain(&["acl-1", "vpc-1", "medium", "zone-1"]).map(|n| (*n).to_owned()),
    );
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':')))
        .flat_map(|word| [word, word.trim_end_matches(':')])
}
