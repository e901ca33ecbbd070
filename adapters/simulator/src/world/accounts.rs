//! Who there is in a world file: domains, accounts with their users and keys, projects.

use jiff::Timestamp;
use serde::Deserialize;

use super::Extra;

#[cfg(test)]
use schemars::JsonSchema;

/// A domain.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its path from the root, such as `ROOT/sales`; who administers a domain administers those
    /// below it.
    pub path: String,
    /// How much all accounts and projects in it and below it may hold together.
    #[serde(default)]
    pub limits: Limits,
    /// Its number in the database, which error texts show; by default after the largest.
    #[serde(default)]
    pub number: Option<u64>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

impl Default for Domain {
    fn default() -> Self {
        Self {
            name: "ROOT".to_owned(),
            path: "ROOT".to_owned(),
            limits: Limits::default(),
            number: None,
            id: None,
        }
    }
}

/// An account with its users: one of its own name, and further ones.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Account {
    /// Its name, also that of its first user.
    pub name: String,
    /// What its users may call.
    #[serde(default)]
    pub role: Role,
    /// Name of its domain; by default the world's first one.
    #[serde(default)]
    pub domain: Option<String>,
    /// API key of its first user.
    #[serde(default)]
    pub api_key: String,
    /// Secret key of its first user.
    #[serde(default)]
    pub secret_key: String,
    /// Further key pairs of its first user (from 4.23).
    #[serde(default)]
    pub key_pairs: Vec<KeyPair>,
    /// Further users.
    #[serde(default)]
    pub users: Vec<User>,
    /// Projects it works in; the first account that names a project owns it.
    #[serde(default)]
    pub projects: Vec<String>,
    /// How much it may hold.
    #[serde(default)]
    pub limits: Limits,
    /// Whether its users may log in.
    #[serde(default)]
    pub state: State,
    /// Whether its users may use API keys; absent: as the setting `api.key.access` says.
    #[serde(default)]
    pub api_key_access: Option<bool>,
    /// Its number in the database, which error texts show; by default after the largest.
    #[serde(default)]
    pub number: Option<u64>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Id of its first user.
    #[serde(default)]
    pub user: Option<String>,
}

/// A further user of an account.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its key pairs.
    #[serde(default)]
    pub key_pairs: Vec<KeyPair>,
    /// Whether it may log in.
    #[serde(default)]
    pub state: State,
    /// Whether it may use API keys; absent: as its account.
    #[serde(default)]
    pub api_key_access: Option<bool>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

/// A key pair of a user.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KeyPair {
    /// Its name; by default one with the user's number.
    #[serde(default)]
    pub name: Option<String>,
    /// Its API key.
    pub api_key: String,
    /// Its secret key.
    pub secret_key: String,
    /// What it may call, within what its account's role allows; the first that matches decides.
    /// Without rules it may call all of that.
    #[serde(default)]
    pub rules: Vec<KeyRule>,
    /// From when it holds.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub start: Option<Timestamp>,
    /// Until when it holds.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub end: Option<Timestamp>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

/// A rule of a key pair.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KeyRule {
    /// The name of a command; `*` stands for any letters.
    pub rule: String,
    /// What it does.
    pub permission: Permission,
}

/// What a rule of a key pair does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// The command may be called.
    Allow,
    /// The command may not be called.
    Deny,
}

/// Role of an account, by the names of CloudStack's default roles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub enum Role {
    /// The default role of users.
    #[default]
    User,
    /// Sees and changes everything in its domain and those below it.
    #[serde(rename = "Domain Admin")]
    DomainAdmin,
    /// Sees and changes everything.
    #[serde(rename = "Root Admin")]
    RootAdmin,
    /// The restricted role that CloudStack makes for Kubernetes clusters in projects.
    #[serde(rename = "Project Kubernetes Service Role")]
    ProjectKubernetesService,
}

impl Role {
    /// The name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::DomainAdmin => "Domain Admin",
            Self::RootAdmin => "Root Admin",
            Self::ProjectKubernetesService => "Project Kubernetes Service Role",
        }
    }
}

/// State of an account or a user. Only the enabled get an answer other than 401.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// May log in.
    #[default]
    Enabled,
    /// May not log in; its virtual machines were stopped.
    Disabled,
    /// May not log in; what it has goes on.
    Locked,
}

/// Resource limits of an account, project or domain; absent means none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Limits {
    /// Public IP addresses.
    pub public_ips: Option<usize>,
}

/// A project.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Project {
    /// Its name.
    pub name: String,
    /// Name of its domain; by default the world's first one.
    #[serde(default)]
    pub domain: Option<String>,
    /// How much it may hold.
    #[serde(default)]
    pub limits: Limits,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Further fields of its answers.
    #[serde(default)]
    pub extra: Extra,
}
