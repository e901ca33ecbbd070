//! What was done out of band: actions of `setup.jsonl`, and objects that appear between two lines.

use ccm_simulator::Response;
use jiff::SignedDuration;
use serde_json::{Map, Value};

use super::compare::differences;
use super::names::ids;
use super::recording::Exchange;
use super::seed;
use super::send::{Outgoing, plain};
use super::setup::Setup;
use super::{Run, operate};

/// `jobstatus` of a job that succeeded.
const SUCCEEDED: u64 = 1;

/// Something that happened between two lines.
pub(super) enum Act<'a> {
    /// An action with its arguments.
    Action(&'a str, &'a Value),
    /// An object that was made between two lines.
    Object(&'a Value),
}

/// Why an act could not be repeated in this run.
#[derive(Debug)]
pub(super) struct NotDone(pub(super) String);

impl<'a> Act<'a> {
    /// What an entry of `setup.jsonl` says that happened. Objects before the first line are part of
    /// the world.
    pub(super) fn of(setup: &'a Setup) -> Option<Self> {
        if let Some(action) = &setup.action {
            return Some(Self::Action(action, &setup.args));
        }
        let object = setup.object.as_ref()?;
        (setup.before_line != Some(1)).then_some(Self::Object(object))
    }

    /// The object that it makes, if it makes one.
    pub(super) fn made(&self) -> Option<&'a str> {
        match self {
            Self::Action(..) => None,
            Self::Object(object) => object["id"].as_str(),
        }
    }

    /// What it is called in a report: the action or command, or the kind of the object, and the id
    /// that it is about.
    pub(super) fn name(&self) -> String {
        let (what, id) = match self {
            Self::Action(action, args) => {
                let command = args["command"].as_str().unwrap_or(action);
                (command, args.get("params").unwrap_or(args).get("id"))
            }
            Self::Object(object) => (object["kind"].as_str().unwrap_or_default(), object.get("id")),
        };
        [what, id.and_then(Value::as_str).unwrap_or_default()].join(" ").trim_end().to_owned()
    }

    /// Does it.
    ///
    /// # Errors
    /// If this run can not do it, or it ended in another way than here: every act of the recordings
    /// succeeded.
    pub(super) fn perform(&self, run: &mut Run) -> Result<(), NotDone> {
        match self {
            Self::Action(action, args) => act(run, action, args),
            Self::Object(object) => appear(run, object),
        }
    }
}

fn act(run: &mut Run, action: &str, args: &Value) -> Result<(), NotDone> {
    match action {
        "request" => {
            for _ in 0..args["times"].as_u64().unwrap_or(1) {
                request(run, args)?;
            }
            Ok(())
        }
        "delay" => {
            let pause = args["ms"].as_i64().unwrap_or_default();
            run.now += SignedDuration::from_millis(pause);
            Ok(())
        }
        _ => operate::act(run, action, args).unwrap_or_else(|| {
            Err(NotDone(format!("the simulator can not do the action {action:?}")))
        }),
    }
}

/// Makes an object that appeared.
fn appear(run: &mut Run, object: &Value) -> Result<(), NotDone> {
    let id = object["id"].as_str().unwrap_or_default();
    match object["kind"].as_str() {
        Some("virtualmachine") => {
            let ours = serde_json::from_str(&run.names.translate(&object.to_string()));
            let ours: Value = ours.map_err(|error| NotDone(error.to_string()))?;
            let vm = seed::virtual_machine(&ours).map_err(|error| NotDone(error.to_string()))?;
            run.simulator.add_vm(&vm).map_err(|error| NotDone(error.to_string()))?;
            run.names.fix_all(object);
            Ok(())
        }
        Some("asyncjob") => {
            let answer = request(run, object)?;
            let job = answer["jobid"].as_str();
            let job = job.ok_or_else(|| NotDone(format!("there is no job in {answer}")))?;
            run.names.bind(id, job);
            Ok(())
        }
        _ if object["made_by"].get("line").is_some() => find(run, object),
        _ if object["made_by"].get("command").is_some() => {
            if let Some(address) = run.names.ours(id).or(object["ipaddress"].as_str()) {
                run.simulator.draw_next(address);
            }
            let answer = request(run, &object["made_by"])?;
            // A command without a job answers the whole object.
            let made = answer.get("network").unwrap_or(&answer);
            let Some(ours) = made["id"].as_str() else {
                let made_by = plain(&object["made_by"]["command"]);
                return Err(NotDone(format!("{made_by} made nothing: {answer}")));
            };
            if !bind_like(run, object)? {
                run.names.bind(id, ours);
            }
            assign_members(run, object)
        }
        kind => Err(NotDone(format!("nothing tells how {kind:?} was made"))),
    }
}

