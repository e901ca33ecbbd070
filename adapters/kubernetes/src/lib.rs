//! Kubernetes objects to what the core reads, and the core's writes to what the API server takes.
//!
//! | File | Holds |
//! |---|---|
//! | `convert.rs` | objects of the API → raw types |
//! | `manifests.rs` | files and directories → raw types |
//! | `patch.rs` | a planned write → the body of a patch of `services/status` |
//! | `memory.rs` | a cluster in memory, for demonstrations and tests |
//! | `live/` | a real API server |
//!
//! Nothing here decides what to do.

pub mod convert;
pub mod live;
pub mod manifests;
pub mod memory;
pub mod patch;
