//! Holds the list of facts against the sources and the recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ccm_tests::replay::{Directory, Report};
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
    /// Recorded exchanges that show it, such as `p-server-restart 1-55`; their replay is equal.
    #[serde(default)]
    recordings: Vec<Lines>,
    /// Why the simulator leaves it out.
    out_of_model: Option<String>,
}

/// Some lines of a recording.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Lines {
    file: String,
    first: usize,
    last: usize,
}

impl TryFrom<String> for Lines {
    type Error = String;

    /// Reads a name, a blank, and one line or two with a dash between.
    fn try_from(text: String) -> Result<Self, String> {
        let lines = || {
            let (file, lines) = text.split_once(' ')?;
            let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
            let [first, last] = [first.parse().ok()?, last.parse().ok()?];
            Some(Self { file: file.to_owned(), first, last })
        };
        lines().ok_or_else(|| format!("{text:?} is not like `k-async 3-7`"))
    }
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
        let Fact { id, sentence, tests, recordings, out_of_model } = fact;
        assert!(ids.insert(id), "{id} occurs twice");
        assert!(!sentence.is_empty(), "{id} says nothing");
        let is_pinned = !tests.is_empty() || !recordings.is_empty();
        assert_ne!(is_pinned, out_of_model.is_some(), "{id}: pinned or out of the model?");
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

#[test]
fn recordings_of_facts_replay_equally() {
    let mut wanted: BTreeMap<String, Vec<(String, Lines)>> = BTreeMap::new();
    for fact in facts() {
        for lines in fact.recordings {
            wanted.entry(lines.file.clone()).or_default().push((fact.id.clone(), lines));
        }
    }
    let directory = Directory::load(&fixtures()).expect("recordings");
    let reports = directory.replay(|name| wanted.contains_key(name)).expect("a replay");
    for (file, facts) in &wanted {
        let report = reports.iter().find(|report| report.name == *file);
        let report = report.unwrap_or_else(|| panic!("there is no recording {file}"));
        for (id, lines) in facts {
            let unequal = unequal(report, lines);
            assert!(unequal.is_empty(), "{id}: {file} lines {unequal:?} are not equal");
        }
    }
}

/// The lines whose replay is not equal, or that are not in the recording.
fn unequal(report: &Report, lines: &Lines) -> Vec<usize> {
    let deviates = |line: usize| report.deviating.iter().any(|deviating| deviating.line == line);
    (lines.first..=lines.last)
        .filter(|line| {
            deviates(*line)
                || report.not_replayable.contains_key(line)
                || !(1..=report.exchanges).contains(line)
        })
        .collect()
}

fn facts() -> Vec<Fact> {
    let path = fixtures().join("facts.yaml");
    let text = fs::read_to_string(path).expect("the list of facts");
    serde_saphyr::from_str(&text).expect("a list of facts")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fixtures() -> PathBuf {
    root().join("fixtures/cloudstack")
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
