//! createNetworkACL, updateNetworkACLItem and deleteNetworkACL, which all are about items of a list.
//!
//! The jobs succeed whatever the router does. Exact duplicates are accepted; only a number is unique within its list.

use serde_json::Value;

use crate::cloud::{Cloud, RuleState};
use crate::commands::Call;
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work};
use crate::lists::equal;
use crate::object::Object;
use crate::params::Params;
use crate::resources::network::Network;
use crate::resources::network_acl::{AclItem, AclList, json};
use crate::resources::tag::{self, ResourceType};
use crate::table::Key;
use crate::versions::Feature;

/// createNetworkACL, with the request.
pub(crate) fn accept_create(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let params = &call.params;
    let target = target_list(cloud, call)?;
    let ingress = traffic_type(params)?.unwrap_or(true);
    let allow = action(params)?.unwrap_or(true);
    let protocol = protocol(params.text("protocol").unwrap_or_default())?;
    let cidrs = match params.list("cidrlist") {
        Some(cidrs) => joined(&cidrs)?,
        None if cloud.version.has(Feature::AclDefaultCoversIpv6) => "0.0.0.0/0,::/0".to_owned(),
        None => "0.0.0.0/0".to_owned(),
    };
    let start = params.number("startport");
    let (first, last) = ports(start, params.number("endport").or(start))?;
    check_protocol_ports(&protocol, first.or(last))?;
    let number = match params.number("number") {
        Some(number) => free_number(cloud, target, number, None)?,
        None => last_number(cloud, target) + 1,
    };
    let icmp = equal(&protocol, "icmp").then(|| {
        let part = |name: &str| params.number(name).unwrap_or(-1);
        (part("icmptype"), part("icmpcode"))
    });
    let id = cloud.ids.next_id();
    let key = cloud.acl_items.insert(AclItem {
        id: id.clone(),
        list: target,
        number,
        protocol,
        first,
        last,
        cidrs,
        ingress,
        allow,
        reason: params.filled("reason").map(str::to_owned),
        icmp,
        state: RuleState::Add,
    });
    Ok(Accepted { id: Some(id), number: key.number(), instance: Some(instance()) })
}

/// Jobs about items name the kind only.
fn instance() -> Instance {
    Instance { kind: "NetworkAclItem", id: None }
}

/// `aclid` wins; else the list of the tier, and a tier without one gets a new list of its own.
fn target_list(cloud: &mut Cloud, call: &Call) -> Result<Key<AclList>, ApiError> {
    let network = call.params.key::<Network>("networkid");
    if let Some(list) = call.params.key::<AclList>("aclid") {
        return editable(cloud, call, list);
    }
    let Some(network) = network else {
        return Err(ApiError::invalid(
            "Cannot create Network ACL Item. ACL Id or network Id is required",
        ));
    };
    let row = cloud.networks.get(network).ok_or_else(ApiError::permission)?;
    if !cloud.may_use(call.caller, row.owner) {
        return Err(ApiError::permission());
    }
    let Some(tier) = row.tier else {
        return Err(ApiError::invalid(format!("Network: {} does not belong to VPC", row.id)));
    };
    match tier.acl {
        Some(list) => editable(cloud, call, list),
        None => {
            let vpc = cloud.vpcs.get(tier.vpc).map_or("", |vpc| vpc.name.as_str());
            let prefix = format!("VPC_{vpc}_Tier_{}_ACL_", row.name);
            let description = format!("ACL for {}", row.name);
            let name = format!("{prefix}{}", cloud.ids.next_id());
            let id = cloud.ids.next_id();
            let list =
                cloud.acl_lists.insert(AclList { id, name, description, vpc: Some(tier.vpc) });
            if let Some(tier) = cloud.networks.get_mut(network).and_then(|row| row.tier.as_mut()) {
                tier.acl = Some(list);
            }
            Ok(list)
        }
    }
}

fn editable(cloud: &Cloud, call: &Call, list: Key<AclList>) -> Result<Key<AclList>, ApiError> {
    let row = cloud.acl_lists.get(list).ok_or_else(ApiError::permission)?;
    match row.owner(cloud) {
        None => Err(ApiError::invalid("Default ACL cannot be modified")),
        Some(owner) if cloud.may_use(call.caller, owner) => Ok(list),
        Some(_) => Err(ApiError::permission()),
    }
}

/// Whether the item is for ingress.
fn traffic_type(params: &Params) -> Result<Option<bool>, ApiError> {
    match params.filled("traffictype") {
        None => Ok(None),
        Some(kind) if equal(kind, "ingress") => Ok(Some(true)),
        Some(kind) if equal(kind, "egress") => Ok(Some(false)),
        Some(kind) => Err(ApiError::invalid(format!("Invalid traffic type {kind}"))),
    }
}

