//! From JSON objects to what the core calls the state of the cloud. Pure.
//!
//! Whatever the core uses is read as it is meant or is an error: what is of another type never reads
//! as absent. Everything else is ignored. Array keys of lists differ from object keys of job
//! results; the callers name them.
//!
//! **Words** are what servers gain with a release or a plugin: states, protocols, algorithms. One
//! that we do not know is kept as it is or reads as "it is there", so that a foreign object stops
//! nobody. Three are closed: the state of an address, which a list shows of foreign addresses only
//! as `Allocated`, and direction and action of an ACL item, without which nobody can tell what is
//! open.
//!
//! **Fields** of another type than in every release, and ids, addresses and ports that are missing,
//! fail the whole reading, with command, object and field, also those of a foreign object. Whose an
//! object is, and what it holds on to, is known by these fields alone: one left out could be the
//! reason to keep an address, or a port to be closed. Nothing is changed meanwhile, and what
//! serves goes on serving.

pub(crate) mod address;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod rule;

use ccm_core::observe::RuleState;
use serde_json::Value;

use crate::fields::{DecodeError, Fields};

/// Decodes every entry and sorts by id.
pub(crate) fn sorted<T, K: Ord>(
    entries: &[Value],
    decode: impl Fn(&Value) -> Result<T, DecodeError>,
    key: impl Fn(&T) -> &K,
) -> Result<Vec<T>, DecodeError> {
    let mut decoded = entries.iter().map(decode).collect::<Result<Vec<T>, _>>()?;
    decoded.sort_by(|left, right| key(left).cmp(key(right)));
    Ok(decoded)
}

/// `state` of rules and ACL items. Revoke is the server's own word for Deleting; Staged lasts for
/// moments and owes a push like Add. An object in a state that we do not know is there: it takes
/// its port and keeps its address.
fn rule_state(fields: &Fields<'_>) -> Result<RuleState, DecodeError> {
    Ok(match fields.text("state")? {
        "Add" | "Staged" => RuleState::Add,
        "Deleting" | "Revoke" => RuleState::Deleting,
        _ => RuleState::Active,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Value;

    /// The entry of a recorded list.
    pub(crate) fn recorded(body: &str) -> Value {
        serde_json::from_str(body).unwrap()
    }
}
