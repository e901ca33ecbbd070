//! Whatever stands in a file, a variable, an annotation or an object: it is read, or refused with an
//! error that names place and cause. Nothing panics, hangs, or fills the memory, and no error holds
//! a secret.
//!
//! Bodies of CloudStack are in `decoding`, connections in `wire`.

mod certificates;
mod config;
mod files;
mod leases;
mod objects;
mod requests;
mod size;

use ccm_tests::mutate::{self, How, change, places};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed};
use serde_json::Value;

/// Fixed cases, or those of `PROPTEST_RNG_SEED`.
fn cases(count: u32) -> Config {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    Config {
        rng_seed: RngSeed::Fixed(seed.unwrap_or(20_261_202)),
        failure_persistence: None,
        ..Config::with_cases(count)
    }
}

/// Changes of values in a JSON document.
fn changes() -> impl Strategy<Value = Vec<(Index, How)>> {
    vec((any::<Index>(), select(mutate::all())), 1..4)
}

/// The document, changed.
fn changed(json: &Value, changes: &[(Index, How)]) -> Value {
    let mut json = json.clone();
    for (place, how) in changes {
        let places = places(&json);
        if places > 0 {
            change(&mut json, place.index(places), how);
        }
    }
    json
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A file of one test, removed at its end.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        Self(directory.join(format!("input-{}-{name}", std::process::id())))
    }

    fn write(&self, bytes: &[u8]) -> &std::path::Path {
        std::fs::write(&self.0, bytes).expect("a file");
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
