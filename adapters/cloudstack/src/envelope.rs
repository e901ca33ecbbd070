//! From a body to its one root object, or to what is wrong with it.
//!
//! The root key is read, never computed: it is odd for some commands, `errorresponse` for unknown
//! and forbidden ones, and the text `null` when the command itself was missing.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::secret::quotable;
use crate::wire::WireResponse;

/// How much of an answer that is not JSON an error shows.
const EXCERPT: usize = 120;
/// How much of the server's own error text is kept.
const ERROR_TEXT: usize = 500;

/// What the JSON parser says of more than 128 levels, with which it stops by itself.
const TOO_DEEP: &str = "recursion limit exceeded";

/// What the root object holds.
pub(crate) type Object = Map<String, Value>;

/// What is not an answer to what was asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum EnvelopeError {
    /// An error in CloudStack's own form.
    #[error("{}", .0.text)]
    Server(ServerError),
    /// Something else.
    #[error("HTTP status {status} with {found} where a JSON object was expected")]
    Unreadable {
        /// HTTP status.
        status: u16,
        /// What the body is.
        found: String,
    },
}

/// `errorcode` and `errortext` of an answer or of a failed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerError {
    /// `errorcode`.
    pub(crate) code: u16,
    /// `errortext`, fit to be shown.
    pub(crate) text: String,
    /// Whether the root key is `errorresponse`: the API or the right to use it is missing.
    pub(crate) no_such_api: bool,
}

/// Reads an answer in JSON.
pub(crate) fn read(response: &WireResponse) -> Result<Object, EnvelopeError> {
    let status = response.status;
    let body = response.body.trim_start_matches('\u{feff}').trim();
    let unreadable = |found: String| EnvelopeError::Unreadable { status, found };
    if body.is_empty() {
        return Err(unreadable("an empty body".to_owned()));
    }
    if body.starts_with('<') {
        let excerpt = quotable(body, EXCERPT);
        return Err(xml_error(body)
            .map_or_else(|| unreadable(format!("markup `{excerpt}`")), EnvelopeError::Server));
    }
    let value: Value = serde_json::from_str(body).map_err(|error| {
        let excerpt = quotable(body, EXCERPT);
        // The parser's text may quote the body; its position does not.
        let (line, column) = (error.line(), error.column());
        let what = if error.to_string().starts_with(TOO_DEEP) {
            "JSON nested more than 128 levels deep"
        } else if error.is_eof() {
            "broken JSON that ends early"
        } else {
            "broken JSON"
        };
        unreadable(format!("{what} (line {line}, column {column}) `{excerpt}`"))
    })?;
    let shape = || {
        let excerpt = quotable(body, EXCERPT);
        unreadable(format!("JSON of another shape `{excerpt}`"))
    };
    let Value::Object(root) = value else {
        return Err(shape());
    };
    let mut entries = root.into_iter();
    let (Some((key, Value::Object(inner))), None) = (entries.next(), entries.next()) else {
        return Err(shape());
    };
    let Some(code) = inner.get("errorcode") else {
        // A gateway's error may be JSON too: it says nothing of what CloudStack did.
        return if status < 400 { Ok(inner) } else { Err(shape()) };
    };
    let code = number(code).ok_or_else(shape)?;
    let text = inner.get("errortext").and_then(Value::as_str).unwrap_or_default();
    Err(EnvelopeError::Server(ServerError {
        code,
        text: error_text(text),
        no_such_api: key == "errorresponse",
    }))
}

/// `jobresult` of a failed job: `errorcode` and `errortext` without an envelope.
pub(crate) fn job_error(result: &Object, code: u16) -> ServerError {
    let text = result.get("errortext").and_then(Value::as_str).unwrap_or_default();
    ServerError {
        code: result.get("errorcode").and_then(number).unwrap_or(code),
        text: error_text(text),
        no_such_api: false,
    }
}

/// `cloud-stack-version` of the root element of an answer in XML. Seen by every role.
pub(crate) fn xml_version(body: &str) -> Option<&str> {
    let head = body.get(..body.len().min(2000)).unwrap_or(body);
    let (_, rest) = head.split_once("cloud-stack-version=\"")?;
    rest.split_once('"').map(|(version, _)| version)
}

