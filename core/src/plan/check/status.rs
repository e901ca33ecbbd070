//! Laws about the published status.

#![expect(clippy::wildcard_enum_match_arm, reason = "each law looks at a few kinds of action")]

use std::collections::BTreeSet;

use crate::ids::{FirewallRuleId, NetworkId, VirtualMachineId};
use crate::model::service::Port;
use crate::observe::LoadBalancerRule;
use crate::observe::ownership::port_of;
use crate::plan::action::{Action, IngressDraft, PlannedPatch, Ref};
use crate::plan::check::case::Case;
use crate::plan::{Step, StepId};

/// Where the firewall decides: an isolated network lists this among its services.
const FIREWALL: &str = "Firewall";

pub(super) fn early_status(case: &Case<'_>) -> Vec<StepId> {
    let promises = |patch: &PlannedPatch| {
        matches!(patch.ingress, Some(IngressDraft::Address { .. } | IngressDraft::Hostname(_)))
    };
    let early = |status: &Step| {
        case.changes().filter(|step| makes(step)).any(|s| !case.waits_for(status, s))
    };
    let published = case.patches().filter(|(_, patch)| promises(patch));
    let broken = published.filter(|(status, _)| early(status) || is_hollow(case));
    broken.map(|(step, _)| step.id.clone()).collect()
}

pub(super) fn piecemeal_status(case: &Case<'_>) -> Vec<StepId> {
    let writes = case.patches().filter(|(_, patch)| patch.ingress.is_some());
    writes.skip(1).map(|(step, _)| step.id.clone()).collect()
}

fn makes(step: &Step) -> bool {
    matches!(
        step.action,
        Action::AssociateIpAddress(_)
            | Action::CreateLoadBalancerRule(_)
            | Action::UpdateLoadBalancerRule(_)
            | Action::AssignToLoadBalancerRule(_)
            | Action::CreateFirewallRule(_)
            | Action::CreateNetworkAcl(_)
    )
}

/// Whether some port that the Service asks for ends without members, or closed.
fn is_hollow(case: &Case<'_>) -> bool {
    let made = case.changes().filter_map(|step| match &step.action {
        Action::CreateLoadBalancerRule(create) => Some((step, create)),
        _ => None,
    });
    let mut made = made.map(|(step, create)| {
        let port = Port { transport: create.protocol.transport(), number: create.public_port };
        let assigned = case.changes().any(|assign| {
            matches!(&assign.action, Action::AssignToLoadBalancerRule(call)
                if call.rule.pending() == Some(&step.id))
        });
        assigned && is_open(case, &create.address.to_string(), port, &create.network)
    });
    let mut kept =
        case.staying_rules().filter(|rule| case.asks_for(port_of(rule))).filter(|rule| {
            // One that is made again is looked at above.
            !case.changes().any(|s| case.deleted_rule(s).is_some_and(|found| found.id == rule.id))
        });
    made.any(|fine| !fine)
        || kept.any(|rule| {
            let (address, port) = (rule.address.to_string(), port_of(rule));
            !has_members(case, rule) || !is_open(case, &address, port, &rule.network)
        })
}

/// Whether a rule has members when the plan is through. Members that nobody read are vouched for.
fn has_members(case: &Case<'_>, rule: &LoadBalancerRule) -> bool {
    let Some(now) = case.observed.members.get(&rule.id) else { return true };
    let mut members: BTreeSet<&VirtualMachineId> = now.iter().collect();
    for step in case.changes() {
        match &step.action {
            Action::AssignToLoadBalancerRule(call)
                if call.rule == Ref::Existing(rule.id.clone()) =>
            {
                members.extend(&call.vms);
            }
            Action::RemoveFromLoadBalancerRule(call) if call.rule == rule.id => {
                members.retain(|vm| !call.vms.contains(*vm));
            }
            _ => {}
        }
    }
    !members.is_empty()
}

/// Whether the firewall of an isolated network lets anybody in when the plan is through.
fn is_open(case: &Case<'_>, address: &str, port: Port, network: &NetworkId) -> bool {
    let firewalled =
        case.observed.networks.get(network).is_some_and(|network| {
            network.vpc.is_none() && network.services.contains_key(FIREWALL)
        });
    let closed = |id: &FirewallRuleId| {
        case.changes().any(|s| case.closed_rule(s).is_some_and(|r| r.id == *id))
    };
    let mut addresses = case.observed.addresses.keys().filter(|id| id.as_str() == address);
    let stays = addresses.any(|id| {
        let mut rules = case.observed.firewall_rules_on(id);
        rules.any(|rule| rule.covers(port) && !closed(&rule.id))
    });
    let made = case.changes().any(|step| {
        matches!(&step.action, Action::CreateFirewallRule(create)
            if create.port == port && create.address.to_string() == address)
    });
    !firewalled || stays || made
}
