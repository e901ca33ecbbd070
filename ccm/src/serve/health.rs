//! Whether this process is well: named checks, and which question each of them answers.
//!
//! `/healthz` and `/livez` ask whether a restart would help: leadership that is not renewed, workers
//! that do not move. `/readyz` asks whether work can be done now: caches, CloudStack, credentials;
//! nothing there is a reason to restart. Standby replicas are healthy.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccm_core::controllers::Controller;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::slis::Slis;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Probe {
    /// `/healthz`.
    Healthz,
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
}

impl Probe {
    /// As it stands in paths and answers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// All checks. A clone is the same.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<&'static str, Check>>>, Arc<Slis>);

#[derive(Clone, Debug)]
struct Check {
    about: About,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Life,
    Readiness,
}

#[derive(Clone, Debug)]
enum State {
    Ok,
    Failed(String),
    /// What a controller does at this moment, and when each of it last moved on.
    AtWork {
        moved: BTreeMap<u64, Instant>,
        patience: Duration,
    },
}

impl State {
    fn verdict(&self) -> Result<(), String> {
        match self {
            Self::Ok => Ok(()),
            Self::Failed(reason) => Err(reason.clone()),
            Self::AtWork { moved, patience } => match moved.values().min().map(Instant::elapsed) {
                Some(still) if still > *patience => {
                    Err(format!("no sign of life for {} s", still.as_secs()))
                }
                Some(_) | None => Ok(()),
            },
        }
    }
}

impl Health {
    /// No checks: all is well.
    pub fn new() -> Self {
        Self::default()
    }

    /// The check `leaderElection`, well until told otherwise. For processes that elect.
    pub fn leader_election(&self) -> Condition {
        self.condition("leaderElection", About::Life, State::Ok)
    }

    /// The check of a controller that starts now, under its name. It fails `/healthz` and `/livez`
    /// while something that it does has not moved on for longer than `patience`.
    pub fn controller(&self, controller: Controller, patience: Duration) -> Heart {
        let state = State::AtWork { moved: BTreeMap::new(), patience };
        Heart(self.condition(controller.name(), About::Life, state), Arc::default())
    }

    /// A check of `/readyz` (`caches`, `cloudstack`, `credentials`), which fails until told
    /// otherwise.
    pub fn readiness(&self, name: &'static str) -> Condition {
        self.condition(name, About::Readiness, State::Failed("not known yet".to_owned()))
    }

    fn condition(&self, name: &'static str, about: About, state: State) -> Condition {
        self.checks().insert(name, Check { about, state });
        Condition { health: self.clone(), name }
    }

    /// What a probe is answered: whether all is well, and the text.
    pub(super) fn answer(&self, probe: Probe, asked: &Asked) -> (bool, String) {
        let name = probe.name();
        let mut text = String::new();
        let mut well = true;
        let verdicts = self.verdicts(probe);
        for (check, verdict) in &verdicts {
            self.slis().note(probe, check, verdict.is_ok());
            // Writing to a String can't fail.
            let _ = match verdict {
                _ if asked.exclude.iter().any(|excluded| excluded == check) => {
                    writeln!(text, "[+]{check} excluded: ok")
                }
                Ok(()) => writeln!(text, "[+]{check} ok"),
                Err(reason) => {
                    match probe {
                        // A restart is near.
                        Probe::Healthz | Probe::Livez => warn!(check, reason, "check failed"),
                        Probe::Readyz => debug!(check, reason, "not ready"),
                    }
                    well = false;
                    writeln!(text, "[-]{check} failed: reason withheld")
                }
            };
        }
        let is_unknown = |name: &&String| !verdicts.iter().any(|(check, _)| check == *name);
        for unknown in asked.exclude.iter().filter(is_unknown) {
            let _ = writeln!(
                text,
                "warn: some health checks cannot be excluded: no matches for {unknown:?}"
            );
        }
        match (well, asked.verbose) {
            (true, false) => (true, "ok".to_owned()),
            (true, true) => (true, format!("{text}{name} check passed\n")),
            (false, _) => (false, format!("{text}{name} check failed\n")),
        }
    }

    /// What a single check says, if there is one of that name.
    pub fn check(&self, probe: Probe, name: &str) -> Option<Result<(), String>> {
        let mut verdicts = self.verdicts(probe).into_iter();
        verdicts.find(|(check, _)| *check == name).map(|(_, verdict)| verdict)
    }

    /// What checks said when probes asked.
    pub(super) fn slis(&self) -> &Slis {
        &self.1
    }

    fn verdicts(&self, probe: Probe) -> Vec<(&'static str, Result<(), String>)> {
        let asked = match probe {
            Probe::Healthz | Probe::Livez => About::Life,
            Probe::Readyz => About::Readiness,
        };
        let checks = self.checks();
        let relevant = checks.iter().filter(|(_, check)| check.about == asked);
        let ping = ("ping", Ok(()));
        let verdicts = relevant.map(|(name, check)| (*name, check.state.verdict()));
        std::iter::once(ping).chain(verdicts).collect()
    }

