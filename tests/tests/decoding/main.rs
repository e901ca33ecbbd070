//! The client reads every recorded body: what it understood is what the body says, field by field,
//! as far as the core uses it. The oracle in `said.rs` reads the JSON without the client's code.
//!
//! Changed bodies too: whatever is missing, of another kind, too large or cut short, the client
//! understands what is there, or reports an error that names command and field. It never panics,
//! and never takes a wrong value for a right one.
//!
//! `cargo test -p ccm-tests --test decoding -- --nocapture` prints how many bodies were read.

mod expected;
mod facts;
mod feed;
mod said;
mod understood;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use ccm_cloudstack::Command;
use ccm_tests::garble::{garble, garbles};
use ccm_tests::mutate::{self, How, change, places};
use ccm_tests::replay::{Directory, Exchange};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

use crate::expected::{Expected, expected, expected_of_job, judge};
use crate::feed::{Body, commands, feed, feed_job};

/// Recorded commands that the client never sends, and why.
const NEVER_SENT: &[(&str, &[&str])] = &[
    (
        "an administrator or the owner of a cloud does this, no controller",
        &[
            "addAccountToProject",
            "createVPCOffering",
            "disableAccount",
            "releaseIpAddress",
            "reserveIpAddress",
            "updateResourceLimit",
            "updateVPCOffering",
        ],
    ),
    (
        "keys and limits of the account are given, not managed",
        &["getApiLimit", "listUserKeys", "registerUserKeys"],
    ),
    (
        "virtual machines and their NICs are somebody else's",
        &[
            "addIpToNic",
            "addNicToVirtualMachine",
            "deployVirtualMachine",
            "destroyVirtualMachine",
            "rebootVirtualMachine",
            "recoverVirtualMachine",
            "removeNicFromVirtualMachine",
            "startVirtualMachine",
            "stopVirtualMachine",
            "updateDefaultNicForVirtualMachine",
            "updateVirtualMachine",
        ],
    ),
    (
        "networks, VPCs and ACL lists are given, not managed",
        &[
            "createNetwork",
            "createNetworkACLList",
            "createVPC",
            "deleteNetworkACLList",
            "replaceNetworkACLList",
        ],
    ),
    (
        "no Service asks for it",
        &[
            "createLBHealthCheckPolicy",
            "createLBStickinessPolicy",
            "createPortForwardingRule",
            "deleteLBStickinessPolicy",
            "disableStaticNat",
            "enableStaticNat",
            "listLBHealthCheckPolicies",
            "listLBStickinessPolicies",
        ],
    ),
    (
        "an object is made anew instead, so that no port is open wider in between",
        &["updateFirewallRule", "updateNetworkACLItem"],
    ),
    ("tags are only added, and are read with their objects", &["deleteTags", "listTags"]),
    (
        "what it tells is known otherwise: the version, the zone of a network",
        &[
            "addResourceDetail",
            "listAsyncJobs",
            "listHosts",
            "listManagementServers",
            "listManagementServersMetrics",
            "listProjects",
            "listResourceDetails",
            "listZones",
        ],
    ),
    ("no command at all", &["", "listzones", "noSuchCommand"]),
];

/// A recorded body of a command that the client sends.
#[derive(Clone, Debug)]
struct Recorded {
    command: Command,
    /// Where it stands.
    place: String,
    body: Body,
    /// The same as JSON, if it is.
    json: Option<Value>,
}

/// Everything that was recorded.
static RECORDED: LazyLock<Vec<(String, Exchange)>> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/cloudstack");
    let directory = Directory::load(&path).expect("the recordings");
    let named = |name: String| move |(line, exchange)| (format!("{name}:{}", line + 1), exchange);
    let files = directory.recordings.into_iter();
    files.flat_map(|file| file.exchanges.into_iter().enumerate().map(named(file.name))).collect()
});

/// Bodies of the commands that the client sends.
static BODIES: LazyLock<Vec<Recorded>> = LazyLock::new(|| {
    let known = commands();
    let sent = RECORDED.iter().filter_map(|(place, exchange)| {
        let command = *known.get(exchange.command.as_deref()?)?;
        let (text, json) = match &exchange.body {
            Value::String(text) => (text.clone(), None),
            body => (body.to_string(), Some(body.clone())),
        };
        let body = Body { status: exchange.status, text };
        Some(Recorded { command, place: place.clone(), body, json })
    });
    sent.collect()
});

