//! Port-forwarding rules. They keep ports of an address taken; nothing is forwarded.

use serde_json::Value;

use crate::answer::Answer;
use crate::cloud::{Cloud, RuleState, rule_text};
use crate::commands::{Call, Entity, Kind, Param, may, must, since};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work, success};
use crate::lists::{Scope, TagFilter, answer};
use crate::object::Object;
use crate::params::Params;
use crate::resources::public_ip::{self, PublicIp, unbind_if_idle};
use crate::resources::tag::ResourceType;
use crate::resources::virtual_machine::VirtualMachine;
use crate::table::{Key, Row};

/// A port-forwarding rule. It conflicts with load-balancer rules on its public ports, whatever its
/// protocol.
#[derive(Debug, Clone)]
pub(crate) struct PortForward {
    pub(crate) id: String,
    pub(crate) address: Key<PublicIp>,
    pub(crate) first: u16,
    pub(crate) last: u16,
    /// Where it leads; rules of a world file do not tell.
    pub(crate) target: Option<Target>,
}

/// Where a rule leads.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    vm: Key<VirtualMachine>,
    address: String,
    protocol: String,
    first: u16,
    last: u16,
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
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let scope = Scope::of(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let address = params.key::<PublicIp>("ipaddressid");
    if let Some(key) = address {
        public_ip::check_listed(cloud, call, key, "port forwarding")?;
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
    answer(cloud, call, "portforwardingrule", rows, |(_, row)| json(cloud, row))
}

/// Ports are texts, as observed. Rules of a world file forward to the same ports, and fields of the
/// machine are absent.
fn json<'a>(cloud: &'a Cloud, row: &'a PortForward) -> Object<'a> {
    let address = cloud.addresses.get(row.address);
    let network = address.and_then(|on| on.network).and_then(|key| cloud.networks.get(key));
    let target = row.target.as_ref();
    let vm = target.and_then(|target| cloud.vms.get(target.vm));
    let (first, last) = target.map_or((row.first, row.last), |target| (target.first, target.last));
    Object::new()
        .with("id", row.id.as_str())
        .with("privateport", first.to_string())
        .with("privateendport", last.to_string())
        .with("protocol", target.map_or("tcp", |target| target.protocol.as_str()))
        .with("publicport", row.first.to_string())
        .with("publicendport", row.last.to_string())
        .maybe("virtualmachineid", vm.map(|vm| vm.id.as_str()))
        .maybe("virtualmachinename", vm.map(|vm| vm.name.as_str()))
        .maybe("virtualmachinedisplayname", vm.map(|vm| vm.display_name.as_str()))
        .maybe("vmguestip", target.map(|target| target.address.as_str()))
        .maybe("ipaddressid", address.map(|address| address.id.as_str()))
        .maybe("ipaddress", address.map(|address| address.address.to_string()))
        .with("state", "Active")
        .with("cidrlist", "")
        .with("tags", Vec::<Value>::new())
        .maybe("networkid", network.map(|network| network.id.as_str()))
        .maybe("networkname", network.map(|network| network.name.as_str()))
}

pub(crate) const CREATE_PARAMS: &[Param] = &[
    must("ipaddressid", Kind::Id(Entity::Address)),
    must("privateport", Kind::Number),
    must("protocol", Kind::Text),
    must("publicport", Kind::Number),
    must("virtualmachineid", Kind::Id(Entity::VirtualMachine)),
    may("privateendport", Kind::Number),
    may("publicendport", Kind::Number),
    may("openfirewall", Kind::Flag),
    may("networkid", Kind::Id(Entity::Network)),
];

pub(crate) const ID_PARAMS: &[Param] = &[must("id", Kind::Id(Entity::PortForward))];

/// createPortForwardingRule, with the request. No firewall rule is made with it.
pub(crate) fn accept_create(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let params = &call.params;
    let key = params.required::<PublicIp>("ipaddressid");
    let vm = params.required::<VirtualMachine>("virtualmachineid");
    let address = cloud.addresses.get(key).ok_or_else(ApiError::permission)?;
    let machine = cloud.vms.get(vm).filter(|vm| vm.is_visible());
    let machine = machine.ok_or_else(|| ApiError::invalid("Unable to find virtual machine"))?;
    let owners = [address.owner, Some(machine.owner)];
    if !owners.iter().all(|owner| owner.is_some_and(|owner| cloud.may_use(call.caller, owner))) {
        return Err(ApiError::permission());
    }
    let nic =
        address.network.or(params.key("networkid")).and_then(|network| machine.nic_in(network));
    let nic = nic.ok_or_else(|| {
        ApiError::invalid("Unable to create port forwarding rule; the machine has no interface in the network of the address")
    })?;
    let (first, last) = ends(params, "publicport", "publicendport")?;
    let (to_first, to_last) = ends(params, "privateport", "privateendport")?;
    let target = Target {
        vm,
        address: nic.address.clone(),
        protocol: params.text("protocol").unwrap_or_default().trim().to_lowercase(),
        first: to_first,
        last: to_last,
    };
    check_free(cloud, key, first, last)?;
    let id = cloud.ids.next_id();
    let number = cloud.next_rule();
    let row = PortForward { id: id.clone(), address: key, first, last, target: Some(target) };
    cloud.port_forwards.insert_at(number, row);
    let instance = Some(Instance { kind: "FirewallRule", id: Some(id.clone()) });
    Ok(Accepted { id: Some(id), number, instance })
}

/// The ports of two parameters, of which the second may be left out.
fn ends(params: &Params, first: &str, last: &str) -> Result<(u16, u16), ApiError> {
    let port = |name: &str, number: i64| {
        u16::try_from(number)
            .map_err(|_| ApiError::invalid(format!("{name} is an invalid value: {number}")))
    };
    let start = params.number(first).unwrap_or_default();
    let end = params.number(last).unwrap_or(start);
    Ok((port(first, start)?, port(last, end)?))
}

/// Load-balancer rules and other port forwardings keep their ports, whatever the protocol.
fn check_free(
    cloud: &Cloud,
    address: Key<PublicIp>,
    first: u16,
    last: u16,
) -> Result<(), ApiError> {
    let rule = cloud.rules.iter().find(|(_, rule)| {
        rule.address == address
            && rule.state != RuleState::Deleting
            && (first..=last).contains(&rule.public_port)
    });
    let (text, from, to) = if let Some((key, rule)) = rule {
        let (network, state) = (rule.network.number(), rule.state.text());
        let text = rule_text(key.number(), network, "LoadBalancing", state, &rule.id);
        (text, rule.public_port, rule.public_port)
    } else {
        let other = cloud.port_forwards.iter().find(|(_, other)| {
            other.address == address && other.first <= last && first <= other.last
        });
        let Some((key, other)) = other else {
            return Ok(());
        };
        let network = cloud.addresses.get(address).and_then(|row| row.network);
        let network = network.map_or(0, Key::number);
        let text = rule_text(key.number(), network, "PortForwarding", "Active", &other.id);
        (text, other.first, other.last)
    };
    Err(ApiError::new(
        537,
        4360,
        format!(
            "The range specified, {first}-{last}, conflicts with rule {text} which has {from}-{to}"
        ),
    ))
}

/// createPortForwardingRule, in the job.
pub(crate) fn start_create(
    cloud: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    match cloud.port_forwards.get(Key::of(accepted.number)) {
        Some(row) => {
            let shown = json(cloud, row);
            Ok(Work::Done(Object::new().with("portforwardingrule", shown).into()))
        }
        None => Err(JobFailure::internal("Failed to apply port forwarding rule")),
    }
}

/// deletePortForwardingRule.
pub(crate) fn start_delete(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let key = call.params.required::<PortForward>("id");
    let Some(row) = cloud.port_forwards.get(key) else {
        return Err(JobFailure::invalid(format!("Unable to find {}", key.number())));
    };
    let address = row.address;
    let owner = cloud.addresses.get(address).and_then(|on| on.owner);
    if !owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        return Err(JobFailure::permission());
    }
    cloud.port_forwards.bury(key);
    unbind_if_idle(cloud, address);
    Ok(Work::Done(success()))
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
    fn rules_of_both_kinds_keep_their_ports() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let vm = lab.id("listVirtualMachines", "node-1");
        let forward = |public: &'static str| {
            [
                ("ipaddressid", address.as_str()),
                ("privateport", "22"),
                ("publicport", public),
                ("protocol", "udp"),
                ("virtualmachineid", vm.as_str()),
            ]
        };
        let made = lab.run("createPortForwardingRule", &forward("22"));
        let made = &made["portforwardingrule"];
        assert_eq!((&made["vmguestip"], &made["protocol"]), (&"10.1.1.11".into(), &"udp".into()));
        lab.rule("80", &[]);
        for (port, held) in [("80", "80-80"), ("2225", "2222-2230"), ("22", "22-22")] {
            let refused = lab.refused("createPortForwardingRule", &forward(port));
            assert_eq!((refused.code, refused.class), (537, Some(4360)));
            assert!(refused.text.ends_with(held), "{}", refused.text);
        }
        let id = text(&made["id"]);
        lab.run("deletePortForwardingRule", &[("id", &id)]);
        assert_eq!(lab.fails("deletePortForwardingRule", &[("id", &id)]).0, 431);
        lab.rule("22", &[]);
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
