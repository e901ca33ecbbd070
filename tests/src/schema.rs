//! Holds plans against `deploy/plan.schema.json`, more strictly than readers should: a field that
//! the schema does not name is a mistake here.

use std::sync::LazyLock;

use ccm_core::render::document::Document;
use jsonschema::Validator;
use serde_json::Value;

const PLAN: &str = include_str!("../../deploy/plan.schema.json");

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let mut schema: Value = serde_json::from_str(PLAN).expect("a schema in JSON");
    close(&mut schema);
    jsonschema::validator_for(&schema).expect("a schema")
});

/// What is wrong with the JSON of a plan; empty if nothing is.
pub fn mistakes(plan: &Value) -> Vec<String> {
    let told =
        |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
    VALIDATOR.iter_errors(plan).map(told).collect()
}

/// Fails a test whose plan does not have the form of the schema.
pub fn check(document: &Document) {
    let json = serde_json::to_value(document).expect("a document is JSON");
    let mistakes = mistakes(&json);
    assert!(mistakes.is_empty(), "{}\n{json:#}", mistakes.join("\n"));
}

/// Objects with named properties have no others.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && object.get("type") == Some(&"object".into()) {
                object.entry("additionalProperties").or_insert(false.into());
            }
            object.values_mut().for_each(close);
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
