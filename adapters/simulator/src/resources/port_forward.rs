//! Port-forwarding rules: records that are listed. They keep ports of an address taken; no command
//! makes or deletes them.

use serde_json::Value;

use crate::cloud::Cloud;
use crate::commands::{Call, Entity, Kind, Param, may, since};
use crate::error::ApiError;
use crate::lists::{Scope, TagFilter, answer};
use crate::object::Object;
use crate::resources::public_ip::{AddressState, PublicIp};
use crate::resources::tag::ResourceType;
use crate::table::{Key, Row};

/// A port-forwarding rule. It conflicts with load-balancer rules on its public ports, whatever its
/// protocol.
#[derive(Debug, Clone)]
pub(crate) struct PortForward {
    pub(crate) id: String,
    pub(crate) address: Key<PublicIp>,
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl Row for PortForward {
    fn id(&self) -> &str {
        &self.id
    }
}

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::PortForward)),
    may("ipaddressid", Kind::Id(Entity::Address)),
    since("networkid", Kind::Id(Entity::Network), "4.3"),
];

/// listPortForwardingRules, newest first.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Value, ApiError> {
    let params = &call.params;
    let scope = Scope::of(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let address = params.key::<PublicIp>("ipaddressid");
    if let Some(key) = address {
        check_listed_address(cloud, call, key)?;
    }
    let rows: Vec<_> = cloud
        .port_forwards
        .iter()
        .rev()
        .filter(|(key, row)| {
            let on = cloud.addresses.get(row.address);
            on.and_then(|on| on.owner).is_some_and(|owner| scope.covers(owner))
                && params.names("id", *key)
                && address.is_none_or(|address| row.address == address)
                && params.names("networkid", on.and_then(|on| on.network))
                // Records have no tags: none of this id is there.
                && tags.passes(cloud, ResourceType::FirewallRule, &row.id)
        })
        .collect();
    answer(cloud, call, "portforwardingrule", rows, |(_, row)| json(cloud, row).into())
}

/// As with firewall rules: an address that is not allocated is "not ready", another owner's is
/// refused (read in `RulesManagerImpl`).
fn check_listed_address(cloud: &Cloud, call: &Call, key: Key<PublicIp>) -> Result<(), ApiError> {
    match cloud.addresses.get(key) {
        Some(row) if row.state != AddressState::Allocated => Err(ApiError::invalid(format!(
            "Ip address id={} not ready for port forwarding rules yet",
            key.number()
        ))),
        Some(row) if row.owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) => Ok(()),
        Some(_) | None => Err(ApiError::permission()),
    }
}

/// Ports are texts, as observed. Records know no machine behind them: they forward to the same
/// ports, and fields of the machine are absent.
fn json(cloud: &Cloud, row: &PortForward) -> Object {
    let address = cloud.addresses.get(row.address);
    let network = address.and_then(|on| on.network).and_then(|key| cloud.networks.get(key));
    Object::new()
        .with("id", row.id.as_str())
        .with("privateport", row.first.to_string())
        .with("privateendport", row.last.to_string())
        .with("protocol", "tcp")
        .with("publicport", row.first.to_string())
        .with("publicendport", row.last.to_string())
        .maybe("ipaddressid", address.map(|address| address.id.as_str()))
        .maybe("ipaddress", address.map(|address| address.address.to_string()))
        .with("state", "Active")
        .with("cidrlist", "")
        .with("tags", Vec::<Value>::new())
        .maybe("networkid", network.map(|network| network.id.as_str()))
        .maybe("networkname", network.map(|network| network.name.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};
    use crate::world::PortForward;

    const LIST: &str = "listPortForwardingRules";

    #[test]
    fn a_record_is_listed_with_its_ports_as_texts() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let network = lab.id("listNetworks", "iso");
        let row = lab.rows(LIST, &[("ipaddressid", &address)]).remove(0);
        for (field, value) in [
            ("publicport", "2222"),
            ("publicendport", "2230"),
            ("privateport", "2222"),
            ("privateendport", "2230"),
            ("protocol", "tcp"),
            ("ipaddressid", address.as_str()),
            ("ipaddress", "203.0.113.2"),
            ("state", "Active"),
            ("networkid", network.as_str()),
        ] {
            assert_eq!(row[field], value, "{field}");
        }
        assert_eq!(lab.rows(LIST, &[("id", &text(&row["id"]))]), [row]);
        let other = lab.address("203.0.113.1");
        assert_eq!(lab.rows(LIST, &[("ipaddressid", &other)]).len(), 0);
    }

    #[test]
    fn others_see_none_and_the_restricted_role_may_not_ask() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        lab.by("other");
        assert_eq!(lab.rows(LIST, &[]).len(), 0);
        assert_eq!(lab.refused(LIST, &[("ipaddressid", &address)]).code, 531);
        assert_eq!(lab.by("kubeadmin").refused(LIST, &[]).code, 432);
    }

    #[test]
    fn a_user_adds_one_beside_the_controller() {
        let mut lab = Lab::new();
        let forward = PortForward {
            address: "203.0.113.1".parse().unwrap(),
            start_port: 22,
            end_port: None,
            id: None,
        };
        let id = lab.simulator.add_port_forward(&forward).unwrap();
        assert_eq!(lab.column(LIST, &[], "id")[0], id);
        assert_eq!(lab.column(LIST, &[], "publicendport")[0], "22");
        let free = PortForward { address: "203.0.113.10".parse().unwrap(), ..forward };
        assert!(lab.simulator.add_port_forward(&free).is_err());
    }
}
