//! Network interfaces of virtual machines: added, removed, made the default one, given further
//! addresses.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work, success};
use crate::resources::network::Network;
use crate::resources::virtual_machine::{Details, VirtualMachine};
use crate::resources::vm_life::{self, Change};
use crate::table::Key;

pub(crate) const ADD_PARAMS: &[Param] = &[
    must("virtualmachineid", Kind::Id(Entity::VirtualMachine)),
    must("networkid", Kind::Id(Entity::Network)),
    may("ipaddress", Kind::Text),
];

pub(crate) const NIC_PARAMS: &[Param] =
    &[must("virtualmachineid", Kind::Id(Entity::VirtualMachine)), must("nicid", Kind::Text)];

pub(crate) const ADD_ADDRESS_PARAMS: &[Param] =
    &[must("nicid", Kind::Text), may("ipaddress", Kind::Text)];

pub(crate) const REMOVE_ADDRESS_PARAMS: &[Param] = &[must("id", Kind::Text)];

/// addNicToVirtualMachine, with the request.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn accept_add(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    Ok(vm_life::accepted(cloud, asked_vm(call)))
}

/// addNicToVirtualMachine, in the job: the new interface is the last one.
pub(crate) fn start_add(cloud: &mut Cloud, call: &Call, _: &Accepted) -> Result<Work, JobFailure> {
    let vm = changeable(cloud, call)?;
    let network = call.params.required::<Network>("networkid");
    let owner = cloud.networks.get(network).map(|row| row.owner);
    if !owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        return Err(JobFailure::permission());
    }
    if cloud.vms.get(vm).is_some_and(|row| row.nic_in(network).is_some()) {
        return Err(JobFailure::invalid("A NIC already exists for VM in the network"));
    }
    let nic = vm_life::new_nic(cloud, network, asked_address(call)?, false)?;
    if let Some(row) = cloud.vms.get_mut(vm) {
        row.nics.push(nic);
    }
    Ok(shown(vm))
}

/// removeNicFromVirtualMachine: neither the default interface nor one at which a rule finds the
/// machine.
pub(crate) fn start_remove(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let vm = changeable(cloud, call)?;
    let at = asked_nic(cloud, call, vm)?;
    let nic = cloud.vms.get(vm).and_then(|row| row.nics.get(at));
    if nic.is_some_and(|nic| nic.default) {
        return Err(JobFailure::invalid("Unable to remove nic, nic is default."));
    }
    let network = nic.map(|nic| nic.network);
    let mut mappings = cloud.rules.iter().flat_map(|(_, rule)| &rule.members);
    if mappings.any(|mapping| mapping.vm == vm && Some(mapping.network) == network) {
        return Err(JobFailure::invalid(
            "Unable to remove nic, nic has load balancing rules associated with it.",
        ));
    }
    if let Some(row) = cloud.vms.get_mut(vm) {
        row.nics.remove(at);
    }
    Ok(shown(vm))
}

/// updateDefaultNicForVirtualMachine: the new default interface changes places with the old one,
/// and so do their device ids.
pub(crate) fn start_default(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let vm = changeable(cloud, call)?;
    let at = asked_nic(cloud, call, vm)?;
    if let Some(row) = cloud.vms.get_mut(vm) {
        let old = row.nics.iter().position(|nic| nic.default).unwrap_or(at);
        row.nics.swap(old, at);
        for (device, nic) in row.nics.iter_mut().enumerate() {
            nic.default = device == old;
        }
    }
    Ok(shown(vm))
}

/// The machine as result, with its interfaces and little else.
fn shown(vm: Key<VirtualMachine>) -> Work {
    Work::VmChanged { vm, change: Change::Nothing, details: Details::nics() }
}

fn asked_vm(call: &Call) -> Key<VirtualMachine> {
    call.params.required("virtualmachineid")
}

fn changeable(cloud: &Cloud, call: &Call) -> Result<Key<VirtualMachine>, JobFailure> {
    let vm = asked_vm(call);
    vm_life::check_changeable(cloud, call, vm)?;
    Ok(vm)
}

/// The guest address asked for (checked in `UserVmManagerImpl`).
fn asked_address(call: &Call) -> Result<Option<Ipv4Addr>, ApiError> {
    let parsed = call.params.filled("ipaddress").map(|text| {
        text.parse().map_err(|_| {
            ApiError::invalid(format!("Invalid format for IP address parameter: {text}"))
        })
    });
    parsed.transpose()
}

