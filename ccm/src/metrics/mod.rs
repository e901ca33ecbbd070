//! Metrics: what the controller tells here, Prometheus reads at `/metrics`.
//!
//! `table.rs` has names, types, labels and texts; the methods of [`Metrics`] are all that the rest
//! of the program knows of them.

mod build;
mod process;
mod table;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ccm_cloudstack::{Command, Ending, Meter};
use ccm_core::controllers::Controller;
use ccm_core::exec::error::Fault;
use ccm_core::observe::RateLimit;
use ccm_core::plan::action::Kind;
use ccm_core::plan::reason::Disruption;
use ccm_core::plan::report::{Report, Severity};
use ccm_core::plan::{Plan, Step};
use ccm_kubernetes::live::connect::RequestMeter;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use build::Build;
use process::Usage;
use table::Families;

use crate::traces::{Sent, Traces};

pub use table::markdown;

/// The `Content-Type` of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counts what happens. Share it by `Arc`.
pub struct Metrics {
    registry: Registry,
    families: Families,
    version: &'static str,
    traces: Option<Traces>,
    read_at: Mutex<Option<Instant>>,
}

/// How the sync of an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is as wanted.
    Done,
    /// Something is not possible yet.
    Waiting,
    /// Something is refused until somebody changes something.
    Blocked,
    /// Something failed.
    Failed(Fault),
}

impl Outcome {
    /// A stable label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Failed(fault) => fault.label(),
        }
    }
}

/// What becomes of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is executed.
    Apply,
    /// It is shown.
    DryRun,
}

/// How many Services are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceStates {
    /// As wanted.
    pub programmed: usize,
    /// Worked on, or waiting.
    pub pending: usize,
    /// Refused until somebody changes something.
    pub blocked: usize,
    /// Served, but not as wanted: the last try failed.
    pub degraded: usize,
}

/// How a Node's virtual machine was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// By the id in its provider id.
    Id,
    /// By its name.
    Name,
    /// Several have its name.
    Ambiguous,
    /// There is none.
    Missing,
}

/// A changed configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// It holds now.
    Taken,
    /// It can't be used: the one before goes on.
    KeptOld,
}

