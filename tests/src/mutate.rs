//! Changes of one place in a body, as a server of another release, a fault or a gateway makes them.

use serde_json::{Map, Value, json};

/// What happens to one value.
#[derive(Clone, Debug)]
pub enum How {
    /// The field or entry is not there.
    Dropped,
    /// Another value stands there.
    Replaced(Value),
    /// A number is written as a text, and a text that is a number as one.
    Respelled,
    /// A text ends early.
    Cut(usize),
    /// The value stands in a list.
    Listed,
    /// The value stands in an object under another key.
    Wrapped(&'static str),
    /// What is inside stands here.
    Unwrapped,
    /// An object has a field that nobody knows.
    Extended,
    /// A list has its first entry twice.
    Doubled,
}

/// One of each kind.
pub fn all() -> Vec<How> {
    let long = "x".repeat(300);
    let values = [
        json!(null),
        json!(true),
        json!("false"),
        json!(7),
        json!("80"),
        json!(""),
        json!(" "),
        json!("no such thing"),
        json!("é\u{0}\n"),
        json!(long),
        json!(-1),
        json!(1.5),
        json!(65536),
        json!(u64::MAX),
        json!(1e300),
        json!([]),
        json!({}),
        json!([null]),
        json!("2001:db8::1"),
    ];
    let replaced = values.into_iter().map(How::Replaced);
    let others = [
        How::Dropped,
        How::Respelled,
        How::Cut(1),
        How::Cut(12),
        How::Listed,
        How::Wrapped("x"),
        How::Wrapped("errorcode"),
        How::Unwrapped,
        How::Extended,
        How::Doubled,
    ];
    replaced.chain(others).collect()
}

/// How many places there are in a body: every field of every object and every entry of every list.
pub fn places(value: &Value) -> usize {
    let inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Object(object) => Box::new(object.values()),
        Value::Array(entries) => Box::new(entries.iter()),
        _ => return 0,
    };
    inner.map(|value| 1 + places(value)).sum()
}

/// Changes a place by its number.
pub fn change(value: &mut Value, place: usize, how: &How) {
    let mut left = place;
    descend(value, &mut left, how);
}

/// Whether the place was found.
fn descend(value: &mut Value, left: &mut usize, how: &How) -> bool {
    match value {
        Value::Object(object) => {
            let keys: Vec<String> = object.keys().cloned().collect();
            keys.iter().any(|key| {
                if *left == 0 {
                    let changed = object.get(key).and_then(|value| changed(value, how));
                    match changed {
                        Some(changed) => object.insert(key.clone(), changed),
                        None => object.remove(key),
                    };
                    return true;
                }
                *left -= 1;
                object.get_mut(key).is_some_and(|inner| descend(inner, left, how))
            })
        }
        Value::Array(entries) => (0..entries.len()).any(|at| {
            if *left == 0 {
                match entries.get(at).and_then(|value| changed(value, how)) {
                    Some(changed) => entries[at] = changed,
                    None => drop(entries.remove(at)),
                }
                return true;
            }
            *left -= 1;
            descend(&mut entries[at], left, how)
        }),
        _ => false,
    }
}

/// The changed value; `None` if it is dropped.
fn changed(value: &Value, how: &How) -> Option<Value> {
    Some(match (how, value) {
        (How::Dropped, _) => return None,
        (How::Replaced(other), _) => other.clone(),
        (How::Respelled, Value::Number(_) | Value::Bool(_)) => json!(value.to_string()),
        (How::Respelled, Value::String(text)) => {
            text.parse::<u64>().map_or_else(|_| json!(text.to_uppercase()), |number| json!(number))
        }
        (How::Cut(length), Value::String(text)) => {
            json!(text.chars().take(*length).collect::<String>())
        }
        (How::Listed, _) => json!([value]),
        (How::Wrapped(key), _) => json!({ *key: value }),
        (How::Unwrapped, Value::Object(inner)) => inner.values().next().cloned()?,
        (How::Unwrapped, Value::Array(entries)) => entries.first().cloned()?,
        (How::Extended, Value::Object(object)) => Value::Object(extended(object)),
        (How::Doubled, Value::Array(entries)) => {
            Value::Array(entries.first().into_iter().chain(entries).cloned().collect())
        }
        _ => value.clone(),
    })
}

fn extended(object: &Map<String, Value>) -> Map<String, Value> {
    let mut extended = object.clone();
    extended.insert("afieldofthefuture".to_owned(), json!({"id": 7, "state": "New"}));
    extended
}
