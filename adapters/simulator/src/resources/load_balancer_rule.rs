//! Load-balancer rules: listed, changed in place, pushed to the router and deleted.
//! `create_rule.rs` makes them and `member.rs` gives them members.
//!
//! A rule's row and what the router was last told are two things: rows change with the request,
//! `programmed` with the end of a job that pushes. Traffic follows the second.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner, RuleState};
use crate::commands::{Call, Entity, Kind, Param, changed, may, must, since};
use crate::error::{ApiError, JobFailure};
use crate::faults::RouterPart;
use crate::faults::router::Routed;
use crate::jobs::{Accepted, Work, success};
use crate::lists::{Scope, TagFilter, answer, contains, equal, keyword_matches};
use crate::object::Object;
use crate::resources::firewall_rule;
use crate::resources::firewall_rule::FirewallRule;
use crate::resources::member::Mapping;
use crate::resources::network::Network;
use crate::resources::public_ip::{self, PublicIp};
use crate::resources::stickiness;
use crate::resources::tag::{ResourceType, inline_tags};
use crate::resources::virtual_machine::VirtualMachine;
use crate::table::{Key, Row};
use crate::traffic::Programmed;
use crate::versions::Feature;

/// A load-balancer rule.
#[derive(Debug, Clone)]
pub(crate) struct LoadBalancerRule {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) owner: Owner,
    pub(crate) address: Key<PublicIp>,
    pub(crate) network: Key<Network>,
    pub(crate) public_port: u16,
    pub(crate) private_port: u16,
    /// As given; only creation checks it.
    pub(crate) algorithm: String,
    /// Absent if the rule was created without.
    pub(crate) protocol: Option<String>,
    /// As stored: separated by blanks after a creation, by commas after an update.
    pub(crate) cidrs: Option<String>,
    pub(crate) state: RuleState,
    /// By age; revoked ones stay until the push.
    pub(crate) members: Vec<Mapping>,
    /// VMs of mappings that ended, one entry each: the filter by VM finds them too.
    pub(crate) past: Vec<Key<VirtualMachine>>,
    /// The firewall rule made with it, which goes with it.
    pub(crate) firewall: Option<Key<FirewallRule>>,
    pub(crate) programmed: Option<Programmed>,
}

/// An update under way.
#[derive(Debug, Clone)]
pub(crate) struct Updated {
    pub(crate) rule: Key<LoadBalancerRule>,
    /// What a refused push brings back. Protocol and description are not among it (observed).
    name: String,
    algorithm: String,
    cidrs: Option<String>,
    state: RuleState,
    /// What the job says after a push.
    outcome: Result<Value, JobFailure>,
}

/// A deletion under way.
#[derive(Debug, Clone)]
pub(crate) struct Deleted {
    pub(crate) rule: Key<LoadBalancerRule>,
    /// The state that a refused push brings back.
    state: RuleState,
}

/// Why a push did not take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushError {
    /// The router refused.
    Refused,
    /// One VM is mapped twice with one address, which the database never gets over: a removal and
    /// an assign of it overlapped (observed). An update of such a rule was never observed: here
    /// what it stored stays, since only a refusal of the router undoes it.
    Doubled,
}

/// Width of the column that holds the CIDR list: longer lists are cut silently, in the middle of a
/// CIDR.
const CIDR_COLUMN: usize = 255;
/// What the API knows, compared with the letter case given.
const PROTOCOLS: &[&str] = &["tcp", "udp", "tcp-proxy", "ssl"];

impl Row for LoadBalancerRule {
    fn id(&self) -> &str {
        &self.id
    }
}

impl LoadBalancerRule {
    /// How error texts show a rule.
    pub(crate) fn text(&self, key: Key<Self>) -> String {
        format!(
            r#"LoadBalancer {{"name":"{}","id":{},"purpose":"LoadBalancing","state":"{}","uuid":"{}"}}"#,
            self.name,
            key.number(),
            // Inside CloudStack the state of a dying rule is called Revoke.
            if self.state == RuleState::Deleting { "Revoke" } else { self.state.text() },
            self.id
        )
    }

