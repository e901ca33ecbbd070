//! Golden plans: for every documented behaviour the plan as people read it, in
//! `fixtures/plans/<area>/<case>.snap`, and as programs read it, in `<case>.json.snap`, each with
//! the events that the controller publishes when it carries out the plan.
//!
//! Each story is told twice, once with the simulator called directly and once through HTTP. Every
//! change in it is executed, a second plan must be empty, and traffic must go where the
//! documentation says.

mod address_table;
mod addresses;
mod adoption;
mod deletion;
mod migration;
mod networks;
mod nodes;
mod options;
mod ports;
mod sources;
mod story;
mod told;
