//! Requests to the simulator, which anybody can send.

use std::sync::LazyLock;

use ccm_simulator::http::exchange;
use ccm_simulator::{LoggedCall, Simulator};
use ccm_tests::garble::{garble, garbles};
use ccm_tests::lab::Setup;
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use crate::cases;

/// A simulator in which a Service was served, and all that was asked of it.
static USED: LazyLock<(Simulator, Vec<LoggedCall>, Timestamp)> = LazyLock::new(|| {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |service| {
        service.source_ranges = vec!["198.51.100.0/24".to_owned()];
    });
    lab.converge(&web);
    lab.delete(&web);
    lab.settle(&web);
    let now = lab.now();
    let simulator = lab.simulator.with(|simulator| simulator.clone());
    let calls = simulator.calls().to_vec();
    (simulator, calls, now)
});

/// What a server answers: a status of HTTP, and a document that holds the answer or the error.
fn judge(status: u16, body: &str) -> Result<(), TestCaseError> {
    prop_assert!((200..600).contains(&status), "{status}");
    prop_assert!(serde_json::from_str::<Value>(body).is_ok(), "{body}");
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn garbled_parameters_get_an_answer(
        asked in vec((any::<Index>(), any::<Index>(), any::<bool>(), garbles()), 1..6),
    ) {
        let (mut simulator, calls, now) = USED.clone();
        for (which, place, name, changes) in asked {
            let LoggedCall { account, command, mut params, .. } = which.get(&calls).clone();
            let count = params.len();
            if count > 0 {
                let (key, value) = &mut params[place.index(count)];
                let text = if name { key } else { value };
                *text = String::from_utf8_lossy(&garble(text.as_bytes(), &changes)).into_owned();
            }
            let given: Vec<(&str, &str)> =
                params.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let answer = simulator.call(&account, command, &given, now);
            judge(answer.status, &answer.body)?;
        }
        simulator.advance(now + std::time::Duration::from_mins(10));
    }

    #[test]
    fn a_garbled_request_gets_an_answer(
        method in select(vec!["GET", "POST", "HEAD", "PUT", "\u{fffd}"]),
        target in garbles(),
        form in garbles(),
    ) {
        let (mut simulator, _, now) = USED.clone();
        let query = "/client/api?command=listNetworks&response=json&apiKey=standard-api-key&signature=%2Bx";
        let target = String::from_utf8_lossy(&garble(query.as_bytes(), &target)).into_owned();
        let form = garble(b"details[0].key=a&details[0].value=b%20c&name=%C3%A9", &form);
        let answer = exchange(&mut simulator, method, &target, &form, now).expect("an answer");
        prop_assert!((200..600).contains(&answer.status), "{}", answer.status);
    }
}
