//! What the test binaries share.

pub mod replay;
