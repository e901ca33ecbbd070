//! The real binary: exit codes, what it prints where, and what it never prints.

mod demo;
mod errors;
mod harness;
mod moved;
mod offline;
mod secrets;
mod sequence;
