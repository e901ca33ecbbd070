//! createNetworkACL, updateNetworkACLItem and deleteNetworkACL, which all are about items of a
//! list.
//!
//! The jobs succeed whatever the router does. Exact duplicates are accepted; only a number is
//! unique within its list.

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
        damaged: false,
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
            let name = format!("VPC_{vpc}_Tier_{}_ACL_{}", row.name, row.id);
            let description = Some(format!("ACL for {name}"));
            let id = cloud.ids.next_id();
            let vpc = Some(tier.vpc);
            let list =
                cloud.acl_lists.insert(AclList { id, name, description, vpc, is_global: false });
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
        None if row.is_default() => Err(ApiError::invalid("Default ACL cannot be modified")),
        None if cloud.is_root(call.caller) => Ok(list),
        None => Err(ApiError::permission()),
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

/// Kept as given, but `1` becomes icmp. Names are looked for in a list as text, so that fragments
/// of names pass.
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
    let list = cloud.acl_lists.get(item.list);
    match item.owner(cloud) {
        None if list.is_none_or(AclList::is_default) => Err(JobFailure::invalid(refusal)),
        None if cloud.is_root(call.caller) => Ok((key, item.clone())),
        None => Err(JobFailure::permission()),
        Some(owner) if cloud.may_use(call.caller, owner) => Ok((key, item.clone())),
        Some(_) => Err(JobFailure::permission()),
    }
}

/// updateNetworkACLItem: what is given changes; with `partialupgrade=false` everything else is
/// reset.
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
        let checked = check_whole_update(params, cidrs.as_deref());
        if checked.is_err() && params.filled("traffictype").is_none() {
            damage(cloud, key);
        }
        checked?;
    }
    let base = if partial { old } else { reset(old) };
    let given_number = params.number("number");
    let first = params.number("startport").or(base.first.map(i64::from));
    let last = params.number("endport").or(base.last.map(i64::from));
    let (first, last) = ports(first, last)?;
    if first.is_some() != last.is_some() {
        return Err(JobFailure::internal("One of the two ports is null"));
    }
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
        damaged: base.damaged && params.filled("traffictype").is_none(),
        ..base
    };
    let result = Object::new().with("networkacl", json(cloud, &item)).into();
    if let Some(row) = cloud.acl_items.get_mut(key) {
        *row = item;
    }
    Ok(Work::AclUpdated { item: key, result })
}

fn damage(cloud: &mut Cloud, item: Key<AclItem>) {
    if let Some(row) = cloud.acl_items.get_mut(item) {
        row.damaged = true;
    }
}