/// The command of a recorded job, if the client sends it.
fn command_of_job(body: &Value) -> Option<Command> {
    let class =
        body.get("queryasyncjobresultresponse")?.get("cmd")?.as_str()?.rsplit('.').next()?;
    Some(match class {
        "AssociateIPAddrCmd" => Command::AssociateIpAddress,
        "DisassociateIPAddrCmd" => Command::DisassociateIpAddress,
        class => *commands().get(lower_first(class.strip_suffix("Cmd")?).as_str())?,
    })
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(letters).collect()
}

/// Reads a body as an answer and, if it is that of a job, as the end of its command.
fn check(command: Command, body: &Body) -> Result<(), String> {
    judge(command, &expected(command, body), &feed(command, body))?;
    let json = serde_json::from_str::<Value>(&body.text).ok();
    let of = json.as_ref().and_then(command_of_job);
    match of.filter(|_| command == Command::QueryAsyncJobResult) {
        Some(of) => judge(of, &expected_of_job(of, body), &feed_job(of, body)),
        None => Ok(()),
    }
}

/// One page of several, as a list that is whole.
fn whole(json: &Value) -> Option<Value> {
    let mut whole = json.clone();
    let inner = whole.as_object_mut()?.values_mut().next()?.as_object_mut()?;
    let rows = inner.values().find_map(Value::as_array)?.len();
    let count = inner.get("count")?.as_u64()?;
    if count == u64::try_from(rows).ok()? {
        return None;
    }
    inner.insert("count".to_owned(), json!(rows));
    Some(whole)
}

#[test]
fn every_recorded_body_is_understood_as_it_is_meant() {
    let mut read: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for Recorded { command, place, body, json } in BODIES.iter() {
        let parts = json.as_ref().and_then(whole).map(|json| Body::json(body.status, &json));
        let count = read.entry(command.name()).or_default();
        for body in [body].into_iter().chain(&parts) {
            let expected = expected(*command, body);
            match expected {
                Expected::Exactly(_) => count.0 += 1,
                Expected::Refusal { .. } => count.1 += 1,
                Expected::Unreadable(_) | Expected::Unknown => count.2 += 1,
            }
            wrong.extend(check(*command, body).err().map(|error| format!("{place}: {error}")));
        }
    }
    for (command, (understood, refused, refused_by_us)) in &read {
        eprintln!("{command}: {understood} read, {refused} errors, {refused_by_us} unreadable");
    }
    assert!(wrong.is_empty(), "{} bodies are misread\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_not_read_is_known() {
    let recorded: BTreeSet<&str> = RECORDED
        .iter()
        .map(|(_, exchange)| exchange.command.as_deref().unwrap_or_default())
        .filter(|command| !commands().contains_key(command))
        .collect();
    let listed: BTreeSet<&str> = NEVER_SENT.iter().flat_map(|(_, names)| *names).copied().collect();
    assert_eq!(recorded, listed);
    let bodies = BODIES.iter().map(|body| body.command.name()).collect::<BTreeSet<_>>();
    let missing: Vec<&str> =
        commands().into_keys().filter(|command| !bodies.contains(command)).collect();
    // Its rows are read from the result of a job below.
    assert_eq!(missing, ["listPortForwardingRules"]);
}

#[test]
fn a_port_forward_is_read_from_what_its_job_made() {
    let body = RECORDED.iter().find_map(|(_, exchange)| {
        let inner = exchange.body.as_object()?.values().next()?;
        inner.get("jobresult")?.get("portforwardingrule")
    });
    let list = json!({"x": {"count": 1, "portforwardingrule": [body.expect("a port forward")]}});
    check_all_changes(Command::ListPortForwardingRules, &list);
}

#[test]
fn xml_is_refused_for_what_it_is() {
    let markup = BODIES.iter().filter(|recorded| recorded.body.text.starts_with('<'));
    let mut documents = 0;
    for Recorded { command, place, body, .. } in markup {
        documents += 1;
        let feed::Understood::Error(error) = feed(*command, body) else {
            panic!("{place} is read")
        };
        assert_eq!(error.command, command.name(), "{place}");
        assert!(error.message.contains("with markup `<"), "{place}: {error}");
    }
    assert!(documents > 0);
}

/// The recorded body of a command that says most in few words.
fn model(command: Command) -> Option<&'static Value> {
    let bodies = BODIES.iter().filter(|body| body.command == command && body.body.status == 200);
    let small = bodies.filter_map(|body| body.json.as_ref()).filter(|body| places(body) < 200);
    small.max_by_key(|body| (whole(body).is_none(), places(body)))
}

