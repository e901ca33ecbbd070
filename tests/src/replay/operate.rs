//! What an operator did beside the API: faults of routers, the life of the server, settings, states of
//! accounts and of the zone.

use ccm_simulator::EditError;
use ccm_simulator::faults::{RouterFault, RouterPart};
use ccm_simulator::world::State;
use jiff::SignedDuration;
use serde_json::{Map, Value};

use super::Run;
use super::act::{NotDone, send};
use super::send::{Keys, plain};

/// Does an action of an operator; none if it is of another kind.
pub(super) fn act(run: &mut Run, action: &str, args: &Value) -> Option<Result<(), NotDone>> {
    let text = |key: &str| args[key].as_str().unwrap_or_default();
    Some(match action {
        "fault" => router(args, Some(text("result")), run),
        "heal" => router(args, None, run),
        "kill" => {
            run.simulator.kill();
            Ok(())
        }
        "restart" => {
            run.simulator.restart();
            Ok(())
        }
        "account" if args.get("key_pair").is_some() => {
            take_newest_pair(run, text("user"), text("caller"))
        }
        "account" => account(run, args),
        "setting" => setting(run, args),
        "vm" => done(run.simulator.expunge_vm(&run.names.translate(text("id")))),
        "zone" => {
            run.simulator.enable_zone(text("allocationstate") == "Enabled");
            Ok(())
        }
        _ => return None,
    })
}

fn done(result: Result<(), EditError>) -> Result<(), NotDone> {
    result.map_err(|error| NotDone(error.to_string()))
}

/// Lets pushes of one kind meet with a fault, or heals them.
fn router(args: &Value, result: Option<&str>, run: &mut Run) -> Result<(), NotDone> {
    let name = args["router"].as_str().unwrap_or_default();
    let wait = SignedDuration::from_millis(args["ms"].as_i64().unwrap_or_default());
    let unknown = || NotDone(format!("unknown fault of a router: {args}"));
    let part = RouterPart::named(name).ok_or_else(unknown)?;
    match result {
        None => run.simulator.heal_router(part),
        Some("fail") => run.simulator.fault_router(part, RouterFault::Fail),
        Some("throw") => run.simulator.fault_router(part, RouterFault::Throw),
        Some("wait") => run.simulator.fault_router(part, RouterFault::Wait(wait)),
        Some(_) => return Err(unknown()),
    }
    Ok(())
}

/// Changes the state of an account or user. An account that was made just before is part of the
/// world.
fn account(run: &mut Run, args: &Value) -> Result<(), NotDone> {
    let simulator = &mut run.simulator;
    let name = plain(args.get("user").unwrap_or(&args["account"]));
    done(match args["set"].as_str() {
        None => Ok(()),
        Some("enabled") => simulator.set_account_state(&name, State::Enabled),
        Some("user disabled") => simulator.set_user_state(&name, State::Disabled),
        Some("user enabled") => simulator.set_user_state(&name, State::Enabled),
        Some("API key access disabled") => simulator.set_api_key_access(&name, Some(false)),
        Some("API key access enabled") => simulator.set_api_key_access(&name, Some(true)),
        Some(other) => {
            return Err(NotDone(format!("unknown state of an account: {other}")));
        }
    })
}

/// Changes a global setting, or a limit, where -1 lifts it.
fn setting(run: &mut Run, args: &Value) -> Result<(), NotDone> {
    if let Some(of) = args["of"].as_str() {
        let (_, owner) = of.split_once(' ').unwrap_or_default();
        let limit = args["max"].as_u64().and_then(|max| usize::try_from(max).ok());
        return done(run.simulator.limit_public_ips(owner, limit));
    }
    done(run.simulator.set(&plain(&args["name"]), &plain(&args["value"])))
}

/// Lets a caller sign with the key pair that a user got last.
fn take_newest_pair(run: &mut Run, user: &str, caller: &str) -> Result<(), NotDone> {
    let answer = send(run, user, "listUserKeys", Map::new())?;
    let newest = answer["userapikey"].as_array().and_then(|pairs| pairs.last());
    let newest = newest.ok_or_else(|| NotDone(format!("{user} has no key pair")))?;
    let field = |name: &str| plain(&newest[name]);
    let keys = Keys { api_key: field("apikey"), secret_key: field("secretkey") };
    run.keys.insert(caller.to_owned(), keys);
    Ok(())
}
