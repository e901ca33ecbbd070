//! listApis.

use crate::access::allows;
use crate::answer::Answer;
use crate::cloud::Cloud;
use crate::commands::{Call, Command, Handler, Kind, Param, may};
use crate::error::ApiError;
use crate::lists::answer;
use crate::object::{Field, Object};
use crate::versions::Feature;

pub(crate) const LIST_PARAMS: &[Param] = &[may("name", Kind::Text)];

/// listApis: what the caller may call. A name out of reach is an error, or since 4.23 the same as
/// no name.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let role = cloud.accounts.get(call.caller).map(|account| account.role);
    let allowed: Vec<&Command> = Command::all(&cloud.version)
        .filter(|command| role.is_some_and(|role| allows(role, command)))
        .collect();
    let rows = match call.params.filled("name") {
        None => allowed,
        Some(name) => match allowed.iter().find(|command| command.name == name) {
            Some(command) => vec![*command],
            None if is_other_case(cloud, name)
                || !cloud.version.has(Feature::ForbiddenApiNameListsAll) =>
            {
                return Err(ApiError::internal(9999));
            }
            None => allowed,
        },
    };
    answer(cloud, call, "api", rows, |command| describe(cloud, command))
}

fn is_other_case(cloud: &Cloud, name: &str) -> bool {
    Command::all(&cloud.version)
        .any(|command| command.name != name && command.name.eq_ignore_ascii_case(name))
}

fn describe<'a>(cloud: &'a Cloud, command: &'static Command) -> Object<'a> {
    let params: Field<'_> =
        command.all_params(&cloud.version).map(|param| param_json(cloud, param)).collect();
    Object::new()
        .with("name", command.name)
        .with("isasync", matches!(command.handler, Handler::Job(_)))
        .with("params", params)
}

fn param_json<'a>(cloud: &'a Cloud, param: &Param) -> Object<'a> {
    let (kind, length) = match param.kind {
        Kind::Text => ("string", 255),
        Kind::LongText(limit) => ("string", limit),
        Kind::Flag => ("boolean", 255),
        Kind::Number => ("integer", 255),
        Kind::Id(_) => ("uuid", 255),
        Kind::Ids(_) | Kind::List => ("list", 255),
        Kind::Map => ("map", 255),
    };
    Object::new()
        .with("name", param.name)
        .with("type", kind)
        .with("length", length)
        .with("required", param.required)
        .maybe("since", param.annotation(&cloud.version))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::testing::Lab;

    #[test]
    fn the_list_holds_what_the_caller_may_call() {
        let mut lab = Lab::new();
        let names = lab.column("listApis", &[], "name");
        assert!(names.contains(&"updateNetworkACLItem".to_owned()));
        assert!(!names.contains(&"listHosts".to_owned()));
        let one = lab.rows("listApis", &[("name", "createLoadBalancerRule")]).remove(0);
        assert_eq!(one["isasync"], true);
        assert!(one["params"].as_array().unwrap().iter().any(|param| param["name"] == "cidrlist"));
    }

    #[test]
    fn a_parameter_tells_since_when_it_works() {
        for (release, since) in [("4.23.0", Some("4.18.0.0")), ("4.17.2", None)] {
            let mut lab = Lab::on(release);
            let one = lab.rows("listApis", &[("name", "createLoadBalancerRule")]).remove(0);
            let params = one["params"].as_array().unwrap();
            let cidrs = params.iter().find(|param| param["name"] == "cidrlist").unwrap();
            assert_eq!(cidrs.get("since").and_then(Value::as_str), since, "{release}");
        }
    }

    #[test]
    fn a_name_out_of_reach_lists_all_from_4_23_on() {
        let mut lab = Lab::new();
        let all = lab.rows("listApis", &[]).len();
        assert_eq!(lab.rows("listApis", &[("name", "listHosts")]).len(), all);
        assert_eq!(lab.refused("listApis", &[("name", "listzones")]).code, 530);
        assert_eq!(Lab::on("4.22.0").refused("listApis", &[("name", "listHosts")]).code, 530);
    }
}