    /// Whether two mappings are of one VM and one address.
    fn is_doubled(&self) -> bool {
        let mut seen = BTreeSet::new();
        !self.members.iter().all(|mapping| seen.insert((mapping.vm, &mapping.address)))
    }
}

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::LoadBalancerRule)),
    may("name", Kind::Text),
    may("publicipid", Kind::Id(Entity::Address)),
    may("virtualmachineid", Kind::Id(Entity::VirtualMachine)),
    may("zoneid", Kind::Id(Entity::Zone)),
    may("networkid", Kind::Id(Entity::Network)),
];

pub(crate) const CREATE_PARAMS: &[Param] = &[
    must("algorithm", Kind::Text),
    must("name", Kind::Text),
    must("privateport", Kind::Number),
    must("publicport", Kind::Number),
    may("publicipid", Kind::Id(Entity::Address)),
    may("networkid", Kind::Id(Entity::Network)),
    may("zoneid", Kind::Id(Entity::Zone)),
    may("protocol", Kind::Text),
    may("openfirewall", Kind::Flag),
    changed("cidrlist", Kind::List, "4.18.0.0"),
    may("description", Kind::LongText(4096)),
];

pub(crate) const UPDATE_PARAMS: &[Param] = &[
    must("id", Kind::Id(Entity::LoadBalancerRule)),
    may("name", Kind::Text),
    may("description", Kind::LongText(4096)),
    may("algorithm", Kind::Text),
    may("protocol", Kind::Text),
    since("cidrlist", Kind::List, "4.22"),
];

pub(crate) const ID_PARAMS: &[Param] = &[must("id", Kind::Id(Entity::LoadBalancerRule))];

/// listLoadBalancerRules, oldest first.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let scope = Scope::of(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let vm = params.key::<VirtualMachine>("virtualmachineid");
    let rows: Vec<_> = cloud
        .rules
        .iter()
        .filter(|(key, row)| {
            scope.covers(row.owner)
                && params.names("id", *key)
                && params.agrees("name", |name| is_named(cloud, row, name))
                && params.names("publicipid", row.address)
                && params.names("networkid", row.network)
                && params.is_in_zone()
                && keyword_matches(
                    call,
                    &[&row.name, row.description.as_deref().unwrap_or_default()],
                )
                && tags.passes(cloud, ResourceType::LoadBalancer, &row.id)
        })
        .flat_map(|(_, row)| {
            let times = vm.map_or(1, |vm| times_mapped(cloud, row, vm));
            std::iter::repeat_n(row, times)
        })
        .collect();
    answer(cloud, call, "loadbalancerrule", rows, |row| json(cloud, row))
}

fn is_named(cloud: &Cloud, row: &LoadBalancerRule, name: &str) -> bool {
    if cloud.version.has(Feature::RuleAndVmNamesMatchExactly) {
        equal(&row.name, name)
    } else {
        contains(&row.name, name)
    }
}

/// One row of the answer per mapping, and since rules are buried also per mapping of the past.
fn times_mapped(cloud: &Cloud, row: &LoadBalancerRule, vm: Key<VirtualMachine>) -> usize {
    let present = row.members.iter().filter(|mapping| mapping.vm == vm).count();
    let past = row.past.iter().filter(|past| **past == vm).count();
    present + if cloud.version.has(Feature::RulesBuried) { past } else { 0 }
}

pub(crate) fn json<'a>(cloud: &'a Cloud, row: &'a LoadBalancerRule) -> Object<'a> {
    let address = cloud.addresses.get(row.address);
    let network = cloud.networks.get(row.network);
    let cidrs =
        if cloud.version.has(Feature::RuleCidrList) { row.cidrs.as_deref() } else { Some("") };
    Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .maybe("description", row.description.as_deref())
        .maybe("publicipid", address.map(|address| address.id.as_str()))
        .maybe("publicip", address.map(|address| address.address.to_string()))
        .with("publicport", row.public_port.to_string())
        .with("privateport", row.private_port.to_string())
        .with("algorithm", row.algorithm.as_str())
        .maybe("protocol", row.protocol.as_deref())
        .maybe("cidrlist", cidrs)
        .maybe("networkid", network.map(|network| network.id.as_str()))
        .with("state", row.state.text())
        .with("tags", inline_tags(cloud, ResourceType::LoadBalancer, &row.id))
        .merge(cloud.zone_fields())
        .merge(cloud.owner_fields(row.owner))
}

