//! Storms: the real controllers in simulated worlds in which everything goes wrong that can.
//!
//! One seed decides a script (what people, machines and faults do), all latencies and all chance; the
//! same seed tells the same storm, call by call. Time is tokio's paused time: a day takes seconds.
//!
//! | File | Holds |
//! |---|---|
//! | `script.rs` | what happens, as data |
//! | `run.rs` | tells a script: the storm, the calm after it, the end |
//! | `world.rs` | the world at the beginning |
//! | `people.rs` | what people and machines do |
//! | `process.rs` | a process: the real controllers on their real clients |
//! | `turns.rs` | which Service takes its turn when |
//! | `api_server.rs`, `api_client.rs` | Kubernetes, and the way to it |
//! | `cloud.rs`, `request.rs` | CloudStack, and the way to it |
//! | `promise.rs` | what is promised |
//! | `watcher/` | what must never happen |
//! | `settled.rs` | what must be so once all is calm |
//! | `coverage.rs` | which faults struck which commands |
//! | `clock.rs` | time and chance |

mod api_client;
mod api_server;
mod clock;
mod cloud;
pub mod coverage;
mod people;
mod process;
pub mod promise;
mod request;
mod run;
pub mod script;
mod settled;
mod turns;
mod watcher;
mod world;

pub use run::{Outcome, run};
pub use script::{Script, stories};
