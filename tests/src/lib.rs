//! Helpers of the tests: a laboratory (simulator, real client, in-memory cluster, virtual time), a
//! replayer of recordings, the schema of plans, and independent restatements of the rules that every plan must keep.

pub mod collector;
pub mod converged;
pub mod deploy;
pub mod docs;
pub mod door;
pub mod garble;
pub mod interrupted;
pub mod lab;
pub mod large;
pub mod log;
pub mod mutants;
pub mod mutate;
pub mod objects;
pub mod oracle;
pub mod recorded;
pub mod register;
pub mod replay;
pub mod rotation;
pub mod schema;
pub mod storm;
pub mod trouble;
pub mod wish;
