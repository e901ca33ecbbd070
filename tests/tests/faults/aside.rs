//! Lists that are read on the way of something else: before an address is released, after one was
//! associated, and after a release that was refused. A list that does not arrive, or not as a
//! whole, never makes an address look unused, nor a change undone.

use ccm_cloudstack::Command;
use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_simulator::faults::{FaultKind, PageFault};

use crate::changes::{check_done, run_truly};
use crate::faults::{CODES, check_wait, error, lost, turned_away};
use crate::scene::Scene;

/// What is asked for before an address is released. The last one sends the others on its way.
const OF_AN_ADDRESS: [Command; 4] = [
    Command::ListPublicIpAddresses,
    Command::ListLoadBalancerRules,
    Command::ListFirewallRules,
    CHECK,
];
const CHECK: Command = Command::ListPortForwardingRules;

/// Every way in which a list is not read, and whose fault it is.
fn unread() -> Vec<(FaultKind, Fault)> {
    let codes = CODES.iter().map(|(code, fault)| (FaultKind::Before(error(*code)), *fault));
    let lost = lost().into_iter().map(|mishap| (FaultKind::After(mishap), Fault::Transient));
    let stopped = turned_away().into_iter();
    let stopped = stopped.map(|(mishap, fault)| (FaultKind::Before(mishap), fault));
    let pages = [PageFault::Short, PageFault::Duplicated];
    let pages = pages.map(|page| (FaultKind::Page(page), Fault::Transient));
    codes.chain(lost).chain(stopped).chain(pages).collect()
}

/// A list was not read.
fn check_unread(found: Result<String, CallError>, expected: (Fault, Effect), case: &str) {
    let error = found.expect_err(case);
    assert_eq!((error.fault, error.effect), expected, "{case}: {error}");
    check_wait(&error, case);
}

#[test]
fn an_address_is_unused_only_if_every_list_says_so() {
    for list in OF_AN_ADDRESS {
        for (kind, fault) in unread() {
            let case = format!("{} {kind:?}", list.name());
            let scene = Scene::new();
            scene.inject(list, kind.clone(), None);
            let found = scene.run(CHECK);
            if (list, &kind) == (CHECK, &FaultKind::Before(error(432))) {
                // The role may not ask: of port forwards nothing is known then.
                check_done(found, &case);
            } else {
                check_unread(found, (fault, Effect::No), &case);
            }
        }
    }
}

#[test]
fn an_address_was_associated_though_it_can_not_be_read() {
    let listing = Command::ListPublicIpAddresses;
    let stale = (FaultKind::Page(PageFault::Stale), Fault::Cloud);
    for (kind, fault) in unread().into_iter().chain([stale]) {
        let case = format!("associateIpAddress, then {kind:?}");
        let scene = Scene::new();
        scene.inject(listing, kind, None);
        let found = run_truly(&scene, Command::AssociateIpAddress, &case);
        check_unread(found, (fault, Effect::Yes), &case);
    }
}

#[test]
fn a_refused_release_is_unknown_if_the_address_can_not_be_read() {
    let release = Command::DisassociateIpAddress;
    for (kind, _) in unread() {
        let case = format!("{}, then {kind:?}", release.name());
        let scene = Scene::new();
        scene.inject(release, FaultKind::Before(error(530)), None);
        scene.inject(Command::ListPublicIpAddresses, kind, None);
        let found = run_truly(&scene, release, &case);
        check_unread(found, (Fault::Cloud, Effect::Unknown), &case);
    }
}
