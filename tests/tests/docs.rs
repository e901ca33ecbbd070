//! Pages that are generated from tables in code say what the tables say.
//!
//! `UPDATE_DOCS=1 cargo test -p ccm-tests --test docs` writes them.

use std::fs;
use std::path::Path;

use ccm_tests::replay::{Deviations, Directory, ReplayError, markdown};

fn compare(name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/docs").join(name);
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

#[test]
fn the_annotation_reference_is_generated_from_the_table() {
    compare("annotations.md", &ccm_core::parse::annotations::markdown());
}

#[test]
fn the_configuration_reference_is_generated_from_the_table() {
    compare("configuration.md", &cloudstack_ccm::config::markdown());
}

#[test]
fn the_command_reference_is_generated_from_the_help_texts() {
    compare("commands.md", &cloudstack_ccm::cli::markdown());
}

#[test]
fn the_reference_of_codes_is_generated_from_the_tables() {
    compare("codes.md", &ccm_core::render::codes::markdown());
}

#[test]
fn the_page_about_fidelity_is_generated_from_a_replay() -> Result<(), ReplayError> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/cloudstack");
    let reports = Directory::load(&fixtures)?.replay(|_| true)?;
    let deviations = Deviations::load(&fixtures.join("deviations.yaml"))?;
    compare("fidelity.md", &markdown(&reports, &deviations));
    Ok(())
}
