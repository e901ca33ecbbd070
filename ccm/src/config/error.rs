//! What can be wrong, or risky, in a configuration. No message holds a secret.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::keys::Setting;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file, at that line.
    File(usize),
    /// In that environment variable.
    Environment(&'static str),
    /// By that flag, without dashes.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(line) => write!(f, "line {line}"),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// How many mistakes, or keys in a warning, are shown.
const MOST_SHOWN: usize = 20;

/// All mistakes of a configuration; never empty.
#[derive(Debug, Error)]
pub struct ConfigErrors {
    pub(super) path: Option<PathBuf>,
    pub(super) errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// The mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.errors.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration can't be used")?;
        if let Some(path) = &self.path {
            write!(f, " (file {})", path.display())?;
        }
        f.write_str(":")?;
        for error in self.errors.iter().take(MOST_SHOWN) {
            write!(f, "\n  {error}")?;
        }
        match self.errors.len().checked_sub(MOST_SHOWN) {
            Some(more @ 1..) => write!(f, "\n  and {more} more"),
            Some(0) | None => Ok(()),
        }
    }
}

/// A mistake in a configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("can't read {}: {cause}; check --cloud-config and that the Secret holds the file under that name", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// A line that is none.
    #[error("line {line}: {why}")]
    BadLine {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A section that means nothing here.
    #[error("line {line}: unknown section {section}; the settings stand in [Global]")]
    UnknownSection {
        /// Counted from 1.
        line: usize,
        /// Its name, in quotes, or its length.
        section: String,
    },
    /// Both sections that settings can stand in.
    #[error("sections [Global] and [cloudstack] both stand in the file; remove one")]
    TwoSections,
    /// A setting before the first section.
    #[error("line {line}: a key stands before the first section; write [Global] above it")]
    NoSection {
        /// Counted from 1.
        line: usize,
    },
    /// A key that is in no table.
    #[error("line {line}: unknown key {key}; the nearest known one is `{nearest}`")]
    UnknownKey {
        /// Counted from 1.
        line: usize,
        /// The key, in quotes, or its length.
        key: String,
        /// The key that looks most like it.
        nearest: Setting,
    },
    /// A required setting that is nowhere.
    #[error("`{setting}` is missing; set it in section [Global], or as environment variable {}", setting.spec().env)]
    Missing {
        /// The setting.
        setting: Setting,
    },
    /// A value that can't be read.
    #[error("{origin}: `{setting}` is {found}, {problem}")]
    BadValue {
        /// The setting.
        setting: Setting,
        /// Where it was set.
        origin: Origin,
        /// The value in quotes, or a word in its place.
        found: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// Two settings that exclude each other.
    #[error("`ssl-no-verify` is on, so `ca-file` would vouch for nobody; remove one of them")]
    TlsContradiction,
}

impl ConfigError {
    /// The line of the file that it is about, if it is about one.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::BadLine { line, .. }
            | Self::UnknownSection { line, .. }
            | Self::NoSection { line }
            | Self::UnknownKey { line, .. } => Some(*line),
            Self::BadValue { origin, .. } => match origin {
                Origin::File(line) => Some(*line),
                Origin::Environment(_) | Origin::Flag(_) => None,
            },
            Self::Unreadable { .. }
            | Self::TwoSections
            | Self::Missing { .. }
            | Self::TlsContradiction => None,
        }
    }
}

/// What an operator should know about a configuration that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// `ssl-no-verify`.
    NoVerification,
    /// `http:` to another machine.
    PlainHttp {
        /// The host.
        host: String,
    },
    /// `get-if-post-refused`.
    KeysInUrls,
    /// A key that stands in the file twice.
    SetTwice {
        /// The setting.
        setting: Setting,
        /// The line that counts.
        line: usize,
    },
    /// Keys that only the `cs` tool uses.
    CsOnly {
        /// The keys, in the order of the file, each once.
        keys: Vec<String>,
    },
    /// `CLOUDSTACK_REGION`, which chooses a section for the `cs` tool.
    CsRegion,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVerification => f.write_str(
                "ssl-no-verify is on: THE SERVER'S CERTIFICATE IS NOT CHECKED, so whoever is in between can read \
                 and change everything; use ca-file to trust a private authority",
            ),
            Self::PlainHttp { host } => write!(
                f,
                "api-url is not encrypted: requests to {host} and their answers can be read and changed on the \
                 way; use https"
            ),
            Self::KeysInUrls => f.write_str(
                "get-if-post-refused is on: where POST is refused, API key and signature stand in URLs, which proxies \
                 and servers write to their logs",
            ),
            Self::SetTwice { setting, line } => {
                write!(f, "{setting} is set more than once; line {line} counts")
            }
            Self::CsOnly { keys } => write!(
                f,
                "{} mean something to the cs tool only and have no effect; see ca-file, ssl-no-verify and the \
                 timeouts",
                keys.iter().take(MOST_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
            Self::CsRegion => f.write_str(
                "environment variable CLOUDSTACK_REGION has no effect: section [cloudstack] is read in any case; \
                 the region labels are set by CLOUDSTACK_REGION_LABEL",
            ),
        }
    }
}
