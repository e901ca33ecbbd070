//! Holds the list of facts against the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
    let facts = facts();
    let known = test_functions();
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

fn facts() -> Vec<Fact> {
    let path = root().join("fixtures/cloudstack/facts.yaml");
    let text = fs::read_to_string(path).expect("the list of facts");
    serde_saphyr::from_str(&text).expect("a list of facts")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Names of all test functions of the workspace that are not ignored.
fn test_functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for package in ["core", "adapters", "ccm", "tests"] {
        for file in sources(&root().join(package)) {
            let text = fs::read_to_string(&file).expect("a source file");
            names.extend(functions_below_test(&text));
        }
    }
    names
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of sources");
    entries
        .map(|entry| entry.expect("an entry").path())
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(kind) if kind == "rs" => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

fn functions_below_test(text: &str) -> Vec<String> {
    let mut is_test = false;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_test = false;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && std::mem::take(&mut is_test)
        {
            names.extend(rest.split_once('(').map(|(name, _)| name.to_owned()));
        }
    }
    names
}
