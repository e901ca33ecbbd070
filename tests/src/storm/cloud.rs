//! CloudStack, and the way to it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_cloudstack::{Transport, TransportError, WireRequest, WireResponse};
use ccm_simulator::world::State;
use ccm_simulator::{NoAnswer, Request, Response, Simulator};

use super::clock::{Clock, Dice};
use super::promise::Promise;
use super::request::{command, told};
use super::script::{CloudTrouble, Strike};
use super::watcher::Watcher;
use crate::lab::{answered, lock, received};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster sends fewer calls in an hour, whatever goes wrong.
const BUSY: u64 = 2_500;

/// CloudStack.
pub struct CloudStack {
    simulator: Arc<Mutex<Simulator>>,
    watcher: Arc<Watcher>,
    clock: Clock,
    account: &'static str,
    strike: Option<Strike>,
    troubles: Mutex<Vec<CloudTrouble>>,
    calls: Mutex<Calls>,
}

/// What was called so far.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// All calls.
    pub all: u64,
    /// Those that were answered as done. Whether a role allows a command is tried again each hour.
    pub changing: u64,
    /// The hash of them all and of when they came.
    pub trace: u64,
    /// The most of one cluster in one hour.
    pub busiest_hour: u64,
    this_hour: BTreeMap<usize, (u64, u64)>,
}

impl Calls {
    /// Counts a call of a cluster in an hour since the start; gives how many it is in that hour.
    fn count(&mut self, cluster: usize, hour: u64) -> u64 {
        self.all += 1;
        let (of, calls) = self.this_hour.entry(cluster).or_default();
        if *of != hour {
            (*of, *calls) = (hour, 0);
        }
        *calls += 1;
        self.busiest_hour = self.busiest_hour.max(*calls);
        *calls
    }
}

impl CloudStack {
    /// One in which nothing goes wrong yet.
    pub fn new(
        simulator: Arc<Mutex<Simulator>>,
        watcher: Arc<Watcher>,
        clock: Clock,
        account: &'static str,
        strike: Option<Strike>,
    ) -> Self {
        let (troubles, calls) = (Mutex::default(), Mutex::default());
        Self { simulator, watcher, clock, account, strike, troubles, calls }
    }

    /// Works on it as it is now.
    pub fn with<T>(&self, work: impl FnOnce(&mut Simulator) -> T) -> T {
        let mut simulator = lock(&self.simulator);
        simulator.advance(self.clock.right());
        work(&mut simulator)
    }

    /// What was called so far.
    pub fn calls(&self) -> Calls {
        lock(&self.calls).clone()
    }

    /// Somebody calls it in the account of the controllers; a refusal is theirs to bear.
    pub fn by_hand(&self, command: &str, params: &[(&str, &str)]) {
        let now = self.clock.right();
        self.with(|simulator| simulator.call(self.account, command, params, now));
    }

    /// Something goes wrong from now on.
    pub fn begin(&self, trouble: &CloudTrouble) {
        lock(&self.troubles).push(trouble.clone());
        self.with(|simulator| self.set(simulator, trouble, true));
        self.renew_faults();
    }

    /// And no more.
    pub fn end(&self, trouble: &CloudTrouble) {
        let mut troubles = lock(&self.troubles);
        if let Some(at) = troubles.iter().position(|found| found == trouble) {
            troubles.remove(at);
        }
        let goes_on = troubles.contains(trouble);
        drop(troubles);
        if !goes_on {
            self.with(|simulator| self.set(simulator, trouble, false));
        }
        self.renew_faults();
    }

