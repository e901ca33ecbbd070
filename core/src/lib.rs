//! The decisions of cloudstack-ccm: no I/O, no clock, no async.
//!
//! ```text
//! parse ──► model (Desired) ─┐
//! observe::scope             ├─► plan ──► exec (what may run now) ──► render
//! observe (CloudState) ──────┘
//! ```
//!
//! Reading order: [`model`] and [`observe`] for the two inputs, [`plan`] for the decisions,
//! [`exec`] for what happens to a plan. The process that watches a cluster asks [`controllers`],
//! [`election`], [`trigger`] and [`debounce`] whether to act, [`event`] what to tell, and [`reload`]
//! whether to take a changed configuration.

pub mod agenda;
pub mod cidr;
pub mod controllers;
pub mod debounce;
pub mod election;
pub mod event;
pub mod exec;
pub mod ids;
pub mod model;
pub mod node;
pub mod observe;
pub mod parse;
pub mod permission;
pub mod plan;
pub mod reload;
pub mod render;
pub mod text;
mod time;
pub mod trigger;
pub mod vanished;
pub mod version;
