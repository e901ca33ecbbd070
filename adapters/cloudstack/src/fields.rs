//! Typed reading of one JSON object: strict about what decisions need, with errors that name the
//! command's object and field. Numbers may be written as texts: ports of load balancer rules and
//! ACL items are, those of firewall rules are not.

use std::collections::BTreeMap;

use ccm_core::cidr::{Cidr, CidrSet};
use serde_json::Value;
use thiserror::Error;

use crate::envelope::Object;
use crate::secret::quotable;

/// How much of a value an error shows.
const EXCERPT: usize = 60;

/// A field that can't be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{kind} {object}: `{field}` is {found}, expected {expected}")]
pub(crate) struct DecodeError {
    kind: &'static str,
    object: String,
    field: &'static str,
    found: String,
    expected: &'static str,
}

/// One object of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    kind: &'static str,
    object: &'a Object,
}

impl<'a> Fields<'a> {
    /// Reads `value` as an object; `kind` names it in errors.
    pub(crate) fn of(kind: &'static str, value: &'a Value) -> Result<Self, DecodeError> {
        let object = value.as_object().ok_or_else(|| DecodeError {
            kind,
            object: "without id".to_owned(),
            field: "(entry)",
            found: shown(Some(value)),
            expected: "an object",
        })?;
        Ok(Self { kind, object })
    }

    /// An object that was taken out of its envelope.
    pub(crate) fn inside(kind: &'static str, object: &'a Object) -> Self {
        Self { kind, object }
    }

    /// A text that is there and not empty.
    pub(crate) fn text(&self, field: &'static str) -> Result<&'a str, DecodeError> {
        self.optional_text(field)?.ok_or_else(|| self.error(field, "a text"))
    }

    /// A text; an empty one counts as absent.
    pub(crate) fn optional_text(
        &self,
        field: &'static str,
    ) -> Result<Option<&'a str>, DecodeError> {
        match self.object.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(self.error(field, "a text"))
            }
        }
    }

    /// A text that may be empty; so is one that is absent.
    pub(crate) fn text_or_empty(&self, field: &'static str) -> Result<&'a str, DecodeError> {
        self.optional_text(field).map(Option::unwrap_or_default)
    }

    /// A text in lower case.
    pub(crate) fn lower_text(&self, field: &'static str) -> Result<String, DecodeError> {
        self.text(field).map(str::to_ascii_lowercase)
    }

    /// An id that is there.
    pub(crate) fn id<I>(
        &self,
        field: &'static str,
        parse: impl FnOnce(&str) -> Option<I>,
    ) -> Result<I, DecodeError> {
        self.parsed(field, "an id", parse)
    }

    /// An id that may be absent.
    pub(crate) fn optional_id<I>(
        &self,
        field: &'static str,
        parse: impl FnOnce(&str) -> Option<I>,
    ) -> Result<Option<I>, DecodeError> {
        self.optional_parsed(field, "an id", parse)
    }

    /// A text that `parse` accepts, or nothing.
    pub(crate) fn optional_parsed<T>(
        &self,
        field: &'static str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, DecodeError> {
        match self.optional_text(field)? {
            None => Ok(None),
            Some(_) => self.parsed(field, expected, parse).map(Some),
        }
    }

    /// A text that `parse` accepts.
    pub(crate) fn parsed<T>(
        &self,
        field: &'static str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, DecodeError> {
        self.optional_text(field)?.and_then(parse).ok_or_else(|| self.error(field, expected))
    }

    /// A number, or a text that is one.
    pub(crate) fn number<T: TryFrom<u64>>(&self, field: &'static str) -> Result<T, DecodeError> {
        self.optional_number(field)?.ok_or_else(|| self.error(field, "a number"))
    }

    /// A number, a text that is one, or nothing.
    pub(crate) fn optional_number<T: TryFrom<u64>>(
        &self,
        field: &'static str,
    ) -> Result<Option<T>, DecodeError> {
        let number = match self.object.get(field) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
            Some(Value::String(text)) => text.trim().parse::<u64>().ok(),
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
        };
        match number.and_then(|number| T::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.error(field, "a number in range")),
        }
    }

    /// A boolean, or a text that is one; absent counts as false.
    pub(crate) fn flag(&self, field: &'static str) -> Result<bool, DecodeError> {
        self.optional_flag(field).map(Option::unwrap_or_default)
    }

    /// A boolean, a text that is one, or nothing.
    pub(crate) fn optional_flag(&self, field: &'static str) -> Result<Option<bool>, DecodeError> {
        let flag = match self.object.get(field) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Bool(flag)) => Some(*flag),
            Some(Value::String(text)) => text.trim().to_ascii_lowercase().parse().ok(),
            Some(Value::Number(_) | Value::Array(_) | Value::Object(_)) => None,
        };
        flag.map(Some).ok_or_else(|| self.error(field, "true or false"))
    }

    /// The entries of an array; absent counts as empty.
    pub(crate) fn array(&self, field: &'static str) -> Result<&'a [Value], DecodeError> {
        match self.object.get(field) {
            None | Some(Value::Null) => Ok(&[]),
            Some(Value::Array(entries)) => Ok(entries),
            Some(_) => Err(self.error(field, "an array")),
        }
    }

    /// An object in a field, under its own name for errors.
    pub(crate) fn object(&self, kind: &'static str, field: &'static str) -> Option<Fields<'a>> {
        match self.object.get(field) {
            Some(Value::Object(object)) => Some(Fields { kind, object }),
            _ => None,
        }
    }

    /// `startport` and `endport`: absent means all ports. A missing end is the start; a rule with
    /// only an end (accepted, observed) reaches up to it.
    pub(crate) fn ports(&self) -> Result<Option<(u16, u16)>, DecodeError> {
        let start = self.optional_number("startport")?;
        let end = self.optional_number("endport")?;
        Ok(match (start, end) {
            (None, None) => None,
            (Some(start), None) => Some((start, start)),
            (None, Some(end)) => Some((0, end)),
            (Some(start), Some(end)) => Some((start, end)),
        })
    }

    /// `cidrlist` of a firewall rule or an ACL item.
    pub(crate) fn cidrs(&self) -> Result<Option<CidrSet>, DecodeError> {
        self.optional_parsed("cidrlist", "a list of CIDRs", |text| CidrSet::parse_listed(text).ok())
    }

    /// The objects of an array, each as `read` reads it; `kind` names them in errors.
    pub(crate) fn each<T, C: FromIterator<T>>(
        &self,
        field: &'static str,
        kind: &'static str,
        read: impl Fn(&Fields<'a>) -> Result<T, DecodeError>,
    ) -> Result<C, DecodeError> {
        let entries = self.array(field)?.iter();
        entries.map(|entry| read(&Fields::of(kind, entry)?)).collect()
    }

    /// `tags`, key to value; the last one counts if a key is there twice.
    pub(crate) fn tags(&self) -> Result<BTreeMap<String, String>, DecodeError> {
        self.each("tags", "tag", |tag| {
            Ok((tag.text("key")?.to_owned(), tag.text_or_empty("value")?.to_owned()))
        })
    }

    /// Says that a field is not as expected.
    pub(crate) fn error(&self, field: &'static str, expected: &'static str) -> DecodeError {
        DecodeError {
            kind: self.kind,
            object: match self.object.get("id").and_then(Value::as_str) {
                Some(id) if !id.is_empty() => quotable(id, EXCERPT),
                Some(_) | None => "without id".to_owned(),
            },
            field,
            found: shown(self.object.get(field)),
            expected,
        }
    }
}

