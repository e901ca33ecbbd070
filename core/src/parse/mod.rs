//! Raw objects to model: everything that a person may have written wrongly is found here, and all
//! of it at once.

pub mod raw;

use std::fmt;

use thiserror::Error;

/// All mistakes of one Service, in the order of its fields; never empty.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct ParseErrors(Vec<ParseError>);

impl ParseErrors {
    /// Wraps mistakes; `None` if there are none.
    pub fn new(errors: Vec<ParseError>) -> Option<Self> {
        (!errors.is_empty()).then_some(Self(errors))
    }

    /// The mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &ParseError> {
        self.0.iter()
    }
}

impl fmt::Display for ParseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

/// A mistake in a Service that makes it unusable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    /// Placeholder until the parser lands.
    #[error("unreadable")]
    Unreadable,
}

impl ParseError {
    /// Its stable code.
    pub fn code(&self) -> &'static str {
        "Unreadable"
    }
}

/// Something odd about a Service that does not make it unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecWarning {
    /// An annotation under our prefix that we don't know.
    UnknownAnnotation {
        /// The whole key.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
    },
}

impl fmt::Display for SpecWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::UnknownAnnotation { key, nearest: _ } = self;
        write!(f, "annotation `{key}` is unknown")
    }
}
