//! Looks at everything that is asked and done, and says what must never happen. It knows nothing of
//! plans: only who made what, what people asked for, and what traffic would find.
//!
//! `calls.rs` looks at what is asked of CloudStack before it is done, `state.rs` at what there is
//! afterwards.

mod calls;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use ccm_core::cidr::CidrSet;
use ccm_core::parse::raw::RawService;
use ccm_simulator::faults::{FaultKind, JobFault};
use ccm_simulator::{Request, Simulator};
use serde_json::Value;

use super::api_server::ApiServer;
use super::clock::Clock;
use super::coverage::{Coverage, Strikes};
use super::promise::{Promise, Violation};
use super::request::{command, param};
use super::script::KubeTrouble;
use crate::lab::lock;
use crate::oracle::promised;

pub use state::open;

/// The account that sees everything.
pub const ALL_SEEING: &str = "storm-watcher";
/// So many seconds after somebody meddled with a Service, what it shows may lag behind.
const MEDDLED: u64 = 600;

/// Who made something in CloudStack, and for which Service.
#[derive(Clone, Debug)]
struct Maker {
    cluster: usize,
    uid: Option<String>,
}

/// What people asked of a Service since the last quiet moment.
#[derive(Clone, Debug, Default)]
struct Asked {
    sources: BTreeMap<u16, CidrSet>,
    addresses: BTreeSet<String>,
    /// When it last asked for something else.
    edited: Option<u64>,
    /// When somebody last worked on it, or on what is its.
    meddled: Option<u64>,
    /// Somebody removed it by force: what it leaves is reported, and people decide.
    erased: bool,
    /// Somebody took its record away, and nobody has written it back: nothing may name its address.
    stripped: bool,
    /// The process that knew what was taken away is gone.
    forgotten: bool,
}

/// What was seen so far.
#[derive(Default)]
struct Seen {
    makers: BTreeMap<String, Maker>,
    jobs: BTreeMap<String, String>,
    asked: BTreeMap<String, Asked>,
    /// Services that had our finalizer, and were let go.
    let_go: BTreeSet<String>,
    /// Addresses that others put something on while we had them: kept for their sake.
    shared: BTreeSet<String>,
    /// Associate jobs that CloudStack forgot.
    forgotten: BTreeSet<String>,
    /// The annotations of Services that somebody removed by force.
    erased: String,
    /// When members were last taken out of a rule.
    shrunk: BTreeMap<String, u64>,
    /// When Nodes or their machines last changed.
    nodes_changed: Option<u64>,
    violations: Vec<Violation>,
    steps: u64,
    strikes: Strikes,
    log: Vec<String>,
}

/// See the module.
pub struct Watcher {
    simulator: Arc<Mutex<Simulator>>,
    servers: Vec<Arc<ApiServer>>,
    /// Whether the nodes of a cluster are behind a firewall.
    firewalls: Vec<bool>,
    /// Whether everything is in projects.
    in_projects: bool,
    clock: Clock,
    seen: Mutex<Seen>,
}

impl Watcher {
    /// Nothing seen yet. `firewalls` says of each cluster whether its nodes are behind one.
    pub fn new(
        simulator: Arc<Mutex<Simulator>>,
        servers: Vec<Arc<ApiServer>>,
        firewalls: Vec<bool>,
        in_projects: bool,
        clock: Clock,
    ) -> Self {
        Self { simulator, servers, firewalls, in_projects, clock, seen: Mutex::default() }
    }

