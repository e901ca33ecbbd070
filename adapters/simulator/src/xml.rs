//! The XML form of an answer. Its root element carries the server's version, which even the
//! restricted project role may read.

use serde_json::Value;

use crate::versions::Version;

/// A whole document. Arrays repeat their element; empty arrays and absent values leave nothing.
pub(crate) fn document(root: &str, body: &Value, version: Option<&Version>) -> String {
    let attribute = version
        .map(|version| format!(" cloud-stack-version=\"{}\"", escaped(&version.to_string())))
        .unwrap_or_default();
    let inner = content(body);
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><{root}{attribute}>{inner}</{root}>")
}

fn element(name: &str, value: &Value) -> String {
    match value {
        Value::Array(entries) => entries.iter().map(|entry| element(name, entry)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            format!("<{name}>{}</{name}>", content(value))
        }
    }
}

fn content(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => escaped(text),
        Value::Array(entries) => entries.iter().map(content).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| element(name, field)).collect(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arrays_repeat_their_element_and_text_is_escaped() {
        let body = json!({"count": 2, "zone": [{"name": "a&b"}, {"name": "c"}], "tags": []});
        let version = "4.22.0.0".parse().unwrap();
        assert_eq!(
            document("listzonesresponse", &body, Some(&version)),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
             <listzonesresponse cloud-stack-version=\"4.22.0.0\"><count>2</count>\
             <zone><name>a&amp;b</name></zone><zone><name>c</name></zone></listzonesresponse>"
        );
    }
}
