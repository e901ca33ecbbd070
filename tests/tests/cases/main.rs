//! Situations seen in the field, each a test named by its id.

mod address;
mod service;
mod support;
