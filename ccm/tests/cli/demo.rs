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
fn source_lists_are_refused_before_4_18_and_the_firewall_does_the_same() {
    for release in ["4.15", "4.16", "4.17"] {
        let story = told(release);
        let refused = story.find("SourcesNotServed: ").expect("the reason");
        let remedy = story.find(r#""loadBalancerSourceRanges":["198.51.100.0/24"]"#);
        assert!(remedy.is_some_and(|remedy| refused < remedy), "{release}: {story}");
        assert!(story.contains("this CloudStack can't edit protocols"), "{release}: {story}");
    }
}
