//! When a configuration whose files changed under a running process is tried, and what of it holds.
//!
//! 1. Files are known by a print of what is in them: what is in use, and what was tried last.
//! 2. What differs is tried at once. What can't be read is left until it differs again; what did
//!    not prove itself is tried again after growing pauses, as long as it lies there.
//! 3. What can't be taken while the process runs is named, and left to a restart.
//! 4. Credentials are taken over only if they act for the same account as those in use.
//!
//! Not decided here: which settings there are.

use std::collections::BTreeSet;

use jiff::Timestamp;
use thiserror::Error;

use crate::exec::backoff::Backoff;
use crate::exec::error::{CallError, Fault};
use crate::observe::VirtualMachine;
use crate::time::later;

/// What to do about files as they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    Rest,
    /// Try them: nobody has seen them like that.
    New,
    /// Try them again.
    Again,
}

/// See the module. `P` is a print of all files.
#[derive(Clone, Debug)]
pub struct Reload<P> {
    in_use: P,
    kept_out: Option<KeptOut<P>>,
}

/// What was tried and is not in use.
#[derive(Clone, Debug)]
struct KeptOut<P> {
    print: P,
    backoff: Backoff,
    /// `None` until it differs.
    again: Option<Timestamp>,
}

impl<P: PartialEq> Reload<P> {
    /// Files with this print are in use.
    pub fn new(in_use: P) -> Self {
        Self { in_use, kept_out: None }
    }

    /// The print of what is in use.
    pub fn in_use(&self) -> &P {
        &self.in_use
    }

    /// What to do about files as they are found.
    pub fn look(&mut self, found: &P, now: Timestamp) -> Look {
        if *found == self.in_use {
            self.kept_out = None;
            return Look::Rest;
        }
        match &self.kept_out {
            Some(kept) if kept.print == *found => match kept.again {
                Some(at) if at <= now => Look::Again,
                Some(_) | None => Look::Rest,
            },
            Some(_) | None => Look::New,
        }
    }

    /// They were read. Whether what changed is to be proven; if nothing of it can hold before a
    /// restart, they count as taken.
    pub fn handle_read<S>(&mut self, found: P, changes: &Changes<S>) -> bool {
        let is_to_prove = !changes.at_once.is_empty();
        if !is_to_prove {
            self.handle_taken(found);
        }
        is_to_prove
    }

    /// They hold from now on.
    pub fn handle_taken(&mut self, found: P) {
        *self = Self::new(found);
    }

    /// They can't be read: trying again would not help.
    pub fn handle_unreadable(&mut self, found: P) {
        self.kept_out = Some(KeptOut { print: found, backoff: Backoff::default(), again: None });
    }

    /// They did not prove themselves. `jitter`, 0.0 to 1.0, spreads replicas.
    pub fn handle_unproven(&mut self, found: P, now: Timestamp, jitter: f64) {
        let known = self.kept_out.take().filter(|kept| kept.print == found);
        let mut backoff = known.map_or_else(Backoff::default, |kept| kept.backoff);
        // Whoever refuses: a key that is being made is refused until it is there.
        let pause = backoff.handle_failure(Fault::Transient, jitter);
        self.kept_out = Some(KeptOut { print: found, backoff, again: Some(later(now, pause)) });
    }
}

/// Settings that differ from those in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes<S> {
    /// Those that a running process takes, once they are proven.
    pub at_once: BTreeSet<S>,
    /// Those that need a restart.
    pub at_restart: BTreeSet<S>,
}

impl<S: Ord> Changes<S> {
    /// Sorts what differs by whether it can be taken at once.
    pub fn new(differ: impl IntoIterator<Item = S>, can_be_taken: impl Fn(&S) -> bool) -> Self {
        let (at_once, at_restart) = differ.into_iter().partition(can_be_taken);
        Self { at_once, at_restart }
    }
}

/// Why new credentials are not taken over.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Unproven {
    /// They don't work, or nobody could be asked.
    #[error(transparent)]
    New(#[from] CallError),
    /// They work, but nobody can tell where: it is tried again.
    #[error("the pair in use could not be asked for its virtual machines, to compare with")]
    InUse(#[source] CallError),
    /// They work somewhere else.
    #[error(
        "the new pair sees none of the virtual machines that the pair in use sees; use one of a \
         user of the same account or project"
    )]
    OtherAccount,
}

