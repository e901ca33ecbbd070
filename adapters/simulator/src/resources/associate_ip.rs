//! associateIpAddress: an address is acquired for a network or a VPC.
//!
//! With the request: owner, zone, limit, and the address itself. In the job: its network, and the
//! limit once more.

use crate::cloud::{Cloud, Owner};
use crate::commands::{Call, Entity, Kind, Param, may};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work};
use crate::object::{Object, date};
use crate::resources::network::{self, Network};
use crate::resources::public_ip::{AddressState, PublicIp, free, json, text};
use crate::resources::resource_limit::{check_public_ips, exceeds_public_ips};
use crate::resources::vpc::Vpc;
use crate::table::Key;
use crate::world::NetworkKind;

pub(crate) const ASSOCIATE_PARAMS: &[Param] = &[
    may("vpcid", Kind::Id(Entity::Vpc)),
    may("networkid", Kind::Id(Entity::Network)),
    may("zoneid", Kind::Id(Entity::Zone)),
    may("projectid", Kind::Id(Entity::Project)),
    may("ipaddress", Kind::Text),
    may("isportable", Kind::Flag),
];

/// For whom and for what an address is acquired.
struct Target {
    owner: Owner,
    network: Option<Key<Network>>,
    vpc: Option<Key<Vpc>>,
}

/// associateIpAddress, with the request: who will own it, the limit, and the address itself.
pub(crate) fn accept_associate(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let target = target(cloud, call)?;
    if !cloud.may_use(call.caller, target.owner) {
        return Err(ApiError::permission());
    }
    check_zone(cloud, call)?;
    check_public_ips(cloud, target.owner)?;
    let portable = call.params.flag("isportable") == Some(true);
    let key = pick(cloud, target.owner, call.params.filled("ipaddress"), portable)?;
    let now = date(cloud.now);
    let Some(row) = cloud.addresses.get_mut(key) else {
        return Err(ApiError::internal(4250));
    };
    row.state = AddressState::Allocating;
    row.owner = Some(target.owner);
    row.allocated = Some(now);
    row.vpc = target.vpc;
    let id = row.id.clone();
    Ok(Accepted {
        id: Some(id.clone()),
        number: key.number(),
        instance: Some(Instance { kind: "IpAddress", id: Some(id) }),
    })
}

/// A disabled zone gives no addresses to users.
fn check_zone(cloud: &Cloud, call: &Call) -> Result<(), ApiError> {
    let zone = &cloud.zone;
    if zone.enabled || cloud.administers(call.caller, Owner::Account(call.caller)) {
        return Ok(());
    }
    let text = format!(
        r#"Cannot allocate IP addresses, Zone {{"id": "1", "name": "{}", "uuid": "{}"}} is currently disabled."#,
        zone.name, zone.id
    );
    Err(ApiError::new(531, 4365, text).about(&zone.id, "zoneId"))
}

/// A VPC wins over a network; a zone alone means the account's one isolated network.
fn target(cloud: &Cloud, call: &Call) -> Result<Target, ApiError> {
    let params = &call.params;
    let project = params.key("projectid").map(Owner::Project);
    if let Some(key) = params.key::<Vpc>("vpcid") {
        let vpc = cloud.vpcs.get(key).ok_or_else(ApiError::permission)?;
        return Ok(Target { owner: project.unwrap_or(vpc.owner), network: None, vpc: Some(key) });
    }
    if let Some(key) = params.key::<Network>("networkid") {
        let network = cloud.networks.get(key).ok_or_else(ApiError::permission)?;
        let owner = project.unwrap_or(network.owner);
        return Ok(Target { owner, network: Some(key), vpc: None });
    }
    if params.text("zoneid").is_none() {
        return Err(ApiError::invalid(
            "Unable to figure out zone to assign IP to. Please specify either zoneId, or networkId, or vpcId in the call",
        ));
    }
    let owner = project.unwrap_or(Owner::Account(call.caller));
    let mut isolated = cloud
        .networks
        .iter()
        .filter(|(_, network)| network.tier.is_none() && network.owner == owner)
        .filter(|(_, network)| network.kind == NetworkKind::Isolated);
    match (isolated.next(), isolated.next()) {
        (only, None) => Ok(Target { owner, network: only.map(|(key, _)| key), vpc: None }),
        (_, Some(_)) => {
            Err(ApiError::invalid("Account has more than one isolated Network in the zone"))
        }
    }
}

