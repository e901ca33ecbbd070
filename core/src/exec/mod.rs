//! Carrying out a plan: which step may run now, what its result means, what is left undone.
//!
//! State machines only: the driver in `ccm/` makes the calls.

pub mod backoff;
pub mod error;
pub mod execution;
pub mod job;
pub mod lanes;
pub mod output;
pub(crate) mod resolve;
