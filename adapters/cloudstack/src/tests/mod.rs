//! The client against scripted answers, in virtual time.

mod addresses;
mod changes;
mod metering;
mod observing;
mod paging;
mod secrets;
mod support;
mod throttling;
mod tls;

use std::collections::BTreeSet;

use ccm_core::observe::scope::Scope;
use ccm_core::plan::action::Call;

use crate::{Client, HttpTransport, TokioRuntime};

/// The controllers spawn what they call.
#[test]
fn futures_can_be_spawned() {
    fn sendable<V: Send>(_: V) {}
    fn check(client: &Client<HttpTransport, TokioRuntime>, call: &Call) {
        sendable(client.discover());
        sendable(client.observe(&Scope::default()));
        sendable(client.members(&BTreeSet::new()));
        sendable(client.call(call));
    }
    let _ = check;
}
