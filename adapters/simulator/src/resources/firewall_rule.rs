//! Firewall rules of public IP addresses: ingress only, never changed in place.

use serde_json::Value;

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner, RuleState, rule_text};
use crate::commands::{Call, Entity, Kind, Param, may, must, since};
use crate::error::{ApiError, JobFailure};
use crate::faults::RouterPart;
use crate::faults::router::Routed;
use crate::jobs::{Accepted, Instance, Work, success};
use crate::lists::{Scope, TagFilter, answer, equal};
use crate::object::Object;
use crate::params::Params;
use crate::resources::load_balancer_rule::is_served;
use crate::resources::network::Network;
use crate::resources::public_ip::{self, AddressState, PublicIp};
use crate::resources::tag::{self, ResourceType, inline_tags};
use crate::resources::vpc::{self, Vpc};
use crate::table::{Key, Row};
use crate::versions::Feature;

/// A firewall rule.
#[derive(Debug, Clone)]
pub(crate) struct FirewallRule {
    pub(crate) id: String,
    pub(crate) owner: Owner,
    pub(crate) address: Key<PublicIp>,
    /// Absent for rules of a VPC's firewall.
    pub(crate) network: Option<Key<Network>>,
    pub(crate) vpc: Option<Key<Vpc>>,
    /// `tcp`, `udp` or `icmp`.
    pub(crate) protocol: String,
    /// Both absent: all ports.
    pub(crate) first: Option<u16>,
    pub(crate) last: Option<u16>,
    /// Type and code.
    pub(crate) icmp: Option<(i64, i64)>,
    /// Sorted as text.
    pub(crate) cidrs: Vec<String>,
    /// `type=system`: only root admins delete it.
    pub(crate) system: bool,
    pub(crate) state: RuleState,
    /// Whether the router was told; it stays so until a deletion is pushed.
    pub(crate) programmed: bool,
}

/// Default of `cidrlist`.
pub(crate) const EVERYWHERE: &str = "0.0.0.0/0";

impl Row for FirewallRule {
    fn id(&self) -> &str {
        &self.id
    }
}

impl FirewallRule {
    /// Whether it is about a port; without ports it is about all.
    pub(crate) fn covers_port(&self, port: u16) -> bool {
        match (self.first, self.last) {
            (None, None) => true,
            (first, last) => {
                first.unwrap_or(0) <= port && last.or(first).is_some_and(|last| port <= last)
            }
        }
    }
}

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::FirewallRule)),
    may("ipaddressid", Kind::Id(Entity::Address)),
    since("networkid", Kind::Id(Entity::Network), "4.3"),
];

pub(crate) const CREATE_PARAMS: &[Param] = &[
    must("ipaddressid", Kind::Id(Entity::Address)),
    must("protocol", Kind::Text),
    may("startport", Kind::Number),
    may("endport", Kind::Number),
    may("cidrlist", Kind::List),
    may("icmptype", Kind::Number),
    may("icmpcode", Kind::Number),
    may("type", Kind::Text),
];

pub(crate) const ID_PARAMS: &[Param] = &[must("id", Kind::Id(Entity::FirewallRule))];

/// listFirewallRules, newest first; a keyword is ignored.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let scope = Scope::of(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let address = params.key::<PublicIp>("ipaddressid");
    if let Some(key) = address {
        public_ip::check_listed(cloud, call, key, "firewall")?;
    }
    let rows: Vec<_> = cloud
        .firewall_rules
        .iter()
        .rev()
        .filter(|(key, row)| {
            scope.covers(row.owner)
                && params.names("id", *key)
                && address.is_none_or(|address| row.address == address)
                && params.names("networkid", row.network)
                && tags.passes(cloud, ResourceType::FirewallRule, &row.id)
        })
        .collect();
    answer(cloud, call, "firewallrule", rows, |(_, row)| json(cloud, row))
}

