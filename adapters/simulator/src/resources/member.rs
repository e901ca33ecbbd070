//! Members of load-balancer rules: VMs with the address at which the router finds them.
//!
//! An assign maps its VMs when the job starts, so they are listed while it runs; the router learns
//! of them at its end. A removal marks them when it starts, and they stay listed until its end.
//! Either happens as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::answer::Answer;
use crate::cloud::{Cloud, RuleState};
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Work, success};
use crate::lists::whole_answer;
use crate::object::Object;
use crate::resources::load_balancer_rule::{
    LoadBalancerRule, PushError, changeable, doubled, push,
};
use crate::resources::network::Network;
use crate::resources::virtual_machine::{self, Details, VirtualMachine};
use crate::table::Key;
use crate::versions::Feature;

/// An assign under way.
#[derive(Debug, Clone)]
pub(crate) struct Assigned {
    pub(crate) rule: Key<LoadBalancerRule>,
    /// What a refused push takes away again.
    added: Vec<Mapping>,
    /// The state that it brings back.
    state: RuleState,
}

/// A removal under way.
#[derive(Debug, Clone)]
pub(crate) struct Removed {
    pub(crate) rule: Key<LoadBalancerRule>,
    /// What a refused push keeps.
    revoked: Vec<Mapping>,
    /// The state that it brings back.
    state: RuleState,
}

/// A VM mapped to a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) vm: Key<VirtualMachine>,
    /// Where it has the address; of a VPC in conserve mode not always the rule's.
    pub(crate) network: Key<Network>,
    pub(crate) address: String,
    /// Taken away, still listed until the push.
    pub(crate) revoked: bool,
}

pub(crate) const PARAMS: &[Param] = &[
    must("id", Kind::Id(Entity::LoadBalancerRule)),
    may("virtualmachineids", Kind::Ids(Entity::VirtualMachine)),
    may("vmidipmap", Kind::Map),
];

pub(crate) const LIST_PARAMS: &[Param] = &[
    must("id", Kind::Id(Entity::LoadBalancerRule)),
    may("applied", Kind::Flag),
    may("lbvmips", Kind::Flag),
];

/// listLoadBalancerRuleInstances. Page parameters are ignored; destroyed VMs are hidden although
/// mapped.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let row = params.key::<LoadBalancerRule>("id").and_then(|key| cloud.rules.get(key));
    let Some(row) = row else {
        return Err(ApiError::internal(4250));
    };
    if !cloud.may_use(call.caller, row.owner) {
        return Err(ApiError::permission());
    }
    if params.flag("applied") == Some(false) {
        return Ok(Object::new().into());
    }
    let members: Vec<_> = grouped(row)
        .into_iter()
        .filter_map(|(vm, addresses)| Some((cloud.vms.get(vm)?, addresses)))
        .filter(|(vm, _)| vm.is_visible())
        .collect();
    let with_addresses = params.flag("lbvmips") == Some(true);
    let key = if with_addresses { "lbrulevmidip" } else { "loadbalancerruleinstance" };
    let details = Details::all();
    let render = virtual_machine::renderer(cloud, &details);
    Ok(whole_answer(cloud, key, members.len(), members, |(vm, addresses)| {
        let shown = render(vm);
        if with_addresses {
            Object::new().with("loadbalancerruleinstance", shown).with("lbvmipaddresses", addresses)
        } else {
            shown
        }
    }))
}

/// The members by their own age, each once with all its addresses.
fn grouped(row: &LoadBalancerRule) -> BTreeMap<Key<VirtualMachine>, Vec<String>> {
    let mut groups: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for mapping in &row.members {
        groups.entry(mapping.vm).or_default().push(mapping.address.clone());
    }
    groups
}

/// assignToLoadBalancerRule: every VM is checked before the first is mapped.
pub(crate) fn start_assign(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let (key, row) = changeable(cloud, call).map_err(|failure| {
        // Only a rule that is gone keeps its own code and text.
        if failure.code == 431 { failure } else { assign_failure(cloud, &failure.text) }
    })?;
    let added = wanted(cloud, call)
        .and_then(|wanted| {
            wanted
                .into_iter()
                .map(|wanted| check_vm(cloud, call, row, wanted))
                .collect::<Result<Vec<Mapping>, String>>()
        })
        .map_err(|reason| assign_failure(cloud, &reason))?;
    let state = row.state;
    if let Some(row) = cloud.rules.get_mut(key) {
        row.state = RuleState::Add;
        row.members.extend(added.iter().cloned());
    }
    Ok(Work::MembersAssigned(Assigned { rule: key, added, state }))
}

