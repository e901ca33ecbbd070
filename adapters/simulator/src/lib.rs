//! An in-memory CloudStack: a synchronous state machine with virtual time, and an HTTP façade that
//! speaks its wire protocol, so that a CloudStack client can not tell the difference.
//!
//! ```text
//! world.yaml ─► World ─► Simulator ◄─ handle(request, now) ─► Response
//!                            │
//!                            ├─ receive(request, now): the same behind injected faults
//!                            ├─ reach(query): what traffic would do, by what the router was last told
//!                            └─ calls(): what was asked, for tests that count
//! ```
//!
//! - Time is an input: `now` comes with every request and never goes back. Jobs take the time that
//!   the world file gives them and overlap; `next_event` tells when the next one ends.
//! - A create command makes its row with the request; what needs the router takes effect at the end
//!   of the job.
//! - Releases differ in one table, `versions.rs`; commands stand in one table, `commands.rs`; each
//!   kind of object has a file under `resources/`.
//! - Behaviour follows what a real 4.23 server answered (`fixtures/cloudstack`) and for other
//!   releases its source.
//!
//! ```
//! use ccm_simulator::{Simulator, World};
//!
//! let world = World::parse(
//!     "
//! version: 1
//! release: 4.22.0.0
//! zone: {name: zone-1}
//! public-range: {from: 203.0.113.10, to: 203.0.113.19}
//! jobs: {default: 2s}
//! accounts: [{name: prod}]
//! networks: [{name: iso-1, owner: prod, cidr: 10.1.1.0/24}]
//! ",
//! )?;
//! let mut simulator = Simulator::new(&world)?;
//! let now = jiff::Timestamp::UNIX_EPOCH;
//! let answer = simulator.call("prod", "listNetworks", &[("name", "iso-1")], now);
//! assert_eq!(answer.status, 200);
//! assert_eq!(simulator.next_event(), None);
//! # Ok::<(), ccm_simulator::WorldError>(())
//! ```

mod access;
mod answer;
mod auth;
mod cidrs;
mod cloud;
mod commands;
mod edits;
mod error;
pub mod faults;
pub mod http;
mod ids;
mod jobs;
mod lists;
mod message;
mod object;
mod operator;
mod params;
mod resources;
mod settings;
mod simulator;
mod table;
#[cfg(test)]
mod testing;
mod throttle;
mod traffic;
#[cfg(test)]
mod version_tests;
mod versions;
mod work;
pub mod world;
mod xml;

pub use crate::edits::EditError;
pub use crate::message::{Method, NoAnswer, Request, Response};
pub use crate::settings::SettingError;
pub use crate::simulator::{LoggedCall, Simulator};
pub use crate::traffic::{Layer, Member, Protocol, Reach, TrafficQuery};
pub use crate::versions::{NotAVersion, Version};
pub use crate::world::{World, WorldError};
