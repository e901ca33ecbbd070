//! What `deploy/manifests` holds.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy/manifests")
}

/// Names of its files.
pub fn files() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("a folder of manifests");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().into_string().expect("a name in UTF-8")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// Every object of a file of the folder, in its order.
pub fn objects(file: &str) -> Vec<Value> {
    read(&folder().join(file))
}

/// Every object of a file, in its order.
pub fn read(path: &Path) -> Vec<Value> {
    let shown = path.display();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{shown}: {error}"));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{shown}: {error}"))
}
