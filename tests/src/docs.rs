//! Pages that are generated from what the code says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Holds a page of `deploy/docs` against what was generated for it, or writes it if the environment
/// has `UPDATE_DOCS`.
///
/// # Panics
/// If the page says something else, or can not be written.
pub fn hold_page(name: &str, generated: &str) {
    let path = path(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let written = fs::write(&path, generated);
        assert!(written.is_ok(), "{}: {written:?}", path.display());
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == generated,
        "deploy/docs/{name} is not what the code says; run with UPDATE_DOCS=1 and read the difference"
    );
}

/// The text of a page of `deploy/docs`.
pub fn page(name: &str) -> String {
    let path = path(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of the tests of this crate, the end-to-end ones too.
pub fn tests() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names = BTreeSet::new();
    for folder in ["tests", "e2e"].map(|name| folder.join(name)) {
        add_tests(&folder, &mut names);
    }
    names
}

/// A test is a function right behind `#[test]`, `#[tokio::test]` or the reason to ignore it.
fn add_tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of tests") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_tests(&path, names);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let lines = text.lines().zip(text.lines().skip(1));
            let tests = lines.filter(|(before, _)| {
                ["#[test]", "#[tokio::test", "#[ignore"].iter().any(|mark| before.starts_with(mark))
            });
            names.extend(tests.filter_map(|(_, line)| function(line)));
        }
    }
}

fn function(line: &str) -> Option<String> {
    let name = line.trim_start_matches("async ").strip_prefix("fn ")?.split('(').next()?;
    Some(name.to_owned())
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/docs").join(name)
}
