//! Flags of the controller: those of Go's cloud controller managers, with their spelling and
//! defaults, so that a manifest made for such a one starts this one.
//!
//! 1. clap reads each value into its type; an empty text counts as not set.
//! 2. [`ControllerArgs::options`] holds them against each other; all mistakes go into one message.
//! 3. [`ControllerArgs::warnings`] tells of those that have no effect (`legacy.rs`).

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use ccm_core::controllers::{Controllers, UnknownControllers};
use ccm_core::debounce::Windows;
use ccm_core::election::{Timing, TimingError};
use clap::Args;
use thiserror::Error;

use super::ConnectArgs;
use super::legacy::LegacyFlags;
use super::serving::{ServingArgs, ServingOptions, TlsVersion};
use super::tracing::TraceArgs;
use super::values::{go_duration, path, switch};
use crate::traces::CollectorUrl;

/// The Lease of a dry run: it never keeps a controller from leading.
const DRY_RUN_LEASE: &str = "cloudstack-ccm-dry-run";
/// The Lease of all cloud controller managers.
const LEASE: &str = "cloud-controller-manager";

/// Flags of the controller.
#[derive(Debug, Args)]
pub struct ControllerArgs {
    /// CloudStack.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Kubernetes.
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// What is done, and how fast.
    #[command(flatten)]
    pub(super) work: WorkArgs,
    /// Who leads.
    #[command(flatten)]
    pub(super) election: ElectionArgs,
    /// What is served.
    #[command(flatten)]
    pub(super) serving: ServingArgs,
    /// Where traces go.
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    /// What has no effect.
    #[command(flatten)]
    pub(super) legacy: LegacyFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Controller: Kubernetes")]
pub(super) struct ClusterArgs {
    /// Kubeconfig of the API server; without it the service account of the pod is used.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    kubeconfig: String,
    /// URL of the API server, in place of the one in the kubeconfig.
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    master: String,
    /// Name of the provider; `cloudstack` and `external-cloudstack` mean this one.
    #[arg(long, value_name = "NAME", default_value = "external-cloudstack")]
    #[arg(hide_short_help = true)]
    cloud_provider: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Controller: Work")]
pub(super) struct WorkArgs {
    /// Controllers that run: a list of `cloud-node`, `cloud-node-lifecycle` and `service`; `*` is
    /// all of them, `-name` switches one off, and the first mention wins.
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// Read, plan and show what would be done; change nothing, neither in CloudStack nor in
    /// Kubernetes. It leads under a Lease of its own, so it can run beside a live controller.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = switch)]
    #[arg(action = clap::ArgAction::Set)]
    dry_run: bool,
    /// How many Services are synced at the same time; 1 in Go controllers.
    #[arg(long, value_name = "COUNT", default_value_t = 16, allow_negative_numbers = true)]
    concurrent_service_syncs: i64,
    /// How many Nodes are initialised at the same time; 1 in Go controllers.
    #[arg(long, value_name = "COUNT", default_value_t = 16, allow_negative_numbers = true)]
    #[arg(hide_short_help = true)]
    concurrent_node_syncs: i64,
    /// How many Nodes have their addresses refreshed at the same time; 0 is as many as
    /// `--concurrent-node-syncs` says.
    #[arg(long, value_name = "COUNT", default_value_t = 0, allow_negative_numbers = true)]
    #[arg(hide_short_help = true)]
    concurrent_node_status_updates: i64,
    /// How often addresses and labels of Nodes are refreshed.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    node_status_update_frequency: Duration,
    /// How often it is looked whether the machines of Nodes that are not ready still exist.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    node_monitor_period: Duration,
    /// How often all Services are held against CloudStack, so that what others changed there is
    /// mended.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    drift_interval: Duration,
    /// How long further changes are waited for after a Node came, before Services are synced.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    node_added_window: Duration,
    /// As `--node-added-window`, after a Node went.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    node_removed_window: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Controller: Leader election")]
#[expect(clippy::struct_field_names, reason = "the names of the flags are made of them")]
pub(super) struct ElectionArgs {
    /// Work only while leading, so that several replicas can run.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", value_parser = switch)]
    #[arg(action = clap::ArgAction::Set, hide_short_help = true)]
    leader_elect: bool,
    /// How long others wait for a leader that does not renew its Lease.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    leader_elect_lease_duration: Duration,
    /// How long a leader that can't renew its Lease goes on.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    leader_elect_renew_deadline: Duration,
    /// How often the Lease is renewed, or looked at.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    #[arg(hide_short_help = true)]
    leader_elect_retry_period: Duration,
    /// Kind of the lock: `leases`, there is no other.
    #[arg(long, value_name = "KIND", default_value = "leases", hide_short_help = true)]
    leader_elect_resource_lock: String,
    /// Name of the Lease [default: cloud-controller-manager; in a dry run cloudstack-ccm-dry-run].
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", hide_short_help = true)]
    leader_elect_resource_namespace: String,
}

/// What the controller is asked for, all of it usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// `--controllers`.
    pub controllers: Controllers,
    /// `--dry-run`.
    pub dry_run: bool,
    /// `--concurrent-service-syncs`.
    pub service_syncs: NonZeroUsize,
    /// `--concurrent-node-syncs`.
    pub node_syncs: NonZeroUsize,
    /// `--concurrent-node-status-updates`.
    pub node_status_updates: NonZeroUsize,
    /// `--node-status-update-frequency`.
    pub node_status_period: Duration,
    /// `--node-monitor-period`.
    pub node_monitor_period: Duration,
    /// `--drift-interval`.
    pub drift_interval: Duration,
    /// `--node-added-window` and `--node-removed-window`.
    pub windows: Windows,
    /// `--leader-elect` and its settings; `None` works without a Lease.
    pub election: Option<ElectionOptions>,
    /// `--secure-port` and its settings; `None` serves nothing.
    pub serving: Option<ServingOptions>,
    /// `--otlp-endpoint`; `None` sends no traces.
    pub collector: Option<CollectorUrl>,
}

/// The Lease, and how it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionOptions {
    /// Durations.
    pub timing: Timing,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
}

/// Mistakes in flags; never empty.
#[derive(Debug, Error)]
pub struct FlagErrors(Vec<FlagError>);

impl fmt::Display for FlagErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(errors) = self;
        f.write_str("the flags can't be used:")?;
        errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// A mistake in a flag.
#[derive(Debug, Error)]
pub enum FlagError {
    /// Nobody would work.
    #[error("`--{flag}` is {found}, which must be at least 1")]
    TooFew {
        /// The flag.
        flag: &'static str,
        /// Its value.
        found: i64,
    },
    /// It would be done without a pause.
    #[error("`--{flag}` is 0s, which must be longer; write for example `10s`")]
    NoPeriod {
        /// The flag.
        flag: &'static str,
    },
    /// A controller that there is not.
    #[error("`--controllers`: {0}")]
    Controllers(UnknownControllers),
    /// Durations that don't go together.
    #[error("{0}")]
    Timing(TimingError),
    /// A lock of another kind.
    #[error("`--leader-elect-resource-lock` is {0:?}; only `leases` is supported")]
    Lock(String),
    /// A Lease without a name.
    #[error("`--{flag}` is empty; leave it out for the default")]
    Nameless {
        /// The flag.
        flag: &'static str,
    },
    /// Half a certificate.
    #[error("`--tls-cert-file` and `--tls-private-key-file` go together; only one is given")]
    HalfCertificate,
}

/// Collects mistakes.
#[derive(Default)]
pub(super) struct Mistakes(Vec<FlagError>);

impl Mistakes {
    pub(super) fn push(&mut self, mistake: FlagError) {
        self.0.push(mistake);
    }