/// The end of an assign. A refused push undoes all of it.
pub(crate) fn finish_assign(cloud: &mut Cloud, assigned: &Assigned) -> Result<Value, JobFailure> {
    let Assigned { rule, added, state } = assigned;
    match push(cloud, *rule) {
        Ok(()) => return Ok(success()),
        Err(PushError::Doubled) => return Err(doubled()),
        Err(PushError::Refused) => {}
    }
    if let Some(row) = cloud.rules.get_mut(*rule) {
        row.members.retain(|mapping| !added.contains(mapping));
        row.state = *state;
    }
    let vms = numbers(added);
    Err(assign_failure(
        cloud,
        &format!("Failed to add specified loadbalancerruleid for Instances {vms}"),
    ))
}

/// The database numbers of VMs as error texts show them: `[5, 6]`.
fn numbers(mappings: &[Mapping]) -> String {
    let numbers: BTreeSet<u64> = mappings.iter().map(|mapping| mapping.vm.number()).collect();
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

/// Up to 4.22 the text gives no reason.
fn assign_failure(cloud: &Cloud, reason: &str) -> JobFailure {
    if cloud.version.has(Feature::AssignErrorReason) {
        JobFailure::internal(format!("Failed to assign load balancer rule due to: {reason}"))
    } else {
        JobFailure::internal("Failed to assign load balancer rule")
    }
}

/// A VM as asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    vm: Key<VirtualMachine>,
    /// `None` means the primary address.
    address: Option<String>,
    /// Of a VPC in conserve mode, the tier in which the address is.
    tier: Option<Key<Network>>,
}

