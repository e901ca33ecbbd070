//! Properties that hold for random worlds and random histories.
//!
//! Every plan on the way keeps the laws of order (the laboratory checks each one). After every
//! single effect: nobody is let in who was neither before nor is to be, and nothing of others has
//! moved. Whatever interrupts an execution, going on from there converges; a second plan is empty;
//! and once all Services are gone, so is everything that was made for them.
//!
//! `PROPTEST_CASES=100000` runs more. A failure prints the smallest history and is kept in
//! `main.regressions` beside this file.

mod history;
mod story;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

fn config() -> Config {
    let persistence = FileFailurePersistence::WithSource("regressions");
    Config {
        failure_persistence: Some(Box::new(persistence)),
        max_shrink_iters: 2_000,
        ..Config::with_cases(500)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_history_converges_and_leaves_nothing_behind(history in history::histories()) {
        story::tell(&history);
    }

    #[test]
    fn any_interruption_is_survived(history in history::interrupted_histories()) {
        story::tell(&history);
    }
}
