//! Recorded exchanges of a real CloudStack, replayed against the simulator. The figures are printed
//! even if the tests pass. `CCM_FIDELITY_FILE=d-create-lb` lists every deviation of one file, and
//! `CCM_TRANSCRIPTS=DIR` replays another directory without the list of deviations.
//!
//! `UPDATE_DOCS=1 cargo test -p ccm-tests --test fidelity` writes the page about it.

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ccm_tests::docs::hold_page;
use ccm_tests::replay::{Deviations, Directory, ReplayError, Report, markdown};

/// Of all exchanges at least this many in a hundred are replayed.
const REPLAYED: usize = 90;

/// Of those replayed at least this many in a hundred are equal.
const EQUAL: usize = 95;

/// The outcome for every recording.
static REPORTS: LazyLock<Vec<Report>> = LazyLock::new(|| {
    let directory = Directory::load(&fixtures()).expect("the recordings");
    directory.replay(|_| true).expect("the world of every recording")
});

#[test]
fn recordings_replay_but_for_the_reviewed_deviations() -> Result<(), ReplayError> {
    if let Some(directory) = std::env::var_os("CCM_TRANSCRIPTS") {
        list(&Directory::load(Path::new(&directory))?.replay(|_| true)?);
        return Ok(());
    }
    if let Ok(only) = std::env::var("CCM_FIDELITY_FILE") {
        list(std::slice::from_ref(report(&only)));
        return Ok(());
    }
    REPORTS.iter().for_each(print);
    let sum = |count: fn(&Report) -> usize| REPORTS.iter().map(count).sum::<usize>();
    let (exchanges, replayed) = (sum(|report| report.exchanges), sum(Report::replayed));
    let equal = sum(|report| report.equal);
    let waited = sum(|report| report.waited.len());
    print(&format!(
        "{exchanges} exchanges, {replayed} replayed, {equal} equal ({waited} after a wait)"
    ));
    assert!(replayed * 100 >= exchanges * REPLAYED, "{replayed} of {exchanges} are replayed");
    assert!(equal * 100 >= replayed * EQUAL, "{equal} of {replayed} are equal");
    let disagreements = deviations()?.disagreements(&REPORTS);
    assert!(disagreements.is_empty(), "{disagreements}");
    Ok(())
}

#[test]
fn life_of_a_service_on_an_isolated_network_replays_exactly() {
    assert_exact("flow-isolated");
}

#[test]
fn life_of_a_service_in_a_vpc_tier_replays_exactly() {
    assert_exact("flow-vpc");
}

#[test]
fn the_page_about_fidelity_is_generated_from_a_replay() -> Result<(), ReplayError> {
    hold_page("fidelity.md", &markdown(&REPORTS, &deviations()?));
    Ok(())
}

fn assert_exact(name: &str) {
    let report = report(name);
    assert!(report.exchanges > 0);
    assert_eq!(report.equal, report.exchanges, "{report}\n{:#?}", report.deviating);
    assert!(report.undone.is_empty(), "{report}");
}

fn report(name: &str) -> &'static Report {
    let known = || REPORTS.iter().map(|report| report.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = REPORTS.iter().find(|report| report.name == name);
    found.unwrap_or_else(|| panic!("there is no recording {name:?}, but {}", known()))
}

fn deviations() -> Result<Deviations, ReplayError> {
    Deviations::load(&fixtures().join("deviations.yaml"))
}

/// Prints every deviation in some files and the figures.
fn list(reports: &[Report]) {
    reports.iter().flat_map(|report| &report.deviating).for_each(print);
    reports.iter().for_each(print);
}

/// Prints past the capture of the test runner, which hides what a test that passes prints.
fn print(line: &impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/cloudstack")
}
