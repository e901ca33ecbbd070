//! The error taxonomy: what a code means for a command.
//!
//! Three questions, one table each: whose fault ([`fault_of`]), whether anything changed
//! ([`effect_of_refusal`], [`effect_of_failed_job`]), and whether the failure says that what was
//! wanted is so already ([`already_so`]).

use std::time::Duration;

use ccm_core::exec::error::{CallError, Effect, Fault};

use crate::command::{Command, Verb};
use crate::envelope::{EnvelopeError, ServerError};
use crate::fields::DecodeError;
use crate::wire::{TransportError, TransportErrorKind};

/// Why a request has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No answer.
    Transport(TransportError),
    /// An answer that is no success.
    Answer(EnvelopeError),
    /// 429: nothing may be sent for so long.
    Throttled(Duration, String),
    /// The pages of a list did not add up, several times in a row.
    Pages(String),
}

impl Failure {
    /// The server's own error, if it is one.
    pub(crate) fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Answer(EnvelopeError::Server(error)) => Some(error),
            Self::Answer(EnvelopeError::Unreadable { .. })
            | Self::Transport(_)
            | Self::Throttled(..)
            | Self::Pages(_) => None,
        }
    }

    /// Whether the server says that the role lacks the command, or that it has no such command:
    /// 432, or 401 with the root key of an unknown API.
    pub(crate) fn is_denial(&self) -> bool {
        self.server()
            .is_some_and(|error| error.code == 432 || (error.code == 401 && error.no_such_api))
    }

    /// Whether the server says that the key is wrong: 401 with the command's own root key. Releases
    /// up to 4.17 answer an explicit DENY of the role so, too.
    pub(crate) fn is_unauthorized(&self) -> bool {
        self.server().is_some_and(|error| error.code == 401 && !error.no_such_api)
    }

    /// Whether the server may have acted without us having its answer.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Transport(error) => error.sent && error.kind != TransportErrorKind::Redirect,
            // 4xx in a form that is not CloudStack's comes from something in front of it.
            Self::Answer(EnvelopeError::Unreadable { status, .. }) => {
                *status < 400 || *status >= 500
            }
            Self::Answer(EnvelopeError::Server(_)) | Self::Throttled(..) | Self::Pages(_) => false,
        }
    }

    /// As the caller of `command` sees it.
    pub(crate) fn into_error(self, command: Command) -> CallError {
        let effect = match (&self, command.verb()) {
            (_, Verb::Read) => Effect::No,
            (Self::Answer(EnvelopeError::Server(error)), verb) => effect_of_refusal(verb, error),
            (failure, _) if failure.is_lost() => Effect::Unknown,
            _ => Effect::No,
        };
        let mut answer = call_error(command, Fault::Transient, effect, String::new());
        match self {
            Self::Transport(error) => {
                answer.fault = match error.kind {
                    TransportErrorKind::Redirect => Fault::Refused,
                    TransportErrorKind::Connect
                    | TransportErrorKind::Timeout
                    | TransportErrorKind::Tls
                    | TransportErrorKind::TooLarge
                    | TransportErrorKind::Broken => Fault::Transient,
                };
                answer.message = error.text;
            }
            Self::Answer(EnvelopeError::Server(error)) => {
                answer.code = Some(error.code);
                answer.fault = fault_of(&error);
                answer.message = message_of("refused", &error);
            }
            Self::Answer(unreadable @ EnvelopeError::Unreadable { .. }) => {
                if let EnvelopeError::Unreadable { status, .. } = &unreadable {
                    answer.fault = fault_of_status(*status);
                    answer.code = (*status >= 400).then_some(*status);
                }
                answer.message = format!(
                    "{unreadable}; check that api-url ends in /client/api and that nothing in between answers in its place"
                );
            }
            Self::Throttled(wait, text) => {
                answer.code = Some(429);
                answer.fault = Fault::Throttled;
                answer.retry_after = Some(wait);
                answer.message =
                    format!("too many calls, nothing is sent for {} ms: {text}", wait.as_millis());
            }
            Self::Pages(found) => {
                answer.message = format!(
                    "the pages of the list do not add up ({found}); it changes while it is read, \
                     or the server is wrong"
                );
            }
        }
        answer
    }
}

/// A failure that is no answer of the server.
pub(crate) fn call_error(
    command: Command,
    fault: Fault,
    effect: Effect,
    message: String,
) -> CallError {
    CallError {
        command: command.name().to_owned(),
        code: None,
        fault,
        effect,
        retry_after: None,
        message,
    }
}

