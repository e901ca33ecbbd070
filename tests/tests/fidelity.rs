//! Recorded exchanges of a real CloudStack, replayed against the simulator. Run with `--nocapture`
//! to see the figures. `CCM_FIDELITY_FILE=d-create-lb` lists every deviation of one file, and
//! `CCM_TRANSCRIPTS=DIR` replays another directory without the list of deviations.

use std::path::{Path, PathBuf};

use ccm_tests::replay::{Deviations, Directory, ReplayError, Report};

/// Of all exchanges at least this many in a hundred are replayed.
const REPLAYED: usize = 90;

/// Of those replayed at least this many in a hundred are equal.
const EQUAL: usize = 95;

#[test]
fn recordings_replay_but_for_the_reviewed_deviations() -> Result<(), ReplayError> {
    if let Some(directory) = std::env::var_os("CCM_TRANSCRIPTS") {
        return list(&Directory::load(Path::new(&directory))?, |_| true);
    }
    let directory = Directory::load(&fixtures())?;
    if let Ok(only) = std::env::var("CCM_FIDELITY_FILE") {
        return list(&directory, |name| name == only);
    }
    let reports = directory.replay(|_| true)?;
    show(&reports);
    let sum = |count: fn(&Report) -> usize| reports.iter().map(count).sum::<usize>();
    let (exchanges, replayed) = (sum(|report| report.exchanges), sum(Report::replayed));
    let equal = sum(|report| report.equal);
    assert!(replayed * 100 >= exchanges * REPLAYED, "{replayed} of {exchanges} are replayed");
    assert!(equal * 100 >= replayed * EQUAL, "{equal} of {replayed} are equal");
    let list = Deviations::load(&fixtures().join("deviations.yaml"))?;
    let disagreements = list.disagreements(&reports);
    assert!(disagreements.is_empty(), "{disagreements}");
    Ok(())
}

#[test]
fn life_of_a_service_on_an_isolated_network_replays_exactly() -> Result<(), ReplayError> {
    assert_exact("flow-isolated")
}

#[test]
fn life_of_a_service_in_a_vpc_tier_replays_exactly() -> Result<(), ReplayError> {
    assert_exact("flow-vpc")
}

fn assert_exact(name: &str) -> Result<(), ReplayError> {
    let reports = Directory::load(&fixtures())?.replay(|known| known == name)?;
    assert_eq!(reports.len(), 1);
    for report in &reports {
        assert!(report.exchanges > 0);
        assert_eq!(report.equal, report.exchanges, "{report}\n{:#?}", report.deviating);
    }
    Ok(())
}

/// Prints the figures of some files and every deviation in them.
fn list(directory: &Directory, chosen: impl Fn(&str) -> bool) -> Result<(), ReplayError> {
    let reports = directory.replay(chosen)?;
    for deviating in reports.iter().flat_map(|report| &report.deviating) {
        eprintln!("{deviating}");
    }
    show(&reports);
    Ok(())
}

fn show(reports: &[Report]) {
    for report in reports {
        eprintln!("{report}");
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/cloudstack")
}
