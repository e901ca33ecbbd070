//! What a command answers: the JSON text that stands under its root key.

use serde_json::Value;

use crate::object::{Object, write_rows, written};

/// The text of an answer, without its root key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer(String);

impl Answer {
    /// Some of `count` rows under a key; the count alone if there are none.
    pub(crate) fn list<'a, T>(
        count: usize,
        key: &str,
        rows: Vec<T>,
        render: impl Fn(T) -> Object<'a>,
    ) -> Self {
        let counted = format!(r#""count":{count}"#);
        if rows.is_empty() {
            return Self(format!("{{{counted}}}"));
        }
        // In the order of all objects.
        let (before, after) = if key < "count" {
            (String::new(), format!(",{counted}"))
        } else {
            (format!("{counted},"), String::new())
        };
        let mut text = format!(r#"{{{before}"{key}":"#).into_bytes();
        // Each row is rendered when it is written.
        write_rows(&mut text, rows, |text, row| render(row).write(text));
        text.extend_from_slice(after.as_bytes());
        text.push(b'}');
        Self(written(text))
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

impl From<Object<'_>> for Answer {
    fn from(object: Object<'_>) -> Self {
        Self(object.json())
    }
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self(value.to_string())
    }
}
