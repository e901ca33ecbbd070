//! A small builder for the JSON objects of answers: absent values leave no key, as in CloudStack.
//!
//! An object borrows what it can: a page of a list has tens of thousands of fields, and its rows are
//! written as text one after the other, so that no tree of a page is ever built.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::versions::{Version, newer_fields};

/// A JSON object under construction, sorted by key: so it is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Object<'a>(Vec<(&'a str, Field<'a>)>);

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Field<'a> {
    Text(Cow<'a, str>),
    Object(Object<'a>),
    Objects(Vec<Object<'a>>),
    Value(Cow<'a, Value>),
}

impl<'a> Object<'a> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets a key.
    pub(crate) fn with(mut self, key: &'a str, value: impl Into<Field<'a>>) -> Self {
        self.set(key, value.into());
        self
    }

    fn set(&mut self, key: &'a str, value: Field<'a>) {
        let Self(fields) = self;
        match fields.binary_search_by_key(&key, |(known, _)| known) {
            Ok(at) => fields.splice(at..=at, [(key, value)]).for_each(drop),
            Err(at) => fields.insert(at, (key, value)),
        }
    }

    /// Sets a key if there is a value.
    pub(crate) fn maybe(self, key: &'a str, value: Option<impl Into<Field<'a>>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Sets all keys of another object; its values win.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        for (key, value) in other.0 {
            self.set(key, value);
        }
        self
    }

    /// Sets the keys that a world file gives for fields without meaning here; they win.
    pub(crate) fn merge_extra(mut self, extra: &'a BTreeMap<String, Value>) -> Self {
        for (key, value) in extra {
            self.set(key, value.into());
        }
        self
    }

    /// Takes out the fields that a release does not have yet in objects of this key.
    pub(crate) fn of_release(self, kind: &str, version: &Version) -> Self {
        self.without(&newer_fields(kind, version))
    }

    /// Takes keys out.
    pub(crate) fn without(mut self, keys: &[&str]) -> Self {
        if !keys.is_empty() {
            self.0.retain(|(key, _)| !keys.contains(key));
        }
        self
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// For what is kept longer than it can borrow: the result of a job.
impl From<Object<'_>> for Value {
    fn from(object: Object<'_>) -> Self {
        object.0.into_iter().map(|(key, field)| (key.to_owned(), Self::from(field))).collect()
    }
}

impl From<Field<'_>> for Value {
    fn from(field: Field<'_>) -> Self {
        match field {
            Field::Text(text) => text.into(),
            Field::Object(object) => object.into(),
            Field::Objects(objects) => objects.into_iter().map(Self::from).collect(),
            Field::Value(value) => value.into_owned(),
        }
    }
}

impl<'a> From<&'a str> for Field<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Field<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<Object<'a>> for Field<'a> {
    fn from(object: Object<'a>) -> Self {
        Self::Object(object)
    }
}

impl<'a> From<Vec<Object<'a>>> for Field<'a> {
    fn from(objects: Vec<Object<'a>>) -> Self {
        Self::Objects(objects)
    }
}

impl<'a> FromIterator<Object<'a>> for Field<'a> {
    fn from_iter<I: IntoIterator<Item = Object<'a>>>(objects: I) -> Self {
        Self::Objects(objects.into_iter().collect())
    }
}

impl<'a> From<&'a Value> for Field<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Value(Cow::Borrowed(value))
    }
}

/// Values of which `Value` makes JSON itself.
macro_rules! fields_of_values {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Field<'_> {
            fn from(value: $kind) -> Self {
                Self::Value(Cow::Owned(value.into()))
            }
        })*
    };
}
fields_of_values!(Value, bool, i32, i64, u16, u32, u64, usize, Vec<String>, Vec<Value>);

/// A time as CloudStack writes it: whole seconds, offset without a colon.
pub(crate) fn date(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S+0000").to_string()
}
