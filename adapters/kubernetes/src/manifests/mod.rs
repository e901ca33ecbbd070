//! Files and directories → Services and Nodes, so that a plan needs no cluster.
//!
//! - A file holds YAML documents or JSON values, each an object, a list of objects (`kind: List`,
//!   `ServiceList`, `NodeList`) or a bare array of them.
//! - A directory stands for its `*.yaml`, `*.yml` and `*.json` files, by name; what lies deeper is
//!   not read.
//! - Objects of another kind are skipped and counted. An object without a kind is what the caller
//!   assumes: items of typed lists have none.
//! - All mistakes are collected, each with file, document and cause.
//!
//! Documents are counted from 1; empty ones don't count.

mod error;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Node, Service};
use serde::Deserialize;
use serde_json::Value;

use ccm_core::ids::ServiceKey;
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::text;

use crate::convert;

pub use error::{ManifestError, ManifestErrors};

/// Largest file, in bytes.
pub const FILE_LIMIT: usize = 64 * 1024 * 1024;

/// How deep a document may be nested.
const DEPTH_LIMIT: usize = 64;

/// How many nodes one YAML document may have: a list of ten thousand Services has fewer.
const NODE_LIMIT: usize = 4_000_000;

/// How many nodes aliases may repeat in one YAML document.
const ALIAS_LIMIT: usize = 50_000;

/// What manifests hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests {
    /// The Services, in the order of files and documents.
    pub services: Vec<RawService>,
    /// The Nodes, in the same order.
    pub nodes: Vec<RawNode>,
    /// How many objects of other kinds were skipped, by kind (`Deployment.apps/v1`).
    pub skipped: BTreeMap<String, usize>,
}

/// What an object without a kind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assume {
    /// A Service.
    Service,
    /// A Node.
    Node,
}

/// A file or directory to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path.
    pub path: PathBuf,
    /// What an object without a kind is.
    pub assume: Assume,
}

/// Reads all sources.
///
/// # Errors
/// [`ManifestErrors`] with every mistake in every file.
pub fn read(sources: &[Source]) -> Result<Manifests, ManifestErrors> {
    let mut reader = Reader::default();
    for Source { path, assume } in sources {
        for file in reader.files(path) {
            if let Some(text) = reader.text(&file) {
                reader.file(&file, &text, *assume);
            }
        }
    }
    if reader.errors.is_empty() { Ok(reader.manifests) } else { Err(ManifestErrors(reader.errors)) }
}

/// Reads one text as if it were a file; `path` names it in errors, and its extension chooses
/// between JSON and YAML.
///
/// # Errors
/// As [`read`].
pub fn read_text(path: &Path, text: &str, assume: Assume) -> Result<Manifests, ManifestErrors> {
    let mut reader = Reader::default();
    reader.file(path, text, assume);
    if reader.errors.is_empty() { Ok(reader.manifests) } else { Err(ManifestErrors(reader.errors)) }
}

#[derive(Default)]
struct Reader {
    manifests: Manifests,
    seen: BTreeMap<String, PathBuf>,
    errors: Vec<ManifestError>,
}

/// Where an object stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path,
    document: usize,
}