/// An answer that says something we can't read. The call itself took effect, if it was one.
pub(crate) fn decode_error(command: Command, error: &DecodeError) -> CallError {
    let effect = match command.verb() {
        Verb::Read => Effect::No,
        Verb::Create
        | Verb::Update
        | Verb::Assign
        | Verb::Remove
        | Verb::Delete
        | Verb::Release => Effect::Yes,
    };
    call_error(command, Fault::Bug, effect, format!("{error}; please report"))
}

/// A failed job. `error` is `None` if it has no result: the management server restarted while it
/// ran, and left what was half done (observed).
pub(crate) fn failed_job(command: Command, code: u16, error: Option<&ServerError>) -> CallError {
    let Some(error) = error else {
        return CallError {
            code: Some(code),
            ..call_error(
                command,
                Fault::Transient,
                Effect::Unknown,
                "its job ended without a result: the management server restarted meanwhile"
                    .to_owned(),
            )
        };
    };
    CallError {
        code: Some(error.code),
        ..call_error(
            command,
            fault_of(error),
            effect_of_failed_job(command.verb(), error),
            message_of("its job failed", error),
        )
    }
}

/// Beginning of a disassociateIpAddress that failed at the router (observed).
const NOT_RELEASED: &str = "Failed to disassociate";

/// Beginning of a failed associateIpAddress (observed: of the loser of a race for the last one).
const NO_ADDRESS: &str = "Failed to associate";

fn message_of(what: &str, error: &ServerError) -> String {
    let ServerError { code, text, .. } = error;
    let advice = match code {
        401 if error.no_such_api => "; this server does not know the command",
        401 => "; check api-key, secret-key and the clocks of both sides",
        432 => "; allow the command for the role, or check project-id",
        531 => "; the object or domain belongs to somebody else",
        532 | 535 => "; raise the limit, or release what is not needed",
        533 => "; no such address is free",
        530 if error.text.starts_with(NO_ADDRESS) => {
            "; most likely a limit of addresses is reached"
        }
        _ => "",
    };
    format!("{what} with {code}: {text}{advice}")
}

/// Whose fault a code is (error codes of `ApiErrorCode`).
fn fault_of(error: &ServerError) -> Fault {
    match error.code {
        429 => Fault::Throttled,
        401 | 432 | 511 | 531 => Fault::Permission,
        532 | 533 | 535 => Fault::Quota,
        // "UUID: … doesn't follow the UUID format": a job id that we made.
        431 if error.text.contains("follow the UUID format") => Fault::Bug,
        400 | 430 | 431 | 536 | 537 => Fault::Refused,
        // Inside a job, and where the server wraps errors, a missing permission is a 530 too.
        530 if error.text.contains("does not have permission") => Fault::Permission,
        // From 4.19.2 the limit of addresses may show only in the job, without its name.
        530 if error.text.starts_with(NO_ADDRESS) => Fault::Quota,
        530 | 534 => Fault::Cloud,
        status => fault_of_status(status),
    }
}

fn fault_of_status(status: u16) -> Fault {
    match status {
        401 | 403 | 407 => Fault::Permission,
        408 | 425 | 429 => Fault::Transient,
        413 | 414 | 431 => Fault::Bug,
        400..=499 => Fault::Refused,
        _ => Fault::Transient,
    }
}

/// Whether a synchronous refusal left something behind.
///
/// Checks come before anything is made, with these exceptions (observed): a create whose
/// `customjobid` is malformed (431) or in use (530) has already made its object, and of a 530,
/// 534 or 503 of a create nobody knows how far it got.
fn effect_of_refusal(verb: Verb, error: &ServerError) -> Effect {
    let malformed = error.code == 431 && error.text.contains("follow the UUID format");
    match (verb, error.code) {
        (Verb::Create, 400..=429 | 430..=432 | 531..=533 | 535..=537) if !malformed => Effect::No,
        (Verb::Create, _) => Effect::Unknown,
        // Of a release nothing is known either: it touches every rule of the address.
        (Verb::Release, 530 | 534) => Effect::Unknown,
        // An update or assign whose job id is in use (530) changes nothing.
        (_, 400..=432 | 503 | 530..=537) => Effect::No,
        (_, _) => Effect::Unknown,
    }
}

