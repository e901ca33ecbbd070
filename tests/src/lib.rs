//! Helpers of the tests: a laboratory (simulator, real client, in-memory cluster, virtual time), a
//! replayer of recordings, and independent restatements of the rules that every plan must keep.

pub mod door;
pub mod interrupted;
pub mod lab;
pub mod oracle;
pub mod recorded;
pub mod replay;
