//! Stickiness policies of load-balancer rules, and the health-check policies that a virtual router
//! does not have. A new policy takes the place of the one before.

use std::collections::BTreeMap;

use serde_json::json;

use crate::answer::Answer;
use crate::cloud::Cloud;
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work, success};
use crate::lists::equal;
use crate::object::{Field, Object};
use crate::params::Params;
use crate::resources::load_balancer_rule::LoadBalancerRule;
use crate::table::{Key, Row};

/// A stickiness policy.
#[derive(Debug, Clone)]
pub(crate) struct Stickiness {
    pub(crate) id: String,
    pub(crate) rule: Key<LoadBalancerRule>,
    pub(crate) name: String,
    /// As given, in any letter case.
    pub(crate) method: String,
    pub(crate) params: BTreeMap<String, String>,
    /// Replaced or deleted, still listed until the push.
    pub(crate) revoked: bool,
}

impl Row for Stickiness {
    fn id(&self) -> &str {
        &self.id
    }
}

/// Methods of a virtual router, each with the parameters that must be numbers. A number of
/// `SourceBased` may end with a unit.
const METHODS: &[(&str, &[&str], &[char])] = &[
    ("LbCookie", &[], &[]),
    ("AppCookie", &["length", "holdtime"], &['d', 'h', 'm', 's']),
    ("SourceBased", &["tablesize", "expire"], &['k', 'm', 'g', 'd', 'h', 's']),
];

pub(crate) const CREATE_PARAMS: &[Param] = &[
    must("lbruleid", Kind::Id(Entity::LoadBalancerRule)),
    must("name", Kind::Text),
    must("methodname", Kind::Text),
    may("param", Kind::Map),
    may("description", Kind::Text),
];

pub(crate) const DELETE_PARAMS: &[Param] = &[must("id", Kind::Id(Entity::Stickiness))];

pub(crate) const LIST_PARAMS: &[Param] =
    &[may("lbruleid", Kind::Id(Entity::LoadBalancerRule)), may("id", Kind::Id(Entity::Stickiness))];

pub(crate) const HEALTH_PARAMS: &[Param] = &[
    must("lbruleid", Kind::Id(Entity::LoadBalancerRule)),
    may("pingpath", Kind::Text),
    may("description", Kind::Text),
];

pub(crate) const LIST_HEALTH_PARAMS: &[Param] =
    &[may("lbruleid", Kind::Id(Entity::LoadBalancerRule)), may("id", Kind::Text)];

/// createLBStickinessPolicy, with the request: the method and its parameters are checked.
pub(crate) fn accept_create(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let (key, rule) = rule_of(cloud, call)?;
    let method = call.params.text("methodname").unwrap_or_default();
    let params = asked_params(&call.params);
    check_method(key, rule, method, &params)?;
    let id = cloud.ids.next_id();
    let name = call.params.text("name").unwrap_or_default().to_owned();
    let row = Stickiness {
        id: id.clone(),
        rule: key,
        name,
        method: method.to_owned(),
        params,
        revoked: false,
    };
    let number = cloud.stickiness.insert(row).number();
    Ok(Accepted { id: Some(id), number, instance: Some(Instance { kind: "None", id: None }) })
}

