//! The real binary between a real API server and the simulator over HTTP. `tests/e2e/run` builds
//! what is needed and starts these tests; without it they are ignored.
//!
//! Every test has an API server with etcd, a CloudStack model and controllers of its own: Nodes and
//! the Lease are global to a cluster, and two controllers in one would fight. That costs a few
//! seconds and 350 MB for each test, so `run` lets few of them run at once.

mod adoption;
mod callers;
mod command_line;
mod dry_run;
mod harness;
mod in_pod;
mod kubectl;
mod membership;
mod nodes;
mod permissions;
mod process;
mod quiet;
mod rbac;
mod retries;
mod servers;
mod services;
mod steady;
mod swap_back;
mod traces;