/// The address asked for if it is free, else the one that a test chose, once, else the lowest free
/// one; CloudStack draws in an order of its database's own. The error does not tell what was wrong.
pub(crate) fn pick(
    cloud: &mut Cloud,
    owner: Owner,
    asked: Option<&str>,
    portable: bool,
) -> Result<Key<PublicIp>, ApiError> {
    let picked = cloud
        .addresses
        .iter()
        .filter(|(_, row)| row.state == AddressState::Free && row.portable == portable)
        .filter(|(_, row)| asked.is_none_or(|asked| row.address.to_string() == asked))
        .filter(|(_, row)| !row.quarantine.is_some_and(|kept| kept.keeps_from(owner, cloud.now)))
        .min_by_key(|(key, row)| (Some(*key) != cloud.next_address, row.address))
        .map(|(key, _)| key)
        .ok_or_else(|| ApiError::new(533, 9999, "Insufficient address capacity"))?;
    cloud.next_address.take_if(|next| *next == picked);
    Ok(picked)
}

/// The first address of a network or VPC becomes its source-NAT address. A tier never gets one of
/// its own.
fn has_source_nat(cloud: &Cloud, target: &Target) -> bool {
    let tier = target
        .network
        .and_then(|key| cloud.networks.get(key))
        .is_some_and(|network| network.tier.is_some());
    let nowhere = target.network.is_none() && target.vpc.is_none();
    tier || nowhere
        || cloud.addresses.iter().any(|(_, row)| {
            let serves = match target.vpc {
                // Rules bind the source-NAT address of a VPC to a tier.
                Some(vpc) => row.vpc == Some(vpc),
                None => row.network == target.network,
            };
            row.source_nat && serves
        })
}

/// associateIpAddress, in the job: the address is given to its network. One for a tier alone is
/// given back at once.
pub(crate) fn start_associate(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let key = Key::of(accepted.number);
    let target = target(cloud, call)?;
    let source_nat = !has_source_nat(cloud, &target);
    if let Some(row) = cloud.addresses.get_mut(key) {
        row.network = target.network;
        row.source_nat = source_nat;
    }
    let network = target.network.and_then(|network| cloud.networks.get(network));
    if network.is_some_and(|network| network.tier.is_some()) {
        free(cloud, key);
        return Err(JobFailure::invalid(
            "Can't assign ip to the network directly when network belongs to VPC.Specify vpcId to associate ip address to VPC",
        ));
    }
    let Some(row) = cloud.addresses.get(key) else {
        return Err(JobFailure::internal("Failed to associate IP address"));
    };
    // For a network CloudStack shows the object as it read it before binding it.
    let state = if row.vpc.is_some() { "Allocated" } else { "Allocating" };
    let shown = json(cloud, key, row).with("state", state);
    let result = Object::new().with("ipaddress", shown).into();
    Ok(Work::AddressAssociated { address: key, result })
}

/// The end of the acquisition. One too many gives its address back.
pub(crate) fn finish_associate(
    cloud: &mut Cloud,
    address: Key<PublicIp>,
) -> Result<(), JobFailure> {
    let Some(row) = cloud.addresses.get_mut(address) else {
        return Ok(());
    };
    if row.state != AddressState::Allocating {
        return Ok(());
    }
    row.state = AddressState::Allocated;
    if !row.owner.is_some_and(|owner| exceeds_public_ips(cloud, owner)) {
        return Ok(());
    }
    let text = failed_to_associate(cloud, address);
    free(cloud, address);
    Err(JobFailure::internal(text))
}

