//! The CloudStack API, from the core's vocabulary to the wire and back.
//!
//! ```text
//! Call ──► calls ──┐                                    ┌─► decode ─► CloudState, Output
//!                  ├─► client: limit, sign, send ─► envelope ─► error ─► CallError
//! Scope ─► observe ┘          (change: follow its job)  └─► jobs
//! ```
//!
//! It decides nothing about load balancers. It decides how a request gets through: signature,
//! method, paging, pace, and what an answer or its absence proves.
//!
//! Needs no admin call: everything works for a plain User and for the restricted project role,
//! where what a role may not list is data ([`ccm_core::observe::Listing::Denied`]).

mod addresses;
mod calls;
mod change;
mod client;
mod command;
mod decode;
mod discover;
mod envelope;
mod error;
mod fields;
mod follow;
mod jobs;
mod limiter;
mod machines;
mod meter;
mod observe;
mod pages;
mod permissions;
mod secret;
pub mod sign;
mod transport;
mod wire;

#[cfg(test)]
mod tests;

pub use client::{Client, Options, PostPolicy};
pub use command::{Command, Verb};
pub use meter::{Ending, Meter};
pub use permissions::Permissions;
pub use secret::Credentials;
pub use transport::{HttpOptions, HttpTransport, TransportConfigError};
pub use wire::{
    Method, Runtime, TokioRuntime, Transport, TransportError, TransportErrorKind, WireRequest,
    WireResponse,
};
