//! Holds the list of facts against the sources.

use std::collections::BTreeSet;

use ccm_tests::register;
use serde::Deserialize;

/// A fact of the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    /// The section and the row, such as `api-8-26`.
    id: String,
    /// What is so, in one sentence.
    #[serde(rename = "fact")]
    sentence: String,
    /// Names of test functions that fail if it is not so.
    #[serde(default)]
    tests: Vec<String>,
    /// Why the simulator leaves it out.
    out_of_model: Option<String>,
}

/// The sections and how many facts each has, so that a dropped one shows. A row with several facts
/// has several entries.
const SECTIONS: &[(&str, usize)] = &[
    ("api-6.1-", 27),
    ("api-6.2-", 52),
    ("api-8-", 52),
    ("api-9-", 14),
    ("api-9.1-", 6),
    ("api-9.2-", 7),
    ("observed-0-", 18),
    ("observed-1-", 17),
    ("observed-11-", 9),
];

#[test]
fn facts_are_pinned() {
    let facts: Vec<Fact> = register::entries("cloudstack/facts.yaml");
    let known = register::test_functions();
    let mut ids = BTreeSet::new();
    for fact in &facts {
        let Fact { id, sentence, tests, out_of_model } = fact;
        assert!(ids.insert(id), "{id} occurs twice");
        assert!(!sentence.is_empty(), "{id} says nothing");
        assert_eq!(tests.is_empty(), out_of_model.is_some(), "{id}: pinned or out of the model?");
        for test in tests {
            assert!(known.contains(test), "{id}: there is no test {test}");
        }
    }
    for (section, count) in SECTIONS {
        let found = ids.iter().filter(|id| id.starts_with(section)).count();
        assert_eq!(found, *count, "facts of section {section}");
    }
    let counted: usize = SECTIONS.iter().map(|(_, count)| count).sum();
    assert_eq!(ids.len(), counted, "facts of no section");
}