/// A list of CIDRs as the database keeps it.
pub(crate) fn stored_cidrs(cidrs: &[String], separator: &str) -> String {
    cidrs.join(separator).chars().take(CIDR_COLUMN).collect()
}

/// The rule of a job, if it exists and the caller may change it.
pub(crate) fn changeable<'a>(
    cloud: &'a Cloud,
    call: &Call,
) -> Result<(Key<LoadBalancerRule>, &'a LoadBalancerRule), JobFailure> {
    let key = call.params.required::<LoadBalancerRule>("id");
    let Some(row) = cloud.rules.get(key) else {
        return Err(JobFailure::invalid(format!(
            "Unable to find load balancer rule: {}",
            key.number()
        )));
    };
    if cloud.may_use(call.caller, row.owner) {
        Ok((key, row))
    } else {
        Err(JobFailure::permission())
    }
}

/// updateLoadBalancerRule. Everything is checked before anything is stored. An update of nothing
/// pushes, and then fails.
pub(crate) fn start_update(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let (key, row) = changeable(cloud, call)?;
    let params = &call.params;
    let name = params.text("name").map(str::to_owned);
    let description = params.text("description").map(str::to_owned);
    let algorithm = params.text("algorithm").map(str::to_owned);
    let protocol = params
        .text("protocol")
        .filter(|_| cloud.version.has(Feature::RuleProtocolUpdate))
        .map(str::to_owned);
    let cidrs = params.list("cidrlist");
    check_protocol(cloud, key, row, protocol.as_deref())?;
    if let Some(cidrs) = &cidrs
        && !cidrs.iter().all(|cidr| is_ipv4_cidr(cidr))
    {
        return Err(JobFailure::invalid(format!("Invalid CIDR list: {}", cidrs.join(","))));
    }
    let nothing = [&name, &description, &algorithm, &protocol].iter().all(|given| given.is_none())
        && cidrs.is_none();
    let pushed = is_pushed(cloud, row, algorithm.as_deref(), protocol.as_deref(), cidrs.as_deref());
    // A rule created without protocol trips over a null pointer after the push.
    let broken = cloud.version.has(Feature::UpdatePushesMostly)
        && row.protocol.is_none()
        && protocol.is_none();
    let full_cidrs = cidrs.as_ref().map(|cidrs| cidrs.join(","));
    let Some(row) = cloud.rules.get_mut(key) else {
        return Err(JobFailure::invalid("Unable to find load balancer rule"));
    };
    let before = (row.name.clone(), row.algorithm.clone(), row.cidrs.clone(), row.state);
    row.name = name.unwrap_or_else(|| row.name.clone());
    row.description = description.or(row.description.take());
    row.algorithm = algorithm.unwrap_or_else(|| row.algorithm.clone());
    row.protocol = protocol.or(row.protocol.take());
    row.cidrs = cidrs.map(|cidrs| stored_cidrs(&cidrs, ",")).or(row.cidrs.take());
    if pushed {
        row.state = RuleState::Add;
    }
    let row = row.clone();
    let shown = json(cloud, &row).maybe("cidrlist", full_cidrs);
    let result: Value = Object::new().with("loadbalancer", shown).into();
    if !pushed && !nothing {
        return Ok(Work::Done(result));
    }
    let outcome = if nothing {
        Err(JobFailure::internal(format!("Failed to update load balancer rule: {}", row.text(key))))
    } else if broken {
        Err(JobFailure::internal(
            "Cannot invoke \"String.equals(Object)\" because the return value of \"com.cloud.network.dao.LoadBalancerVO.getLbProtocol()\" is null",
        ))
    } else {
        Ok(result)
    };
    let (name, algorithm, cidrs, state) = before;
    Ok(Work::RuleUpdated(Box::new(Updated { rule: key, name, algorithm, cidrs, state, outcome })))
}

