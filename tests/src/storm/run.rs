//! Tells a script: the storm, the calm after it, the end of all Services, and what is left then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use tokio::task::LocalSet;

use super::api_client::Troubles;
use super::api_server::{ApiServer, Place};
use super::clock::{Clock, Dice};
use super::cloud::CloudStack;
use super::coverage::Coverage;
use super::process::{Configuration, Process};
use super::promise::{Promise, Violation};
use super::script::{Event, STORM, Script, Site};
use super::settled;
use super::watcher::Watcher;
use super::world::node_name;

/// A job of which nothing is known holds things back for half a day.
const CALM: Duration = Duration::from_hours(14);
/// How often the calm is looked at.
const GLANCE: Duration = Duration::from_mins(10);
/// So many glances in a row without a change are rest: in an hour the members of every rule are read.
const QUIET_GLANCES: usize = 7;
/// How long an old process goes on after another one took over.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// What came of a storm.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was violated, in order; nothing more happens after the first.
    pub violations: Vec<Violation>,
    /// Calls and writes that were looked at.
    pub steps: u64,
    /// Which faults struck which commands.
    pub coverage: Coverage,
    /// Calls of CloudStack.
    pub calls: u64,
    /// The most calls that one cluster sent in an hour.
    pub busiest_hour: u64,
    /// How often each command was called.
    pub called: BTreeMap<String, u64>,
    /// The hash of everything that was called, to tell two runs apart.
    pub trace: u64,
    /// What happened, in order.
    pub log: Vec<String>,
}

/// Tells a script.
pub fn run(script: &Script) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let mut storm = Storm::new(script);
        storm.tell(script).await;
        storm.outcome()
    })
}

/// A cluster, and the process that leads it.
pub(super) struct Cluster {
    pub(super) server: Arc<ApiServer>,
    pub(super) site: Site,
    pub(super) troubles: Troubles,
    pub(super) configuration: Configuration,
    pub(super) process: Process,
    /// The machines that are there, by name, and whether they run.
    pub(super) machines: BTreeMap<String, bool>,
}

/// See the module.
pub(super) struct Storm {
    pub(super) clusters: Vec<Cluster>,
    pub(super) cloud: Arc<CloudStack>,
    pub(super) watcher: Arc<Watcher>,
    pub(super) clock: Clock,
    pub(super) dice: Dice,
    pub(super) ends: Vec<(u64, Event)>,
    pub(super) old: Vec<(u64, Process)>,
    /// Of CloudStack.
    pub(super) release: String,
}

impl Storm {
    async fn tell(&mut self, script: &Script) {
        for timed in &script.events {
            self.wait_until(timed.at.into()).await;
            if self.is_over() {
                return;
            }
            self.happen(&timed.event);
        }
        self.wait_until(STORM.into()).await;
        self.end_troubles();
        self.grow_calm("after the storm").await;
        self.watcher.note_served(&settled::served(self));
        self.expect_rest().await;
        self.delete_all();
        self.grow_calm("after all Services were deleted").await;
    }

