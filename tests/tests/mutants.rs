//! The faults that storms are to catch fit the sources as they are, and what caught them is written
//! down. They are tried by `cargo run -p ccm-tests --bin mutants`.

use std::collections::BTreeSet;

use ccm_tests::lab::fixture;
use ccm_tests::mutants::{SEEDS, apply_all, caught, faults};
use ccm_tests::storm::promise::Promise;
use ccm_tests::storm::stories;

#[test]
fn every_fault_fits_the_sources_as_they_are() {
    let changed = apply_all(&faults(), &fixture("..")).unwrap_or_else(|why| panic!("{why}"));
    assert!(!changed.is_empty());
}

#[test]
fn every_fault_has_a_name_of_its_own_and_was_caught() {
    let (faults, caught) = (faults(), caught());
    let names: BTreeSet<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
    assert_eq!(names.len(), faults.len());
    let were: BTreeSet<&str> = caught.iter().map(|caught| caught.fault.as_str()).collect();
    assert_eq!(were, names);
    assert!(names.len() >= 25, "{}", names.len());
}

#[test]
fn what_caught_a_fault_is_a_promise_and_a_storm_that_there_are() {
    let stories = stories();
    for caught in caught() {
        let is_known = Promise::ALL.iter().any(|promise| promise.name() == caught.promise);
        assert!(is_known, "{caught:?}");
        let is_told = stories.iter().any(|(name, _)| *name == caught.storm);
        assert!(is_told || caught.seed().is_some_and(|seed| seed < SEEDS), "{caught:?}");
    }
}
