//! Properties that hold for random worlds and random histories.
//!
//! Every plan on the way keeps the laws of order (the laboratory checks each one). After every
//! single effect: nobody is let in who was neither before nor is to be, and nothing of others has
//! moved. Whatever interrupts an execution, going on from there converges; a second plan is empty;
//! and once all Services are gone, so is everything that was made for them.
//!
//! Plans are functions of what was read: the same input gives the same bytes, in any order.
//!
//! `PROPTEST_CASES=100000` runs more. A failure prints the smallest history and is kept in
//! `main.regressions` beside this file.

mod history;
mod order;
mod story;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

fn config(cases: u32) -> Config {
    let persistence = FileFailurePersistence::WithSource("regressions");
    Config {
        failure_persistence: Some(Box::new(persistence)),
        max_shrink_iters: 2_000,
        ..Config::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn any_history_converges_and_leaves_nothing_behind(history in history::histories()) {
        story::tell(&history);
    }

    #[test]
    fn any_interruption_is_survived(history in history::interrupted_histories()) {
        story::tell(&history);
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn same_input_in_any_order_gives_the_same_bytes(
        history in history::histories(),
        seed in any::<u64>(),
    ) {
        story::follow(&history, |lab| order::expect_same_bytes(lab, seed));
    }
}