/// Whether the item allows.
fn action(params: &Params) -> Result<Option<bool>, ApiError> {
    match params.filled("action") {
        None => Ok(None),
        Some(action) if equal(action, "allow") => Ok(Some(true)),
        Some(action) if equal(action, "deny") => Ok(Some(false)),
        Some(action) => Err(ApiError::invalid(format!(
            "Invalid action [{action}]. Permitted actions are Allow and Deny"
        ))),
    }
}

/// Kept as given, but `1` becomes icmp. Names are looked for in a list as text, so that fragments of names pass.
fn protocol(given: &str) -> Result<String, ApiError> {
    let given = given.trim();
    if let Ok(number) = given.parse::<i64>() {
        return match number {
            1 => Ok("icmp".to_owned()),
            0..=255 => Ok(given.to_owned()),
            _ => Err(ApiError::invalid(format!("Invalid protocol number: {number}"))),
        };
    }
    if "tcp,udp,icmp,all".contains(&given.to_lowercase()) {
        return Ok(given.to_owned());
    }
    Err(ApiError::invalid(format!(
        "Invalid protocol [{given}]. Expected one of: [tcp,udp,icmp,all]"
    )))
}

fn joined(cidrs: &[String]) -> Result<String, ApiError> {
    match cidrs.iter().find(|cidr| cidr.parse::<ipnet::IpNet>().is_err()) {
        Some(bad) => Err(ApiError::parameter(format!("Source cidrs formatting error {bad}"))),
        None => Ok(cidrs.join(",")),
    }
}

type Ports = (Option<u16>, Option<u16>);

fn ports(first: Option<i64>, last: Option<i64>) -> Result<Ports, ApiError> {
    let checked = |which: &str, number: Option<i64>| {
        number
            .map(|number| {
                u16::try_from(number).map_err(|_| {
                    ApiError::invalid(format!("{which} public port is an invalid value: {number}"))
                })
            })
            .transpose()
    };
    let ends = (checked("Start", first)?, checked("End", last)?);
    if let (Some(first), Some(last)) = ends
        && first > last
    {
        return Err(ApiError::invalid(format!(
            "Start port can't be bigger than end port [startport={first},endport={last}]"
        )));
    }
    Ok(ends)
}

fn check_protocol_ports(protocol: &str, port: Option<u16>) -> Result<(), ApiError> {
    if port.is_none() {
        return Ok(());
    }
    if equal(protocol, "all") {
        return Err(ApiError::invalid("start port and end port must be null if protocol = 'all'"));
    }
    if equal(protocol, "icmp") {
        return Err(ApiError::invalid("Can't specify start/end port when protocol is ICMP"));
    }
    Ok(())
}

/// A number of at least 1 that no other item of the list has.
fn free_number(
    cloud: &Cloud,
    list: Key<AclList>,
    number: i64,
    but: Option<Key<AclItem>>,
) -> Result<i64, ApiError> {
    if number < 1 {
        return Err(ApiError::invalid(format!("Invalid number [{number}]. Number cannot be < 1")));
    }
    let taken = cloud
        .acl_items
        .iter()
        .any(|(key, item)| item.list == list && item.number == number && Some(key) != but);
    if taken {
        let id = cloud.acl_lists.get(list).map_or("", |row| row.id.as_str());
        return Err(ApiError::invalid(format!(
            "ACL item with number {number} already exists in ACL: {id}"
        )));
    }
    Ok(number)
}

fn last_number(cloud: &Cloud, list: Key<AclList>) -> i64 {
    cloud
        .acl_items
        .iter()
        .filter(|(_, item)| item.list == list)
        .map(|(_, item)| item.number)
        .max()
        .unwrap_or(0)
}

/// createNetworkACL, in the job.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn start_create(
    _: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    Ok(Work::AclCreated(Key::of(accepted.number)))
}

/// The end of a creation. Its result is read again and shows the state Active.
pub(crate) fn finish_create(cloud: &mut Cloud, item: Key<AclItem>) -> Result<Value, JobFailure> {
    finish_update(cloud, item);
    match cloud.acl_items.get(item) {
        Some(row) => Ok(Object::new().with("networkacl", json(cloud, row)).into()),
        None => Err(JobFailure::internal("Failed to create network ACL Item")),
    }
}

