//! Accounts and projects: who calls, and for whom members of a project work.

use serde_json::{Value, json};

use crate::cloud::{Cloud, Extra, Owner};
use crate::commands::{Call, Entity, Kind, Param, may};
use crate::error::ApiError;
use crate::lists::{answer, equal, keyword_matches};
use crate::object::Object;
use crate::resources::tag::{ResourceType, inline_tags};
use crate::table::{Key, Row};
use crate::world::Role;

/// An account with its one user.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) role: Role,
    pub(crate) api_key: String,
    pub(crate) secret_key: String,
    /// A disabled account gets 401 for everything.
    pub(crate) enabled: bool,
    pub(crate) public_ip_limit: Option<usize>,
}

/// A project: an owner of objects that several accounts share.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) display_text: String,
    pub(crate) created: String,
    /// The accounts that work in it; the first is its owner.
    pub(crate) members: Vec<Key<Account>>,
    pub(crate) public_ip_limit: Option<usize>,
    pub(crate) extra: Extra,
}

impl Row for Account {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Row for Project {
    fn id(&self) -> &str {
        &self.id
    }
}

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::Project)),
    may("name", Kind::Text),
    may("displaytext", Kind::Text),
    may("state", Kind::Text),
];

/// listProjects: those the caller belongs to; a tag filter is accepted and ignored.
pub(crate) fn list_projects(cloud: &Cloud, call: &Call) -> Result<Value, ApiError> {
    let id = call.params.key::<Project>("id");
    let rows: Vec<_> = cloud
        .projects
        .iter()
        .filter(|(key, row)| {
            row.members.contains(&call.caller)
                && id.is_none_or(|id| id == *key)
                && call.params.agrees("name", |name| equal(&row.name, name))
                && call.params.agrees("displaytext", |text| equal(&row.display_text, text))
                && call.params.agrees("state", |state| equal("Active", state))
                && keyword_matches(call, &[&row.name, &row.display_text])
        })
        .collect();
    answer(cloud, call, "project", rows, |(_, row)| project_json(cloud, row))
}

fn project_json(cloud: &Cloud, row: &Project) -> Value {
    let owner = row.members.first().and_then(|owner| cloud.accounts.get(*owner));
    let owners: Vec<Value> = owner.iter().map(|account| json!({"account": account.name})).collect();
    Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .with("displaytext", row.display_text.as_str())
        .with("domainid", cloud.domain.id.as_str())
        .with("domain", cloud.domain.name.as_str())
        .with("owner", owners)
        .with("projectaccountname", project_account(cloud, row))
        .with("state", "Active")
        .with("tags", inline_tags(cloud, ResourceType::Project, &row.id))
        .with("created", row.created.as_str())
        .merge_extra(&row.extra)
        .into()
}

/// The account that CloudStack makes for a project, seen in limit errors.
fn project_account(cloud: &Cloud, row: &Project) -> String {
    format!("PrjAcct-{}-{}", row.name, cloud.domain.number())
}

/// The name of an owner's account and how many public IP addresses it may hold.
pub(crate) fn public_ip_limit(cloud: &Cloud, owner: Owner) -> Option<(String, usize)> {
    match owner {
        Owner::Account(key) => {
            let row = cloud.accounts.get(key)?;
            Some((row.name.clone(), row.public_ip_limit?))
        }
        Owner::Project(key) => {
            let row = cloud.projects.get(key)?;
            Some((project_account(cloud, row), row.public_ip_limit?))
        }
    }
}

/// How authorization errors show the caller's account.
pub(crate) fn account_text(cloud: &Cloud, key: Key<Account>) -> String {
    let (name, id) =
        cloud.accounts.get(key).map_or(("", ""), |row| (row.name.as_str(), row.id.as_str()));
    format!(r#"Account [{{"accountName":"{name}","id":{},"uuid":"{id}"}}]"#, key.number())
}
