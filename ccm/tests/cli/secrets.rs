//! Key, secret and signature are in no text and no file, at any log level (C088).

use crate::harness::{Served, fixture};

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
        ("snapshot", crate::harness::run(&take).exits(0)),
        ("apply", served.apply(&plan, &trace).exits(0)),
        ("apply again", served.apply(&plan, &trace).exits(4)),
        ("wrong key", {
            let text = std::fs::read_to_string(&served.config).unwrap();
            let wrong = served
                .directory
                .write("wrong.conf", &text.replace("demo-secret-key", "demo-secret-kez"));
            let ran = crate::harness::run(
                &[&["apply", &plan, "--cloud-config", &wrong], &trace[..]].concat(),
            );
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
