//! Known facts about CloudStack, each pinned.
//!
//! `fixtures/cloudstack/facts.yaml` lists every fact that the API notes (sections 6, 8 and 9) and
//! the observations of a real server (sections 0, 1 and 11) state, with the tests that pin it, or
//! with the reason why the simulator leaves it out. `register.rs` holds that list against the
//! sources. The other files pin what no test beside the code and no recording does.

mod bench;
mod checklist;
mod jobs;
mod observed;
mod parameters;
mod register;
mod traps;
mod versions;
