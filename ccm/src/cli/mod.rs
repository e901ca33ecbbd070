//! The command line: what can be asked for. `--help` is where most people learn the program, so
//! the texts say what a command is for, what it reads and what its exit code means.

mod controller;
mod legacy;
mod reference;
mod serving;
mod tracing;
mod values;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ccm_core::ids::ServiceKey;
use ccm_core::permission::Task;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{
    Arg, ArgMatches, Args, Command, CommandFactory as _, FromArgMatches, Parser, Subcommand,
    ValueEnum,
};

use crate::config::{Overrides, Setting};
use values::{service_key, short_duration, task};

pub use controller::{ControllerArgs, ControllerOptions, ElectionOptions, FlagError, FlagErrors};
pub use reference::{controller_flags, markdown};
pub use serving::{Beliefs, CertificateFiles, FrontProxy, ServingOptions, VoucherOptions};

/// Cloud controller manager for Apache CloudStack: Services of type LoadBalancer and Nodes.
///
/// With flags and no command it is the controller: it watches a cluster and serves it until it is
/// stopped.
#[derive(Debug, Parser)]
#[command(
    name = "cloudstack-ccm",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    args_override_self = true,
    override_usage = "cloudstack-ccm [OPTIONS]\n       cloudstack-ccm <COMMAND> [OPTIONS]",
    max_term_width = 100,
    after_help = "\
Try it without a CloudStack and without a cluster: `cloudstack-ccm demo`.

In a cluster:    cloudstack-ccm --cloud-config /config/cloud-config
Look, no touch:  cloudstack-ccm --cloud-config cloud.conf --kubeconfig admin.conf --dry-run

Flags of Go cloud controller managers are understood; those without effect get a warning.
Results go to stdout; progress, warnings and errors go to stderr."
)]
pub struct Cli {
    /// What to do; nothing is to be the controller.
    #[command(subcommand)]
    pub command: Option<Verb>,
    /// Flags of the controller.
    #[command(flatten)]
    pub controller: ControllerArgs,
    /// How to speak.
    #[command(flatten)]
    pub speech: Speech,
}

impl Cli {
    /// Reads the arguments, the program's name first.
    ///
    /// # Errors
    /// What is wrong with them, or the help or version that they ask for.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut whole = Self::command();
        let matches = whole.try_get_matches_from_mut(arguments.into_iter().map(with_dashes))?;
        if let Some((verb, _)) = matches.subcommand()
            && let Some(flag) = flag_of_controller(&whole, &matches)
        {
            let text =
                format!("`--{flag}` before `{verb}` is of the controller; write it after `{verb}`");
            return Err(whole.error(ErrorKind::ArgumentConflict, text));
        }
        Self::from_arg_matches(&matches)
    }
}