    fn set(&self, simulator: &mut Simulator, trouble: &CloudTrouble, begins: bool) {
        match trouble {
            CloudTrouble::Command(..) => {}
            CloudTrouble::Router(part, blow) if begins => {
                simulator.fault_router((*part).into(), (*blow).into());
            }
            CloudTrouble::Router(part, _) => simulator.heal_router((*part).into()),
            CloudTrouble::Dead if begins => simulator.kill(),
            CloudTrouble::Dead => simulator.restart(),
            CloudTrouble::LockedOut => {
                let state = if begins { State::Disabled } else { State::Enabled };
                simulator.set_user_state(self.account, state).expect("the account");
            }
            CloudTrouble::Throttled => {
                let limit = if begins { "true" } else { "false" };
                simulator.set("api.throttling.enabled", limit).expect("a setting");
            }
        }
    }

    fn renew_faults(&self) {
        let troubles = lock(&self.troubles).clone();
        self.with(|simulator| {
            simulator.clear_faults();
            for trouble in &troubles {
                if let CloudTrouble::Command(command, blow, percent) = trouble {
                    simulator.inject(blow.fault(command.as_deref(), *percent));
                }
            }
        });
    }

    /// Lets a call meet with what is meant for it.
    fn strike(&self, simulator: &mut Simulator, called: &str) {
        let Some(Strike { command, call, blow }) = &self.strike else { return };
        if command == called && self.watcher.calls(called) + 1 == *call {
            simulator.inject(blow.fault(Some(command), 100).times(1));
        }
    }

    fn receive(&self, cluster: usize, request: &Request) -> Result<Response, NoAnswer> {
        let command = command(request).to_owned();
        let reads = command.starts_with("list") || command.starts_with("query");
        {
            let mut calls = lock(&self.calls);
            if calls.count(cluster, self.clock.seconds() / 3_600) == BUSY + 1 {
                let what = format!("cluster {cluster} sends more than {BUSY} calls in an hour");
                self.watcher.violate(Promise::Economy, what);
            }
            let mut hash = DefaultHasher::new();
            (calls.trace, cluster, &request.params, self.clock.right().as_millisecond())
                .hash(&mut hash);
            calls.trace = hash.finish();
        }
        let now = self.clock.right();
        self.with(|simulator| {
            self.strike(simulator, &command);
            let receive = |simulator: &mut Simulator| {
                let answer = simulator.receive(request, now);
                self.watcher.note_call(request, simulator.struck());
                answer
            };
            let answer = if reads {
                receive(simulator)
            } else {
                self.watcher.change(simulator, cluster, request, receive)
            };
            let is_done = answer.as_ref().is_ok_and(|answer| answer.status == 200);
            lock(&self.calls).changing += u64::from(!reads && is_done);
            if !command.starts_with("list") {
                self.watcher.log(|| {
                    let answer = match &answer {
                        Ok(answer) => format!("{} {}", answer.status, answer.body),
                        Err(reason) => format!("{reason:?}"),
                    };
                    format!("k{cluster} {command} {} -> {answer}", told(request))
                });
                if !is_pending(&answer) {
                    self.watcher.check_cloud(simulator);
                }
            }
            answer
        })
    }
}

/// Whether a job has not ended yet: nothing has changed since it was last asked for.
fn is_pending(answer: &Result<Response, NoAnswer>) -> bool {
    answer.as_ref().is_ok_and(|answer| answer.body.contains(r#""jobstatus":0"#))
}

/// The way from one process to CloudStack.
#[derive(Clone)]
pub struct Wire {
    /// Where it leads.
    pub cloud: Arc<CloudStack>,
    /// The number of the cluster that it comes from.
    pub cluster: usize,
    /// How long things take.
    pub dice: Dice,
}

impl Wire {
    async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(self.dice.between(1, 60))).await;
    }
}

impl Transport for Wire {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        self.pause().await;
        let answer = self.cloud.receive(self.cluster, &received(request));
        match answer {
            Ok(_) => self.pause().await,
            Err(NoAnswer::Silence) => tokio::time::sleep(PATIENCE).await,
            Err(NoAnswer::Refused | NoAnswer::Closed) => {}
        }
        answered(answer)
    }
}