impl Reader {
    /// The files that a path stands for.
    fn files(&mut self, path: &Path) -> Vec<PathBuf> {
        if !path.is_dir() {
            return vec![path.to_owned()];
        }
        let listed = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
        });
        match listed {
            Ok(mut files) => {
                files.retain(|file| is_manifest(file));
                files.sort();
                if files.is_empty() {
                    self.errors.push(ManifestError::EmptyDirectory { path: path.to_owned() });
                }
                files
            }
            Err(cause) => {
                self.errors.push(ManifestError::Unreadable { path: path.to_owned(), cause });
                Vec::new()
            }
        }
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let error = match text_of_file(path) {
            Ok(text) => return Some(text),
            Err(cause) => ManifestError::Unreadable { path: path.to_owned(), cause },
        };
        self.errors.push(error);
        None
    }

    fn file(&mut self, path: &Path, text: &str, assume: Assume) {
        for (index, parsed) in documents(path, text).into_iter().enumerate() {
            let document = index.saturating_add(1);
            match parsed {
                Ok(value) => self.value(value, Place { path, document }, assume, 0),
                Err(cause) => self.errors.push(ManifestError::Malformed {
                    path: path.to_owned(),
                    document,
                    cause,
                }),
            }
        }
    }

    /// An object, a list of objects, or an array of them.
    fn value(&mut self, value: Value, place: Place<'_>, assume: Assume, depth: usize) {
        if depth > 2 {
            return self.invalid(place, "list", "lists of lists of lists are not read");
        }
        let next = depth.saturating_add(1);
        let mut object = match value {
            Value::Array(items) => {
                for item in items {
                    self.value(item, place, assume, next);
                }
                return;
            }
            Value::Object(object) => object,
            Value::Null => return,
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                return self.invalid(place, &other.to_string(), "not a Kubernetes object");
            }
        };
        let version = text_of(object.get("apiVersion"));
        let kind = text_of(object.get("kind"));
        let core = matches!(version.as_deref(), None | Some("v1"));
        match (core, kind.as_deref(), assume) {
            (true, Some("List" | "ServiceList" | "NodeList"), _) => {
                let assume = match kind.as_deref() {
                    Some("ServiceList") => Assume::Service,
                    Some("NodeList") => Assume::Node,
                    Some(_) | None => assume,
                };
                let items = object.remove("items").unwrap_or_default();
                self.value(items, place, assume, next);
            }
            (true, Some("Service"), _) | (true, None, Assume::Service) => {
                self.service(Value::Object(object), place);
            }
            (true, Some("Node"), _) | (true, None, Assume::Node) => {
                self.node(Value::Object(object), place);
            }
            (true, Some(_), _) | (false, _, _) => {
                let kind = kind.unwrap_or_default();
                let name = match version.as_deref() {
                    None | Some("v1") => kind,
                    Some(version) => format!("{kind}.{version}"),
                };
                let count = self.manifests.skipped.entry(name).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    fn service(&mut self, value: Value, place: Place<'_>) {
        let Some(object) = self.typed::<Service>("Service", value, place) else {
            return;
        };
        let mut raw = convert::service(&object);
        if raw.namespace.is_empty() {
            "default".clone_into(&mut raw.namespace);
        }
        if raw.name.is_empty() {
            return self.invalid(place, "Service", "`metadata.name` is missing");
        }
        let key = ServiceKey::new(raw.namespace.as_str(), raw.name.as_str());
        if self.first_time(format!("Service {key}"), place) {
            self.manifests.services.push(raw);
        }
    }

    fn node(&mut self, value: Value, place: Place<'_>) {
        let Some(object) = self.typed::<Node>("Node", value, place) else {
            return;
        };
        let raw = convert::node(&object);
        if raw.name.is_empty() {
            return self.invalid(place, "Node", "`metadata.name` is missing");
        }
        if self.first_time(format!("Node {}", raw.name), place) {
            self.manifests.nodes.push(raw);
        }
    }

    fn typed<T: for<'de> Deserialize<'de>>(
        &mut self,
        kind: &str,
        mut value: Value,
        place: Place<'_>,
    ) -> Option<T> {
        let name = text_of(value.pointer("/metadata/name"));
        if let Value::Object(object) = &mut value {
            // The types of the API want both; items of typed lists have neither.
            object.insert("apiVersion".to_owned(), "v1".into());
            object.insert("kind".to_owned(), kind.into());
        }
        match serde_path_to_error::deserialize(value) {
            Ok(object) => Some(object),
            Err(error) => {
                let object = format!("{kind} {}", name.as_deref().unwrap_or("without a name"));
                self.invalid(place, &object, &error.to_string());
                None
            }
        }
    }

    fn first_time(&mut self, object: String, place: Place<'_>) -> bool {
        let second = place.path.to_owned();
        match self.seen.get(&object) {
            Some(first) => {
                self.errors.push(ManifestError::Duplicate { first: first.clone(), object, second });
                false
            }
            None => {
                self.seen.insert(object, second);
                true
            }
        }
    }

    fn invalid(&mut self, place: Place<'_>, object: &str, cause: &str) {
        let Place { path, document } = place;
        self.errors.push(ManifestError::Invalid {
            path: path.to_owned(),
            document,
            object: object.to_owned(),
            cause: cause.to_owned(),
        });
    }
}

fn text_of_file(path: &Path) -> io::Result<String> {
    let most = u64::try_from(FILE_LIMIT).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    let text = text::decode(bytes, FILE_LIMIT);
    text.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

fn text_of(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file()
}

/// The documents of a text. After one that can't be parsed, what follows is not read.
fn documents(path: &Path, text: &str) -> Vec<Result<Value, String>> {
    if path.extension().is_some_and(|extension| extension == "json") {
        // serde_json stops at 128 levels by itself.
        return serde_json::Deserializer::from_str(text)
            .into_iter::<Value>()
            .map(|value| value.map_err(|error| error.to_string()))
            .collect();
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_LIMIT,
            max_nodes: NODE_LIMIT,
            max_events: NODE_LIMIT.saturating_mul(2),
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIAS_LIMIT },
        with_snippet: false,
    };
    let mut bytes = text.as_bytes();
    let mut stopped = false;
    serde_saphyr::read_with_options::<_, Value>(&mut bytes, options)
        .map(|value| value.map_err(|error| error.to_string()))
        .take_while(|value| !std::mem::replace(&mut stopped, value.is_err()))
        .collect()
}

#[cfg(test)]
mod tests;
