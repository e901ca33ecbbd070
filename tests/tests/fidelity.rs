//! Recorded exchanges of a real CloudStack, replayed against the simulator. Run with `--nocapture`
//! to see the figures. `CCM_FIDELITY_FILE=d-create-lb` lists every deviation of one file, and
//! `CCM_TRANSCRIPTS=DIR` replays another directory.

use std::path::{Path, PathBuf};

use ccm_tests::replay::{Directory, ReplayError, Report};

#[test]
fn recordings_replay() -> Result<(), ReplayError> {
    let only = std::env::var("CCM_FIDELITY_FILE").ok();
    let elsewhere = std::env::var_os("CCM_TRANSCRIPTS").map(PathBuf::from);
    let directory = Directory::load(&elsewhere.clone().unwrap_or_else(fixtures))?;
    let reports = directory.replay(|name| only.as_deref().is_none_or(|only| only == name))?;
    for report in &reports {
        eprintln!("{report}");
        if only.is_some() || elsewhere.is_some() {
            report.deviating.iter().for_each(|deviating| eprintln!("{deviating}"));
        }
    }
    let sum = |count: fn(&Report) -> usize| reports.iter().map(count).sum::<usize>();
    eprintln!(
        "{} exchanges, {} replayed, {} equal",
        sum(|report| report.exchanges),
        sum(Report::replayed),
        sum(|report| report.equal)
    );
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

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/cloudstack")
}
