//! Storms: what was found once, and a few hundred others. More of them, and a failure told again:
//! `cargo run --release -p ccm-tests --bin storm -- --help`.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ccm_core::permission::cloudstack::COMMANDS;
use ccm_tests::storm::coverage::Coverage;
use ccm_tests::storm::script::{Blow, Strike};
use ccm_tests::storm::{Outcome, Script, run, stories};

/// Seeds that each test run tells.
const SEEDS: u64 = 200;

#[test]
fn nothing_is_violated_that_was_found_once_and_in_no_story() {
    let stories = stories();
    let told = tell(&stories, |(_, script)| script.clone());
    let violations = told.iter().filter_map(|((name, _), outcome)| {
        Some(format!("{name}: {}", outcome.violations.first()?))
    });
    let violations: Vec<String> = violations.collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn the_same_seed_tells_the_same_storm_call_by_call() {
    for seed in [1, 5, 16] {
        let script = Script::of_seed(seed);
        let (first, second) = (run(&script), run(&script));
        assert!(first.calls > 0);
        assert_eq!((first.trace, first.calls), (second.trace, second.calls), "seed {seed}");
        assert_eq!(first.log, second.log, "seed {seed}");
    }
}

/// Tells storms, on all cores; gives what came of each by its name.
fn tell<T: Sync>(storms: &[T], script: impl Fn(&T) -> Script + Sync) -> Vec<(&T, Outcome)> {
    let next = AtomicUsize::new(0);
    let told = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(storm) = storms.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let outcome = run(&script(storm));
                    told.lock().unwrap_or_else(PoisonError::into_inner).push((storm, outcome));
                }
            });
        }
    });
    told.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn assert_no_violation<T: Debug>(told: &[(&T, Outcome)]) {
    let violations = told
        .iter()
        .filter_map(|(storm, outcome)| Some(format!("{storm:?}: {}", outcome.violations.first()?)));
    let violations: Vec<String> = violations.collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn nothing_is_violated_whatever_happens() {
    let seeds: Vec<u64> = (0..SEEDS).collect();
    assert_no_violation(&tell(&seeds, |seed| Script::of_seed(*seed)));
}

/// What controllers send; `check-permissions` alone sends `listApis`.
fn sent_by_controllers() -> impl Iterator<Item = &'static str> {
    let commands = COMMANDS.iter().map(|used| used.command);
    commands.filter(|command| *command != "listApis")
}

/// Storms in which nothing goes wrong; each of them tells people's stories only.
const QUIET: u64 = 16;

/// Every command of the permission table, at its first, a middle and its last call of a storm, meets
/// with an error before its effect, with one after it, and with an answer that gets lost.
#[test]
fn nothing_is_violated_whichever_call_of_whichever_command_fails_in_whichever_way() {
    let seeds: Vec<u64> = (0..QUIET).collect();
    let quiet = tell(&seeds, |seed| Script::of_seed(*seed).without_trouble());
    assert_no_violation(&quiet);
    let blows = [Blow::ErrorBefore(530), Blow::ErrorAfter(530), Blow::AnswerLost];
    let storms: Vec<(u64, Strike)> = sent_by_controllers()
        .flat_map(|command| {
            let (seed, calls) = shortest_with(&quiet, command);
            let moments = [1, calls.div_ceil(2), calls];
            let strikes = blows.into_iter().flat_map(move |blow| moments.map(|call| (blow, call)));
            strikes
                .map(move |(blow, call)| (seed, Strike { command: command.to_owned(), call, blow }))
        })
        .collect();
    let told = tell(&storms, |(seed, strike)| {
        let quiet = Script::of_seed(*seed).without_trouble();
        Script { strike: Some(strike.clone()), ..quiet }
    });
    assert_no_violation(&told);
    let mut coverage = Coverage::default();
    for (storm, outcome) in &told {
        assert!(outcome.coverage.faults() > 0, "never struck: {storm:?}");
        coverage.add(&outcome.coverage);
    }
    println!("{}", coverage.table());
}

/// The seed of the shortest storm in which a command is called at least three times, and how often
/// it is.
fn shortest_with(storms: &[(&u64, Outcome)], command: &str) -> (u64, u64) {
    let calls = |outcome: &Outcome| outcome.called.get(command).copied().unwrap_or_default();
    let with = storms.iter().filter(|(_, outcome)| calls(outcome) >= 3);
    let shortest = with.min_by_key(|(seed, outcome)| (outcome.calls, **seed));
    let (seed, outcome) = shortest.unwrap_or_else(|| panic!("{command} is hardly ever called"));
    (**seed, calls(outcome))
}
