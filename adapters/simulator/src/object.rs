//! A small builder for the JSON objects of answers: absent values leave no key, as in CloudStack.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::versions::{Version, newer_fields};

/// A JSON object under construction.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Object(Map<String, Value>);

impl Object {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets a key.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Sets a key if there is a value.
    pub(crate) fn maybe(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Sets all keys of another object; its values win.
    pub(crate) fn merge(mut self, other: Object) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Sets the keys that a world file gives for fields without meaning here; they win.
    pub(crate) fn merge_extra(mut self, extra: &std::collections::BTreeMap<String, Value>) -> Self {
        self.0.extend(extra.iter().map(|(key, value)| (key.clone(), value.clone())));
        self
    }

    /// Takes out the fields that a release does not have yet in objects of this key.
    pub(crate) fn of_release(self, kind: &str, version: &Version) -> Self {
        self.without(&newer_fields(kind, version))
    }

    /// Takes keys out.
    pub(crate) fn without(mut self, keys: &[&str]) -> Self {
        for key in keys {
            self.0.remove(*key);
        }
        self
    }
}

impl From<Map<String, Value>> for Object {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Value::Object(object.0)
    }
}

/// A time as CloudStack writes it: whole seconds, offset without a colon.
pub(crate) fn date(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S+0000").to_string()
}
