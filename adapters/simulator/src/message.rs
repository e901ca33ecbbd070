//! What goes in and out of the simulator: a decoded request and a response, without any HTTP
//! library.

use crate::answer::Answer;
use crate::error::{ApiError, ErrorRoot};
use crate::versions::{Feature, Version};
use crate::xml;

/// HTTP method of a request. CloudStack answers no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Also used for HEAD.
    Get,
    /// With a form as body.
    Post,
}

/// A request whose parameters were percent-decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method it came with.
    pub method: Method,
    /// Name and value in the order received, names in their original letter case. Of a repeated
    /// name the last counts.
    pub params: Vec<(String, String)>,
}

/// What CloudStack answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status; for an error equal to its `errorcode`.
    pub status: u16,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// JSON or XML.
    pub body: String,
}

/// Why nothing comes back on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nobody listens: the management server is down.
    Refused,
    /// The connection ends before the first byte of an answer.
    Closed,
    /// The connection stays open, and nothing comes.
    Silence,
}

/// Which of the two formats an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Xml,
}

impl Request {
    /// The value of a parameter whose name is compared in any letter case.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params
            .iter()
            .rev()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that CloudStack knows in lower case only: `command` and `response`.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        self.params.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// JSON only if asked for, in any letter case.
    pub(crate) fn format(&self) -> Format {
        match self.exact("response") {
            Some(asked) if asked.eq_ignore_ascii_case("json") => Format::Json,
            _ => Format::Xml,
        }
    }
}

impl Response {
    /// The answer to a command that succeeded or was accepted.
    pub(crate) fn success(root: &str, answer: Answer, format: Format, version: &Version) -> Self {
        Self {
            status: 200,
            headers: headers(format),
            body: text(root, answer, format, Some(version)),
        }
    }

    /// The answer to a command that failed at once. `root` is the command's root key.
    pub(crate) fn failure(error: &ApiError, root: &str, format: Format, version: &Version) -> Self {
        let root = match error.root {
            ErrorRoot::Command => root,
            ErrorRoot::Error => "errorresponse",
            ErrorRoot::Null => "null",
        };
        let shown = (!version.has(Feature::XmlErrorsWithoutVersion)).then_some(version);
        let mut headers = headers(format);
        headers.push(("X-Description".to_owned(), error.text.clone()));
        Self { status: error.code, headers, body: text(root, error.body(), format, shown) }
    }

    /// The value of a header, its name in any letter case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

fn headers(format: Format) -> Vec<(String, String)> {
    let kind = match format {
        Format::Json => "application/json;charset=utf-8",
        Format::Xml => "text/xml;charset=utf-8",
    };
    [
        ("Content-Type", kind),
        ("X-Content-Type-Options", "nosniff"),
        ("X-XSS-Protection", "1;mode=block"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn text(root: &str, answer: Answer, format: Format, version: Option<&Version>) -> String {
    match format {
        Format::Json => answer.under(root),
        Format::Xml => xml::document(root, &answer.tree(), version),
    }
}
