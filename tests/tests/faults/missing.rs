//! Changes of what is not there any more, or belongs to somebody else by now. A deletion finds done
//! what it wanted; everything else is refused.

use ccm_cloudstack::{Command, Verb};
use ccm_core::exec::error::{Effect, Fault};

use crate::changes::{check_done, check_error};
use crate::scene::{Scene, changes};

/// What nobody can take away: a network, and an ACL list.
const ABOUT_WHAT_STAYS: [Command; 2] = [Command::AssociateIpAddress, Command::CreateNetworkAcl];

#[test]
fn what_is_gone_is_deleted_already_and_takes_no_change() {
    for command in changes().filter(|command| !ABOUT_WHAT_STAYS.contains(command)) {
        let scene = Scene::new();
        scene.take_away(command);
        let before = scene.objects();
        let found = scene.run(command);
        assert!(scene.objects() == before, "{} changed something", command.name());
        if matches!(command.verb(), Verb::Delete | Verb::Release) {
            check_done(found, command.name());
            continue;
        }
        // Of an address that nobody holds CloudStack says that it is not the caller's.
        let is_denied = command == Command::CreateFirewallRule;
        let fault = if is_denied { Fault::Permission } else { Fault::Refused };
        check_error(found, command, (fault, Effect::No), command.name());
    }
}

/// A release is refused in its job, by a code that has many meanings: nobody can tell that nothing
/// was revoked.
#[test]
fn an_address_of_somebody_else_takes_no_change() {
    for (command, effect) in [
        (Command::CreateLoadBalancerRule, Effect::No),
        (Command::CreateFirewallRule, Effect::No),
        (Command::DisassociateIpAddress, Effect::Unknown),
    ] {
        let scene = Scene::new();
        scene.give_the_address_away();
        let before = scene.objects();
        let found = scene.run(command);
        assert!(scene.objects() == before, "{} changed something", command.name());
        check_error(found, command, (Fault::Permission, effect), command.name());
    }
}
