//! Recorded exchanges of a real CloudStack, replayed against the simulator. Run with `--nocapture`
//! to see the counts.

use std::path::{Path, PathBuf};

use ccm_tests::replay::{Recording, ReplayError, Replayer, Report};

#[test]
fn life_of_a_service_on_an_isolated_network_replays_exactly() -> Result<(), ReplayError> {
    assert_exact(&replay("flows-world.yaml", "flow-isolated.jsonl")?);
    Ok(())
}

#[test]
fn life_of_a_service_in_a_vpc_tier_replays_exactly() -> Result<(), ReplayError> {
    assert_exact(&replay("flows-world.yaml", "flow-vpc.jsonl")?);
    Ok(())
}

fn replay(world: &str, recording: &str) -> Result<Report, ReplayError> {
    let mut replayer = Replayer::load(&fixture(world))?;
    let report = replayer.replay(&Recording::load(&fixture(recording))?);
    eprintln!("{report}");
    Ok(report)
}

fn assert_exact(report: &Report) {
    assert!(report.exchanges > 0);
    assert_eq!(report.equal, report.exchanges, "{report}");
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/cloudstack").join(name)
}
