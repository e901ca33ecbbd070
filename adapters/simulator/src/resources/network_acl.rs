//! Network ACL lists and their items: what they are and how they are listed. `change_acl.rs`
//! changes them.

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner, RuleState};
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::ApiError;
use crate::lists::{Scope, TagFilter, answer, contains, equal, keyword_matches};
use crate::object::Object;
use crate::resources::network::Network;
use crate::resources::tag::{ResourceType, inline_tags};
use crate::resources::vpc::Vpc;
use crate::table::{Key, Row};
use crate::versions::Feature;

/// An ACL list. The two default lists belong to no VPC and never change; global ones, which root
/// admins make, belong to none either.
#[derive(Debug, Clone)]
pub(crate) struct AclList {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) vpc: Option<Key<Vpc>>,
    pub(crate) is_global: bool,
}

/// An item of a list. The first that matches by number decides.
#[derive(Debug, Clone)]
pub(crate) struct AclItem {
    pub(crate) id: String,
    pub(crate) list: Key<AclList>,
    pub(crate) number: i64,
    /// As given: name in any case, number, or a fragment of a name.
    pub(crate) protocol: String,
    pub(crate) first: Option<u16>,
    pub(crate) last: Option<u16>,
    /// Joined with commas; empty: nobody.
    pub(crate) cidrs: String,
    pub(crate) ingress: bool,
    pub(crate) allow: bool,
    pub(crate) reason: Option<String>,
    /// Type and code.
    pub(crate) icmp: Option<(i64, i64)>,
    pub(crate) state: RuleState,
    /// A whole update without direction took it away; lists fail over the item until an update
    /// gives it one.
    pub(crate) damaged: bool,
}

impl Row for AclList {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Row for AclItem {
    fn id(&self) -> &str {
        &self.id
    }
}

impl AclList {
    /// Whether it is one of the two lists that never change.
    pub(crate) fn is_default(&self) -> bool {
        self.vpc.is_none() && !self.is_global
    }

    /// The owner of the list's VPC; default lists have none.
    pub(crate) fn owner(&self, cloud: &Cloud) -> Option<Owner> {
        let vpc = cloud.vpcs.get(self.vpc?)?;
        Some(vpc.owner)
    }
}

impl AclItem {
    /// The owner of the list's VPC.
    pub(crate) fn owner(&self, cloud: &Cloud) -> Option<Owner> {
        cloud.acl_lists.get(self.list)?.owner(cloud)
    }
}

pub(crate) const LIST_LISTS_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::AclList)),
    may("networkid", Kind::Id(Entity::Network)),
    may("vpcid", Kind::Id(Entity::Vpc)),
    may("name", Kind::Text),
];

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::AclItem)),
    may("aclid", Kind::Id(Entity::AclList)),
    may("networkid", Kind::Id(Entity::Network)),
    may("traffictype", Kind::Text),
    may("protocol", Kind::Text),
    may("action", Kind::Text),
];

/// Fields of an item that create and update share.
macro_rules! item_params {
    ($($first:expr),*) => {
        &[
            $($first,)*
            may("startport", Kind::Number),
            may("endport", Kind::Number),
            may("cidrlist", Kind::List),
            may("traffictype", Kind::Text),
            may("action", Kind::Text),
            may("number", Kind::Number),
            may("icmptype", Kind::Number),
            may("icmpcode", Kind::Number),
            may("reason", Kind::Text),
        ]
    };
}

pub(crate) const CREATE_PARAMS: &[Param] = item_params![
    must("protocol", Kind::Text),
    may("aclid", Kind::Id(Entity::AclList)),
    may("networkid", Kind::Id(Entity::Network))
];

pub(crate) const UPDATE_PARAMS: &[Param] = item_params![
    must("id", Kind::Id(Entity::AclItem)),
    may("protocol", Kind::Text),
    may("partialupgrade", Kind::Flag)
];

pub(crate) const ID_PARAMS: &[Param] = &[must("id", Kind::Id(Entity::AclItem))];

