//! Files: snapshots, from which a plan can be made anywhere, and saved plans, which `apply` takes.
//! Neither holds a secret.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ccm_core::model::policy::Policy;
use ccm_core::observe::CloudState;
use ccm_core::render::document::Document;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::files;
use crate::ports::Objects;

/// The format of both kinds of file. Readers take every minor version of their major one.
pub const FORMAT_VERSION: &str = "1.0";

/// Everything that planning needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// `Snapshot`.
    pub kind: String,
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// How it is done there.
    pub policy: Policy,
    /// Services and Nodes.
    pub objects: Objects,
    /// CloudStack, with the members that planning asks for.
    pub cloud: CloudState,
}

/// A plan, with what it takes to plan it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedPlan {
    /// `SavedPlan`.
    pub kind: String,
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// How it is done there.
    pub policy: Policy,
    /// Services and Nodes.
    pub objects: Objects,
    /// The plan as it was shown.
    pub document: Document,
}

impl Snapshot {
    /// A snapshot of this format.
    pub fn new(policy: Policy, objects: Objects, cloud: CloudState) -> Self {
        let (kind, format_version) = ("Snapshot".to_owned(), FORMAT_VERSION.to_owned());
        Self { kind, format_version, policy, objects, cloud }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`] if it can't be read, or is no snapshot of a format that we know.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        read(path, "Snapshot")
    }
}

impl SavedPlan {
    /// A saved plan of this format.
    pub fn new(policy: Policy, objects: Objects, document: Document) -> Self {
        let (kind, format_version) = ("SavedPlan".to_owned(), FORMAT_VERSION.to_owned());
        Self { kind, format_version, policy, objects, document }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`] if it can't be read, or is no saved plan of a format that we know.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        read(path, "SavedPlan")
    }
}

/// A file that can't be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// It can't be read.
    #[error("{} can't be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It can't be written.
    #[error("{} can't be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It has another content.
    #[error("{} is not a {expected} that this version can read: {cause}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The kind that was expected.
        expected: &'static str,
        /// What is wrong, and where.
        cause: String,
    },
    /// It is something else.
    #[error("{} is {found}, and {expected} was expected{}", path.display(), hint(expected))]
    Kind {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// The kind that was expected.
        expected: &'static str,
    },
    /// It is of another format.
    #[error("{} has format {found}; this version reads 1.x", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: String,
    },
}

fn hint(expected: &str) -> &'static str {
    match expected {
        "SavedPlan" => ": `plan --out FILE` writes one",
        "Snapshot" => ": `snapshot --out FILE` writes one",
        _ => "",
    }
}

fn read<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, FileError> {
    let named = || path.to_owned();
    let text = files::text(path, files::SAVED_LIMIT)
        .map_err(|source| FileError::Unreadable { path: named(), source })?;
    let malformed = |error: serde_json::Error| FileError::Malformed {
        path: named(),
        expected,
        cause: cause(&error),
    };
    let Head { kind, format_version } = serde_json::from_str(&text).map_err(malformed)?;
    match kind {
        Some(kind) if kind == expected => {}
        kind => {
            let found = match kind {
                Some(kind) => format!("a {}", shown(&kind)),
                None => "no file of ours".to_owned(),
            };
            return Err(FileError::Kind { path: named(), found, expected });
        }
    }
    match format_version {
        Some(version) if version.split('.').next() == Some("1") => {}
        version => {
            let found = version.map_or_else(|| "none".to_owned(), |version| shown(&version));
            return Err(FileError::Format { path: named(), found });
        }
    }
    serde_json::from_str(&text).map_err(malformed)
}

/// What says whether the rest of a file can be read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    kind: Option<String>,
    format_version: Option<String>,
}

/// What is wrong, and where; it may repeat what stands there, of which the beginning is enough.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.char_indices().nth(300) {
        Some((end, _)) => {
            let beginning = text.get(..end).unwrap_or_default();
            format!("{beginning}… at line {} column {}", error.line(), error.column())
        }
        None => text,
    }
}

/// At most 40 characters.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Who may read a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As the system has it.
    Usual,
    /// Its owner alone: it holds credentials.
    OwnerOnly,
}

/// Writes a value as a JSON file.
///
/// # Errors
/// [`FileError::Unwritable`].
pub fn write(path: &Path, value: &impl Serialize) -> Result<(), FileError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::other);
    let text = text.map_err(|source| FileError::Unwritable { path: path.to_owned(), source })?;
    write_text(path, &(text + "\n"), Access::Usual)
}

/// Writes a file whole or not at all: beside it first, then over it. What is no regular file
/// (`/dev/stdout`) is written to directly.
///
/// # Errors
/// [`FileError::Unwritable`].
pub fn write_text(path: &Path, text: &str, access: Access) -> Result<(), FileError> {
    let special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    let written = if special {
        fs::write(path, text)
    } else {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        let result = write_new(&beside, text, access).and_then(|()| fs::rename(&beside, path));
        if result.is_err() {
            // It may never have come to be.
            let _ = fs::remove_file(&beside);
        }
        result
    };
    written.map_err(|source| FileError::Unwritable { path: path.to_owned(), source })
}

fn write_new(path: &Path, text: &str, access: Access) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    if access == Access::OwnerOnly {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = access;
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
