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
    /// Places that differ in each of them, without positions in lists; none if the lines can not be
    /// replayed.
    #[serde(default)]
    pub differs: BTreeSet<String>,
    /// It is about what was done out of band before the lines and could not be done here, which
    /// `differs` names.
    #[serde(default)]
    pub undone: bool,
    /// The lines were sent at once, so that each differs in some of the places.
    #[serde(default)]
    pub races: bool,
    /// Why that is so, and why it may stay.
    pub reason: String,
}

/// The whole list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Deviations(pub Vec<Entry>);

/// A line, or what was done before it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    file: String,
    undone: bool,
    line: usize,
}

/// What is not as recorded: the places that differ, none if the line was not replayed, or the acts
/// that could not be done.
type Found = BTreeMap<Spot, BTreeSet<String>>;

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

    /// What reports and list do not agree about, as a text with the entries that are lacking; empty
    /// if nothing.
    pub fn disagreements(&self, reports: &[Report]) -> String {
        let found = found(reports);
        let mut text = String::new();
        let mut listed = BTreeSet::new();
        let mut lacking = Found::new();
        for entry in &self.0 {
            entry.check(&found, &mut text);
            for spot in entry.spots() {
                match found.get(&spot) {
                    Some(places) if !entry.agrees(places) => {
                        lacking.insert(spot.clone(), places.clone());
                    }
                    Some(_) | None => {}
                }
                if !listed.insert(spot.clone()) {
                    let _ = writeln!(text, "{} line {} is listed twice", spot.file, spot.line);
                }
            }
        }
        lacking.extend(found.into_iter().filter(|(spot, _)| !listed.contains(spot)));
        write_entries(&lacking, &mut text);
        text
    }
}

impl Entry {
    /// Tells what makes an entry wrong by itself.
    fn check(&self, found: &Found, text: &mut String) {
        let Self { file, lines, .. } = self;
        if self.reason.trim().is_empty() {
            let _ = writeln!(text, "{file} {lines:?} has no reason");
        }
        for Spot { line, .. } in self.spots().filter(|spot| !found.contains_key(spot)) {
            let _ = writeln!(text, "{file} line {line} is listed and equal");
        }
        let all = self.spots().filter_map(|spot| found.get(&spot));
        let union: BTreeSet<String> = all.flatten().cloned().collect();
        for place in self.differs.difference(&union) {
            let _ = writeln!(text, "{file} {lines:?}: {place} is listed and equal");
        }
    }

    fn spots(&self) -> impl Iterator<Item = Spot> {
        let Self { file, undone, .. } = self;
        self.lines.iter().map(|line| Spot { file: file.clone(), undone: *undone, line: *line })
    }

    /// Whether it says what was found at one of its lines.
    fn agrees(&self, places: &BTreeSet<String>) -> bool {
        *places == self.differs || (self.races && places.is_subset(&self.differs))
    }
}

/// Writes what was found as entries that lack only their reason.
fn write_entries(found: &Found, text: &mut String) {
    let mut entries: BTreeMap<(&str, bool, &BTreeSet<String>), Vec<usize>> = BTreeMap::new();
    for (Spot { file, undone, line }, places) in found {
        entries.entry((file, *undone, places)).or_default().push(*line);
    }
    for ((file, undone, places), lines) in entries {
        let undone = if undone { ", undone: true" } else { "" };
        let _ = writeln!(
            text,
            "not listed: {{file: {file}, lines: {lines:?}{undone}, differs: {places:?}}}"
        );
    }
}

fn found(reports: &[Report]) -> Found {
    let mut found = Found::new();
    for report in reports {
        let spot = |line: usize, undone| Spot { file: report.name.clone(), undone, line };
        for deviating in &report.deviating {
            found.insert(spot(deviating.line, false), places(deviating));
        }
        for line in report.not_replayable.keys() {
            found.insert(spot(*line, false), BTreeSet::new());
        }
        for undone in &report.undone {
            let acts = found.entry(spot(undone.before_line, true)).or_default();
            acts.insert(undone.act.clone());
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
    use crate::replay::compare::Difference;
    use crate::replay::report::Undone;

    fn report() -> Report {
        let difference = Difference {
            place: "listzonesresponse.zone[0].name".to_owned(),
            recorded: "a".to_owned(),
            given: "b".to_owned(),
        };
        let undone = Undone { before_line: 5, act: "fault".to_owned(), reason: String::new() };
        let deviating =
            Deviating { line: 3, exchange: String::new(), differences: vec![difference] };
        Report {
            name: "f".to_owned(),
            deviating: vec![deviating],
            not_replayable: BTreeMap::from([(5, String::new())]),
            undone: vec![undone],
            ..Report::default()
        }
    }

    const UNDONE: &str = "{file: f, lines: [5], undone: true, differs: [fault], reason: r}";

    fn told(entries: &[&str]) -> String {
        let list: Deviations = serde_saphyr::from_str(&format!("[{}]", entries.join(","))).unwrap();
        list.disagreements(&[report()])
    }

    fn told_beside(entry: &str) -> String {
        told(&[entry, "{file: f, lines: [5], reason: r}", UNDONE])
    }

    #[test]
    fn a_list_that_says_what_was_found_is_right() {
        assert_eq!(told_beside("{file: f, lines: [3], differs: [zone.name], reason: r}"), "");
        let race = "{file: f, lines: [3], differs: [zone.name], races: true, reason: r}";
        assert_eq!(told_beside(race), "");
    }

    #[test]
    fn what_is_new_or_without_a_reason_is_told() {
        let places = r#"differs: {"zone.name"}"#;
        assert_eq!(
            told(&[]),
            format!(
                "not listed: {{file: f, lines: [5], differs: {{}}}}\n\
                 not listed: {{file: f, lines: [3], {places}}}\n\
                 not listed: {{file: f, lines: [5], undone: true, differs: {{\"fault\"}}}}\n"
            )
        );
        assert_eq!(
            told_beside("{file: f, lines: [3], reason: r}"),
            format!("not listed: {{file: f, lines: [3], {places}}}\n")
        );
        let silent = "{file: f, lines: [3], differs: [zone.name], reason: ' '}";
        assert_eq!(told_beside(silent), "f {3} has no reason\n");
    }

    #[test]
    fn what_is_stale_too_wide_or_said_twice_is_told() {
        let stale = told_beside("{file: f, lines: [3, 4], differs: [zone.name], reason: r}");
        assert_eq!(stale, "f line 4 is listed and equal\n");
        for races in [false, true] {
            let wide = told_beside(&format!(
                "{{file: f, lines: [3], differs: [zone.id, zone.name], races: {races}, reason: r}}"
            ));
            assert!(wide.starts_with("f {3}: zone.id is listed and equal\n"), "{wide}");
        }
        let right = "{file: f, lines: [3], differs: [zone.name], reason: r}";
        let twice = told(&[right, right, "{file: f, lines: [5], reason: r}", UNDONE]);
        assert_eq!(twice, "f line 3 is listed twice\n");
    }
}