    fn is_over(&self) -> bool {
        !self.watcher.violations().is_empty()
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            violations: self.watcher.violations(),
            steps: self.watcher.steps(),
            coverage: self.watcher.coverage(),
            calls: self.cloud.calls().all,
            busiest_hour: self.cloud.calls().busiest_hour,
            called: self.watcher.called(),
            trace: self.cloud.calls().trace,
            log: self.watcher.take_log(),
        }
    }

    /// Lets time pass, and troubles end when they do.
    async fn wait_until(&mut self, second: u64) {
        loop {
            let next = self.ends.iter().map(|(at, _)| *at).min().filter(|at| *at <= second);
            let until = next.unwrap_or(second);
            let wait = until.saturating_sub(self.clock.seconds());
            tokio::time::sleep(Duration::from_secs(wait)).await;
            self.old.retain(|(at, process)| {
                let breathes = *at > until;
                if !breathes {
                    process.kill();
                }
                breathes
            });
            let ended: Vec<_> = self.ends.extract_if(.., |(at, _)| *at <= until).collect();
            for (_, event) in &ended {
                self.end(event);
            }
            if next.is_none() {
                return;
            }
        }
    }

    fn end_troubles(&mut self) {
        let ended = std::mem::take(&mut self.ends);
        for (_, event) in &ended {
            self.end(event);
        }
    }

    fn end(&self, event: &Event) {
        match event {
            Event::Cloud(_, trouble) => self.cloud.end(trouble),
            Event::Kube(cluster, _, trouble) => self.clusters[*cluster].troubles.end(*trouble),
            _ => unreachable!("only troubles end"),
        }
    }

    fn happen(&mut self, event: &Event) {
        self.watcher.log(|| format!("{event:?}"));
        let clusters = self.clusters.len();
        let number = |cluster: &usize| cluster % clusters;
        match event {
            Event::Apply(cluster, service, wish) => self.apply(number(cluster), *service, wish),
            Event::Delete(cluster, service) => self.delete(number(cluster), *service),
            Event::Replace(cluster, service, wish) => {
                let cluster = number(cluster);
                self.delete(cluster, *service);
                self.apply(cluster, *service, wish);
            }
            Event::Erase(cluster, service) => self.erase(number(cluster), *service),
            Event::Retype(cluster, service) => self.edit(number(cluster), *service, |object| {
                object["spec"]["type"] = json!("ClusterIP");
                object["status"] = json!({"loadBalancer": {}});
            }),
            Event::Reclass(cluster, service) => self.edit(number(cluster), *service, |object| {
                if object["spec"]["type"] == "LoadBalancer" {
                    object["spec"]["loadBalancerClass"] = json!("example.test/other");
                    object["status"] = json!({"loadBalancer": {}});
                }
            }),
            Event::Strip(cluster, service) => self.strip(number(cluster), *service),
            Event::NodeLeaves(cluster, node) => {
                let cluster = number(cluster);
                self.watcher.note_nodes_changed();
                self.clusters[cluster].server.erase(&Place::node(&node_name(cluster, *node)));
            }
            Event::NodeJoins(cluster, node) => self.join(number(cluster), *node),
            Event::NodeExcluded(cluster, node) => {
                self.edit_node(number(cluster), *node, |object| {
                    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
                    object["metadata"]["labels"][label] = json!("true");
                });
            }
            Event::MachineStops(cluster, node) => {
                self.machine(number(cluster), *node, false, |simulator, vm| {
                    simulator.stop_vm(vm).expect("a machine");
                });
            }
            Event::MachineStarts(cluster, node) => {
                self.machine(number(cluster), *node, true, |simulator, vm| {
                    simulator.start_vm(vm).expect("a machine");
                });
            }
            Event::MachineGoes(cluster, node) => {
                let cluster = number(cluster);
                self.machine(cluster, *node, false, |simulator, vm| {
                    simulator.expunge_vm(vm).expect("a machine");
                });
                self.clusters[cluster].machines.remove(&node_name(cluster, *node));
            }
            Event::ByHand(cluster, service, hand) => self.by_hand(number(cluster), *service, *hand),
            Event::Kill(cluster) => {
                let cluster = number(cluster);
                self.clusters[cluster].process.kill();
                self.start(cluster);
            }
            Event::TakeOver(cluster) => {
                let cluster = number(cluster);
                self.clusters[cluster].process.depose();
                let old = self.start(cluster);
                self.old.push((self.clock.seconds() + LAST_BREATH.as_secs(), old));
            }
            Event::ClockJumps(cluster, by) => {
                let by = SignedDuration::from_secs((*by).into());
                self.clusters[number(cluster)].process.clock.jump(by);
            }
            Event::Upgrade(release) => self.upgrade(release),
            Event::Cloud(time, trouble) => {
                self.cloud.begin(trouble);
                self.ends.push((self.clock.seconds() + u64::from(*time), event.clone()));
            }
            Event::Kube(cluster, time, trouble) => {
                let cluster = number(cluster);
                self.clusters[cluster].troubles.begin(*trouble);
                let end = Event::Kube(cluster, *time, *trouble);
                self.ends.push((self.clock.seconds() + u64::from(*time), end));
            }
        }
    }

    /// Releases only ever get newer.
    fn upgrade(&mut self, release: &str) {
        if release > self.release.as_str() {
            release.clone_into(&mut self.release);
            self.cloud.with(|simulator| simulator.upgrade(release)).expect("a release");
        }
    }

    /// Whether rules take a list of sources.
    pub(super) fn takes_sources(&self) -> bool {
        self.release.as_str() >= "4.18"
    }

    /// Starts a process in place of another; gives the other.
    fn start(&mut self, cluster: usize) -> Process {
        self.watcher.note_restarted(cluster);
        let cluster = &mut self.clusters[cluster];
        cluster.configuration.clock = self.clock.of(cluster.configuration.wire.dice.clone());
        let next = Process::start(&cluster.configuration);
        std::mem::replace(&mut cluster.process, next)
    }

    /// Waits until everything is as it should be.
    async fn grow_calm(&self, when: &str) {
        let began = self.clock.seconds();
        let mut quiet = 0;
        while !self.is_over() {
            let changing = self.cloud.calls().changing;
            tokio::time::sleep(GLANCE).await;
            self.cloud.with(|simulator| self.watcher.check_cloud(simulator));
            let reasons = settled::reasons(self);
            let acts = self.cloud.calls().changing != changing;
            quiet = if acts { 0 } else { quiet + 1 };
            if reasons.is_empty() && quiet >= QUIET_GLANCES {
                return;
            }
            if self.clock.seconds() - began > CALM.as_secs() {
                let reasons = reasons.join("; ");
                let what = format!("{when} it never came to rest: {reasons}");
                self.watcher.violate(Promise::Convergence, what);
            }
        }
    }

    /// An hour in which nothing may be changed.
    async fn expect_rest(&self) {
        let before = self.cloud.calls().changing;
        let written: Vec<usize> =
            self.clusters.iter().map(|cluster| cluster.server.changes()).collect();
        tokio::time::sleep(Duration::from_hours(1)).await;
        let changed = self.cloud.calls().changing - before;
        let writes: Vec<usize> =
            self.clusters.iter().map(|cluster| cluster.server.changes()).collect();
        if changed > 0 || writes != written {
            let what = format!("{changed} changing calls; writes {written:?} became {writes:?}");
            self.watcher.violate(Promise::Rest, what);
        }
    }

    /// Whether the Services of a cluster are behind a firewall.
    pub(super) fn has_firewall(&self, cluster: usize) -> bool {
        self.clusters[cluster].site == Site::Isolated
    }
}
