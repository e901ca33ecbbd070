//! Load balancer rules (listLoadBalancerRules), firewall rules (listFirewallRules) and
//! port-forwarding rules (listPortForwardingRules).

use ccm_core::cidr::{Cidr, CidrSet, Sources};
use ccm_core::ids::{FirewallRuleId, LoadBalancerRuleId, NetworkId, PublicIpId, ResourceId};
use ccm_core::model::service::{Algorithm, RuleProtocol};
use ccm_core::observe::{FirewallRule, LoadBalancerRule, RuleState};
use serde_json::Value;

use crate::decode::rule_state;
use crate::fields::{DecodeError, Fields, readable_cidrs};

/// An entry of `loadbalancerrule`, or the `loadbalancer` of a job result.
pub(crate) fn load_balancer_rule(value: &Value) -> Result<LoadBalancerRule, DecodeError> {
    let fields = Fields::of("load balancer rule", value)?;
    let protocol = fields
        .optional_text("protocol")?
        .map(|text| RuleProtocol::parse(text).ok_or_else(|| text.to_owned()));
    let algorithm = fields.text_or_empty("algorithm")?;
    Ok(LoadBalancerRule {
        id: fields.id("id", |text| LoadBalancerRuleId::parse(text).ok())?,
        // A name can be emptied by an update (observed).
        name: fields.text_or_empty("name")?.to_owned(),
        description: fields.optional_text("description")?.map(str::to_owned),
        address: fields.id("publicipid", |text| PublicIpId::parse(text).ok())?,
        public_port: fields.number("publicport")?,
        private_port: fields.number("privateport")?,
        protocol,
        algorithm: Algorithm::parse(algorithm).ok_or_else(|| algorithm.to_owned()),
        sources: sources(fields.text_or_empty("cidrlist")?),
        network: fields.id("networkid", |text| NetworkId::parse(text).ok())?,
        state: rule_state(&fields)?,
        tags: fields.tags()?,
    })
}

/// `cidrlist` of a load balancer rule: blanks after a create, commas after an update, absent or
/// empty for everybody. A list of which nothing can be read restricts to something that nobody
/// asks for: it must not read as everybody.
fn sources(text: &str) -> Sources {
    let readable = readable_cidrs(text);
    if readable.is_empty() && !text.trim().is_empty() {
        let nobody: CidrSet = Cidr::parse("255.255.255.255/32").into_iter().collect();
        return Sources::Only(nobody);
    }
    Sources::from_set(readable)
}

/// An entry of `firewallrule`.
pub(crate) fn firewall_rule(value: &Value) -> Result<FirewallRule, DecodeError> {
    let fields = Fields::of("firewall rule", value)?;
    Ok(FirewallRule {
        id: fields.id("id", |text| FirewallRuleId::parse(text).ok())?,
        address: fields.id("ipaddressid", |text| PublicIpId::parse(text).ok())?,
        protocol: fields.lower_text("protocol")?,
        ports: fields.ports()?,
        cidrs: fields.cidrs()?.unwrap_or_else(CidrSet::everybody),
        state: rule_state(&fields)?,
        tags: fields.tags()?,
    })
}

/// What a release needs to know of a port-forwarding rule: they are never ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortForward {
    pub(crate) id: String,
    pub(crate) state: RuleState,
}