/// What update and delete do with the request: nothing but to name the kind of their job.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn accept_existing(_: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let number = call.params.key::<AclItem>("id").map_or(0, Key::number);
    Ok(Accepted { id: None, number, instance: Some(instance()) })
}

/// The item of a job if the caller may change it; items of default lists never may.
fn changeable(
    cloud: &Cloud,
    call: &Call,
    accepted: &Accepted,
    refusal: &str,
) -> Result<(Key<AclItem>, AclItem), JobFailure> {
    let key = Key::of(accepted.number);
    let Some(item) = cloud.acl_items.get(key) else {
        return Err(JobFailure::invalid(format!(
            "Unable to find network ACL item by ID={}",
            key.number()
        )));
    };
    match item.owner(cloud) {
        None => Err(JobFailure::invalid(refusal)),
        Some(owner) if cloud.may_use(call.caller, owner) => Ok((key, item.clone())),
        Some(_) => Err(JobFailure::permission()),
    }
}

/// updateNetworkACLItem: what is given changes; with `partialupgrade=false` everything else is reset.
pub(crate) fn start_update(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let (key, old) = changeable(cloud, call, accepted, "Default ACL cannot be modified")?;
    let params = &call.params;
    let partial = params.flag("partialupgrade") != Some(false);
    let cidrs = params.list("cidrlist").filter(|cidrs| !cidrs.is_empty());
    if !partial {
        check_whole_update(params, cidrs.as_deref())?;
    }
    let base = if partial { old } else { reset(old) };
    let given_number = params.number("number");
    let first = params.number("startport").or(base.first.map(i64::from));
    let last = params.number("endport").or(base.last.map(i64::from));
    let (first, last) = ports(first, last)?;
    let protocol = match params.filled("protocol") {
        Some(given) => protocol(given)?,
        None => base.protocol.clone(),
    };
    check_protocol_ports(&protocol, first.or(last))?;
    let item = AclItem {
        number: match given_number {
            Some(number) => free_number(cloud, base.list, number, Some(key))?,
            None => base.number,
        },
        cidrs: match cidrs {
            Some(cidrs) => joined(&cidrs)?,
            None => base.cidrs.clone(),
        },
        // A bad value is ignored here, unlike on creation.
        ingress: traffic_type(params).ok().flatten().unwrap_or(base.ingress),
        allow: action(params)?.unwrap_or(base.allow),
        reason: params.filled("reason").map(str::to_owned).or(base.reason.clone()),
        protocol,
        first,
        last,
        state: RuleState::Add,
        ..base
    };
    let result = Object::new().with("networkacl", json(cloud, &item)).into();
    if let Some(row) = cloud.acl_items.get_mut(key) {
        *row = item;
    }
    Ok(Work::AclUpdated { item: key, result })
}

/// Where a whole update lacks something CloudStack trips over a null pointer, and users see its text.
fn check_whole_update(params: &Params, cidrs: Option<&[String]>) -> Result<(), JobFailure> {
    if params.filled("protocol").is_none() {
        return Err(JobFailure::internal(
            "Cannot invoke \"String.equalsIgnoreCase(String)\" because the return value of \"com.cloud.network.vpc.NetworkACLItemVO.getProtocol()\" is null",
        ));
    }
    if cidrs.is_none() {
        return Err(JobFailure::internal(
            "Cannot invoke \"java.util.List.size()\" because \"cidrs\" is null",
        ));
    }
    Ok(())
}

/// An item with everything but its place reset.
fn reset(item: AclItem) -> AclItem {
    AclItem {
        first: None,
        last: None,
        cidrs: String::new(),
        allow: true,
        reason: None,
        icmp: None,
        ..item
    }
}

/// The end of a creation or an update.
pub(crate) fn finish_update(cloud: &mut Cloud, item: Key<AclItem>) {
    if let Some(row) = cloud.acl_items.get_mut(item)
        && row.state == RuleState::Add
    {
        row.state = RuleState::Active;
    }
}

/// deleteNetworkACL, in the job.
pub(crate) fn start_delete(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let (key, _) = changeable(cloud, call, accepted, "ACL Items in default ACL cannot be deleted")?;
    if let Some(row) = cloud.acl_items.get_mut(key) {
        row.state = RuleState::Deleting;
    }
    Ok(Work::AclDeleted(key))
}

/// The end of a deletion: the item and its tags are gone, and its id is unknown.
pub(crate) fn finish_delete(cloud: &mut Cloud, item: Key<AclItem>) {
    if let Some(row) = cloud.acl_items.remove(item) {
        tag::forget(cloud, ResourceType::NetworkAcl, &row.id);
    }
}
