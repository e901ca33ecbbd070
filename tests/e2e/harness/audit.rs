//! What the API server was asked, and by whom, as its audit log says.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// Every request is logged, watches when they begin, all others when they end; those about Services
/// and Nodes with what was sent.
pub(crate) const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    resources:
      - group: ""
        resources: [services, services/status, nodes, nodes/status]
  - level: Metadata
"#;

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    #[serde(rename = "auditID")]
    id: String,
    /// As RBAC has it: `get`, `patch`, `watch`.
    pub(crate) verb: String,
    user: User,
    /// What it is about; absent for a path like `/healthz`.
    #[serde(rename = "objectRef")]
    pub(crate) object: Option<Object>,
    #[serde(rename = "requestURI")]
    pub(crate) uri: String,
    response_status: Option<Status>,
    /// What was sent, if the log has it.
    #[serde(default, rename = "requestObject")]
    pub(crate) body: Value,
    /// When it was answered.
    #[serde(rename = "stageTimestamp")]
    pub(crate) answered: Timestamp,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    code: u16,
}

/// What a request is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Object {
    pub(crate) api_group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Request {
    /// Who sent it.
    pub(crate) fn user(&self) -> &str {
        &self.user.username
    }

    /// Status code of the answer; 0 if there was none.
    pub(crate) fn code(&self) -> u16 {
        self.response_status.as_ref().map_or(0, |status| status.code)
    }

    /// Whether it can change something.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// The resource with its subresource: `services/status`; the path if it is about none.
    pub(crate) fn resource(&self) -> String {
        match &self.object {
            None => self.uri.clone(),
            Some(object) if object.subresource.is_empty() => object.resource.clone(),
            Some(Object { resource, subresource, .. }) => format!("{resource}/{subresource}"),
        }
    }
}

/// Every request so far, each once.
pub(crate) fn read(log: &Path) -> Vec<Request> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut requests: Vec<Request> = Vec::new();
    // The last line may still be under way.
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let request: Request = serde_json::from_str(line).expect("an entry of the audit log");
        match requests.iter_mut().rfind(|known| known.id == request.id) {
            Some(known) => *known = request,
            None => requests.push(request),
        }
    }
    requests
}
