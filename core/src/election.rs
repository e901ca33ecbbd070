//! Leader election over one Lease: who may change anything.
//!
//! [`Election::poll`] says what to do next, [`Election::handle`] takes what the API server answered.
//! Nobody's clock but our own counts: a Lease has expired when we have not seen it change for as
//! long as it says, whatever its `renewTime`. And we lead only until the renew deadline has passed
//! since we *sent* the last renewal that succeeded, which is before anybody else can lead.
//!
//! `now` must come from a clock that is never set: one reading of the wall clock, plus what a
//! monotonic clock says has passed since.

use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;

use crate::time::later;

/// How long a Lease lasts and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Durations that would let two lead at once, or nobody for long.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TimingError {
    /// Others would lead before we stop.
    #[error(
        "`--leader-elect-lease-duration` is {lease_duration:?}, which must be longer than \
         `--leader-elect-renew-deadline` ({renew_deadline:?})"
    )]
    LeaseTooShort {
        /// `--leader-elect-lease-duration`.
        lease_duration: Duration,
        /// `--leader-elect-renew-deadline`.
        renew_deadline: Duration,
    },
    /// One renewal that fails would end it.
    #[error(
        "`--leader-elect-renew-deadline` is {renew_deadline:?}, which must be longer than 1.2 times \
         `--leader-elect-retry-period` ({retry_period:?})"
    )]
    DeadlineTooShort {
        /// `--leader-elect-renew-deadline`.
        renew_deadline: Duration,
        /// `--leader-elect-retry-period`.
        retry_period: Duration,
    },
    /// The API server would be asked without a pause.
    #[error("`--leader-elect-retry-period` is 0s; write for example `2s`")]
    NoRetryPeriod,
}

impl Timing {
    /// `--leader-elect-lease-duration`, `--leader-elect-renew-deadline`,
    /// `--leader-elect-retry-period`.
    ///
    /// # Errors
    /// [`TimingError`] unless lease duration > renew deadline > 1.2 × retry period > 0.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, TimingError> {
        if lease_duration <= renew_deadline {
            return Err(TimingError::LeaseTooShort { lease_duration, renew_deadline });
        }
        if renew_deadline.saturating_mul(10) <= retry_period.saturating_mul(12) {
            return Err(TimingError::DeadlineTooShort { renew_deadline, retry_period });
        }
        if retry_period.is_zero() {
            return Err(TimingError::NoRetryPeriod);
        }
        Ok(Self { lease_duration, renew_deadline, retry_period })
    }

    /// How long a request about the Lease may take: half the renew deadline, but at least a second.
    pub fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// `leaseDurationSeconds`, rounded up: nobody leads earlier for it.
    fn lease_seconds(&self) -> i32 {
        let whole = self.lease_duration.as_secs();
        let begun = u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(whole.saturating_add(begun)).unwrap_or(i32::MAX)
    }
}

impl Default for Timing {
    /// 15 s, 10 s, 2 s.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// `spec` of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// `holderIdentity`; empty, also for none: nobody holds it.
    pub holder: String,
    /// `leaseDurationSeconds`; 0 for none.
    pub duration_seconds: i32,
    /// `acquireTime`.
    pub acquired: Option<Timestamp>,
    /// `renewTime`.
    pub renewed: Option<Timestamp>,
    /// `leaseTransitions`: how often it went from one to another.
    pub transitions: i32,
}

/// A Lease as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What it says.
    pub record: LeaseRecord,
    /// `metadata.resourceVersion`.
    pub version: String,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the Lease, from the API server and no cache; hand in the answer.
    Get,
    /// Create it; hand in the answer.
    Create(LeaseRecord),
    /// Replace it if it still has this `resourceVersion`; hand in the answer.
    Update(LeaseRecord, String),
    /// Nothing before this time, unless an answer comes.
    Wait(Timestamp),
    /// We led and no longer do: stop at once and exit.
    Lost,
    /// We don't lead any more, as was asked for.
    Released,
}

