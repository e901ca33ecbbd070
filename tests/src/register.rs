//! Lists of what must hold, each entry with the tests that show it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Reads a list of `fixtures/`.
///
/// # Panics
/// If it can't be read.
pub fn entries<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = root().join("fixtures").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Names of all test functions of the workspace that `cargo test` runs, and of the end-to-end tests.
pub fn test_functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for package in ["core", "adapters", "ccm", "tests"] {
        for file in sources(&root().join(package)) {
            let text = fs::read_to_string(&file).expect("a source file");
            names.extend(functions_below_test(&text));
        }
    }
    names
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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

/// Those that are ignored do not count, but for the end-to-end tests, which a run of their own runs.
fn functions_below_test(text: &str) -> Vec<String> {
    let (mut is_test, mut is_ignored) = (false, false);
    let mut names = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            (is_test, is_ignored) = (true, false);
        } else if line.starts_with("#[ignore") {
            is_ignored = true;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && std::mem::take(&mut is_test)
            && let Some((name, _)) = rest.split_once('(')
            && (!is_ignored || name.starts_with("e2e_"))
        {
            names.push(name.to_owned());
        }
    }
    names
}
