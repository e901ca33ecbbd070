//! What a failed request to the API server means.

use std::error::Error as StdError;
use std::time::Duration;

use ccm_core::exec::error::{CallError, Effect, Fault};
use kube::Error;
use kube::client::AuthError;
use kube::core::Status;

/// A failed request in the core's terms. Conflicts, vanished objects and refused contents are
/// transient: the object has changed meanwhile, and is read and planned again.
pub fn call_error(request: &str, error: &Error) -> CallError {
    let (code, fault, effect, retry_after) = if let Error::Api(status) = error {
        let wait = status.details.as_ref().map(|details| details.retry_after_seconds);
        let wait = wait.filter(|seconds| *seconds > 0).map(|s| Duration::from_secs(s.into()));
        (Some(status.code), fault_of(status), effect_of(status), wait)
    } else {
        (None, Fault::Transient, Effect::Unknown, None)
    };
    CallError {
        command: request.to_owned(),
        code,
        fault,
        effect,
        retry_after,
        message: message(error),
    }
}

fn fault_of(status: &Status) -> Fault {
    match status.code {
        401 | 403 => Fault::Permission,
        429 => Fault::Throttled,
        400 | 405 | 415 => Fault::Bug,
        _ => Fault::Transient,
    }
}

/// A server that fails may have done it all the same.
fn effect_of(status: &Status) -> Effect {
    if status.code < 500 { Effect::No } else { Effect::Unknown }
}

/// The API server's own words, or the chain of what went wrong on the way.
fn message(error: &Error) -> String {
    if let Error::Api(status) = error {
        return status.message.clone();
    }
    discreet(error)
}

/// A chain of errors as one text, without what a credential plugin has printed: errors repeat in
/// their texts what they wrap.
pub(super) fn discreet(error: &(dyn StdError + 'static)) -> String {
    let chain = || std::iter::successors(Some(error), |error| (*error).source());
    let of_plugin =
        |error: &(dyn StdError + 'static)| error.downcast_ref::<AuthError>().and_then(of_plugin);
    if let Some(told) = chain().find_map(of_plugin) {
        return told;
    }
    let mut text = String::new();
    for more in chain().map(ToString::to_string) {
        if text.is_empty() {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

/// Errors of credential plugins hold what the plugin printed: the token among it.
fn of_plugin(error: &AuthError) -> Option<String> {
    if let AuthError::AuthExecParse(cause) = error {
        let cause = without_values(cause);
        return Some(format!("the credential plugin printed no ExecCredential: {cause}"));
    }
    let AuthError::AuthExecRun { cmd, out } = error else { return None };
    Some(format!("the credential plugin {cmd:?} ended with {}", out.status))
}

/// Where a YAML text is wrong, and what is expected there, without a word of what stands there: the
/// texts of the parser quote it in many ways.
pub(super) fn without_values(error: &serde_saphyr::Error) -> String {
    let error = error.without_snippet();
    let place = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
    let place = place.unwrap_or_default();
    if let serde_saphyr::Error::Unexpected { expected, .. } = error {
        return format!("{place}expected {expected}");
    }
    format!("{place}what stands there is not valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> CallError {
        let status = Status { code, message: "no".to_owned(), ..Status::default() };
        call_error("patch services/status", &Error::Api(Box::new(status)))
    }

    #[test]
    fn an_object_that_changed_meanwhile_is_planned_again_soon() {
        for code in [404, 409, 422] {
            let error = refused(code);
            assert_eq!((error.fault, error.effect), (Fault::Transient, Effect::No), "{code}");
        }
        assert_eq!(refused(403).fault, Fault::Permission);
        assert_eq!(refused(500).effect, Effect::Unknown);
        assert_eq!(refused(409).to_string(), "patch services/status: no");
    }

    #[test]
    fn what_a_credential_plugin_printed_is_not_repeated() {
        let printed = "status: {token: tok3n-plain}\nspec: \"tok3n-quoted\n";
        let cause = serde_saphyr::from_str::<serde_json::Value>(printed).unwrap_err();
        assert!(cause.to_string().contains("tok3n"), "{cause}");
        let error = Error::Auth(AuthError::AuthExecParse(Box::new(cause)));
        let told = call_error("list nodes", &error).to_string();
        assert!(
            told.contains("plugin printed no ExecCredential: ") && told.contains("line"),
            "{told}"
        );
        assert!(!told.contains("tok3n"), "{told}");
    }

    #[test]
    fn the_wait_that_a_busy_server_asks_for_is_kept() {
        let details = kube::core::response::StatusDetails {
            retry_after_seconds: 7,
            ..serde_json::from_str("{}").unwrap()
        };
        let status = Status { code: 429, details: Some(details), ..Status::default() };
        let error = call_error("get", &Error::Api(Box::new(status)));
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    }
}
