//! One line that says what becomes of an object, with names in place of ids.

use std::collections::BTreeSet;

use crate::ids::VirtualMachineId;
use crate::observe::index::Observed;
use crate::plan::Step;
use crate::plan::action::{
    AclTarget, Action, AssociateIpAddress, CreateLoadBalancerRule, Placement,
    UpdateLoadBalancerRule,
};
use crate::plan::planner::Planner;

/// Longest list of names before the rest is counted.
const NAMES_SHOWN: usize = 5;

/// Says what the steps do to their object.
pub(super) fn detail(planner: &Planner<'_>, steps: &[&Step]) -> String {
    let observed = planner.observed;
    let mut parts: Vec<String> =
        steps.iter().filter_map(|step| part(observed, &step.action)).collect();
    parts.dedup();
    parts.join("; ")
}

fn part(observed: &Observed, action: &Action) -> Option<String> {
    Some(match action {
        Action::AssociateIpAddress(call) => associate(observed, call),
        Action::CheckAddressUnused(_) => return None,
        Action::DisassociateIpAddress(call) => {
            let found = observed.addresses.get(&call.address);
            let name = found.map_or_else(|| call.address.to_string(), |a| a.address.to_string());
            format!("release {name}")
        }
        Action::CreateLoadBalancerRule(call) => create(call),
        Action::UpdateLoadBalancerRule(call) => update(call),
        Action::DeleteLoadBalancerRule(call) => match observed.rules.get(&call.rule) {
            Some(rule) => format!("delete {:?}", rule.name),
            None => format!("delete {}", call.rule),
        },
        Action::AssignToLoadBalancerRule(call) => {
            format!("members + {}", machines(observed, &call.vms))
        }
        Action::RemoveFromLoadBalancerRule(call) => {
            format!("members - {}", machines(observed, &call.vms))
        }
        Action::CreateFirewallRule(call) => format!("+ {}", call.cidrs),
        Action::DeleteFirewallRule(call) => format!("- {}", call.cidrs),
        Action::CreateNetworkAcl(call) => {
            let list = match &call.target {
                AclTarget::List(id) => format!("in list {id}"),
                AclTarget::Network(_) => "in a new list".to_owned(),
            };
            match call.number {
                Some(number) => format!("allow 0.0.0.0/0 {list}, number {number}"),
                None => format!("allow 0.0.0.0/0 {list}, last"),
            }
        }
        Action::DeleteNetworkAcl(call) => format!("item {}", call.item),
        Action::PatchService(_) => {
            let arguments = super::arguments::arguments(action);
            let names: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
            names.join(", ")
        }
    })
}

fn associate(observed: &Observed, call: &AssociateIpAddress) -> String {
    let place = match &call.placement {
        Placement::Network(id) => {
            let name = observed.networks.get(id).map_or(id.as_str(), |network| &network.name);
            format!("for network {name}")
        }
        Placement::Vpc(id) => {
            let vpcs = observed.vpcs.listed();
            let name = vpcs.and_then(|vpcs| vpcs.get(id)).map_or(id.as_str(), |vpc| &vpc.name);
            format!("for VPC {name}")
        }
    };
    match call.address {
        Some(address) => format!("take {address} {place}"),
        None => format!("take any {place}"),
    }
}

fn create<A>(call: &CreateLoadBalancerRule<A>) -> String {
    let (public, private) = (call.public_port, call.private_port);
    let (protocol, algorithm, sources) = (call.protocol, call.algorithm, &call.sources);
    format!("{public} -> node port {private}, {protocol}, {algorithm}, from {sources}")
}

fn update(call: &UpdateLoadBalancerRule) -> String {
    let mut parts = vec![format!("protocol {}", call.protocol)];
    parts.extend(call.algorithm.map(|algorithm| format!("algorithm {algorithm}")));
    parts.extend(call.sources.as_ref().map(|sources| format!("from {sources}")));
    parts.extend(call.name.as_ref().map(|name| format!("name {name}")));
    parts.join(", ")
}

fn machines(observed: &Observed, vms: &BTreeSet<VirtualMachineId>) -> String {
    let mut names: Vec<&str> = vms
        .iter()
        .map(|id| observed.virtual_machines.get(id).map_or(id.as_str(), |machine| &machine.name))
        .collect();
    names.sort_unstable();
    let shown = names.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(" + ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
