//! What can be wrong with manifests.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// How many mistakes are shown.
const MOST_SHOWN: usize = 50;

/// All mistakes found in manifests; never empty.
#[derive(Debug, Error)]
pub struct ManifestErrors(pub(super) Vec<ManifestError>);

impl ManifestErrors {
    /// The mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &ManifestError> {
        self.0.iter()
    }
}

impl fmt::Display for ManifestErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().take(MOST_SHOWN).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        match self.0.len().checked_sub(MOST_SHOWN) {
            Some(more @ 1..) => write!(f, "\nand {more} more"),
            Some(0) | None => Ok(()),
        }
    }
}

/// A mistake in manifests.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// The path can't be read.
    #[error("{}: can't be read: {cause}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// A directory in which there is nothing to read.
    #[error("{}: holds no *.yaml, *.yml or *.json file", path.display())]
    EmptyDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Neither YAML nor JSON, or nested too deeply.
    #[error("{}, document {document}: {cause}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The document in it, from 1.
        document: usize,
        /// What the parser says.
        cause: String,
    },
    /// A Service or Node that is none.
    #[error("{}, document {document}: {object}: {cause}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The document in it, from 1.
        document: usize,
        /// Kind and name, as far as they can be read.
        object: String,
        /// What is wrong.
        cause: String,
    },
    /// The same object twice.
    #[error("{object} stands in {} and in {}; remove one", first.display(), second.display())]
    Duplicate {
        /// Kind and name.
        object: String,
        /// The file that was read first.
        first: PathBuf,
        /// The other file, which may be the same.
        second: PathBuf,
    },
}
