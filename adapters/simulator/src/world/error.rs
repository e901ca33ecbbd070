//! Why a world file can not be used.

use std::path::PathBuf;

use thiserror::Error;

use crate::versions::NotAVersion;

/// A world file that can not be used.
#[derive(Debug, Error)]
pub enum WorldError {
    /// The file can not be read.
    #[error("cannot read the world file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
    /// It is no YAML, lacks a field or has an unknown one.
    #[error("the world file does not have the expected form: {cause}")]
    Form {
        /// Line, column and what is expected there; nothing of what stands there.
        cause: String,
    },
    /// It is of another version of the format.
    #[error("`version` is {found}, and only 1 is known")]
    Format {
        /// What the file says.
        found: u32,
    },
    /// `release` names no CloudStack release.
    #[error("`release` can not be used")]
    Release {
        /// What it says.
        #[source]
        source: NotAVersion,
    },
    /// A name leads nowhere.
    #[error("{place}: there is no {kind} {:?}", beginning(name))]
    Unknown {
        /// Where the name stands, such as `addresses[0].network`.
        place: String,
        /// What it should name.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Something contradicts something else.
    #[error("{place}: {}", beginning(cause))]
    Invalid {
        /// Where it stands.
        place: String,
        /// What is wrong, and what would be right.
        cause: String,
    },
}

/// As much of a text as an error shows.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(300).map_or(text, |(end, _)| text.get(..end).unwrap_or_default())
}

/// Where a file is wrong, and what is expected there. The parser's own texts quote what stands there,
/// which may be a key.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is about the grammar of YAML")]
pub(super) fn without_values(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;

    let error = error.without_snippet();
    let place = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
    let expected = match error {
        Error::Unexpected { expected, .. } => format!("expected {expected}"),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("expected {expected}")
        }
        Error::SerdeUnknownVariant { expected, .. } => {
            format!("expected one of {}", expected.join(", "))
        }
        Error::SerdeUnknownField { expected, .. } => {
            format!("unknown field; expected one of {}", expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("`{field}` is missing"),
        _ => "what stands there is not valid".to_owned(),
    };
    place.unwrap_or_default() + &expected
}
