//! All metrics: ONE table. The registry and the page `deploy/docs/metrics.md` are made from it.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// A line of the table.
struct Spec {
    name: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
}

type Labels = Vec<(&'static str, String)>;
type Names = &'static [&'static str];

fn labels(names: Names, values: &[&str]) -> Labels {
    debug_assert_eq!(names.len(), values.len(), "{names:?} {values:?}");
    names.iter().copied().zip(values.iter().map(|value| (*value).to_owned())).collect()
}

/// What only grows, for each set of labels.
pub(super) struct Counters(Names, Family<Labels, Counter<f64, AtomicU64>>);

impl Counters {
    const KIND: &'static str = "counter";

    fn register(registry: &mut Registry, spec: &Spec) -> Self {
        let family = Family::default();
        // The registry puts the suffix of counters behind each name itself.
        let name = spec.name.strip_suffix("_total").unwrap_or(spec.name);
        registry.register(name, spec.help, family.clone());
        let counters = Self(spec.labels, family);
        if spec.labels.is_empty() {
            counters.add(&[], 0.0);
        }
        counters
    }

    pub(super) fn add(&self, values: &[&str], by: f64) {
        self.1.get_or_create(&labels(self.0, values)).inc_by(by);
    }

    /// Adds what is missing to a total that is counted elsewhere.
    pub(super) fn catch_up(&self, values: &[&str], total: f64) {
        let counter = self.1.get_or_create(&labels(self.0, values));
        counter.inc_by((total - counter.get()).max(0.0));
    }
}

/// What goes up and down, for each set of labels.
pub(super) struct Gauges(Names, Family<Labels, Gauge<f64, AtomicU64>>);

impl Gauges {
    const KIND: &'static str = "gauge";

    fn register(registry: &mut Registry, spec: &Spec) -> Self {
        let family = Family::default();
        registry.register(spec.name, spec.help, family.clone());
        Self(spec.labels, family)
    }

    pub(super) fn set(&self, values: &[&str], to: f64) {
        self.1.get_or_create(&labels(self.0, values)).set(to);
    }

    pub(super) fn add(&self, values: &[&str], by: f64) {
        self.1.get_or_create(&labels(self.0, values)).inc_by(by);
    }

    /// Forgets all sets of labels.
    pub(super) fn clear(&self) {
        self.1.clear();
    }
}

/// How long things take, in seconds, for each set of labels.
pub(super) struct Seconds<B>(Names, Family<Labels, Histogram, B>);

impl<B: Buckets> Seconds<B> {
    const KIND: &'static str = "histogram";

    fn register(registry: &mut Registry, spec: &Spec) -> Self {
        let family = Family::new_with_constructor(B::default());
        registry.register(spec.name, spec.help, family.clone());
        Self(spec.labels, family)
    }

    pub(super) fn observe(&self, values: &[&str], took: std::time::Duration) {
        self.1.get_or_create(&labels(self.0, values)).observe(took.as_secs_f64());
    }
}

/// The upper bounds of a histogram.
pub(super) trait Buckets:
    MetricConstructor<Histogram> + Clone + Default + std::fmt::Debug + Send + Sync + 'static
{
}

