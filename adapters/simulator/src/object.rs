//! A small builder for the JSON objects of answers: absent values leave no key, as in CloudStack.
//!
//! An object borrows what it can, and is put in order when it is written: a page of a list has tens
//! of thousands of fields. Its rows are written as text one after the other, so that no tree of a
//! page is ever built.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::versions::{Version, newer_fields};

/// A JSON object under construction. Of several values of a key the last one counts; it is written
/// sorted by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object<'a>(Vec<(&'a str, Field<'a>)>);

/// The value of a key.
#[derive(Debug, Clone)]
pub(crate) enum Field<'a> {
    Text(Cow<'a, str>),
    Object(Object<'a>),
    Objects(Vec<Object<'a>>),
    Value(Cow<'a, Value>),
    /// JSON as it is to be written.
    Json(String),
}

impl<'a> Object<'a> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets a key.
    pub(crate) fn with(mut self, key: &'a str, value: impl Into<Field<'a>>) -> Self {
        self.0.push((key, value.into()));
        self
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
        self.0.extend(other.0);
        self
    }

    /// Sets the keys that a world file gives for fields without meaning here; they win.
    pub(crate) fn merge_extra(mut self, extra: &'a BTreeMap<String, Value>) -> Self {
        self.0.extend(extra.iter().map(|(key, value)| (key.as_str(), value.into())));
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

impl Object<'_> {
    /// Its JSON.
    pub(crate) fn json(&self) -> String {
        let mut text = Vec::new();
        self.write(&mut text);
        written(text)
    }

    /// Appends its JSON.
    pub(crate) fn write(&self, text: &mut Vec<u8>) {
        let Self(fields) = self;
        let mut sorted: Vec<_> = fields.iter().map(|field| (head(field.0), field)).collect();
        sorted.sort_by_key(|(head, (key, _))| (*head, *key));
        text.push(b'{');
        let mut fields = sorted.into_iter().map(|(_, field)| field).peekable();
        while let Some((key, value)) = fields.next() {
            if fields.peek().is_some_and(|(next, _)| next == key) {
                continue;
            }
            write_json(text, key);
            text.push(b':');
            value.write(text);
            if fields.peek().is_some() {
                text.push(b',');
            }
        }
        text.push(b'}');
    }
}

impl Field<'_> {
    fn write(&self, text: &mut Vec<u8>) {
        match self {
            Self::Text(value) => write_json(text, value),
            Self::Object(object) => object.write(text),
            Self::Objects(objects) => write_rows(text, objects, |text, object| object.write(text)),
            Self::Value(value) => write_json(text, value),
            Self::Json(json) => text.extend_from_slice(json.as_bytes()),
        }
    }
}

/// The first eight bytes of a key as a number: it sorts as they do, and most keys differ in them.
fn head(key: &str) -> u64 {
    let mut bytes = [0; 8];
    for (byte, letter) in bytes.iter_mut().zip(key.bytes()) {
        *byte = letter;
    }
    u64::from_be_bytes(bytes)
}

/// Appends an array.
pub(crate) fn write_rows<T>(
    text: &mut Vec<u8>,
    rows: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    text.push(b'[');
    for (at, row) in rows.into_iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        write(text, row);
    }
    text.push(b']');
}

/// What was written, which is text.
pub(crate) fn written(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_default()
}

/// Appends a value. It can't fail: memory takes all, and every key is a text.
fn write_json(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    drop(serde_json::to_writer(text, value));
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
            Field::Json(json) => json.parse().unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Lab;

    #[test]
    fn an_object_is_written_in_the_order_of_its_keys_and_with_the_last_value_of_each() {
        let extra = BTreeMap::from([("a".to_owned(), json!({"z": 1}))]);
        let object = Object::new()
            .with("networkofferingname", "n")
            .with("networkid", "\"1\"")
            .with("a", true)
            .with("network", 2)
            .merge(Object::new().with("networkid", "2").with("b", Object::new()))
            .with("rows", vec![Object::new().with("y", 1).with("x", json!(null)), Object::new()])
            .with("text", Field::Json("[1]".to_owned()))
            .merge_extra(&extra);
        let json = r#"{"a":{"z":1},"b":{},"network":2,"networkid":"2","networkofferingname":"n","rows":[{"x":null,"y":1},{}],"text":[1]}"#;
        assert_eq!(object.json(), json);
        assert_eq!(Value::from(object), json.parse::<Value>().unwrap());
    }

    #[test]
    fn lists_are_written_in_the_order_of_their_keys() {
        let mut lab = Lab::new();
        for command in ["listVirtualMachines", "listNetworks", "listVPCs", "listZones"] {
            let body = lab.simulator.call("prod", command, &[], lab.now).body;
            assert_eq!(body.parse::<Value>().unwrap().to_string(), body, "{command}");
        }
    }
}