fn asked_nic(cloud: &Cloud, call: &Call, vm: Key<VirtualMachine>) -> Result<usize, JobFailure> {
    let id = call.params.text("nicid").unwrap_or_default();
    let row = cloud.vms.get(vm);
    row.and_then(|row| row.nics.iter().position(|nic| nic.id.eq_ignore_ascii_case(id)))
        .ok_or_else(|| JobFailure::invalid(format!("Unable to find a nic with id {id}")))
}

/// addIpToNic, with the request: the address, by default the lowest free one.
pub(crate) fn accept_add_address(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let nic_id = call.params.text("nicid").unwrap_or_default();
    let found = cloud.vms.iter().find_map(|(key, row)| {
        let nic = row.nics.iter().find(|nic| nic.id.eq_ignore_ascii_case(nic_id))?;
        Some((key, row.owner, nic.network))
    });
    let Some((vm, owner, network)) = found else {
        return Err(ApiError::invalid("Unable to find a nic by id"));
    };
    if !cloud.may_use(call.caller, owner) {
        return Err(ApiError::permission());
    }
    let address = vm_life::guest_address(cloud, network, asked_address(call)?)?.to_string();
    let id = cloud.ids.next_id();
    if let Some(row) = cloud.vms.get_mut(vm) {
        for nic in row.nics.iter_mut().filter(|nic| nic.id.eq_ignore_ascii_case(nic_id)) {
            nic.secondary.push((id.clone(), address.clone()));
        }
    }
    let instance = Some(Instance { kind: "IpAddress", id: Some(id.clone()) });
    Ok(Accepted { id: Some(id), number: vm.number(), instance })
}

/// addIpToNic, in the job.
pub(crate) fn start_add_address(
    cloud: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let wanted = accepted.id.as_deref().unwrap_or_default();
    let row = cloud.vms.get(Key::of(accepted.number));
    let found = row.and_then(|row| {
        row.nics.iter().find_map(|nic| {
            let (id, address) = nic.secondary.iter().find(|(id, _)| id == wanted)?;
            let network = cloud.networks.get(nic.network).map(|network| network.id.as_str());
            Some(json!({"id": id, "ipaddress": address, "nicid": nic.id, "networkid": network}))
        })
    });
    match found {
        Some(shown) => Ok(Work::Done(json!({"nicsecondaryip": shown}))),
        None => Err(JobFailure::internal("Failed to assign secondary ip to nic")),
    }
}