/// What the API server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The Lease as it is now: what was read, or what was written.
    Lease(Lease),
    /// 404.
    NotFound,
    /// 409: somebody else wrote it, or created it first.
    Conflict,
    /// Anything else, no answer in time too: nobody knows whether a write took effect.
    Failed,
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    timing: Timing,
    seen: Option<Seen>,
    next: (Step, Timestamp),
    out: Option<(Call, Timestamp)>,
    role: Role,
}

/// The Lease, and since when it has been as it is.
#[derive(Clone, Debug)]
struct Seen {
    lease: Lease,
    since: Timestamp,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Look,
    Write,
}

/// A request that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Look,
    Claim,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Candidate,
    /// The last renewal that succeeded was sent then. In doubt after a conflict.
    Leader {
        renewed: Timestamp,
        in_doubt: bool,
    },
    /// As a leader, until the Lease is given up.
    Leaving {
        renewed: Timestamp,
    },
    Lost,
    Released,
}

impl Election {
    /// A candidate that begins at `now`. The identity must be unique to the process:
    /// `<hostname>_<uuid>`.
    pub fn new(identity: impl Into<String>, timing: Timing, now: Timestamp) -> Self {
        Self {
            identity: identity.into(),
            timing,
            seen: None,
            next: (Step::Look, now),
            out: None,
            role: Role::Candidate,
        }
    }

    /// Whether we may change anything: to be asked before each call that does. False from the renew
    /// deadline on, without any call, and while a conflict is looked into; only [`Action::Lost`] is
    /// for good.
    pub fn is_leader(&self, now: Timestamp) -> bool {
        match self.role {
            Role::Leader { renewed, in_doubt } => !in_doubt && self.is_current(renewed, now),
            Role::Candidate | Role::Leaving { .. } | Role::Lost | Role::Released => false,
        }
    }

    /// Who holds the Lease, as last seen.
    pub fn holder(&self) -> Option<&str> {
        let holder = self.seen.as_ref()?.lease.record.holder.as_str();
        (!holder.is_empty()).then_some(holder)
    }

    /// Gives the Lease up, or stops to ask for it. Until then somebody who leads goes on renewing:
    /// ask for it when all that was running is over.
    pub fn release(&mut self, now: Timestamp) {
        self.role = match self.role {
            Role::Candidate if self.out.is_none() => Role::Released,
            // A claim may be out: what it brings is given up when the answer comes.
            Role::Candidate => Role::Leaving { renewed: now },
            Role::Leader { renewed, in_doubt: _ } => Role::Leaving { renewed },
            role @ (Role::Leaving { .. } | Role::Lost | Role::Released) => role,
        };
        self.next.1 = now;
    }

    /// What to do next. After a request, the next thing to do is to wait for its answer.
    pub fn poll(&mut self, now: Timestamp) -> Action {
        self.expire(now);
        let deadline = match self.role {
            Role::Lost => return Action::Lost,
            Role::Released => return Action::Released,
            Role::Candidate => Timestamp::MAX,
            Role::Leader { renewed, .. } | Role::Leaving { renewed } => self.deadline(renewed),
        };
        let (step, at) = self.next;
        if self.out.is_some() {
            return Action::Wait(deadline);
        }
        if now < at {
            return Action::Wait(at.min(deadline));
        }
        match step {
            Step::Look => {
                self.out = Some((Call::Look, now));
                Action::Get
            }
            Step::Write => self.write(now),
        }
    }

    /// Takes the answer to the last request. `jitter`, 0.0 to 1.0, spreads candidates: they look
    /// again after 1 to 2.2 retry periods.
    pub fn handle(&mut self, answer: Answer, now: Timestamp, jitter: f64) {
        let Some((call, sent)) = self.out.take() else {
            return;
        };
        match (call, answer) {
            (Call::Look, Answer::Lease(lease)) => {
                self.see(lease, now);
                self.judge(sent, now, jitter);
            }
            (Call::Look, Answer::NotFound) => {
                self.seen = None;
                self.next = (Step::Write, now);
            }
            (Call::Claim, Answer::Lease(lease)) => {
                self.see(lease, now);
                self.claimed(sent, now);
            }
            (Call::Release, Answer::Lease(_)) => self.role = Role::Released,
            (Call::Claim | Call::Release, Answer::Conflict | Answer::NotFound) => {
                self.look_into(sent, now, jitter);
            }
            (Call::Look, Answer::Conflict) | (_, Answer::Failed) => {
                self.next = (Step::Look, self.paced(sent, now, jitter));
            }
        }
    }

