//! The parts of the `cloudstack-ccm` program.
//!
//! `main.rs` hands over to [`commands::run`]: `cli/` says what can be asked for, `commands/` does
//! it, with `connect.rs` (configuration to client), `saved.rs` (files of plans and snapshots) and
//! `console.rs` (stdout for results, stderr for everything else). Without a command it is
//! `controller/`.

pub mod cli;
pub mod commands;
pub mod config;
mod connect;
mod console;
pub mod controller;
pub mod driver;
mod files;
pub mod metrics;
mod moved;
pub mod ports;
mod progress;
pub mod pseudonym;
pub mod saved;
pub mod serve;
mod signal;
pub mod traces;
