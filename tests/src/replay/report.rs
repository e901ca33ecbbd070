//! What became of a recording: figures, and every difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::compare::Difference;

/// Longest value in a listing, in characters.
const SHOWN: usize = 600;

/// Outcome of the replay of one recording.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Name of the recording.
    pub name: String,
    /// How many exchanges it has.
    pub exchanges: usize,
    /// How many answers were equal.
    pub equal: usize,
    /// Answers that differ.
    pub deviating: Vec<Deviating>,
    /// Lines that could not be replayed, with the reason.
    pub not_replayable: BTreeMap<usize, String>,
    /// What was done out of band in the recording and could not be done here.
    pub undone: Vec<Undone>,
    /// Lines whose answer was equal only after a wait that the recording does not show.
    pub waited: BTreeSet<usize>,
}

/// An act of `setup.jsonl` that could not be repeated.
#[derive(Debug, Clone)]
pub struct Undone {
    /// The line before which it was done.
    pub before_line: usize,
    /// The action or command, or the kind of the object that it made, with its id.
    pub act: String,
    /// Why not.
    pub reason: String,
}

/// An exchange whose answer differs.
#[derive(Debug, Clone)]
pub struct Deviating {
    /// Line in the recording, counted from 1.
    pub line: usize,
    /// The command and the recording's note.
    pub exchange: String,
    /// What differs; not empty.
    pub differences: Vec<Difference>,
}

impl Report {
    /// How many exchanges were sent and compared.
    pub fn replayed(&self) -> usize {
        self.equal + self.deviating.len()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, exchanges, equal, deviating, not_replayable, undone, waited } = self;
        write!(
            formatter,
            "{name}: {exchanges} exchanges, {} replayed, {equal} equal ({} after a wait), {} deviating, {} not replayable",
            self.replayed(),
            waited.len(),
            deviating.len(),
            not_replayable.len(),
        )?;
        let mut reasons: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (line, reason) in not_replayable {
            reasons.entry(reason).or_default().push(*line);
        }
        for (reason, lines) in reasons {
            write!(formatter, "\n  not replayable: {reason}: lines {lines:?}")?;
        }
        for Undone { before_line, act, reason } in undone {
            write!(formatter, "\n  not done before line {before_line}: {act}: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Deviating {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, exchange, differences } = self;
        write!(formatter, "  line {line}, {exchange}")?;
        for Difference { place, recorded, given } in differences {
            let [recorded, given] = [shortened(recorded), shortened(given)];
            write!(formatter, "\n    {place}\n      recorded {recorded}\n      given    {given}")?;
        }
        Ok(())
    }
}

/// As much of a value as a line of a listing shows.
fn shortened(value: &str) -> String {
    if value.chars().count() <= SHOWN {
        return value.to_owned();
    }
    value.chars().take(SHOWN).chain(['…']).collect()
}
