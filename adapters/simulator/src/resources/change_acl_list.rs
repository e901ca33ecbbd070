//! createNetworkACLList, deleteNetworkACLList and replaceNetworkACLList: lists as a whole, and which
//! tier has which.

use crate::cloud::Cloud;
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work, success};
use crate::object::Object;
use crate::resources::network::Network;
use crate::resources::network_acl::{AclItem, AclList, list_json};
use crate::resources::tag::{self, ResourceType};
use crate::resources::vpc::Vpc;
use crate::table::Key;
use crate::versions::Feature;

pub(crate) const CREATE_PARAMS: &[Param] = &[
    must("name", Kind::Text),
    may("vpcid", Kind::Id(Entity::Vpc)),
    may("description", Kind::Text),
];

pub(crate) const ID_PARAMS: &[Param] = &[must("id", Kind::Id(Entity::AclList))];

pub(crate) const REPLACE_PARAMS: &[Param] = &[
    must("aclid", Kind::Id(Entity::AclList)),
    may("networkid", Kind::Id(Entity::Network)),
    may("gatewayid", Kind::Text),
];

/// Jobs about lists name the kind only.
fn instance() -> Instance {
    Instance { kind: "NetworkAcl", id: None }
}

/// createNetworkACLList, with the request. Without a VPC the list is global, which began with 4.19
/// and is for root admins.
pub(crate) fn accept_create(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let vpc = call.params.key::<Vpc>("vpcid");
    check_home(cloud, call, vpc)?;
    let id = cloud.ids.next_id();
    let key = cloud.acl_lists.insert(AclList {
        id: id.clone(),
        name: call.params.text("name").unwrap_or_default().to_owned(),
        description: call.params.filled("description").map(str::to_owned),
        vpc,
        is_global: vpc.is_none(),
    });
    Ok(Accepted { id: Some(id), number: key.number(), instance: Some(instance()) })
}

fn check_home(cloud: &Cloud, call: &Call, vpc: Option<Key<Vpc>>) -> Result<(), ApiError> {
    let Some(vpc) = vpc else {
        return match cloud.version.has(Feature::GlobalAclLists) {
            true if cloud.is_root(call.caller) => Ok(()),
            true => Err(ApiError::new(531, 4365, "Only Root Admin can create global ACLs.")),
            false => Err(ApiError::parameter(
                "Unable to execute API command createnetworkacllist due to missing parameter vpcid",
            )),
        };
    };
    let owner = cloud.vpcs.get(vpc).map(|vpc| vpc.owner);
    if owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        Ok(())
    } else {
        Err(ApiError::permission())
    }
}

/// createNetworkACLList, in the job.
pub(crate) fn start_create(
    cloud: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    match cloud.acl_lists.get(Key::of(accepted.number)) {
        Some(row) => {
            let shown = list_json(cloud, row);
            Ok(Work::Done(Object::new().with("networkacllist", shown).into()))
        }
        None => Err(JobFailure::internal("Failed to create network ACL")),
    }
}

/// deleteNetworkACLList, with the request.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn accept_delete(_: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let number = call.params.key::<AclList>("id").map_or(0, Key::number);
    Ok(Accepted { id: None, number, instance: Some(instance()) })
}

/// deleteNetworkACLList, in the job: the list must serve no tier; its items go with it.
pub(crate) fn start_delete(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let key = Key::of(accepted.number);
    let Some(row) = cloud.acl_lists.get(key) else {
        return Err(JobFailure::invalid("Unable to find specified ACL"));
    };
    let may_change = match row.owner(cloud) {
        Some(owner) => cloud.may_use(call.caller, owner),
        None if row.is_default() => {
            return Err(JobFailure::invalid("Default ACL cannot be removed"));
        }
        None => cloud.is_root(call.caller),
    };
    if !may_change {
        return Err(JobFailure::permission());
    }
    let tiers = cloud
        .networks
        .iter()
        .filter(|(_, network)| network.tier.is_some_and(|tier| tier.acl == Some(key)))
        .count();
    if tiers > 0 {
        return Err(JobFailure::internal(format!(
            "ACL is still associated with {tiers} tier(s). Cannot delete network ACL: {}",
            row.id
        )));
    }
    forget(cloud, key);
    Ok(Work::Done(success()))
}

