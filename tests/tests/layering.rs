//! The core stays synchronous and free of I/O; adapters stay apart from each other.

use std::collections::BTreeSet;
use std::process::Command;

/// All that the core may depend on, directly or not: none of it is async, and none does I/O.
const CORE_MAY_USE: &[&str] = &[
    // What it asks for.
    "ipnet",
    "jiff",
    "serde",
    "serde_json",
    "sha2",
    "strsim",
    "thiserror",
    "uuid",
    // What these need.
    "block-buffer",
    "cfg-if",
    "cpufeatures",
    "crypto-common",
    "digest",
    "hybrid-array",
    "itoa",
    "jiff-core",
    "libc",
    "memchr",
    "proc-macro2",
    "quote",
    "serde_core",
    "serde_derive",
    "sha1_smol",
    "syn",
    "thiserror-impl",
    "typenum",
    "unicode-ident",
    "zmij",
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
    let found = dependencies("ccm-core");
    let known = |name: &&String| CORE_MAY_USE.contains(&name.as_str()) || *name == "ccm-core";
    let new: Vec<&String> = found.iter().filter(|name| !known(name)).collect();
    assert!(new.is_empty(), "is {new:?} free of async and I/O? Then the list may have it");
    for direct in ["ipnet", "serde", "thiserror"] {
        assert!(found.contains(direct), "cargo tree names what the core is built with: {found:?}");
    }
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
