//! The story is told to its end on every release.

use crate::harness::run;

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
fn a_story_that_does_not_hold_ends_with_an_error() {
    // This release knows no source lists of rules.
    let ran = run(&["demo", "--speed", "20", "--cloudstack-version", "4.17"]).exits(1);
    assert!(!ran.stdout.contains("converged in"), "{}", ran.stdout);
    assert!(ran.stderr.contains("error: "), "{}", ran.stderr);
}
