//! The page about fidelity: figures of every recording, and what stands in the list of deviations.

use std::fmt::Write as _;

use super::deviations::Deviations;
use super::report::Report;

const HEAD: &str = "\
# How faithful the simulator is

The simulator answers requests as a real CloudStack did. Recordings of a management server of CloudStack 4.23.0.0-SNAPSHOT stand in
`fixtures/cloudstack`; `cargo test -p ccm-tests --test fidelity` sends every recorded request through the simulator's HTTP façade,
prints the figures, and compares status, headers, envelope, error code and text, keys, types, order and values. This page is generated:
`UPDATE_DOCS=1 cargo test -p ccm-tests --test fidelity`. Every deviation in one recording is listed with `CCM_FIDELITY_FILE=NAME`, and
another directory of recordings in the same form is tried with `CCM_TRANSCRIPTS=DIR`, before the same command.

## How values compare

- Ids, hardware addresses and public addresses drawn from the pool differ in any other run: one here stands for one there. So do
  database numbers in error texts, behind the words that announce one.
- Times compare by form alone, also the milliseconds in `expireAfter` and behind `retry after`. Secrets are left out of the recordings: any text
  will do.
- Lists keep their order, except `service`, `capability`, `tags` and the `tag` of `listTags`.
- What the recorder cut compares as far as it goes.
- What was drawn by chance, such as the next address, is drawn as the recording shows it.
- A recording does not tell when a job ended, nor how long its caller waited. Before a request as many jobs end as make its answer equal,
  and if none does, it may be sent after a wait of 2 s. Requests that were sent at once may come in any order. The answers that
  were equal only after the wait are counted.

## Figures

| Recording | Exchanges | Replayed | Equal | Of these after a wait | Deviating | Not replayable |
|---|--:|--:|--:|--:|--:|--:|
";

const NOT_EXERCISED: &str = "
## What is not exercised

- Traffic: the recorded server's hypervisor was CloudStack's own `simulator`. No packet passed a router, so what HAProxy and iptables do with
  a rule is taken from CloudStack's source.
- Time: how long jobs take, how long a window of the throttling lasts to the millisecond, and what a time in an answer is.
- Releases before 4.23: their differences come from the source and stand in `adapters/simulator/src/versions.rs`, each with a test.
- Providers other than the virtual router, basic networks, several zones and several management servers.
- Quarantine, portable and reserved addresses beyond one exchange, shared and layer-2 networks, tiers with an internal load balancer, and
  routers that never answer (the recorded ones refused): the simulator has them as CloudStack's source says.
- Redundant pairs of routers, certificates, autoscale groups, IPv6 and the making of Kubernetes clusters: the simulator has none of them.
- An update of a rule with a member that is mapped twice: recorded are a removal, a deletion and a release. In the simulator the update
  fails as they do and what it stored stays; one that would push nothing succeeds, as it does for any rule.
- Firewall rules of a VPC whose router is stopped: they are treated like those of an isolated network, of which it was observed.
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
        "Every exchange that is not equal, and what was done out of band before a line and could not be \
         done here, from `fixtures/cloudstack/deviations.yaml`.\n\n",
    );
    page.push_str("| Recording | Lines | Reason |\n|---|---|---|\n");
    for entry in &deviations.0 {
        let lines: Vec<String> = entry.lines.iter().map(ToString::to_string).collect();
        let reason = entry.reason.split_whitespace().collect::<Vec<_>>().join(" ");
        let before = if entry.undone { "before " } else { "" };
        let _ = writeln!(page, "| `{}` | {before}{} | {reason} |", entry.file, lines.join(", "));
    }
    page
}

fn row(page: &mut String, name: &str, reports: &[Report]) {
    let sum = |count: fn(&Report) -> usize| reports.iter().map(count).sum::<usize>();
    let _ = writeln!(
        page,
        "| {name} | {} | {} | {} | {} | {} | {} |",
        sum(|report| report.exchanges),
        sum(Report::replayed),
        sum(|report| report.equal),
        sum(|report| report.waited.len()),
        sum(|report| report.deviating.len()),
        sum(|report| report.not_replayable.len()),
    );
}
