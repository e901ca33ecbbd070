//! Users of accounts and their API key pairs (several per user, with rules and dates, from 4.23).

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner};
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work};
use crate::lists::{Scope, answer, contains, equal};
use crate::object::{Object, date};
use crate::params::Params;
use crate::resources::account::Account;
use crate::table::{Key, Row};
use crate::world::{KeyRule, Permission, Role, State};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A user of an account.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) account: Key<Account>,
    pub(crate) state: State,
    /// Whether keys are of use to it; `None` is as its account.
    pub(crate) api_key_access: Option<bool>,
    /// From the oldest to the newest.
    pub(crate) pairs: Vec<KeyPair>,
}

/// An API key and its secret key.
#[derive(Debug, Clone)]
pub(crate) struct KeyPair {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) api_key: String,
    pub(crate) secret_key: String,
    /// What it may call, within the role; without rules, all of that.
    pub(crate) rules: Vec<KeyRule>,
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
    pub(crate) created: String,
}

impl Row for User {
    fn id(&self) -> &str {
        &self.id
    }
}

impl KeyPair {
    /// Whether it holds at an instant.
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        self.start.is_none_or(|start| start <= now) && self.end.is_none_or(|end| now <= end)
    }

    /// What its rules say about a command: the first that matches decides; with rules of which
    /// none matches, nothing is allowed.
    pub(crate) fn permission(&self, command: &str) -> Permission {
        let found = self.rules.iter().find(|rule| matches(&rule.rule, command));
        match found {
            Some(rule) => rule.permission,
            None if self.rules.is_empty() => Permission::Allow,
            None => Permission::Deny,
        }
    }
}

/// Whether a rule means a command: the whole name, with each `*` for any letters.
fn matches(rule: &str, command: &str) -> bool {
    let Some((prefix, rest)) = rule.split_once('*') else {
        return rule == command;
    };
    let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = command.strip_prefix(prefix).and_then(|inner| inner.strip_suffix(suffix));
    inner.is_some_and(|inner| contains_in_order(inner, middle.split('*')))
}

/// Whether pieces follow one another in a text.
fn contains_in_order<'a>(text: &str, mut pieces: impl Iterator<Item = &'a str>) -> bool {
    let rest = pieces.try_fold(text, |text, piece| Some(text.split_once(piece)?.1));
    rest.is_some()
}

/// The name that a pair gets by itself.
pub(crate) fn usual_pair_name(user: Key<User>) -> String {
    format!("{} - API key pair", user.number())
}

pub(crate) const REGISTER_PARAMS: &[Param] = &[
    must("id", Kind::Id(Entity::User)),
    may("name", Kind::Text),
    may("description", Kind::Text),
    may("startdate", Kind::Text),
    may("enddate", Kind::Text),
    may("rules", Kind::Map),
];

pub(crate) const LIST_KEYS_PARAMS: &[Param] =
    &[may("userid", Kind::Id(Entity::User)), may("keypairid", Kind::Text)];

/// registerUserKeys, with the request: the user must be the caller's.
pub(crate) fn accept_register(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let key = call.params.key::<User>("id").ok_or_else(ApiError::permission)?;
    let user = cloud.users.get(key).ok_or_else(ApiError::permission)?;
    if !cloud.may_use(call.caller, Owner::Account(user.account)) {
        return Err(ApiError::permission());
    }
    Ok(Accepted {
        id: None,
        number: key.number(),
        instance: Some(Instance { kind: "User", id: Some(user.id.clone()) }),
    })
}

/// registerUserKeys, in the job: the user's other pairs stay.
pub(crate) fn start_register(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let key = Key::of(accepted.number);
    let pair = KeyPair {
        id: cloud.ids.next_id(),
        name: call.params.filled("name").map_or_else(|| usual_pair_name(key), str::to_owned),
        api_key: cloud.ids.next_secret(),
        secret_key: cloud.ids.next_secret(),
        rules: asked_rules(&call.params)?,
        start: asked_date(&call.params, "startdate")?,
        end: asked_date(&call.params, "enddate")?,
        created: date(cloud.now),
    };
    let result = Object::new().with("userkeys", pair_json(cloud, key, &pair)).into();
    if let Some(user) = cloud.users.get_mut(key) {
        user.pairs.push(pair);
    }
    Ok(Work::Done(result))
}