/// An entry of `portforwardingrule`.
pub(crate) fn port_forward(value: &Value) -> Result<PortForward, DecodeError> {
    let fields = Fields::of("port forwarding rule", value)?;
    Ok(PortForward {
        id: fields.id("id", |text| ResourceId::parse(text).ok())?.into(),
        state: rule_state(&fields)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::recorded;
    use serde_json::json;

    /// From the result of a createPortForwardingRule job (observed, 4.23).
    const FORWARD: &str = r#"{"id":"0151144f-89d5-4d50-8188-822aacafa7e0","privateport":"22","privateendport":"22","protocol":"tcp","publicport":"2222","publicendport":"2222","virtualmachineid":"59a09997-6ce4-4bfd-a3ae-4426a822ac94","virtualmachinename":"node-1","virtualmachinedisplayname":"node-1","ipaddressid":"a4de4534-436b-4b12-89d5-8bbdb0b2b3ab","ipaddress":"203.0.113.18","state":"Active","cidrlist":"","tags":[],"vmguestip":"10.1.1.75","networkid":"3ce4aed7-6707-42be-8460-e56cbb34d031","networkname":"iso-net"}"#;

    #[test]
    fn a_port_forward_as_recorded() {
        let id = "0151144f-89d5-4d50-8188-822aacafa7e0".to_owned();
        let expected = PortForward { id, state: RuleState::Active };
        assert_eq!(port_forward(&recorded(FORWARD)), Ok(expected));
    }

    const RULE: &str = r#"{"id":"60ab8e3f-5327-4dfd-b9b4-3db56ba0cb0c","name":"web-tcp-80","description":"k8s demo/web","publicipid":"0b332beb-3d9a-4c8c-971b-57079ccdbdcd","publicip":"203.0.113.25","publicport":"80","privateport":"30080","algorithm":"roundrobin","networkid":"3ce4aed7-6707-42be-8460-e56cbb34d031","cidrlist":"","account":"ccm-user","state":"Active","zoneid":"bd6eb7e1","zonename":"sim-zone","protocol":"tcp","tags":[]}"#;

    fn rule(field: &str, value: Value) -> LoadBalancerRule {
        let mut entry = recorded(RULE);
        entry[field] = value;
        load_balancer_rule(&entry).unwrap()
    }

    #[test]
    fn a_rule_as_recorded() {
        let rule = load_balancer_rule(&recorded(RULE)).unwrap();
        assert_eq!((rule.public_port, rule.private_port), (80, 30080));
        assert_eq!(rule.protocol, Some(Ok(RuleProtocol::Tcp)));
        assert_eq!(rule.algorithm, Ok(Algorithm::RoundRobin));
        assert!(rule.sources.is_everybody());
        assert_eq!(rule.state, RuleState::Active);
    }

    #[test]
    fn what_others_store_is_kept_as_it_is() {
        assert_eq!(rule("protocol", Value::Null).protocol, None);
        assert_eq!(rule("protocol", json!("ssl")).protocol, Some(Err("ssl".to_owned())));
        assert_eq!(rule("algorithm", json!("bogus")).algorithm, Err("bogus".to_owned()));
        assert_eq!(rule("algorithm", json!("RoundRobin")).algorithm, Ok(Algorithm::RoundRobin));
        assert_eq!(rule("name", json!("")).name, "");
        assert_eq!(rule("state", json!("Deleting")).state, RuleState::Deleting);
        assert_eq!(rule("state", json!("Paused")).state, RuleState::Active);
        assert_eq!(rule("publicport", json!(0)).public_port, 0);
    }

    #[test]
    fn sources_in_every_spelling() {
        let two = rule("cidrlist", json!("10.0.0.0/8 192.0.2.0/24")).sources;
        assert_eq!(rule("cidrlist", json!("192.0.2.0/24,10.0.0.0/8")).sources, two);
        assert!(rule("cidrlist", Value::Null).sources.is_everybody());
        // Cut at 255 characters: the rest of the last entry is dropped.
        assert_eq!(rule("cidrlist", json!("10.0.0.0/8,192.0.2.0/24,10.0.")).sources, two);
        assert!(!rule("cidrlist", json!("rubbish")).sources.is_everybody());
    }

    #[test]
    fn an_unreadable_port_is_an_error() {
        let mut entry = recorded(RULE);
        entry["publicport"] = json!("http");
        let error = load_balancer_rule(&entry).unwrap_err().to_string();
        assert!(error.contains("60ab8e3f") && error.contains("publicport"), "{error}");
        entry["publicport"] = Value::Null;
        assert!(load_balancer_rule(&entry).is_err());
    }

    #[test]
    fn a_firewall_rule_as_recorded() {
        let entry = recorded(
            r#"{"id":"c2a3d53f-e59a-4f45-9c6f-2ad2985a810d","protocol":"tcp","startport":443,"endport":443,"ipaddressid":"0b332beb-3d9a-4c8c-971b-57079ccdbdcd","networkid":"3ce4aed7-6707-42be-8460-e56cbb34d031","ipaddress":"203.0.113.25","state":"Active","cidrlist":"192.0.2.0/24,198.51.100.0/24","tags":[],"destcidrlist":"","traffictype":"Ingress"}"#,
        );
        let rule = firewall_rule(&entry).unwrap();
        assert_eq!(rule.ports, Some((443, 443)));
        assert_eq!(rule.cidrs.joined(), "192.0.2.0/24,198.51.100.0/24");
    }

    #[test]
    fn a_firewall_rule_of_a_vpc_has_no_network() {
        let entry = json!({"id": "f1", "protocol": "ICMP", "icmptype": -1, "icmpcode": -1,
            "ipaddressid": "a1", "vpcid": "v1", "state": "Deleting"});
        let rule = firewall_rule(&entry).unwrap();
        assert_eq!((rule.protocol.as_str(), rule.ports), ("icmp", None));
        assert_eq!(rule.cidrs, CidrSet::everybody());
        assert_eq!(rule.state, RuleState::Deleting);
    }
}
