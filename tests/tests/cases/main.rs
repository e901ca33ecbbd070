//! Situations seen in the field, each a test named by its id.

mod acl;
mod address;
mod adopted_items;
mod adoption;
mod deletion;
mod firewall;
mod member;
mod orphans;
mod project;
mod real_server;
mod renamed;
mod rule;
mod service;
mod sharing;
mod sources;
mod start;
mod support;
mod tags;
