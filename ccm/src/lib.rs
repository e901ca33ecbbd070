//! The parts of the `cloudstack-ccm` program.

pub mod config;
