//! Public IP addresses: bound to a tier by their first rule, released with everything that is on
//! them. `associate_ip.rs` acquires them. A row exists for every address of the range, and keeps its
//! UUID over all its owners.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::Value;

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner, PUBLIC_NETWORK, RuleState};
use crate::commands::{Call, Entity, Kind, Param, may, since};
use crate::error::{ApiError, JobFailure};
use crate::faults::RouterPart;
use crate::jobs::{Accepted, Instance, Work, success};
use crate::lists::{Scope, TagFilter, answer, contains};
use crate::object::Object;
use crate::params::Params;
use crate::resources::network::Network;
use crate::resources::reserved_ip::Quarantine;
use crate::resources::tag::{self, ResourceType, inline_tags};
use crate::resources::virtual_machine::VirtualMachine;
use crate::resources::vpc::Vpc;
use crate::resources::{firewall_rule, load_balancer_rule};
use crate::table::{Key, Row};
use crate::versions::Feature;

/// A public IP address.
#[derive(Debug, Clone)]
pub(crate) struct PublicIp {
    pub(crate) id: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) state: AddressState,
    pub(crate) owner: Option<Owner>,
    pub(crate) allocated: Option<String>,
    /// The guest network; of a VPC address only while it is bound to a tier.
    pub(crate) network: Option<Key<Network>>,
    pub(crate) vpc: Option<Key<Vpc>>,
    pub(crate) source_nat: bool,
    pub(crate) static_nat: Option<Key<VirtualMachine>>,
    /// May be moved between zones and networks; given only to those who ask for one.
    pub(crate) portable: bool,
    /// Whether the database remembers deleted load-balancer rules, which `forloadbalancing` finds.
    pub(crate) past_rules: bool,
    /// Whom a free address is kept for.
    pub(crate) quarantine: Option<Quarantine>,
}

/// State of a public IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressState {
    Free,
    Allocating,
    Allocated,
    /// A release failed half way.
    Releasing,
    /// Owned without serving anything.
    Reserved,
}

const STATES: &[&str] = &["Allocating", "Allocated", "Releasing", "Reserved", "Free"];

impl PublicIp {
    /// Makes it the source-NAT address of a VPC.
    pub(crate) fn give_to_vpc(&mut self, owner: Owner, vpc: Key<Vpc>, allocated: String) {
        self.owner = Some(owner);
        self.vpc = Some(vpc);
        self.source_nat = true;
        self.state = AddressState::Allocated;
        self.allocated = Some(allocated);
    }
}

impl Row for PublicIp {
    fn id(&self) -> &str {
        &self.id
    }
}

impl AddressState {
    fn text(self) -> &'static str {
        match self {
            Self::Free => "Free",
            Self::Allocating => "Allocating",
            Self::Allocated => "Allocated",
            Self::Releasing => "Releasing",
            Self::Reserved => "Reserved",
        }
    }
}

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::Address)),
    may("ipaddress", Kind::Text),
    may("allocatedonly", Kind::Flag),
    may("state", Kind::Text),
    may("zoneid", Kind::Id(Entity::Zone)),
    may("vpcid", Kind::Id(Entity::Vpc)),
    may("associatednetworkid", Kind::Id(Entity::Network)),
    since("networkid", Kind::Id(Entity::Network), "4.13.0"),
    may("forvirtualnetwork", Kind::Flag),
    may("issourcenat", Kind::Flag),
    may("isstaticnat", Kind::Flag),
    may("forloadbalancing", Kind::Flag),
];

pub(crate) const DISASSOCIATE_PARAMS: &[Param] =
    &[may("id", Kind::Id(Entity::Address)), since("ipaddress", Kind::Text, "4.19.0")];

/// listPublicIpAddresses, by address. By default only addresses in state Allocated are shown.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let states = asked_states(cloud, params)?;
    let scope = Scope::of(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let balanced: BTreeSet<_> = cloud.rules.iter().map(|(_, rule)| rule.address).collect();
    let with_rules: BTreeSet<_> = ruled(cloud).collect();
    let mut rows: Vec<_> = cloud
        .addresses
        .iter()
        .filter(|(key, row)| {
            row.owner.is_none_or(|owner| scope.covers(owner))
                && states
                    .as_ref()
                    .is_none_or(|states| states.iter().any(|state| state == row.state.text()))
                && params.flag("forvirtualnetwork") != Some(false)
                && params.names("id", *key)
                && params.agrees("ipaddress", |text| row.address.to_string() == text)
                && params.is_in_zone()
                && params.names("vpcid", row.vpc)
                && params.names("associatednetworkid", row.network)
                // The network of the public addresses; `associatednetworkid` is the guest network.
                && params.names("networkid", Key::<Network>::of(PUBLIC_NETWORK))
                && params.says("issourcenat", row.source_nat)
                && params.says("isstaticnat", row.static_nat.is_some())
                && (params.flag("forloadbalancing") != Some(true)
                    || row.past_rules
                    || balanced.contains(key))
                && matches_keyword(params, row)
                && tags.passes(cloud, ResourceType::PublicIpAddress, &row.id)
        })
        .collect();
    rows.sort_by_key(|(_, row)| row.address);
    answer(cloud, call, "publicipaddress", rows, |(key, row)| {
        row_json(cloud, key, row, with_rules.contains(&key))
    })
}

