//! createLoadBalancerRule: everything is decided with the request, in this order: owner, openfirewall, port 53, static
//! NAT, network, CIDRs, binding of a VPC address, private port, algorithm, state, service, public port, provider,
//! conflicts. A failure after the binding undoes it. The job only pushes the automatic firewall rule, if there is one.

use serde_json::Value;

use crate::cloud::{Cloud, Owner, RuleState, rule_text};
use crate::commands::Call;
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work};
use crate::object::Object;
use crate::resources::firewall_rule::{self, FirewallRule};
use crate::resources::load_balancer_rule::{
    LoadBalancerRule, PROTOCOLS, has_router, json, stored_cidrs,
};
use crate::resources::network::Network;
use crate::resources::public_ip::{self, AddressState, PublicIp};
use crate::table::Key;
use crate::versions::Feature;

/// What is known about a rule before it is stored.
struct Draft {
    address: Key<PublicIp>,
    network: Key<Network>,
    owner: Owner,
    public_port: u16,
    private_port: u16,
    protocol: Option<String>,
    cidrs: Option<String>,
}

/// The part that happens with the request.
pub(crate) fn accept(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let Some(address) = call.params.key::<PublicIp>("publicipid") else {
        return Err(ApiError::invalid(
            "Can't define IP owner. Either specify Account/domainId or publicIpId",
        ));
    };
    let owner = owner(cloud, call, address)?;
    let (network, bound) = network(cloud, call, address).map_err(ApiError::wrapped)?;
    let drafted = draft(cloud, call, address, network, owner);
    match drafted {
        Ok(draft) => store(cloud, call, draft),
        Err(error) => {
            if bound && let Some(row) = cloud.addresses.get_mut(address) {
                row.network = None;
            }
            Err(error.wrapped())
        }
    }
}

fn owner(cloud: &Cloud, call: &Call, address: Key<PublicIp>) -> Result<Owner, ApiError> {
    let row = cloud.addresses.get(address).filter(|row| !row.releasing);
    match row.and_then(|row| row.owner) {
        Some(owner) if cloud.may_use(call.caller, owner) => Ok(owner),
        Some(_) => Err(ApiError::permission()),
        None => Err(ApiError::parameter(
            "Unable to create load balancer rule, invalid IP address id specified",
        )),
    }
}

/// The network of the rule, and whether the address was bound to it just now.
fn network(
    cloud: &mut Cloud,
    call: &Call,
    address: Key<PublicIp>,
) -> Result<(Key<Network>, bool), ApiError> {
    let Some(row) = cloud.addresses.get(address) else {
        return Err(ApiError::internal(4250));
    };
    let params = &call.params;
    if row.vpc.is_some() && params.flag("openfirewall") == Some(true) {
        return Err(ApiError::parameter(
            "Can't have openFirewall=true when IP address belongs to VPC",
        ));
    }
    let bound = row.network.and_then(|key| Some((key, cloud.networks.get(key)?)));
    let has_dns = bound.is_some_and(|(_, network)| network.offers("Dns"));
    if row.source_nat && has_dns && params.number("publicport") == Some(53) {
        return Err(ApiError::parameter(
            "Error adding load balancer rule, cannot add port 53 with network service offering having DNS service and Source NAT.",
        ));
    }
    if row.static_nat.is_some() {
        return Err(ApiError::new(
            537,
            9999,
            format!("Can't do load balance on IP address: {}", row.address),
        ));
    }
    let asked = params.key::<Network>("networkid");
    let strict = cloud.version.has(Feature::RuleNetworkChecked);
    if let (Some((bound, _)), Some(asked)) = (bound, asked)
        && strict
        && bound != asked
    {
        let (name, id) = cloud
            .networks
            .get(asked)
            .map_or(("", ""), |network| (network.name.as_str(), network.id.as_str()));
        return Err(ApiError::parameter(format!(
            "Cannot create Load Balancer rule {} as the IP address {} is not associated with the network {name} (ID={id})",
            params.text("name").unwrap_or_default(),
            row.address
        )));
    }
    check_cidrs(cloud, call)?;
    match (bound, asked) {
        (Some((network, _)), _) => Ok((network, false)),
        (None, Some(asked)) => bind(cloud, address, asked),
        (None, None) => Err(ApiError::parameter(format!(
            "IP address ID={} is not associated with any Network",
            address.number()
        ))),
    }
}

