//! Pages that are generated from what the code says.

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

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/docs").join(name)
}
