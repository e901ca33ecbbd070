//! The real binary: exit codes, what it prints where, and what it never prints.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

mod cleanup;
mod demo;
mod errors;
mod harness;
mod live;
mod moved;
mod offline;
mod permissions;
mod proxies;
mod secrets;
mod sequence;
mod wire;
