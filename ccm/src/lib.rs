//! The parts of the `cloudstack-ccm` program.

pub mod config;
pub mod driver;
pub mod ports;
