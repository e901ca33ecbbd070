//! listApis, and which role may call what.

use serde_json::Value;

use crate::cloud::Cloud;
use crate::commands::{COMMANDS, Call, Command, Handler, Kind, Param};
use crate::error::ApiError;
use crate::lists::answer;
use crate::object::Object;
use crate::versions::Feature;
use crate::world::Role;

/// Whether a role allows a command.
pub(crate) fn allows(role: Role, command: &Command) -> bool {
    match (role, &command.handler) {
        (_, Handler::Root) => false,
        (Role::User, _) => true,
        (Role::ProjectKubernetesService, _) => command.restricted,
    }
}

/// listApis: what the caller may call. A name out of reach is an error, or since 4.23 the same as no name.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Value, ApiError> {
    let role = cloud.accounts.get(call.caller).map(|account| account.role);
    let allowed: Vec<&Command> =
        COMMANDS.iter().filter(|command| role.is_some_and(|role| allows(role, command))).collect();
    let rows = match call.params.filled("name") {
        None => allowed,
        Some(name) => match allowed.iter().find(|command| command.name == name) {
            Some(command) => vec![*command],
            None if is_other_case(name)
                || !cloud.version.has(Feature::ForbiddenApiNameListsAll) =>
            {
                return Err(ApiError::internal(9999));
            }
            None => allowed,
        },
    };
    answer(cloud, call, "api", rows, describe)
}

fn is_other_case(name: &str) -> bool {
    COMMANDS.iter().any(|command| command.name != name && command.name.eq_ignore_ascii_case(name))
}

fn describe(command: &Command) -> Value {
    let params: Vec<Value> = command.all_params().map(|param| param_json(param).into()).collect();
    Object::new()
        .with("name", command.name)
        .with("isasync", matches!(command.handler, Handler::Job(_)))
        .with("params", params)
        .into()
}

fn param_json(param: &Param) -> Object {
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
        .maybe("since", param.since)
}