/// The end of an update. After a refused push most of the old values are back.
pub(crate) fn finish_update(cloud: &mut Cloud, updated: Updated) -> Result<Value, JobFailure> {
    let Updated { rule: key, name, algorithm, cidrs, state, outcome } = updated;
    match push(cloud, key) {
        Ok(()) => return outcome,
        Err(PushError::Doubled) => return Err(doubled()),
        Err(PushError::Refused) => {}
    }
    let Some(row) = cloud.rules.get_mut(key) else {
        return outcome;
    };
    (row.name, row.algorithm, row.cidrs, row.state) = (name, algorithm, cidrs, state);
    Err(JobFailure::internal(format!("Failed to update load balancer rule: {}", row.text(key))))
}

/// The protocols that a release knows.
pub(crate) fn protocols(cloud: &Cloud) -> Vec<&'static str> {
    let has_ssl = cloud.version.has(Feature::SslOffload);
    PROTOCOLS.iter().copied().filter(|protocol| has_ssl || *protocol != "ssl").collect()
}

pub(crate) fn unknown_protocol(cloud: &Cloud, protocol: &str) -> String {
    format!("protocol {protocol} is not in valid protocols [{}]", protocols(cloud).join(", "))
}

/// Compared with the letter case given, unlike on creation. A router serves no udp.
fn check_protocol(
    cloud: &Cloud,
    key: Key<LoadBalancerRule>,
    row: &LoadBalancerRule,
    protocol: Option<&str>,
) -> Result<(), JobFailure> {
    let Some(protocol) = protocol else {
        return Ok(());
    };
    if !has_router(cloud, row.network) {
        return Ok(());
    }
    if !protocols(cloud).contains(&protocol) {
        return Err(JobFailure::invalid(unknown_protocol(cloud, protocol)));
    }
    if protocol == "udp" {
        return Err(JobFailure::invalid(format!(
            "Modifications in lb rule {} are not supported.",
            row.text(key)
        )));
    }
    Ok(())
}

/// Up to 4.21 only another algorithm is pushed. Later an algorithm or protocol left out counts as
/// another one.
fn is_pushed(
    cloud: &Cloud,
    row: &LoadBalancerRule,
    algorithm: Option<&str>,
    protocol: Option<&str>,
    cidrs: Option<&[String]>,
) -> bool {
    if !cloud.version.has(Feature::UpdatePushesMostly) {
        return algorithm.is_some_and(|algorithm| algorithm != row.algorithm);
    }
    let new_cidrs = cidrs.is_some_and(|cidrs| row.cidrs.as_deref() != Some(&*cidrs.join(",")));
    algorithm != Some(row.algorithm.as_str()) || protocol != row.protocol.as_deref() || new_cidrs
}

/// Updates take IPv4 networks only.
fn is_ipv4_cidr(text: &str) -> bool {
    text.parse::<ipnet::Ipv4Net>().is_ok()
}

/// Whether a virtual router serves the network.
pub(crate) fn has_router(cloud: &Cloud, network: Key<Network>) -> bool {
    cloud.networks.get(network).is_some_and(|network| network.implemented)
}

/// Whether a network has a router that runs: one that is stopped gets no push.
pub(crate) fn is_served(cloud: &Cloud, network: Key<Network>) -> bool {
    has_router(cloud, network) && cloud.router.is_up(Routed::with(cloud, network))
}

/// What a push of a rule consists of: the first one on an address brings that too. Nothing without
/// a router.
pub(crate) fn pushes(cloud: &Cloud, key: Key<LoadBalancerRule>) -> Vec<RouterPart> {
    let Some(row) = cloud.rules.get(key).filter(|row| is_served(cloud, row.network)) else {
        return Vec::new();
    };
    let source_nat = cloud.addresses.get(row.address).is_some_and(|address| address.source_nat);
    let known = source_nat
        || cloud
            .rules
            .iter()
            .any(|(_, other)| other.address == row.address && other.programmed.is_some());
    if known {
        vec![RouterPart::LoadBalancer]
    } else {
        vec![RouterPart::Address, RouterPart::LoadBalancer]
    }
}

