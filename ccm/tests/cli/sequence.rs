//! plan, apply, plan: what scripts rely on.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Served, command, fixture, interrupt};

#[test]
fn plan_apply_plan_ends_in_no_changes() {
    let mut served = Served::start();
    let file = served.directory.path("plan.json");
    let planned = served.plan(&["--out", &file]).exits(2);
    assert!(planned.stdout.contains("+   rule tcp-443"), "{}", planned.stdout);
    assert!(planned.stdout.contains("\nPlan: 7 to add, "), "{}", planned.stdout);
    assert!(!planned.stdout.contains('\u{1b}'), "colour without a terminal");
    assert_eq!(planned.stderr, "");

    let applied = served.apply(&file, &[]).exits(0);
    assert_eq!(applied.stdout, "Applied: 10 steps done for 2 Services.\n");
    assert!(applied.stderr.contains("associateIpAddress"), "{}", applied.stderr);

    let again = served.plan(&[]).exits(0);
    // Nodes of either network are outside the other's: that is worth a warning, not a change.
    assert!(again.stdout.contains("NodeOutsideNetwork"), "{}", again.stdout);
    assert!(again.stdout.ends_with("\nPlan: no changes.\n"), "{}", again.stdout);
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn without_the_flag_a_plan_with_changes_is_a_success() {
    let served = Served::start_with("{default: 0s}", &["--version", "4.19", "--latency", "5ms"]);
    let (services, nodes) = (fixture("demo/services"), fixture("demo/nodes"));
    let sources = ["--services", &services, "--nodes", &nodes];
    let arguments = [&["plan", "--cloud-config", &served.config], &sources[..]].concat();
    let ran = crate::harness::run(&arguments).exits(0);
    assert!(ran.stdout.contains("CloudStack 4.19.0"), "{}", ran.stdout);
}

#[test]
fn one_service_can_be_planned_alone() {
    let served = Served::start();
    let ran = served.plan(&["--service", "shop/web", "--output", "json"]).exits(2);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let steps = document["steps"].as_array().unwrap();
    assert!(!steps.is_empty() && steps.iter().all(|step| step["service"] == "shop/web"));
    served.plan(&["--service", "shop/wep"]).fails_with(&["no Service shop/wep", "shop/web"]);
}

#[test]
fn colour_is_there_when_asked_for() {
    let served = Served::start();
    assert!(served.plan(&["--color", "always"]).exits(2).stdout.contains("\u{1b}[32m+"));
    assert!(!served.plan(&["--color", "never"]).exits(2).stdout.contains('\u{1b}'));
}

#[test]
fn an_interrupted_apply_finishes_running_calls_and_starts_no_new_one() {
    let served = Served::start_with("{default: 1500ms}", &[]);
    let file = served.directory.path("plan.json");
    served.plan(&["--out", &file]).exits(2);
    let arguments = ["apply", &file, "--cloud-config", &served.config];
    let child = command(&arguments).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    interrupt(&child, "INT");
    let ran = crate::harness::Ran::from(child.wait_with_output().unwrap()).exits(1);
    for words in ["running calls are finished", "not tried", "a new plan continues from here"] {
        assert!(ran.stderr.contains(words), "{words:?} is not in:\n{}", ran.stderr);
    }
    // Nothing is half done: a new plan goes on, and then there is nothing left to do.
    served.plan(&["--out", &file]).exits(2);
    served.apply(&file, &[]).exits(0);
    served.plan(&[]).exits(0);
}

#[test]
fn the_cloud_config_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = Served::start();
    let mode = fs::metadata(&served.config).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let served = Served::start();
    let (services, nodes) = (fixture("demo/services"), fixture("demo/nodes"));
    let sources = ["--services", &services, "--nodes", &nodes];
    let arguments = [&["plan", "--cloud-config", &served.config], &sources[..]].concat();
    let mut child =
        command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = crate::harness::Ran::from(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(ran.stderr, "");
}
