//! A real API server.
//!
//! | File | Holds |
//! |---|---|
//! | `connect.rs` | from a kubeconfig, or from inside of a cluster, to a client |
//! | `proxy.rs` | the proxy on the way to it |
//! | `watch.rs` | a watch that keeps a store up to date |
//! | `services.rs` | Services and Nodes as watched, and planned writes to Services |
//! | `listed.rs` | Services and Nodes as listed once |
//! | `identity.rs` | what tells one cluster from another |
//! | `nodes.rs` | writes to Nodes |
//! | `lease.rs` | the Lease of leader election |
//! | `events.rs` | Events |
//! | `review.rs` | who a caller is and what it may do, as the API server says |
//! | `failure.rs` | what a failed request means |

pub mod connect;
pub mod events;
mod failure;
pub mod identity;
pub mod lease;
pub mod listed;
pub mod nodes;
mod proxy;
pub mod review;
pub mod services;
pub mod watch;

pub use failure::call_error;