/// A flag of the controller that was given.
fn flag_of_controller(whole: &Command, matches: &ArgMatches) -> Option<String> {
    let given = |argument: &&Arg| {
        matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let own = whole.get_arguments().filter(|argument| !argument.is_global_set());
    own.filter(given).find_map(|argument| argument.get_long().map(str::to_owned))
}

/// Go programs take `_` for `-` in names of flags.
fn with_dashes(argument: OsString) -> OsString {
    let Some(flag) = argument.to_str().filter(|text| text.starts_with("--")) else {
        return argument;
    };
    match flag.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
        None => flag.replace('_', "-").into(),
    }
}

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Speech {
    /// When to use colour; `auto` means: on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,
    /// What to log on stderr: a level, or a filter as `RUST_LOG` has it [default: `RUST_LOG`, or
    /// info for the controller and warn for commands].
    #[arg(long, global = true, value_name = "FILTER")]
    pub log_level: Option<String>,
    /// Form of log lines.
    #[arg(long, visible_alias = "logging-format", global = true, value_name = "FORM")]
    #[arg(default_value = "text")]
    pub log_format: LogFormat,
    /// What to log, as Go programs count it: from 4 on as `--log-level debug`, from 6 on `trace`,
    /// else `info`. `--log-level` goes first.
    #[arg(short, long = "v", global = true, value_name = "NUMBER", hide_short_help = true)]
    pub verbosity: Option<u8>,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what would be done in CloudStack, and why; change nothing
    #[command(after_help = "\
Exit codes: 0 a plan was made, 1 error. With --detailed-exitcode: 0 nothing to do, 1 error,
2 there are changes.

Services and Nodes come from a live cluster, the one of --kubeconfig or $KUBECONFIG, or the one that
the program runs in. Or they come from manifests (`kubectl get services,nodes -A -o yaml` makes
such). CloudStack is read live. Or everything comes from a snapshot, and then there is no network
traffic at all.

Against a live cluster, writes to Kubernetes count as changes; for files they are shown and not
counted, because files don't keep them. Nothing is watched, and no Lease is taken, so this can run
beside a controller: what that one did not do yet, or can't do, is what the plan shows.

  cloudstack-ccm plan --cloud-config cloud.conf --kubeconfig admin.conf --context prod
  cloudstack-ccm plan --cloud-config cloud.conf --services services/ --nodes nodes/
  cloudstack-ccm plan --from snapshot.json --output json")]
    Plan(PlanArgs),
    /// Do what a saved plan says, unless the world has moved since
    #[command(after_help = "\
CloudStack, and the cluster if the plan is of a live one, are read again and planned again. If any
step of the saved plan would be another one now, nothing is done and the differences are listed;
changes elsewhere don't matter. Services are done one after the other, each one only if its steps
are still the saved ones. On ctrl-C the running calls are finished and no new one is started.

In a live cluster the Lease of the controller is held meanwhile: a controller that leads already does
by itself what is to be done, so then nothing is applied. A plan of manifests writes nothing to
Kubernetes.

Exit codes: 0 all done, 1 error or a failed step, 4 refused because the world has moved.

  cloudstack-ccm plan --cloud-config cloud.conf --kubeconfig admin.conf --out plan.json
  cloudstack-ccm apply plan.json --cloud-config cloud.conf --kubeconfig admin.conf

  cloudstack-ccm plan --cloud-config cloud.conf --services s/ --nodes n/ --out plan.json
  cloudstack-ccm apply plan.json --cloud-config cloud.conf")]
    Apply(ApplyArgs),
    /// Save what planning needs in one file, to plan from it later or elsewhere
    #[command(after_help = "\
The file holds Services, Nodes and the state of CloudStack as far as planning looks at it, from the
same places as for `plan`. No secret is in it. With --pseudonymise it holds no name, id or address of yours either, and still leads to
the same plan: attach that to a bug report.

  cloudstack-ccm snapshot --cloud-config cloud.conf --kubeconfig admin.conf --out snapshot.json
  cloudstack-ccm plan --from snapshot.json")]
    Snapshot(SnapshotArgs),
    /// Tell what the credentials may do, and what is lost without the rest
    #[command(after_help = "\
CloudStack is asked if --cloud-config is given, or $CLOUDSTACK_ENDPOINT is set; a cluster if
--kubeconfig or --context is given, $KUBECONFIG is set, or the program runs in a pod. Either alone
will do. Nothing is changed: commands that read are tried, listApis tells of the others, and the API
server says what it would allow (SelfSubjectAccessReview).

Exit codes: 0 all that is needed is there, 1 error, 2 something that is needed is missing. What is
optional does not count.

  cloudstack-ccm check-permissions --cloud-config cloud.conf
  cloudstack-ccm check-permissions --kubeconfig admin.conf --for plan
  kubectl -n kube-system exec deploy/cloud-controller-manager -- \\
      /app/cloudstack-ccm check-permissions --cloud-config /config/cloud-config")]
    CheckPermissions(CheckPermissionsArgs),
    /// Remove what is left of a cluster that is gone: its addresses, rules and openings
    #[command(after_help = "\
What is left of a cluster tells of it: descriptions of load balancer rules, reasons of ACL items, tags.
From them the plan is made, shown, and carried out once you have typed the cluster's id. Only what
is proven goes. What looks as if it were of this cluster and is not proven is listed apart: rules that
name none, firewall rules on addresses that people allocated. An address that bears the tag k8s-keep
stays; annotation keep-ip went with its Service and tells nothing any more.

No cluster is asked, it may be gone. With --kubeconfig or --context, Services of that cluster are left
alone, and the addresses that they record stay: give it if some of them live on under another cluster
id, or to remove what is left of Services that were taken out of a living cluster by force.

Exit codes: 0 nothing is left or all was removed, 1 error or a failed step, 4 the world moved meanwhile.
With --dry-run --detailed-exitcode: 2 something is left.

  cloudstack-ccm cleanup --cloud-config cloud.conf                        # which clusters are there
  cloudstack-ccm cleanup --cloud-config cloud.conf --cluster-id old --dry-run
  cloudstack-ccm cleanup --cloud-config cloud.conf --cluster-id old")]
    Cleanup(CleanupArgs),
    /// Serve a CloudStack model over HTTP, to try things on
    #[command(after_help = "\
It speaks CloudStack's API: signatures, async jobs, paging, roles, the differences between releases.
It starts from a world file, keeps everything in memory and forgets it at the end (ctrl-C, SIGTERM).

  cloudstack-ccm simulate --listen 127.0.0.1:8080 --world fixtures/demo/world.yaml \\
      --cloud-config-out cloud.conf")]
    Simulate(SimulateArgs),
    /// See the main job end to end in a minute, on an embedded CloudStack model
    #[command(after_help = "\
Real manifests, the real client over HTTP, a CloudStack model on loopback: a Service is made,
changed in place, and deleted without leftovers, every plan printed and applied step by step.

Exit codes: 0 everything converged and nothing was left behind, 1 anything else.")]
    Demo(DemoArgs),
}

