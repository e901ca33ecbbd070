//! What `check-permissions` found out, and what it says of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use super::cloudstack::COMMANDS;
use super::kubernetes::Grant;
use super::{Need, Task};
use crate::render::human::counted;

/// The format of the JSON form.
const FORMAT_VERSION: &str = "1.0";

/// Whether something may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It was tried, or the other side says so.
    Allowed,
    /// It was refused, or the other side says so.
    Missing,
    /// Only its use would tell.
    Unknown,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// What `cloudstack-ccm check-permissions --output json` prints. Readers ignore fields that they don't
/// know: a new field raises the minor number of `formatVersion`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(title = "Permissions, as cloudstack-ccm found them"))]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `Permissions`.
    kind: &'static str,
    /// Of this form: `1.` and a number.
    format_version: &'static str,
    /// What the permissions are for.
    task: &'static str,
    /// Whether nothing that is needed is missing.
    complete: bool,
    /// Absent if it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    cloudstack: Option<Side>,
    /// Absent if it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes: Option<Side>,
}

/// CloudStack, or a cluster.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// Whom was asked.
    url: String,
    /// The release, where it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Those that the task uses.
    permissions: Vec<Permission>,
}

/// A command, or a verb on a resource.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Permission {
    /// A command, or verb and resource.
    name: String,
    /// What is known of it.
    state: State,
    /// Whether anything at all works without it.
    needed: bool,
    /// What it is used for.
    purpose: &'static str,
    /// What is lost without it.
    without: &'static str,
}

impl Side {
    /// CloudStack at `url`, of which release if it tells: what `task` uses of `states`, which are
    /// unknown of commands that are not in it. Whether there are VPC tiers (`None`: nobody knows)
    /// decides whether what serves only them is needed.
    pub fn cloudstack(
        url: String,
        version: Option<String>,
        task: Task,
        states: &BTreeMap<&str, State>,
        vpc_tiers: Option<bool>,
    ) -> Self {
        let used = COMMANDS.iter().filter_map(|used| Some((used, used.need_for(task)?)));
        let permissions = used.map(|(used, need)| Permission {
            name: used.command.to_owned(),
            state: states.get(used.command).copied().unwrap_or(State::Unknown),
            needed: match need {
                Need::Always => true,
                Need::InVpc => vpc_tiers != Some(false),
                Need::Optional => false,
            },
            purpose: used.purpose,
            without: used.without,
        });
        Self { url, version, permissions: permissions.collect() }
    }

    /// The API server at `url`, and whether it allows each grant.
    pub fn kubernetes<'g>(
        url: String,
        answers: impl IntoIterator<Item = (&'g Grant, bool)>,
    ) -> Self {
        let permissions = answers.into_iter().map(|(grant, allowed)| Permission {
            name: grant.to_string(),
            state: if allowed { State::Allowed } else { State::Missing },
            needed: grant.need != Need::Optional,
            purpose: grant.purpose,
            without: grant.without,
        });
        Self { url, version: None, permissions: permissions.collect() }
    }
}

impl Report {
    /// Of the sides that were asked. What is unknown does not count as missing.
    pub fn new(task: Task, cloudstack: Option<Side>, kubernetes: Option<Side>) -> Self {
        let mut report = Self {
            kind: "Permissions",
            format_version: FORMAT_VERSION,
            task: task.name(),
            complete: true,
            cloudstack,
            kubernetes,
        };
        report.complete = report.count(State::Missing, true) == 0;
        report
    }

    /// Whether nothing that is needed is missing.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The form for people.
    pub fn human(&self) -> String {
        // Writing to a String can't fail.
        let mut text = format!("permissions for {}\n", self.task);
        for (name, side) in [("CloudStack", &self.cloudstack), ("Kubernetes", &self.kubernetes)] {
            let Some(Side { url, version, permissions }) = side else { continue };
            let version = version.as_ref().map_or(String::new(), |text| format!(" {text}"));
            let _ = writeln!(text, "\n{name}{version}   {url}");
            for found in permissions {
                let _ = writeln!(text, "{}", found.line().trim_end());
            }
        }
        let _ = writeln!(text, "\n{}", self.summary());
        text
    }

    fn count(&self, state: State, needed: bool) -> usize {
        let sides = self.cloudstack.iter().chain(&self.kubernetes);
        let all = sides.flat_map(|side| &side.permissions);
        all.filter(|found| found.state == state && found.needed == needed).count()
    }

