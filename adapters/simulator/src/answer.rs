//! What a command answers: the JSON text that stands under its root key.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::object::Object;

/// The text of an answer, without its root key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer(String);

/// Rows of a list, each rendered when it is written.
struct Rows<T, F> {
    rows: Vec<T>,
    render: F,
}

impl Answer {
    /// Some of `count` rows under a key; the count alone if there are none.
    pub(crate) fn list<'a, T: Clone>(
        count: usize,
        key: &str,
        rows: Vec<T>,
        render: impl Fn(T) -> Object<'a>,
    ) -> Self {
        if rows.is_empty() {
            return Object::new().with("count", count).into();
        }
        let rows = Rows { rows, render };
        Self(written(|text| {
            let mut fields = text.serialize_map(Some(2))?;
            // In the order of all objects.
            if key < "count" {
                fields.serialize_entry(key, &rows)?;
                fields.serialize_entry("count", &count)?;
            } else {
                fields.serialize_entry("count", &count)?;
                fields.serialize_entry(key, &rows)?;
            }
            fields.end()
        }))
    }

    /// The answer under its root key.
    pub(crate) fn under(self, root: &str) -> String {
        let Self(mut text) = self;
        text.insert_str(0, &format!("{{\"{root}\":"));
        text.push('}');
        text
    }

    /// The same as a tree, for other forms than JSON.
    pub(crate) fn tree(&self) -> Value {
        self.0.parse().unwrap_or_default()
    }
}

impl<'a, T: Clone, F: Fn(T) -> Object<'a>> Serialize for Rows<T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().cloned().map(&self.render))
    }
}

impl From<Object<'_>> for Answer {
    fn from(object: Object<'_>) -> Self {
        Self(written(|text| object.serialize(text)))
    }
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self(value.to_string())
    }
}

/// What `write` writes. It can't fail: memory takes all, and every key is a text.
fn written(
    write: impl FnOnce(&mut serde_json::Serializer<&mut Vec<u8>>) -> Result<(), serde_json::Error>,
) -> String {
    let mut text = Vec::new();
    drop(write(&mut serde_json::Serializer::new(&mut text)));
    String::from_utf8(text).unwrap_or_default()
}