    /// What was violated so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.seen().violations.clone()
    }

    /// Writes down that something happened.
    pub fn log(&self, what: impl FnOnce() -> String) {
        let at = self.clock.right();
        self.seen().log.push(format!("{at} {}", what()));
    }

    /// What happened, in order.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().log)
    }

    /// Calls and writes so far.
    pub fn steps(&self) -> u64 {
        self.seen().steps
    }

    /// Which faults struck which commands.
    pub fn coverage(&self) -> Coverage {
        self.seen().strikes.coverage()
    }

    /// How often each command was called.
    pub fn called(&self) -> BTreeMap<String, u64> {
        self.seen().strikes.calls.clone()
    }

    /// How often a command was called.
    pub fn calls(&self, command: &str) -> u64 {
        self.seen().strikes.calls(command)
    }

    /// A command is called, and a fault may strike it. Where CloudStack forgets the job that made
    /// an address, people decide about it after half a day.
    pub fn note_call(&self, request: &Request, fault: Option<&FaultKind>) {
        let command = command(request);
        let mut seen = self.seen();
        seen.strikes.note_call(command, fault);
        let forgets =
            fault == Some(&FaultKind::Job(JobFault::Vanishes)) && command == "associateIpAddress";
        if let Some(job) = param(request, "customjobid").filter(|_| forgets) {
            seen.forgotten.insert(job.to_owned());
        }
    }

    /// A fault struck a request to an API server.
    pub fn note_kubernetes(&self, trouble: KubeTrouble) {
        self.seen().strikes.note_kubernetes(trouble);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Takes note that something happened that must not.
    pub fn violate(&self, promise: Promise, what: String) {
        let at = self.clock.right();
        self.seen().violations.push(Violation { promise, at, what });
    }

    /// Takes note of what a Service asks for now.
    pub fn note_asked(&self, cluster: usize, raw: &RawService) {
        let Some(uid) = raw.uid.clone() else { return };
        let sources = promised(raw, self.firewalls[cluster]);
        let now = self.clock.seconds();
        let mut seen = self.seen();
        let asked = seen.asked.entry(uid).or_default();
        for (port, set) in sources {
            let known = asked.sources.entry(port).or_default();
            *known = known.iter().chain(set.iter()).cloned().collect();
        }
        asked.addresses.extend(raw.load_balancer_ip.clone());
        asked.edited = Some(now);
    }

    /// Takes note that somebody works on a Service, or on what is its.
    pub fn note_meddled(&self, uid: &str) {
        let now = self.clock.seconds();
        self.seen().asked.entry(uid.to_owned()).or_default().meddled = Some(now);
    }

    /// Takes note that others put something on an address.
    pub fn note_shared(&self, address: &str) {
        self.seen().shared.insert(address.to_owned());
    }

    /// Takes note that Nodes or their machines change.
    pub fn note_nodes_changed(&self) {
        let now = self.clock.seconds();
        self.seen().nodes_changed = Some(now);
    }

    /// Takes note that others have an address of ours from now on.
    pub fn note_given_away(&self, address: &str) {
        self.seen().makers.remove(address);
    }

    /// Takes note that somebody took away what was written on a Service.
    pub fn note_stripped(&self, uid: &str) {
        self.seen().asked.entry(uid.to_owned()).or_default().stripped = true;
    }

    /// Takes note that a Service has a record again.
    fn note_written_back(&self, uid: &str) {
        self.seen().asked.entry(uid.to_owned()).or_default().stripped = false;
    }

    /// Takes note that another process works from now on: it knows only what is written.
    pub fn note_restarted(&self, cluster: usize) {
        let mut seen = self.seen();
        for uid in self.servers[cluster].services().into_iter().filter_map(|raw| raw.uid) {
            let asked = seen.asked.entry(uid).or_default();
            asked.forgotten |= asked.stripped;
        }
    }

    /// Whether what somebody took away from a Service may be known to nobody.
    pub fn is_forgotten(&self, uid: &str) -> bool {
        self.seen().asked.get(uid).is_some_and(|asked| asked.forgotten)
    }

    /// Takes note that a Service was let go: it names nothing any more.
    fn note_let_go(&self, uid: &str) {
        self.seen().let_go.insert(uid.to_owned());
    }

    /// Takes note that a Service was removed by force: people have to look after what it named.
    pub fn note_erased(&self, raw: &RawService) {
        let uid = raw.uid.clone().expect("a uid");
        let mut seen = self.seen();
        seen.asked.entry(uid).or_default().erased = true;
        seen.erased.push_str(&annotations(std::slice::from_ref(raw)));
    }

    /// These are served as they ask: from now on nobody else may come in.
    pub fn note_served(&self, services: &[(usize, RawService)]) {
        for (cluster, raw) in services {
            let uid = raw.uid.as_deref().unwrap_or_default();
            self.seen().asked.entry(uid.to_owned()).or_default().sources.clear();
            self.note_asked(*cluster, raw);
        }
    }

    /// Whether somebody worked on a Service, or on what is its, a short while ago.
    fn is_meddled(&self, uid: &str) -> bool {
        let seen = self.seen();
        let asked = seen.asked.get(uid);
        asked.is_some_and(|asked| asked.erased || self.is_recent(asked.meddled))
    }

    /// Whether that, or it asked for something else.
    fn is_in_motion(&self, uid: &str) -> bool {
        let edited = self.seen().asked.get(uid).and_then(|asked| asked.edited);
        self.is_recent(edited) || self.is_meddled(uid)
    }

    fn is_recent(&self, at: Option<u64>) -> bool {
        at.is_some_and(|at| self.clock.seconds().saturating_sub(at) < MEDDLED)
    }

    /// Whether a Service ever asked for an address in particular.
    pub fn asked_for_address(&self, uid: &str) -> bool {
        self.seen().asked.get(uid).is_some_and(|asked| !asked.addresses.is_empty())
    }

    /// Whether something was made by a process of a cluster.
    fn is_of(&self, cluster: usize, id: &str) -> bool {
        self.seen().makers.get(id).is_some_and(|maker| maker.cluster == cluster)
    }

    /// Everything of a kind.
    pub fn list(
        &self,
        simulator: &mut Simulator,
        command: &str,
        on: &[(&str, &str)],
    ) -> Vec<Value> {
        let mut params = vec![("listall", "true")];
        if self.in_projects {
            params.push(("projectid", "-1"));
        }
        if command == "listPublicIpAddresses" {
            params.push(("allocatedonly", "false"));
        }
        params.extend_from_slice(on);
        let answer = simulator.call(ALL_SEEING, command, &params, self.clock.right());
        if answer.status == 431 {
            // An address that is on its way out has no firewall rules to list.
            return Vec::new();
        }
        assert_eq!(answer.status, 200, "{command}: {}", answer.body);
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        let root = body.as_object().and_then(|root| root.values().next()).cloned();
        let rows =
            root.as_ref().and_then(Value::as_object).into_iter().flat_map(|root| root.values());
        rows.filter_map(Value::as_array).flatten().cloned().collect()
    }
}

/// The annotations of Services, as one text.
fn annotations(services: &[RawService]) -> String {
    let all = services.iter().flat_map(|raw| raw.annotations.values());
    all.map(String::as_str).collect::<Vec<_>>().join("\n")
}
