//! Plans as one structure: what is printed, and what `--output json` gives.
//!
//! Readers ignore fields that they don't know; a new field raises the minor format number; codes
//! are never re-used. No secret is in it at all.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::policy::Mode;
use crate::plan::action::{Action, Kind};
use crate::plan::planner::Planner;
use crate::plan::reason::{Disruption, Reason};
use crate::plan::report::{Note, Severity};
use crate::plan::{Plan, Planned, Step};
use crate::render::arguments::arguments;

/// The format of this structure.
pub const FORMAT_VERSION: &str = "1.0";

/// Plans of one or more Services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// `Plan`.
    pub kind: String,
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// The program.
    pub tool: Tool,
    /// When CloudStack was read.
    pub observed_at: Timestamp,
    /// What was looked at.
    pub scope: Scope,
    /// The server, as far as it tells.
    pub server: Server,
    /// Whether anything can be done now.
    pub applyable: bool,
    /// Whether nothing wanted is left out.
    pub complete: bool,
    /// The Services that were planned.
    pub services: Vec<ServiceView>,
    /// What changes, by object.
    pub changes: Vec<Change>,
    /// The steps, in an order in which they may run one after the other.
    pub steps: Vec<StepView>,
    /// What is not done, and why.
    pub notes: Vec<NoteView>,
    /// The counts.
    pub summary: Summary,
}

/// The program that made the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its version.
    pub version: String,
}

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// See [`crate::model::policy::Policy::cluster_id`].
    pub cluster_id: String,
    /// The project, if one is set.
    pub project: Option<String>,
    /// `cluster` or `manifests`.
    pub mode: Mode,
    /// Services that were planned.
    pub services: usize,
    /// What CloudStack showed.
    pub seen: Seen,
}

/// How much CloudStack showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// Load balancer rules.
    pub rules: usize,
    /// Public IP addresses.
    pub addresses: usize,
    /// Virtual machines.
    pub virtual_machines: usize,
}

/// The server, as far as it tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Its version.
    pub version: Option<String>,
    /// Commands that the role may not call.
    pub unavailable: Vec<String>,
}

/// A Service that was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceView {
    /// Its namespace and name.
    pub service: String,
    /// The name of the network that it is, or will be, served in.
    pub network: Option<String>,
    /// The address that it has now.
    pub address: Option<String>,
}

/// What becomes of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed in place.
    Update,
    /// The old one goes first.
    ReplaceDeleteFirst,
    /// The new one comes first.
    ReplaceCreateFirst,
    /// It goes.
    Delete,
    /// It is taken over.
    Adopt,
    /// The Service is written to.
    Write,
}

/// One object that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The Service.
    pub service: String,
    /// For example `rule tcp-443`.
    pub object: String,
    /// What becomes of it.
    pub operation: Operation,
    /// What it is afterwards, and what differs.
    pub details: Vec<Detail>,
    /// The worst of its steps.
    pub disruption: Disruption,
    /// Why, without repetition.
    pub reasons: Vec<Why>,
}

/// One thing about an object that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// What the text is about, for example `members`; empty for the object as a whole.
    pub what: String,
    /// What becomes of it.
    pub text: String,
}

/// A reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// Its code.
    pub code: String,
    /// Its sentence.
    pub text: String,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepView {
    /// Its name within the Service's plan.
    pub id: String,
    /// The Service.
    pub service: String,
    /// `change`, `read` or `write`.
    pub kind: String,
    /// The call.
    pub call: CallView,
    /// Names of the steps that it waits for.
    pub after: Vec<String>,
    /// What it costs the Service's users.
    pub disruption: Disruption,
    /// Why.
    pub reason: Why,
}

/// A call as it would be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallView {
    /// The API command, or the Kubernetes write.
    pub name: String,
    /// Its arguments.
    pub args: BTreeMap<String, String>,
}

/// Something that is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteView {
    /// The Service.
    pub service: String,
    /// How much it matters.
    pub severity: Severity,
    /// Its code.
    pub code: String,
    /// Its sentence.
    pub text: String,
}

/// The counts of a plan. Calls and reloads are upper bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Objects to make.
    pub create: usize,
    /// Objects to change in place.
    pub update: usize,
    /// Objects to replace.
    pub replace: usize,
    /// Objects to delete.
    pub delete: usize,
    /// Services to take over.
    pub adopt: usize,
    /// Refusals.
    pub blocked: usize,
    /// Things waited for.
    pub waiting: usize,
    /// CloudStack calls that change something.
    pub changing_calls: usize,
    /// Status polls, roughly.
    pub polls_estimate: usize,
    /// Router reloads.
    pub router_reloads: usize,
    /// Ports whose connections are cut.
    pub cuts: usize,
    /// Services whose address changes.
    pub address_changes: usize,
    /// Writes to Kubernetes.
    pub kubernetes_writes: usize,
}

