//! The command line: what can be asked for. `--help` is where most people learn the program, so
//! the texts say what a command is for, what it reads and what its exit code means.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ccm_core::ids::ServiceKey;
use clap::{
    Arg, ArgMatches, Args, Command, CommandFactory as _, FromArgMatches, Parser, Subcommand,
    ValueEnum,
};

use crate::config::{Overrides, Setting, duration};

/// Cloud controller manager for Apache CloudStack: Services of type LoadBalancer and Nodes.
#[derive(Debug, Parser)]
#[command(
    name = "cloudstack-ccm",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Try it without a CloudStack and without a cluster: `cloudstack-ccm demo`.

Results go to stdout; progress, warnings and errors go to stderr."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Verb,
    /// How to speak.
    #[command(flatten)]
    pub speech: Speech,
}

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Speech {
    /// When to use colour; `auto` means: on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,
    /// What to log on stderr: a level, or a filter as `RUST_LOG` has it [default: `RUST_LOG`, or warn].
    #[arg(long, global = true, value_name = "FILTER")]
    pub log_level: Option<String>,
    /// Form of log lines.
    #[arg(long, global = true, value_name = "FORM", default_value = "text")]
    pub log_format: LogFormat,
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

Services and Nodes come from manifests (`kubectl get services,nodes -A -o yaml` makes such), and
CloudStack is read live. Or everything comes from a snapshot, and then there is no network traffic
at all. Writes to Kubernetes are shown and not counted: files don't keep them.

  cloudstack-ccm plan --cloud-config cloud.conf --services services/ --nodes nodes/
  cloudstack-ccm plan --from snapshot.json --output json")]
    Plan(PlanArgs),
    /// Do what a saved plan says, unless the world has moved since
    #[command(after_help = "\
CloudStack is read again and planned again. If any step of the saved plan would be another one now,
nothing is done and the differences are listed; changes elsewhere don't matter. Services are done
one after the other, each one only if its steps are still the saved ones. On ctrl-C the running
calls are finished and no new one is started.

Exit codes: 0 all done, 1 error or a failed step, 4 refused because the world has moved.

  cloudstack-ccm plan --cloud-config cloud.conf --services s/ --nodes n/ --out plan.json
  cloudstack-ccm apply plan.json --cloud-config cloud.conf")]
    Apply(ApplyArgs),
    /// Save what planning needs in one file, to plan from it later or elsewhere
    #[command(after_help = "\
The file holds Services, Nodes and the state of CloudStack as far as planning looks at it. No secret
is in it. With --pseudonymise it holds no name, id or address of yours either, and still leads to
the same plan: attach that to a bug report.

  cloudstack-ccm snapshot --cloud-config cloud.conf --services s/ --nodes n/ --out snapshot.json
  cloudstack-ccm plan --from snapshot.json")]
    Snapshot(SnapshotArgs),
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

/// Where Services and Nodes come from.
#[derive(Debug, Args)]
pub struct ManifestArgs {
    /// Manifests of Services: files, or directories with *.yaml, *.yml and *.json.
    #[arg(long, value_name = "PATH", num_args = 1.., action = clap::ArgAction::Append)]
    pub services: Vec<PathBuf>,
    /// Manifests of Nodes, likewise.
    #[arg(long, value_name = "PATH", num_args = 1.., action = clap::ArgAction::Append)]
    pub nodes: Vec<PathBuf>,
}

/// Flags of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Plan from this snapshot, without any network.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cloud_config", "services", "nodes"])]
    pub from: Option<PathBuf>,
    /// CloudStack.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Kubernetes.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// Plan this Service only; may be given several times. The others are still looked at: shared
    /// addresses and ports need them.
    #[arg(long = "service", value_name = "NAMESPACE/NAME", value_parser = service_key)]
    pub only: Vec<ServiceKey>,
    /// Form of the plan on stdout.
    #[arg(long, value_name = "FORM", default_value = "human")]
    pub output: Form,
    /// Also save the plan, for `apply`.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub out: Option<PathBuf>,
    /// Exit with 2 if there are changes.
    #[arg(long)]
    pub detailed_exitcode: bool,
}

/// Form of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Human,
    /// For programs; the schema is deploy/plan.schema.json.
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
}

