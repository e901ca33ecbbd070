//! createLoadBalancerRule: everything is decided with the request, in this order: owner,
//! openfirewall, port 53, static NAT, network, CIDRs, binding of a VPC address, private port,
//! algorithm, state, service, public port, provider, conflicts. A failure after the binding undoes
//! it. The job only pushes the automatic firewall rule, if there is one.

use serde_json::Value;

use crate::cloud::{Cloud, Owner, RuleState, rule_text};
use crate::commands::Call;
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work};
use crate::object::Object;
use crate::resources::firewall_rule::{self, FirewallRule};
use crate::resources::load_balancer_rule::{
    LoadBalancerRule, has_router, json, protocols, stored_cidrs, unknown_protocol,
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
    cloud.wait_for_lock(address);
    let owner = owner(cloud, call, address)?;
    check_state(cloud, address)?;
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
    let row = cloud.addresses.get(address);
    match row.and_then(|row| row.owner) {
        Some(owner) if cloud.may_use(call.caller, owner) => Ok(owner),
        Some(_) => Err(ApiError::permission()),
        None => Err(ApiError::parameter(
            "Unable to create load balancer rule, invalid IP address id specified",
        )),
    }
}

/// An address on its way in or out takes no rules.
fn check_state(cloud: &Cloud, address: Key<PublicIp>) -> Result<(), ApiError> {
    match cloud.addresses.get(address).map(|row| row.state) {
        Some(AddressState::Allocated) => Ok(()),
        _ => Err(ApiError::invalid(format!(
            "Unable to create load balancer rule, invalid IP address ID {}",
            address.number()
        ))),
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
    if let (Some(_), Some(asked)) = (bound, asked)
        && conserves(cloud, row, asked)
    {
        check_cidrs(cloud, call)?;
        return Ok((asked, false));
    }
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

/// Whether the VPC of an address lets it serve rules of several tiers, and this is one of them.
fn conserves(cloud: &Cloud, row: &PublicIp, asked: Key<Network>) -> bool {
    let vpc = row.vpc.and_then(|key| cloud.vpcs.get(key));
    let tier_of = cloud.networks.get(asked).and_then(Network::vpc);
    vpc.is_some_and(|vpc| vpc.conserves(cloud)) && tier_of == row.vpc
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
    if !cloud.networks.get(network).is_some_and(Network::balances) {
        return Err(ApiError::parameter("LB service is not supported in specified network id"));
    }
    check_single_use(cloud, address, network)?;
    let public_port = port("publicPort", params.number("publicport"))?;
    let protocol = params.text("protocol").map(|text| text.trim().to_lowercase());
    if has_router(cloud, network) {
        check_provider(cloud, public_port, protocol.as_deref())?;
    }
    let cidrs = params.list("cidrlist").map(|cidrs| {
        let trimmed: Vec<String> = cidrs.iter().map(|cidr| cidr.trim().to_owned()).collect();
        stored_cidrs(&trimmed, " ")
    });
    Ok(Draft { address, network, owner, public_port, private_port, protocol, cidrs })
}

/// Without conserve mode an address serves rules of one kind only. Firewall rules do not count.
fn check_single_use(
    cloud: &Cloud,
    address: Key<PublicIp>,
    network: Key<Network>,
) -> Result<(), ApiError> {
    if cloud.networks.get(network).is_none_or(|network| network.offering.conserve_mode) {
        return Ok(());
    }
    let row = cloud.addresses.get(address);
    let is_forwarded = cloud.port_forwards.iter().any(|(_, rule)| rule.address == address);
    let used_as = match row {
        Some(row) if row.source_nat => "SourceNat",
        Some(_) if is_forwarded => "PortForwarding",
        Some(_) | None => return Ok(()),
    };
    if !cloud.version.has(Feature::ConserveErrorCode) {
        return Err(ApiError::internal(9999));
    }
    let shown = row.map_or_else(String::new, |row| row.address.to_string());
    Err(ApiError::parameter(format!(
        "IP address {shown} is already used as {used_as} rather than Lb"
    )))
}

fn port(name: &str, number: Option<i64>) -> Result<u16, ApiError> {
    let number = number.unwrap_or_default();
    u16::try_from(number)
        .map_err(|_| ApiError::parameter(format!("{name} is an invalid value: {number}")))
}

/// What a virtual router can not serve: other protocols, udp although networks advertise it, and
/// the port of HAProxy's own statistics page.
fn check_provider(cloud: &Cloud, public_port: u16, protocol: Option<&str>) -> Result<(), ApiError> {
    if let Some(protocol) = protocol
        && !protocols(cloud).contains(&protocol)
    {
        return Err(ApiError::parameter(unknown_protocol(cloud, protocol)));
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

/// One rule per address and public port, whatever the protocol; port forwardings count, dying rules
/// do not.
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

/// The automatic firewall rule: tcp from everywhere. Any tcp rule on exactly this port suppresses
/// it, whatever its sources.
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
            system: false,
            state: RuleState::Add,
            programmed: false,
        },
    ))
}