/// IPv4 and IPv6 networks and bare addresses, blanks around them allowed.
fn check_cidrs(cloud: &Cloud, call: &Call) -> Result<(), ApiError> {
    let Some(cidrs) = call.params.list("cidrlist") else {
        return Ok(());
    };
    if !cloud.version.has(Feature::RuleCidrList) {
        return Err(ApiError::parameter(
            "Parameter cidrList is deprecated; if you need to open firewall rule for the specific CIDR, please refer to createFirewallRule command",
        ));
    }
    for cidr in cidrs {
        let cidr = cidr.trim();
        if cidr.parse::<ipnet::IpNet>().is_err() && cidr.parse::<std::net::IpAddr>().is_err() {
            return Err(ApiError::parameter(format!("CIDR [{cidr}] is invalid.")));
        }
    }
    Ok(())
}

/// Binds a VPC address to a tier of its VPC.
fn bind(
    cloud: &mut Cloud,
    address: Key<PublicIp>,
    asked: Key<Network>,
) -> Result<(Key<Network>, bool), ApiError> {
    let (Some(row), Some(network)) = (cloud.addresses.get(address), cloud.networks.get(asked))
    else {
        return Err(ApiError::internal(4250));
    };
    if row.vpc.is_none() || network.vpc() != row.vpc {
        return Err(ApiError::parameter(format!(
            r#"IP address IPAddress {{"address":"{}","dataCenterId":1,"id":{},"uuid":"{}"}} is not assigned to the network Network {{"id": {}, "name": "{}", "uuid": "{}", "networkofferingid": 10}}"#,
            row.address,
            address.number(),
            row.id,
            asked.number(),
            network.name,
            network.id
        )));
    }
    if let Some(row) = cloud.addresses.get_mut(address) {
        row.network = Some(asked);
    }
    Ok((asked, true))
}

fn draft(
    cloud: &Cloud,
    call: &Call,
    address: Key<PublicIp>,
    network: Key<Network>,
    owner: Owner,
) -> Result<Draft, ApiError> {
    let params = &call.params;
    let private_port = port("privatePort", params.number("privateport"))?;
    let algorithm = params.text("algorithm").unwrap_or_default();
    if !["roundrobin", "leastconn", "source"].contains(&algorithm.to_lowercase().as_str()) {
        return Err(ApiError::parameter(format!("Invalid algorithm: {algorithm}")));
    }
    let state = cloud.addresses.get(address).map(|row| row.state);
    if state != Some(AddressState::Allocated) {
        return Err(ApiError::parameter(format!(
            "Unable to create load balancer rule, invalid IP address ID {}",
            address.number()
        )));
    }
    if !cloud.networks.get(network).is_some_and(|network| network.offers("Lb")) {
        return Err(ApiError::parameter("LB service is not supported in specified network id"));
    }
    let public_port = port("publicPort", params.number("publicport"))?;
    let protocol = params.text("protocol").map(|text| text.trim().to_lowercase());
    if has_router(cloud, network) {
        check_provider(public_port, protocol.as_deref())?;
    }
    let cidrs = params.list("cidrlist").map(|cidrs| {
        let trimmed: Vec<String> = cidrs.iter().map(|cidr| cidr.trim().to_owned()).collect();
        stored_cidrs(&trimmed, " ")
    });
    Ok(Draft { address, network, owner, public_port, private_port, protocol, cidrs })
}

fn port(name: &str, number: Option<i64>) -> Result<u16, ApiError> {
    let number = number.unwrap_or_default();
    u16::try_from(number)
        .map_err(|_| ApiError::parameter(format!("{name} is an invalid value: {number}")))
}

/// What a virtual router can not serve: other protocols, udp although networks advertise it, and the port of HAProxy's
/// own statistics page.
fn check_provider(public_port: u16, protocol: Option<&str>) -> Result<(), ApiError> {
    if let Some(protocol) = protocol
        && !PROTOCOLS.contains(&protocol)
    {
        return Err(ApiError::parameter(format!(
            "protocol {protocol} is not in valid protocols [{}]",
            PROTOCOLS.join(", ")
        )));
    }
    if protocol == Some("udp") || public_port == 8081 {
        return Err(ApiError::parameter("LB service provider cannot support this rule"));
    }
    Ok(())
}