/// Whether new credentials, which CloudStack accepts, act for the same account or project as those in
/// use, by the machines that each of them lists. Others would see nothing of what this cluster has,
/// and take it for gone.
///
/// 1. New ones that may not list machines plan nothing, so they take nothing for gone.
/// 2. If those in use are not accepted any more, or CloudStack gives them no answer at all (as after
///    a change of its certificate), nobody knows for which account they acted.
/// 3. Any other failure passes: it proves nothing.
///
/// # Errors
/// [`Unproven`] if they don't, or nobody knows yet.
pub fn prove_account(
    new: Result<Vec<VirtualMachine>, CallError>,
    in_use: Result<Vec<VirtualMachine>, CallError>,
) -> Result<(), Unproven> {
    let new = match new {
        Ok(machines) => machines,
        Err(error) if error.fault == Fault::Permission => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let in_use = match in_use {
        Ok(machines) => machines,
        Err(error) if error.fault == Fault::Permission || error.code.is_none() => return Ok(()),
        Err(error) => return Err(Unproven::InUse(error)),
    };
    let new: BTreeSet<_> = new.iter().map(|machine| &machine.id).collect();
    let is_same = in_use.is_empty() || in_use.iter().any(|machine| new.contains(&machine.id));
    if is_same { Ok(()) } else { Err(Unproven::OtherAccount) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::exec::error::Effect;
    use crate::ids::VirtualMachineId;

    fn at(seconds: u64) -> Timestamp {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        later(start, Duration::from_secs(seconds))
    }

    #[test]
    fn what_differs_is_tried_once_and_holds() {
        let mut reload = Reload::new("old");
        assert_eq!(reload.look(&"old", at(0)), Look::Rest);
        assert_eq!(reload.look(&"new", at(0)), Look::New);
        reload.handle_taken("new");
        assert_eq!(reload.look(&"new", at(1000)), Look::Rest);
        assert_eq!(reload.in_use(), &"new");
    }

    #[test]
    fn what_can_not_be_read_is_left_until_it_differs() {
        let mut reload = Reload::new("old");
        reload.handle_unreadable("torn");
        assert_eq!(reload.look(&"torn", at(100_000)), Look::Rest);
        assert_eq!(reload.look(&"whole", at(100_001)), Look::New);
    }

    #[test]
    fn what_does_not_prove_itself_is_tried_again_after_growing_pauses() {
        let mut reload = Reload::new("old");
        let mut now = 0;
        for pause in [5, 10, 20, 40, 80, 160, 300, 300] {
            reload.handle_unproven("new", at(now), 0.0);
            assert_eq!(reload.look(&"new", at(now + pause - 1)), Look::Rest, "{pause}");
            now += pause;
            assert_eq!(reload.look(&"new", at(now)), Look::Again, "{pause}");
        }
        assert_eq!(reload.look(&"newer", at(now)), Look::New, "at once");
        reload.handle_unproven("newer", at(now), 0.0);
        assert_eq!(reload.look(&"newer", at(now + 5)), Look::Again, "pauses begin anew");
    }

    #[test]
    fn what_is_put_back_is_forgotten() {
        let mut reload = Reload::new("old");
        reload.handle_unreadable("torn");
        assert_eq!(reload.look(&"old", at(0)), Look::Rest);
        assert_eq!(reload.look(&"torn", at(1)), Look::New);
    }

    #[test]
    fn what_needs_a_restart_is_named_apart() {
        let changes = Changes::new(["api-key", "api-url"], |key| *key == "api-key");
        assert_eq!(changes.at_once, ["api-key"].into());
        assert_eq!(changes.at_restart, ["api-url"].into());
    }

    #[test]
    fn what_waits_for_a_restart_alone_is_looked_at_once_and_proven_by_nobody() {
        let mut reload = Reload::new("old");
        let sort =
            |differ: &[&'static str]| Changes::new(differ.iter().copied(), |key| *key == "api-key");
        assert!(!reload.handle_read("other url", &sort(&["api-url"])));
        assert_eq!(reload.look(&"other url", at(100_000)), Look::Rest);
        assert!(!reload.handle_read("comment", &sort(&[])));
        assert!(reload.handle_read("other key", &sort(&["api-key", "api-url"])));
        assert_eq!(reload.in_use(), &"comment", "not before it is proven");
    }

    fn machines(ids: &[&str]) -> Vec<VirtualMachine> {
        let machine = |id: &&str| VirtualMachine {
            id: VirtualMachineId::parse(id).unwrap(),
            name: "node-1".to_owned(),
            state: "Running".to_owned(),
            zone: "zone-1".to_owned(),
            offering: None,
            nics: Vec::new(),
            public_ip: None,
        };
        ids.iter().map(machine).collect()
    }

    fn failed(fault: Fault, code: Option<u16>) -> CallError {
        CallError {
            command: "listVirtualMachines".to_owned(),
            code,
            fault,
            effect: Effect::No,
            retry_after: None,
            message: "no".to_owned(),
        }
    }

    #[test]
    fn credentials_of_another_account_are_known_by_what_they_see() {
        let ours = || Ok(machines(&["u1", "u2"]));
        assert_eq!(
            prove_account(Ok(machines(&["u2", "u3"])), ours()),
            Ok(()),
            "machines come and go"
        );
        assert_eq!(prove_account(Ok(machines(&["u8"])), ours()), Err(Unproven::OtherAccount));
        assert_eq!(prove_account(Ok(machines(&[])), ours()), Err(Unproven::OtherAccount));
        assert_eq!(
            prove_account(Ok(machines(&["u1"])), Ok(machines(&[]))),
            Ok(()),
            "nothing is lost"
        );
    }

    #[test]
    fn a_failure_that_passes_proves_nothing() {
        let busy = || failed(Fault::Throttled, Some(429));
        assert_eq!(prove_account(Err(busy()), Ok(machines(&["u1"]))), Err(Unproven::New(busy())));
        assert_eq!(prove_account(Ok(machines(&["u1"])), Err(busy())), Err(Unproven::InUse(busy())));
    }

    #[test]
    fn credentials_that_are_refused_or_get_no_answer_hold_no_others_up() {
        let (refused, silent) =
            (failed(Fault::Permission, Some(401)), failed(Fault::Transient, None));
        for gone in [refused.clone(), silent] {
            assert_eq!(prove_account(Ok(machines(&["u1"])), Err(gone)), Ok(()));
        }
        assert_eq!(prove_account(Err(refused), Ok(machines(&["u1"]))), Ok(()), "it plans nothing");
    }
}