/// The readable entries of a load balancer rule's `cidrlist`. The server cuts lists of load balancer rules at 255
/// characters, in the middle of an entry (observed): what is left of that one is dropped.
pub(crate) fn readable_cidrs(text: &str) -> CidrSet {
    text.split([' ', ',']).filter_map(|entry| Cidr::parse_listed(entry).ok()).collect()
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(value) => format!("`{}`", quotable(&value.to_string(), EXCERPT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn number(value: &Value) -> Result<Option<u16>, DecodeError> {
        Fields::of("rule", value)?.optional_number("n")
    }

    #[test]
    fn numbers_may_be_texts() {
        assert_eq!(number(&json!({"n": 80})).unwrap(), Some(80));
        assert_eq!(number(&json!({"n": "80"})).unwrap(), Some(80));
        for absent in [json!({}), json!({"n": null}), json!({"n": ""})] {
            assert_eq!(number(&absent).unwrap(), None);
        }
        for bad in [
            json!({"n": "x"}),
            json!({"n": -1}),
            json!({"n": 65536}),
            json!({"n": 1.5}),
            json!({"n": true}),
            json!({"n": []}),
        ] {
            assert!(number(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_name_object_field_finding_and_expectation() {
        let value = json!({"id": "r1", "n": "eighty"});
        let error =
            Fields::of("load balancer rule", &value).unwrap().number::<u16>("n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "load balancer rule r1: `n` is `\"eighty\"`, expected a number in range"
        );
        let value = json!({});
        let error = Fields::of("network", &value).unwrap().text("name").unwrap_err();
        assert_eq!(error.to_string(), "network without id: `name` is absent, expected a text");
        assert!(Fields::of("network", &json!(7)).is_err());
    }

    #[test]
    fn port_ranges() {
        let ports = |value: Value| Fields::of("rule", &value).unwrap().ports().unwrap();
        assert_eq!(ports(json!({})), None);
        assert_eq!(ports(json!({"startport": 80})), Some((80, 80)));
        assert_eq!(ports(json!({"startport": "80", "endport": "90"})), Some((80, 90)));
        assert_eq!(ports(json!({"endport": 90})), Some((0, 90)));
    }

    #[test]
    fn tags_without_value_and_flags_as_texts() {
        let value = json!({"tags": [{"key": "a", "value": "1"}, {"key": "b"}], "f": "TRUE"});
        let fields = Fields::of("rule", &value).unwrap();
        let tags: Vec<_> = fields.tags().unwrap().into_iter().collect();
        assert_eq!(tags, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]);
        assert!(fields.flag("f").unwrap() && !fields.flag("g").unwrap());
    }

    #[test]
    fn what_is_of_another_type_does_not_read_as_absent() {
        let value = json!({"text": 7, "flag": "yes", "tags": [{"value": "1"}]});
        let fields = Fields::of("rule", &value).unwrap();
        assert!(fields.optional_text("text").is_err());
        assert!(fields.optional_flag("flag").is_err() && fields.flag("text").is_err());
        assert!(fields.tags().is_err());
    }

    #[test]
    fn cut_lists_keep_what_can_be_read() {
        assert_eq!(readable_cidrs("10.0.0.0/8,192.0.2.0/24,10.0.").len(), 2);
        assert!(readable_cidrs("").is_empty());
    }
}