fn json<'a>(cloud: &'a Cloud, row: &'a FirewallRule) -> Object<'a> {
    let address = cloud.addresses.get(row.address);
    let network = row.network.and_then(|key| cloud.networks.get(key));
    let vpc = row.vpc.and_then(|key| cloud.vpcs.get(key));
    Object::new()
        .with("id", row.id.as_str())
        .with("protocol", row.protocol.as_str())
        .maybe("startport", row.first)
        .maybe("endport", row.last)
        .maybe("icmptype", row.icmp.map(|(kind, _)| kind))
        .maybe("icmpcode", row.icmp.map(|(_, code)| code))
        .with("cidrlist", row.cidrs.join(","))
        .with("destcidrlist", "")
        .with("traffictype", "Ingress")
        .maybe("ipaddressid", address.map(|address| address.id.as_str()))
        .maybe("ipaddress", address.map(|address| address.address.to_string()))
        .maybe("networkid", network.map(|network| network.id.as_str()))
        .maybe("vpcid", vpc.map(|vpc| vpc.id.as_str()))
        .with("state", row.state.text())
        .with("tags", inline_tags(cloud, ResourceType::FirewallRule, &row.id))
        .of_release("firewallrule", &cloud.version)
}

/// createFirewallRule, with the request: everything but the push.
pub(crate) fn accept_create(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let params = &call.params;
    let address = params.required::<PublicIp>("ipaddressid");
    cloud.wait_for_lock(address);
    let row = cloud.addresses.get(address).ok_or_else(ApiError::permission)?;
    let Some(owner) = row.owner.filter(|owner| cloud.may_use(call.caller, *owner)) else {
        return Err(ApiError::permission());
    };
    let cidrs = sources(cloud, params)?;
    let (first, last) = ports(params)?;
    let (network, vpc) = place(cloud, address, row)?;
    let protocol = params.text("protocol").unwrap_or_default().trim().to_lowercase();
    let icmp = icmp(params, &protocol, first.or(last))?;
    let rule = FirewallRule {
        id: String::new(),
        owner,
        address,
        network,
        vpc,
        protocol,
        first,
        last,
        icmp,
        cidrs,
        system: params.text("type").is_some_and(|kind| equal(kind, "system")),
        state: RuleState::Add,
        programmed: false,
    };
    if !rule.system {
        check_conflict(cloud, &rule)?;
    }
    let number = cloud.next_rule();
    // The database refuses the same CIDR twice in one rule.
    if rule.cidrs.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err(ApiError::internal(9999));
    }
    let id = cloud.ids.next_id();
    cloud.firewall_rules.insert_at(number, FirewallRule { id: id.clone(), ..rule });
    Ok(Accepted {
        id: Some(id.clone()),
        number,
        instance: Some(Instance { kind: "FirewallRule", id: Some(id) }),
    })
}

/// Networks only, sorted as text; nothing given means everywhere.
fn sources(cloud: &Cloud, params: &Params) -> Result<Vec<String>, ApiError> {
    let mut cidrs = params.list("cidrlist").unwrap_or_default();
    let blank = cidrs.iter().all(|cidr| cidr.trim().is_empty());
    if cidrs.is_empty() || blank && cloud.version.has(Feature::BlankFirewallCidrs) {
        cidrs = vec![EVERYWHERE.to_owned()];
    }
    if let Some(bad) = cidrs.iter().find(|cidr| cidr.parse::<ipnet::IpNet>().is_err()) {
        return Err(ApiError::parameter(format!("Source CIDRs formatting error {bad}")));
    }
    cidrs.sort();
    Ok(cidrs)
}

fn ports(params: &Params) -> Result<(Option<u16>, Option<u16>), ApiError> {
    let first = params.number("startport");
    let last = params.number("endport").or(first);
    let checked = |number: Option<i64>| {
        number
            .map(|number| {
                u16::try_from(number).map_err(|_| {
                    ApiError::invalid(format!("publicPort is an invalid value: {number}"))
                })
            })
            .transpose()
    };
    let (first, last) = (checked(first)?, checked(last)?);
    if let (Some(first), Some(last)) = (first, last)
        && first > last
    {
        return Err(ApiError::invalid("Start port can't be bigger than end port"));
    }
    Ok((first, last))
}

/// The network or the VPC of a rule.
type Place = (Option<Key<Network>>, Option<Key<Vpc>>);

/// Where the rule belongs: to the address's network, or to its VPC if that has a firewall.
fn place(cloud: &Cloud, key: Key<PublicIp>, row: &PublicIp) -> Result<Place, ApiError> {
    if let Some((vpc_key, vpc)) = row.vpc.and_then(|vpc| Some((vpc, cloud.vpcs.get(vpc)?))) {
        if vpc.has_firewall(cloud) {
            return Ok((None, Some(vpc_key)));
        }
        if cloud.version.has(Feature::VpcFirewall) {
            return Err(ApiError::invalid(format!(
                "Firewall service is not supported in VPC {}",
                vpc::text(vpc_key, vpc)
            )));
        }
        if row.network.is_some() {
            return Err(ApiError::internal(9999));
        }
    }
    match row.network {
        Some(network) if row.state == AddressState::Allocated => Ok((Some(network), None)),
        _ => Err(ApiError::invalid(format!(
            "Unable to create firewall rule for the IP ID={} as it is not associated with any network and no networkId is passed in",
            key.number()
        ))),
    }
}

