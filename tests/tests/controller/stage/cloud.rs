//! CloudStack and time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_cloudstack::{
    Runtime, Transport, TransportError, TransportErrorKind, WireRequest, WireResponse,
};
use ccm_simulator::world::World;
use ccm_simulator::{Request, Simulator};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::lock;

/// Time that passes when nobody has anything to do.
#[derive(Clone, Debug)]
pub struct PausedClock {
    start: Timestamp,
    started: Instant,
    ids: Arc<AtomicU64>,
}

impl PausedClock {
    pub fn new(start: Timestamp) -> Self {
        Self { start, started: Instant::now(), ids: Arc::default() }
    }
}

impl Runtime for PausedClock {
    fn now(&self) -> Timestamp {
        self.start.saturating_add(self.started.elapsed()).expect("a time")
    }

    async fn sleep_until(&self, at: Timestamp) {
        let wait = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(wait).await;
    }

    fn fresh_uuid(&self) -> String {
        let id = self.ids.fetch_add(1, Ordering::SeqCst);
        format!("10000000-0000-4000-8000-{id:012x}")
    }
}

/// CloudStack.
#[derive(Clone)]
pub struct Cloud {
    simulator: Arc<Mutex<Simulator>>,
    clock: PausedClock,
    sent: Arc<Mutex<Vec<String>>>,
    down: Arc<AtomicBool>,
}

impl Cloud {
    pub fn new(world: &World, clock: PausedClock) -> Self {
        let simulator = Simulator::new(world).expect("a world that makes sense");
        let simulator = Arc::new(Mutex::new(simulator));
        Self { simulator, clock, sent: Arc::default(), down: Arc::default() }
    }

    pub fn with<T>(&self, work: impl FnOnce(&mut Simulator) -> T) -> T {
        let mut simulator = lock(&self.simulator);
        simulator.advance(self.clock.now());
        work(&mut simulator)
    }

    /// A person acts in the account of the controller; the job is waited for.
    pub async fn by_hand(&self, command: &str, params: &[(&str, &str)]) {
        let now = self.clock.now();
        let answer = self.with(|simulator| simulator.call("prod", command, params, now));
        assert_eq!(answer.status, 200, "{command}: {}", answer.body);
        tokio::time::sleep(Duration::from_secs(20)).await;
    }

    /// Nothing answers, or everything again.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// How often a command was sent.
    pub fn sent(&self, command: &str) -> usize {
        lock(&self.sent).iter().filter(|sent| *sent == command).count()
    }

    /// The ids of what a list shows.
    pub fn ids(&self, command: &str, rows: &str) -> Vec<String> {
        let rows = self.rows(command, rows, ("listall", "true")).into_iter();
        rows.map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    }

    pub fn addresses(&self) -> Vec<String> {
        self.ids("listPublicIpAddresses", "publicipaddress")
    }

    pub fn rules(&self) -> Vec<String> {
        self.ids("listLoadBalancerRules", "loadbalancerrule")
    }

    pub fn openings(&self) -> Vec<String> {
        self.ids("listFirewallRules", "firewallrule")
    }

    pub fn acl_items(&self) -> Vec<String> {
        self.ids("listNetworkACLs", "networkacl")
    }

    /// Addresses, rules, openings and ACL items: all that a Service can leave.
    pub fn everything(&self) -> [Vec<String>; 4] {
        [self.addresses(), self.rules(), self.openings(), self.acl_items()]
    }

    /// How many members a rule has.
    pub fn members(&self, rule: &str) -> usize {
        let command = "listLoadBalancerRuleInstances";
        self.rows(command, "loadbalancerruleinstance", ("id", rule)).len()
    }

    fn rows(&self, command: &str, rows: &str, param: (&str, &str)) -> Vec<Value> {
        let now = self.clock.now();
        let answer = self.with(|simulator| simulator.call("prod", command, &[param], now));
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        let root = body.as_object().and_then(|root| root.values().next()).expect("a root");
        root[rows].as_array().cloned().unwrap_or_default()
    }
}

impl Transport for Cloud {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        lock(&self.sent).push(request.param("command").unwrap_or_default().to_owned());
        let refused = |text: &str| TransportError {
            kind: TransportErrorKind::Connect,
            sent: false,
            text: text.to_owned(),
        };
        if self.down.load(Ordering::SeqCst) {
            return Err(refused("connection refused"));
        }
        let request = Request { method: ccm_simulator::Method::Post, params: request.params };
        let now = self.clock.now();
        let response = self.with(|simulator| simulator.receive(&request, now));
        let response = response.map_err(|_| refused("no answer"))?;
        Ok(WireResponse { status: response.status, content_type: None, body: response.body })
    }
}