/// removeIpFromNic: an address that serves a rule stays.
pub(crate) fn start_remove_address(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let wanted = call.params.text("id").unwrap_or_default();
    let found = cloud.vms.iter().find_map(|(key, row)| {
        let mut all = row.nics.iter().flat_map(|nic| &nic.secondary);
        let (_, address) = all.find(|(id, _)| id.eq_ignore_ascii_case(wanted))?;
        Some((key, row.owner, address.clone()))
    });
    let Some((vm, owner, address)) = found else {
        return Err(JobFailure::invalid("Unable to find secondary ip address by id"));
    };
    if !cloud.may_use(call.caller, owner) {
        return Err(JobFailure::permission());
    }
    let is_member = cloud.rules.iter().any(|(_, rule)| {
        rule.members.iter().any(|mapping| mapping.vm == vm && mapping.address == address)
    });
    if is_member {
        return Err(JobFailure::invalid(format!(
            "Can' remove the ip {address} is associate with load balancing rule"
        )));
    }
    if let Some(row) = cloud.vms.get_mut(vm) {
        for nic in &mut row.nics {
            nic.secondary.retain(|(id, _)| !id.eq_ignore_ascii_case(wanted));
        }
    }
    let done: Value = success();
    Ok(Work::Done(done))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    #[test]
    fn the_default_interface_is_the_first_device() {
        let mut lab = Lab::new();
        let vm = lab.id("listVirtualMachines", "node-1");
        let network = lab.id("listNetworks", "idle");
        let add = [("virtualmachineid", vm.as_str()), ("networkid", network.as_str())];
        let job = lab.run("addNicToVirtualMachine", &add);
        let shown = &job["virtualmachine"];
        assert_eq!((&shown["ipaddress"], shown.get("memory")), (&"10.1.1.11".into(), None));
        let (old, new) = (text(&shown["nic"][0]["id"]), text(&shown["nic"][1]["id"]));
        assert_eq!(lab.fails("addNicToVirtualMachine", &add).0, 431);
        let nic = |id| [("virtualmachineid", vm.as_str()), ("nicid", id)];
        let job = lab.run("updateDefaultNicForVirtualMachine", &nic(&new));
        let first = &job["virtualmachine"]["nic"][0];
        assert_eq!((&first["id"], &first["deviceid"]), (&new.clone().into(), &"0".into()));
        assert_eq!(job["virtualmachine"]["ipaddress"], "10.1.2.2");
        assert_eq!(lab.fails("removeNicFromVirtualMachine", &nic(&new)).0, 431);
        lab.run("updateDefaultNicForVirtualMachine", &nic(&old));
        let job = lab.run("removeNicFromVirtualMachine", &nic(&new));
        assert_eq!(job["virtualmachine"]["nic"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn an_address_asked_for_is_taken_though_none_is_free() {
        let mut lab = Lab::new();
        for (_, network) in lab.simulator.cloud.networks.iter_mut() {
            network.cidr = "10.1.2.0/30".parse().unwrap();
        }
        let network = lab.id("listNetworks", "idle");
        let mut add = |vm: &str, address: &'static str| {
            let vm = lab.id("listVirtualMachines", vm);
            let params = [
                ("virtualmachineid", vm.as_str()),
                ("networkid", network.as_str()),
                ("ipaddress", address),
            ];
            let job = text(&lab.ask("addNicToVirtualMachine", &params)["jobid"]);
            let job = lab.ask("queryAsyncJobResult", &[("jobid", &job)]);
            let nic = &job["jobresult"]["virtualmachine"]["nic"][1];
            (text(&job["jobresultcode"]), text(&nic["ipaddress"]), text(&nic["macaddress"]))
        };
        assert_eq!(add("node-1", "").1, "10.1.2.2");
        assert_eq!(add("node-2", "").0, "530");
        assert_eq!(add("node-2", "nowhere").0, "431");
        let (code, address, mac) = add("node-2", "10.1.2.9");
        assert_eq!([code, address, mac], ["0", "10.1.2.9", "02:01:00:01:02:09"]);
    }

    #[test]
    fn an_interface_that_serves_a_rule_of_another_tier_stays() {
        let mut lab = Lab::new();
        lab.simulator.cloud.vpcs.iter_mut().for_each(|(_, vpc)| vpc.conserve_mode = true);
        let address = lab.address("203.0.113.3");
        let [own, other] = ["tier", "allow"].map(|name| lab.id("listNetworks", name));
        let rule = lab.rule_on(&address, "80", &[("networkid", &own), ("openfirewall", "ABSENT")]);
        let vm = lab.id("listVirtualMachines", "tnode-1");
        let add = [("virtualmachineid", vm.as_str()), ("networkid", other.as_str())];
        let shown = lab.run("addNicToVirtualMachine", &add);
        let nic = shown["virtualmachine"]["nic"][1].clone();
        let (id, at) = (text(&nic["id"]), text(&nic["ipaddress"]));
        let map = [
            ("id", rule.as_str()),
            ("vmidipmap[0].vmid", vm.as_str()),
            ("vmidipmap[0].vmip", at.as_str()),
            ("vmidipmap[0].vmnetworkid", other.as_str()),
        ];
        lab.run("assignToLoadBalancerRule", &map);
        assert_eq!(lab.reach("192.0.2.1", "203.0.113.3", 80).members[0].address, at);
        let remove = [("virtualmachineid", vm.as_str()), ("nicid", id.as_str())];
        let (code, cause) = lab.fails("removeNicFromVirtualMachine", &remove);
        assert!(code == 431 && cause.contains("load balancing rules"), "{cause}");
        lab.run("removeFromLoadBalancerRule", &map[..3]);
        lab.run("removeNicFromVirtualMachine", &remove);
    }

    #[test]
    fn an_interface_or_address_that_serves_a_rule_stays() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let vm = lab.rows("listVirtualMachines", &[("name", "node-2")]).remove(0);
        let nic = text(&vm["nic"][0]["id"]);
        let made = lab.run("addIpToNic", &[("nicid", &nic)]);
        let made = &made["nicsecondaryip"];
        assert_eq!((&made["ipaddress"], &made["nicid"]), (&"10.1.1.2".into(), &nic.into()));
        let map = [
            ("id", rule.as_str()),
            ("vmidipmap[0].vmid", vm["id"].as_str().unwrap()),
            ("vmidipmap[0].vmip", "10.1.1.2"),
        ];
        lab.run("assignToLoadBalancerRule", &map);
        let address = text(&made["id"]);
        assert_eq!(lab.fails("removeIpFromNic", &[("id", &address)]).0, 431);
        lab.run("removeFromLoadBalancerRule", &map);
        lab.run("removeIpFromNic", &[("id", &address)]);
    }
}