/// Tells the router what the row says now, drops mappings that were revoked, and settles the state.
/// Without a router everything succeeds and nothing is programmed. A rule that is gone needs no
/// push.
///
/// # Errors
/// If nothing was applied; the row is as it was.
pub(crate) fn push(cloud: &mut Cloud, key: Key<LoadBalancerRule>) -> Result<(), PushError> {
    let Some(mut row) = cloud.rules.get(key).cloned() else {
        return Ok(());
    };
    if row.is_doubled() {
        return Err(PushError::Doubled);
    }
    if !pushes(cloud, key).into_iter().all(|part| cloud.router.accepts(part)) {
        return Err(PushError::Refused);
    }
    let (revoked, kept) = row.members.into_iter().partition(|mapping| mapping.revoked);
    let revoked: Vec<Mapping> = revoked;
    row.members = kept;
    row.past.extend(revoked.into_iter().map(|mapping| mapping.vm));
    if row.state != RuleState::Deleting {
        row.state = if row.members.is_empty() { RuleState::Add } else { RuleState::Active };
    }
    if has_router(cloud, row.network) {
        row.programmed = Some(Programmed::of(cloud, &row));
    }
    if let Some(stored) = cloud.rules.get_mut(key) {
        *stored = row;
    }
    stickiness::forget_revoked(cloud, key);
    Ok(())
}

/// A push whose refusal undoes nothing.
pub(crate) fn finish_push(
    cloud: &mut Cloud,
    rule: Key<LoadBalancerRule>,
    refusal: &str,
) -> Result<(), JobFailure> {
    push(cloud, rule).map_err(|error| match error {
        PushError::Refused => JobFailure::internal(refusal),
        PushError::Doubled => doubled(),
    })
}

/// What every job about a rule with a VM mapped twice says, until the database is repaired.
pub(crate) fn doubled() -> JobFailure {
    JobFailure::internal("Entity already exists ")
}

/// deleteLoadBalancerRule: the rule and its automatic firewall rule are dying until the push is
/// done.
pub(crate) fn start_delete(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let (key, row) = changeable(cloud, call)?;
    let state = row.state;
    if let Some(row) = cloud.rules.get_mut(key) {
        row.state = RuleState::Deleting;
        if let Some(firewall) = row.firewall
            && let Some(firewall) = cloud.firewall_rules.get_mut(firewall)
        {
            firewall.state = RuleState::Deleting;
        }
    }
    Ok(Work::RuleDeleted(Deleted { rule: key, state }))
}

/// What a deletion pushes: the automatic firewall rule, then the rule itself.
pub(crate) fn delete_pushes(cloud: &Cloud, key: Key<LoadBalancerRule>) -> Vec<RouterPart> {
    let firewall = cloud.rules.get(key).and_then(|row| row.firewall);
    let mut parts = firewall.map(|rule| firewall_rule::pushes(cloud, rule)).unwrap_or_default();
    parts.extend(pushes(cloud, key));
    parts
}

/// The end of a deletion. If the router refuses, the rule is as before, but its automatic firewall
/// rule is gone, or dying if it was that which could not be pushed.
pub(crate) fn finish_delete(cloud: &mut Cloud, deleted: &Deleted) -> Result<Value, JobFailure> {
    let Deleted { rule: key, state } = *deleted;
    let Some(row) = cloud.rules.get(key) else {
        return Ok(success());
    };
    let (address, firewall) = (row.address, row.firewall);
    let firewall_gone = firewall.is_none_or(|rule| firewall_rule::revoke(cloud, rule));
    if firewall_gone {
        match push(cloud, key) {
            Ok(()) => {
                forget(cloud, key);
                public_ip::unbind_if_idle(cloud, address);
                return Ok(success());
            }
            Err(PushError::Doubled) => return Err(doubled()),
            Err(PushError::Refused) => {}
        }
    }
    let Some(row) = cloud.rules.get_mut(key) else {
        return Ok(success());
    };
    row.state = state;
    Err(JobFailure::internal(if firewall_gone {
        format!("Unable to remove load balancer rule {}", row.text(key))
    } else {
        "Failed to delete load balancer".to_owned()
    }))
}

/// Whether a rule of an address has a VM mapped twice.
pub(crate) fn any_doubled(cloud: &Cloud, address: Key<PublicIp>) -> bool {
    cloud.rules.iter().any(|(_, rule)| rule.address == address && rule.is_doubled())
}

/// Takes out all rules of an address.
pub(crate) fn forget_all(cloud: &mut Cloud, address: Key<PublicIp>) {
    let gone: Vec<_> = cloud
        .rules
        .iter()
        .filter(|(_, rule)| rule.address == address)
        .map(|(key, _)| key)
        .collect();
    for key in gone {
        forget(cloud, key);
    }
}

