//! What became of a recording: figures, and every difference.

use std::collections::BTreeMap;
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
}

/// An exchange whose answer differs.
#[derive(Debug, Clone)]
pub struct Deviating {
    /// Line in the recording, counted from 1.
    pub line: usize,
    /// The command and the recording's note.
    pub exchange: String,
    /// What differs; not empty.
    pub differences: Vec<Deviation>,
}

/// One difference between a recorded and a given answer.
#[derive(Debug, Clone)]
pub struct Deviation {
    /// Path to the value, such as `listzonesresponse.zone[0].name`.
    pub place: String,
    /// What the recording has.
    pub recorded: String,
    /// What the simulator gave.
    pub given: String,
}

impl Report {
    /// How many exchanges were sent and compared.
    pub fn replayed(&self) -> usize {
        self.equal + self.deviating.len()
    }
}

impl From<Difference> for Deviation {
    fn from(Difference { place, recorded, given }: Difference) -> Self {
        Self { place, recorded, given }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, exchanges, equal, deviating, not_replayable } = self;
        write!(
            formatter,
            "{name}: {exchanges} exchanges, {} replayed, {equal} equal, {} deviating, {} not replayable",
            self.replayed(),
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
        Ok(())
    }
}

impl fmt::Display for Deviating {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, exchange, differences } = self;
        write!(formatter, "  line {line}, {exchange}")?;
        for Deviation { place, recorded, given } in differences {
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