/// An error in XML, as a server sends it that did not see `response=json`.
pub(crate) fn xml_error(body: &str) -> Option<ServerError> {
    let element = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
    };
    Some(ServerError {
        code: element("errorcode")?.trim().parse().ok()?,
        text: error_text(element("errortext").unwrap_or_default()),
        no_such_api: body.contains("<errorresponse"),
    })
}

/// A number that may be written as a text.
fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn error_text(text: &str) -> String {
    match text.trim() {
        "" => "no text".to_owned(),
        text => quotable(text, ERROR_TEXT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Result<Object, EnvelopeError> {
        read(&WireResponse { status, content_type: None, body: body.to_owned() })
    }

    fn server(status: u16, body: &str) -> ServerError {
        match answer(status, body) {
            Err(EnvelopeError::Server(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn any_single_root_key_will_do() {
        for root in [
            "listzonesresponse",
            "createLBStickinessPolicy",
            "deleteLBstickinessrruleresponse",
            "createnetworkaclresponse",
        ] {
            let body = format!("{{\"{root}\":{{\"jobid\":\"j\"}}}}");
            assert_eq!(answer(200, &body).unwrap()["jobid"], "j");
        }
        assert!(answer(200, "{\"listzonesresponse\":{}}").unwrap().is_empty());
    }

    #[test]
    fn errors_keep_code_text_and_kind_of_root() {
        let error = server(
            432,
            r#"{"errorresponse":{"uuidList":[],"errorcode":432,"cserrorcode":9999,"errortext":"The API [listHosts] does not exist or is not available for the account ccm-user."}}"#,
        );
        assert_eq!((error.code, error.no_such_api), (432, true));
        let error = server(
            401,
            r#"{"null":{"uuidList":[],"errorcode":401,"errortext":"unable to verify user credentials and/or request signature"}}"#,
        );
        assert_eq!((error.code, error.no_such_api), (401, false));
        assert!(error.text.contains("request signature"), "{}", error.text);
        let error = server(200, r#"{"x":{"errorcode":"530","errortext":""}}"#);
        assert_eq!((error.code, error.text.as_str()), (530, "no text"));
    }

    #[test]
    fn errors_in_xml_are_understood() {
        let error = server(
            432,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><errorresponse><errorcode>432</errorcode><cserrorcode>9999</cserrorcode><errortext>The API [x] does not exist</errortext></errorresponse>",
        );
        assert_eq!((error.code, error.no_such_api), (432, true));
    }

    #[test]
    fn everything_else_is_unreadable_and_says_what_it_is() {
        for (status, body, found) in [
            (200, "", "an empty body"),
            (200, "  \n", "an empty body"),
            (414, "<h1>Bad Message 414</h1><pre>reason: URI Too Long</pre>", "markup"),
            (200, "<?xml version=\"1.0\"?><listzonesresponse/>", "markup"),
            (200, "{\"listzonesresponse\":{\"count\":1,", "broken JSON"),
            (200, "{\"a\":tru}", "broken JSON (line 1, column 9)"),
            (200, "{\"a\":", "broken JSON that ends early (line 1, column 5)"),
            (200, &"[".repeat(200), "more than 128 levels deep (line 1, column 128)"),
            (200, "[]", "another shape"),
            (200, "null", "another shape"),
            (200, "{}", "another shape"),
            (200, "{\"a\":{},\"b\":{}}", "another shape"),
            (200, "{\"a\":null}", "another shape"),
            (200, "{\"a\":{\"errorcode\":true}}", "another shape"),
            (431, "{\"a\":{\"errorcode\":99999}}", "another shape"),
            (502, "Bad Gateway", "broken JSON"),
            (502, "{\"error\":{\"message\":\"no upstream\"}}", "another shape"),
        ] {
            let error = answer(status, body).unwrap_err();
            assert!(error.to_string().contains(found), "{body:?}: {error}");
            assert!(error.to_string().contains(&status.to_string()), "{error}");
        }
    }

    #[test]
    fn the_version_stands_on_the_root_element() {
        let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><listnetworksresponse cloud-stack-version=\"4.23.0.0-SNAPSHOT\"><count>1</count>";
        assert_eq!(xml_version(body), Some("4.23.0.0-SNAPSHOT"));
        assert_eq!(xml_version("<errorresponse><errorcode>401</errorcode>"), None);
        assert_eq!(xml_version(&"é".repeat(1500)), None);
    }
}