fn forget(cloud: &mut Cloud, list: Key<AclList>) {
    let items: Vec<(Key<AclItem>, String)> = cloud
        .acl_items
        .iter()
        .filter(|(_, item)| item.list == list)
        .map(|(key, item)| (key, item.id.clone()))
        .collect();
    for (key, id) in items {
        cloud.acl_items.remove(key);
        tag::forget(cloud, ResourceType::NetworkAcl, &id);
    }
    cloud.acl_lists.remove(list);
}

/// replaceNetworkACLList: the tier takes a list of its VPC, a default list or a global one.
pub(crate) fn start_replace(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let list = call.params.required::<AclList>("aclid");
    let Some(network) = call.params.key::<Network>("networkid") else {
        return Err(JobFailure::internal(
            "Network ID and private gateway can't be null at the same time",
        ));
    };
    let (Some(row), Some(home)) =
        (cloud.networks.get(network), cloud.acl_lists.get(list).map(|row| row.vpc))
    else {
        return Err(JobFailure::invalid("Unable to find specified Network ACL"));
    };
    if !cloud.may_use(call.caller, row.owner) {
        return Err(JobFailure::permission());
    }
    let Some(vpc) = row.vpc() else {
        return Err(JobFailure::invalid(format!("Network is not part of a VPC: {}", row.id)));
    };
    if home.is_some_and(|home| home != vpc) {
        return Err(JobFailure::invalid("private gateway or network does not belong to ACL's VPC"));
    }
    if let Some(tier) = cloud.networks.get_mut(network).and_then(|row| row.tier.as_mut()) {
        tier.acl = Some(list);
    }
    Ok(Work::Done(success()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    #[test]
    fn lists_come_are_attached_and_go() {
        let mut lab = Lab::new();
        let vpc = lab.id("listVPCs", "vpc");
        let params = [("name", "second"), ("vpcid", vpc.as_str())];
        let made = lab.run("createNetworkACLList", &params)["networkacllist"].clone();
        assert_eq!((&made["vpcname"], made.get("description")), (&"vpc".into(), None));
        // A name need not be unique.
        lab.run("createNetworkACLList", &params);
        let list = text(&made["id"]);
        let tier = lab.id("listNetworks", "tier");
        let attach = [("aclid", list.as_str()), ("networkid", tier.as_str())];
        lab.run("replaceNetworkACLList", &attach);
        let shown = lab.rows("listNetworks", &[("id", &tier)]).remove(0);
        assert_eq!(shown["aclname"], "second");
        let (code, text) = lab.fails("deleteNetworkACLList", &[("id", &list)]);
        assert_eq!(code, 530);
        assert!(text.starts_with("ACL is still associated with 1 tier(s)."), "{text}");
        let allow = lab.id("listNetworkACLLists", "default_allow");
        lab.run("replaceNetworkACLList", &[("aclid", &allow), ("networkid", &tier)]);
        lab.run("deleteNetworkACLList", &[("id", &list)]);
        assert_eq!(lab.refused("deleteNetworkACLList", &[("id", &list)]).code, 431);
        assert_eq!(lab.fails("deleteNetworkACLList", &[("id", &allow)]).0, 431);
    }

    #[test]
    fn a_list_needs_a_tier_of_its_vpc() {
        let mut lab = Lab::new();
        let list = lab.id("listNetworkACLLists", "custom");
        let iso = lab.id("listNetworks", "iso");
        assert_eq!(
            lab.fails("replaceNetworkACLList", &[("aclid", &list)]),
            (530, "Network ID and private gateway can't be null at the same time".to_owned())
        );
        assert_eq!(
            lab.fails("replaceNetworkACLList", &[("aclid", &list), ("networkid", &iso)]),
            (431, format!("Network is not part of a VPC: {iso}"))
        );
    }

    #[test]
    fn global_lists_are_for_root_from_4_19_on() {
        let mut lab = Lab::new();
        let refused = lab.refused("createNetworkACLList", &[("name", "global")]);
        assert_eq!((refused.code, refused.class), (531, Some(4365)));
        let list = lab.by("root").run("createNetworkACLList", &[("name", "global")]);
        let list = text(&list["networkacllist"]["id"]);
        let item = [("aclid", list.as_str()), ("protocol", "all")];
        lab.by("root").run("createNetworkACL", &item);
        assert_eq!(lab.by("prod").refused("createNetworkACL", &item).code, 531);
        let tier = lab.id("listNetworks", "tier");
        lab.run("replaceNetworkACLList", &[("aclid", &list), ("networkid", &tier)]);
        let old = Lab::on("4.18.0").by("root").refused("createNetworkACLList", &[("name", "g")]);
        assert_eq!(old.code, 431);
    }
}