/// Where CloudStack is, and how to talk to it.
#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// The INI file of the Go controller, or of the `cs` tool; the environment goes first, flags
    /// before both.
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,
    /// Settings by flag.
    #[command(flatten)]
    pub settings: SettingFlags,
}

/// Where Services and Nodes come from: files, or else a live cluster.
#[derive(Debug, Args)]
pub struct ObjectArgs {
    /// Files.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// A live cluster.
    #[command(flatten)]
    pub cluster: KubeArgs,
}

/// Which cluster is meant.
#[derive(Debug, Args)]
pub struct KubeArgs {
    /// Kubeconfig of the cluster [default: $KUBECONFIG, ~/.kube/config, or the service account of
    /// the pod].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Manifests of Services and Nodes.
#[derive(Debug, Args)]
pub struct ManifestArgs {
    /// Manifests of Services: files, or directories with *.yaml, *.yml and *.json.
    #[arg(long, value_name = "PATH", num_args = 1.., action = clap::ArgAction::Append)]
    #[arg(conflicts_with_all = ["kubeconfig", "context"])]
    pub services: Vec<PathBuf>,
    /// Manifests of Nodes, likewise.
    #[arg(long, value_name = "PATH", num_args = 1.., action = clap::ArgAction::Append)]
    #[arg(conflicts_with_all = ["kubeconfig", "context"])]
    pub nodes: Vec<PathBuf>,
}

/// Flags of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Plan from this snapshot, without any network.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["cloud_config", "services", "nodes", "kubeconfig", "context"])]
    pub from: Option<PathBuf>,
    /// CloudStack.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Kubernetes.
    #[command(flatten)]
    pub objects: ObjectArgs,
    /// Plan this Service only; may be given several times. The others are still looked at: shared
    /// addresses and ports need them.
    #[arg(long = "service", value_name = "NAMESPACE/NAME", value_parser = service_key)]
    pub only: Vec<ServiceKey>,
    /// Form of the plan on stdout.
    #[arg(long, value_name = "FORM", default_value = "human")]
    pub output: Form,
    /// Also save the plan, for `apply`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 2 if there are changes.
    #[arg(long)]
    pub detailed_exitcode: bool,
}

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Human,
    /// For programs; the schemas are deploy/plan.schema.json and deploy/permissions.schema.json.
    Json,
}

/// Flags of `apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The file that `plan --out` wrote.
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// CloudStack.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// For a plan of a live cluster: that cluster.
    #[command(flatten)]
    pub cluster: KubeArgs,
    /// The Lease to hold meanwhile, so that no controller works.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service_key)]
    #[arg(default_value = "kube-system/cloud-controller-manager")]
    pub lease: ServiceKey,
}

/// Flags of `snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// CloudStack.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Kubernetes.
    #[command(flatten)]
    pub objects: ObjectArgs,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace names, ids, addresses and free texts; the plan stays the same.
    #[arg(long, visible_alias = "pseudonymize")]
    pub pseudonymise: bool,
}