/// Where a whole update lacks something CloudStack trips over a null pointer, and users see its
/// text.
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

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    fn create<'a>(list: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut params = vec![("aclid", list), ("protocol", "tcp")];
        params.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        params.extend(more);
        params
    }

    fn custom(lab: &mut Lab) -> String {
        lab.id("listNetworkACLLists", "custom")
    }

    #[test]
    fn an_item_is_shown_with_strings_and_defaults() {
        let mut lab = Lab::new();
        let list = custom(&mut lab);
        let params = create(&list, &[("protocol", "Tcp"), ("startport", "80"), ("reason", "why")]);
        let item = lab.run("createNetworkACL", &params)["networkacl"].clone();
        assert_eq!(item["state"], "Active");
        assert_eq!(item["protocol"], "Tcp");
        assert_eq!((&item["startport"], &item["endport"]), (&"80".into(), &"80".into()));
        assert_eq!(item["cidrlist"], "0.0.0.0/0,::/0");
        assert_eq!((&item["action"], &item["traffictype"]), (&"Allow".into(), &"Ingress".into()));
        assert_eq!(item["number"], 1);
        let mut old = Lab::on("4.16.0");
        let list = custom(&mut old);
        let item = old.run("createNetworkACL", &create(&list, &[]))["networkacl"].clone();
        assert_eq!(item["cidrlist"], "0.0.0.0/0");
    }

    #[test]
    fn numbers_grow_and_are_unique_while_duplicates_are_welcome() {
        let mut lab = Lab::new();
        let list = custom(&mut lab);
        let mut number = |more: &[(&str, &str)]| {
            lab.run("createNetworkACL", &create(&list, more))["networkacl"]["number"].clone()
        };
        assert_eq!(number(&[]), 1);
        assert_eq!(number(&[]), 2);
        assert_eq!(number(&[("number", "100")]), 100);
        assert_eq!(number(&[]), 101);
        for (number, cause) in [
            ("1", format!("ACL item with number 1 already exists in ACL: {list}")),
            ("0", "Invalid number [0]. Number cannot be < 1".to_owned()),
        ] {
            let refused = lab.refused("createNetworkACL", &create(&list, &[("number", number)]));
            assert_eq!((refused.code, refused.class, refused.text), (431, Some(4350), cause));
        }
        assert_eq!(
            lab.column("listNetworkACLs", &[("aclid", &list)], "number"),
            ["101", "100", "2", "1"]
        );
    }

    #[test]
    fn bad_values_are_refused_with_the_request() {
        let mut lab = Lab::new();
        let list = custom(&mut lab);
        for (more, cause) in [
            (
                vec![("protocol", "tcp-proxy")],
                "Invalid protocol [tcp-proxy]. Expected one of: [tcp,udp,icmp,all]",
            ),
            (vec![("protocol", "256")], "Invalid protocol number: 256"),
            (
                vec![("protocol", "all"), ("startport", "1")],
                "start port and end port must be null if protocol = 'all'",
            ),
            (
                vec![("startport", "9"), ("endport", "8")],
                "Start port can't be bigger than end port [startport=9,endport=8]",
            ),
            (vec![("startport", "65536")], "Start public port is an invalid value: 65536"),
            (vec![("traffictype", "foo")], "Invalid traffic type foo"),
            (vec![("action", "foo")], "Invalid action [foo]. Permitted actions are Allow and Deny"),
            (vec![("cidrlist", "10.1.2.3")], "Source cidrs formatting error 10.1.2.3"),
        ] {
            let refused = lab.refused("createNetworkACL", &create(&list, &more));
            assert_eq!((refused.code, refused.text.as_str()), (431, cause));
        }
        lab.run("createNetworkACL", &create(&list, &[("protocol", "tc")]));
        lab.run("createNetworkACL", &create(&list, &[("protocol", "6")]));
        let icmp = lab.run("createNetworkACL", &create(&list, &[("protocol", "1")]));
        assert_eq!(icmp["networkacl"]["protocol"], "icmp");
        assert_eq!(icmp["networkacl"]["icmptype"], -1);
    }

    #[test]
    fn default_lists_never_change_and_others_are_refused() {
        let mut lab = Lab::new();
        let default = lab.id("listNetworkACLLists", "default_allow");
        let list = custom(&mut lab);
        let refused = lab.refused("createNetworkACL", &create(&default, &[]));
        assert_eq!(refused.text, "Default ACL cannot be modified");
        let items = lab.rows("listNetworkACLs", &[("aclid", &default)]);
        let item = text(&items[0]["id"]);
        let (code, cause) = lab.fails("deleteNetworkACL", &[("id", &item)]);
        assert_eq!((code, cause.as_str()), (431, "ACL Items in default ACL cannot be deleted"));
        assert_eq!(lab.fails("updateNetworkACLItem", &[("id", &item), ("reason", "x")]).0, 431);
        let own = text(&lab.run("createNetworkACL", &create(&list, &[]))["networkacl"]["id"]);
        lab.by("other");
        assert_eq!(lab.refused("createNetworkACL", &create(&list, &[])).code, 531);
        assert_eq!(lab.fails("deleteNetworkACL", &[("id", &own)]).0, 530);
        assert_eq!(lab.rows("listNetworkACLs", &[]).len(), 4);
    }

    #[test]
    fn a_network_stands_for_its_list_and_gets_one_if_it_has_none() {
        let mut lab = Lab::new();
        let (bare, iso) = (lab.id("listNetworks", "bare"), lab.id("listNetworks", "iso"));
        assert_eq!(lab.rows("listNetworkACLs", &[("networkid", &bare)]).len(), 0);
        lab.run("createNetworkACL", &[("networkid", &bare), ("protocol", "tcp")]);
        assert_eq!(lab.rows("listNetworkACLs", &[("networkid", &bare)]).len(), 1);
        let lists = lab.column("listNetworkACLLists", &[("networkid", &bare)], "name");
        assert!(lists[0].starts_with("VPC_vpc_Tier_bare_ACL_"), "{lists:?}");
        let refused = lab.refused("createNetworkACL", &[("networkid", &iso), ("protocol", "tcp")]);
        assert_eq!(refused.text, format!("Network: {iso} does not belong to VPC"));
        assert_eq!(lab.refused("createNetworkACL", &[("protocol", "tcp")]).code, 431);
    }

    #[test]
    fn an_update_changes_what_is_given_and_answers_under_the_root_of_create() {
        let mut lab = Lab::new();
        let list = custom(&mut lab);
        let params =
            create(&list, &[("startport", "80"), ("reason", "why"), ("cidrlist", "10.0.0.0/8")]);
        let item = text(&lab.run("createNetworkACL", &params)["networkacl"]["id"]);
        let update = [
            ("id", item.as_str()),
            ("cidrlist", "192.0.2.0/24"),
            ("reason", " "),
            ("traffictype", "foo"),
        ];
        let result = lab.run("updateNetworkACLItem", &update);
        assert_eq!(result["networkacl"]["state"], "Add");
        let listed = lab.rows("listNetworkACLs", &[("id", &item)]).remove(0);
        assert_eq!(listed["state"], "Active");
        assert_eq!(listed["cidrlist"], "192.0.2.0/24");
        assert_eq!((&listed["reason"], &listed["startport"]), (&"why".into(), &"80".into()));
        let response = lab.simulator.call("prod", "updateNetworkACLItem", &update, lab.now);
        assert!(response.body.starts_with(r#"{"createnetworkaclresponse":"#), "{}", response.body);
        let whole = [
            ("id", item.as_str()),
            ("partialupgrade", "false"),
            ("protocol", "udp"),
            ("cidrlist", "10.0.0.0/8"),
        ];
        lab.run("updateNetworkACLItem", &whole);
        let listed = lab.rows("listNetworkACLs", &[("id", &item)]).remove(0);
        assert_eq!((listed.get("startport"), listed.get("reason")), (None, None));
        lab.run("deleteNetworkACL", &[("id", &item)]);
        assert_eq!(lab.refused("deleteNetworkACL", &[("id", &item)]).code, 431);
    }

    #[test]
    fn a_taken_number_fails_an_update_in_the_job() {
        let mut lab = Lab::new();
        let list = custom(&mut lab);
        lab.run("createNetworkACL", &create(&list, &[]));
        let item = text(&lab.run("createNetworkACL", &create(&list, &[]))["networkacl"]["id"]);
        assert_eq!(lab.fails("updateNetworkACLItem", &[("id", &item), ("number", "1")]).0, 431);
        lab.run("updateNetworkACLItem", &[("id", &item), ("number", "2")]);
    }
}
