//! Decisions about Nodes: what is written on them, and when one has gone for good.
//!
//! | File | Decides |
//! |---|---|
//! | `address.rs` | which addresses a Node has, and in which order |
//! | `label.rs` | zone, region and instance type, and how they are spelled |
//! | `metadata.rs` | what is written on a Node: at its initialisation and afterwards |
//! | `lifecycle.rs` | whether a Node that is not ready is shut down, or gone and to be deleted |
//! | `agenda.rs` | when Nodes are looked at, and how often CloudStack is asked for one |
//! | `note.rs` | what is told about a Node |

pub mod address;
pub mod agenda;
pub mod label;
pub mod lifecycle;
pub mod metadata;
pub mod note;

/// Set by a kubelet with an external cloud provider, with whatever effects: nothing is scheduled
/// before it goes.
pub const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Set on a Node whose virtual machine is stopped, with effect `NoSchedule`.
pub const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The addresses that kubelet was told to use (`--node-ip`).
pub const PROVIDED_NODE_IP_ANNOTATION: &str = "alpha.kubernetes.io/provided-node-ip";