/// `param[i].name` and `.value`; flags have no value and are not shown again.
fn asked_params(params: &Params) -> BTreeMap<String, String> {
    let maps = params.map("param").into_iter().flat_map(|map| map.values());
    maps.filter_map(|fields| Some((fields.get("name")?.clone(), fields.get("value")?.clone())))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

fn check_method(
    key: Key<LoadBalancerRule>,
    rule: &LoadBalancerRule,
    method: &str,
    params: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let Some((_, numbers, units)) = METHODS.iter().find(|(name, _, _)| equal(name, method)) else {
        return Err(ApiError::invalid(format!(
            "Failed to match Stickiness method name for LB rule:{}",
            key.number()
        )));
    };
    let bad = params.iter().find(|(name, value)| {
        let digits = value.strip_suffix(*units).unwrap_or(value);
        numbers.contains(&name.as_str()) && digits.parse::<u32>().is_err()
    });
    match bad {
        None => Ok(()),
        Some((name, value)) => Err(ApiError::invalid(format!(
            "Failed LB in validation rule id: {} Cause: {name} is not a number: {value}",
            rule.text(key)
        ))),
    }
}

/// createLBStickinessPolicy, in the job.
pub(crate) fn start_create(
    cloud: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let new = Key::of(accepted.number);
    let Some(rule) = cloud.stickiness.get(new).map(|row| row.rule) else {
        return Err(JobFailure::internal("Failed to create stickiness policy"));
    };
    for old in policies_of(cloud, rule).into_iter().filter(|key| *key != new) {
        revoke(cloud, old);
    }
    let shown = wrapper(cloud, rule, |row| !row.revoked);
    let result = Object::new().with("stickinesspolicies", shown).into();
    Ok(Work::RulePushed { rule, result, refusal: "Failed to create stickiness policy" })
}

/// deleteLBStickinessPolicy.
pub(crate) fn start_delete(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let key = call.params.required::<Stickiness>("id");
    let Some(rule) = cloud.stickiness.get(key).map(|row| row.rule) else {
        return Err(JobFailure::invalid(format!(
            "Unable to find LB stickiness rule: {}",
            key.number()
        )));
    };
    let owner = cloud.rules.get(rule).map(|row| row.owner);
    if !owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        return Err(JobFailure::permission());
    }
    revoke(cloud, key);
    let refusal = "Failed to delete load balancer policy";
    Ok(Work::RulePushed { rule, result: success(), refusal })
}

/// listLBStickinessPolicies: one wrapper for the rule, with its policy or without.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let by_id = call.params.key::<Stickiness>("id").and_then(|key| cloud.stickiness.get(key));
    let asked = call.params.key("lbruleid").or(by_id.map(|row| row.rule));
    let Some(key) = asked else {
        return Err(ApiError::invalid(
            "load balancer rule ID and stickiness policy ID can't be null",
        ));
    };
    Ok(one(cloud, call, key, "stickinesspolicies", wrapper(cloud, key, |_| true)))
}

/// listLBHealthCheckPolicies: a virtual router has none.
pub(crate) fn list_health(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let Some(key) = call.params.key("lbruleid") else {
        return Err(ApiError::invalid(
            "load balancer rule ID and health check policy ID can't be null",
        ));
    };
    let shown = rule_fields(cloud, key).with("healthcheckpolicy", json!([]));
    Ok(one(cloud, call, key, "healthcheckpolicies", shown))
}

/// createLBHealthCheckPolicy: refused, since a virtual router has none.
pub(crate) fn refuse_health(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let (key, rule) = rule_of(cloud, call)?;
    Err(ApiError::new(
        430,
        9999,
        format!(
            "Failed to create HealthCheck policy: Validation Failed (HealthCheck Policy is not supported by LB Provider for the LB rule:{})",
            rule.text(key)
        ),
    ))
}

fn rule_of<'a>(
    cloud: &'a Cloud,
    call: &Call,
) -> Result<(Key<LoadBalancerRule>, &'a LoadBalancerRule), ApiError> {
    let key = call.params.required::<LoadBalancerRule>("lbruleid");
    match cloud.rules.get(key) {
        None => Err(ApiError::invalid(format!("Failed: LB rule id: {} not present", key.number()))),
        Some(rule) if cloud.may_use(call.caller, rule.owner) => Ok((key, rule)),
        Some(_) => Err(ApiError::permission()),
    }
}

/// A list of one object, or of nothing if its rule is gone or somebody else's.
fn one(
    cloud: &Cloud,
    call: &Call,
    rule: Key<LoadBalancerRule>,
    key: &str,
    shown: Object<'_>,
) -> Answer {
    let owner = cloud.rules.get(rule).map(|row| row.owner);
    if owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        Answer::list(1, key, vec![shown], |shown| shown)
    } else {
        Object::new().into()
    }
}

fn policies_of(cloud: &Cloud, rule: Key<LoadBalancerRule>) -> Vec<Key<Stickiness>> {
    let rows = cloud.stickiness.iter().filter(|(_, row)| row.rule == rule);
    rows.map(|(key, _)| key).collect()
}

fn revoke(cloud: &mut Cloud, key: Key<Stickiness>) {
    if let Some(row) = cloud.stickiness.get_mut(key) {
        row.revoked = true;
    }
}

