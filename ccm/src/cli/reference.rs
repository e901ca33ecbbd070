//! The pages `deploy/docs/commands.md` and `deploy/docs/controller-flags.md`, from the help texts.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::legacy::{LEGACY, Legacy};
use super::{Cli, flagged};

/// The reference, as `deploy/docs/commands.md` holds it.
pub fn markdown() -> String {
    // Writing to a String can't fail.
    let mut text = String::from(INTRODUCTION);
    let whole = Cli::command().term_width(100);
    let root = without_settings(whole.clone().mut_args(|argument| {
        let is_listed_elsewhere = is_of_controller(&argument);
        argument.hide(is_listed_elsewhere)
    }));
    let _ = write!(text, "\n```text\n{}```\n", plain(root));
    for command in whole.get_subcommands() {
        // As the program shows it: with its whole name.
        let name = format!("cloudstack-ccm {}", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let has_settings = command.get_arguments().any(is_setting);
        let settings = if has_settings { SETTINGS } else { "" };
        let help = plain(without_settings(command.clone().bin_name(&name).term_width(100)));
        let _ = write!(text, "\n## {name}\n\n{about}.{settings}\n\n```text\n{help}```\n");
    }
    text
}

/// The reference, as `deploy/docs/controller-flags.md` holds it.
pub fn controller_flags() -> String {
    let whole = Cli::command();
    let mut text = String::from(CONTROLLER);
    let mut heading = None;
    let shown = |argument: &&Arg| is_of_controller(argument) && !argument.is_hide_set();
    for argument in whole.get_arguments().filter(shown) {
        if heading != argument.get_help_heading() {
            heading = argument.get_help_heading();
            let title = heading.unwrap_or_default().trim_start_matches(HEADING);
            let _ =
                write!(text, "\n## {title}\n\n| Flag | Default | What it does |\n|---|---|---|\n");
        }
        text.push_str(&row(argument));
    }
    text.push_str(WITHOUT_EFFECT);
    for Legacy { name, is_switch: _, why } in LEGACY {
        let _ = writeln!(text, "| `--{name}` | {why} |");
    }
    text
}

fn row(argument: &Arg) -> String {
    let name = argument.get_long().unwrap_or_default();
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    // A default that is no value stands at the end of the text.
    let (help, said) = match help.split_once(" [default: ") {
        Some((help, said)) => (help.to_owned(), said.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    };
    let values = argument.get_default_values().iter().filter(|value| !value.is_empty());
    let values: Vec<String> = values.map(|value| format!("`{}`", value.display())).collect();
    let default = if values.is_empty() { said } else { values.join(", ") };
    format!("| `--{name}` | {default} | {help} |\n")
}

fn is_of_controller(argument: &Arg) -> bool {
    argument.get_help_heading().is_some_and(|heading| heading.starts_with(HEADING))
}

fn is_setting(argument: &Arg) -> bool {
    flagged().any(|setting| argument.get_id() == setting.spec().key)
}

/// They are the same everywhere, and have a page of their own.
fn without_settings(command: Command) -> Command {
    command.mut_args(|argument| {
        let hidden = argument.is_hide_set() || is_setting(&argument);
        argument.hide(hidden)
    })
}

fn plain(mut command: Command) -> String {
    let help = command.render_long_help().to_string();
    let lines = help.lines().map(str::trim_end).collect::<Vec<_>>();
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// Flags of the controller stand under headings that begin so.
const HEADING: &str = "Controller: ";

const SETTINGS: &str = " Every setting of `configuration.md` but the keys has a flag here too.";

const CONTROLLER: &str = "\
# Flags of the controller

<!-- Generated from ccm/src/cli/; tests/tests/docs.rs compares. -->

`cloudstack-ccm` with flags and without a command is the controller. Its flags are those of Go's
cloud controller managers, with their defaults where nothing else is said, so a manifest that was
written for such a one starts it. `--cloud-config`, a flag for every setting of `configuration.md`
but the keys, and the flags under Output in `commands.md` come in addition.

A flag that stands twice counts as it stands last; lists add up. An empty value counts as not set,
and `_` in a name as `-`. A boolean alone means true; a value needs `=`, as in `--leader-elect=false`.
A duration is a number with a unit, for example `500ms`, `10s` or `1h30m`. All flags that don't go
together are told in one message. Exit codes: 0 stopped as asked for, 1 anything else.
";

const WITHOUT_EFFECT: &str = "
## Accepted, without effect

The log has a warning for each of them that is given, except for booleans that are off.

| Flag | Why |
|---|---|
";

const INTRODUCTION: &str = "\
# Commands

<!-- Generated from ccm/src/cli/; tests/tests/docs.rs compares. -->

Results go to stdout; progress, warnings and errors go to stderr. Key, secret and signatures are in
no output, log line or file.

With flags and no command the program is the controller; `controller-flags.md` lists its flags.

| Exit code | `plan` | `apply` | `check-permissions` | others |
|---|---|---|---|---|
| 0 | planned; with `--detailed-exitcode`: nothing to do | all done | all that is needed is there | done |
| 1 | error | error, a failed step, or interrupted | error | error |
| 2 | with `--detailed-exitcode`: there are changes | | something that is needed is missing | |
| 4 | | refused, because the world has moved | | |

| File | Written by | Read by | Holds |
|---|---|---|---|
| saved plan | `plan --out` | `apply` | policy, Services, Nodes, the plan |
| snapshot | `snapshot --out` | `plan --from` | policy, Services, Nodes, the state of CloudStack |
| world | you | `simulate` | what a CloudStack model holds at first; `deploy/world.schema.json` |
| cloud-config | you, or `simulate --cloud-config-out` | `plan`, `apply`, `snapshot`, `check-permissions` | `configuration.md` |
| kubeconfig | you | the same | the cluster, and who asks |

The JSON of `plan --output json` has the form of `deploy/plan.schema.json`; a saved plan has it in
`document`. That of `check-permissions` has the form of `deploy/permissions.schema.json`. Fields can
be added within format 1; ignore those that you don't know.

`apply` reads CloudStack and plans again, with the Services and Nodes of the saved plan, or with those
that the cluster has by now if the plan is of a live one. If a step of any Service with saved steps is
not the same any more, nothing is done. Then Services are done one after the other, in the order of
the plan; from the second one on, both sides are read again before each, and a Service whose steps
have become others meanwhile is left as it is (exit code 4 at the end). A failed step skips what
depends on it, and other Services go on. A new plan always continues from where things are.
";
