//! What a failed request to the API server means.

use std::error::Error as _;
use std::time::Duration;

use ccm_core::exec::error::{CallError, Effect, Fault};
use kube::Error;
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
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(found) = cause {
        let more = found.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = found.source();
    }
    text
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