/// Drops the policies of a rule that were revoked, as every push of it does.
pub(crate) fn forget_revoked(cloud: &mut Cloud, rule: Key<LoadBalancerRule>) {
    for key in policies_of(cloud, rule) {
        if cloud.stickiness.get(key).is_some_and(|row| row.revoked) {
            cloud.stickiness.bury(key);
        }
    }
}

fn wrapper(
    cloud: &Cloud,
    rule: Key<LoadBalancerRule>,
    shown: impl Fn(&Stickiness) -> bool,
) -> Object<'_> {
    let policies: Field<'_> = policies_of(cloud, rule)
        .into_iter()
        .filter_map(|key| cloud.stickiness.get(key))
        .filter(|row| shown(row))
        .map(|row| {
            Object::new()
                .with("id", row.id.as_str())
                .with("name", row.name.as_str())
                .with("methodname", row.method.as_str())
                .with("params", json!(row.params))
                .maybe("state", row.revoked.then_some("Revoked"))
        })
        .collect();
    rule_fields(cloud, rule).with("stickinesspolicy", policies)
}

fn rule_fields(cloud: &Cloud, rule: Key<LoadBalancerRule>) -> Object<'_> {
    let Some(row) = cloud.rules.get(rule) else {
        return Object::new();
    };
    cloud.owner_fields(row.owner).without(&["domainpath"]).with("lbruleid", row.id.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{Lab, text};

    const CREATE: &str = "createLBStickinessPolicy";
    const LIST: &str = "listLBStickinessPolicies";

    fn policies(lab: &mut Lab, rule: &str) -> Value {
        lab.rows(LIST, &[("lbruleid", rule)]).remove(0)["stickinesspolicy"].clone()
    }

    #[test]
    fn a_new_policy_takes_the_place_of_the_old_one() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        assert_eq!(policies(&mut lab, &rule), json!([]));
        let source = [("lbruleid", &*rule), ("name", "st1"), ("methodname", "sourcebased")];
        lab.run(CREATE, &source);
        lab.run(CREATE, &source);
        let cookie = [
            ("lbruleid", &*rule),
            ("name", "st2"),
            ("methodname", "LbCookie"),
            ("param[0].name", "cookie-name"),
            ("param[0].value", "ck"),
            ("param[1].name", "indirect"),
            ("param[1].value", ""),
        ];
        let made = lab.run(CREATE, &cookie);
        let made = &made["stickinesspolicies"];
        assert_eq!((&made["account"], &made["lbruleid"]), (&"prod".into(), &json!(rule)));
        let policy = policies(&mut lab, &rule)[0].clone();
        assert_eq!(policy["params"], json!({"cookie-name": "ck"}));
        let id = text(&policy["id"]);
        lab.run("deleteLBStickinessPolicy", &[("id", &id)]);
        assert_eq!(policies(&mut lab, &rule), json!([]));
        assert_eq!(
            lab.fails("deleteLBStickinessPolicy", &[("id", &id)]),
            (431, "Unable to find LB stickiness rule: 3".to_owned())
        );
    }

    #[test]
    fn methods_and_their_numbers_are_checked_with_the_request() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let bogus = [("lbruleid", &*rule), ("name", "x"), ("methodname", "Bogus")];
        let refused = lab.refused(CREATE, &bogus);
        assert_eq!((refused.code, refused.class, refused.root.as_str()), (431, Some(4350), CREATE));
        assert_eq!(refused.text, "Failed to match Stickiness method name for LB rule:2");
        let length = [
            ("lbruleid", &*rule),
            ("name", "x"),
            ("methodname", "AppCookie"),
            ("param[0].name", "length"),
            ("param[0].value", "abc"),
        ];
        let refused = lab.refused(CREATE, &length);
        assert!(refused.text.ends_with("Cause: length is not a number: abc"), "{}", refused.text);
        assert_eq!(
            lab.refused(LIST, &[]).text,
            "load balancer rule ID and stickiness policy ID can't be null"
        );
        assert_eq!(lab.by("other").refused(CREATE, &bogus).code, 531);
    }

    #[test]
    fn a_virtual_router_has_no_health_check_policies() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let refused = lab.refused("createLBHealthCheckPolicy", &[("lbruleid", &rule)]);
        assert_eq!((refused.code, refused.class), (430, Some(9999)));
        let listed = lab.rows("listLBHealthCheckPolicies", &[("lbruleid", &rule)]).remove(0);
        assert_eq!(listed["healthcheckpolicy"], json!([]));
    }
}
