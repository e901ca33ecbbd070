//! What an object says, field by field, as texts. What is absent has no entry.

use std::collections::BTreeMap;
use std::fmt::Display;

use ccm_core::cidr::CidrSet;

/// A field of the core's to what it holds.
pub type Facts = BTreeMap<&'static str, String>;

/// Collects fields.
#[derive(Debug, Default)]
pub struct Collected(pub Facts);

impl Collected {
    /// Adds a field that is there.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.0.insert(name, value.to_string());
        self
    }

    /// Adds a field that may be absent.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

/// Networks as both sides write them: sorted, without host bits.
pub fn cidrs(set: &CidrSet) -> String {
    listed(set.iter().map(|cidr| cidr.network().to_string()))
}

/// Texts in an order of their own.
pub fn listed(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.join(" ")
}

/// Pairs in the order of their keys.
pub fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    listed(pairs.into_iter().map(|(key, value)| format!("{key:?}={value:?}")))
}