    fn count(&mut self, flag: &'static str, found: i64) -> NonZeroUsize {
        let count = usize::try_from(found).ok().and_then(NonZeroUsize::new);
        count.unwrap_or_else(|| {
            self.push(FlagError::TooFew { flag, found });
            NonZeroUsize::MIN
        })
    }

    fn period(&mut self, flag: &'static str, found: Duration) -> Duration {
        if found.is_zero() {
            self.push(FlagError::NoPeriod { flag });
        }
        found
    }

    fn name(&mut self, flag: &'static str, found: &str) -> String {
        if found.is_empty() {
            self.push(FlagError::Nameless { flag });
        }
        found.to_owned()
    }

    fn or_default<T: Default>(&mut self, found: Result<T, FlagError>) -> T {
        found.unwrap_or_else(|error| {
            self.push(error);
            T::default()
        })
    }
}

impl ControllerArgs {
    /// What is asked for.
    ///
    /// # Errors
    /// [`FlagErrors`] with every mistake.
    pub fn options(&self) -> Result<ControllerOptions, FlagErrors> {
        let mut mistakes = Mistakes::default();
        let options = self.read(&mut mistakes);
        let Mistakes(mistakes) = mistakes;
        if mistakes.is_empty() { Ok(options) } else { Err(FlagErrors(mistakes)) }
    }

