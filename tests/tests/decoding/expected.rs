//! What the client must make of a body, from what [`said`] reads in it.

use ccm_cloudstack::{Command, Verb};
use ccm_core::exec::error::Effect;
use ccm_core::ids::PublicIpId;
use ccm_core::observe::AssociateJob;
use serde_json::{Map, Value};

use crate::facts::Facts;
use crate::feed::{Body, OWN_JOB, Understood};
use crate::said::{self, Reading};

/// What must come of a body.
#[derive(Debug)]
pub enum Expected {
    /// Exactly this.
    Exactly(Understood),
    /// An error of the server.
    Refusal { code: u16, text: String },
    /// An error that names one of these fields.
    Unreadable(Vec<&'static str>),
    /// An error of which the effect is not known.
    Unknown,
}

/// What a body holds.
enum Answer {
    /// The object under the root key.
    Object(Map<String, Value>),
    /// `errorcode` and `errortext`, and whether the root key is that of an unknown command.
    Refusal { code: u16, text: String, no_such_api: bool },
    /// Something else.
    Other,
}

impl Answer {
    fn of(body: &Body) -> Self {
        let text = body.text.trim();
        if text.starts_with('<') {
            return Self::of_markup(text);
        }
        let Ok(Value::Object(root)) = serde_json::from_str(text) else { return Self::Other };
        let mut entries = root.into_iter();
        let (Some((key, Value::Object(inner))), None) = (entries.next(), entries.next()) else {
            return Self::Other;
        };
        let Some(code) = inner.get("errorcode") else {
            return if body.status < 400 { Self::Object(inner) } else { Self::Other };
        };
        let Some(code) = number(code).and_then(|code| u16::try_from(code).ok()) else {
            return Self::Other;
        };
        let text = inner.get("errortext").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self::Refusal { code, text, no_such_api: key == "errorresponse" }
    }