/// Flags of `snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// CloudStack.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Kubernetes.
    #[command(flatten)]
    pub manifests: ManifestArgs,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace names, ids, addresses and free texts; the plan stays the same.
    #[arg(long, visible_alias = "pseudonymize")]
    pub pseudonymise: bool,
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
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration)]
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

/// The reference, as `deploy/docs/commands.md` holds it.
pub fn markdown() -> String {
    // Writing to a String can't fail.
    let mut text = String::from(INTRODUCTION);
    let whole = Cli::command().term_width(100);
    let _ = write!(text, "\n```text\n{}```\n", plain(&whole));
    for command in whole.get_subcommands() {
        // As the program shows it: with its whole name.
        let name = format!("cloudstack-ccm {}", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let mut command = command.clone().bin_name(&name).term_width(100);
        // They are the same everywhere, and have a page of their own.
        let mut settings = "";
        for setting in flagged().map(|setting| setting.spec().key) {
            if command.get_arguments().any(|argument| argument.get_id() == setting) {
                settings = " Every setting of `configuration.md` but the keys has a flag here too.";
                command = command.mut_arg(setting, |argument| argument.hide(true));
            }
        }
        let help = plain(&command);
        let _ = write!(text, "\n## {name}\n\n{about}.{settings}\n\n```text\n{help}```\n");
    }
    text
}

fn plain(command: &Command) -> String {
    let help = command.clone().render_long_help().to_string();
    let lines = help.lines().map(str::trim_end).collect::<Vec<_>>();
    lines.join("\n").trim_end().to_owned() + "\n"
}

const INTRODUCTION: &str = "\
# Commands

<!-- Generated from ccm/src/cli.rs; tests/tests/docs.rs compares. -->

Results go to stdout; progress, warnings and errors go to stderr. Key, secret and signatures are in
no output, log line or file.

| Exit code | `plan` | `apply` | others |
|---|---|---|---|
| 0 | planned; with `--detailed-exitcode`: nothing to do | all done | done |
| 1 | error | error, a failed step, or interrupted | error |
| 2 | with `--detailed-exitcode`: there are changes | | |
| 4 | | refused, because the world has moved | |

| File | Written by | Read by | Holds |
|---|---|---|---|
| saved plan | `plan --out` | `apply` | policy, Services, Nodes, the plan |
| snapshot | `snapshot --out` | `plan --from` | policy, Services, Nodes, the state of CloudStack |
| world | you | `simulate` | what a CloudStack model holds at first; `deploy/world.schema.json` |
| cloud-config | you, or `simulate --cloud-config-out` | `plan`, `apply`, `snapshot` | `configuration.md` |

The JSON of `plan --output json` has the form of `deploy/plan.schema.json`; a saved plan has it in
`document`. Fields can be added within format 1; ignore those that you don't know.

`apply` reads CloudStack and plans again, with the Services and Nodes of the saved plan. If a step of
any Service with saved steps is not the same any more, nothing is done. Then Services are done one
after the other, in the order of the plan; from the second one on, CloudStack is read again before
each, and a Service whose steps have become others meanwhile is left as it is (exit code 4 at the
end). A failed step skips what depends on it, and other Services go on. A new plan always continues
from where things are.
";

fn service_key(text: &str) -> Result<ServiceKey, String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(ServiceKey::new(namespace, name))
        }
        Some(_) | None => Err("expected NAMESPACE/NAME, for example `shop/web`".to_owned()),
    }
}

fn go_duration(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Some(found) if found <= Duration::from_mins(1) => Ok(found),
        Some(_) => Err("expected at most 1m".to_owned()),
        None => Err("expected a duration, for example `50ms`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_settings_become_overrides_and_secrets_have_none() {
        let parsed = Cli::try_parse_from(["x", "apply", "p", "--cluster-id", "prod"]).unwrap();
        let Verb::Apply(apply) = parsed.command else { panic!("{parsed:?}") };
        let mut wanted = Overrides::default();
        wanted.set(Setting::ClusterId, "prod").unwrap();
        assert_eq!(apply.connect.settings.0, wanted);
        assert!(Cli::try_parse_from(["x", "apply", "p", "--secret-key", "s"]).is_err());
    }

    #[test]
    fn services_are_named_with_their_namespace() {
        assert_eq!(service_key("shop/web"), Ok(ServiceKey::new("shop", "web")));
        for text in ["web", "/web", "shop/", "a/b/c"] {
            assert!(service_key(text).is_err(), "{text}");
        }
    }
}