macro_rules! buckets {
    ($($(#[$doc:meta])* $name:ident = $bounds:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default)]
            pub(super) struct $name;

            impl MetricConstructor<Histogram> for $name {
                fn new_metric(&self) -> Histogram {
                    Histogram::new($bounds)
                }
            }

            impl Buckets for $name {}
        )*
    };
}

buckets! {
    /// From a fast request to a job of ten minutes.
    Work = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
    /// Those of Go's service controller.
    Syncs = (0..15).map(|power| f64::from(1 << power));
    /// Those of Go's node controller.
    Delays = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
}

macro_rules! metrics {
    ($($field:ident: $kind:ty = $name:literal, $labels:expr, $help:literal;)*) => {
        /// A family of series for each line of the table.
        pub(super) struct Families { $(pub(super) $field: $kind),* }

        impl Families {
            pub(super) fn register(registry: &mut Registry) -> Self {
                Self { $($field: {
                    let spec = Spec { name: $name, kind: <$kind>::KIND, labels: &$labels, help: $help };
                    <$kind>::register(registry, &spec)
                }),* }
            }
        }

        const TABLE: &[Spec] = &[
            $(Spec { name: $name, kind: <$kind>::KIND, labels: &$labels, help: $help }),*
        ];
    };
}

metrics! {
    loadbalancer_syncs: Counters = "service_controller_loadbalancer_sync_total", [],
        "Syncs of load balancers because Nodes came or went";
    nodesync_errors: Counters = "service_controller_nodesync_error_total", [],
        "Services whose sync failed after Nodes came or went";
    nodesync_latency: Seconds<Syncs> = "service_controller_nodesync_latency_seconds", [],
        "Time that it took to sync all Services after Nodes came or went";
    update_hosts_latency: Seconds<Syncs> = "service_controller_update_loadbalancer_host_latency_seconds", [],
        "Time that it took to sync one Service after Nodes came or went";
    taint_removal_delay: Seconds<Delays> = "node_controller_cloud_provider_taint_removal_delay_seconds", [],
        "Time from the creation of a Node to the end of its uninitialized taint";
    initial_sync_delay: Seconds<Delays> = "node_controller_initial_node_sync_delay_seconds", [],
        "Time from the creation of a Node to its first sync";
    rest_requests: Counters = "rest_client_requests_total", ["code", "method", "host"],
        "Requests to the API server; code is the status, or <error> where none came";
    rest_duration: Seconds<Work> = "rest_client_request_duration_seconds", ["verb", "host"],
        "Time from the sending of a request to the API server to the head of its answer";
    running_controllers: Gauges = "running_managed_controllers", ["name", "manager"],
        "1 for each controller that runs";
    leads: Gauges = "leader_election_master_status", ["name"],
        "1 while this process holds the Lease, else 0";
    queue_depth: Gauges = "workqueue_depth", ["name"],
        "Objects that wait for a worker";
    queue_adds: Counters = "workqueue_adds_total", ["name"],
        "Objects that were put into the queue";
    queue_retries: Counters = "workqueue_retries_total", ["name"],
        "Objects that were put into the queue again after a failure";
    queue_wait: Seconds<Work> = "workqueue_queue_duration_seconds", ["name"],
        "Time that objects waited for a worker";
    queue_work: Seconds<Work> = "workqueue_work_duration_seconds", ["name"],
        "Time that a worker took for an object";
    process_cpu: Counters = "process_cpu_seconds_total", [],
        "CPU time of the process";
    process_start: Gauges = "process_start_time_seconds", [],
        "When the process started, in Unix time";
    process_resident: Gauges = "process_resident_memory_bytes", [],
        "Resident memory of the process";
    process_virtual: Gauges = "process_virtual_memory_bytes", [],
        "Virtual memory of the process";
    process_files: Gauges = "process_open_fds", [],
        "Open file descriptors of the process";
    kubernetes_build_info: Gauges = "kubernetes_build_info",
        ["build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform"],
        "1, with the version of this program under the labels of Go's components; what a Rust binary has not, or is not known of it, is empty";
    build_info: Gauges = "cloudstack_ccm_build_info", ["version", "server_version"],
        "1, with the versions of this program and of CloudStack";
    dry_run: Gauges = "cloudstack_ccm_dry_run", [],
        "1 if nothing is changed (`--dry-run`), else 0";
    api_requests: Counters = "cloudstack_ccm_api_requests_total", ["command", "outcome"],
        "Requests to CloudStack; outcome is ok, timeout, no-answer, or whose fault an error is: transient, throttled, cloud, bug, refused, quota, permission";
    api_request_duration: Seconds<Work> = "cloudstack_ccm_api_request_duration_seconds", ["command", "outcome"],
        "Time from the sending of a request to its answer";
    api_server_limit: Gauges = "cloudstack_ccm_api_server_limit", [],
        "Requests per second that CloudStack announced as the limit of the account, of which half is used; absent where it announces none";
    api_throttled: Counters = "cloudstack_ccm_api_throttled_seconds_total", [],
        "Time that requests waited for their turn: the server allows only so many, and few are sent at a time";
    jobs_in_flight: Gauges = "cloudstack_ccm_jobs_in_flight", ["command"],
        "Async jobs that are followed";
    job_duration: Seconds<Work> = "cloudstack_ccm_job_duration_seconds", ["command"],
        "Time that async jobs were followed";
    reconciles: Counters = "cloudstack_ccm_reconcile_total", ["kind", "outcome"],
        "Syncs of objects; outcome is done, waiting, blocked, or whose fault a failure is";
    reconcile_duration: Seconds<Work> = "cloudstack_ccm_reconcile_duration_seconds", ["kind", "outcome"],
        "Time that the sync of an object took";
    plan_actions: Counters = "cloudstack_ccm_plan_actions_total", ["op", "disruption", "mode"],
        "Steps of plans; op is the command, disruption none, reload, cut or address-change, mode apply or dry-run";
    planned_actions: Gauges = "cloudstack_ccm_planned_actions", ["op", "disruption"],
        "Steps of the latest plan of each Service that are not done; in a dry run all of them";
    router_reloads: Counters = "cloudstack_ccm_router_reloads_total", ["network"],
        "Steps that were done and made the virtual router reload; network is the id of the network, or of the VPC";
    drift_repaired: Counters = "cloudstack_ccm_drift_repaired_total", ["kind"],
        "Steps that put back what somebody changed in CloudStack; kind is the first word of their name in plans, such as rule, members or firewall";
    addresses: Gauges = "cloudstack_ccm_addresses", ["state"],
        "Addresses that Services record; state is owned (released with the last Service) or kept (somebody else's)";
    services: Gauges = "cloudstack_ccm_services", ["state"],
        "Services of type LoadBalancer that are served from here; state is programmed, pending, blocked or degraded";
    blocked: Counters = "cloudstack_ccm_blocked_total", ["code"],
        "Refusals in plans, by their code (codes.md)";
    observation_age: Gauges = "cloudstack_ccm_observation_age_seconds", ["kind"],
        "Time since CloudStack was last read in full; Kubernetes is watched";
    credentials_valid: Gauges = "cloudstack_ccm_credentials_valid", [],
        "1 if CloudStack accepts the API key, 0 if it refuses it";
    credentials_reloads: Counters = "cloudstack_ccm_credentials_reloads_total", ["outcome"],
        "Changes of the configuration file; outcome is taken or kept-old";
    permission_missing: Gauges = "cloudstack_ccm_permission_missing", ["command"],
        "1 for each command that the role of the API key lacks";
    node_lookups: Counters = "cloudstack_ccm_node_lookups_total", ["result"],
        "Searches for the virtual machine of a Node; result is id, name, ambiguous or missing";
    events_dropped: Counters = "cloudstack_ccm_events_dropped_total", [],
        "Events that were not written, because there were too many or the API server refused them";
    trace_spans: Counters = "cloudstack_ccm_trace_spans_total", ["result"],
        "Spans of traces (`--otlp-endpoint`); result is exported, failed (the collector does not answer or refuses them) or dropped (too many waited)";
}

/// The reference, as `deploy/docs/metrics.md` holds it.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Metrics\n\n<!-- Generated from ccm/src/metrics/table.rs; tests/tests/docs.rs compares. -->\n\n\
         Served at `/metrics` on `--secure-port`, to callers that may `get` that path. No label has an\n\
         unbounded set of values: none names an object but the network. Names without `cloudstack_ccm_` are those of Go's\n\
         cloud controller managers. `go_*` tells of the Go runtime, which is not there: memory and CPU are in\n\
         `process_*`.\n\n\
         | Metric | Type | Labels | What it is |\n|---|---|---|---|\n",
    );
    for Spec { name, kind, labels, help } in TABLE {
        // Writing to a String can't fail.
        let _ = writeln!(text, "| `{name}` | {kind} | {} | {help} |", labels.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_what_they_count() {
        let mut names: Vec<&str> = TABLE.iter().map(|spec| spec.name).collect();
        for Spec { name, kind, .. } in TABLE {
            assert_eq!(*kind == "counter", name.ends_with("_total"), "{name}");
            assert!(*kind != "histogram" || name.ends_with("_seconds"), "{name}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
    }
}
