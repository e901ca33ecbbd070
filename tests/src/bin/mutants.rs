//! Puts faults into a copy of the controller, one at a time, and wants each to be caught by a storm:
//! `cargo run -p ccm-tests --bin mutants`.
//!
//! All faults of `fixtures/mutants.yaml` are written into one copy of the sources, each behind a
//! condition that an environment variable switches on: one build is enough for all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use ccm_tests::lab::fixture;
use ccm_tests::mutants::{Caught, Mutant, SEEDS, SWITCH, apply_all, caught, faults, write};
use ccm_tests::storm::promise::Promise;
use clap::Parser;

/// Puts faults into a copy of the controller, one at a time, and tells which promise was broken
/// first, and in which storm. Ends with exit code 1 if one was not caught, or if something was
/// broken without any.
#[derive(Parser)]
struct Arguments {
    /// Only faults with this in their name.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Writes what was caught to fixtures/mutants-caught.yaml.
    #[arg(long)]
    write: bool,
    /// Where the copy is kept and built.
    #[arg(long, value_name = "DIRECTORY", default_value = "target/mutants")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mutants = faults();
    let storm = build(&mutants, &arguments.out);
    let control = "none".to_owned();
    if let Some(caught) = try_fault(&storm, &control, &control) {
        println!("{}", row(&caught));
        return ExitCode::FAILURE;
    }
    let (mut found, mut missed) = (Vec::new(), 0);
    for (number, Mutant { name, .. }) in mutants.iter().enumerate() {
        if !name.contains(&arguments.only) {
            continue;
        }
        match try_fault(&storm, &number.to_string(), name) {
            Some(caught) => {
                println!("{}", row(&caught));
                found.push(caught);
            }
            None => {
                println!("{name:<60} by NOBODY");
                missed += 1;
            }
        }
    }
    println!("mutants {}, caught {}, missed {missed}", found.len() + missed, found.len());
    if arguments.write {
        write(&merged(&mutants, found));
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What was found now, and what was known of faults that were not tried, in the order of the faults.
fn merged(mutants: &[Mutant], mut found: Vec<Caught>) -> Vec<Caught> {
    let known = caught();
    let is_new = |old: &Caught| !found.iter().any(|new| new.fault == old.fault);
    let kept: Vec<Caught> = known.into_iter().filter(is_new).collect();
    found.extend(kept);
    let place = |caught: &Caught| mutants.iter().position(|mutant| mutant.name == caught.fault);
    found.retain(|caught| place(caught).is_some());
    found.sort_by_key(place);
    found
}

fn row(Caught { fault, promise, storm }: &Caught) -> String {
    format!("{fault:<60} by {promise:<12} in {storm}")
}

/// Builds the storms from a copy with all faults in it; gives the program.
fn build(mutants: &[Mutant], out: &Path) -> PathBuf {
    let (copy, target) = (out.join("source"), out.join("build"));
    let changed = apply_all(mutants, &fixture("..")).unwrap_or_else(|why| panic!("{why}"));
    let changed: BTreeMap<PathBuf, String> = changed.into_iter().collect();
    copy_sources(&fixture(".."), Path::new(""), &copy, &changed);
    let mut cargo = Command::new("cargo");
    let built = cargo
        .args(["build", "--quiet", "--package", "ccm-tests", "--bin", "storm"])
        .arg("--target-dir")
        .arg(std::path::absolute(&target).expect("a path"))
        .current_dir(&copy)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the copy with the faults is not built");
    target.join("debug/storm")
}

/// Copies all but what is built or hidden, with these files changed. What a copy holds already keeps
/// its time, so that only what differs is built again.
fn copy_sources(root: &Path, at: &Path, copy: &Path, changed: &BTreeMap<PathBuf, String>) {
    std::fs::create_dir_all(copy.join(at)).expect("a directory for the copy");
    for entry in std::fs::read_dir(root.join(at)).expect("the sources") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        if name == "target" || name.to_string_lossy().starts_with('.') {
            continue;
        }
        let at = at.join(&name);
        if entry.file_type().expect("a type").is_dir() {
            copy_sources(root, &at, copy, changed);
            continue;
        }
        let to = copy.join(&at);
        let wanted = match changed.get(&at) {
            Some(text) => text.clone().into_bytes(),
            None => std::fs::read(entry.path()).expect("a source"),
        };
        if std::fs::read(&to).ok().as_ref() != Some(&wanted) {
            std::fs::write(to, wanted).expect("the copy can be written");
        }
    }
}

/// Tells storms of a fault, then what was found once and the stories, until a promise is broken.
fn try_fault(storm: &Path, on: &str, fault: &str) -> Option<Caught> {
    let seeds = SEEDS.to_string();
    tell(storm, on, fault, &["--seeds", &seeds]).or_else(|| tell(storm, on, fault, &["--stories"]))
}

/// Tells storms, on all cores; gives the first of those that broke a promise.
fn tell(storm: &Path, on: &str, fault: &str, which: &[&str]) -> Option<Caught> {
    let mut command = Command::new(storm);
    command.arg("--first").args(which).env(SWITCH, on);
    let output = command.output().expect("storms can be told");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `NAME: <time> <promise>: …`
    let caught = |line: &str| {
        let (storm, rest) = line.split_once(": ")?;
        let promise = rest.split(' ').nth(1)?.strip_suffix(':')?;
        Promise::ALL.iter().find(|known| known.name() == promise)?;
        Some(Caught {
            fault: fault.to_owned(),
            promise: promise.to_owned(),
            storm: storm.to_owned(),
        })
    };
    text.lines().filter_map(caught).min_by_key(|caught| (caught.storm.len(), caught.storm.clone()))
}
