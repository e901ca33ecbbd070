//! The law about the release of an address.

use crate::ids::{LoadBalancerRuleId, PublicIpId};
use crate::observe::AddressState;
use crate::plan::action::{Action, Ref};
use crate::plan::check::case::{Case, broken};
use crate::plan::{Step, StepId};

pub(super) fn unchecked_releases(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |release| {
        let Action::DisassociateIpAddress(call) = &release.action else { return false };
        let allocating = case
            .observed
            .addresses
            .get(&call.address)
            .is_some_and(|found| found.state == AddressState::Allocating);
        let checked = case.plan.steps.iter().any(|step| {
            let checks = matches!(&step.action, Action::CheckAddressUnused(check)
                if check.address == call.address);
            checks && case.waits_for(release, step)
        });
        let others_first = case
            .changes()
            .filter(|step| step.id != release.id && works_on(case, step, &call.address))
            .all(|step| case.waits_for(release, step));
        !(allocating || checked && others_first)
    })
}

fn works_on(case: &Case<'_>, step: &Step, address: &PublicIpId) -> bool {
    let rule_on = |id: &LoadBalancerRuleId| {
        case.observed.rules.get(id).is_some_and(|rule| rule.address == *address)
    };
    match &step.action {
        Action::CreateLoadBalancerRule(call) => call.address == Ref::Existing(address.clone()),
        Action::CreateFirewallRule(call) => call.address == Ref::Existing(address.clone()),
        Action::UpdateLoadBalancerRule(call) => rule_on(&call.rule),
        Action::DeleteLoadBalancerRule(call) => rule_on(&call.rule),
        Action::RemoveFromLoadBalancerRule(call) => rule_on(&call.rule),
        Action::AssignToLoadBalancerRule(call) => match &call.rule {
            Ref::Existing(id) => rule_on(id),
            Ref::Pending(_) => false,
        },
        Action::DeleteFirewallRule(call) => {
            case.observed.firewall_rules_on(address).any(|rule| rule.id == call.rule)
        }
        Action::AssociateIpAddress(_)
        | Action::CheckAddressUnused(_)
        | Action::DisassociateIpAddress(_)
        | Action::CreateNetworkAcl(_)
        | Action::DeleteNetworkAcl(_)
        | Action::CreateTags(_)
        | Action::PatchService(_) => false,
    }
}
