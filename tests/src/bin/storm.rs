//! Storms, as many as wanted: `cargo run --release -p ccm-tests --bin storm -- --help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ccm_tests::storm::coverage::Coverage;
use ccm_tests::storm::{self, Outcome, Script};
use clap::Parser;

/// Attempts to make a failing storm smaller.
const ATTEMPTS: usize = 400;

/// Tells storms: the real controllers in simulated worlds in which everything goes wrong that can.
/// Ends with `worlds N, steps N, faults N, violations N`; exit code 1 if anything was violated, with
/// the command that tells that storm again.
#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many storms.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// Storms for so long, however many they are.
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u64>,
    /// Ends with the first failure, and leaves it as it is.
    #[arg(long)]
    first: bool,
    /// Tells the histories and stories of `fixtures` instead.
    #[arg(long)]
    stories: bool,
    /// Tells one storm again, from the file that a failure left, and prints all that happens.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Prints the storm of a seed, as it is told again with `--replay`.
    #[arg(long, value_name = "SEED")]
    show: Option<u64>,
    /// Where the smallest history of each failure is written.
    #[arg(long, value_name = "DIRECTORY", default_value = "target/storms")]
    out: PathBuf,
}

/// What all storms add up to.
#[derive(Default)]
struct Sum {
    worlds: u64,
    steps: u64,
    coverage: Coverage,
    busiest_hour: u64,
    failed: Vec<u64>,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        self.worlds += 1;
        self.steps += outcome.steps;
        self.coverage.add(&outcome.coverage);
        self.busiest_hour = self.busiest_hour.max(outcome.busiest_hour);
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match (&arguments.replay, arguments.show) {
        (Some(file), _) => replay(file),
        (None, Some(seed)) => show(seed),
        (None, None) if arguments.stories => tell_stories(arguments.first),
        (None, None) => tell_all(&arguments),
    }
}

fn show(seed: u64) -> ExitCode {
    let script = Script::of_seed(seed);
    println!("{}", serde_json::to_string_pretty(&script).expect("JSON"));
    ExitCode::SUCCESS
}

fn replay(file: &Path) -> ExitCode {
    let script = match read(file) {
        Ok(script) => script,
        Err(why) => {
            eprintln!("error: {} holds no storm: {why}", file.display());
            return ExitCode::FAILURE;
        }
    };
    let outcome = storm::run(&script);
    outcome.log.iter().for_each(|line| println!("{line}"));
    outcome.violations.iter().for_each(|violation| println!("VIOLATION {violation}"));
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(file: &Path) -> Result<Script, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn tell_stories(first: bool) -> ExitCode {
    let mut failed = false;
    for (name, script) in storm::stories() {
        if let Some(violation) = storm::run(&script).violations.first() {
            println!("{name}: {violation}");
            failed = true;
        }
        if failed && first {
            break;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn tell_all(arguments: &Arguments) -> ExitCode {
    let next = AtomicU64::new(arguments.from);
    let sum = Mutex::new(Sum::default());
    let began = Instant::now();
    let is_enough =
        || arguments.first && !sum.lock().expect("no storm panics here").failed.is_empty();
    let goes_on = |seed: u64| match arguments.minutes {
        _ if is_enough() => false,
        Some(minutes) => began.elapsed() < Duration::from_mins(minutes),
        None => seed < arguments.from + arguments.seeds,
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if !goes_on(seed) {
                        return;
                    }
                    tell(seed, arguments, &sum);
                }
            });
        }
    });
    let sum = sum.into_inner().expect("all storms are over");
    let Sum { worlds, steps, coverage, busiest_hour, failed } = &sum;
    println!("{}", coverage.table());
    println!("most calls of one cluster in one hour: {busiest_hour}");
    let faults = coverage.faults();
    println!("worlds {worlds}, steps {steps}, faults {faults}, violations {}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(seed: u64, arguments: &Arguments, sum: &Mutex<Sum>) {
    let outcome = storm::run(&Script::of_seed(seed));
    sum.lock().expect("no storm panics here").add(&outcome);
    let Some(violation) = outcome.violations.first() else { return };
    println!("seed {seed}: {violation}");
    sum.lock().expect("no storm panics here").failed.push(seed);
    if arguments.first {
        return;
    }
    let fails = |script: &Script| !storm::run(script).violations.is_empty();
    let smallest = Script::shrink(seed, ATTEMPTS, fails);
    std::fs::create_dir_all(&arguments.out).expect("a directory for failures");
    let file = arguments.out.join(format!("{seed}.json"));
    let text = serde_json::to_string_pretty(&smallest).expect("JSON");
    std::fs::write(&file, text).expect("a file for the failure");
    println!(
        "seed {seed} again: cargo run --release -p ccm-tests --bin storm -- --replay {}",
        file.display()
    );
}