    fn summary(&self) -> String {
        let mut parts = vec![match self.count(State::Missing, true) {
            0 if self.count(State::Unknown, true) > 0 => {
                "nothing that is needed is known to be missing".to_owned()
            }
            0 => "all that is needed is there".to_owned(),
            1 => "1 that is needed is missing".to_owned(),
            more => format!("{more} that are needed are missing"),
        }];
        let optional = self.count(State::Missing, false);
        if optional > 0 {
            parts.push(format!("{optional} optional missing"));
        }
        let unknown = self.count(State::Unknown, true) + self.count(State::Unknown, false);
        if unknown > 0 {
            parts.push(format!("{} unknown until used", counted(unknown, "command")));
        }
        format!("Permissions: {}.", parts.join(", "))
    }
}

impl Permission {
    fn line(&self) -> String {
        let Self { name, state, needed, purpose: _, without } = self;
        let need = if *needed { "needed" } else { "optional" };
        let why = match state {
            State::Allowed => String::new(),
            State::Missing => format!("{need}; without it: {without}"),
            State::Unknown => format!("{need}; only its use would tell"),
        };
        format!("  {:<8} {name:<44} {why}", state.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::kubernetes;

    /// All is allowed but for what is named.
    fn cloudstack(task: Task, but: &[(&'static str, State)], vpc_tiers: Option<bool>) -> Report {
        let mut states: BTreeMap<&str, State> =
            COMMANDS.iter().map(|used| (used.command, State::Allowed)).collect();
        states.extend(but.iter().copied());
        let url = "https://cloud.example.com/client/api".to_owned();
        Report::new(task, Some(Side::cloudstack(url, None, task, &states, vpc_tiers)), None)
    }

    #[test]
    fn what_only_tiers_need_is_needed_unless_there_are_none() {
        let denied = [("createNetworkACL", State::Missing)];
        for (vpc_tiers, complete) in [(Some(true), false), (None, false), (Some(false), true)] {
            let report = cloudstack(Task::Controller, &denied, vpc_tiers);
            assert_eq!(report.is_complete(), complete, "{vpc_tiers:?}");
        }
    }

    #[test]
    fn what_a_task_does_not_use_is_not_asked_for() {
        let denied = [("createLoadBalancerRule", State::Missing)];
        assert!(!cloudstack(Task::Apply, &denied, None).is_complete());
        let report = cloudstack(Task::DryRun, &denied, None);
        assert!(report.is_complete() && !report.human().contains("createLoadBalancerRule"));
    }

    #[test]
    fn what_is_missing_optional_or_unknown_is_counted_apart() {
        let found = [
            ("listNetworks", State::Missing),
            ("listVPCs", State::Missing),
            ("createTags", State::Unknown),
        ];
        let text = cloudstack(Task::Controller, &found, None).human();
        let line = "\nPermissions: 1 that is needed is missing, 1 optional missing, \
                    1 command unknown until used.\n";
        assert!(text.ends_with(line), "{text}");
        assert!(text.contains("needed; without it: nothing is planned\n"), "{text}");
        assert!(text.contains("createTags"), "{text}");
        let unknown = [("associateIpAddress", State::Unknown)];
        let report = cloudstack(Task::Controller, &unknown, None);
        assert!(report.is_complete(), "what nobody knows is not missing");
        assert!(report.human().contains("nothing that is needed is known to be missing"));
    }

    #[test]
    fn a_command_that_nobody_told_of_is_unknown() {
        let side = Side::cloudstack(String::new(), None, Task::Plan, &BTreeMap::new(), None);
        assert!(side.permissions.iter().all(|found| found.state == State::Unknown));
    }

    #[test]
    fn a_cluster_lacks_what_it_does_not_allow() {
        let without = |verb: &'static str| {
            let answers = kubernetes::of(Task::Controller).map(|grant| (grant, grant.verb != verb));
            Report::new(Task::Controller, None, Some(Side::kubernetes(String::new(), answers)))
        };
        assert!(!without("watch").is_complete());
        let optional = without("delete");
        assert!(optional.is_complete());
        assert!(optional.human().contains("1 optional missing"), "{}", optional.human());
    }

    const SCHEMA: &str = "../deploy/permissions.schema.json";

    #[test]
    fn the_schema_is_that_of_the_types() {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<Report>();
        let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(SCHEMA, &schema).unwrap();
        }
        let stored = std::fs::read_to_string(SCHEMA).unwrap_or_default();
        assert!(stored == schema, "run this test with UPDATE_SCHEMA=1 and commit {SCHEMA}");
    }
}