fn store(cloud: &mut Cloud, call: &Call, draft: Draft) -> Result<Accepted, ApiError> {
    let number = cloud.next_rule();
    if let Some(conflict) = conflict(cloud, &draft) {
        public_ip::unbind_if_idle(cloud, draft.address);
        return Err(conflict);
    }
    let id = cloud.ids.next_id();
    let params = &call.params;
    let in_vpc = cloud.addresses.get(draft.address).is_some_and(|address| address.vpc.is_some());
    let open = !in_vpc && params.flag("openfirewall") != Some(false);
    let firewall = open.then(|| open_firewall(cloud, &draft)).flatten();
    let Draft { address, network, owner, public_port, private_port, protocol, cidrs } = draft;
    cloud.rules.insert_at(
        number,
        LoadBalancerRule {
            id: id.clone(),
            name: params.text("name").unwrap_or_default().to_owned(),
            description: params.text("description").map(str::to_owned),
            owner,
            address,
            network,
            public_port,
            private_port,
            algorithm: params.text("algorithm").unwrap_or_default().to_owned(),
            protocol,
            cidrs,
            state: RuleState::Add,
            members: Vec::new(),
            past: Vec::new(),
            firewall,
            programmed: None,
        },
    );
    Ok(Accepted {
        id: Some(id.clone()),
        number,
        instance: Some(Instance { kind: "FirewallRule", id: Some(id) }),
    })
}

/// One rule per address and public port, whatever the protocol; port forwardings count, dying rules do not.
fn conflict(cloud: &Cloud, draft: &Draft) -> Option<ApiError> {
    let port = draft.public_port;
    let network = draft.network.number();
    let rule = cloud.rules.iter().find(|(_, rule)| {
        rule.address == draft.address
            && rule.public_port == port
            && rule.state != RuleState::Deleting
    });
    let (text, first, last) = if let Some((key, rule)) = rule {
        let state = rule.state.text();
        let network = rule.network.number();
        (rule_text(key.number(), network, "LoadBalancing", state, &rule.id), port, port)
    } else {
        let (key, forward) = cloud.port_forwards.iter().find(|(_, forward)| {
            forward.address == draft.address && (forward.first..=forward.last).contains(&port)
        })?;
        let text = rule_text(key.number(), network, "PortForwarding", "Active", &forward.id);
        (text, forward.first, forward.last)
    };
    Some(ApiError::new(
        537,
        9999,
        format!(
            "The range specified, {port}-{port}, conflicts with rule {text} which has {first}-{last}"
        ),
    ))
}

/// The automatic firewall rule: tcp from everywhere. Any tcp rule on exactly this port suppresses it, whatever its
/// sources.
fn open_firewall(cloud: &mut Cloud, draft: &Draft) -> Option<Key<FirewallRule>> {
    let port = Some(draft.public_port);
    let exists = cloud.firewall_rules.iter().any(|(_, rule)| {
        rule.address == draft.address
            && rule.protocol == "tcp"
            && rule.first == port
            && rule.last == port
    });
    if exists {
        return None;
    }
    let id = cloud.ids.next_id();
    let number = cloud.next_rule();
    Some(cloud.firewall_rules.insert_at(
        number,
        FirewallRule {
            id,
            owner: draft.owner,
            address: draft.address,
            network: Some(draft.network),
            vpc: None,
            protocol: "tcp".to_owned(),
            first: port,
            last: port,
            icmp: None,
            cidrs: vec![firewall_rule::EVERYWHERE.to_owned()],
            state: RuleState::Add,
            programmed: false,
        },
    ))
}

/// The job: the result shows the rule as it was made, even if it is gone when the job ends.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn start(cloud: &mut Cloud, _: &Call, accepted: &Accepted) -> Result<Work, JobFailure> {
    let row = cloud.rules.get(Key::of(accepted.number));
    let shown = row.map(|row| json(cloud, row)).unwrap_or_default();
    let result: Value = Object::new().with("loadbalancer", shown).into();
    let firewall = row.and_then(|row| row.firewall);
    Ok(Work::RuleCreated { firewall, result })
}
