//! The story is told to its end on every release.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use crate::harness::{command, interrupt, run};

fn told(release: &str) -> String {
    let ran = run(&["demo", "--speed", "20", "--cloudstack-version", release]).exits(0);
    let last = ran.stdout.lines().last().unwrap_or_default();
    assert!(last.starts_with("demo: converged in "), "{last}");
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ran.stdout);
    ran.stdout
}

#[test]
fn source_lists_are_edited_from_4_22_on() {
    for release in ["4.22", "4.23"] {
        let story = told(release);
        assert!(!story.contains("SourcesCannotBeEdited"), "{release}: {story}");
    }
}

#[test]
fn source_lists_cost_a_new_rule_up_to_4_21() {
    let story = told("4.21");
    assert!(story.contains("-/+ rule tcp-443"), "{story}");
    assert!(story.contains("SourcesCannotBeEdited"), "{story}");
}

#[test]
fn source_lists_are_refused_before_4_18_and_the_firewall_does_the_same() {
    for release in ["4.15", "4.16", "4.17"] {
        let story = told(release);
        let refused = story.find("SourcesNotServed: ").expect("the reason");
        let remedy = story.find(r#""loadBalancerSourceRanges":["198.51.100.0/24"]"#);
        assert!(remedy.is_some_and(|remedy| refused < remedy), "{release}: {story}");
        assert!(story.contains("this CloudStack can't edit protocols"), "{release}: {story}");
    }
}

#[test]
fn an_interrupted_story_says_so() {
    let mut told = command(&["demo"]);
    let mut child = told.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut story = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("Plan: ") {
        line.clear();
        assert!(story.read_line(&mut line).unwrap() > 0, "it ended before its first plan");
    }
    interrupt(&child, "INT");
    story.read_to_string(&mut String::new()).unwrap();
    let ran = crate::harness::Ran::from(child.wait_with_output().unwrap()).exits(1);
    assert!(ran.stderr.contains("demo: interrupted before its end"), "{}", ran.stderr);
}
