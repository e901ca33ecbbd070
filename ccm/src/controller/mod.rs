//! The controller process: what runs in a cluster.
//!
//! | File | Holds |
//! |---|---|
//! | `process.rs` | start, leadership, stop |
//! | `work.rs` | what a leader does |
//! | `election.rs` | the Lease: who may change anything |
//! | `held_lease.rs` | the Lease, as long as a command changes something |
//! | `monitored.rs` | CloudStack, as it answers: health and metrics |
//! | `reload.rs` | a cloud-config that changes: new credentials without a restart |
//! | `live.rs` | the watched cluster, as the controllers need it |
//! | `services/` | the Service controller |
//! | `nodes.rs` | the Node controller |
//! | `lifecycle.rs` | the Node lifecycle controller |
//! | `snapshots.rs` | readings of CloudStack that all share |
//! | `recorder.rs` | events |
//! | `plans.rs` | the latest plans, in a dry run |
//! | `ports.rs` | what the controllers need of their surroundings |

mod election;
mod held_lease;
pub mod lifecycle;
pub mod live;
pub mod monitored;
pub mod nodes;
pub mod plans;
pub mod ports;
mod process;
mod recorder;
pub mod reload;
pub mod services;
pub mod snapshots;
mod work;

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use ccm_core::event::correlate::ObjectRef;
use ccm_core::model::node::Node;
use ccm_core::parse;
use jiff::Timestamp;
use tracing::Span;

use crate::metrics::Outcome;
use crate::ports::Cluster;

pub(crate) use held_lease::HeldLease;
pub(crate) use process::run;

/// A sync of an object, in traces and in what is logged meanwhile: an error span, so that a line of
/// any level says which object it is about.
macro_rules! sync_span {
    ($reconcile:expr, $($object:tt)+) => {
        tracing::error_span!(
            "sync",
            $($object)+,
            reconcile = $reconcile,
            outcome = tracing::field::Empty,
            otel.status_code = tracing::field::Empty,
        )
    };
}
use sync_span;

/// How a sync ended, for traces.
fn record_outcome(sync: &Span, outcome: Outcome) {
    sync.record("outcome", outcome.label());
    if matches!(outcome, Outcome::Failed(_)) {
        sync.record("otel.status_code", "error");
    }
}

/// From 0.0 to 1.0, from random text: the first 32 bits of a UUID.
fn jitter(uuid: &str) -> f64 {
    let bits = uuid.get(..8).and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

fn between(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

/// An error with its causes, in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let one_line = |error: &(dyn Error + 'static)| {
        error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ")
    };
    causes.map(one_line).collect::<Vec<_>>().join(": ")
}

/// All Nodes; none if they can't be read.
async fn nodes_by_name(cluster: &impl Cluster) -> BTreeMap<String, Node> {
    let objects = cluster.read().await.unwrap_or_default();
    objects.nodes.iter().map(|raw| (raw.name.clone(), parse::node(raw))).collect()
}

/// A Node as events name it.
fn node_reference(node: &Node) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "Node",
        namespace: String::new(),
        name: node.name.clone(),
        uid: node.uid.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}