impl Metrics {
    /// Nothing has happened yet. `version` is this program's.
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::default();
        let families = Families::register(&mut registry);
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        families.process_start.set(&[], started.as_secs_f64());
        families.kubernetes_build_info.set(&Build::of(version).labels(), 1.0);
        let metrics = Self { registry, families, version, traces: None, read_at: Mutex::default() };
        metrics.server("");
        metrics
    }

    /// The same, and it tells what became of the spans of these traces.
    #[must_use]
    pub fn tracing(self, traces: Option<Traces>) -> Self {
        Self { traces, ..self }
    }

    /// Everything, in the text form that Prometheus reads.
    pub fn text(&self) -> String {
        self.refresh();
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// What is only known when somebody asks.
    fn refresh(&self) {
        let families = &self.families;
        if let Some(at) = *self.read_at() {
            families.observation_age.set(&["cloudstack"], at.elapsed().as_secs_f64());
        }
        if let Some(Usage { cpu, resident_bytes, virtual_bytes, open_files }) = Usage::read() {
            families.process_cpu.catch_up(&[], cpu.as_secs_f64());
            families.process_resident.set(&[], float(resident_bytes));
            families.process_virtual.set(&[], float(virtual_bytes));
            families.process_files.set(&[], count(open_files));
        }
        let sent = self.traces.as_ref().map(Traces::sent).unwrap_or_default();
        let Sent { exported, failed, dropped } = sent;
        for (result, spans) in [("exported", exported), ("failed", failed), ("dropped", dropped)] {
            families.trace_spans.catch_up(&[result], float(spans));
        }
    }

    /// CloudStack told its version.
    pub fn server(&self, version: &str) {
        self.families.build_info.clear();
        self.families.build_info.set(&[self.version, version], 1.0);
    }

    /// Whether nothing is changed.
    pub fn dry_run(&self, on: bool) {
        self.families.dry_run.set(&[], flag(on));
    }

    /// Whether this process holds the Lease of that name.
    pub fn leads(&self, lease: &str, leads: bool) {
        self.families.leads.set(&[lease], flag(leads));
    }

    /// A controller runs, or not any more.
    pub fn runs(&self, controller: Controller, runs: bool) {
        let labels = [controller.short_name(), "cloud-controller-manager"];
        self.families.running_controllers.set(&labels, flag(runs));
    }

    /// An object of that kind (`service`, `node`) was synced.
    pub fn reconciled(&self, kind: &'static str, outcome: Outcome, took: Duration) {
        let labels = [kind, outcome.label()];
        self.families.reconciles.add(&labels, 1.0);
        self.families.reconcile_duration.observe(&labels, took);
    }

    /// A plan was made, with what it left out.
    pub fn plan(&self, plan: &Plan, report: &Report, mode: Mode) {
        let mode = match mode {
            Mode::Apply => "apply",
            Mode::DryRun => "dry-run",
        };
        for Step { action, disruption, id: _, after: _, reason: _ } in &plan.steps {
            let labels = [action.command(), disruption_label(*disruption), mode];
            self.families.plan_actions.add(&labels, 1.0);
        }
        for note in report.notes.iter().filter(|note| note.severity() == Severity::Blocked) {
            self.families.blocked.add(&[note.code()], 1.0);
        }
    }

    /// The latest plans of all Services, as far as they are not done.
    pub fn planned<'a>(&self, plans: impl IntoIterator<Item = &'a Plan>) {
        let planned = &self.families.planned_actions;
        planned.clear();
        for step in plans.into_iter().flat_map(|plan| &plan.steps) {
            planned.add(&[step.action.command(), disruption_label(step.disruption)], 1.0);
        }
    }

    /// How many Services are in which state.
    pub fn services(&self, states: ServiceStates) {
        let ServiceStates { programmed, pending, blocked, degraded } = states;
        let states = [
            ("programmed", programmed),
            ("pending", pending),
            ("blocked", blocked),
            ("degraded", degraded),
        ];
        for (state, services) in states {
            self.families.services.set(&[state], count(services));
        }
    }

    /// Steps that were done; the virtual router of this network serves them.
    pub fn done<'a>(&self, network: &str, steps: impl IntoIterator<Item = &'a Step>) {
        let reloads = steps.into_iter().filter(|step| step.disruption != Disruption::None);
        for _ in reloads {
            self.families.router_reloads.add(&[network], 1.0);
        }
    }

    /// Steps that put back what somebody changed.
    pub fn drift_repaired<'a>(&self, steps: impl IntoIterator<Item = &'a Step>) {
        for step in steps.into_iter().filter(|step| step.action.kind() == Kind::Change) {
            let name = step.id.as_str();
            let kind = name.split_once('/').map_or(name, |(kind, _)| kind);
            self.families.drift_repaired.add(&[kind], 1.0);
        }
    }

    /// How many addresses all Services record: those that go with them, and the others.
    pub fn addresses(&self, owned: usize, kept: usize) {
        self.families.addresses.set(&["owned"], count(owned));
        self.families.addresses.set(&["kept"], count(kept));
    }

    /// CloudStack was read in full just now, with the limit that it announces.
    pub fn observed(&self, limit: Option<RateLimit>) {
        *self.read_at() = Some(Instant::now());
        self.families.api_server_limit.clear();
        if let Some(RateLimit { calls, seconds }) = limit {
            let rate = f64::from(calls) / f64::from(seconds.max(1));
            self.families.api_server_limit.set(&[], rate);
        }
    }

    /// Whether CloudStack accepts the API key.
    pub fn credentials_valid(&self, valid: bool) {
        self.families.credentials_valid.set(&[], flag(valid));
    }

    /// The configuration file changed.
    pub fn reloaded(&self, reload: Reload) {
        let outcome = match reload {
            Reload::Taken => "taken",
            Reload::KeptOld => "kept-old",
        };
        self.families.credentials_reloads.add(&[outcome], 1.0);
    }

    /// The commands that the role lacks, all of them.
    pub fn permissions_missing(&self, commands: &BTreeSet<&str>) {
        self.families.permission_missing.clear();
        for command in commands {
            self.families.permission_missing.set(&[command], 1.0);
        }
    }

    /// A Node's virtual machine was searched for.
    pub fn node_lookup(&self, result: Lookup) {
        let result = match result {
            Lookup::Id => "id",
            Lookup::Name => "name",
            Lookup::Ambiguous => "ambiguous",
            Lookup::Missing => "missing",
        };
        self.families.node_lookups.add(&[result], 1.0);
    }

    /// A Node was initialised, so long after its creation.
    pub fn node_initialised(&self, since_creation: Duration) {
        self.families.initial_sync_delay.observe(&[], since_creation);
        self.families.taint_removal_delay.observe(&[], since_creation);
    }

    /// All Services were synced because Nodes came or went.
    pub fn nodes_synced(&self, took: Duration) {
        self.families.nodesync_latency.observe(&[], took);
    }

    /// One Service was synced because Nodes came or went.
    pub fn hosts_synced(&self, outcome: Outcome, took: Duration) {
        self.families.loadbalancer_syncs.add(&[], 1.0);
        self.families.update_hosts_latency.observe(&[], took);
        if matches!(outcome, Outcome::Failed(_)) {
            self.families.nodesync_errors.add(&[], 1.0);
        }
    }

    /// An Event was not written.
    pub fn event_dropped(&self) {
        self.families.events_dropped.add(&[], 1.0);
    }

    /// The queue of that name (`service`, `node`).
    pub fn queue(&self, name: &'static str) -> Queue<'_> {
        Queue { families: &self.families, name }
    }

    fn read_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.read_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue of objects.
#[derive(Clone, Copy)]
pub struct Queue<'a> {
    families: &'a Families,
    name: &'static str,
}

