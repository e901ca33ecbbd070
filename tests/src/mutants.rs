//! Faults that are put into the controller on purpose, to see that a storm catches each of them.
//! `fixtures/mutants.yaml` holds them, `fixtures/mutants-caught.yaml` what caught them when they were
//! last tried: `cargo run -p ccm-tests --bin mutants -- --write`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::lab::fixture;

/// Switches a fault on, by its number in the file.
pub const SWITCH: &str = "CCM_MUTANT";

/// Storms of seeds that are told of each fault, before the histories and stories.
pub const SEEDS: u64 = 100;

const FAULTS: &str = "mutants.yaml";
const CAUGHT: &str = "mutants-caught.yaml";

/// A fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// What is done wrong.
    pub name: String,
    /// The rule that this breaks.
    pub breaks: String,
    /// What makes it so.
    pub edits: Vec<Edit>,
}

/// A change of one file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file, from the root of the sources.
    pub file: PathBuf,
    /// What stands in it exactly once.
    pub from: String,
    /// What stands there instead. `MUTANT` is whether the fault is on.
    pub to: String,
}

impl Edit {
    /// A text of its file with the change in it, behind the condition that the fault of this number
    /// is on.
    ///
    /// # Errors
    /// If what is to be changed is not there exactly once.
    pub fn apply(&self, text: &str, number: usize) -> Result<String, String> {
        let found = text.matches(&self.from).count();
        if found != 1 {
            return Err(format!("{} holds {:?} {found} times", self.file.display(), self.from));
        }
        let condition = format!("std::env::var({SWITCH:?}).is_ok_and(|on| on == \"{number}\")");
        Ok(text.replace(&self.from, &self.to.replace("MUTANT", &condition)))
    }
}

/// What caught a fault.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caught {
    /// The name of the fault.
    pub fault: String,
    /// The promise that was violated first.
    pub promise: String,
    /// The storm that showed it: `seed N`, all of lower seeds were told before; or the name of a
    /// history or story, after [`SEEDS`].
    pub storm: String,
}

impl Caught {
    /// The seed that showed it, if one did.
    pub fn seed(&self) -> Option<u64> {
        self.storm.strip_prefix("seed ")?.parse().ok()
    }

    /// How many seeds were told.
    fn seeds(&self) -> u64 {
        self.seed().map_or(SEEDS, |seed| seed + 1)
    }
}

/// All faults.
pub fn faults() -> Vec<Mutant> {
    read(FAULTS)
}

/// What caught them when they were last tried.
pub fn caught() -> Vec<Caught> {
    read(CAUGHT)
}

/// Writes what caught them.
pub fn write(caught: &[Caught]) {
    let text = serde_saphyr::to_string(&caught).expect("YAML");
    let head = "# Written by `cargo run -p ccm-tests --bin mutants -- --write`.\n";
    std::fs::write(fixture(CAUGHT), format!("{head}{text}")).expect("the file can be written");
}

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> Vec<T> {
    let text = std::fs::read_to_string(fixture(name)).expect("a fixture");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Applies all faults to a tree of sources.
///
/// # Errors
/// If what one of them changes is not there exactly once.
pub fn apply_all(mutants: &[Mutant], root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for (number, mutant) in mutants.iter().enumerate() {
        for edit in &mutant.edits {
            let known = texts.iter().position(|(file, _)| *file == edit.file);
            let at = match known {
                Some(at) => at,
                None => {
                    let path = root.join(&edit.file);
                    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
                    texts.push((edit.file.clone(), text));
                    texts.len() - 1
                }
            };
            texts[at].1 = edit
                .apply(&texts[at].1, number)
                .map_err(|why| format!("{}: {why}", mutant.name))?;
        }
    }
    Ok(texts)
}

/// The rows of a table: what was done wrong, the rule that this broke, what caught it, after how many
/// seeds, and in which storm.
pub fn table() -> String {
    let faults = faults();
    let row = |caught: Caught| {
        let Caught { fault, promise, storm } = &caught;
        let known = faults.iter().find(|known| known.name == *fault);
        let breaks = known.map_or("", |known| known.breaks.as_str());
        format!("| {fault} | {breaks} | {promise} | {} | {storm} |\n", caught.seeds())
    };
    caught().into_iter().map(row).collect()
}
