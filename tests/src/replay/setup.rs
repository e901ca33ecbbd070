//! `setup.jsonl`: what the exchanges do not show. One entry a line, each about one file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// One line of the file. Which fields are there tells what it is about.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Setup {
    /// The recording, without its ending.
    pub(super) file: String,
    /// It happened before this line.
    pub(super) before_line: Option<usize>,
    /// What was done out of band.
    pub(super) action: Option<String>,
    /// How.
    #[serde(default)]
    pub(super) args: Value,
    /// An object that requests use and no earlier line describes.
    pub(super) object: Option<Value>,
    /// It is about the request of this line.
    pub(super) line: Option<usize>,
    /// It is about the requests from the first to the last of these lines.
    pub(super) lines: Option<(usize, usize)>,
    /// How the request was signed.
    pub(super) signature: Option<Signature>,
    /// Parameters that the recording leaves out.
    #[serde(default)]
    pub(super) extra_params: BTreeMap<String, String>,
    /// The parameter `response`; absent in the entry and null in it are the same: it was left out.
    pub(super) response: Option<String>,
    /// What `expires` was, in detail.
    pub(super) expires: Option<Expires>,
    /// How to rebuild parameters that the recording shows cut.
    #[serde(default)]
    pub(super) params_full: BTreeMap<String, Full>,
    /// The requests of `lines` were sent at the same time.
    #[serde(default)]
    pub(super) parallel: bool,
    /// A remark.
    #[serde(rename = "note")]
    _note: Option<String>,
}

/// How a request was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Signature {
    /// With the caller's key.
    Good,
    /// With another key.
    Wrong,
    /// The parameter was there and empty.
    Empty,
    /// Neither key nor signature.
    None,
}

/// A time, relative to the request.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Expires {
    /// Seconds after the request.
    pub(super) offset_s: i64,
    /// How it was written, such as `YYYY-MM-DDThh:mm:ss+0000`.
    pub(super) form: String,
}

/// A long parameter.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Full {
    /// The same text many times.
    Repeat {
        /// The text.
        repeat: String,
        /// How often.
        times: usize,
    },
    /// CIDRs of /24 networks: 10.A.B.0/24 for i = 0, 1, 2 …, A = i div 250, B = i mod 250.
    Cidrs {
        /// What stands between them.
        join: String,
        /// How many.
        entries: usize,
    },
}

impl Setup {
    /// Whether it is about the request of a line.
    pub(super) fn concerns(&self, line: usize) -> bool {
        self.line == Some(line) || self.lines.is_some_and(|(from, to)| (from..=to).contains(&line))
    }

    /// Whether it says how a request was sent.
    pub(super) fn is_form(&self) -> bool {
        self.signature.is_some()
    }
}

impl Full {
    /// The text that was sent.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Repeat { repeat, times } => repeat.repeat(*times),
            Self::Cidrs { join, entries } => {
                let cidr = |i: usize| format!("10.{}.{}.0/24", i / 250, i % 250);
                (0..*entries).map(cidr).collect::<Vec<_>>().join(join)
            }
        }
    }
}
