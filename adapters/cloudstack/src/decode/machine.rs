//! Virtual machines (listVirtualMachines) and members of rules (listLoadBalancerRuleInstances).

use std::net::{Ipv4Addr, Ipv6Addr};

use ccm_core::ids::{NetworkId, VirtualMachineId};
use ccm_core::observe::{Nic, VirtualMachine};
use serde_json::Value;

use crate::fields::{DecodeError, Fields};

const KIND: &str = "virtual machine";

/// An entry of `virtualmachine`.
pub(crate) fn virtual_machine(value: &Value) -> Result<VirtualMachine, DecodeError> {
    let fields = Fields::of(KIND, value)?;
    let mut nics = Vec::new();
    for (index, entry) in (0_u32..).zip(fields.array("nic")?) {
        nics.extend(nic(index, entry)?);
    }
    nics.sort_by_key(|nic| nic.device);
    Ok(VirtualMachine {
        id: id(&fields)?,
        name: fields.text("name")?.to_owned(),
        state: fields.text("state")?.to_owned(),
        zone: fields.text_or_empty("zonename")?.to_owned(),
        offering: fields.optional_text("serviceofferingname")?.map(str::to_owned),
        nics,
        public_ip: fields
            .optional_parsed("publicip", "an IPv4 address", |text| text.parse().ok())?,
    })
}

/// The VM of a member: an entry of `loadbalancerruleinstance`, or of `lbrulevmidip` that wraps one.
pub(crate) fn member(value: &Value) -> Result<VirtualMachineId, DecodeError> {
    let entry = value.get("loadbalancerruleinstance").unwrap_or(value);
    id(&Fields::of(KIND, entry)?)
}

fn id(fields: &Fields<'_>) -> Result<VirtualMachineId, DecodeError> {
    fields.id("id", |text| VirtualMachineId::parse(&text.to_ascii_lowercase()).ok())
}

/// A NIC; `None` for one that is in no network. Up to 4.15 lists have no `deviceid`: then the
/// order of the list counts.
fn nic(index: u32, value: &Value) -> Result<Option<Nic>, DecodeError> {
    let fields = Fields::of("NIC", value)?;
    let Some(network) = fields.optional_id("networkid", |text| NetworkId::parse(text).ok())? else {
        return Ok(None);
    };
    let ipv4 = |text: &str| text.parse::<Ipv4Addr>().ok();
    let ipv6 = |text: &str| text.parse::<Ipv6Addr>().ok();
    Ok(Some(Nic {
        network,
        network_name: fields.text_or_empty("networkname")?.to_owned(),
        ipv4: fields.optional_parsed("ipaddress", "an IPv4 address", ipv4)?,
        ipv6: fields.optional_parsed("ip6address", "an IPv6 address", ipv6)?,
        default: fields.flag("isdefault")?,
        device: fields.optional_number("deviceid")?.unwrap_or(index),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_machine_with_two_nics() {
        let value = json!({"id": "59A09997-6CE4-4bfd-a3ae-4426a822ac94", "name": "node-1",
            "state": "Running", "zonename": "sim-zone", "serviceofferingname": "Small Instance",
            "nic": [
                {"networkid": "n2", "networkname": "two", "ipaddress": "10.2.0.7",
                 "isdefault": false, "deviceid": "1"},
                {"networkid": "n1", "networkname": "one", "ipaddress": "10.1.1.75",
                 "ip6address": "2001:db8::7", "isdefault": true, "deviceid": "0"}]});
        let machine = virtual_machine(&value).unwrap();
        assert_eq!(machine.id.as_str(), "59a09997-6ce4-4bfd-a3ae-4426a822ac94");
        let devices: Vec<u32> = machine.nics.iter().map(|nic| nic.device).collect();
        assert_eq!(devices, [0, 1]);
        let default = machine.default_nic().unwrap();
        assert_eq!(default.ipv4, Some(Ipv4Addr::new(10, 1, 1, 75)));
        assert!(default.ipv6.is_some());
    }

    #[test]
    fn nics_without_device_or_network() {
        let value = json!({"id": "v1", "name": "a", "state": "Stopped",
            "nic": [{"networkid": "n1"}, {"id": "x"}, {"networkid": "n3", "ipaddress": ""}]});
        let machine = virtual_machine(&value).unwrap();
        let seen: Vec<_> = machine.nics.iter().map(|nic| (nic.device, nic.ipv4)).collect();
        assert_eq!(seen, [(0, None), (2, None)]);
        assert_eq!(machine.zone, "");
    }

    #[test]
    fn members_in_both_shapes() {
        let plain = json!({"id": "V1", "name": "node-1"});
        let wrapped =
            json!({"loadbalancerruleinstance": {"id": "v1"}, "lbvmipaddresses": ["10.1.1.5"]});
        assert_eq!(member(&plain).unwrap(), member(&wrapped).unwrap());
        assert!(member(&json!({"lbvmipaddresses": []})).is_err());
    }

    #[test]
    fn a_machine_without_id_or_name_is_an_error() {
        assert!(virtual_machine(&json!({"name": "a", "state": "Running"})).is_err());
        assert!(virtual_machine(&json!({"id": "v", "state": "Running"})).is_err());
    }
}