impl Queue<'_> {
    /// One came in, and waits.
    pub fn added(self) {
        self.families.queue_adds.add(&[self.name], 1.0);
        self.families.queue_depth.add(&[self.name], 1.0);
    }

    /// One comes in again after a failure.
    pub fn retried(self) {
        self.families.queue_retries.add(&[self.name], 1.0);
    }

    /// A worker took one that had waited so long.
    pub fn taken(self, waited: Duration) {
        self.families.queue_depth.add(&[self.name], -1.0);
        self.families.queue_wait.observe(&[self.name], waited);
    }

    /// A worker is through with one.
    pub fn worked(self, took: Duration) {
        self.families.queue_work.observe(&[self.name], took);
    }
}

impl RequestMeter for Metrics {
    fn request_answered(&self, method: &str, host: &str, status: Option<u16>, took: Duration) {
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.to_string());
        self.families.rest_requests.add(&[&code, method, host], 1.0);
        self.families.rest_duration.observe(&[method, host], took);
    }
}

impl Meter for Metrics {
    fn waited(&self, wait: Duration) {
        self.families.api_throttled.add(&[], wait.as_secs_f64());
    }

    fn answered(&self, command: Command, ending: Ending, took: Duration) {
        let labels = [command.name(), ending.label()];
        self.families.api_requests.add(&labels, 1.0);
        self.families.api_request_duration.observe(&labels, took);
    }

    fn job_began(&self, command: Command) {
        self.families.jobs_in_flight.add(&[command.name()], 1.0);
    }

    fn job_ended(&self, command: Command, took: Duration) {
        self.families.jobs_in_flight.add(&[command.name()], -1.0);
        self.families.job_duration.observe(&[command.name()], took);
    }
}

fn disruption_label(disruption: Disruption) -> &'static str {
    match disruption {
        Disruption::None => "none",
        Disruption::Reload => "reload",
        Disruption::Cut => "cut",
        Disruption::AddressChange => "address-change",
    }
}

fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

