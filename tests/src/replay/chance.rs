//! What the recorded server drew by chance, and the times that a request names: the run is led to
//! the same, where the recording shows it.

use std::net::Ipv4Addr;

use serde_json::Value;

use super::recording::Exchange;
use super::send;
use super::{Replayer, Run};

/// Commands that draw an address of a guest network.
const GUEST_DRAWERS: &[&str] = &["addIpToNic", "addNicToVirtualMachine", "deployVirtualMachine"];

impl Replayer<'_> {
    /// Prepares a run for the request of a line.
    pub(super) fn choose(&self, run: &mut Run, line: usize) {
        let command = self.exchange(line).command.as_deref().unwrap_or_default();
        if command == "associateIpAddress" {
            self.choose_public_address(run, line);
        }
        if GUEST_DRAWERS.contains(&command) {
            self.choose_guest_address(run, line);
        }
        self.wait_for_time_of(run, line);
    }

    /// Lets an associate draw the address that it drew in the recording, by its id if this run knows
    /// it, else by the text in the result of its job: the order of the pool is the database's own. An
    /// associate that was refused after it drew one shows which only in a later list.
    fn choose_public_address(&self, run: &mut Run, line: usize) {
        let later = self.recording.exchanges.iter().skip(line);
        let stuck = later.take(2).find_map(|later| {
            let row = &later.answer()["publicipaddress"][0];
            (row["state"] == "Allocating").then(|| &row["id"])
        });
        let drawn = self.exchange(line).answer().get("id").or(stuck).and_then(Value::as_str);
        let ours = drawn.and_then(|drawn| run.names.ours(drawn));
        let result = self.polls_of(line).find_map(|poll| poll.get("jobresult"));
        let shown = result.and_then(|result| result["ipaddress"]["ipaddress"].as_str());
        if let Some(address) = ours.or(shown).map(str::to_owned) {
            run.simulator.draw_next(&address);
        }
    }

    /// Lets a new interface draw the address that the result of the job shows.
    fn choose_guest_address(&self, run: &mut Run, line: usize) {
        let result = self.polls_of(line).find_map(|poll| poll.get("jobresult"));
        let drawn = result.and_then(|result| {
            let nics = result["virtualmachine"]["nic"].as_array();
            let nic = nics.and_then(|nics| nics.last()).unwrap_or(&result["nicsecondaryip"]);
            nic["ipaddress"].as_str()?.parse::<Ipv4Addr>().ok()
        });
        if let Some(address) = drawn {
            run.simulator.draw_next_guest(address);
        }
    }

    /// A request that names times is sent at the time of the recording, which its job tells.
    fn wait_for_time_of(&self, run: &mut Run, line: usize) {
        if self.exchange(line).params.keys().any(|name| send::is_time(name)) {
            let poll = self.polls_of(line).next();
            let sent = poll.and_then(|poll| poll["created"].as_str()?.parse().ok());
            run.now = run.now.max(sent.unwrap_or(run.now));
        }
    }

    /// The later answers about the job of a line.
    fn polls_of(&self, line: usize) -> impl Iterator<Item = &Value> {
        let job = self.exchange(line).answer().get("jobid");
        let later = self.recording.exchanges.iter().skip(line).map(Exchange::answer);
        later.filter(move |poll| job.is_some() && poll.get("jobid") == job)
    }
}
