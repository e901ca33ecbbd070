//! Raw objects to model: everything that a person may have written wrongly is found here, and all
//! of it at once.
//!
//! | File | Decides |
//! |---|---|
//! | `annotations.rs` | which annotations exist, their types and defaults: one table |
//! | `service/` | whether a Service wants a load balancer of us, and what it asks for |
//! | `recorded.rs` | what a Service records, and whether that is its own |
//! | `node.rs` | whether load balancers send traffic to a Node |
//! | `provider_id.rs` | which virtual machine a provider id means |
//! | `error.rs` | how mistakes and oddities are told |
//!
//! What depends on the cloud is not decided here: whether a requested address exists, whether a
//! port's protocol can be balanced, whether a port is taken. The planner does that.

pub mod annotations;
mod error;
pub mod nearest;
mod node;
mod provider_id;
pub mod raw;
mod recorded;
mod service;

pub use error::{ParseError, ParseErrors, Place, SpecWarning};
pub use node::node;
pub use provider_id::{provider_id, provider_id_of};
pub use recorded::cluster_id_in_use;
pub use service::{ParseContext, SOURCE_LIST_LIMIT, derived_uid, service};

use crate::model::{Desired, Learned};
use raw::{RawNode, RawService};

/// Reads a whole cluster; nothing is learned yet.
pub fn desired<'a>(
    services: impl IntoIterator<Item = &'a RawService>,
    nodes: impl IntoIterator<Item = &'a RawNode>,
    context: &ParseContext,
) -> Desired {
    Desired {
        services: services
            .into_iter()
            .map(|raw| service(raw, context))
            .map(|service| (service.key.clone(), service))
            .collect(),
        nodes: nodes.into_iter().map(node).map(|node| (node.name.clone(), node)).collect(),
        learned: Learned::default(),
    }
}