/// The job: the result shows the rule as it was made, even if it is gone when the job ends.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn start(cloud: &mut Cloud, _: &Call, accepted: &Accepted) -> Result<Work, JobFailure> {
    let rule = Key::of(accepted.number);
    let row = cloud.rules.get(rule);
    let shown = row.map(|row| json(cloud, row)).unwrap_or_default();
    let result: Value = Object::new().with("loadbalancer", shown).into();
    let firewall = row.and_then(|row| row.firewall);
    Ok(Work::RuleCreated { rule, firewall, result })
}

/// The end of a creation. If the router refuses the automatic firewall rule, CloudStack tries to
/// take the rule back and fails: both are left dying.
pub(crate) fn finish(
    cloud: &mut Cloud,
    rule: Key<LoadBalancerRule>,
    firewall: Option<Key<FirewallRule>>,
) -> Result<(), JobFailure> {
    if firewall.is_none_or(|firewall| firewall_rule::program(cloud, firewall)) {
        return Ok(());
    }
    let Some(row) = cloud.rules.get_mut(rule) else {
        return Ok(());
    };
    let text = format!("Unable to remove load balancer rule {}", row.text(rule));
    row.state = RuleState::Deleting;
    Err(JobFailure::internal(text))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::testing::{Lab, rule_params, text};

    #[test]
    fn a_new_rule_is_in_state_add_and_shown_as_given() {
        let mut lab = Lab::new();
        let rule = lab.rule(
            "80",
            &[("protocol", " TCP"), ("algorithm", "RoundRobin"), ("description", "why")],
        );
        let listed = lab.listed_rule(&rule);
        assert_eq!(listed["state"], "Add");
        assert_eq!(listed["protocol"], "tcp");
        assert_eq!(listed["algorithm"], "RoundRobin");
        assert_eq!(listed["publicport"], "80");
        assert_eq!(listed["description"], "why");
        assert_eq!(listed.get("cidrlist"), None);
        let bare = lab.rule("81", &[("protocol", "ABSENT")]);
        assert_eq!(lab.listed_rule(&bare).get("protocol"), None);
    }

    #[test]
    fn cidrs_are_kept_with_blanks_between_and_cut_without_a_word() {
        let mut lab = Lab::new();
        let mut cidrs = |port: &str, list: &str| {
            let rule = lab.rule(port, &[("cidrlist", list)]);
            lab.listed_rule(&rule)["cidrlist"].clone()
        };
        assert_eq!(
            cidrs("80", "10.0.0.1/8, 192.0.2.7,2001:db8::/32"),
            "10.0.0.1/8 192.0.2.7 2001:db8::/32"
        );
        assert_eq!(cidrs("81", ""), "");
        let many: Vec<String> = (0..30).map(|net| format!("10.{net}.0.0/16")).collect();
        assert_eq!(text(&cidrs("82", &many.join(","))).len(), 255);
    }

    #[test]
    fn bad_values_are_refused_with_the_request() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        for (name, value, cause) in [
            ("algorithm", "random", "Invalid algorithm: random"),
            ("cidrlist", "10.0.0.0/33", "CIDR [10.0.0.0/33] is invalid."),
            ("publicport", "65536", "publicPort is an invalid value: 65536"),
            ("privateport", "-1", "privatePort is an invalid value: -1"),
            (
                "protocol",
                "sctp",
                "protocol sctp is not in valid protocols [tcp, udp, tcp-proxy, ssl]",
            ),
            ("protocol", "udp", "LB service provider cannot support this rule"),
            ("publicport", "8081", "LB service provider cannot support this rule"),
        ] {
            let refused = lab
                .refused("createLoadBalancerRule", &rule_params(&address, "80", &[(name, value)]));
            assert_eq!((refused.code, refused.class), (431, Some(9999)), "{name}");
            assert_eq!(refused.text, cause);
        }
        assert_eq!(lab.rows("listLoadBalancerRules", &[]).len(), 0);
    }

    #[test]
    fn where_no_router_serves_udp_and_the_statistics_port_pass() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "idle");
        let address = lab.run("associateIpAddress", &[("networkid", &network)]);
        let id = text(&address["ipaddress"]["id"]);
        lab.rule_on(&id, "5353", &[("protocol", "udp")]);
        lab.rule_on(&id, "8081", &[]);
    }

    #[test]
    fn ports_are_taken_whatever_the_protocol() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let rule = lab.rule("80", &[]);
        let params = rule_params(&address, "80", &[("protocol", "tcp-proxy")]);
        let taken = lab.refused("createLoadBalancerRule", &params);
        assert_eq!((taken.code, taken.class), (537, Some(9999)));
        assert!(
            taken.text.contains(&rule)
                && taken.text.starts_with("The range specified, 80-80, conflicts")
        );
        let forwarded = lab.refused("createLoadBalancerRule", &rule_params(&address, "2225", &[]));
        assert!(forwarded.text.contains(r#""purpose":"PortForwarding""#), "{}", forwarded.text);
        assert!(forwarded.text.ends_with("which has 2222-2230"));
    }

    #[test]
    fn the_port_of_a_dying_rule_is_free() {
        let mut lab = Lab::slow(5);
        let rule = lab.rule("80", &[]);
        lab.wait(5);
        lab.ask("deleteLoadBalancerRule", &[("id", &rule)]);
        assert_eq!(lab.listed_rule(&rule)["state"], "Deleting");
        lab.rule("80", &[]);
        assert_eq!(lab.rows("listLoadBalancerRules", &[]).len(), 1);
    }

    #[test]
    fn port_53_of_a_source_nat_address_belongs_to_dns() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.1");
        assert_eq!(
            lab.refused("createLoadBalancerRule", &rule_params(&address, "53", &[])).code,
            431
        );
        lab.rule_on(&address, "8080", &[]);
    }

    #[test]
    fn addresses_of_others_and_free_ones_are_refused() {
        let mut lab = Lab::new();
        let foreign = lab.address("203.0.113.4");
        assert_eq!(
            lab.refused("createLoadBalancerRule", &rule_params(&foreign, "80", &[])).code,
            531
        );
        let free = lab.rows("listPublicIpAddresses", &[("state", "Free")]);
        let free = text(&free[0]["id"]);
        assert_eq!(lab.refused("createLoadBalancerRule", &rule_params(&free, "80", &[])).code, 431);
    }

    #[test]
    fn the_firewall_is_opened_unless_a_rule_for_the_port_exists() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        lab.open(&address, "80", "10.0.0.0/8");
        lab.rule("80", &[("openfirewall", "true")]);
        lab.rule("81", &[("openfirewall", "ABSENT")]);
        lab.rule("82", &[]);
        let opened = lab.rows("listFirewallRules", &[]);
        let seen: Vec<(Value, Value)> =
            opened.iter().map(|row| (row["startport"].clone(), row["cidrlist"].clone())).collect();
        assert_eq!(seen, [(81.into(), "0.0.0.0/0".into()), (80.into(), "10.0.0.0/8".into())]);
    }

    #[test]
    fn a_vpc_address_is_bound_by_its_first_rule_and_unbound_after_the_last() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.3");
        let tier = lab.id("listNetworks", "tier");
        let bound = |lab: &mut Lab| {
            let rows = lab.rows("listPublicIpAddresses", &[("id", &address)]);
            rows[0].get("associatednetworkid").map(text)
        };
        let in_tier = [("networkid", tier.as_str()), ("openfirewall", "ABSENT")];
        let one = lab.rule_on(&address, "80", &in_tier);
        let two = lab.rule_on(&address, "81", &[("openfirewall", "ABSENT")]);
        assert_eq!(bound(&mut lab), Some(tier.clone()));
        lab.run("deleteLoadBalancerRule", &[("id", &one)]);
        assert_eq!(bound(&mut lab), Some(tier));
        lab.run("deleteLoadBalancerRule", &[("id", &two)]);
        assert_eq!(bound(&mut lab), None);
        assert_eq!(lab.rows("listFirewallRules", &[]).len(), 0);
    }

    #[test]
    fn failures_leave_a_vpc_address_unbound() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.3");
        let tier = lab.id("listNetworks", "tier");
        let nolb = lab.id("listNetworks", "nolb");
        let iso = lab.id("listNetworks", "iso");
        let mut cause = |more: &[(&str, &str)]| {
            let refused = lab.refused("createLoadBalancerRule", &rule_params(&address, "80", more));
            assert_eq!((refused.code, refused.class), (431, Some(9999)));
            refused.text
        };
        assert!(cause(&[]).ends_with("is not associated with any Network"));
        assert!(cause(&[("networkid", &iso)]).contains("is not assigned to the network"));
        assert_eq!(
            cause(&[("networkid", &nolb)]),
            "LB service is not supported in specified network id"
        );
        assert!(
            cause(&[("networkid", &tier), ("openfirewall", "true")])
                .starts_with("Can't have openFirewall")
        );
        assert!(
            cause(&[("networkid", &tier), ("algorithm", "x")]).starts_with("Invalid algorithm")
        );
        let rows = lab.rows("listPublicIpAddresses", &[("id", &address)]);
        assert_eq!(rows[0].get("associatednetworkid"), None);
    }

    #[test]
    fn another_network_than_that_of_the_address_is_ignored_before_4_22_1() {
        let outcome = |release: &str| {
            let mut lab = Lab::on(release);
            let address = lab.address("203.0.113.2");
            let idle = lab.id("listNetworks", "idle");
            let params = rule_params(&address, "80", &[("networkid", &idle)]);
            lab.simulator.call("prod", "createLoadBalancerRule", &params, lab.now).status
        };
        assert_eq!((outcome("4.22.0"), outcome("4.22.1")), (200, 431));
    }

    #[test]
    fn before_4_18_a_cidr_list_is_refused_and_shown_empty() {
        let mut lab = Lab::on("4.17.2");
        let address = lab.address("203.0.113.2");
        let params = rule_params(&address, "80", &[("cidrlist", "10.0.0.0/8")]);
        assert_eq!(lab.refused("createLoadBalancerRule", &params).code, 431);
        let rule = lab.rule("80", &[]);
        assert_eq!(lab.listed_rule(&rule)["cidrlist"], "");
    }
}
