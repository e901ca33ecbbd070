//! The files of a directory of recordings, as the recorder wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::setup::Setup;

/// Name of the files that were recorded after the others.
const LAST: &str = "flow-";

/// The file that says what happened between the lines.
const SETUP: &str = "setup";

/// One recorded request with its answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Exchange {
    /// The command; absent in requests without one.
    pub command: Option<String>,
    /// Its parameters without those of signing and formatting; numbers are written as numbers.
    pub params: BTreeMap<String, Value>,
    /// Who sent it: the name of an account, or of something that is none.
    pub caller: String,
    /// HTTP method.
    pub method: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// Headers of the answer.
    pub headers: BTreeMap<String, String>,
    /// Body of the answer: an object, or a text if it is no JSON.
    pub body: Value,
    /// What the exchange shows.
    pub note: String,
}

/// A file of exchanges.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Name of the file without its ending.
    pub name: String,
    /// In the order in which they were sent.
    pub exchanges: Vec<Exchange>,
}

/// A directory of recordings: `world.json`, `setup.jsonl` and one file for each topic.
#[derive(Debug, Clone)]
pub struct Directory {
    /// What existed before: names and ids.
    pub(super) facts: WorldFacts,
    /// What the exchanges do not show.
    pub(super) setup: Vec<Setup>,
    /// In the order in which they were recorded.
    pub recordings: Vec<Recording>,
}

/// `world.json`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct WorldFacts {
    /// What the recorder called a thing, to its id.
    pub(super) ids: BTreeMap<String, String>,
}

/// A file that can not be replayed.
#[derive(Debug)]
pub struct ReplayError(pub(super) String);

impl Directory {
    /// Reads all files of a directory.
    ///
    /// # Errors
    /// If one is missing or does not have the expected form.
    pub fn load(path: &Path) -> Result<Self, ReplayError> {
        let listed =
            fs::read_dir(path).map_err(|error| fail(&path.display().to_string(), &error))?;
        let mut files: Vec<_> = listed
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|file| file.extension().is_some_and(|ending| ending == "jsonl"))
            .filter(|file| file.file_stem().is_some_and(|stem| stem != SETUP))
            .collect();
        files.sort_by_key(|file| (file.to_string_lossy().contains(LAST), file.clone()));
        let facts = read(&path.join("world.json"))?;
        Ok(Self {
            facts: serde_json::from_str(&facts).map_err(|error| fail("world.json", &error))?,
            setup: lines(&path.join(SETUP).with_extension("jsonl"))?,
            recordings: files.iter().map(|file| Recording::load(file)).collect::<Result<_, _>>()?,
        })
    }
}

impl Recording {
    fn load(path: &Path) -> Result<Self, ReplayError> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, exchanges: lines(path)? })
    }
}

/// Things of `world.json` that a file makes itself.
const MADE_LATER: &[&str] = &[
    "ip_iso",
    "ip_proj",
    "ip_vpc",
    "tier_fw-t1",
    "tier_fw-t2",
    "tier_noacl2",
    "vpc_firewall_conserve",
];

impl WorldFacts {
    /// Ids of the first addresses, which stay once a file has made them.
    pub(super) fn lasting(&self) -> impl Iterator<Item = &str> {
        let addresses = self.ids.iter().filter(|(name, _)| name.starts_with("ip_"));
        addresses.map(|(_, id)| id.as_str())
    }

    /// Ids of what existed in every file.
    pub(super) fn always(&self) -> BTreeSet<String> {
        self.ids
            .iter()
            .filter(|(name, _)| !MADE_LATER.contains(&name.as_str()))
            .map(|(_, id)| id.clone())
            .collect()
    }

    /// The id of what the recorder called so.
    pub(super) fn id(&self, name: &str) -> Option<&str> {
        self.ids.get(name).map(String::as_str)
    }
}

impl Exchange {
    /// What the answer holds under its root key; null if it is no JSON.
    pub(super) fn answer(&self) -> &Value {
        let root = self.body.as_object().and_then(|body| body.values().next());
        root.unwrap_or(&Value::Null)
    }
}

fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, ReplayError> {
    let text = read(path)?;
    let parsed = text.lines().enumerate().map(|(at, line)| {
        serde_json::from_str(line)
            .map_err(|error| fail(&format!("{}:{}", path.display(), at + 1), &error))
    });
    parsed.collect()
}

fn read(path: &Path) -> Result<String, ReplayError> {
    fs::read_to_string(path).map_err(|error| fail(&path.display().to_string(), &error))
}

fn fail(place: &str, error: &dyn fmt::Display) -> ReplayError {
    ReplayError(format!("{place}: {error}"))
}

impl fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ReplayError {}