    /// The collector that traces are sent to. It is known before anything is logged.
    pub fn collector(&self) -> Option<&CollectorUrl> {
        self.traces.collector()
    }

    /// What an operator should know of flags that work otherwise than they look.
    pub fn warnings(&self) -> Vec<String> {
        let provider = &self.cluster.cloud_provider;
        let known = matches!(provider.as_str(), "cloudstack" | "external-cloudstack");
        let stranger = (!known).then(|| {
            format!(
                "`--cloud-provider` is {provider:?}; this is the provider `external-cloudstack`"
            )
        });
        let old_tls = matches!(self.serving.tls_min_version, TlsVersion::V10 | TlsVersion::V11)
            .then(|| {
                "`--tls-min-version` is below VersionTLS12, the least that is spoken".to_owned()
            });
        stranger.into_iter().chain(old_tls).chain(self.legacy.warnings()).collect()
    }

    fn read(&self, mistakes: &mut Mistakes) -> ControllerOptions {
        let Self { connect: _, cluster, work, election, serving, traces, legacy: _ } = self;
        let listed = Controllers::parse(work.controllers.iter().map(String::as_str));
        let node_syncs = mistakes.count("concurrent-node-syncs", work.concurrent_node_syncs);
        let node_status_updates = match work.concurrent_node_status_updates {
            0 => node_syncs,
            given => mistakes.count("concurrent-node-status-updates", given),
        };
        ControllerOptions {
            kubeconfig: path(&cluster.kubeconfig),
            master: Some(cluster.master.clone()).filter(|url| !url.is_empty()),
            controllers: mistakes.or_default(listed.map_err(FlagError::Controllers)),
            dry_run: work.dry_run,
            service_syncs: mistakes
                .count("concurrent-service-syncs", work.concurrent_service_syncs),
            node_syncs,
            node_status_updates,
            node_status_period: mistakes
                .period("node-status-update-frequency", work.node_status_update_frequency),
            node_monitor_period: mistakes.period("node-monitor-period", work.node_monitor_period),
            drift_interval: mistakes.period("drift-interval", work.drift_interval),
            windows: Windows { added: work.node_added_window, removed: work.node_removed_window },
            election: election.read(work.dry_run, mistakes),
            serving: serving.read(&cluster.kubeconfig, mistakes),
            collector: traces.collector().cloned(),
        }
    }
}

impl ElectionArgs {
    fn read(&self, dry_run: bool, mistakes: &mut Mistakes) -> Option<ElectionOptions> {
        if self.leader_elect_resource_lock != "leases" {
            mistakes.push(FlagError::Lock(self.leader_elect_resource_lock.clone()));
        }
        let timing = Timing::new(
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        let default = if dry_run { DRY_RUN_LEASE } else { LEASE };
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(default);
        let namespace = &self.leader_elect_resource_namespace;
        let options = ElectionOptions {
            timing: mistakes.or_default(timing.map_err(FlagError::Timing)),
            namespace: mistakes.name("leader-elect-resource-namespace", namespace),
            name: mistakes.name("leader-elect-resource-name", name),
        };
        self.leader_elect.then_some(options)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use ccm_core::controllers::Controller;

    use super::*;
    use crate::cli::Cli;

    fn args(flags: &[&str]) -> ControllerArgs {
        let given = ["cloudstack-ccm"].iter().chain(flags).map(OsString::from);
        Cli::read(given).unwrap().controller
    }

    fn options(flags: &[&str]) -> ControllerOptions {
        args(flags).options().unwrap()
    }

    #[test]
    fn the_go_controllers_manifest_starts_it_with_gos_defaults() {
        let args = args(&[
            "--leader-elect=true",
            "--cloud-provider=external-cloudstack",
            "--cloud-config=/config/cloud-config",
        ]);
        assert_eq!(args.warnings(), Vec::<String>::new());
        let found = args.options().unwrap();
        let election = found.election.unwrap();
        assert_eq!(election.timing, Timing::default());
        assert_eq!(
            (election.namespace.as_str(), election.name.as_str()),
            ("kube-system", "cloud-controller-manager")
        );
        let serving = found.serving.unwrap();
        assert_eq!(serving.address, "0.0.0.0:10258".parse().unwrap());
        assert_eq!(serving.always_allow, ["/healthz", "/readyz", "/livez"]);
        assert_eq!(found.controllers, Controllers::default());
        assert_eq!(found.node_status_period, Duration::from_mins(5));
        assert_eq!((found.kubeconfig, found.dry_run), (None, false));
    }

    #[test]
    fn booleans_stand_alone_or_with_a_value() {
        let elects = |flags: &[&str]| options(flags).election.is_some();
        assert!(elects(&["--dry-run"]) && elects(&["--leader-elect"]));
        assert!(elects(&["--leader-elect=T"]) && !elects(&["--leader-elect=false"]));
        assert!(options(&["--dry-run"]).dry_run && !options(&["--dry-run=false"]).dry_run);
        let apart = ["cloudstack-ccm", "--leader-elect", "false"].map(OsString::from);
        assert!(Cli::read(apart).is_err());
    }

    #[test]
    fn a_flag_counts_as_it_stands_last_lists_add_up_and_empty_is_not_set() {
        let found =
            options(&["--secure-port=1", "--secure_port", "0", "--kubeconfig=", "--master="]);
        assert_eq!((found.serving, found.kubeconfig, found.master), (None, None, None));
        let found = options(&["--controllers=*", "--controllers", "-service,-cloud-node"]);
        assert_eq!(
            found.controllers.enabled().collect::<Vec<_>>(),
            [Controller::CloudNodeLifecycle]
        );
    }

    #[test]
    fn a_dry_run_leads_under_a_lease_of_its_own() {
        let name = |flags: &[&str]| options(flags).election.unwrap().name;
        assert_eq!(name(&["--dry-run"]), "cloudstack-ccm-dry-run");
        assert_eq!(name(&["--dry-run", "--leader-elect-resource-name=x"]), "x");
    }

    #[test]
    fn every_mistake_is_in_one_message() {
        let error = args(&[
            "--concurrent-service-syncs=0",
            "--concurrent-node-syncs=-1",
            "--controllers=services",
            "--leader-elect-lease-duration=5s",
            "--leader-elect-resource-lock=endpoints",
            "--leader-elect-resource-name=",
            "--drift-interval=0",
            "--tls-cert-file=x",
        ]);
        let text = error.options().unwrap_err().to_string();
        for part in [
            "the flags can't be used:\n",
            "`--concurrent-service-syncs` is 0, which must be at least 1",
            "`--concurrent-node-syncs` is -1",
            "`--controllers`: \"services\" is not in the list of known controllers",
            "`--leader-elect-lease-duration` is 5s",
            "\"endpoints\"",
            "`--leader-elect-resource-name` is empty",
            "`--drift-interval` is 0s",
            "`--tls-private-key-file` go together",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert_eq!(text.lines().count(), 9, "{text}");
    }

    #[test]
    fn flags_without_effect_are_accepted_and_told_unless_they_are_off() {
        let args = args(&[
            "--allocate-node-cidrs=true",
            "--configure-cloud-routes=false",
            "--allow-untagged-cloud",
            "--logtostderr",
            "--stderrthreshold",
            "2",
            "--cloud-provider=aws",
            "--tls-min-version=VersionTLS11",
        ]);
        let warnings = args.warnings();
        for word in [
            "allocate-node-cidrs",
            "allow-untagged-cloud",
            "logtostderr",
            "stderrthreshold",
            "\"aws\"",
            "tls-min-version",
        ] {
            assert_eq!(warnings.iter().filter(|line| line.contains(word)).count(), 1, "{word}");
        }
        assert_eq!(warnings.len(), 6, "{warnings:?}");
        args.options().unwrap();
    }
}
