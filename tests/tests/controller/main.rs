//! The controllers, as the process runs them, in paused time: the real queue, the real client and
//! the simulator, a cluster in memory behind the ports. Hours pass in moments, and the same story
//! always takes the same course.

mod absence;
mod contract;
mod economy;
mod interleaved;
mod liveness;
mod nodes;
mod reload;
mod services;
mod stage;
mod traces;
mod triggers;
mod vanished;
