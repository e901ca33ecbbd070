//! From JSON objects to what the core calls the state of the cloud. Pure.
//!
//! Whatever the core uses is read as it is meant or is an error: what is of another type never reads
//! as absent. Everything else is ignored. Array keys of lists differ from object keys of job
//! results; the callers name them.

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
/// moments and owes a push like Add.
fn rule_state(fields: &Fields<'_>) -> Result<RuleState, DecodeError> {
    fields.parsed("state", "Add, Active or Deleting", |text| match text {
        "Add" | "Staged" => Some(RuleState::Add),
        "Active" => Some(RuleState::Active),
        "Deleting" | "Revoke" => Some(RuleState::Deleting),
        _ => None,
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
