//! Fields of answers that began with a release: an older one leaves them out.

use serde_json::Value;

use crate::versions::Version;

/// The keys under which objects of a kind stand, a field of theirs, and the release that brought
/// it. What is older than 4.15 needs no line.
#[rustfmt::skip]
const SINCE: &[(&[&str], &str, [u16; 3])] = &[
    (&["firewallrule"], "traffictype", [4, 17, 0]),
    (&["network"], "created", [4, 16, 0]),
    (&["network"], "supportsvmautoscaling", [4, 18, 0]),
    (&["nic"], "deviceid", [4, 16, 0]),
    (&["publicipaddress", "ipaddress"], "forprovider", [4, 21, 0]),
    (&["virtualmachine", "loadbalancerruleinstance"], "arch", [4, 20, 1]),
    (&["virtualmachine", "loadbalancerruleinstance"], "lastupdated", [4, 16, 0]),
    (&["virtualmachine", "loadbalancerruleinstance"], "vmtype", [4, 20, 0]),
];

/// Takes out of an answer what the release does not have yet.
pub(crate) fn strip(body: &mut Value, version: &Version) {
    if SINCE.iter().any(|(_, _, since)| !version.reaches(*since)) {
        strip_all(body, version);
    }
}

fn strip_all(value: &mut Value, version: &Version) {
    match value {
        Value::Object(fields) => {
            for (kind, value) in fields {
                strip_kind(kind, value, version);
                strip_all(value, version);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| strip_all(value, version)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// One object of a kind, or several.
fn strip_kind(kind: &str, value: &mut Value, version: &Version) {
    match value {
        Value::Object(fields) => {
            for (kinds, field, since) in SINCE {
                if kinds.contains(&kind) && !version.reaches(*since) {
                    fields.remove(*field);
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                strip_kind(kind, value, version);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