#[expect(clippy::cast_precision_loss, reason = "bytes beyond 8 PiB may be rounded")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use ccm_core::ids::{PublicIpId, ServiceKey};
    use ccm_core::plan::StepId;
    use ccm_core::plan::action::{Action, DisassociateIpAddress};
    use ccm_core::plan::reason::Reason;

    use super::*;

    fn has(metrics: &Metrics, line: &str) {
        let text = metrics.text();
        assert!(text.lines().any(|found| found == line), "{line:?} is not in:\n{text}");
    }

    #[test]
    fn requests_and_jobs_are_counted_by_command_and_outcome() {
        let metrics = Metrics::new("1.2.3");
        let command = Command::AssociateIpAddress;
        metrics.answered(command, Ending::Ok, Duration::from_millis(20));
        metrics.answered(command, Ending::Failed(Fault::Throttled), Duration::from_millis(1));
        metrics.answered(command, Ending::TimedOut, Duration::from_mins(1));
        metrics.job_began(command);
        metrics.job_began(command);
        metrics.job_ended(command, Duration::from_secs(4));
        metrics.waited(Duration::from_millis(500));
        for line in [
            "cloudstack_ccm_api_requests_total{command=\"associateIpAddress\",outcome=\"ok\"} 1.0",
            "cloudstack_ccm_api_requests_total{command=\"associateIpAddress\",outcome=\"throttled\"} 1.0",
            "cloudstack_ccm_api_requests_total{command=\"associateIpAddress\",outcome=\"timeout\"} 1.0",
            "cloudstack_ccm_api_request_duration_seconds_bucket{le=\"0.025\",command=\"associateIpAddress\",outcome=\"ok\"} 1",
            "cloudstack_ccm_jobs_in_flight{command=\"associateIpAddress\"} 1.0",
            "cloudstack_ccm_job_duration_seconds_count{command=\"associateIpAddress\"} 1",
            "cloudstack_ccm_api_throttled_seconds_total{} 0.5",
        ] {
            has(&metrics, line);
        }
    }

    #[test]
    fn names_of_gos_controllers_are_there_from_the_start() {
        let metrics = Metrics::new("1.2.3");
        metrics.hosts_synced(Outcome::Failed(Fault::Cloud), Duration::from_secs(3));
        metrics.leads("cloud-controller-manager", true);
        metrics.runs(Controller::Service, true);
        metrics.queue("service").added();
        metrics.queue("service").added();
        metrics.queue("service").taken(Duration::from_secs(1));
        for line in [
            "service_controller_loadbalancer_sync_total{} 1.0",
            "service_controller_nodesync_error_total{} 1.0",
            "service_controller_update_loadbalancer_host_latency_seconds_bucket{le=\"16384.0\"} 1",
            "leader_election_master_status{name=\"cloud-controller-manager\"} 1.0",
            "running_managed_controllers{name=\"service\",manager=\"cloud-controller-manager\"} 1.0",
            "workqueue_adds_total{name=\"service\"} 2.0",
            "workqueue_depth{name=\"service\"} 1.0",
        ] {
            has(&metrics, line);
        }
        let text = metrics.text();
        let build = text.lines().find(|line| line.starts_with("kubernetes_build_info{")).unwrap();
        for label in [
            "git_version=\"v1.2.3\"",
            "major=\"1\"",
            "minor=\"2\"",
            "compiler=\"rustc\"",
            "go_version=\"\"",
        ] {
            assert!(build.contains(label), "{label} is not in {build}");
        }
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        assert!(build.contains("platform=\"linux/amd64\""), "{build}");
        #[cfg(target_os = "linux")]
        assert!(metrics.text().contains("\nprocess_resident_memory_bytes{} "));
    }

    #[test]
    fn steps_are_counted_and_planned_ones_and_missing_permissions_go_when_they_are_gone() {
        let metrics = Metrics::new("1.2.3");
        let release = Action::DisassociateIpAddress(DisassociateIpAddress {
            address: PublicIpId::parse("ip").unwrap(),
        });
        let mut plan = Plan::new(ServiceKey::new("shop", "web"));
        plan.steps.push(Step {
            id: StepId::new("release"),
            action: release,
            after: BTreeSet::new(),
            reason: Reason::AddressMissing,
            disruption: Disruption::Cut,
        });
        let line =
            "cloudstack_ccm_planned_actions{op=\"disassociateIpAddress\",disruption=\"cut\"} 2.0";
        metrics.planned([&plan, &plan]);
        has(&metrics, line);
        metrics.planned([&Plan::new(ServiceKey::new("shop", "web"))]);
        assert!(!metrics.text().contains("cloudstack_ccm_planned_actions{"));
        metrics.plan(&plan, &Report::default(), Mode::DryRun);
        has(
            &metrics,
            "cloudstack_ccm_plan_actions_total{op=\"disassociateIpAddress\",disruption=\"cut\",mode=\"dry-run\"} 1.0",
        );
        metrics.done("net-1", &plan.steps);
        has(&metrics, "cloudstack_ccm_router_reloads_total{network=\"net-1\"} 1.0");
        metrics.drift_repaired(&plan.steps);
        has(&metrics, "cloudstack_ccm_drift_repaired_total{kind=\"release\"} 1.0");
        metrics.permissions_missing(&BTreeSet::from(["createTags"]));
        has(&metrics, "cloudstack_ccm_permission_missing{command=\"createTags\"} 1.0");
        metrics.permissions_missing(&BTreeSet::new());
        assert!(!metrics.text().contains("createTags"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_observation_grows_old_until_the_next_one() {
        let metrics = Metrics::new("1.2.3");
        metrics.observed(Some(RateLimit { calls: 50, seconds: 20 }));
        has(&metrics, "cloudstack_ccm_api_server_limit{} 2.5");
        metrics.observed(None);
        assert!(!metrics.text().contains("cloudstack_ccm_api_server_limit{"));
        tokio::time::advance(Duration::from_secs(30)).await;
        has(&metrics, "cloudstack_ccm_observation_age_seconds{kind=\"cloudstack\"} 30.0");
        metrics.server("4.22.0.0");
        has(
            &metrics,
            "cloudstack_ccm_build_info{version=\"1.2.3\",server_version=\"4.22.0.0\"} 1.0",
        );
        assert_eq!(metrics.text().matches("cloudstack_ccm_build_info{").count(), 1);
    }
}