    fn of_markup(text: &str) -> Self {
        let element = |name: &str| {
            let (start, end) = (format!("<{name}>"), format!("</{name}>"));
            let from = text.find(&start)? + start.len();
            let length = text.get(from..)?.find(&end)?;
            text.get(from..from + length)
        };
        match element("errorcode").and_then(|code| code.trim().parse().ok()) {
            Some(code) => Self::Refusal {
                code,
                text: element("errortext").unwrap_or_default().to_owned(),
                no_such_api: text.contains("<errorresponse"),
            },
            None => Self::Other,
        }
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_u64(),
    }
}

/// The key of a list's rows, and how each of them reads; `None` if it is none for us.
type Rows = (&'static str, fn(&Value) -> Option<Reading>);

fn rows(command: Command) -> Option<Rows> {
    Some(match command {
        Command::ListNetworks => ("network", |row| Some(said::network(row))),
        Command::ListApis => ("api", |row| Some(said::api(row))),
        Command::ListVpcs => ("vpc", |row| Some(said::vpc(row))),
        Command::ListVirtualMachines => ("virtualmachine", |row| Some(said::machine(row))),
        Command::ListPublicIpAddresses => ("publicipaddress", said::address),
        Command::ListLoadBalancerRules => ("loadbalancerrule", |row| Some(said::rule(row))),
        Command::ListFirewallRules => ("firewallrule", |row| Some(said::firewall_rule(row))),
        Command::ListPortForwardingRules => ("portforwardingrule", said::port_forward),
        Command::ListNetworkAclLists => ("networkacllist", |row| Some(said::acl_list(row))),
        Command::ListNetworkAcls => ("networkacl", |row| Some(said::acl_item(row))),
        Command::ListLoadBalancerRuleInstances => ("lbrulevmidip", |row| Some(said::member(row))),
        _ => return None,
    })
}

/// Commands whose absence from a role is data.
const OPTIONAL: [Command; 4] =
    [Command::ListApis, Command::ListVpcs, Command::ListNetworkAclLists, Command::ListNetworkAcls];

/// What must come of a body that answers a command.
pub fn expected(command: Command, body: &Body) -> Expected {
    if body.status == 429 {
        return Expected::Refusal { code: 429, text: String::new() };
    }
    match (command.verb(), Answer::of(body)) {
        (Verb::Read, Answer::Object(inner)) => of_list(command, &Value::Object(inner)),
        (Verb::Read, Answer::Refusal { code, text, no_such_api }) => {
            of_refused_read(command, code, text, no_such_api)
        }
        (Verb::Read, Answer::Other) => Expected::Unreadable(Vec::new()),
        (_, Answer::Object(inner)) => of_accepted(command, &inner),
        (verb, Answer::Refusal { code, text, .. }) => {
            let unknown = text.contains("entity does not exist") && text.contains("parameter id ");
            if verb == Verb::Delete && code == 431 && (unknown || is_gone(&text)) {
                Expected::Exactly(Understood::Carried { job: None, made: None })
            } else {
                Expected::Refusal { code, text }
            }
        }
        // Something in front of the server refused, or the answer is lost: then its job tells.
        (_, Answer::Other) if (400..500).contains(&body.status) => Expected::Unreadable(Vec::new()),
        (_, Answer::Other) => of_accepted(command, &Map::new()),
    }
}

fn is_gone(text: &str) -> bool {
    text.to_lowercase().starts_with("unable to find")
}

fn of_refused_read(command: Command, code: u16, text: String, no_such_api: bool) -> Expected {
    let denied = code == 432 || (code == 401 && no_such_api);
    let unknown = code == 431 && text.contains("entity does not exist");
    let not_ready = unknown || (code == 431 && text.contains("not ready for"));
    let nothing = || Expected::Exactly(Understood::Read(Vec::new()));
    match command {
        Command::ListCapabilities if denied => {
            Expected::Exactly(Understood::Read(vec![Facts::new()]))
        }
        Command::QueryAsyncJobResult if unknown || code == 531 => {
            Expected::Exactly(Understood::Job(AssociateJob::Unknown))
        }
        // The list of rules, which is empty here, decides about a 530.
        Command::ListLoadBalancerRuleInstances if unknown || code == 530 => nothing(),
        Command::ListPortForwardingRules if denied || not_ready => nothing(),
        _ if denied && OPTIONAL.contains(&command) => Expected::Exactly(Understood::Denied),
        _ => Expected::Refusal { code, text },
    }
}

fn of_list(command: Command, inner: &Value) -> Expected {
    match command {
        Command::ListCapabilities => {
            let reading = match inner.get("capability") {
                Some(capability) => said::capability(capability),
                None => Ok(Facts::new()),
            };
            match reading {
                Ok(facts) => Expected::Exactly(Understood::Read(vec![facts])),
                Err(fields) => Expected::Unreadable(fields),
            }
        }
        Command::QueryAsyncJobResult => of_associate_job(inner),
        _ => of_rows(command, inner),
    }
}

fn of_rows(command: Command, inner: &Value) -> Expected {
    let (mut array, read) = rows(command).expect("a list");
    if array == "lbrulevmidip" && inner.get(array).is_none() {
        array = "loadbalancerruleinstance";
    }
    let broken = || Expected::Unreadable(Vec::new());
    let count = inner.get("count").map(number);
    let rows = match (inner.get(array), count) {
        (_, Some(None)) => return broken(),
        (Some(Value::Array(rows)), _) => rows.as_slice(),
        (None, Some(_)) => &[],
        (None, None) if inner.as_object().is_some_and(Map::is_empty) => &[],
        (Some(_) | None, _) => return broken(),
    };
    let length = u64::try_from(rows.len()).expect("a length");
    let ids: Vec<&str> = rows.iter().filter_map(|row| row.get("id")?.as_str()).collect();
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    if count.flatten().is_some_and(|count| count != length) || distinct.len() < ids.len() {
        return broken();
    }
    let readings: Vec<Reading> = rows.iter().filter_map(read).collect();
    let unreadable: Vec<&str> =
        readings.iter().filter_map(|read| read.as_ref().err()).flatten().copied().collect();
    if !unreadable.is_empty() {
        return Expected::Unreadable(unreadable);
    }
    let mut facts: Vec<Facts> = readings.into_iter().flatten().collect();
    facts.sort();
    if command == Command::ListLoadBalancerRuleInstances {
        facts.dedup();
    }
    Expected::Exactly(Understood::Read(facts))
}

/// The key of what a command makes in the result of its job.
fn made(command: Command) -> Option<&'static str> {
    match command {
        Command::AssociateIpAddress => Some("ipaddress"),
        Command::CreateLoadBalancerRule => Some("loadbalancer"),
        Command::CreateFirewallRule => Some("firewallrule"),
        Command::CreateNetworkAcl => Some("networkacl"),
        _ => None,
    }
}

/// A job is followed, which succeeds and says nothing more.
fn of_accepted(command: Command, inner: &Map<String, Value>) -> Expected {
    let text = |field: &str| inner.get(field).and_then(Value::as_str).and_then(said::id);
    let job = Some(text("jobid").unwrap_or(OWN_JOB).to_owned());
    // An answer that names no job is none.
    match (made(command), text("jobid").and(text("id"))) {
        (None, _) => Expected::Exactly(Understood::Carried { job, made: None }),
        (Some(_), Some(id)) => {
            Expected::Exactly(Understood::Carried { job, made: Some(id.to_owned()) })
        }
        (Some(object), None) => Expected::Unreadable(vec![object]),
    }
}

fn of_associate_job(inner: &Value) -> Expected {
    let job = match said::job(inner) {
        Ok(job) => job,
        Err(fields) => return Expected::Unreadable(fields),
    };
    let address = |id: &str| PublicIpId::parse(id).expect("an id");
    let state = match job.ended {
        None => AssociateJob::Pending,
        Some(false) => AssociateJob::Failed(job.instance.map(address)),
        Some(true) => match job.made("ipaddress") {
            Some(id) => AssociateJob::Succeeded(address(id)),
            None => return Expected::Unreadable(vec!["ipaddress"]),
        },
    };
    Expected::Exactly(Understood::Job(state))
}

/// What must come of a body that answers the question for the job of a command.
pub fn expected_of_job(command: Command, body: &Body) -> Expected {
    let Answer::Object(inner) = Answer::of(body) else { return Expected::Unknown };
    let inner = Value::Object(inner);
    let Ok(job) = said::job(&inner) else { return Expected::Unknown };
    let carried = |made: Option<&str>| {
        let made = made.map(str::to_owned);
        Expected::Exactly(Understood::Carried { job: None, made })
    };
    match (job.ended, made(command)) {
        (None, _) => Expected::Unknown,
        (Some(true), None) => carried(None),
        (Some(true), Some(object)) => match job.made(object) {
            Some(id) => carried(Some(id)),
            None => Expected::Unreadable(vec![object]),
        },
        (Some(false), _) => {
            let (code, text) = job.error();
            if command.verb() == Verb::Delete && code == 431 && is_gone(text) {
                return carried(None);
            }
            Expected::Refusal { code, text: text.to_owned() }
        }
    }
}

/// Says what is wrong with what the client understood.
pub fn judge(command: Command, expected: &Expected, understood: &Understood) -> Result<(), String> {
    let wrong =
        |what: &str| Err(format!("{what}: expected {expected:?}, understood {understood:?}"));
    match (expected, understood) {
        (Expected::Exactly(expected), understood) if expected == understood => Ok(()),
        (Expected::Refusal { code, text }, Understood::Error(error)) => {
            // Long texts are cut, and control characters escaped.
            let plain: String = text.trim().chars().take(40).collect();
            let plain =
                plain.split(|c: char| c.is_control() || c == '\\').next().unwrap_or_default();
            if error.code != Some(*code) || !error.message.contains(plain) {
                return wrong("another error");
            }
            if command.verb() == Verb::Read && error.effect != Effect::No {
                return wrong("a read has no effect");
            }
            Ok(())
        }
        (Expected::Unreadable(fields), Understood::Error(error)) => {
            let named = |field: &&str| error.message.contains(&format!("`{field}`"));
            if !fields.is_empty() && !fields.iter().any(named) {
                return wrong("no field is named");
            }
            Ok(())
        }
        (Expected::Unknown, Understood::Error(error)) if error.effect == Effect::Unknown => Ok(()),
        _ => wrong("something else"),
    }
}