    fn checks(&self) -> MutexGuard<'_, BTreeMap<&'static str, Check>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a probe was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// `?verbose`.
    pub(super) verbose: bool,
    /// `?exclude=`.
    pub(super) exclude: Vec<String>,
}

impl Asked {
    pub(super) fn read(query: &str) -> Self {
        let mut asked = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "verbose" => asked.verbose = true,
                "exclude" => asked.exclude.push(value.into_owned()),
                _ => {}
            }
        }
        asked
    }
}

/// A check that is told how it is.
#[derive(Clone)]
pub struct Condition {
    health: Health,
    name: &'static str,
}

impl Condition {
    /// All is well.
    pub fn holds(&self) {
        self.set(State::Ok);
    }

    /// Something is wrong. The reason goes to the log and never to strangers.
    pub fn fails(&self, reason: impl Into<String>) {
        self.set(State::Failed(reason.into()));
    }

    fn set(&self, state: State) {
        if let Some(check) = self.health.checks().get_mut(self.name) {
            check.state = state;
        }
    }
}

/// The heart of a controller: it beats while there is work. Waiting for work is rest.
#[derive(Clone)]
pub struct Heart(Condition, Arc<AtomicU64>);

impl Heart {
    /// Something begins, and ends with what is given back.
    pub fn work(&self) -> AtWork {
        let Self(condition, works) = self;
        let work =
            AtWork { condition: condition.clone(), id: works.fetch_add(1, Ordering::Relaxed) };
        work.beat();
        work
    }
}

/// A controller is at work as long as this lives.
pub struct AtWork {
    condition: Condition,
    id: u64,
}

impl AtWork {
    /// It moves on.
    pub fn beat(&self) {
        self.with_moved(|moved| {
            moved.insert(self.id, Instant::now());
        });
    }

    fn with_moved(&self, change: impl FnOnce(&mut BTreeMap<u64, Instant>)) {
        let Condition { health, name } = &self.condition;
        if let Some(State::AtWork { moved, .. }) =
            health.checks().get_mut(name).map(|check| &mut check.state)
        {
            change(moved);
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.with_moved(|moved| {
            moved.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(health: &Health, probe: Probe, query: &str) -> (bool, String) {
        health.answer(probe, &Asked::read(query))
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_does_not_move_fails_life_and_not_readiness() {
        let health = Health::new();
        let heart = health.controller(Controller::Service, Duration::from_mins(1));
        tokio::time::advance(Duration::from_hours(1)).await;
        assert!(ask(&health, Probe::Livez, "").0, "it rests");
        let (work, stuck) = (heart.work(), heart.work());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(ask(&health, Probe::Livez, ""), (true, "ok".to_owned()));
        work.beat();
        tokio::time::advance(Duration::from_secs(1)).await;
        let (well, text) = ask(&health, Probe::Livez, "");
        assert_eq!(
            (well, text.as_str()),
            (
                false,
                "[+]ping ok\n[-]service-lb-controller failed: reason withheld\nlivez check failed\n"
            )
        );
        assert!(!ask(&health, Probe::Healthz, "").0 && ask(&health, Probe::Readyz, "").0);
        stuck.beat();
        assert!(ask(&health, Probe::Livez, "").0, "it moves again");
        tokio::time::advance(Duration::from_mins(2)).await;
        drop((work, stuck));
        assert!(ask(&health, Probe::Livez, "").0, "it is through");
    }

    #[test]
    fn readiness_waits_for_every_condition_and_is_no_question_of_life() {
        let health = Health::new();
        let (caches, cloud) = (health.readiness("caches"), health.readiness("cloudstack"));
        caches.holds();
        assert!(!ask(&health, Probe::Readyz, "").0);
        assert!(ask(&health, Probe::Healthz, "").0 && ask(&health, Probe::Livez, "").0);
        cloud.holds();
        assert_eq!(
            ask(&health, Probe::Readyz, "verbose").1,
            "[+]ping ok\n[+]caches ok\n[+]cloudstack ok\nreadyz check passed\n"
        );
        cloud.fails("secret words");
        let (well, text) = ask(&health, Probe::Readyz, "verbose");
        assert!(!well && text.contains("[-]cloudstack failed") && !text.contains("secret"));
    }

    #[test]
    fn checks_can_be_excluded_and_asked_alone() {
        let health = Health::new();
        let election = health.leader_election();
        election.fails("not renewed");
        let (well, text) = ask(&health, Probe::Healthz, "exclude=leaderElection&exclude=x&verbose");
        assert!(well);
        assert_eq!(
            text,
            "[+]ping ok\n[+]leaderElection excluded: ok\n\
             warn: some health checks cannot be excluded: no matches for \"x\"\nhealthz check passed\n"
        );
        let alone = health.check(Probe::Healthz, "leaderElection");
        assert_eq!(alone, Some(Err("not renewed".to_owned())));
        assert_eq!(health.check(Probe::Healthz, "x"), None);
        assert_eq!(health.check(Probe::Readyz, "leaderElection"), None);
    }
}
