//! Cases 2: the addresses of a Service.

mod changed;
mod kept;
mod new;
mod proof;
mod requested;

use ccm_core::ids::ServiceKey;
use ccm_tests::lab::{Lab, Setup};

fn asks_for(lab: &Lab, name: &str, address: &str) -> ServiceKey {
    lab.create(name, |raw| raw.load_balancer_ip = Some(address.to_owned()))
}

fn tier_setup() -> Setup {
    Setup::standard().nodes(&["tier1-1", "tier1-2"])
}