/// The states a list shows; `None` is all.
fn asked_states(cloud: &Cloud, params: &Params) -> Result<Option<Vec<String>>, ApiError> {
    let Some(text) = params.filled("state") else {
        let all = params.flag("allocatedonly") == Some(false);
        return Ok((!all).then(|| vec!["Allocated".to_owned()]));
    };
    if !cloud.version.has(Feature::AddressStateList) {
        return Ok(Some(vec![text.to_owned()]));
    }
    let states: Vec<String> = text.split(',').map(str::to_owned).collect();
    match states.iter().find(|state| !STATES.contains(&state.as_str())) {
        Some(unknown) => Err(ApiError::invalid(format!("Invalid state: {unknown}"))),
        None => Ok(Some(states)),
    }
}

/// A keyword is ignored beside `ipaddress`.
fn matches_keyword(params: &Params, row: &PublicIp) -> bool {
    match params.text("keyword") {
        Some(keyword) if params.text("ipaddress").is_none() => {
            contains(&row.address.to_string(), keyword)
        }
        _ => true,
    }
}

/// One address as commands about it show it.
pub(crate) fn json<'a>(cloud: &'a Cloud, key: Key<PublicIp>, row: &'a PublicIp) -> Object<'a> {
    row_json(cloud, key, row, has_rules(cloud, key))
}

fn row_json<'a>(
    cloud: &'a Cloud,
    key: Key<PublicIp>,
    row: &'a PublicIp,
    has_rules: bool,
) -> Object<'a> {
    let network = row.network.and_then(|network| cloud.networks.get(network));
    let vpc = row.vpc.and_then(|vpc| cloud.vpcs.get(vpc));
    let vm = row.static_nat.and_then(|vm| cloud.vms.get(vm));
    let owner = row.owner.map(|owner| cloud.owner_fields(owner));
    let job = cloud.jobs.releasing(key);
    Object::new()
        .with("id", row.id.as_str())
        .with("ipaddress", row.address.to_string())
        .maybe("allocated", row.allocated.as_deref())
        .with("state", row.state.text())
        .with("issourcenat", row.source_nat)
        .with("isstaticnat", row.static_nat.is_some())
        .with("issystem", false)
        .with("isportable", row.portable)
        .with("forvirtualnetwork", true)
        .with("forsystemvms", false)
        .with("forprovider", false)
        .with("hasannotations", false)
        .with("hasrules", has_rules)
        .with("networkid", cloud.zone.public_network.as_str())
        .with("physicalnetworkid", cloud.zone.physical_network.as_str())
        .maybe("associatednetworkid", network.map(|network| network.id.as_str()))
        .maybe("associatednetworkname", network.map(|network| network.name.as_str()))
        .maybe("vpcid", vpc.map(|vpc| vpc.id.as_str()))
        .maybe("vpcname", vpc.map(|vpc| vpc.name.as_str()))
        .maybe("virtualmachineid", vm.map(|vm| vm.id.as_str()))
        .maybe("virtualmachinename", vm.map(|vm| vm.name.as_str()))
        .maybe("virtualmachinedisplayname", vm.map(|vm| vm.display_name.as_str()))
        .maybe("vmipaddress", vm.and_then(|vm| vm.nics.first()).map(|nic| nic.address.as_str()))
        .with("tags", inline_tags(cloud, ResourceType::PublicIpAddress, &row.id))
        .maybe("jobid", job)
        .maybe("jobstatus", job.map(|_| 0))
        .merge(cloud.zone_fields())
        .merge(owner.unwrap_or_default())
        .of_release("ipaddress", &cloud.version)
}

/// The address of every rule of any kind.
fn ruled(cloud: &Cloud) -> impl Iterator<Item = Key<PublicIp>> {
    let balanced = cloud.rules.iter().map(|(_, rule)| rule.address);
    let opened = cloud.firewall_rules.iter().map(|(_, rule)| rule.address);
    let forwarded = cloud.port_forwards.iter().map(|(_, rule)| rule.address);
    balanced.chain(opened).chain(forwarded)
}

/// Whether an address has rules of any kind.
fn has_rules(cloud: &Cloud, key: Key<PublicIp>) -> bool {
    ruled(cloud).any(|address| address == key)
}