    /// One who leads and could not renew for too long does not lead any more.
    fn expire(&mut self, now: Timestamp) {
        let (renewed, end) = match self.role {
            Role::Leader { renewed, .. } => (renewed, Role::Lost),
            Role::Leaving { renewed } => (renewed, Role::Released),
            Role::Candidate | Role::Lost | Role::Released => return,
        };
        if !self.is_current(renewed, now) {
            self.role = end;
        }
    }

    fn write(&mut self, now: Timestamp) -> Action {
        let leaving = matches!(self.role, Role::Leaving { .. });
        if leaving && !self.is_mine() {
            self.role = Role::Released;
            return Action::Released;
        }
        let call = if leaving { Call::Release } else { Call::Claim };
        self.out = Some((call, now));
        let record = if leaving { self.farewell(now) } else { self.claim(now) };
        match &self.seen {
            Some(seen) => Action::Update(record, seen.lease.version.clone()),
            None => Action::Create(record),
        }
    }

    /// The record of one who leads from `now` on, or goes on leading.
    fn claim(&self, now: Timestamp) -> LeaseRecord {
        let found = self.seen.as_ref().map(|seen| &seen.lease.record);
        let mine = found.filter(|_| self.is_mine());
        let transitions = match (mine, found) {
            (Some(mine), _) => mine.transitions,
            (None, Some(found)) => found.transitions.saturating_add(1),
            (None, None) => 0,
        };
        LeaseRecord {
            holder: self.identity.clone(),
            duration_seconds: self.timing.lease_seconds(),
            acquired: mine.and_then(|mine| mine.acquired).or(Some(now)),
            renewed: Some(now),
            transitions,
        }
    }

    /// The record that leaves the Lease to anybody.
    fn farewell(&self, now: Timestamp) -> LeaseRecord {
        LeaseRecord {
            holder: String::new(),
            duration_seconds: 1,
            acquired: Some(now),
            ..self.claim(now)
        }
    }

    fn see(&mut self, lease: Lease, now: Timestamp) {
        let before = self.seen.take().filter(|seen| seen.lease.record == lease.record);
        let since = before.map_or(now, |seen| seen.since);
        self.seen = Some(Seen { lease, since });
    }

    /// What the Lease, freshly read, means.
    fn judge(&mut self, sent: Timestamp, now: Timestamp, jitter: f64) {
        let mine = self.is_mine();
        match &mut self.role {
            Role::Leader { in_doubt, .. } if mine => *in_doubt = false,
            Role::Leader { .. } => self.role = Role::Lost,
            Role::Leaving { .. } if !mine => self.role = Role::Released,
            Role::Candidate | Role::Leaving { .. } | Role::Lost | Role::Released => {}
        }
        self.next = if mine || self.is_free(now) {
            (Step::Write, now)
        } else {
            (Step::Look, self.paced(sent, now, jitter))
        };
    }

    fn claimed(&mut self, sent: Timestamp, now: Timestamp) {
        match &mut self.role {
            Role::Candidate | Role::Leader { .. } => {
                self.role = Role::Leader { renewed: sent, in_doubt: false };
                self.next = (Step::Write, later(sent, self.timing.retry_period).max(now));
            }
            Role::Leaving { renewed } => {
                *renewed = sent;
                self.next = (Step::Write, now);
            }
            Role::Lost | Role::Released => {}
        }
    }

    /// Somebody else wrote the Lease. One who leads looks at once, and does nothing meanwhile.
    fn look_into(&mut self, sent: Timestamp, now: Timestamp, jitter: f64) {
        self.next = (Step::Look, now);
        match &mut self.role {
            Role::Leader { in_doubt, .. } => *in_doubt = true,
            Role::Candidate => self.next.1 = self.paced(sent, now, jitter),
            Role::Leaving { .. } | Role::Lost | Role::Released => {}
        }
    }