/// Gives a rule the members that it had.
fn assign_members(run: &mut Run, rule: &Value) -> Result<(), NotDone> {
    let members: Vec<String> = rule["members"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|member| plain(&member["virtualmachineid"]))
        .collect();
    if members.is_empty() {
        return Ok(());
    }
    let args = serde_json::json!({
        "caller": rule["account"],
        "command": "assignToLoadBalancerRule",
        "params": {"id": rule["id"], "virtualmachineids": members.join(",")},
    });
    request(run, &args)?;
    Ok(())
}

/// Commands that list the objects of a kind, and the parameter that finds one by its parent.
const LISTS: &[(&str, &str, &str)] = &[
    ("firewallrule", "listFirewallRules", "ipaddressid"),
    ("loadbalancerrule", "listLoadBalancerRules", "publicipid"),
    ("publicipaddress", "listPublicIpAddresses", "associatednetworkid"),
];

/// Finds the object of this run that is like one of the recording, and lets its id stand for it.
fn find(run: &mut Run, object: &Value) -> Result<(), NotDone> {
    let none = || NotDone(format!("this run has no {}", plain(&object["kind"])));
    bind_like(run, object)?.then_some(()).ok_or_else(none)
}

/// Whether a listed object of this run is like one of the recording.
fn bind_like(run: &mut Run, object: &Value) -> Result<bool, NotDone> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some((_, command, parent)) = LISTS.iter().find(|(known, ..)| *known == kind) else {
        return Ok(false);
    };
    let caller = object.get("account").map_or("ccm-user".to_owned(), plain);
    let mut params = Map::new();
    params.insert((*parent).to_owned(), object[*parent].clone());
    let answer = send(run, &caller, command, params)?;
    let wanted = without(object, &["kind", "members", "made_by"]);
    let rows = answer[kind].as_array().cloned().unwrap_or_default();
    Ok(rows.iter().any(|row| {
        let mut names = run.names.clone();
        let like = differences(&mut names, &wanted, row).is_empty();
        if like {
            run.names = names;
        }
        like
    }))
}

fn without(object: &Value, keys: &[&str]) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let kept = fields.filter(|(key, _)| !keys.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into()
}

/// Runs an unrecorded call to the end of its job, which succeeds, and returns its first answer.
fn request(run: &mut Run, args: &Value) -> Result<Value, NotDone> {
    let command = plain(&args["command"]);
    let params = args["params"].as_object().cloned().unwrap_or_default();
    let text = Value::from(params.clone()).to_string();
    let unknown: Vec<&str> = ids(&text).filter(|id| !run.names.knows(id)).collect();
    if !unknown.is_empty() {
        return Err(NotDone(format!("{command} needs the unknown {}", unknown.join(", "))));
    }
    let caller = args.get("caller").map_or_else(|| "ccm-user".to_owned(), plain);
    run.pass_all_jobs();
    let answer = send(run, &caller, &command, params)?;
    run.pass_all_jobs();
    if let Some(job) = answer.get("jobid") {
        let params = Map::from_iter([("jobid".to_owned(), job.clone())]);
        let ended = send(run, &caller, "queryAsyncJobResult", params)?;
        if ended["jobstatus"] != SUCCEEDED {
            return Err(NotDone(format!("the job of {command} ended so: {ended}")));
        }
    }
    Ok(answer)
}

/// Sends a request, and returns what the answer holds under its root key.
///
/// # Errors
/// If it is refused.
pub(super) fn send(
    run: &mut Run,
    caller: &str,
    command: &str,
    params: Map<String, Value>,
) -> Result<Value, NotDone> {
    let exchange = Exchange {
        command: Some(command.to_owned()),
        params: params.into_iter().collect(),
        caller: caller.to_owned(),
        method: "POST".to_owned(),
        status: 200,
        headers: std::collections::BTreeMap::new(),
        body: Value::Null,
        note: String::new(),
    };
    let outgoing = Outgoing::of(&exchange, &[], &run.names, &run.keys_of(caller), run.now);
    let Response { status, body, .. } = outgoing.send(&mut run.simulator, run.now);
    if status != 200 {
        return Err(NotDone(format!("{command} is refused: {body}")));
    }
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    Ok(body.as_object().and_then(|body| body.values().next()).cloned().unwrap_or_default())
}
