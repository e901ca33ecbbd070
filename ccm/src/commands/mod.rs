//! The commands, one file each, and what they have in common: logging, exit codes, errors.

mod apply;
mod check_permissions;
mod cleanup;
mod cluster;
mod demo;
mod plan;
mod simulate;
mod snapshot;

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::error::ErrorKind;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use crate::cli::{Cli, LogFormat, Speech, Verb};
use crate::console::Console;
use crate::controller;
use crate::traces::Traces;

/// What plans and files say of the program that made them.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the controller logs: the queue's own spans would repeat each object, and the client's own
/// errors what is said of the request that failed.
const CONTROLLER_LOG: &str = "info,kube_runtime=warn,kube_client::client::builder=off";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As it should: 0.
    Done,
    /// Not as it should: 1.
    Failed,
    /// There are changes: 2, if that was asked for.
    Changes,
    /// Something that is needed is missing: 2.
    Missing,
    /// Refused, because the world has moved: 4.
    Moved,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Changes | Exit::Missing => 2,
            Exit::Moved => 4,
        })
    }
}

/// Runs the program with its arguments.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::read(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // To stdout what was asked for, to stderr what is wrong. 2 means changes, so not 2.
            let _ = error.print();
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if asked { Exit::Done } else { Exit::Failed }.into();
        }
    };
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let console = Console::new(cli.speech.color, no_color);
    start(cli, console)
        .unwrap_or_else(|error| {
            console.say(&explain(&error));
            Exit::Failed
        })
        .into()
}

fn start(cli: Cli, console: Console) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let Some(verb) = cli.command else {
        let collector = cli.controller.collector();
        let traces =
            collector.map(|url| Traces::new(url, VERSION, runtime.handle())).transpose()?;
        log(&cli.speech, CONTROLLER_LOG, traces.as_ref())?;
        return runtime.block_on(controller::run(&cli.controller, traces));
    };
    log(&cli.speech, "warn", None)?;
    runtime.block_on(async {
        match verb {
            Verb::Plan(args) => plan::run(&args, console).await,
            Verb::Apply(args) => apply::run(&args, console).await,
            Verb::Snapshot(args) => snapshot::run(&args, console).await,
            Verb::CheckPermissions(args) => check_permissions::run(&args, console).await,
            Verb::Cleanup(args) => Box::pin(cleanup::run(&args, console)).await,
            Verb::Simulate(args) => simulate::run(args, console).await,
            Verb::Demo(args) => demo::run(&args, console).await,
        }
    })
}

fn log(speech: &Speech, default: &str, traces: Option<&Traces>) -> Result<()> {
    let Speech { color: _, log_level, log_format, verbosity } = speech;
    let counted = verbosity.map(|number| match number {
        0..=3 => "info".to_owned(),
        4 | 5 => "debug".to_owned(),
        6.. => "trace".to_owned(),
    });
    let filter = match log_level.clone().or(counted).or_else(|| env::var("RUST_LOG").ok()) {
        Some(text) if !text.is_empty() => EnvFilter::try_new(&text)
            .map_err(|error| anyhow::anyhow!("log filter {text:?} can't be used: {error}"))?,
        Some(_) | None => EnvFilter::new(default),
    };
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(false);
    let lines = match log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let spans = traces.map(Traces::layer);
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).init();
    Ok(())
}

/// An error with its causes, once.
fn explain(error: &anyhow::Error) -> String {
    let mut chain: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors tell their causes themselves.
        if chain.last().is_none_or(|told| !told.contains(&cause)) {
            chain.push(cause);
        }
    }
    format!("error: {}", chain.join("\n  caused by: "))
}