/// Unbinds a VPC address from its tier when nothing is left on it. Called after load-balancer rules
/// only: the end of a firewall rule does not unbind.
pub(crate) fn unbind_if_idle(cloud: &mut Cloud, address: Key<PublicIp>) {
    if has_rules(cloud, address) {
        return;
    }
    if let Some(row) = cloud.addresses.get_mut(address)
        && row.vpc.is_some()
    {
        row.network = None;
    }
}

/// Whether a list of the rules of an address can be had: one that is not allocated is "not ready",
/// another owner's is refused (observed of firewall rules; read in `RulesManagerImpl` of port
/// forwarding rules).
pub(crate) fn check_listed(
    cloud: &Cloud,
    call: &Call,
    key: Key<PublicIp>,
    rules: &str,
) -> Result<(), ApiError> {
    match cloud.addresses.get(key) {
        Some(row) if row.state != AddressState::Allocated => Err(ApiError::invalid(format!(
            "Ip address id={} not ready for {rules} rules yet",
            key.number()
        ))),
        Some(row) if row.owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) => Ok(()),
        Some(_) | None => Err(ApiError::permission()),
    }
}

/// How error texts show an address.
pub(crate) fn text(key: Key<PublicIp>, row: &PublicIp) -> String {
    format!(
        r#"IPAddress {{"address":"{}","dataCenterId":1,"id":{},"uuid":"{}"}}"#,
        row.address,
        key.number(),
        row.id
    )
}

/// disassociateIpAddress, with the request. Releasing a free address is an error without a reason.
pub(crate) fn accept_disassociate(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let by_address = call.params.filled("ipaddress");
    let key = match (call.params.key("id"), by_address) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "id parameter is mutually exclusive with ipaddress parameter",
            ));
        }
        (Some(id), None) => Some(id),
        (None, Some(text)) => cloud
            .addresses
            .iter()
            .find(|(_, row)| row.address.to_string() == text)
            .map(|(key, _)| key),
        (None, None) => {
            return Err(ApiError::invalid("Please specify either IP address or IP address ID"));
        }
    };
    if let Some(key) = key {
        cloud.wait_for_lock(key);
    }
    let row = key.and_then(|key| Some((key, cloud.addresses.get(key)?)));
    match row {
        Some((key, row)) if row.state != AddressState::Free => Ok(Accepted {
            id: None,
            number: key.number(),
            instance: Some(Instance { kind: "IpAddress", id: Some(row.id.clone()) }),
        }),
        _ => Err(ApiError::internal(4250)),
    }
}

/// disassociateIpAddress, in the job: every rule on the address is revoked, whoever made it.
pub(crate) fn start_disassociate(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let key = Key::of(accepted.number);
    let Some(row) = cloud.addresses.get(key) else {
        return Ok(Work::Done(success()));
    };
    if !row.owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        return Err(JobFailure::permission());
    }
    firewall_rule::check_system_rules(cloud, call, key)?;
    let network = row.network.and_then(|network| cloud.networks.get(network));
    let in_use = row.vpc.is_some() || network.is_some_and(|network| network.implemented);
    if row.source_nat && in_use {
        return Err(JobFailure::internal(
            "IP address is used for source nat purposes and can not be disassociated.",
        ));
    }
    for (_, rule) in cloud.rules.iter_mut().filter(|(_, rule)| rule.address == key) {
        rule.state = RuleState::Deleting;
    }
    for (_, rule) in cloud.firewall_rules.iter_mut().filter(|(_, rule)| rule.address == key) {
        rule.state = RuleState::Deleting;
    }
    Ok(Work::AddressReleased(key))
}

/// What a release pushes: that the rules are gone, then the address. Nothing without a router.
pub(crate) fn release_pushes(cloud: &Cloud, address: Key<PublicIp>) -> Vec<RouterPart> {
    let Some(network) = cloud.addresses.get(address).and_then(|row| row.network) else {
        return Vec::new();
    };
    if !load_balancer_rule::is_served(cloud, network) {
        return Vec::new();
    }
    let firewall = cloud.firewall_rules.iter().any(|(_, rule)| rule.address == address);
    let rules = cloud.rules.iter().any(|(_, rule)| rule.address == address);
    [
        (firewall, RouterPart::Firewall),
        (rules, RouterPart::LoadBalancer),
        (true, RouterPart::Address),
    ]
    .into_iter()
    .filter_map(|(needed, part)| needed.then_some(part))
    .collect()
}

