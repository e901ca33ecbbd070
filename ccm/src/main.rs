//! The `cloudstack-ccm` binary.
fn main() {}