    /// A retry period after `sent`; longer for a candidate.
    fn paced(&self, sent: Timestamp, now: Timestamp, jitter: f64) -> Timestamp {
        let factor = match self.role {
            Role::Candidate => 1.0 + 1.2 * jitter.clamp(0.0, 1.0),
            Role::Leader { .. } | Role::Leaving { .. } | Role::Lost | Role::Released => 1.0,
        };
        later(sent, self.timing.retry_period.mul_f64(factor)).max(now)
    }

    fn is_mine(&self) -> bool {
        self.holder() == Some(self.identity.as_str())
    }

    /// Whether nobody holds the Lease, or its holder has let it expire.
    fn is_free(&self, now: Timestamp) -> bool {
        let (Some(seen), Some(_)) = (&self.seen, self.holder()) else {
            return true;
        };
        let duration = match u64::try_from(seen.lease.record.duration_seconds) {
            Ok(0) | Err(_) => self.timing.lease_duration,
            Ok(seconds) => Duration::from_secs(seconds),
        };
        now >= later(seen.since, duration)
    }

    fn deadline(&self, renewed: Timestamp) -> Timestamp {
        later(renewed, self.timing.renew_deadline)
    }

    fn is_current(&self, renewed: Timestamp, now: Timestamp) -> bool {
        renewed <= now && now < self.deadline(renewed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RETRY: f64 = 2.0;

    /// `seconds` after the start of the test, on a clock that nobody sets.
    fn at(seconds: f64) -> Timestamp {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        later(start, Duration::from_secs_f64(seconds))
    }

    fn candidate(name: &str) -> Election {
        Election::new(name, Timing::default(), at(0.0))
    }

    /// The one Lease of an API server.
    #[derive(Default)]
    struct Server {
        lease: Option<Lease>,
        writes: u64,
    }

    impl Server {
        fn holding(holder: &str, renewed: Timestamp) -> Self {
            let mut server = Self::default();
            server.write(LeaseRecord {
                holder: holder.to_owned(),
                duration_seconds: 15,
                acquired: Some(renewed),
                renewed: Some(renewed),
                transitions: 4,
            });
            server
        }

        fn write(&mut self, record: LeaseRecord) -> Answer {
            self.writes += 1;
            let lease = Lease { record, version: self.writes.to_string() };
            self.lease = Some(lease.clone());
            Answer::Lease(lease)
        }

        /// As `kubectl annotate` does.
        fn touch(&mut self) {
            let record = self.record().clone();
            self.write(record);
        }

        fn record(&self) -> &LeaseRecord {
            &self.lease.as_ref().unwrap().record
        }

        fn answer(&mut self, action: &Action) -> Answer {
            match (action, &self.lease) {
                (Action::Get, Some(lease)) => Answer::Lease(lease.clone()),
                (Action::Get | Action::Update(..), None) => Answer::NotFound,
                (Action::Create(_), Some(_)) => Answer::Conflict,
                (Action::Create(record), None) => self.write(record.clone()),
                (Action::Update(_, version), Some(lease)) if lease.version != *version => {
                    Answer::Conflict
                }
                (Action::Update(record, _), Some(_)) => self.write(record.clone()),
                (Action::Wait(_) | Action::Lost | Action::Released, _) => panic!("{action:?}"),
            }
        }
    }

    /// Lets a candidate do what it wants at `now`; `Err` while the API server can't be reached.
    fn run(election: &mut Election, server: Option<&mut Server>, now: Timestamp) -> Vec<Action> {
        let mut server = server;
        let mut actions = Vec::new();
        loop {
            let action = election.poll(now);
            actions.push(action.clone());
            if matches!(action, Action::Wait(_) | Action::Lost | Action::Released) {
                return actions;
            }
            let answer = match &mut server {
                Some(server) => server.answer(&action),
                None => Answer::Failed,
            };
            election.handle(answer, now, 0.0);
        }
    }

    fn leader(name: &str) -> (Election, Server) {
        let (mut election, mut server) = (candidate(name), Server::default());
        run(&mut election, Some(&mut server), at(0.0));
        assert!(election.is_leader(at(0.0)));
        (election, server)
    }

    #[test]
    fn the_first_creates_the_lease_and_leads() {
        let (mut election, mut server) = (candidate("a"), Server::default());
        assert!(!election.is_leader(at(0.0)));
        let actions = run(&mut election, Some(&mut server), at(0.0));
        let record = LeaseRecord {
            holder: "a".to_owned(),
            duration_seconds: 15,
            acquired: Some(at(0.0)),
            renewed: Some(at(0.0)),
            transitions: 0,
        };
        assert_eq!(actions, [Action::Get, Action::Create(record), Action::Wait(at(RETRY))]);
        assert!(election.is_leader(at(0.0)));
        assert_eq!(election.holder(), Some("a"));
    }

    #[test]
    fn a_leader_renews_with_one_call_each_retry_period() {
        let (mut election, mut server) = leader("a");
        for round in 1..=20 {
            let now = at(RETRY * f64::from(round));
            let actions = run(&mut election, Some(&mut server), now);
            assert!(matches!(actions[..], [Action::Update(..), Action::Wait(_)]), "{actions:?}");
            let LeaseRecord { holder, acquired, renewed, transitions, .. } = server.record();
            assert_eq!((holder.as_str(), *transitions), ("a", 0));
            assert_eq!((*acquired, *renewed), (Some(at(0.0)), Some(now)));
        }
        assert!(election.is_leader(at(49.9)));
    }

    #[test]
    fn candidates_look_again_after_one_to_two_and_a_fifth_retry_periods() {
        for (jitter, wait) in [(0.0, 2.0), (0.5, 3.2), (1.0, 4.4), (7.0, 4.4)] {
            let (mut election, mut server) = (candidate("b"), Server::holding("a", at(0.0)));
            let action = election.poll(at(0.0));
            election.handle(server.answer(&action), at(0.0), jitter);
            assert_eq!(election.poll(at(0.0)), Action::Wait(at(wait)), "{jitter}");
        }
    }

    #[test]
    fn clocks_of_others_do_not_count() {
        for skew in [-86_400.0, -15.0, 0.0, 15.0, 86_400.0] {
            let renewed = at(100_000.0 + skew);
            let mut server = Server::holding("other", renewed);
            let mut election = candidate("a");
            let mut led = None;
            for tick in 0..20 {
                let now = at(100_000.0 + RETRY * f64::from(tick));
                run(&mut election, Some(&mut server), now);
                led = led.or_else(|| election.is_leader(now).then_some(tick));
            }
            assert_eq!(led, Some(8), "16 s after it was seen first, skew {skew}");
        }
    }

    #[test]
    fn c081_a_go_controller_that_goes_on_renewing_keeps_the_lease_and_one_that_stops_loses_it() {
        let mut server = Server::holding("node-1_0c8e", at(0.0));
        let mut election = candidate("a");
        let mut now = at(0.0);
        for round in 0..30 {
            now = at(RETRY * f64::from(round));
            let record = LeaseRecord { renewed: Some(now), ..server.record().clone() };
            server.write(record);
            run(&mut election, Some(&mut server), now);
            assert!(!election.is_leader(now));
            assert_eq!(election.holder(), Some("node-1_0c8e"));
        }
        let stopped = now;
        while !election.is_leader(now) {
            let Action::Wait(next) = election.poll(now) else { panic!("it waits") };
            now = next;
            run(&mut election, Some(&mut server), now);
        }
        assert_eq!(now.duration_since(stopped).as_secs(), 16, "the first look after 15 s");
        let record = server.record();
        assert_eq!((record.transitions, record.acquired), (5, Some(now)));
    }

    #[test]
    fn a_lease_lasts_as_long_as_its_holder_says() {
        for (says, lasts) in [(30, 30), (15, 16), (0, 16), (-3, 16)] {
            let mut server = Server::holding("other", at(0.0));
            server.lease.as_mut().unwrap().record.duration_seconds = says;
            let mut election = candidate("a");
            let led = (0..60).find(|second| {
                run(&mut election, Some(&mut server), at(f64::from(*second)));
                election.is_leader(at(f64::from(*second)))
            });
            assert_eq!(led, Some(lasts), "{says}");
        }
    }

    #[test]
    fn leading_ends_at_the_renew_deadline_without_any_call() {
        let (mut election, _) = leader("a");
        assert!(election.is_leader(at(9.999)));
        assert!(!election.is_leader(at(10.0)));
        assert!(
            !election.is_leader(at(0.0) - Duration::from_secs(1)),
            "a clock that was set back proves nothing"
        );
        assert_eq!(election.poll(at(10.0)), Action::Lost);
    }

    #[test]
    fn c080_an_unreachable_api_server_ends_leading_after_retries() {
        let (mut election, mut server) = leader("a");
        let mut looks = 0;
        for tick in 1..100 {
            let now = at(f64::from(tick) / 10.0);
            looks += run(&mut election, None, now).len() - 1;
            assert!(election.is_leader(now));
        }
        assert_eq!(looks, 4, "one try each retry period");
        assert_eq!(run(&mut election, Some(&mut server), at(10.0)), [Action::Lost]);
        assert_eq!(run(&mut election, Some(&mut server), at(11.0)), [Action::Lost], "for good");
    }

    #[test]
    fn one_failed_renewal_is_made_good() {
        let (mut election, mut server) = leader("a");
        run(&mut election, None, at(2.0));
        let actions = run(&mut election, Some(&mut server), at(4.0));
        assert!(matches!(actions[..], [Action::Get, Action::Update(..), Action::Wait(_)]));
        assert!(election.is_leader(at(13.9)));
        assert_eq!(server.record().acquired, Some(at(0.0)));
    }

    #[test]
    fn a_renewal_without_an_answer_neither_blocks_the_loss_nor_undoes_it() {
        let (mut election, mut server) = leader("a");
        let renewal = election.poll(at(2.0));
        assert_eq!(election.poll(at(3.0)), Action::Wait(at(10.0)));
        assert!(!election.is_leader(at(10.0)));
        assert_eq!(election.poll(at(10.0)), Action::Lost);
        election.handle(server.answer(&renewal), at(11.0), 0.0);
        assert!(!election.is_leader(at(11.0)));
        assert_eq!(election.poll(at(11.0)), Action::Lost);
    }

    #[test]
    fn a_slow_answer_counts_from_when_the_renewal_was_sent() {
        let (mut election, mut server) = leader("a");
        let renewal = election.poll(at(2.0));
        election.handle(server.answer(&renewal), at(6.0), 0.0);
        assert!(election.is_leader(at(11.9)));
        assert!(!election.is_leader(at(12.0)));
    }

    #[test]
    fn a_stolen_lease_stops_the_leader_at_once() {
        let (mut election, mut server) = leader("a");
        server.write(LeaseRecord { holder: "thief".into(), ..server.record().clone() });
        let renewal = election.poll(at(2.0));
        election.handle(server.answer(&renewal), at(2.0), 0.0);
        assert!(!election.is_leader(at(2.0)), "from the conflict on");
        assert_eq!(run(&mut election, Some(&mut server), at(2.0)), [Action::Get, Action::Lost]);
        assert_eq!(server.record().holder, "thief");
    }

    #[test]
    fn a_conflict_that_leaves_the_lease_ours_is_got_over() {
        let (mut election, mut server) = leader("a");
        server.touch();
        let actions = run(&mut election, Some(&mut server), at(2.0));
        assert!(matches!(
            actions[..],
            [Action::Update(..), Action::Get, Action::Update(..), Action::Wait(_)]
        ));
        assert!(election.is_leader(at(2.0)));
        assert_eq!(server.record().transitions, 0);
    }

    #[test]
    fn a_conflict_that_can_not_be_looked_into_stops_the_leader_for_as_long() {
        let (mut election, mut server) = leader("a");
        server.touch();
        let renewal = election.poll(at(2.0));
        election.handle(server.answer(&renewal), at(2.0), 0.0);
        run(&mut election, None, at(2.0));
        assert!(!election.is_leader(at(3.0)));
        run(&mut election, Some(&mut server), at(4.0));
        assert!(election.is_leader(at(4.0)));
    }

    #[test]
    fn a_deleted_lease_is_made_again() {
        let (mut election, mut server) = leader("a");
        server.lease = None;
        run(&mut election, Some(&mut server), at(2.0));
        assert!(election.is_leader(at(2.0)));
        assert_eq!(server.record().holder, "a");
    }

    #[test]
    fn a_claim_that_was_lost_on_the_way_back_is_found_and_renewed() {
        let (mut election, mut server) = (candidate("a"), Server::holding("", at(0.0)));
        let look = election.poll(at(0.0));
        election.handle(server.answer(&look), at(0.0), 0.0);
        let claim = election.poll(at(0.0));
        server.answer(&claim);
        election.handle(Answer::Failed, at(5.0), 0.0);
        assert!(!election.is_leader(at(5.0)));
        run(&mut election, Some(&mut server), at(5.0));
        assert!(election.is_leader(at(5.0)));
        assert_eq!(server.record().transitions, 5, "counted once");
    }

    #[test]
    fn of_two_that_come_at_once_one_leads() {
        let (mut a, mut b, mut server) = (candidate("a"), candidate("b"), Server::default());
        let looks = [a.poll(at(0.0)), b.poll(at(0.0))].map(|look| server.answer(&look));
        let [of_a, of_b] = looks;
        a.handle(of_a, at(0.0), 0.0);
        b.handle(of_b, at(0.0), 0.0);
        run(&mut a, Some(&mut server), at(0.0));
        let actions = run(&mut b, Some(&mut server), at(0.0));
        assert!(matches!(actions[..], [Action::Create(_), Action::Wait(_)]), "and waits its turn");
        assert!(a.is_leader(at(0.0)) && !b.is_leader(at(0.0)));
    }

    #[test]
    fn c080_a_released_lease_is_taken_at_the_next_look() {
        let (mut a, mut server) = leader("a");
        let mut b = candidate("b");
        run(&mut b, Some(&mut server), at(1.0));
        a.release(at(1.5));
        assert!(!a.is_leader(at(1.5)));
        let actions = run(&mut a, Some(&mut server), at(1.5));
        assert!(matches!(actions[..], [Action::Update(..), Action::Released]), "{actions:?}");
        assert_eq!((server.record().holder.as_str(), server.record().duration_seconds), ("", 1));
        run(&mut b, Some(&mut server), at(1.0 + RETRY));
        assert!(b.is_leader(at(1.0 + RETRY)));
        assert_eq!(server.record().transitions, 1);
        assert_eq!(run(&mut a, Some(&mut server), at(4.0)), [Action::Released]);
    }

    #[test]
    fn one_who_never_led_leaves_without_a_call() {
        let (mut election, mut server) = (candidate("b"), Server::holding("a", at(0.0)));
        run(&mut election, Some(&mut server), at(0.0));
        election.release(at(1.0));
        assert_eq!(run(&mut election, Some(&mut server), at(1.0)), [Action::Released]);
        assert_eq!(server.writes, 1);
    }

    #[test]
    fn a_claim_that_is_out_when_we_leave_is_given_back() {
        let (mut election, mut server) = (candidate("a"), Server::default());
        let look = election.poll(at(0.0));
        election.handle(server.answer(&look), at(0.0), 0.0);
        let claim = election.poll(at(0.0));
        election.release(at(0.0));
        election.handle(server.answer(&claim), at(0.1), 0.0);
        assert!(!election.is_leader(at(0.1)));
        run(&mut election, Some(&mut server), at(0.1));
        assert_eq!(server.record().holder, "");
    }

    #[test]
    fn leaving_does_not_touch_what_another_took_and_ends_without_an_api_server() {
        let (mut election, mut server) = leader("a");
        server.write(LeaseRecord { holder: "b".into(), ..server.record().clone() });
        election.release(at(1.0));
        let actions = run(&mut election, Some(&mut server), at(1.0));
        assert!(matches!(actions[..], [Action::Update(..), Action::Get, Action::Released]));
        assert_eq!(server.record().holder, "b");

        let (mut election, _) = leader("a");
        election.release(at(1.0));
        assert!(matches!(run(&mut election, None, at(1.0)).last(), Some(Action::Wait(_))));
        assert_eq!(run(&mut election, None, at(10.0)), [Action::Released]);
    }

    #[test]
    fn timings_that_do_not_fit_are_refused_by_flag() {
        let new = |lease, renew, retry| {
            let [lease, renew, retry] = [lease, renew, retry].map(Duration::from_millis);
            Timing::new(lease, renew, retry)
        };
        assert_eq!(new(15_000, 10_000, 2_000), Ok(Timing::default()));
        assert_eq!(
            new(10_000, 10_000, 2_000).unwrap_err().to_string(),
            "`--leader-elect-lease-duration` is 10s, which must be longer than \
             `--leader-elect-renew-deadline` (10s)"
        );
        assert_eq!(
            new(15_000, 2_400, 2_000).unwrap_err().to_string(),
            "`--leader-elect-renew-deadline` is 2.4s, which must be longer than 1.2 times \
             `--leader-elect-retry-period` (2s)"
        );
        assert!(new(15_000, 2_401, 2_000).is_ok());
        assert_eq!(new(15_000, 10_000, 0), Err(TimingError::NoRetryPeriod));
        assert_eq!(new(15_001, 10_000, 2_000).unwrap().lease_seconds(), 16);
        assert_eq!(Timing::default().request_timeout(), Duration::from_secs(5));
        assert_eq!(new(2_000, 1_500, 100).unwrap().request_timeout(), Duration::from_secs(1));
    }

    /// What the network does to one request.
    #[derive(Clone, Copy, Debug)]
    enum Fate {
        Answered,
        Refused,
        DoneUnanswered,
        Hangs,
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![
            4 => Just(Fate::Answered),
            2 => Just(Fate::Refused),
            1 => Just(Fate::DoneUnanswered),
            1 => Just(Fate::Hangs),
        ]
    }

    proptest! {
        #[test]
        fn never_two_lead_at_once(
            fates in prop::collection::vec(fate(), 300),
            skews in prop::array::uniform3(-3600..3600_i32),
            leaves_at in 0..900_i32,
        ) {
            let local = |skew: i32, tick: i32| at(10_000.0 + f64::from(skew) + f64::from(tick) / 10.0);
            let mut server = Server::default();
            let mut fates = fates.into_iter().cycle();
            let mut candidates: Vec<_> = skews
                .iter()
                .enumerate()
                .map(|(index, skew)| {
                    let name = format!("candidate-{index}");
                    (Election::new(name, Timing::default(), local(*skew, 0)), *skew, None)
                })
                .collect();
            for tick in 0..900 {
                for (index, (election, skew, unanswered)) in candidates.iter_mut().enumerate() {
                    let now = local(*skew, tick);
                    if index == 0 && tick == leaves_at {
                        election.release(now);
                    }
                    if unanswered.take_if(|until| *until <= tick).is_some() {
                        election.handle(Answer::Failed, now, 0.3);
                    }
                    let action = election.poll(now);
                    if !matches!(action, Action::Get | Action::Create(_) | Action::Update(..)) {
                        continue;
                    }
                    match fates.next().unwrap() {
                        Fate::Answered => election.handle(server.answer(&action), now, 0.3),
                        Fate::Refused => election.handle(Answer::Failed, now, 0.3),
                        Fate::DoneUnanswered => {
                            server.answer(&action);
                            *unanswered = Some(tick + 50);
                        }
                        Fate::Hangs => *unanswered = Some(tick + 50),
                    }
                }
                let leaders = candidates
                    .iter()
                    .filter(|(election, skew, _)| election.is_leader(local(*skew, tick)))
                    .count();
                prop_assert!(leaders <= 1, "at {tick}");
            }
        }
    }
}
