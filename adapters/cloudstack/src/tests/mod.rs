//! The client against scripted answers, in virtual time.

use crate::{Client, HttpTransport, TokioRuntime};

/// The controllers spawn what they call.
#[test]
fn futures_can_be_spawned() {
    fn sendable<V: Send>(_: V) {}
    fn check(client: &Client<HttpTransport, TokioRuntime>) {
        sendable(client.discover());
        sendable(client.observe(&ccm_core::observe::scope::Scope::default()));
        sendable(client.members(&std::collections::BTreeSet::new()));
    }
    fn call(client: &Client<HttpTransport, TokioRuntime>, call: &ccm_core::plan::action::Call) {
        sendable(client.call(call));
    }
    let _ = (check, call);
}
