//! Verbs on resources of the Kubernetes API.

use std::fmt;

use super::{Need, Task};

/// A verb on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resource with its subresource, for example `services/status`.
    pub resource: &'static str,
    /// As RBAC has it.
    pub verb: &'static str,
    /// Where and on what.
    pub place: Place,
    /// Which tasks use it.
    pub tasks: &'static [Task],
    /// How much depends on it.
    pub need: Need,
    /// Where it comes from.
    pub source: Source,
    /// What it is used for.
    pub purpose: &'static str,
    /// What is lost without it.
    pub without: &'static str,
}

/// On which objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On all of them, in all namespaces.
    Everywhere,
    /// On one that belongs to no namespace.
    Named(&'static str),
    /// On all in `kube-system`.
    KubeSystem,
    /// On one in `kube-system`.
    InKubeSystem(&'static str),
}

impl Place {
    /// The namespace, if it is in one.
    pub const fn namespace(self) -> Option<&'static str> {
        match self {
            Self::Everywhere | Self::Named(_) => None,
            Self::KubeSystem | Self::InKubeSystem(_) => Some("kube-system"),
        }
    }

    /// The name, if it is one object.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Everywhere | Self::KubeSystem => None,
            Self::Named(name) | Self::InKubeSystem(name) => Some(name),
        }
    }
}

/// Verb, resource with its group, name and namespace, as far as there are any.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = self.place.name() {
            write!(f, " {name}")?;
        }
        match self.place.namespace() {
            Some(namespace) => write!(f, " -n {namespace}"),
            None => Ok(()),
        }
    }
}

/// Which rules grant it to the service accounts of `deploy/manifests`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Our own.
    Manifest,
    /// Those of a role that every cluster has, to which a manifest binds.
    BuiltIn(&'static str),
}

const DELEGATOR: Source = Source::BuiltIn("system:auth-delegator");
const READER: Source = Source::BuiltIn("extension-apiserver-authentication-reader");
const LEASE: &str = "cloud-controller-manager";
const DRY_RUN_LEASE: &str = "cloudstack-ccm-dry-run";

const ALL: &[Task] = &Task::ALL;
const LONG: &[Task] = &[Task::Controller, Task::DryRun];
const LEADING: &[Task] = &[Task::Controller, Task::Apply];
const CONTROLLER: &[Task] = &[Task::Controller];
const DRY_RUN: &[Task] = &[Task::DryRun];
const WITH_A_LEASE: &[Task] = &[Task::Controller, Task::DryRun, Task::Apply];

/// Of our own rules, in the core group, on all objects.
const fn core(
    verb: &'static str,
    resource: &'static str,
    tasks: &'static [Task],
    need: Need,
    purpose: &'static str,
    without: &'static str,
) -> Grant {
    let (group, place, source) = ("", Place::Everywhere, Source::Manifest);
    Grant { group, resource, verb, place, tasks, need, source, purpose, without }
}

impl Grant {
    const fn of_group(self, group: &'static str) -> Self {
        Self { group, ..self }
    }

    const fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    const fn granted_by(self, source: Source) -> Self {
        Self { source, ..self }
    }
}

/// On Leases in kube-system.
const fn lease(
    verb: &'static str,
    place: Place,
    tasks: &'static [Task],
    purpose: &'static str,
) -> Grant {
    core(verb, "leases", tasks, Need::Always, purpose, "it never leads, so does nothing")
        .of_group("coordination.k8s.io")
        .at(place)
}

/// To ask the API server about callers.
const fn review(group: &'static str, resource: &'static str, purpose: &'static str) -> Grant {
    let without = "/metrics, /plan and /configz answer nobody";
    core("create", resource, LONG, Need::Optional, purpose, without)
        .of_group(group)
        .granted_by(DELEGATOR)
}

/// Every grant that is ever used.
pub const GRANTS: &[Grant] = &[
    core("list", "services", ALL, Need::Always, "what is wanted", "nothing is planned"),
    core("watch", "services", LONG, Need::Always, "what is wanted now", "nothing is planned"),
    core(
        "patch",
        "services/status",
        LEADING,
        Need::Always,
        "address, finalizer and records of a Service",
        "nothing is recorded, so no load balancer is touched",
    ),
    core("list", "nodes", ALL, Need::Always, "who serves", "nothing is planned"),
    core("watch", "nodes", LONG, Need::Always, "who serves now", "nothing is planned"),
    core(
        "get",
        "nodes",
        CONTROLLER,
        Need::Always,
        "taints as they are, before they are changed",
        "new Nodes stay uninitialised",
    ),
    core(
        "patch",
        "nodes",
        CONTROLLER,
        Need::Always,
        "provider id, labels, taints",
        "new Nodes stay uninitialised",
    ),
    core(
        "patch",
        "nodes/status",
        CONTROLLER,
        Need::Always,
        "addresses of Nodes",
        "new Nodes stay uninitialised",
    ),
    core(
        "delete",
        "nodes",
        CONTROLLER,
        Need::Optional,
        "Nodes whose virtual machine is gone",
        "such Nodes stay, and an event says so",
    ),
    core("create", "events", LONG, Need::Optional, "telling what it does", "only the log tells"),
    core(
        "patch",
        "events",
        LONG,
        Need::Optional,
        "telling that something happened again",
        "events are not counted up",
    ),
    lease("create", Place::KubeSystem, WITH_A_LEASE, "leader election, the first time"),
    lease("get", Place::InKubeSystem(LEASE), LEADING, "leader election"),
    lease("update", Place::InKubeSystem(LEASE), LEADING, "leader election"),
    lease("get", Place::InKubeSystem(DRY_RUN_LEASE), DRY_RUN, "leader election of the dry run"),
    lease("update", Place::InKubeSystem(DRY_RUN_LEASE), DRY_RUN, "leader election of the dry run"),
    core(
        "get",
        "configmaps",
        ALL,
        Need::Optional,
        "its uid is the cluster id, where neither the cloud-config nor a Service has one",
        "the uid of Namespace kube-system stands in for it",
    )
    .at(Place::InKubeSystem("extension-apiserver-authentication"))
    .granted_by(READER),
    core(
        "get",
        "namespaces",
        ALL,
        Need::Optional,
        "its uid is the cluster id, where the ConfigMap can't be read",
        "one of both, or `cluster-id` in the cloud-config, has to be there",
    )
    .at(Place::Named("kube-system")),
    review("authentication.k8s.io", "tokenreviews", "whose a caller's token is"),
    review("authorization.k8s.io", "subjectaccessreviews", "what a caller may read"),
];

/// What a task uses.
pub fn of(task: Task) -> impl Iterator<Item = &'static Grant> {
    GRANTS.iter().filter(move |grant| grant.tasks.contains(&task))
}
