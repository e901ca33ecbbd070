//! Networks (listNetworks), VPCs (listVPCs), ACL lists (listNetworkACLLists) and their items
//! (listNetworkACLs).

use ccm_core::ids::{NetworkAclItemId, NetworkAclListId, NetworkId, VpcId};
use ccm_core::observe::{Network, NetworkAclItem, NetworkAclList, NetworkService, Vpc};
use serde_json::Value;

use crate::decode::rule_state;
use crate::fields::{DecodeError, Fields};

/// An entry of `network`.
pub(crate) fn network(value: &Value) -> Result<Network, DecodeError> {
    let fields = Fields::of("network", value)?;
    Ok(Network {
        id: fields.id("id", |text| NetworkId::parse(text).ok())?,
        name: fields.text_or_empty("name")?.to_owned(),
        kind: fields.text_or_empty("type")?.to_owned(),
        vpc: fields.optional_id("vpcid", |text| VpcId::parse(text).ok())?,
        acl_list: fields.optional_id("aclid", |text| NetworkAclListId::parse(text).ok())?,
        acl_name: fields.optional_text("aclname")?.map(str::to_owned),
        services: fields.each("service", "network service", network_service)?,
    })
}

/// A service by its name.
fn network_service(fields: &Fields<'_>) -> Result<(String, NetworkService), DecodeError> {
    let service = NetworkService {
        providers: fields.each("provider", "service provider", name)?,
        capabilities: fields.each("capability", "service capability", |capability| {
            Ok((name(capability)?, capability.text_or_empty("value")?.to_owned()))
        })?,
    };
    Ok((name(fields)?, service))
}

fn name(fields: &Fields<'_>) -> Result<String, DecodeError> {
    fields.text("name").map(str::to_owned)
}

/// An entry of `vpc`.
pub(crate) fn vpc(value: &Value) -> Result<Vpc, DecodeError> {
    let fields = Fields::of("VPC", value)?;
    Ok(Vpc {
        id: fields.id("id", |text| VpcId::parse(text).ok())?,
        name: fields.text_or_empty("name")?.to_owned(),
        services: fields.each("service", "VPC service", name)?,
    })
}

/// An entry of `networkacllist`.
pub(crate) fn acl_list(value: &Value) -> Result<NetworkAclList, DecodeError> {
    let fields = Fields::of("network ACL list", value)?;
    Ok(NetworkAclList {
        id: fields.id("id", |text| NetworkAclListId::parse(text).ok())?,
        name: fields.text_or_empty("name")?.to_owned(),
        vpc: fields.optional_id("vpcid", |text| VpcId::parse(text).ok())?,
    })
}

/// An entry of `networkacl`.
pub(crate) fn acl_item(value: &Value) -> Result<NetworkAclItem, DecodeError> {
    let fields = Fields::of("network ACL item", value)?;
    let ingress = fields
        .parsed("traffictype", "Ingress or Egress", |text| one_of(text, "Ingress", "Egress"))?;
    let allow = fields.parsed("action", "Allow or Deny", |text| one_of(text, "Allow", "Deny"))?;
    Ok(NetworkAclItem {
        id: fields.id("id", |text| NetworkAclItemId::parse(text).ok())?,
        list: fields.id("aclid", |text| NetworkAclListId::parse(text).ok())?,
        protocol: fields.lower_text("protocol")?,
        ports: fields.ports()?,
        cidrs: fields.cidrs()?.unwrap_or_default(),
        ingress,
        allow,
        number: fields.number("number")?,
        reason: fields.optional_text("reason")?.map(str::to_owned),
        state: rule_state(&fields)?,
        tags: fields.tags()?,
    })
}

fn one_of(text: &str, yes: &str, no: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case(yes) {
        Some(true)
    } else {
        text.eq_ignore_ascii_case(no).then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::recorded;
    use serde_json::json;

    #[test]
    fn a_tier_with_its_services() {
        let value = json!({"id": "n1", "name": "tier", "type": "Isolated", "vpcid": "v1",
            "aclid": "l1", "aclname": "custom-acl", "state": "Implemented",
            "service": [
                {"name": "Lb", "provider": [{"name": "VpcVirtualRouter"}], "capability": [
                    {"name": "SupportedLbAlgorithms", "value": "roundrobin,leastconn,source",
                     "canchooseservicecapability": false}]},
                {"name": "NetworkACL", "provider": [{"name": "VpcVirtualRouter"}]}]});
        let network = network(&value).unwrap();
        assert_eq!(network.vpc.unwrap().as_str(), "v1");
        let lb = &network.services["Lb"];
        assert!(lb.providers.contains("VpcVirtualRouter"));
        assert_eq!(lb.capabilities["SupportedLbAlgorithms"], "roundrobin,leastconn,source");
        assert!(network.services.contains_key("NetworkACL"));
    }

    #[test]
    fn a_vpc_names_its_services() {
        let value = json!({"id": "v1", "name": "vpc1", "network": [], "service": [
            {"name": "Lb", "provider": [{"name": "VpcVirtualRouter"}, {"name": "InternalLbVm"}]}]});
        let services: Vec<String> = vpc(&value).unwrap().services.into_iter().collect();
        assert_eq!(services, ["Lb"]);
    }

    #[test]
    fn an_acl_item_as_recorded() {
        let value = recorded(
            r#"{"id":"2f1fc94c-2844-4cdf-a054-3406f74f5c14","protocol":"Tcp","startport":"30443","endport":"30443","traffictype":"Ingress","state":"Active","cidrlist":"10.10.0.0/16","tags":[],"aclid":"a86f87f6-47eb-44d5-b68c-f8d8e042aa79","aclname":"custom-acl","number":2,"action":"Allow","reason":"k8s demo/web"}"#,
        );
        let item = acl_item(&value).unwrap();
        assert_eq!((item.protocol.as_str(), item.ports), ("tcp", Some((30443, 30443))));
        assert!(item.ingress && item.allow);
        assert_eq!((item.number, item.reason.as_deref()), (2, Some("k8s demo/web")));
    }

    #[test]
    fn a_default_item_and_a_default_list() {
        let item = recorded(
            r#"{"id":"fd713418-edbc","protocol":"all","traffictype":"Ingress","state":"Active","cidrlist":"0.0.0.0/0","tags":[],"aclid":"fd71287d-edbc","aclname":"default_deny","number":1,"action":"Deny"}"#,
        );
        let item = acl_item(&item).unwrap();
        assert!(!item.allow && item.ports.is_none());
        let list = json!({"id": "fd71404d", "name": "default_allow", "description": "x"});
        assert_eq!(acl_list(&list).unwrap().vpc, None);
    }

    #[test]
    fn an_item_without_direction_is_an_error() {
        let value = json!({"id": "i1", "aclid": "l1", "protocol": "tcp", "number": 1,
            "action": "Allow", "state": "Active", "traffictype": ""});
        let error = acl_item(&value).unwrap_err().to_string();
        assert!(error.contains("i1") && error.contains("traffictype"), "{error}");
    }
}