/// The VMs of both parameters, each once.
fn wanted(cloud: &Cloud, call: &Call) -> Result<Vec<Wanted>, String> {
    let ids = call.params.keys::<VirtualMachine>("virtualmachineids");
    let map = call.params.map("vmidipmap");
    if ids.is_none() && map.is_none() {
        return Err("Both instanceids and vmidipmap  can't be null".to_owned());
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    for vm in ids.unwrap_or_default() {
        wanted.push(Wanted { vm, address: None, tier: None });
    }
    for fields in map.into_iter().flat_map(BTreeMap::values) {
        let id = fields.get("vmid").map(String::as_str).unwrap_or_default();
        let vm =
            cloud.vms.find(id).ok_or_else(|| format!("Unable to find virtual machine ID: {id}"))?;
        let tier = fields.get("vmnetworkid").and_then(|id| cloud.networks.find(id));
        wanted.push(Wanted { vm, address: fields.get("vmip").cloned(), tier });
    }
    let mut seen = BTreeSet::new();
    wanted.retain(|pair| seen.insert(pair.clone()));
    Ok(wanted)
}

fn check_vm(
    cloud: &Cloud,
    call: &Call,
    row: &LoadBalancerRule,
    wanted: Wanted,
) -> Result<Mapping, String> {
    let Wanted { vm: key, address, tier } = wanted;
    let Some(vm) = cloud.vms.get(key).filter(|vm| vm.is_visible()) else {
        return Err("Invalid instance id specified".to_owned());
    };
    if !cloud.may_use(call.caller, vm.owner) {
        return Err(JobFailure::permission().text);
    }
    let vpc = cloud.networks.get(row.network).and_then(Network::vpc);
    let conserves = vpc.and_then(|vpc| cloud.vpcs.get(vpc)).is_some_and(|vpc| vpc.conserves(cloud));
    let tier =
        tier.filter(|tier| conserves && cloud.networks.get(*tier).and_then(Network::vpc) == vpc);
    let Some(nic) = vm.nic_in(tier.unwrap_or(row.network)) else {
        return Err(if conserves {
            "VM with id specified cannot be added to the load balancing rule for VPC Conserve Mode."
        } else {
            "VM with id specified cannot be added because it doesn't belong in the same network."
        }
        .to_owned());
    };
    let address = address.unwrap_or_else(|| nic.address.clone());
    if !nic.holds(&address) {
        return Err(format!(
            "Instance IP {address} specified does not belong to NIC in Network {}",
            row.network.number()
        ));
    }
    // One that is being removed does not count, and is then mapped twice.
    let mapped = row
        .members
        .iter()
        .any(|mapping| !mapping.revoked && mapping.vm == key && mapping.address == address);
    if mapped {
        return Err(format!(
            "VM {} with {address} is already mapped to load balancer.",
            key.number()
        ));
    }
    Ok(Mapping { vm: key, network: nic.network, address, revoked: false })
}

/// removeFromLoadBalancerRule. By VM all its addresses go, and unmapped VMs are no error; by
/// address an unmapped pair is one, and leaves the rule in state Add.
pub(crate) fn start_remove(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let refused = || JobFailure::invalid("Failed to remove Instance from load balancer rule");
    let (key, row) = changeable(cloud, call)?;
    let wanted = wanted(cloud, call).map_err(|_| refused())?;
    let state = row.state;
    let mut members = row.members.clone();
    let mut revoked = Vec::new();
    let mut all_mapped = true;
    for Wanted { vm, address, .. } in wanted {
        let mut found = false;
        for mapping in &mut members {
            if mapping.vm == vm
                && address.as_ref().is_none_or(|address| mapping.address == *address)
            {
                mapping.revoked = true;
                revoked.push(mapping.clone());
                found = true;
            }
        }
        all_mapped &= found || address.is_none();
    }
    let Some(row) = cloud.rules.get_mut(key) else {
        return Err(refused());
    };
    row.state = RuleState::Add;
    if !all_mapped {
        return Err(refused());
    }
    row.members = members;
    Ok(Work::MembersRemoved(Removed { rule: key, revoked, state }))
}

/// The end of a removal. A refused push undoes all of it.
pub(crate) fn finish_remove(cloud: &mut Cloud, removed: &Removed) -> Result<Value, JobFailure> {
    let Removed { rule, revoked, state } = removed;
    match push(cloud, *rule) {
        Ok(()) => return Ok(success()),
        Err(PushError::Doubled) => return Err(doubled()),
        Err(PushError::Refused) => {}
    }
    if let Some(row) = cloud.rules.get_mut(*rule) {
        for mapping in row.members.iter_mut().filter(|mapping| revoked.contains(mapping)) {
            mapping.revoked = false;
        }
        row.state = *state;
    }
    let vms = numbers(revoked);
    Err(JobFailure::internal(format!(
        "Failed to remove specified load balancer rule ID for Instances {vms}"
    )))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    fn members(lab: &mut Lab, rule: &str) -> Vec<String> {
        let rows = lab.rows("listLoadBalancerRuleInstances", &[("id", rule), ("lbvmips", "true")]);
        rows.iter()
            .map(|row| {
                let name = text(&row["loadbalancerruleinstance"]["name"]);
                let addresses: Vec<String> =
                    row["lbvmipaddresses"].as_array().unwrap().iter().map(text).collect();
                format!("{name} {}", addresses.join(" "))
            })
            .collect()
    }

    #[test]
    fn a_vpc_in_conserve_mode_takes_machines_of_other_tiers_by_their_tier() {
        let mut lab = Lab::new();
        lab.simulator.cloud.vpcs.iter_mut().for_each(|(_, vpc)| vpc.conserve_mode = true);
        let address = lab.address("203.0.113.3");
        let [tier, allow] = ["tier", "allow"].map(|name| lab.id("listNetworks", name));
        let in_allow = [("networkid", allow.as_str()), ("openfirewall", "ABSENT")];
        let rule = lab.rule_on(&address, "80", &in_allow);
        let vm = lab.id("listVirtualMachines", "tnode-1");
        let by_id = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        let (code, reason) = lab.fails("assignToLoadBalancerRule", &by_id);
        assert_eq!(code, 530);
        assert!(reason.ends_with("for VPC Conserve Mode."), "{reason}");
        let mut map = vec![
            ("id", rule.as_str()),
            ("vmidipmap[0].vmid", vm.as_str()),
            ("vmidipmap[0].vmip", "10.2.1.11"),
        ];
        assert_eq!(lab.fails("assignToLoadBalancerRule", &map).1, reason);
        map.push(("vmidipmap[0].vmnetworkid", tier.as_str()));
        lab.run("assignToLoadBalancerRule", &map);
        assert_eq!(members(&mut lab, &rule), ["tnode-1 10.2.1.11"]);
        let reach = lab.reach("192.0.2.1", "203.0.113.3", 80);
        assert_eq!(reach.members.len(), 1);
    }

    #[test]
    fn a_vm_is_listed_while_its_assign_runs_and_the_rule_active_after() {
        let mut lab = Lab::slow(5);
        let rule = lab.rule("80", &[]);
        let vm = lab.id("listVirtualMachines", "node-1");
        lab.wait(5);
        lab.ask("assignToLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
        assert_eq!(members(&mut lab, &rule), ["node-1 10.1.1.11"]);
        assert_eq!(lab.listed_rule(&rule)["state"], "Add");
        lab.wait(5);
        assert_eq!(lab.listed_rule(&rule)["state"], "Active");
        lab.ask("removeFromLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
        assert_eq!(members(&mut lab, &rule), ["node-1 10.1.1.11"]);
        lab.wait(5);
        assert_eq!(members(&mut lab, &rule), [""; 0]);
        assert_eq!(lab.listed_rule(&rule)["state"], "Add");
    }

    #[test]
    fn an_assign_fails_as_a_whole_and_says_why() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        lab.assign(&rule, &["node-1"]);
        let id = |lab: &mut Lab, name: &str| lab.id("listVirtualMachines", name);
        let (first, second) = (id(&mut lab, "node-1"), id(&mut lab, "node-2"));
        let (tier, stranger) = (id(&mut lab, "tnode-1"), id(&mut lab, "stranger"));
        let both = format!("{second},{first}");
        let mut cause = |vms: &str| {
            let (code, text) =
                lab.fails("assignToLoadBalancerRule", &[("id", &rule), ("virtualmachineids", vms)]);
            assert_eq!(code, 530);
            text.trim_start_matches("Failed to assign load balancer rule due to: ").to_owned()
        };
        assert_eq!(cause(&both), "VM 1 with 10.1.1.11 is already mapped to load balancer.");
        assert_eq!(
            cause(&tier),
            "VM with id specified cannot be added because it doesn't belong in the same network."
        );
        assert_eq!(
            cause(&stranger),
            "Caller does not have permission to operate with provided resource."
        );
        assert_eq!(members(&mut lab, &rule), ["node-1 10.1.1.11"]);
        let (_, nothing) = lab.fails("assignToLoadBalancerRule", &[("id", &rule)]);
        assert!(nothing.ends_with("Both instanceids and vmidipmap  can't be null"));
        lab.run("assignToLoadBalancerRule", &[("id", &rule), ("virtualmachineids", "")]);
        let twice = format!("{second},{second}");
        lab.run("assignToLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &twice)]);
    }

    #[test]
    fn up_to_4_22_a_failed_assign_gives_no_reason() {
        let mut lab = Lab::on("4.22.0");
        let rule = lab.rule("80", &[]);
        let vm = lab.id("listVirtualMachines", "tnode-1");
        let failure =
            lab.fails("assignToLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
        assert_eq!(failure, (530, "Failed to assign load balancer rule".to_owned()));
    }

    #[test]
    fn one_vm_may_have_two_addresses() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let vm = lab.id("listVirtualMachines", "node-2");
        let params = [
            ("id", rule.as_str()),
            ("virtualmachineids", &vm),
            ("vmidipmap[0].vmid", &vm),
            ("vmidipmap[0].vmip", "10.1.1.112"),
        ];
        lab.run("assignToLoadBalancerRule", &params);
        assert_eq!(members(&mut lab, &rule), ["node-2 10.1.1.12 10.1.1.112"]);
        let one = [
            ("id", rule.as_str()),
            ("vmidipmap[0].vmid", &vm),
            ("vmidipmap[0].vmip", "10.1.1.112"),
        ];
        lab.run("removeFromLoadBalancerRule", &one);
        assert_eq!(members(&mut lab, &rule), ["node-2 10.1.1.12"]);
        // The same pair again is an error that leaves the rule in state Add.
        assert_eq!(lab.fails("removeFromLoadBalancerRule", &one).0, 431);
        assert_eq!(lab.listed_rule(&rule)["state"], "Add");
        let foreign = [
            ("id", rule.as_str()),
            ("vmidipmap[0].vmid", &vm),
            ("vmidipmap[0].vmip", "10.1.1.250"),
        ];
        assert!(
            lab.fails("assignToLoadBalancerRule", &foreign)
                .1
                .contains("does not belong to NIC in Network")
        );
    }

    #[test]
    fn removing_what_is_not_there_succeeds_by_id() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let vm = lab.id("listVirtualMachines", "node-1");
        lab.run("removeFromLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
        assert_eq!(lab.fails("removeFromLoadBalancerRule", &[("id", &rule)]).0, 431);
        lab.assign(&rule, &["node-1"]);
        assert_eq!(
            lab.rows("listLoadBalancerRuleInstances", &[("id", &rule), ("applied", "false")]).len(),
            0
        );
        let plain = lab.rows("listLoadBalancerRuleInstances", &[("id", &rule)]);
        assert_eq!(plain[0]["name"], "node-1");
    }
}