/// Whether a failed job left something behind (observed, with a router that refuses).
fn effect_of_failed_job(verb: Verb, error: &ServerError) -> Effect {
    match (verb, error.code) {
        // A half-made object may remain: a rule in Deleting, an address in Allocating.
        (Verb::Create, _) => Effect::Unknown,
        // Validation errors: nothing of the call is stored.
        (Verb::Update | Verb::Assign | Verb::Remove | Verb::Delete, 431) => Effect::No,
        // 530 of an update keeps protocol and description.
        (Verb::Update, _) => Effect::Unknown,
        // Whole calls are undone, but two jobs on one rule can also double a member.
        (Verb::Assign | Verb::Remove, _) => Effect::Unknown,
        // "Failed to delete firewall rule": it is in Deleting. Of a load balancer rule the
        // automatic firewall rule may be gone.
        (Verb::Delete, _) => Effect::Unknown,
        // Refused before anything is revoked.
        (Verb::Release, _) if error.text.contains("source nat") => Effect::No,
        // The address is in Releasing, its rules in Deleting.
        (Verb::Release, _) if error.text.starts_with(NOT_RELEASED) => Effect::Yes,
        // The caller may lack the right to the address, or a rule of it be wedged.
        (Verb::Release, _) => Effect::Unknown,
        (Verb::Read, _) => Effect::No,
    }
}

/// Where a failure shows up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In the answer to the request.
    Request,
    /// In its job.
    Job,
}

/// Whether a failure says that the object of a delete is gone already.
///
/// | Command | Stage | Code | Text | Source |
/// |---|---|---|---|---|
/// | deleteLoadBalancerRule | job | 431 | `Unable to find load balancer rule: 4` | observed, 4.23 |
/// | deleteFirewallRule | request | 431 | `Unable to find firewall rule by ID=86` | observed, 4.23 |
/// | all three | request | 431 | `Invalid parameter id … entity does not exist` | read, up to 4.22; observed for ACL items |
/// | all three | job | 431 | `Unable to find …` | read, 4.23 |
pub(crate) fn already_so(verb: Verb, stage: Stage, error: &ServerError) -> bool {
    let text = &error.text;
    let unable_to_find = text.starts_with("Unable to find") || text.starts_with("unable to find");
    let unknown_id = is_unknown_id(error) && text.contains("parameter id ");
    let gone = match stage {
        Stage::Request => unable_to_find || unknown_id,
        Stage::Job => unable_to_find,
    };
    verb == Verb::Delete && error.code == 431 && gone
}

/// Whether a UUID in a parameter is not known: "…entity does not exist…" (observed).
pub(crate) fn is_unknown_id(error: &ServerError) -> bool {
    error.code == 431 && error.text.contains("entity does not exist")
}

/// Whether rules can't be listed because their address is on its way in or out: "Ip address id=12
/// not ready for firewall rules yet" (observed), or not known at all.
pub(crate) fn is_not_ready(error: &ServerError) -> bool {
    is_unknown_id(error) || (error.code == 431 && error.text.contains("not ready for"))
}

/// The largest page that a server allows, as it refuses a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageLimit {
    /// So many rows.
    Named(u32),
    /// It does not say.
    Unnamed,
}

