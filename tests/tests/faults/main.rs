//! The client held against every fault: whatever happens to a request, what it reports to the core
//! is true.
//!
//! For each command of [`Command::ALL`](ccm_cloudstack::Command) and each fault of a table the
//! operation that sends the command is run in a fresh world. The report is compared with the table
//! (whose fault, whether it took effect, how long to wait), and with the world: what is reported as
//! done changed it, what is reported as without effect did not, and a list is whole or an error.

mod aside;
mod changes;
mod faults;
mod jobs;
mod missing;
mod reads;
mod scene;
mod wedged;
mod wire;
