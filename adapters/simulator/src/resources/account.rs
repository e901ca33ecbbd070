//! Accounts and projects: who calls, and for whom members of a project work.

use crate::answer::Answer;
use crate::cloud::{Cloud, Extra, Owner};
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work, success};
use crate::lists::{answer, equal, keyword_matches};
use crate::object::{Field, Object};
use crate::resources::domain::Domain;
use crate::resources::tag::{ResourceType, inline_tags};
use crate::resources::user::User;
use crate::table::{Key, Row};
use crate::world::{Role, State};

/// An account, whose users call.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) domain: Key<Domain>,
    pub(crate) role: Role,
    pub(crate) state: State,
    /// Whether keys are of use to its users; `None` is as the setting says.
    pub(crate) api_key_access: Option<bool>,
    pub(crate) public_ip_limit: Option<usize>,
}

/// A project: an owner of objects that several accounts share.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) display_text: String,
    pub(crate) domain: Key<Domain>,
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

impl Cloud {
    /// The user that an account has had from the beginning.
    pub(crate) fn first_user(&self, account: Key<Account>) -> Option<Key<User>> {
        self.users.iter().find(|(_, user)| user.account == account).map(|(key, _)| key)
    }

    /// The account of a name in a domain.
    ///
    /// # Errors
    /// 431 if there is none.
    pub(crate) fn account_in(&self, domain: Key<Domain>, name: &str) -> Result<Owner, ApiError> {
        self.accounts
            .iter()
            .find(|(_, row)| row.domain == domain && equal(&row.name, name))
            .map(|(key, _)| Owner::Account(key))
            .ok_or_else(|| {
                let id = self.domains.get(domain).map_or("", |domain| domain.id.as_str());
                ApiError::invalid(format!("could not find account {name} in domain {id}"))
            })
    }
}

pub(crate) const DISABLE_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::Account)),
    may("account", Kind::Text),
    may("domainid", Kind::Id(Entity::Domain)),
    must("lock", Kind::Flag),
];

/// disableAccount: locks or disables an account, by id or by name and domain.
pub(crate) fn start_disable(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let own = cloud.accounts.get(call.caller).map(|row| row.domain);
    let domain = call.params.key::<Domain>("domainid").or(own);
    let owner = match (call.params.key::<Account>("id"), call.params.filled("account"), domain) {
        (Some(key), _, _) => Owner::Account(key),
        (None, Some(name), Some(domain)) => cloud.account_in(domain, name)?,
        (None, _, _) => return Err(JobFailure::invalid("Unable to find account")),
    };
    let Owner::Account(key) = owner else {
        return Err(JobFailure::permission());
    };
    if !cloud.administers(call.caller, owner) {
        return Err(JobFailure::permission());
    }
    let lock = call.params.flag("lock") == Some(true);
    if let Some(row) = cloud.accounts.get_mut(key) {
        row.state = if lock { State::Locked } else { State::Disabled };
    }
    let shown = account_json(cloud, key);
    Ok(Work::Done(Object::new().with("account", shown).into()))
}

fn account_json(cloud: &Cloud, key: Key<Account>) -> Object<'_> {
    let row = cloud.accounts.get(key);
    let state = row.map(|row| match row.state {
        State::Enabled => "enabled",
        State::Disabled => "disabled",
        State::Locked => "locked",
    });
    cloud
        .owner_fields(Owner::Account(key))
        .without(&["account"])
        .maybe("id", row.map(|row| row.id.as_str()))
        .maybe("name", row.map(|row| row.name.as_str()))
        .maybe("state", state)
}

pub(crate) const ADD_TO_PROJECT_PARAMS: &[Param] =
    &[must("projectid", Kind::Id(Entity::Project)), may("account", Kind::Text)];

/// addAccountToProject: the account is one of the project's domain.
pub(crate) fn start_add_to_project(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let key = call.params.required::<Project>("projectid");
    let Some(project) = cloud.projects.get(key) else {
        return Err(JobFailure::invalid("Unable to find the project"));
    };
    if project.members.first() != Some(&call.caller)
        && !cloud.administers(call.caller, Owner::Project(key))
    {
        return Err(JobFailure::permission());
    }
    let name = call.params.text("account").unwrap_or_default();
    if let Owner::Account(account) = cloud.account_in(project.domain, name)?
        && let Some(project) = cloud.projects.get_mut(key)
        && !project.members.contains(&account)
    {
        project.members.push(account);
    }
    Ok(Work::Done(success()))
}

/// Jobs about projects name the kind only.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn accept_project(_: &mut Cloud, _: &Call) -> Result<Accepted, ApiError> {
    Ok(Accepted { instance: Some(Instance { kind: "Project", id: None }), ..Accepted::default() })
}

/// listProjects: those the caller belongs to, and with `listall` those an admin administers; a tag
/// filter is accepted and ignored.
pub(crate) fn list_projects(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let id = call.params.key::<Project>("id");
    let sees_all = id.is_some() || call.params.flag("listall") == Some(true);
    let rows: Vec<_> = cloud
        .projects
        .iter()
        .filter(|(key, row)| {
            (row.members.contains(&call.caller)
                || sees_all && cloud.may_use(call.caller, Owner::Project(*key)))
                && id.is_none_or(|id| id == *key)
                && call.params.agrees("name", |name| equal(&row.name, name))
                && call.params.agrees("displaytext", |text| equal(&row.display_text, text))
                && call.params.agrees("state", |state| equal("Active", state))
                && keyword_matches(call, &[&row.name, &row.display_text])
        })
        .collect();
    answer(cloud, call, "project", rows, |(_, row)| project_json(cloud, row))
}

fn project_json<'a>(cloud: &'a Cloud, row: &'a Project) -> Object<'a> {
    let owner = row.members.first().and_then(|owner| cloud.accounts.get(*owner));
    let domain = cloud.domains.get(row.domain);
    let owners: Field<'_> =
        owner.iter().map(|account| Object::new().with("account", account.name.as_str())).collect();
    Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .with("displaytext", row.display_text.as_str())
        .maybe("domainid", domain.map(|domain| domain.id.as_str()))
        .maybe("domain", domain.map(|domain| domain.name.as_str()))
        .with("owner", owners)
        .with("projectaccountname", project_account(row))
        .with("state", "Active")
        .with("tags", inline_tags(cloud, ResourceType::Project, &row.id))
        .with("created", row.created.as_str())
        .merge_extra(&row.extra)
}

/// The account that CloudStack makes for a project, with the number of its domain; seen in limit
/// errors.
fn project_account(row: &Project) -> String {
    format!("PrjAcct-{}-{}", row.name, row.domain.number())
}

/// The name of an owner's account.
pub(crate) fn owner_account(cloud: &Cloud, owner: Owner) -> String {
    match owner {
        Owner::Account(key) => cloud.accounts.get(key).map(|row| row.name.clone()),
        Owner::Project(key) => cloud.projects.get(key).map(project_account),
    }
    .unwrap_or_default()
}

/// How authorization errors show the caller's account.
pub(crate) fn account_text(cloud: &Cloud, key: Key<Account>) -> String {
    let (name, id) =
        cloud.accounts.get(key).map_or(("", ""), |row| (row.name.as_str(), row.id.as_str()));
    format!(r#"Account [{{"accountName":"{name}","id":{},"uuid":"{id}"}}]"#, key.number())
}