/// Whether a refusal is about the page size. Observed: 431 "Page size can't exceed max allowed page
/// size value: 500".
pub(crate) fn page_size_refused(error: &ServerError) -> Option<PageLimit> {
    let lower = error.text.to_ascii_lowercase();
    let about_size = lower.contains("page size") || lower.contains("pagesize");
    (error.code == 431 && about_size).then(|| {
        let mut numbers = lower.split(|c: char| !c.is_ascii_digit());
        let last = numbers.rfind(|part| !part.is_empty());
        let named = last.and_then(|digits| digits.parse().ok());
        named.map_or(PageLimit::Unnamed, PageLimit::Named)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: Command = Command::CreateLoadBalancerRule;
    const LIST: Command = Command::ListNetworks;

    fn server(code: u16, text: &str) -> ServerError {
        ServerError { code, text: text.to_owned(), no_such_api: false }
    }

    fn refused(command: Command, code: u16, text: &str) -> CallError {
        Failure::Answer(EnvelopeError::Server(server(code, text))).into_error(command)
    }

    #[test]
    fn faults_by_code() {
        for (code, fault) in [
            (401, Fault::Permission),
            (432, Fault::Permission),
            (531, Fault::Permission),
            (532, Fault::Quota),
            (533, Fault::Quota),
            (535, Fault::Quota),
            (430, Fault::Refused),
            (431, Fault::Refused),
            (537, Fault::Refused),
            (530, Fault::Cloud),
            (534, Fault::Cloud),
            (503, Fault::Transient),
            (500, Fault::Transient),
        ] {
            let error = refused(LIST, code, "x");
            assert_eq!((error.fault, error.effect), (fault, Effect::No), "{code}");
            assert_eq!(error.code, Some(code));
        }
        let permission = "Failed to assign load balancer rule due to: Caller does not have permission to operate with provided resource.";
        assert_eq!(refused(LIST, 530, permission).fault, Fault::Permission);
    }

    #[test]
    fn a_refused_create_made_nothing_unless_its_job_id_was_the_trouble() {
        for code in [401, 429, 430, 431, 432, 531, 532, 533, 535, 537] {
            assert_eq!(refused(CREATE, code, "x").effect, Effect::No, "{code}");
        }
        for (code, text) in [
            (431, "UUID: xyz doesn't follow the UUID format"),
            (530, "Internal error executing command, please contact your system administrator"),
            (503, "x"),
            (534, "x"),
        ] {
            assert_eq!(refused(CREATE, code, text).effect, Effect::Unknown, "{code}");
        }
        let update = Command::UpdateLoadBalancerRule;
        for (code, effect) in
            [(431, Effect::No), (503, Effect::No), (530, Effect::No), (599, Effect::Unknown)]
        {
            assert_eq!(refused(update, code, "x").effect, effect, "{code}");
        }
    }

    #[test]
    fn failed_jobs_keep_their_code_and_say_what_may_remain() {
        let error = failed_job(CREATE, 530, Some(&server(530, "Unable to remove …")));
        assert_eq!((error.code, error.effect), (Some(530), Effect::Unknown));
        let update = Command::UpdateLoadBalancerRule;
        let error = failed_job(update, 431, Some(&server(431, "Invalid CIDR list: 10.1.2.3")));
        assert_eq!((error.fault, error.effect), (Fault::Refused, Effect::No));
        let error = failed_job(update, 530, None);
        assert_eq!((error.code, error.effect), (Some(530), Effect::Unknown));
    }

    #[test]
    fn deletes_of_what_is_gone_count_as_done() {
        let unknown = "Unable to execute API command deletefirewallrule due to invalid value. Invalid parameter id value=11111111-2222-3333-4444-555555555555 due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.";
        assert!(already_so(Verb::Delete, Stage::Request, &server(431, unknown)));
        let gone = "Unable to find firewall rule by ID=86";
        assert!(already_so(Verb::Delete, Stage::Request, &server(431, gone)));
        let gone = "Unable to find load balancer rule: 4";
        assert!(already_so(Verb::Delete, Stage::Job, &server(431, gone)));

        assert!(!already_so(Verb::Update, Stage::Job, &server(431, gone)));
        assert!(!already_so(Verb::Delete, Stage::Job, &server(530, gone)));
        assert!(!already_so(
            Verb::Delete,
            Stage::Job,
            &server(431, "Default ACL cannot be modified")
        ));
        let other = unknown.replace("parameter id ", "parameter aclid ");
        assert!(!already_so(Verb::Delete, Stage::Request, &server(431, &other)));
    }

    #[test]
    fn page_sizes_are_read_from_the_refusal() {
        let text = "Page size can't exceed max allowed page size value: 500";
        assert_eq!(page_size_refused(&server(431, text)), Some(PageLimit::Named(500)));
        assert_eq!(page_size_refused(&server(431, "bad pagesize")), Some(PageLimit::Unnamed));
        assert_eq!(page_size_refused(&server(431, "bad name 7")), None);
        assert_eq!(page_size_refused(&server(530, text)), None);
    }

    #[test]
    fn denials_are_told_from_wrong_keys() {
        let failure = |code, no_such_api| {
            Failure::Answer(EnvelopeError::Server(ServerError { no_such_api, ..server(code, "x") }))
        };
        assert!(failure(432, true).is_denial());
        assert!(failure(401, true).is_denial());
        assert!(!failure(401, false).is_denial());
        assert!(failure(401, false).is_unauthorized() && !failure(401, true).is_unauthorized());
    }

    #[test]
    fn answers_of_gateways_are_lost_or_never_arrived() {
        let failure = |status| {
            Failure::Answer(EnvelopeError::Unreadable {
                status,
                found: "markup `<html>`".to_owned(),
            })
        };
        assert_eq!(failure(414).into_error(CREATE).effect, Effect::No);
        assert_eq!(failure(502).into_error(CREATE).effect, Effect::Unknown);
        assert_eq!(failure(200).into_error(CREATE).effect, Effect::Unknown);
        assert_eq!(failure(200).into_error(LIST).effect, Effect::No);
        assert_eq!(failure(403).into_error(LIST).fault, Fault::Permission);
    }
}