/// listNetworkACLLists, newest first; the default lists are everybody's.
pub(crate) fn list_lists(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let scope = Scope::of(cloud, call)?;
    let of_network = params.key::<Network>("networkid").map(|key| list_of(cloud, key));
    let vpc = params.key::<Vpc>("vpcid");
    let rows: Vec<_> = cloud
        .acl_lists
        .iter()
        .rev()
        .filter(|(key, row)| {
            is_seen(cloud, &scope, row)
                && params.names("id", *key)
                && of_network.is_none_or(|list| list == Some(*key))
                && vpc.is_none_or(|vpc| row.vpc.is_none_or(|own| own == vpc))
                && params.agrees("name", |name| equal(&row.name, name))
                && keyword_matches(
                    call,
                    &[&row.name, row.description.as_deref().unwrap_or_default()],
                )
        })
        .collect();
    answer(cloud, call, "networkacllist", rows, |(_, row)| list_json(cloud, row))
}

pub(crate) fn list_json<'a>(cloud: &'a Cloud, row: &'a AclList) -> Object<'a> {
    let vpc = row.vpc.and_then(|key| cloud.vpcs.get(key));
    Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .maybe("description", row.description.as_deref())
        .maybe("vpcid", vpc.map(|vpc| vpc.id.as_str()))
        .maybe("vpcname", vpc.map(|vpc| vpc.name.as_str()))
}

/// listNetworkACLs, newest first; without a list or network, the items of the default lists are
/// among them.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let scope = Scope::of(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let of_network = params.key::<Network>("networkid").map(|key| list_of(cloud, key));
    let rows: Vec<_> = cloud
        .acl_items
        .iter()
        .rev()
        .filter(|(key, row)| {
            cloud.acl_lists.get(row.list).is_some_and(|list| is_seen(cloud, &scope, list))
                && params.names("id", *key)
                && params.names("aclid", row.list)
                && of_network.is_none_or(|list| list == Some(row.list))
                && params.agrees("traffictype", |kind| equal(traffic_type(row), kind))
                && params.agrees("protocol", |protocol| equal(&row.protocol, protocol))
                && params.agrees("action", |action| equal(action_name(row), action))
                && matches_keyword(cloud, call, row)
                && tags.passes(cloud, ResourceType::NetworkAcl, &row.id)
        })
        .collect();
    if rows.iter().any(|(_, row)| row.damaged) {
        return Err(ApiError::internal(9999));
    }
    answer(cloud, call, "networkacl", rows, |(_, row)| json(cloud, row))
}

fn list_of(cloud: &Cloud, network: Key<Network>) -> Option<Key<AclList>> {
    cloud.networks.get(network)?.tier?.acl
}

fn is_seen(cloud: &Cloud, scope: &Scope, list: &AclList) -> bool {
    list.vpc.is_none() || list.owner(cloud).is_some_and(|owner| scope.covers(owner))
}

fn matches_keyword(cloud: &Cloud, call: &Call, row: &AclItem) -> bool {
    match call.params.filled("keyword") {
        Some(keyword) if cloud.version.has(Feature::AclKeyword) => {
            contains(&row.protocol, keyword)
                || row.reason.as_ref().is_some_and(|reason| contains(reason, keyword))
        }
        _ => true,
    }
}

fn traffic_type(row: &AclItem) -> &'static str {
    if row.ingress { "Ingress" } else { "Egress" }
}

fn action_name(row: &AclItem) -> &'static str {
    if row.allow { "Allow" } else { "Deny" }
}

pub(crate) fn json<'a>(cloud: &'a Cloud, row: &'a AclItem) -> Object<'a> {
    let list = cloud.acl_lists.get(row.list);
    Object::new()
        .with("id", row.id.as_str())
        .with("protocol", row.protocol.as_str())
        .maybe("startport", row.first.map(|port| port.to_string()))
        .maybe("endport", row.last.map(|port| port.to_string()))
        .maybe("icmptype", row.icmp.map(|(kind, _)| kind))
        .maybe("icmpcode", row.icmp.map(|(_, code)| code))
        .with("traffictype", traffic_type(row))
        .with("action", action_name(row))
        .with("number", row.number)
        .with("cidrlist", row.cidrs.as_str())
        .with("state", row.state.text())
        .maybe("aclid", list.map(|list| list.id.as_str()))
        .maybe("aclname", list.map(|list| list.name.as_str()))
        .maybe("reason", row.reason.as_deref())
        .with("tags", inline_tags(cloud, ResourceType::NetworkAcl, &row.id))
}
