//! Public IP addresses (listPublicIpAddresses) and the jobs that associate them.

use std::net::{IpAddr, Ipv4Addr};

use ccm_core::ids::{NetworkId, PublicIpId, VpcId};
use ccm_core::observe::{AddressState, AssociateJob, PublicIpAddress};
use serde_json::Value;

use crate::fields::{DecodeError, Fields};
use crate::jobs::{JobAnswer, JobOutcome};

const KIND: &str = "public IP address";

/// An entry of `publicipaddress`, or `None` for an IPv6 address: those are not balanced.
pub(crate) fn address(value: &Value) -> Result<Option<PublicIpAddress>, DecodeError> {
    let fields = Fields::of(KIND, value)?;
    let ip: IpAddr = fields.parsed("ipaddress", "an IP address", |text| text.parse().ok())?;
    let IpAddr::V4(address) = ip else {
        return Ok(None);
    };
    Ok(Some(PublicIpAddress {
        id: id(&fields)?,
        address,
        state: state(&fields)?,
        allocated: fields.optional_text("allocated")?.map(str::to_owned),
        source_nat: fields.flag("issourcenat")?,
        static_nat: static_nat(&fields)?,
        network: fields.optional_id("associatednetworkid", |text| NetworkId::parse(text).ok())?,
        vpc: fields.optional_id("vpcid", |text| VpcId::parse(text).ok())?,
        has_rules: fields.optional_flag("hasrules")?,
        tags: fields.tags()?,
    }))
}

fn id(fields: &Fields<'_>) -> Result<PublicIpId, DecodeError> {
    fields.id("id", |text| PublicIpId::parse(text).ok())
}

fn state(fields: &Fields<'_>) -> Result<AddressState, DecodeError> {
    let expected = "Allocating, Allocated, Releasing, Reserved or Free";
    fields.parsed("state", expected, |text| match text {
        "Allocating" => Some(AddressState::Allocating),
        "Allocated" => Some(AddressState::Allocated),
        "Releasing" => Some(AddressState::Releasing),
        "Reserved" => Some(AddressState::Reserved),
        "Free" => Some(AddressState::Free),
        _ => None,
    })
}

fn static_nat(fields: &Fields<'_>) -> Result<Option<String>, DecodeError> {
    let name = fields.optional_text("virtualmachinename")?;
    let id = fields.optional_text("virtualmachineid")?;
    let is_static_nat = fields.flag("isstaticnat")?;
    Ok(match name.or(id) {
        Some(machine) => Some(machine.to_owned()),
        None => is_static_nat.then(String::new),
    })
}

/// The address in the result of a finished associateIpAddress: its id and what it is called.
/// Its `state` is older than the job (observed: Allocating) and is not looked at.
pub(crate) fn associated(answer: &JobAnswer) -> Option<(PublicIpId, Option<Ipv4Addr>)> {
    let id = PublicIpId::parse(answer.created("ipaddress")?).ok()?;
    let fields = answer.result_object(KIND, "ipaddress");
    let address = fields.and_then(|fields| fields.text("ipaddress").ok()?.parse().ok());
    Some((id, address))
}

/// What a queried job says of the associateIpAddress that an intent names.
pub(crate) fn associate_job(answer: &JobAnswer) -> Result<AssociateJob, DecodeError> {
    match &answer.outcome {
        JobOutcome::Pending => Ok(AssociateJob::Pending),
        JobOutcome::Failed { .. } => {
            let instance = answer.instance.as_deref();
            Ok(AssociateJob::Failed(instance.and_then(|text| PublicIpId::parse(text).ok())))
        }
        JobOutcome::Succeeded => match associated(answer) {
            Some((id, _)) => Ok(AssociateJob::Succeeded(id)),
            None => Err(answer.without_result("ipaddress")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::recorded;
    use serde_json::json;

    #[test]
    fn an_allocated_address_as_recorded() {
        let value = recorded(
            r#"{"id":"0b332beb-3d9a-4c8c-971b-57079ccdbdcd","ipaddress":"203.0.113.25","allocated":"2026-12-01T20:16:39+0000","zoneid":"bd6eb7e1-59b5-4a12-8cf5-08fb5e2b8fe2","zonename":"sim-zone","issourcenat":false,"account":"ccm-user","forvirtualnetwork":true,"isstaticnat":false,"issystem":false,"associatednetworkid":"3ce4aed7-6707-42be-8460-e56cbb34d031","associatednetworkname":"iso-net","networkid":"2e33ae76-62dd-4c12-ac5f-cd99b038a5f1","state":"Allocated","physicalnetworkid":"6318fcbd-e6ce-457b-81ea-eaf9e6d7177d","tags":[],"isportable":false,"hasrules":false}"#,
        );
        let address = address(&value).unwrap().unwrap();
        assert_eq!(address.address, Ipv4Addr::new(203, 0, 113, 25));
        assert_eq!(address.allocated.as_deref(), Some("2026-12-01T20:16:39+0000"));
        // `networkid` is the public network; the guest network is `associatednetworkid`.
        let network = address.network.unwrap();
        assert_eq!(network.as_str(), "3ce4aed7-6707-42be-8460-e56cbb34d031");
        assert_eq!((address.has_rules, address.static_nat), (Some(false), None));
    }

    #[test]
    fn a_free_address_has_no_allocation() {
        let value = json!({"id": "a1", "ipaddress": "203.0.113.78", "issourcenat": false,
            "networkid": "public", "state": "Free", "tags": []});
        let address = address(&value).unwrap().unwrap();
        assert_eq!(address.state, AddressState::Free);
        assert_eq!((address.allocated, address.network, address.has_rules), (None, None, None));
    }

    #[test]
    fn static_nat_names_the_machine_as_well_as_it_can() {
        let nat = |extra: Value| {
            let mut value = json!({"id": "a1", "ipaddress": "203.0.113.78", "state": "Allocated"});
            let more = extra.as_object().unwrap().clone();
            value.as_object_mut().unwrap().extend(more);
            address(&value).unwrap().unwrap().static_nat
        };
        let full =
            json!({"isstaticnat": true, "virtualmachineid": "v1", "virtualmachinename": "web"});
        assert_eq!(nat(full), Some("web".to_owned()));
        assert_eq!(nat(json!({"virtualmachineid": "v1"})), Some("v1".to_owned()));
        assert_eq!(nat(json!({"isstaticnat": "true"})), Some(String::new()));
    }

    #[test]
    fn odd_entries() {
        assert!(address(&json!({"id": "a1", "ipaddress": "2001:db8::1"})).unwrap().is_none());
        let error = address(&json!({"id": "a1", "ipaddress": "203.0.113.78", "state": "Lost"}));
        assert!(error.unwrap_err().to_string().contains("`state` is `\"Lost\"`"));
        assert!(address(&json!({"ipaddress": "203.0.113.78", "state": "Free"})).is_err());
    }
}