/// Flags of `check-permissions`.
#[derive(Debug, Args)]
pub struct CheckPermissionsArgs {
    /// CloudStack.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Kubernetes.
    #[command(flatten)]
    pub cluster: KubeArgs,
    /// What the credentials are to do; `plan` is for `snapshot` too.
    #[arg(long = "for", value_name = "TASK", default_value = "controller", value_parser = task())]
    pub task: Task,
    /// Form of the answer on stdout.
    #[arg(long, value_name = "FORM", default_value = "human")]
    pub output: Form,
}

/// Flags of `cleanup`.
#[derive(Debug, Args)]
pub struct CleanupArgs {
    /// CloudStack, and the cluster: only the flag --cluster-id says which one.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Kubeconfig of a cluster that lives: its Services are left alone [default: no cluster is asked].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; alone, of the one that other commands take.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Show what is left, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask.
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Form of the plan on stdout.
    #[arg(long, value_name = "FORM", default_value = "human")]
    pub output: Form,
    /// With --dry-run: exit with 2 if something is left.
    #[arg(long, requires = "dry_run")]
    pub detailed_exitcode: bool,
}

/// Flags of `simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Where to listen; port 0 takes a free one. Anything but loopback gets a loud warning.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// What is there at first; the schema is deploy/world.schema.json.
    #[arg(long, value_name = "FILE")]
    pub world: PathBuf,
    /// CloudStack release, 4.15 to 4.23 [default: what the world file says].
    #[arg(long, value_name = "RELEASE")]
    pub version: Option<ccm_simulator::Version>,
    /// Hold every answer back for so long, for example 50ms.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = short_duration)]
    pub latency: Duration,
    /// Write a cloud-config here as soon as requests are answered. It is for the first account of
    /// role User and holds the world's cluster-id.
    #[arg(long, value_name = "FILE")]
    pub cloud_config_out: Option<PathBuf>,
}

/// Flags of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// CloudStack release to show, 4.15 to 4.23. Up to 4.21 a rule's source list can't be edited:
    /// the rule is made anew.
    #[arg(long, value_name = "RELEASE", default_value = "4.22")]
    pub cloudstack_version: ccm_simulator::Version,
    /// Let time pass so many times faster.
    #[arg(long, value_name = "FACTOR", default_value_t = 1, hide = true,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub speed: u32,
}

/// A flag for every setting that may have one, from the table in `config/keys.rs`.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags(pub Overrides);

fn flagged() -> impl Iterator<Item = Setting> {
    Setting::ALL.iter().copied().filter(|setting| setting.spec().flag)
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        flagged().fold(command, |command, setting| {
            let spec = setting.spec();
            // Few people need more than these two; `-h` shows no others.
            let rare = !matches!(setting, Setting::ClusterId | Setting::ProjectId);
            let help = spec.doc.trim_end_matches('.');
            command.arg(
                Arg::new(spec.key)
                    .long(spec.key)
                    .value_name("VALUE")
                    .help(format!("{help} [{}; env {}]", spec.value, spec.env))
                    .help_heading("Configuration (also in the file and the environment)")
                    .hide_short_help(rare),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in flagged() {
            if let Some(value) = matches.get_one::<String>(setting.spec().key) {
                let set = self.0.set(setting, value);
                set.map_err(|no| clap::Error::raw(clap::error::ErrorKind::UnknownArgument, no))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::read(["cloudstack-ccm"].iter().chain(arguments).map(OsString::from))
    }

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_settings_become_overrides_and_secrets_have_none() {
        let parsed = read(&["apply", "p", "--cluster-id", "prod"]).unwrap();
        let Some(Verb::Apply(apply)) = parsed.command else { panic!("{parsed:?}") };
        let mut wanted = Overrides::default();
        wanted.set(Setting::ClusterId, "prod").unwrap();
        assert_eq!(apply.connect.settings.0, wanted);
        assert!(read(&["apply", "p", "--secret-key", "s"]).is_err());
    }

    #[test]
    fn output_flags_stand_anywhere_and_flags_of_the_controller_before_no_command() {
        let parsed = read(&["--log-level", "debug", "-v=4", "apply", "p"]).unwrap();
        assert_eq!(parsed.speech.log_level.as_deref(), Some("debug"));
        assert_eq!(parsed.speech.verbosity, Some(4));
        assert!(read(&["--logging-format=json"]).unwrap().command.is_none());
        let error = read(&["--cloud-config", "c", "apply", "p"]).unwrap_err().to_string();
        assert!(error.contains("write it after `apply`"), "{error}");
    }
}