/// Polls that a job costs on average.
const POLLS_PER_JOB: usize = 2;

impl Document {
    /// Puts plans that were made by one planner together.
    pub fn new(planner: &Planner<'_>, plans: &[Planned], tool_version: &str) -> Self {
        let observed = planner.observed;
        let capabilities = &observed.capabilities;
        let changes: Vec<Change> =
            plans.iter().flat_map(|planned| changes(planner, planned)).collect();
        let steps: Vec<StepView> = plans.iter().flat_map(step_views).collect();
        let notes: Vec<NoteView> = plans.iter().flat_map(note_views).collect();
        let summary = Summary::new(plans, &changes, &notes);
        Self {
            kind: "Plan".to_owned(),
            format_version: FORMAT_VERSION.to_owned(),
            tool: Tool { version: tool_version.to_owned() },
            observed_at: observed.at,
            scope: Scope {
                cluster_id: planner.policy.cluster_id.to_string(),
                project: planner.policy.project.as_ref().map(ToString::to_string),
                mode: planner.policy.mode,
                services: plans.len(),
                seen: Seen {
                    rules: observed.rules.len(),
                    addresses: observed.addresses.len(),
                    virtual_machines: observed.virtual_machines.len(),
                },
            },
            server: Server {
                version: capabilities.version.map(|version| version.to_string()),
                unavailable: capabilities.denied.iter().cloned().collect(),
            },
            applyable: !steps.is_empty(),
            complete: summary.blocked == 0 && summary.waiting == 0,
            services: plans.iter().map(|planned| service_view(planner, &planned.plan)).collect(),
            changes,
            steps,
            notes,
            summary,
        }
    }

    /// Whether anything would change. In manifest mode only CloudStack counts: nothing keeps the
    /// writes to Kubernetes.
    pub fn has_changes(&self) -> bool {
        match self.scope.mode {
            Mode::Cluster => !self.steps.is_empty(),
            Mode::Manifests => self.summary.changing_calls > 0,
        }
    }
}

impl Summary {
    fn new(plans: &[Planned], changes: &[Change], notes: &[NoteView]) -> Self {
        let mut summary = Self::default();
        for change in changes {
            match change.operation {
                Operation::Create => summary.create += 1,
                Operation::Update => summary.update += 1,
                Operation::ReplaceDeleteFirst | Operation::ReplaceCreateFirst => {
                    summary.replace += 1;
                }
                Operation::Delete => summary.delete += 1,
                Operation::Adopt => summary.adopt += 1,
                Operation::Write => {}
            }
        }
        summary.cuts = cut_ports(changes);
        for note in notes {
            match note.severity {
                Severity::Blocked => summary.blocked += 1,
                Severity::Waiting => summary.waiting += 1,
                Severity::Warning | Severity::LeftAlone => {}
            }
        }
        for planned in plans {
            let moves =
                planned.plan.steps.iter().any(|step| step.reason == Reason::AddressReplaced);
            summary.address_changes += usize::from(moves);
            for step in &planned.plan.steps {
                summary.count_step(step);
            }
        }
        summary.polls_estimate = summary.changing_calls * POLLS_PER_JOB;
        summary
    }

    fn count_step(&mut self, step: &Step) {
        match step.action.kind() {
            Kind::Change => self.changing_calls += 1,
            Kind::Write => self.kubernetes_writes += 1,
            Kind::Read => {}
        }
        self.router_reloads += usize::from(reloads(&step.action));
    }
}

/// How many ports are cut: a port's rule and its opening count as one.
fn cut_ports(changes: &[Change]) -> usize {
    let cut = changes.iter().filter(|change| change.disruption == Disruption::Cut);
    let ports = cut.filter_map(|change| Some((&change.service, change.object.split_once(' ')?.1)));
    ports.collect::<BTreeSet<_>>().len()
}

/// Whether the router's balancer is reloaded: what touches a rule with members.
fn reloads(action: &Action) -> bool {
    matches!(
        action,
        Action::UpdateLoadBalancerRule(_)
            | Action::DeleteLoadBalancerRule(_)
            | Action::AssignToLoadBalancerRule(_)
            | Action::RemoveFromLoadBalancerRule(_)
    )
}

