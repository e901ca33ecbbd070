//! Pages that are generated from tables in code say what the tables say.
//!
//! `UPDATE_DOCS=1 cargo test -p ccm-tests --test docs` writes them.

use ccm_tests::docs::{hold_page, page};
use ccm_tests::register;

#[test]
fn the_annotation_reference_is_generated_from_the_table() {
    hold_page("annotations.md", &ccm_core::parse::annotations::markdown());
}

#[test]
fn the_configuration_reference_is_generated_from_the_table() {
    hold_page("configuration.md", &cloudstack_ccm::config::markdown());
}

#[test]
fn the_command_reference_is_generated_from_the_help_texts() {
    hold_page("commands.md", &cloudstack_ccm::cli::markdown());
}

#[test]
fn the_reference_of_the_controllers_flags_is_generated_from_the_help_texts() {
    hold_page("controller-flags.md", &cloudstack_ccm::cli::controller_flags());
}

#[test]
fn the_reference_of_metrics_is_generated_from_the_table() {
    hold_page("metrics.md", &cloudstack_ccm::metrics::markdown());
}

#[test]
fn the_reference_of_codes_is_generated_from_the_tables() {
    hold_page("codes.md", &ccm_core::render::codes::markdown());
}

#[test]
fn the_reference_of_permissions_is_generated_from_the_tables() {
    hold_page("permissions.md", &ccm_core::permission::markdown());
}

#[test]
fn the_reference_of_events_is_generated_from_the_tables() {
    hold_page("events.md", &ccm_core::event::markdown());
}

#[test]
fn the_promises_are_generated_from_the_oracles() {
    hold_page("reliability.md", &ccm_tests::storm::promise::markdown());
}

/// Every line of the tables in `migration.md` names tests that there are.
#[test]
fn what_is_promised_to_who_migrates_is_tested() {
    let text = page("migration.md");
    let rows = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let rows: Vec<&str> = rows.filter(|row| !row.ends_with("| Test |")).collect();
    assert!(rows.len() > 10, "{rows:#?}");
    let tests = register::test_functions();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [_, named] = cells.as_slice() else { panic!("a promise, and its tests: {row}") };
        let named: Vec<&str> = named.split(',').map(|name| name.trim().trim_matches('`')).collect();
        for name in named {
            assert!(tests.contains(name), "there is no test {name:?}: {row}");
        }
    }
}
