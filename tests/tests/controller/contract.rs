//! Holds the list of the contract's rows against the tests.

use std::collections::BTreeSet;

use ccm_tests::register;
use serde::Deserialize;

/// A row of the contract.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The section and the row.
    id: String,
    /// What Go's cloud controller managers do.
    #[serde(rename = "row")]
    behaviour: String,
    /// What we do instead, and why.
    differs: Option<String>,
    /// Names of test functions that show what we do.
    tests: Vec<String>,
}

/// The sections and how many rows each has, so that a dropped one shows.
const SECTIONS: [(&str, usize); 8] = [
    ("1.4-", 14),
    ("1.5-", 11),
    ("1.6-", 6),
    ("1.7-", 6),
    ("1.8-", 8),
    ("2.", 19),
    ("3-", 9),
    (APPENDIX, 20),
];

/// Scenarios: each has an end-to-end test.
const APPENDIX: &str = "A-";

#[test]
fn every_row_of_the_contract_is_shown_by_a_test() {
    let rows: Vec<Row> = register::entries("kubernetes/contract.yaml");
    let known = register::test_functions();
    let mut ids = BTreeSet::new();
    for Row { id, behaviour, differs, tests } in &rows {
        assert!(ids.insert(id), "{id} occurs twice");
        assert!(!behaviour.is_empty() && differs.as_deref() != Some(""), "{id} says nothing");
        assert!(!tests.is_empty(), "{id} is shown by nothing");
        let is_end_to_end = tests.iter().all(|test| test.starts_with("e2e_"));
        assert!(is_end_to_end || !id.starts_with(APPENDIX), "{id} is shown by parts only");
        for test in tests {
            assert!(known.contains(test), "{id}: there is no test {test}");
        }
    }
    for (section, count) in SECTIONS {
        let found = ids.iter().filter(|id| id.starts_with(section)).count();
        assert_eq!(found, count, "rows of section {section}");
    }
    let counted: usize = SECTIONS.iter().map(|(_, count)| count).sum();
    assert_eq!(ids.len(), counted, "rows of no section");
}