fn check_all_changes(command: Command, body: &Value) {
    check(command, &Body::json(200, body)).expect("the body as it is");
    let mut wrong = Vec::new();
    for place in 0..places(body) {
        for how in mutate::all() {
            let mut changed = body.clone();
            change(&mut changed, place, &how);
            let error = check(command, &Body::json(200, &changed)).err();
            wrong.extend(error.map(|error| format!("{how:?} in {changed}\n{error}")));
        }
    }
    let shown = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{}: {} misread\n{shown}", command.name(), wrong.len());
}

#[test]
fn no_change_of_one_place_is_misread() {
    for (name, command) in commands() {
        let Some(body) = model(command) else { continue };
        eprintln!("{name}: {} places, each in {} ways", places(body), mutate::all().len());
        check_all_changes(command, body);
    }
}

fn config() -> Config {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    Config {
        rng_seed: RngSeed::Fixed(seed.unwrap_or(20_261_201)),
        failure_persistence: None,
        ..Config::with_cases(2000)
    }
}

/// Any recorded body.
fn recorded() -> impl Strategy<Value = &'static Recorded> {
    any::<Index>().prop_map(|index| index.get(BODIES.as_slice()))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_changed_body_is_misread(
        recorded in recorded(),
        changes in proptest::collection::vec(
            (any::<Index>(), proptest::sample::select(mutate::all())), 1..4),
        status in proptest::sample::select(vec![None, None, None, Some(200), Some(431), Some(503)]),
    ) {
        let Some(json) = &recorded.json else { return Ok(()) };
        let mut json = json.clone();
        for (place, how) in &changes {
            let places = places(&json);
            if places > 0 {
                let how: &How = how;
                change(&mut json, place.index(places), how);
            }
        }
        let body = Body::json(status.unwrap_or(recorded.body.status), &json);
        let checked = check(recorded.command, &body);
        prop_assert!(checked.is_ok(), "{}: {json}\n{}", recorded.place, checked.unwrap_err());
    }

    #[test]
    fn no_body_that_ends_early_is_misread(recorded in recorded(), end in any::<Index>()) {
        let text = &recorded.body.text;
        let end = end.index(text.len() + 1);
        let text = String::from_utf8_lossy(&text.as_bytes()[..end]).into_owned();
        let body = Body { status: recorded.body.status, text };
        let checked = check(recorded.command, &body);
        prop_assert!(checked.is_ok(), "{}\n{}", recorded.place, checked.unwrap_err());
    }
}

proptest! {
    #![proptest_config(Config { cases: 1000, ..config() })]

    /// As bytes arrive: cut, doubled, with bits turned over, marks of other encodings, deep nesting.
    #[test]
    fn no_garbled_body_is_misread(recorded in recorded(), changes in garbles()) {
        let bytes = garble(recorded.body.text.as_bytes(), &changes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = recorded.body.status;
        let plain = Body { status, text: text.trim_start_matches('\u{feff}').to_owned() };
        let understood = feed(recorded.command, &Body { status, text });
        let checked = judge(recorded.command, &expected(recorded.command, &plain), &understood);
        prop_assert!(checked.is_ok(), "{} {changes:?}\n{}", recorded.place, checked.unwrap_err());
    }
}

#[test]
fn a_body_nested_too_deeply_is_told_with_command_place_and_cause() {
    for (open, close) in [("[", "]"), ("{\"id\":", "}")] {
        for depth in [200, 1_000_000] {
            let inner = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let text = format!("{{\"x\":{{\"count\":1,\"network\":{inner}}}}}");
            let feed::Understood::Error(error) =
                feed(Command::ListNetworks, &Body { status: 200, text })
            else {
                panic!("it is read")
            };
            let told = error.to_string();
            for word in ["listNetworks", "nested more than 128 levels deep (line 1, column "] {
                assert!(told.contains(word), "{word}: {told}");
            }
            assert!(told.len() < 600, "{told}");
        }
    }
}