fn failed_to_associate(cloud: &Cloud, address: Key<PublicIp>) -> String {
    let row = cloud.addresses.get(address);
    let network = row.and_then(|row| row.network);
    let named = network.and_then(|key| Some((key, cloud.networks.get(key)?)));
    let shown = row.map_or_else(String::new, |row| text(address, row));
    let place = named.map_or_else(String::new, |(key, network)| {
        format!(" to network [{}]", network::text(key, network))
    });
    format!("Failed to associate IP address [{shown}]{place}")
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    #[test]
    fn the_result_for_a_network_still_says_allocating_and_for_a_vpc_allocated() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        let vpc = lab.id("listVPCs", "vpc");
        let in_network = lab.run("associateIpAddress", &[("networkid", &network)]);
        assert_eq!(in_network["ipaddress"]["state"], "Allocating");
        assert_eq!(in_network["ipaddress"]["associatednetworkname"], "iso");
        assert_eq!(in_network["ipaddress"]["allocated"], "2026-12-01T20:00:00+0000");
        let in_vpc = lab.run("associateIpAddress", &[("vpcid", &vpc)]);
        assert_eq!(in_vpc["ipaddress"]["state"], "Allocated");
        assert!(in_vpc["ipaddress"].get("associatednetworkid").is_none());
        let id = text(&in_network["ipaddress"]["id"]);
        let listed = lab.rows("listPublicIpAddresses", &[("id", &id)]);
        assert_eq!(listed[0]["state"], "Allocated");
    }

    #[test]
    fn an_address_is_invisible_by_default_until_it_is_allocated() {
        let mut lab = Lab::slow(5);
        let network = lab.id("listNetworks", "iso");
        let id = text(&lab.ask("associateIpAddress", &[("networkid", &network)])["id"]);
        assert_eq!(lab.rows("listPublicIpAddresses", &[("id", &id)]).len(), 0);
        let all = lab.rows("listPublicIpAddresses", &[("id", &id), ("allocatedonly", "false")]);
        assert_eq!(all[0]["state"], "Allocating");
        lab.wait(5);
        assert_eq!(lab.rows("listPublicIpAddresses", &[("id", &id)]).len(), 1);
    }

    #[test]
    fn a_tier_alone_gets_no_address() {
        let mut lab = Lab::new();
        let tier = lab.id("listNetworks", "tier");
        let (code, text) = lab.fails("associateIpAddress", &[("networkid", &tier)]);
        assert_eq!(code, 431);
        assert!(text.starts_with("Can't assign ip to the network directly"), "{text}");
        assert_eq!(lab.rows("listPublicIpAddresses", &[("state", "Free")]).len(), 10);
    }

    #[test]
    fn the_first_address_of_an_idle_network_is_source_nat_and_may_be_released() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "idle");
        let first = lab.run("associateIpAddress", &[("networkid", &network)]);
        let second = lab.run("associateIpAddress", &[("networkid", &network)]);
        assert_eq!(first["ipaddress"]["issourcenat"], true);
        assert_eq!(second["ipaddress"]["issourcenat"], false);
        let id = text(&first["ipaddress"]["id"]);
        lab.run("disassociateIpAddress", &[("id", &id)]);
        let busy = lab.address("203.0.113.1");
        let (code, text) = lab.fails("disassociateIpAddress", &[("id", &busy)]);
        assert_eq!(code, 530);
        assert!(text.contains("source nat"), "{text}");
    }

    #[test]
    fn the_limit_is_checked_with_the_request() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        for _ in 0..3 {
            lab.run("associateIpAddress", &[("networkid", &network)]);
        }
        let refused = lab.refused("associateIpAddress", &[("networkid", &network)]);
        assert_eq!((refused.code, refused.class), (532, Some(4280)));
        assert_eq!(
            refused.text,
            "Maximum number of public IP addresses for account: prod has been exceeded."
        );
    }

    #[test]
    fn a_taken_unknown_or_malformed_address_is_no_capacity() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        for address in ["203.0.113.4", "192.0.2.1", "here"] {
            let params = [("networkid", network.as_str()), ("ipaddress", address)];
            let refused = lab.refused("associateIpAddress", &params);
            assert_eq!((refused.code, refused.class), (533, Some(9999)));
        }
        let params = [("networkid", network.as_str()), ("ipaddress", "203.0.113.15")];
        assert_eq!(
            lab.run("associateIpAddress", &params)["ipaddress"]["ipaddress"],
            "203.0.113.15"
        );
    }

    #[test]
    fn networks_of_others_are_refused_and_a_project_owns_what_its_network_gets() {
        let mut lab = Lab::new();
        let foreign = lab.id("listNetworks", "foreign");
        let shop = lab.id("listNetworks", "shop");
        assert_eq!(lab.refused("associateIpAddress", &[("networkid", &foreign)]).code, 531);
        let result = lab.by("kubeadmin").run("associateIpAddress", &[("networkid", &shop)]);
        assert_eq!(result["ipaddress"]["project"], "web");
        assert!(result["ipaddress"].get("account").is_none());
        assert_eq!(lab.refused("associateIpAddress", &[]).code, 431);
    }
}