/// The end of a release: rules and tags are gone, and the address is free under the same UUID.
///
/// If the router refuses, the address is left in Releasing and its load-balancer rules in Deleting.
/// Firewall rules that it refuses are left in Deleting and stop nothing: they stay on the free
/// address, and the next owner gets them.
pub(crate) fn finish_disassociate(
    cloud: &mut Cloud,
    address: Key<PublicIp>,
) -> Result<Value, JobFailure> {
    let refused = release_pushes(cloud, address)
        .into_iter()
        .any(|part| part != RouterPart::Firewall && !cloud.router.accepts(part));
    firewall_rule::revoke_all(cloud, address);
    if load_balancer_rule::any_doubled(cloud, address) {
        return Err(load_balancer_rule::doubled());
    }
    if !refused {
        free(cloud, address);
        return Ok(success());
    }
    if let Some(row) = cloud.addresses.get_mut(address) {
        row.state = AddressState::Releasing;
    }
    Err(JobFailure::internal("Failed to disassociate IP address"))
}

/// Takes everything off an address but dying firewall rules, and makes it free.
pub(crate) fn free(cloud: &mut Cloud, address: Key<PublicIp>) {
    load_balancer_rule::forget_all(cloud, address);
    let forwards: Vec<_> = cloud
        .port_forwards
        .iter()
        .filter(|(_, rule)| rule.address == address)
        .map(|(key, _)| key)
        .collect();
    for key in forwards {
        cloud.port_forwards.remove(key);
    }
    let owner = cloud.addresses.get(address).and_then(|row| row.owner);
    let quarantine = Quarantine::after(cloud, owner);
    let Some(row) = cloud.addresses.get_mut(address) else {
        return;
    };
    row.quarantine = quarantine;
    row.state = AddressState::Free;
    row.owner = None;
    row.allocated = None;
    row.network = None;
    row.vpc = None;
    row.source_nat = false;
    row.static_nat = None;
    let id = row.id.clone();
    tag::forget(cloud, ResourceType::PublicIpAddress, &id);
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    #[test]
    fn a_release_takes_everything_with_it_but_the_uuid() {
        let mut lab = Lab::new();
        let id = lab.address("203.0.113.2");
        let rule = lab.rule("80", &[("openfirewall", "true")]);
        lab.run(
            "createTags",
            &[
                ("resourcetype", "PublicIpAddress"),
                ("resourceids", &id),
                ("tags[0].key", "a"),
                ("tags[0].value", "b"),
            ],
        );
        assert_eq!(lab.rows("listPublicIpAddresses", &[("id", &id)])[0]["hasrules"], true);
        lab.run("disassociateIpAddress", &[("id", &id)]);
        assert_eq!(lab.rows("listLoadBalancerRules", &[("publicipid", &id)]).len(), 0);
        assert_eq!(lab.refused("listFirewallRules", &[("ipaddressid", &id)]).code, 431);
        assert_eq!(lab.rows("listTags", &[]).len(), 0);
        assert_eq!(lab.fails("deleteLoadBalancerRule", &[("id", &rule)]).0, 431);
        let twice = lab.refused("disassociateIpAddress", &[("id", &id)]);
        assert_eq!((twice.code, twice.class), (530, Some(4250)));
        let foreign = lab.id("listNetworks", "foreign");
        let params = [("networkid", foreign.as_str()), ("ipaddress", "203.0.113.2")];
        let again = lab.by("other").run("associateIpAddress", &params);
        assert_eq!(again["ipaddress"]["id"], id);
        assert_eq!(again["ipaddress"]["hasrules"], false);
    }

    #[test]
    fn a_slow_release_shows_the_address_with_its_job_and_takes_no_rules() {
        let mut lab = Lab::slow(5);
        let id = lab.address("203.0.113.2");
        let job = lab.ask("disassociateIpAddress", &[("id", &id)])["jobid"].clone();
        let listed = lab.rows("listPublicIpAddresses", &[("id", &id)]);
        assert_eq!(listed[0]["state"], "Allocated");
        assert_eq!(listed[0]["jobid"], job);
        let params = crate::testing::rule_params(&id, "80", &[]);
        assert_eq!(lab.refused("createLoadBalancerRule", &params).code, 431);
    }

    #[test]
    fn addresses_of_others_fail_in_the_job() {
        let mut lab = Lab::new();
        let id = lab.address("203.0.113.4");
        assert_eq!(lab.fails("disassociateIpAddress", &[("id", &id)]).0, 530);
        assert_eq!(lab.rows("listPublicIpAddresses", &[("id", &id)]).len(), 0);
    }

    #[test]
    fn states_are_listed_and_checked_from_4_22_1_on() {
        let mut lab = Lab::new();
        assert_eq!(lab.rows("listPublicIpAddresses", &[("state", "Allocated,Free")]).len(), 13);
        assert_eq!(
            lab.refused("listPublicIpAddresses", &[("state", "bogus")]).text,
            "Invalid state: bogus"
        );
        assert_eq!(Lab::on("4.22.0").rows("listPublicIpAddresses", &[("state", "bogus")]).len(), 0);
    }
}
