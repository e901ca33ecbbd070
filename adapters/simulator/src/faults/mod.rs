//! What goes wrong on demand.
//!
//! | What | Where it strikes | File |
//! |---|---|---|
//! | faults of a command | its request, its answer, a page of its list, or its job | `wire.rs` |
//! | faults of the router | every push of one kind, until healed | `router.rs` |
//! | death of the management server | every running job | `server.rs` |
//!
//! Everything is decided by counts and by the world's seed: the same faults and requests give the
//! same bytes.

pub(crate) mod page;
pub(crate) mod router;
mod server;
mod wire;

pub use self::page::PageFault;
pub use self::router::{PATIENCE, RouterFault, RouterPart};
pub(crate) use self::wire::FaultPlan;
pub use self::wire::{Fault, FaultKind, JobFault, Mishap};
