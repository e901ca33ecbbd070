//! The reviewed list of what is not equal (`fixtures/cloudstack/deviations.yaml`): the test lets it
//! neither grow nor go stale.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::recording::ReplayError;
use super::report::{Deviating, Report};

/// Exchanges of one file that differ for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The recording.
    pub file: String,
    /// Its lines, counted from 1.
    pub lines: BTreeSet<usize>,
    /// Places that differ in one of them, without positions in lists; none if the lines can not be
    /// replayed.
    #[serde(default)]
    pub differs: BTreeSet<String>,
    /// Why that is so, and why it may stay.
    pub reason: String,
}

/// The whole list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Deviations(pub Vec<Entry>);

/// A line of a file that is not equal, with the places that differ; none if it was not replayed.
type Found = BTreeMap<(String, usize), BTreeSet<String>>;

impl Deviations {
    /// Reads the list.
    ///
    /// # Errors
    /// If it can not be read or does not have the expected form.
    pub fn load(path: &Path) -> Result<Self, ReplayError> {
        let fail =
            |error: &dyn std::fmt::Display| ReplayError(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| fail(&error))?;
        serde_saphyr::from_str(&text).map_err(|error| fail(&error))
    }

    /// What reports and list do not agree about, as a text; empty if nothing.
    pub fn disagreements(&self, reports: &[Report]) -> String {
        let found = found(reports);
        let mut text = String::new();
        for entry in &self.0 {
            if entry.reason.trim().is_empty() {
                let _ = writeln!(text, "{} {:?} has no reason", entry.file, entry.lines);
            }
            let lines = entry.lines.iter().filter_map(|line| {
                let places = found.get(&(entry.file.clone(), *line));
                if places.is_none() {
                    let _ = writeln!(text, "{} line {line} is listed and equal", entry.file);
                }
                places
            });
            let union: BTreeSet<String> = lines.flatten().cloned().collect();
            for place in entry.differs.difference(&union) {
                let _ =
                    writeln!(text, "{} {:?}: {place} is listed and equal", entry.file, entry.lines);
            }
        }
        for ((file, line), places) in &found {
            let listed = self.listed(file, *line);
            let Some(listed) = listed else {
                let _ = writeln!(
                    text,
                    "not listed: {{file: {file}, lines: [{line}], differs: {places:?}}}"
                );
                continue;
            };
            for place in places.difference(listed) {
                let _ = writeln!(text, "not listed: {file} line {line}: {place}");
            }
        }
        text
    }

    fn listed(&self, file: &str, line: usize) -> Option<&BTreeSet<String>> {
        let entry = self.0.iter().find(|entry| entry.file == file && entry.lines.contains(&line));
        entry.map(|entry| &entry.differs)
    }
}

fn found(reports: &[Report]) -> Found {
    let mut found = Found::new();
    for report in reports {
        for deviating in &report.deviating {
            found.insert((report.name.clone(), deviating.line), places(deviating));
        }
        for line in report.not_replayable.keys() {
            found.insert((report.name.clone(), *line), BTreeSet::new());
        }
    }
    found
}

/// The places of an exchange that differ, without the root key and positions in lists.
fn places(deviating: &Deviating) -> BTreeSet<String> {
    let places = deviating.differences.iter().map(|difference| {
        let parts = difference.place.split('.').map(|part| part.split('[').next().unwrap_or(part));
        let parts: Vec<&str> = parts.collect();
        match parts.as_slice() {
            [_, rest @ ..] if !rest.is_empty() => rest.join("."),
            parts => parts.join("."),
        }
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Deviation;

    fn report() -> Report {
        let difference = Deviation {
            place: "listzonesresponse.zone[0].name".to_owned(),
            recorded: "a".to_owned(),
            given: "b".to_owned(),
        };
        let deviating =
            Deviating { line: 3, exchange: String::new(), differences: vec![difference] };
        Report {
            name: "f".to_owned(),
            deviating: vec![deviating],
            not_replayable: BTreeMap::from([(5, String::new())]),
            ..Report::default()
        }
    }

    fn list(entries: &[(&[usize], &[&str], &str)]) -> Deviations {
        let entry = |(lines, differs, reason): &(&[usize], &[&str], &str)| Entry {
            file: "f".to_owned(),
            lines: lines.iter().copied().collect(),
            differs: differs.iter().map(|place| (*place).to_owned()).collect(),
            reason: (*reason).to_owned(),
        };
        Deviations(entries.iter().map(entry).collect())
    }

    #[test]
    fn a_list_that_says_what_was_found_is_right() {
        let right = list(&[(&[3], &["zone.name"], "r"), (&[5], &[], "r")]);
        assert_eq!(right.disagreements(&[report()]), "");
    }

    #[test]
    fn what_is_new_stale_or_without_a_reason_is_told() {
        let wrong = |list: Deviations| list.disagreements(&[report()]);
        assert!(wrong(list(&[(&[5], &[], "r")])).contains("not listed: {file: f, lines: [3]"));
        let stale = list(&[(&[3, 4], &["zone.name", "zone.id"], " "), (&[5], &[], "r")]);
        let told = wrong(stale);
        assert!(told.contains("f line 4 is listed and equal"), "{told}");
        assert!(told.contains("zone.id is listed and equal"), "{told}");
        assert!(told.contains("has no reason"), "{told}");
        let narrow = list(&[(&[3], &[], "r"), (&[5], &[], "r")]);
        assert!(wrong(narrow).contains("not listed: f line 3: zone.name"));
    }
}