fn service_view(inputs: &Planner<'_>, plan: &Plan) -> ServiceView {
    let service = &plan.service;
    let observed = inputs.observed;
    let standing = inputs.standing(service);
    let address = standing.and_then(|standing| standing.addresses.first());
    let address = address.and_then(|holding| observed.addresses.get(&holding.id));
    let new = plan.steps.iter().find_map(|step| {
        let Action::CreateLoadBalancerRule(call) = &step.action else { return None };
        Some(&call.network)
    });
    let old = standing.and_then(|standing| standing.rules.first()).map(|(rule, _)| &rule.network);
    let network = new.or(old).and_then(|id| observed.networks.get(id));
    ServiceView {
        service: service.to_string(),
        network: network.map(|network| network.name.clone()),
        address: address.map(|found| found.address.to_string()),
    }
}

fn step_views(planned: &Planned) -> Vec<StepView> {
    let service = planned.plan.service.to_string();
    let view = |step: &Step| StepView {
        id: step.id.to_string(),
        service: service.clone(),
        kind: match step.action.kind() {
            Kind::Change => "change",
            Kind::Read => "read",
            Kind::Write => "write",
        }
        .to_owned(),
        call: CallView {
            name: step.action.command().to_owned(),
            args: arguments(&step.action)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        },
        after: step.after.iter().map(ToString::to_string).collect(),
        disruption: step.disruption,
        reason: why(&step.reason),
    };
    planned.plan.steps.iter().map(view).collect()
}

fn why(reason: &Reason) -> Why {
    Why { code: reason.code().to_owned(), text: reason.to_string() }
}

fn note_views(planned: &Planned) -> Vec<NoteView> {
    let service = planned.plan.service.to_string();
    let view = |note: &Note| NoteView {
        service: service.clone(),
        severity: note.severity(),
        code: note.code().to_owned(),
        text: note.to_string(),
    };
    planned.report.notes.iter().map(view).collect()
}

/// Steps by the object that they work on, in the order of its first step.
fn changes(inputs: &Planner<'_>, planned: &Planned) -> Vec<Change> {
    let mut order: Vec<String> = Vec::new();
    let mut groups: BTreeMap<String, Vec<&Step>> = BTreeMap::new();
    for step in planned.plan.steps.iter().filter(|step| step.action.kind() != Kind::Read) {
        let object = object_of(step);
        if !groups.contains_key(&object) {
            order.push(object.clone());
        }
        groups.entry(object).or_default().push(step);
    }
    let view = |object: String| {
        let steps = groups.get(&object).map(Vec::as_slice).unwrap_or_default();
        Change {
            service: planned.plan.service.to_string(),
            operation: operation(steps),
            details: super::detail::details(inputs, steps),
            disruption: steps.iter().map(|s| s.disruption).max().unwrap_or(Disruption::None),
            reasons: reasons(steps),
            object,
        }
    };
    order.into_iter().map(view).collect()
}

/// Step names tell: `members/tcp-80/add` works on `rule tcp-80`.
fn object_of(step: &Step) -> String {
    let mut parts = step.id.as_str().split(['/', '#']);
    let kind = match parts.next() {
        Some("members") => "rule",
        Some(kind) => kind,
        None => "",
    };
    match (kind, parts.next()) {
        ("rule" | "firewall" | "acl", Some(port)) => format!("{kind} {port}"),
        (kind, _) => kind.to_owned(),
    }
}

fn operation(steps: &[&Step]) -> Operation {
    let is_create = |step: &&Step| {
        matches!(
            step.action,
            Action::AssociateIpAddress(_)
                | Action::CreateLoadBalancerRule(_)
                | Action::CreateFirewallRule(_)
                | Action::CreateNetworkAcl(_)
        )
    };
    let is_delete = |step: &&Step| {
        matches!(
            step.action,
            Action::DisassociateIpAddress(_)
                | Action::DeleteLoadBalancerRule(_)
                | Action::DeleteFirewallRule(_)
                | Action::DeleteNetworkAcl(_)
        )
    };
    let created = steps.iter().position(is_create);
    let deleted = steps.iter().position(is_delete);
    let adopted = steps.iter().any(|step| step.reason == Reason::Adopted);
    let written = steps.iter().all(|step| step.action.kind() == Kind::Write);
    match (created, deleted) {
        (Some(created), Some(deleted)) if created < deleted => Operation::ReplaceCreateFirst,
        (Some(_), Some(_)) => Operation::ReplaceDeleteFirst,
        (Some(_), None) => Operation::Create,
        (None, Some(_)) => Operation::Delete,
        (None, None) if adopted => Operation::Adopt,
        (None, None) if written => Operation::Write,
        (None, None) => Operation::Update,
    }
}

fn reasons(steps: &[&Step]) -> Vec<Why> {
    let mut seen = BTreeSet::new();
    let mut reasons: Vec<Why> = steps.iter().map(|step| why(&step.reason)).collect();
    reasons.retain(|why| seen.insert((why.code.clone(), why.text.clone())));
    reasons
}
