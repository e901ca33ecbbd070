//! The faults of answers, and whose fault each is.

use std::time::Duration;

use ccm_core::exec::error::{CallError, Fault};
use ccm_simulator::faults::Mishap;

/// Every code of CloudStack's `ApiErrorCode` (and 500), and whose fault it is.
pub const CODES: &[(u16, Fault)] = &[
    (400, Fault::Refused),
    (401, Fault::Permission),
    (405, Fault::Refused),
    (429, Fault::Throttled),
    (430, Fault::Refused),
    (431, Fault::Refused),
    (432, Fault::Permission),
    (500, Fault::Transient),
    (503, Fault::Transient),
    (511, Fault::Permission),
    (530, Fault::Cloud),
    (531, Fault::Permission),
    (532, Fault::Quota),
    (533, Fault::Quota),
    (534, Fault::Cloud),
    (535, Fault::Quota),
    (536, Fault::Refused),
    (537, Fault::Refused),
];

/// An error in CloudStack's form.
pub fn error(code: u16) -> Mishap {
    let text = match code {
        429 => "The given user has reached his/her account api limit, please retry after [900] ms.",
        _ => "something else",
    };
    Mishap::Error { code, text: text.to_owned() }
}

/// Answers that prove nothing of what became of the request.
pub fn lost() -> Vec<Mishap> {
    let bodies = [
        (200, ""),
        (200, "<html>welcome</html>"),
        (200, "{\"x\":{\"count\":1,"),
        (200, "[]"),
        (200, "{\"somebodyelse\":null}"),
        (500, ""),
        (502, "<html>Bad Gateway</html>"),
        (503, "<html>no server is available</html>"),
        (504, "{\"error\":\"timeout\"}"),
    ];
    let bodies = bodies.map(|(status, body)| Mishap::Body { status, body: body.to_owned() });
    [Mishap::Closed, Mishap::Silence].into_iter().chain(bodies).collect()
}

/// Answers of something in front of the server that did not let the request through, and whose
/// fault that is.
pub fn turned_away() -> Vec<(Mishap, Fault)> {
    [
        (400, Fault::Refused),
        (403, Fault::Permission),
        (404, Fault::Refused),
        (407, Fault::Permission),
        (408, Fault::Transient),
        (413, Fault::Bug),
        (414, Fault::Bug),
        (429, Fault::Throttled),
    ]
    .map(|(status, fault)| (Mishap::Body { status, body: "<html>no</html>".to_owned() }, fault))
    .to_vec()
}

/// The window that [`error`] names, which is shorter than any that is not named.
const WINDOW: Duration = Duration::from_millis(900);
/// Nobody waits longer for a server that only says 429.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// A wait is told after a 429, is no shorter than what the server named, and ends soon; after
/// anything else the core decides.
pub fn check_wait(error: &CallError, case: &str) {
    match error.retry_after {
        Some(wait) => {
            assert_eq!(error.fault, Fault::Throttled, "{case}: {error:?}");
            assert!((WINDOW..=LONGEST_WAIT).contains(&wait), "{case}: {error:?}");
        }
        None => assert_ne!(error.fault, Fault::Throttled, "{case}: {error:?}"),
    }
}
