//! `check-permissions`: what the credentials of either side may do, and what is lost without the
//! rest. It changes nothing.

use std::env;
use std::fmt::Write as _;

use anyhow::{Result, bail};
use ccm_cloudstack::{Permissions, Standing, TokioRuntime};
use ccm_core::permission::cloudstack::COMMANDS;
use ccm_core::permission::kubernetes::{self, Grant};
use ccm_core::permission::{Need, Task};
use ccm_core::render::human::counted;
use ccm_kubernetes::live::connect::ApiServer;
use ccm_kubernetes::live::review::Reviewer;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use serde::Serialize;

use super::{Exit, cluster};
use crate::cli::{CheckPermissionsArgs, Form, KubeArgs};
use crate::config::Setting;
use crate::connect;
use crate::console::Console;

#[cfg(test)]
use schemars::JsonSchema;

/// The format of the JSON form.
const FORMAT_VERSION: &str = "1.0";

/// What `cloudstack-ccm check-permissions --output json` prints. Readers ignore fields that they don't
/// know: a new field raises the minor number of `formatVersion`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(title = "Permissions, as cloudstack-ccm found them"))]
#[serde(rename_all = "camelCase")]
struct Report {
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
struct Side {
    /// Whom was asked.
    url: String,
    /// The release, where it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Those that the task uses.
    permissions: Vec<Permission>,
}

/// One of them.
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

/// What is known of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
enum State {
    /// It is there.
    Allowed,
    /// It is not.
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

impl From<Standing> for State {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Allowed => Self::Allowed,
            Standing::Denied => Self::Missing,
            Standing::Unknown => Self::Unknown,
        }
    }
}

/// Finds out, and prints.
pub(super) async fn run(args: &CheckPermissionsArgs, console: Console) -> Result<Exit> {
    let CheckPermissionsArgs { connect, cluster, task, output } = args;
    let (asks_cloud, asks_cluster) = (names_cloudstack(args), names_cluster(cluster));
    if !asks_cloud && !asks_cluster {
        bail!(
            "nothing says whose permissions to check: give --cloud-config for CloudStack, \
             --kubeconfig for a cluster, or both"
        );
    }
    let cloudstack =
        if asks_cloud { Some(cloud_side(connect, *task, console).await?) } else { None };
    let kubernetes =
        if asks_cluster { Some(cluster_side(cluster, *task, console).await?) } else { None };
    let report = Report::new(*task, cloudstack, kubernetes);
    let text = match output {
        Form::Human => report.human(),
        Form::Json => serde_json::to_string_pretty(&report)? + "\n",
    };
    console.print(&text)?;
    Ok(if report.complete { Exit::Done } else { Exit::Missing })
}

fn names_cloudstack(args: &CheckPermissionsArgs) -> bool {
    args.connect.cloud_config.is_some() || is_set(Setting::ApiUrl.spec().env)
}

/// In a pod its own cluster is meant.
fn names_cluster(args: &KubeArgs) -> bool {
    let KubeArgs { kubeconfig, context } = args;
    kubeconfig.is_some()
        || context.is_some()
        || is_set("KUBECONFIG")
        || is_set("KUBERNETES_SERVICE_HOST")
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

async fn cloud_side(args: &crate::cli::ConnectArgs, task: Task, console: Console) -> Result<Side> {
    let config = connect::config(args)?;
    let url = config.api_url.as_str().to_owned();
    console.say(&format!("asking CloudStack at {url}"));
    let client = connect::client(&config, config.project.as_ref(), TokioRuntime)?;
    let Permissions { version, commands, vpc_tiers } = client.permissions().await?;
    let standings: std::collections::BTreeMap<&str, Standing> =
        commands.into_iter().map(|(command, standing)| (command.name(), standing)).collect();
    let permissions = COMMANDS.iter().filter_map(|used| {
        let needed = match used.need_for(task)? {
            Need::Always => true,
            Need::InVpc => vpc_tiers != Some(false),
            Need::Optional => false,
        };
        let standing = standings.get(used.command).copied().unwrap_or(Standing::Unknown);
        let (purpose, without) = (used.purpose, used.without);
        let name = used.command.to_owned();
        Some(Permission { name, state: standing.into(), needed, purpose, without })
    });
    let permissions = permissions.collect();
    Ok(Side { url, version: version.map(|version| version.to_string()), permissions })
}

async fn cluster_side(args: &KubeArgs, task: Task, console: Console) -> Result<Side> {
    let ApiServer { client, url } = cluster::connect(args).await?;
    console.say(&format!("asking the API server {url}"));
    let reviewer = Reviewer::new(client);
    let mut permissions = Vec::new();
    for grant in kubernetes::of(task) {
        let allowed = reviewer.may_i(attributes(grant)).await;
        let allowed = allowed.map_err(|error| cluster::explained(error, &url, task))?;
        permissions.push(Permission {
            name: grant.to_string(),
            state: if allowed { State::Allowed } else { State::Missing },
            needed: grant.need != Need::Optional,
            purpose: grant.purpose,
            without: grant.without,
        });
    }
    Ok(Side { url, version: None, permissions })
}

fn attributes(grant: &Grant) -> ResourceAttributes {
    let (resource, subresource) = match grant.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (grant.resource, None),
    };
    ResourceAttributes {
        group: Some(grant.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(grant.verb.to_owned()),
        namespace: grant.place.namespace().map(str::to_owned),
        name: grant.place.name().map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

impl Report {
    fn new(task: Task, cloudstack: Option<Side>, kubernetes: Option<Side>) -> Self {
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

    fn count(&self, state: State, needed: bool) -> usize {
        let sides = self.cloudstack.iter().chain(&self.kubernetes);
        let all = sides.flat_map(|side| &side.permissions);
        all.filter(|found| found.state == state && found.needed == needed).count()
    }

    fn human(&self) -> String {
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

    fn summary(&self) -> String {
        let needed = self.count(State::Missing, true);
        let mut parts = vec![match needed {
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

    const SCHEMA: &str = "../deploy/permissions.schema.json";

    #[test]
    fn the_schema_is_that_of_the_types() {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<Report>();
        let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(SCHEMA, &schema).unwrap();
        }
        let stored = std::fs::read_to_string(SCHEMA).unwrap_or_default();
        assert!(stored == schema, "run this test with UPDATE_SCHEMA=1 and commit {SCHEMA}");
    }
}
