//! cleanup: what is left of a cluster that is gone.

use crate::harness::{Ran, Served, run};

/// The demo's Services of a cluster of that id, made and forgotten.
fn serve(served: &Served, cluster: &str) {
    let file = served.directory.path(&format!("{cluster}.json"));
    served.plan(&["--cluster-id", cluster, "--out", &file]).exits(2);
    served.apply(&file, &["--cluster-id", cluster]).exits(0);
}

fn cleanup(served: &Served, more: &[&str]) -> Ran {
    run(&[&["cleanup", "--cloud-config", &served.config], more].concat())
}

#[test]
fn c062_a_cluster_is_shown_and_removed_once_it_is_named_and_agreed() {
    let served = Served::start();
    serve(&served, "first");
    let words = ["which cluster? Give --cluster-id", "first (2 Services)"];
    cleanup(&served, &["--dry-run"]).fails_with(&words);

    let shown = cleanup(&served, &["--cluster-id", "first", "--dry-run", "--detailed-exitcode"]);
    let shown = shown.exits(2);
    for words in ["cluster first", "gone/", "disassociateIpAddress"] {
        assert!(shown.stdout.contains(words), "{words:?} is not in:\n{}", shown.stdout);
    }
    cleanup(&served, &["--cluster-id", "second", "--dry-run", "--detailed-exitcode"]).exits(0);

    let refused = cleanup(&served, &["--cluster-id", "first"]).exits(1);
    assert!(refused.stderr.contains("nobody can be asked here"), "{}", refused.stderr);

    let removed = cleanup(&served, &["--cluster-id", "first", "--yes"]).exits(0);
    assert!(removed.stdout.contains("Applied: "), "{}", removed.stdout);
    let nothing = cleanup(&served, &["--cluster-id", "first", "--yes"]).exits(0);
    assert_eq!(nothing.stdout, "Nothing of cluster first is left.\n");
    // As if it had never been.
    served.plan(&["--cluster-id", "second"]).exits(2);
}

#[test]
fn the_plan_of_a_cleanup_is_for_programs_too() {
    let served = Served::start();
    serve(&served, "first");
    let ran = cleanup(&served, &["--cluster-id", "first", "--dry-run", "--output", "json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let steps = document["steps"].as_array().unwrap();
    assert!(
        steps.iter().any(|step| step["call"]["name"] == "deleteLoadBalancerRule"),
        "{steps:#?}"
    );
}