/// `rules[i].rule` and `.permission`.
fn asked_rules(params: &Params) -> Result<Vec<KeyRule>, JobFailure> {
    let maps = params.map("rules").into_iter().flat_map(|map| map.values());
    maps.map(|fields| {
        let rule = fields.get("rule").cloned().unwrap_or_default();
        let permission = match fields.get("permission") {
            Some(text) if equal(text, "allow") => Permission::Allow,
            Some(text) if equal(text, "deny") => Permission::Deny,
            Some(_) | None => {
                return Err(JobFailure::invalid(format!("Invalid permission for rule {rule}")));
            }
        };
        Ok(KeyRule { rule, permission })
    })
    .collect()
}

/// A date such as `2026-12-01 19:54:28`, in the server's zone; time and seconds may be left out.
fn asked_date(params: &Params, name: &str) -> Result<Option<Timestamp>, JobFailure> {
    let Some(text) = params.filled(name) else {
        return Ok(None);
    };
    let read = text.parse::<Timestamp>().ok().or_else(|| {
        let civil = text.parse::<DateTime>().ok()?;
        civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    read.map(Some).ok_or_else(|| JobFailure::invalid(format!("Unable to parse date {text}")))
}

/// listUserKeys: the pairs of a user, by default of the caller's account, with their secrets.
pub(crate) fn list_keys(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let scope = Scope::of(cloud, call)?;
    let params = &call.params;
    let asked = params.key::<User>("userid");
    let rows: Vec<_> = cloud
        .users
        .iter()
        .filter(|(key, user)| {
            let owner = Owner::Account(user.account);
            match asked {
                Some(asked) => asked == *key && cloud.may_use(call.caller, owner),
                None => scope.covers(owner),
            }
        })
        .flat_map(|(key, user)| user.pairs.iter().map(move |pair| (key, pair)))
        .filter(|(_, pair)| params.agrees("keypairid", |id| equal(&pair.id, id)))
        .filter(|(_, pair)| params.agrees("keyword", |keyword| contains(&pair.name, keyword)))
        .collect();
    answer(cloud, call, "userapikey", rows, |(key, pair)| pair_json(cloud, key, pair))
}

fn pair_json<'a>(cloud: &'a Cloud, key: Key<User>, pair: &'a KeyPair) -> Object<'a> {
    let user = cloud.users.get(key);
    let account = user.and_then(|user| cloud.accounts.get(user.account));
    let owner = user.map(|user| cloud.owner_fields(Owner::Account(user.account)));
    let role = account.map_or(Role::User, |account| account.role);
    let (account_type, role_type) = types(role);
    let is_over = pair.end.is_some_and(|end| end < cloud.now);
    Object::new()
        .merge(owner.unwrap_or_default().without(&["account"]))
        .with("id", pair.id.as_str())
        .with("name", pair.name.as_str())
        .with("apikey", pair.api_key.as_str())
        .with("secretkey", pair.secret_key.as_str())
        .maybe("startdate", pair.start.map(date))
        .maybe("enddate", pair.end.map(date))
        .with("created", pair.created.as_str())
        .with("state", if is_over { "EXPIRED" } else { "ENABLED" })
        .maybe("userid", user.map(|user| user.id.as_str()))
        .maybe("username", user.map(|user| user.name.as_str()))
        .maybe("accountid", account.map(|account| account.id.as_str()))
        .maybe("accountname", account.map(|account| account.name.as_str()))
        .with("accounttype", account_type)
        .with("roleid", cloud.role_ids.of(role))
        .with("roletype", role_type)
        .with("rolename", role.name())
}

/// `accounttype` and `roletype` of a role.
fn types(role: Role) -> (&'static str, &'static str) {
    match role {
        Role::User | Role::ProjectKubernetesService => ("NORMAL", "User"),
        Role::DomainAdmin => ("DOMAIN_ADMIN", "DomainAdmin"),
        Role::RootAdmin => ("ADMIN", "Admin"),
    }
}

/// Ids of the roles.
#[derive(Debug, Clone)]
pub(crate) struct RoleIds {
    pub(crate) user: String,
    pub(crate) domain_admin: String,
    pub(crate) root_admin: String,
    pub(crate) project_kubernetes_service: String,
}

impl RoleIds {
    fn of(&self, role: Role) -> &str {
        match role {
            Role::User => &self.user,
            Role::DomainAdmin => &self.domain_admin,
            Role::RootAdmin => &self.root_admin,
            Role::ProjectKubernetesService => &self.project_kubernetes_service,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::matches;
    use crate::testing::{Lab, text};

    fn register(lab: &mut Lab, more: &[(&str, &str)]) -> (String, String, Value) {
        let user = text(&lab.rows("listUserKeys", &[])[0]["userid"]);
        let mut params = vec![("id", user.as_str())];
        params.extend(more);
        let pair = lab.run("registerUserKeys", &params)["userkeys"].clone();
        (text(&pair["apikey"]), text(&pair["secretkey"]), pair)
    }

    #[test]
    fn a_rule_means_a_whole_name_with_stars() {
        assert!(matches("listZones", "listZones"));
        assert!(!matches("list", "listZones"));
        assert!(matches("*", "listZones"));
        assert!(matches("list*", "listZones"));
        assert!(matches("list*es", "listZones"));
        assert!(!matches("list*es", "createTags"));
        assert!(matches("*Load*Rule*", "createLoadBalancerRule"));
        assert!(matches("*Balancer*Instances", "listLoadBalancerRuleInstances"));
        assert!(!matches("*Rule*Load*", "createLoadBalancerRule"));
        assert!(!matches("list*Zones*s", "listZones"));
    }

    #[test]
    fn a_pair_allows_what_its_rules_say_and_the_others_stay() {
        let mut lab = Lab::new();
        let rules = [
            ("name", "narrow"),
            ("rules[0].rule", "listZones"),
            ("rules[0].permission", "allow"),
            ("rules[1].rule", "*"),
            ("rules[1].permission", "deny"),
        ];
        let (key, secret, pair) = register(&mut lab, &rules);
        assert_eq!((&pair["name"], &pair["rolename"]), (&"narrow".into(), &"User".into()));
        assert_eq!(lab.signed(&key, &secret, "listZones").0, 200);
        let (status, body) = lab.signed(&key, &secret, "listNetworks");
        assert_eq!(status, 432);
        assert_eq!(
            body["errorresponse"]["errortext"],
            "The API [listNetworks] does not exist or is not available for the account prod."
        );
        // A wrong signature is told before the rules of the pair.
        assert_eq!(lab.signed(&key, "wrong", "listNetworks").0, 401);
        assert_eq!(lab.signed("AKprod", "SKprod", "listNetworks").0, 200);
        let names = lab.column("listUserKeys", &[], "name");
        assert_eq!(names, ["1 - API key pair", "narrow"]);
    }

    #[test]
    fn a_pair_holds_between_its_dates() {
        let mut lab = Lab::new();
        let dates = [("startdate", "2026-12-01 20:00:03"), ("enddate", "2026-12-01 20:00:09")];
        let (key, secret, pair) = register(&mut lab, &dates);
        assert_eq!(pair["startdate"], "2026-12-01T20:00:03+0000");
        assert_eq!(lab.signed(&key, &secret, "listZones").0, 401);
        lab.wait(3);
        assert_eq!(lab.signed(&key, &secret, "listZones").0, 200);
        lab.wait(7);
        assert_eq!(lab.signed(&key, &secret, "listZones").0, 401);
        assert_eq!(lab.column("listUserKeys", &[], "state"), ["ENABLED", "EXPIRED"]);
    }

    #[test]
    fn keys_of_others_are_out_of_reach_but_for_admins() {
        let mut lab = Lab::new();
        let user = text(&lab.rows("listUserKeys", &[])[0]["userid"]);
        lab.by("other");
        assert_eq!(lab.refused("registerUserKeys", &[("id", &user)]).code, 531);
        assert_eq!(lab.rows("listUserKeys", &[("userid", &user)]).len(), 0);
        lab.by("root");
        assert_eq!(lab.rows("listUserKeys", &[("userid", &user)]).len(), 1);
        lab.run("registerUserKeys", &[("id", &user)]);
    }

    #[test]
    fn several_pairs_begin_with_4_23() {
        let mut lab = Lab::on("4.22.1");
        assert_eq!(lab.refused("listUserKeys", &[]).code, 401);
    }
}
