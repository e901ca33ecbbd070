//! The page about fidelity: figures of every recording, and what stands in the list of deviations.

use std::fmt::Write as _;

use super::deviations::Deviations;
use super::report::Report;

const HEAD: &str = "\
# How faithful the simulator is

The simulator answers requests as a real CloudStack did. Recordings of a management server of CloudStack 4.23.0.0-SNAPSHOT stand in
`fixtures/cloudstack`; `cargo test -p ccm-tests --test fidelity` sends every recorded request through the simulator's HTTP façade and
compares status, headers, envelope, error code and text, keys, types, order and values. Ids, times, database numbers and drawn addresses
compare by a one-to-one mapping. This page is generated: `UPDATE_DOCS=1 cargo test -p ccm-tests --test docs`.

Another directory of recordings in the same form is tried with `CCM_TRANSCRIPTS=DIR cargo test -p ccm-tests --test fidelity -- --nocapture`.

## Figures

| Recording | Exchanges | Replayed | Equal | Deviating | Not replayable |
|---|--:|--:|--:|--:|--:|
";

const NOT_EXERCISED: &str = "
## What is not exercised

- Traffic: the recorded server's hypervisor was CloudStack's own `simulator`. No packet passed a router, so what HAProxy and iptables do with
  a rule is taken from CloudStack's source.
- Time: a recording tells that a job had ended, not when. A replay lets jobs end at the first moment at which an answer is equal.
- Releases before 4.23: their differences come from the source and stand in `adapters/simulator/src/versions.rs`, each with a test.
- Providers other than the virtual router, basic and shared networks, several zones and several management servers.
- Statistics of virtual machines and descriptions of the API: the controller reads neither.
";

/// The page.
pub fn markdown(reports: &[Report], deviations: &Deviations) -> String {
    let mut page = HEAD.to_owned();
    for report in reports {
        row(&mut page, &format!("`{}`", report.name), std::slice::from_ref(report));
    }
    row(&mut page, "**All**", reports);
    page.push_str(NOT_EXERCISED);
    page.push_str("\n## Deviations\n\n");
    page.push_str(
        "Every exchange that is not equal, from `fixtures/cloudstack/deviations.yaml`.\n\n",
    );
    page.push_str("| Recording | Lines | Reason |\n|---|---|---|\n");
    for entry in &deviations.0 {
        let lines: Vec<String> = entry.lines.iter().map(ToString::to_string).collect();
        let reason = entry.reason.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(page, "| `{}` | {} | {reason} |", entry.file, lines.join(", "));
    }
    page
}

fn row(page: &mut String, name: &str, reports: &[Report]) {
    let sum = |count: fn(&Report) -> usize| reports.iter().map(count).sum::<usize>();
    let _ = writeln!(
        page,
        "| {name} | {} | {} | {} | {} | {} |",
        sum(|report| report.exchanges),
        sum(Report::replayed),
        sum(|report| report.equal),
        sum(|report| report.deviating.len()),
        sum(|report| report.not_replayable.len()),
    );
}