fn icmp(
    params: &Params,
    protocol: &str,
    port: Option<u16>,
) -> Result<Option<(i64, i64)>, ApiError> {
    let given = params.number("icmptype").or(params.number("icmpcode"));
    match protocol {
        "icmp" if port.is_some() => {
            Err(ApiError::invalid("Can't specify start/end port when protocol is ICMP"))
        }
        "icmp" => Ok(Some((
            params.number("icmptype").unwrap_or(-1),
            params.number("icmpcode").unwrap_or(-1),
        ))),
        "tcp" | "udp" if given.is_some() => {
            Err(ApiError::invalid("Can specify icmpCode and icmpType for ICMP protocol only"))
        }
        "tcp" | "udp" => Ok(None),
        other => Err(ApiError::invalid(format!("Protocol {other} is not supported in zone 1"))),
    }
}

/// Rules of one protocol conflict if their ports overlap and one CIDR is in both, compared as text.
/// A rule with ports never conflicts with one without.
fn check_conflict(cloud: &Cloud, new: &FirewallRule) -> Result<(), ApiError> {
    let shares = |old: &FirewallRule| old.cidrs.iter().any(|cidr| new.cidrs.contains(cidr));
    let others = cloud.firewall_rules.iter().filter(|(_, old)| {
        old.address == new.address
            && old.protocol == new.protocol
            && old.state != RuleState::Deleting
            && shares(old)
    });
    for (key, old) in others {
        let network = old.network.map_or(0, Key::number);
        let text = rule_text(key.number(), network, "Firewall", old.state.text(), &old.id);
        if new.icmp.is_some() {
            if new.icmp == old.icmp {
                return Err(ApiError::invalid(format!(
                    "New rule conflicts with existing rule: {text}"
                )));
            }
            continue;
        }
        match (ends(new), ends(old)) {
            (None, None) => {
                return Err(ApiError::new(
                    537,
                    4360,
                    format!(
                        "There is already a firewall rule specified with protocol = {} and no ports",
                        new.protocol
                    ),
                ));
            }
            (Some((first, last)), Some((old_first, old_last)))
                if first <= old_last && old_first <= last =>
            {
                return Err(ApiError::new(
                    537,
                    4360,
                    format!(
                        "The range specified, {first}-{last}, conflicts with rule {text} which has {old_first}-{old_last}"
                    ),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn ends(rule: &FirewallRule) -> Option<(u16, u16)> {
    let last = rule.last?;
    Some((rule.first.unwrap_or(last), last))
}

/// createFirewallRule, in the job.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn start_create(
    _: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    Ok(Work::FirewallCreated(Key::of(accepted.number)))
}

/// The end of a creation. If the router refuses, the rule is left dying.
pub(crate) fn finish_create(
    cloud: &mut Cloud,
    rule: Key<FirewallRule>,
) -> Result<Value, JobFailure> {
    if program(cloud, rule) {
        result(cloud, rule)
    } else {
        Err(JobFailure::internal("Failed to create firewall rule"))
    }
}

/// Pushes a new rule; one that is being deleted meanwhile stays so. If the router refuses, it is
/// left dying.
pub(crate) fn program(cloud: &mut Cloud, rule: Key<FirewallRule>) -> bool {
    let accepted = is_accepted(cloud, rule);
    let Some(row) = cloud.firewall_rules.get_mut(rule) else {
        return true;
    };
    let address = row.address;
    if !accepted {
        row.state = RuleState::Deleting;
    } else if row.state == RuleState::Add {
        row.state = RuleState::Active;
        row.programmed = true;
    }
    if accepted {
        forget_dying(cloud, address, Some(rule));
    }
    accepted
}

/// What a push of a rule consists of; nothing where no router serves its network. That of a VPC
/// comes with the VPC, before any tier needs it.
pub(crate) fn pushes(cloud: &Cloud, rule: Key<FirewallRule>) -> Vec<RouterPart> {
    let served = cloud.firewall_rules.get(rule).is_some_and(|row| match (row.network, row.vpc) {
        (Some(network), _) => is_served(cloud, network),
        (None, Some(vpc)) => cloud.router.is_up(Routed::Vpc(vpc)),
        (None, None) => false,
    });
    if served { vec![RouterPart::Firewall] } else { Vec::new() }
}

fn is_accepted(cloud: &Cloud, rule: Key<FirewallRule>) -> bool {
    pushes(cloud, rule).into_iter().all(|part| cloud.router.accepts(part))
}

/// The result of a creation.
pub(crate) fn result(cloud: &Cloud, rule: Key<FirewallRule>) -> Result<Value, JobFailure> {
    match cloud.firewall_rules.get(rule) {
        Some(row) => Ok(Object::new().with("firewallrule", json(cloud, row)).into()),
        None => Err(JobFailure::internal("Failed to create firewall rule")),
    }
}

/// What update and delete check with the request: a rule of another owner is refused before there
/// is a job.
pub(crate) fn accept_existing(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let key = call.params.required::<FirewallRule>("id");
    let Some(row) = cloud.firewall_rules.get(key) else {
        return Err(ApiError::invalid(format!(
            "Unable to find firewall rule by ID={}",
            key.number()
        )));
    };
    if !cloud.may_use(call.caller, row.owner) {
        return Err(ApiError::permission());
    }
    Ok(Accepted { number: key.number(), ..Accepted::default() })
}

/// updateFirewallRule: nothing that a user may change.
pub(crate) fn start_update(
    cloud: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    result(cloud, Key::of(accepted.number)).map(Work::Done)
}

/// deleteFirewallRule, in the job.
pub(crate) fn start_delete(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let key = Key::of(accepted.number);
    check_system(cloud, call, cloud.firewall_rules.get(key))?;
    if let Some(row) = cloud.firewall_rules.get_mut(key) {
        row.state = RuleState::Deleting;
    }
    Ok(Work::FirewallDeleted(key))
}

/// Only root admins delete rules of the type system.
fn check_system(cloud: &Cloud, call: &Call, rule: Option<&FirewallRule>) -> Result<(), JobFailure> {
    if rule.is_some_and(|rule| rule.system) && !cloud.is_root(call.caller) {
        return Err(JobFailure::invalid(
            "Only root admin can delete the system wide firewall rule",
        ));
    }
    Ok(())
}

/// An address with such a rule can be released by root admins only.
pub(crate) fn check_system_rules(
    cloud: &Cloud,
    call: &Call,
    address: Key<PublicIp>,
) -> Result<(), JobFailure> {
    let on_it = cloud.firewall_rules.iter().filter(|(_, rule)| rule.address == address);
    let mut rules = on_it.map(|(_, rule)| rule);
    rules.try_for_each(|rule| check_system(cloud, call, Some(rule)))
}

/// The end of a deletion. If the router refuses, the rule stays dying.
pub(crate) fn finish_delete(
    cloud: &mut Cloud,
    key: Key<FirewallRule>,
) -> Result<Value, JobFailure> {
    if revoke(cloud, key) {
        Ok(success())
    } else {
        Err(JobFailure::internal("Failed to delete firewall rule"))
    }
}

/// Pushes that a rule is gone, and with it all others of its address that were left dying.
pub(crate) fn revoke(cloud: &mut Cloud, key: Key<FirewallRule>) -> bool {
    let Some(row) = cloud.firewall_rules.get(key) else {
        return true;
    };
    let address = row.address;
    let accepted = is_accepted(cloud, key);
    if accepted {
        forget(cloud, key);
        forget_dying(cloud, address, None);
    }
    accepted
}

/// Takes out the dying rules of an address, as every push for it does, but for one.
fn forget_dying(cloud: &mut Cloud, address: Key<PublicIp>, but: Option<Key<FirewallRule>>) {
    let dying: Vec<_> = cloud
        .firewall_rules
        .iter()
        .filter(|(key, rule)| {
            rule.address == address && rule.state == RuleState::Deleting && Some(*key) != but
        })
        .map(|(key, _)| key)
        .collect();
    for key in dying {
        forget(cloud, key);
    }
}

/// The row goes, and its tags with it.
fn forget(cloud: &mut Cloud, key: Key<FirewallRule>) {
    let gone = if cloud.version.has(Feature::RulesBuried) {
        cloud.firewall_rules.bury(key)
    } else {
        cloud.firewall_rules.remove(key)
    };
    if let Some(row) = gone {
        tag::forget(cloud, ResourceType::FirewallRule, &row.id);
    }
}

/// Pushes that all rules of an address are gone. What the router refuses is left dying.
pub(crate) fn revoke_all(cloud: &mut Cloud, address: Key<PublicIp>) {
    let all: Vec<_> = cloud
        .firewall_rules
        .iter()
        .filter(|(_, rule)| rule.address == address)
        .map(|(key, _)| key)
        .collect();
    for key in all {
        revoke(cloud, key);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    #[test]
    fn a_system_rule_is_deleted_and_its_address_released_by_root_only() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let params = [
            ("ipaddressid", address.as_str()),
            ("protocol", "tcp"),
            ("startport", "500"),
            ("type", "system"),
        ];
        let made = lab.run("createFirewallRule", &params);
        let rule = text(&made["firewallrule"]["id"]);
        let refused = (431, "Only root admin can delete the system wide firewall rule".to_owned());
        assert_eq!(lab.fails("deleteFirewallRule", &[("id", &rule)]), refused);
        assert_eq!(lab.fails("disassociateIpAddress", &[("id", &address)]), refused);
        lab.by("root").run("deleteFirewallRule", &[("id", &rule)]);
        lab.by("prod").run("disassociateIpAddress", &[("id", &address)]);
    }

    #[test]
    fn a_rule_is_shown_with_numbers_and_sorted_sources() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let params = [
            ("ipaddressid", address.as_str()),
            ("protocol", "TCP"),
            ("startport", "80"),
            ("cidrlist", "192.0.2.0/24,10.0.0.1/8"),
        ];
        let rule = lab.run("createFirewallRule", &params)["firewallrule"].clone();
        assert_eq!(rule["protocol"], "tcp");
        assert_eq!((&rule["startport"], &rule["endport"]), (&80.into(), &80.into()));
        assert_eq!(rule["cidrlist"], "10.0.0.1/8,192.0.2.0/24");
        assert_eq!(rule["state"], "Active");
        assert_eq!(rule["destcidrlist"], "");
        let everywhere = [("ipaddressid", address.as_str()), ("protocol", "udp"), ("cidrlist", "")];
        let rule = lab.run("createFirewallRule", &everywhere)["firewallrule"].clone();
        assert_eq!(rule["cidrlist"], "0.0.0.0/0");
        assert_eq!(rule.get("startport"), None);
        assert_eq!(lab.column("listFirewallRules", &[], "protocol"), ["udp", "tcp"]);
    }

    #[test]
    fn conflicts_are_overlapping_ports_with_one_cidr_in_common_as_text() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        lab.open(&address, "80", "10.0.0.0/8");
        let params = |first: &'static str, last: &'static str, cidrs: &'static str| {
            vec![("protocol", "tcp"), ("startport", first), ("endport", last), ("cidrlist", cidrs)]
        };
        let mut status = |given: Vec<(&str, &str)>| {
            let mut params = vec![("ipaddressid", address.as_str())];
            params.extend(given);
            let response = lab.simulator.call("prod", "createFirewallRule", &params, lab.now);
            response.status
        };
        assert_eq!(status(params("80", "80", "10.0.0.0/8")), 537);
        assert_eq!(status(params("70", "90", "192.0.2.0/24,10.0.0.0/8")), 537);
        assert_eq!(status(params("80", "80", "10.1.0.0/16")), 200);
        assert_eq!(status(params("81", "81", "10.0.0.0/8")), 200);
        assert_eq!(status(vec![("protocol", "tcp"), ("cidrlist", "10.0.0.0/8")]), 200);
        assert_eq!(status(vec![("protocol", "tcp"), ("cidrlist", "10.0.0.0/8")]), 537);
        assert_eq!(status(vec![("protocol", "icmp")]), 200);
        assert_eq!(status(vec![("protocol", "icmp")]), 431);
    }

    #[test]
    fn bad_values_are_refused_with_the_request() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        for (params, code, cause) in [
            (vec![("protocol", "all")], 431, "Protocol all is not supported in zone 1"),
            (
                vec![("protocol", "tcp"), ("startport", "2"), ("endport", "1")],
                431,
                "Start port can't be bigger than end port",
            ),
            (
                vec![("protocol", "tcp"), ("startport", "65536")],
                431,
                "publicPort is an invalid value: 65536",
            ),
            (
                vec![("protocol", "icmp"), ("startport", "1")],
                431,
                "Can't specify start/end port when protocol is ICMP",
            ),
            (
                vec![("protocol", "tcp"), ("cidrlist", "10.0.0.0/8, 10.1.0.0/16")],
                431,
                "Source CIDRs formatting error  10.1.0.0/16",
            ),
            (
                vec![("protocol", "tcp"), ("cidrlist", "10.1.2.3")],
                431,
                "Source CIDRs formatting error 10.1.2.3",
            ),
            (
                vec![("protocol", "tcp"), ("cidrlist", "10.0.0.0/8,10.0.0.0/8")],
                530,
                "Internal error executing command, please contact your system administrator",
            ),
        ] {
            let mut params = params;
            params.push(("ipaddressid", &address));
            let refused = lab.refused("createFirewallRule", &params);
            assert_eq!((refused.code, refused.text.as_str()), (code, cause));
        }
        assert_eq!(lab.rows("listFirewallRules", &[]).len(), 0);
    }

    #[test]
    fn others_are_refused_before_there_is_a_job() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let rule = lab.open(&address, "80", "10.0.0.0/8");
        lab.by("other");
        assert_eq!(lab.refused("deleteFirewallRule", &[("id", &rule)]).code, 531);
        let create = [("ipaddressid", address.as_str()), ("protocol", "tcp")];
        assert_eq!(lab.refused("createFirewallRule", &create).code, 531);
        assert_eq!(lab.refused("listFirewallRules", &[("ipaddressid", &address)]).code, 531);
        assert_eq!(lab.rows("listFirewallRules", &[]).len(), 0);
    }

    #[test]
    fn updating_changes_nothing_and_deleting_twice_is_known_at_once() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let rule = lab.open(&address, "80", "10.0.0.0/8");
        let before = lab.rows("listFirewallRules", &[("id", &rule)]);
        let ports = [("startport", "81"), ("endport", "82")];
        let change = [&[("id", rule.as_str()), ("cidrlist", "192.0.2.0/24")][..], &ports].concat();
        let same = lab.run("updateFirewallRule", &change);
        assert_eq!(text(&same["firewallrule"]["id"]), rule);
        assert_eq!(lab.rows("listFirewallRules", &[("id", &rule)]), before);
        lab.run("deleteFirewallRule", &[("id", &rule)]);
        let refused = lab.refused("deleteFirewallRule", &[("id", &rule)]);
        assert_eq!((refused.code, refused.class), (431, Some(4350)));
        assert!(refused.text.starts_with("Unable to find firewall rule by ID="));
    }

    #[test]
    fn a_rule_is_in_state_add_until_it_is_pushed() {
        let mut lab = Lab::slow(5);
        let address = lab.address("203.0.113.2");
        lab.ask("createFirewallRule", &[("ipaddressid", &address), ("protocol", "tcp")]);
        assert_eq!(lab.column("listFirewallRules", &[], "state"), ["Add"]);
        lab.wait(5);
        assert_eq!(lab.column("listFirewallRules", &[], "state"), ["Active"]);
    }

    #[test]
    fn addresses_of_a_vpc_take_rules_if_its_offering_has_a_firewall() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.3");
        let create = [("ipaddressid", address.as_str()), ("protocol", "tcp"), ("startport", "80")];
        let refused = lab.refused("createFirewallRule", &create);
        assert!(
            refused.text.starts_with("Firewall service is not supported in VPC VPC {"),
            "{}",
            refused.text
        );
        assert_eq!(lab.rows("listFirewallRules", &[("ipaddressid", &address)]).len(), 0);
        let mut lab = Lab::with_vpc_firewall();
        let address = lab.address("203.0.113.3");
        let tier = lab.id("listNetworks", "tier");
        let create = [("ipaddressid", address.as_str()), ("protocol", "tcp"), ("startport", "80")];
        let rule = lab.run("createFirewallRule", &create)["firewallrule"].clone();
        assert!(rule.get("vpcid").is_some() && rule.get("networkid").is_none());
        assert_eq!(lab.rows("listFirewallRules", &[("networkid", &tier)]).len(), 0);
        // It keeps the address bound, even beyond its own end.
        let balanced = lab.rule_on(&address, "80", &[("networkid", &tier)]);
        lab.run("deleteLoadBalancerRule", &[("id", &balanced)]);
        lab.run("deleteFirewallRule", &[("id", &text(&rule["id"]))]);
        let listed = lab.rows("listPublicIpAddresses", &[("id", &address)]);
        assert_eq!(listed[0]["associatednetworkid"], tier);
    }
}
