//! Situations seen in the field, each a test named by its id.

mod address;
mod firewall;
mod member;
mod rule;
mod service;
mod sources;
mod support;
