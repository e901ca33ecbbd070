//! Static NAT: an address mapped as a whole to one virtual machine.

use crate::answer::Answer;
use crate::cloud::Cloud;
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Work, success};
use crate::resources::network::Network;
use crate::resources::public_ip::{AddressState, PublicIp};
use crate::resources::virtual_machine::VirtualMachine;
use crate::table::Key;

pub(crate) const ENABLE_PARAMS: &[Param] = &[
    must("ipaddressid", Kind::Id(Entity::Address)),
    must("virtualmachineid", Kind::Id(Entity::VirtualMachine)),
    may("networkid", Kind::Id(Entity::Network)),
    may("vmguestip", Kind::Text),
];

pub(crate) const DISABLE_PARAMS: &[Param] = &[must("ipaddressid", Kind::Id(Entity::Address))];

/// enableStaticNat, at once. An address of a VPC is bound to the machine's tier.
pub(crate) fn enable(cloud: &mut Cloud, call: &Call) -> Result<Answer, ApiError> {
    let key = address(call);
    let vm = call.params.required::<VirtualMachine>("virtualmachineid");
    let row = cloud.addresses.get(key).ok_or_else(ApiError::permission)?;
    let machine = cloud.vms.get(vm).filter(|vm| vm.is_visible()).ok_or_else(|| {
        ApiError::invalid(
            "Can't enable static nat for the address id, invalid virtual machine id specified",
        )
    })?;
    let owners = [row.owner, Some(machine.owner)];
    if !owners.iter().all(|owner| owner.is_some_and(|owner| cloud.may_use(call.caller, owner))) {
        return Err(ApiError::permission());
    }
    if row.state != AddressState::Allocated || row.source_nat {
        return Err(ApiError::invalid(
            "Can't enable static, ip address is a source nat or not allocated",
        ));
    }
    if has_port_rules(cloud, key) {
        return Err(ApiError::new(
            537,
            4360,
            format!("Failed to enable static nat on IP {}, it already has rules", row.address),
        ));
    }
    let network = row.network.or(call.params.key::<Network>("networkid"));
    if let Some(row) = cloud.addresses.get_mut(key) {
        row.static_nat = Some(vm);
        row.network = network;
    }
    Ok(success().into())
}

/// Load-balancer rules and port forwardings exclude static NAT; firewall rules do not.
fn has_port_rules(cloud: &Cloud, address: Key<PublicIp>) -> bool {
    cloud.rules.iter().any(|(_, rule)| rule.address == address)
        || cloud.port_forwards.iter().any(|(_, rule)| rule.address == address)
}

/// disableStaticNat.
pub(crate) fn start_disable(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let key = address(call);
    let row = cloud.addresses.get(key);
    if !row.and_then(|row| row.owner).is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        return Err(JobFailure::permission());
    }
    match cloud.addresses.get_mut(key) {
        Some(row) if row.static_nat.is_some() => row.static_nat = None,
        Some(_) | None => {
            return Err(JobFailure::invalid(
                "Specified IP address id is not associated with any vm Id",
            ));
        }
    }
    Ok(Work::Done(success()))
}

fn address(call: &Call) -> Key<PublicIp> {
    call.params.required("ipaddressid")
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    #[test]
    fn static_nat_and_load_balancing_exclude_each_other() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        let made = lab.run("associateIpAddress", &[("networkid", &network)]);
        let address = made["ipaddress"]["id"].as_str().unwrap().to_owned();
        let vm = lab.id("listVirtualMachines", "node-1");
        let map = [("ipaddressid", address.as_str()), ("virtualmachineid", vm.as_str())];
        assert_eq!(lab.ask("enableStaticNat", &map)["success"], true);
        let shown = lab.rows("listVirtualMachines", &[("id", &vm)]).remove(0);
        assert_eq!(
            (&shown["publicipid"], &shown["nic"][0]["publicipid"]),
            (&shown["nic"][0]["publicipid"], &address.clone().into())
        );
        let params = crate::testing::rule_params(&address, "80", &[]);
        assert_eq!(lab.refused("createLoadBalancerRule", &params).code, 537);
        lab.run("disableStaticNat", &map[..1]);
        assert_eq!(lab.fails("disableStaticNat", &map[..1]).0, 431);
        lab.rule_on(&address, "80", &[]);
        assert_eq!(lab.refused("enableStaticNat", &map).code, 537);
        assert_eq!(lab.by("other").refused("enableStaticNat", &map).code, 531);
    }
}
