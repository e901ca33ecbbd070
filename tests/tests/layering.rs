//! The core stays synchronous and free of I/O; adapters stay apart from each other.

use std::collections::BTreeSet;
use std::process::Command;

/// What the core must never depend on, directly or not.
const ASYNC_OR_IO: &[&str] = &[
    "async-trait",
    "axum",
    "chrono",
    "futures",
    "futures-core",
    "futures-util",
    "getrandom",
    "hyper",
    "k8s-openapi",
    "kube",
    "mio",
    "rand",
    "reqwest",
    "rustls",
    "socket2",
    "tokio",
    "tower",
    "tracing",
];

/// Names of the packages that `package` is built with.
fn dependencies(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", package, "--edges", "normal", "--prefix", "none"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo tree runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("package names are UTF-8");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn assert_lacks(package: &str, banned: &[&str]) {
    let found = dependencies(package);
    assert!(found.contains(package), "cargo tree names {package} itself: {found:?}");
    let wrong: Vec<_> = banned.iter().filter(|name| found.contains(**name)).collect();
    assert!(wrong.is_empty(), "{package} must not depend on {wrong:?}");
}

#[test]
fn the_core_has_no_async_and_no_io() {
    assert_lacks("ccm-core", ASYNC_OR_IO);
}

#[test]
fn the_cloudstack_adapter_knows_nothing_of_kubernetes() {
    assert_lacks("ccm-cloudstack", &["kube", "k8s-openapi", "ccm-kubernetes", "ccm-simulator"]);
}

#[test]
fn the_kubernetes_adapter_has_no_http_client_of_its_own() {
    assert_lacks("ccm-kubernetes", &["reqwest", "ccm-cloudstack", "ccm-simulator"]);
}

#[test]
fn the_simulator_shares_no_code_with_the_client() {
    assert_lacks("ccm-simulator", &["reqwest", "ccm-cloudstack", "ccm-kubernetes"]);
}