/// The row goes; its tags stay behind, as in CloudStack.
fn forget(cloud: &mut Cloud, key: Key<LoadBalancerRule>) {
    if cloud.version.has(Feature::RulesBuried) {
        let address = cloud.rules.get(key).map(|rule| rule.address);
        if let Some(row) = address.and_then(|address| cloud.addresses.get_mut(address)) {
            row.past_rules = true;
        }
        cloud.rules.bury(key);
    } else {
        cloud.rules.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    #[test]
    fn an_update_is_pushed_but_its_result_says_add() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        lab.assign(&rule, &["node-1"]);
        let params = [
            ("id", rule.as_str()),
            ("name", "new"),
            ("algorithm", "bogus"),
            ("protocol", "tcp-proxy"),
            ("cidrlist", "10.0.0.1/8,192.0.2.0/24"),
        ];
        let result = lab.run("updateLoadBalancerRule", &params);
        assert_eq!(result["loadbalancer"]["state"], "Add");
        let listed = lab.listed_rule(&rule);
        assert_eq!(listed["state"], "Active");
        assert_eq!(listed["algorithm"], "bogus");
        assert_eq!(listed["protocol"], "tcp-proxy");
        assert_eq!(listed["cidrlist"], "10.0.0.1/8,192.0.2.0/24");
        lab.run("updateLoadBalancerRule", &[("id", &rule), ("cidrlist", "")]);
        assert_eq!(lab.listed_rule(&rule)["cidrlist"], "");
        // The same values again are no failure.
        lab.run("updateLoadBalancerRule", &[("id", &rule), ("name", "new")]);
    }

    #[test]
    fn one_bad_value_stores_nothing_of_an_update() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        for (name, value, cause) in [
            (
                "cidrlist",
                "10.0.0.0/8, 172.16.0.0/12",
                "Invalid CIDR list: 10.0.0.0/8, 172.16.0.0/12",
            ),
            ("cidrlist", "10.1.2.3", "Invalid CIDR list: 10.1.2.3"),
            ("cidrlist", "2001:db8::/32", "Invalid CIDR list: 2001:db8::/32"),
            (
                "protocol",
                "TCP",
                "protocol TCP is not in valid protocols [tcp, udp, tcp-proxy, ssl]",
            ),
        ] {
            let params = [("id", rule.as_str()), ("name", "new"), (name, value)];
            assert_eq!(lab.fails("updateLoadBalancerRule", &params), (431, cause.to_owned()));
        }
        let params = [("id", rule.as_str()), ("name", "new"), ("protocol", "udp")];
        let (code, cause) = lab.fails("updateLoadBalancerRule", &params);
        assert!(code == 431 && cause.ends_with("are not supported."), "{cause}");
        assert_eq!(lab.listed_rule(&rule)["name"], "web");
    }

    #[test]
    fn an_update_of_nothing_fails() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let (code, cause) =
            lab.fails("updateLoadBalancerRule", &[("id", &rule), ("publicport", "81")]);
        assert!(
            code == 530 && cause.starts_with("Failed to update load balancer rule: LoadBalancer {"),
            "{cause}"
        );
    }

    #[test]
    fn a_rule_without_protocol_is_changed_although_the_update_fails_from_4_22_on() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[("protocol", "ABSENT")]);
        assert_eq!(lab.fails("updateLoadBalancerRule", &[("id", &rule), ("name", "new")]).0, 530);
        assert_eq!(lab.listed_rule(&rule)["name"], "new");
        lab.run("updateLoadBalancerRule", &[("id", &rule), ("protocol", "tcp")]);
        lab.run("updateLoadBalancerRule", &[("id", &rule), ("name", "newer")]);
        let mut old = Lab::on("4.21.0");
        let rule = old.rule("80", &[("protocol", "ABSENT")]);
        old.run("updateLoadBalancerRule", &[("id", &rule), ("name", "new")]);
    }

    #[test]
    fn up_to_4_21_updates_ignore_cidrs_and_push_another_algorithm_only() {
        let mut lab = Lab::on("4.21.0");
        let address = lab.address("203.0.113.2");
        let rule = lab.rule("80", &[("cidrlist", "10.0.0.0/8")]);
        lab.open(&address, "80", "0.0.0.0/0");
        lab.assign(&rule, &["node-1"]);
        let params = [("id", rule.as_str()), ("name", "new"), ("cidrlist", "192.0.2.0/24")];
        let result = lab.run("updateLoadBalancerRule", &params);
        assert_eq!(result["loadbalancer"]["state"], "Active");
        assert_eq!(lab.listed_rule(&rule)["cidrlist"], "10.0.0.0/8");
        assert!(!lab.reach("192.0.2.1", "203.0.113.2", 80).accepted);
    }

    #[test]
    fn deleting_twice_is_known_at_once_only_before_4_23() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        lab.run("deleteLoadBalancerRule", &[("id", &rule)]);
        let (code, cause) = lab.fails("deleteLoadBalancerRule", &[("id", &rule)]);
        assert!(code == 431 && cause.starts_with("Unable to find load balancer rule: "), "{cause}");
        assert_eq!(lab.rows("listLoadBalancerRules", &[("id", &rule)]).len(), 0);
        let refused = lab.refused("listLoadBalancerRuleInstances", &[("id", &rule)]);
        assert_eq!((refused.code, refused.class), (530, Some(4250)));
        let mut old = Lab::on("4.22.0");
        let rule = old.rule("80", &[]);
        old.run("deleteLoadBalancerRule", &[("id", &rule)]);
        assert_eq!(old.refused("deleteLoadBalancerRule", &[("id", &rule)]).code, 431);
    }

    #[test]
    fn the_automatic_firewall_rule_goes_with_its_rule_and_tags_stay() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[("openfirewall", "true")]);
        let tag = [
            ("resourcetype", "LoadBalancer"),
            ("resourceids", rule.as_str()),
            ("tags[0].key", "a"),
            ("tags[0].value", "b"),
        ];
        lab.run("createTags", &tag);
        assert_eq!(lab.rows("listFirewallRules", &[]).len(), 1);
        lab.run("deleteLoadBalancerRule", &[("id", &rule)]);
        assert_eq!(lab.rows("listFirewallRules", &[]).len(), 0);
        assert_eq!(lab.rows("listTags", &[]).len(), 1);
    }

    #[test]
    fn rules_of_others_fail_in_the_job_with_530() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        lab.by("other");
        assert_eq!(lab.rows("listLoadBalancerRules", &[("id", &rule)]).len(), 0);
        assert_eq!(lab.fails("deleteLoadBalancerRule", &[("id", &rule)]).0, 530);
        assert_eq!(lab.fails("updateLoadBalancerRule", &[("id", &rule), ("name", "x")]).0, 530);
        assert_eq!(lab.refused("listLoadBalancerRuleInstances", &[("id", &rule)]).code, 531);
    }

    #[test]
    fn lists_are_by_age_and_names_match_exactly_but_for_case() {
        let mut lab = Lab::new();
        lab.rule("81", &[("name", "Web-10")]);
        lab.rule("80", &[("name", "web-1")]);
        assert_eq!(lab.column("listLoadBalancerRules", &[], "publicport"), ["81", "80"]);
        assert_eq!(lab.column("listLoadBalancerRules", &[("name", "WEB-1")], "name"), ["web-1"]);
        assert_eq!(lab.rows("listLoadBalancerRules", &[("keyword", "b-1")]).len(), 2);
        let mut old = Lab::on("4.16.1");
        old.rule("81", &[("name", "web-10")]);
        assert_eq!(old.rows("listLoadBalancerRules", &[("name", "web-1")]).len(), 1);
    }

    #[test]
    fn the_filter_by_vm_finds_mappings_of_the_past_too() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let vm = lab.id("listVirtualMachines", "node-1");
        for _ in 0..2 {
            lab.assign(&rule, &["node-1"]);
            lab.run("removeFromLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
        }
        let found = lab.rows("listLoadBalancerRules", &[("virtualmachineid", &vm)]);
        assert_eq!(
            found.iter().map(|row| text(&row["id"])).collect::<Vec<_>>(),
            [rule.clone(), rule]
        );
    }
}
