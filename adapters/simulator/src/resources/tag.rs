//! Tags of objects, and the commands that set and list them.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner};
use crate::commands::{Call, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Work, success};
use crate::lists::{Scope, answer, equal};
use crate::object::{Field, Object};
use crate::table::{Key, Row, Table};

/// One tag of one object.
#[derive(Debug, Clone)]
pub(crate) struct Tag {
    id: String,
    kind: ResourceType,
    resource: String,
    owner: Owner,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// All tags, and which of them each object has.
#[derive(Debug, Clone)]
pub(crate) struct Tags {
    table: Table<Tag>,
    /// By kind and id of the object, the id in lower case.
    objects: BTreeMap<(ResourceType, String), BTreeSet<Key<Tag>>>,
}

/// Kinds of objects that can be asked for tags here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResourceType {
    FirewallRule,
    LoadBalancer,
    Network,
    /// An ACL item, not a list.
    NetworkAcl,
    Project,
    PublicIpAddress,
    UserVm,
    Vpc,
    Zone,
}

/// Taggable types by their names on the wire.
const TYPES: &[(&str, ResourceType)] = &[
    ("FirewallRule", ResourceType::FirewallRule),
    ("LoadBalancer", ResourceType::LoadBalancer),
    ("Network", ResourceType::Network),
    ("NetworkACL", ResourceType::NetworkAcl),
    ("Project", ResourceType::Project),
    ("PublicIpAddress", ResourceType::PublicIpAddress),
    ("UserVm", ResourceType::UserVm),
    ("Vpc", ResourceType::Vpc),
];
/// Types that exist but take no tags.
const UNTAGGABLE: &[&str] = &["LBStickinessPolicy", "NetworkACLList", "Nic", "Zone"];
/// Longer keys and values are cut, in characters.
const LENGTH: usize = 255;

impl Row for Tag {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Tags {
    pub(crate) fn new() -> Self {
        Self { table: Table::new(), objects: BTreeMap::new() }
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (Key<Tag>, &Tag)> {
        self.table.iter()
    }

    /// The tags of an object, by age.
    fn of(&self, kind: ResourceType, id: &str) -> impl Iterator<Item = (Key<Tag>, &Tag)> {
        let keys = self.objects.get(&(kind, id.to_lowercase()));
        keys.into_iter().flatten().filter_map(|key| Some((*key, self.table.get(*key)?)))
    }

    fn insert(&mut self, tag: Tag) {
        let object = (tag.kind, tag.resource.to_lowercase());
        let key = self.table.insert(tag);
        self.objects.entry(object).or_default().insert(key);
    }

    fn remove(&mut self, key: Key<Tag>) {
        let Some(tag) = self.table.remove(key) else {
            return;
        };
        if let Some(keys) = self.objects.get_mut(&(tag.kind, tag.resource.to_lowercase())) {
            keys.remove(&key);
        }
    }
}

impl ResourceType {
    fn name(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).map_or("Zone", |(name, _)| name)
    }

    fn parse(text: &str) -> Result<Self, JobFailure> {
        if let Some((_, kind)) = TYPES.iter().find(|(name, _)| equal(name, text)) {
            return Ok(*kind);
        }
        if UNTAGGABLE.iter().any(|name| equal(name, text)) {
            return Err(JobFailure::invalid(format!(
                "The resource type {text} doesn't support resource tags"
            )));
        }
        Err(JobFailure::invalid(format!("Invalid resource type {text}")))
    }
}

/// The tags of an object.
pub(crate) fn tags_of<'a>(
    cloud: &'a Cloud,
    kind: ResourceType,
    id: &'a str,
) -> impl Iterator<Item = &'a Tag> {
    cloud.tags.of(kind, id).map(|(_, tag)| tag)
}

/// `tags` of most objects: key and value only.
pub(crate) fn inline_tags<'a>(cloud: &'a Cloud, kind: ResourceType, id: &'a str) -> Field<'a> {
    tags_of(cloud, kind, id)
        .map(|tag| Object::new().with("key", tag.key.as_str()).with("value", tag.value.as_str()))
        .collect()
}

/// `tags` of VMs and zones: whole tag objects without the domain's path.
pub(crate) fn full_tags<'a>(cloud: &'a Cloud, kind: ResourceType, id: &'a str) -> Field<'a> {
    tags_of(cloud, kind, id).map(|tag| tag_json(cloud, tag).without(&["domainpath"])).collect()
}

fn tag_json<'a>(cloud: &'a Cloud, tag: &'a Tag) -> Object<'a> {
    Object::new()
        .with("key", tag.key.as_str())
        .with("value", tag.value.as_str())
        .with("resourcetype", tag.kind.name())
        .with("resourceid", tag.resource.as_str())
        .merge(cloud.owner_fields(tag.owner))
}

/// Adds a tag without any check, for world files.
pub(crate) fn add(
    cloud: &mut Cloud,
    kind: ResourceType,
    resource: &str,
    owner: Owner,
    key: &str,
    value: &str,
) {
    let id = cloud.ids.next_id();
    let cut = |text: &str| text.chars().take(LENGTH).collect();
    cloud.tags.insert(Tag {
        id,
        kind,
        resource: resource.to_owned(),
        owner,
        key: cut(key),
        value: cut(value),
    });
}

/// Removes all tags of an object. Not called for load-balancer rules, whose tags CloudStack leaves
/// behind.
pub(crate) fn forget(cloud: &mut Cloud, kind: ResourceType, id: &str) {
    let gone: Vec<Key<Tag>> = cloud.tags.of(kind, id).map(|(key, _)| key).collect();
    for key in gone {
        cloud.tags.remove(key);
    }
}

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("resourcetype", Kind::Text),
    may("resourceid", Kind::Text),
    may("key", Kind::Text),
    may("value", Kind::Text),
    may("customer", Kind::Text),
];

pub(crate) const CREATE_PARAMS: &[Param] = &[
    must("tags", Kind::Map),
    must("resourcetype", Kind::Text),
    must("resourceids", Kind::List),
    may("customer", Kind::Text),
];

pub(crate) const DELETE_PARAMS: &[Param] =
    &[may("tags", Kind::Map), must("resourcetype", Kind::Text), must("resourceids", Kind::List)];

/// listTags. Tags of deleted load-balancer rules are among them.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let scope = Scope::of(cloud, call)?;
    let rows: Vec<_> = cloud
        .tags
        .iter()
        .map(|(_, tag)| tag)
        .filter(|tag| {
            scope.covers(tag.owner)
                && params.agrees("resourcetype", |kind| equal(tag.kind.name(), kind))
                && params.agrees("resourceid", |id| equal(&tag.resource, id))
                && params.agrees("key", |key| equal(&tag.key, key))
                && params.agrees("value", |value| equal(&tag.value, value))
                && params.text("customer").is_none()
        })
        .collect();
    answer(cloud, call, "tag", rows, |tag| tag_json(cloud, tag))
}

pub(crate) const LIST_DETAILS_PARAMS: &[Param] =
    &[must("resourcetype", Kind::Text), may("resourceid", Kind::Text), may("key", Kind::Text)];

/// listResourceDetails: only admins can add details, and nobody does here.
pub(crate) fn list_details(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    answer(cloud, call, "resourcedetail", Vec::new(), |()| Object::new())
}

/// createTags: all or nothing, and all of it inside the job.
pub(crate) fn start_create(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let kind = ResourceType::parse(call.params.text("resourcetype").unwrap_or_default())?;
    let mut wanted = Vec::new();
    for fields in call.params.map("tags").into_iter().flat_map(|map| map.values()) {
        let key = fields.get("key").cloned().unwrap_or_default();
        match fields.get("value") {
            Some(value) if !value.is_empty() => wanted.push((key, value.clone())),
            _ => {
                return Err(JobFailure::invalid(format!(
                    "Value for the key {key} is either null or empty"
                )));
            }
        }
    }
    let mut objects = Vec::new();
    for id in call.params.list("resourceids").unwrap_or_default() {
        let (id, owner) = tagged_object(cloud, call, kind, &id)?;
        if let Some((key, _)) =
            wanted.iter().find(|(key, _)| tags_of(cloud, kind, &id).any(|tag| equal(&tag.key, key)))
        {
            return Err(JobFailure::internal(format!(
                "tag {key} already on {} with id {id}",
                kind.name()
            )));
        }
        objects.push((id, owner));
    }
    for (id, owner) in objects {
        for (key, value) in &wanted {
            add(cloud, kind, &id, owner, key, value);
        }
    }
    Ok(Work::Done(success()))
}

/// deleteTags: by key, by key and value, or all of an object; nothing to delete is an error.
pub(crate) fn start_delete(
    cloud: &mut Cloud,
    call: &Call,
    _: &Accepted,
) -> Result<Work, JobFailure> {
    let kind = ResourceType::parse(call.params.text("resourcetype").unwrap_or_default())?;
    let filters: Vec<_> =
        call.params.map("tags").into_iter().flat_map(|map| map.values()).collect();
    let mut gone = Vec::new();
    for id in call.params.list("resourceids").unwrap_or_default() {
        let (id, _) = tagged_object(cloud, call, kind, &id)?;
        let matches = |tag: &Tag| {
            filters.is_empty()
                || filters.iter().any(|fields| {
                    fields.get("key").is_some_and(|key| equal(&tag.key, key))
                        && fields.get("value").is_none_or(|value| equal(&tag.value, value))
                })
        };
        let tags = cloud.tags.of(kind, &id);
        gone.extend(tags.filter(|(_, tag)| matches(tag)).map(|(key, _)| key));
    }
    if gone.is_empty() {
        return Err(JobFailure::internal("Failed to delete tags"));
    }
    for key in gone {
        cloud.tags.remove(key);
    }
    Ok(Work::Done(success()))
}

/// The id as stored and the owner of an object that the caller may tag.
fn tagged_object(
    cloud: &Cloud,
    call: &Call,
    kind: ResourceType,
    id: &str,
) -> Result<(String, Owner), JobFailure> {
    let Some((stored, owner)) = owner_of(cloud, kind, id) else {
        return Err(JobFailure::invalid(format!(
            "Unable to find resource by uuid {id} and type {}",
            kind.name()
        )));
    };
    match owner {
        Some(owner) if cloud.may_use(call.caller, owner) => Ok((stored, owner)),
        _ => Err(JobFailure::permission()),
    }
}

fn owner_of(cloud: &Cloud, kind: ResourceType, id: &str) -> Option<(String, Option<Owner>)> {
    fn found(id: &str, owner: Owner) -> (String, Option<Owner>) {
        (id.to_owned(), Some(owner))
    }
    match kind {
        ResourceType::FirewallRule => {
            let row = cloud.firewall_rules.get(cloud.firewall_rules.find(id)?)?;
            Some(found(&row.id, row.owner))
        }
        ResourceType::LoadBalancer => {
            let row = cloud.rules.get(cloud.rules.find(id)?)?;
            Some(found(&row.id, row.owner))
        }
        ResourceType::Network => {
            let row = cloud.networks.get(cloud.networks.find(id)?)?;
            Some(found(&row.id, row.owner))
        }
        ResourceType::NetworkAcl => {
            let row = cloud.acl_items.get(cloud.acl_items.find(id)?)?;
            Some((row.id.clone(), row.owner(cloud)))
        }
        ResourceType::Project => {
            let key = cloud.projects.find(id)?;
            let row = cloud.projects.get(key)?;
            Some(found(&row.id, Owner::Project(key)))
        }
        ResourceType::PublicIpAddress => {
            let row = cloud.addresses.get(cloud.addresses.find(id)?)?;
            Some((row.id.clone(), row.owner))
        }
        ResourceType::UserVm => {
            let row = cloud.vms.get(cloud.vms.find(id)?)?;
            Some(found(&row.id, row.owner))
        }
        ResourceType::Vpc => {
            let row = cloud.vpcs.get(cloud.vpcs.find(id)?)?;
            Some(found(&row.id, row.owner))
        }
        ResourceType::Zone => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    fn tag<'a>(
        kind: &'a str,
        id: &'a str,
        key: &'a str,
        value: &'a str,
    ) -> Vec<(&'a str, &'a str)> {
        vec![
            ("resourcetype", kind),
            ("resourceids", id),
            ("tags[0].key", key),
            ("tags[0].value", value),
        ]
    }

    #[test]
    fn tags_show_on_their_object_and_in_the_list() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        lab.run("createTags", &tag("loadbalancer", &rule, "a", "b"));
        assert_eq!(lab.listed_rule(&rule)["tags"], serde_json::json!([{"key": "a", "value": "b"}]));
        let listed = lab.rows("listTags", &[("resourcetype", "LOADBALANCER")]).remove(0);
        assert_eq!(listed["resourcetype"], "LoadBalancer");
        assert_eq!((&listed["resourceid"], &listed["account"]), (&rule.into(), &"prod".into()));
        assert_eq!(lab.rows("listTags", &[("key", "x")]).len(), 0);
        let long = "x".repeat(300);
        let vm = lab.id("listVirtualMachines", "node-1");
        lab.run("createTags", &tag("UserVm", &vm, "long", &long));
        assert_eq!(lab.column("listTags", &[("key", "long")], "value")[0].len(), 255);
    }

    #[test]
    fn everything_is_checked_inside_the_job() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        lab.run("createTags", &tag("LoadBalancer", &rule, "k", "v"));
        let nobody = "11111111-2222-3333-4444-555555555555";
        for (kind, id, value, code, cause) in [
            (
                "LoadBalancer",
                rule.as_str(),
                "v",
                530,
                format!("tag K already on LoadBalancer with id {rule}"),
            ),
            (
                "LoadBalancer",
                rule.as_str(),
                "",
                431,
                "Value for the key K is either null or empty".to_owned(),
            ),
            ("Bogus", rule.as_str(), "v", 431, "Invalid resource type Bogus".to_owned()),
            (
                "Zone",
                rule.as_str(),
                "v",
                431,
                "The resource type Zone doesn't support resource tags".to_owned(),
            ),
            (
                "LoadBalancer",
                nobody,
                "v",
                431,
                format!("Unable to find resource by uuid {nobody} and type LoadBalancer"),
            ),
        ] {
            assert_eq!(lab.fails("createTags", &tag(kind, id, "K", value)), (code, cause));
        }
        assert_eq!(
            lab.by("other").fails("createTags", &tag("LoadBalancer", &rule, "x", "y")).0,
            530
        );
        assert_eq!(
            lab.refused("createTags", &[("resourcetype", "LoadBalancer"), ("resourceids", &rule)])
                .code,
            431
        );
    }

    #[test]
    fn deleting_matches_in_any_case_and_nothing_matched_is_a_failure() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        for key in ["a", "b", "c"] {
            lab.run("createTags", &tag("LoadBalancer", &rule, key, "v"));
        }
        let object = [("resourcetype", "LoadBalancer"), ("resourceids", rule.as_str())];
        let mut delete = object.to_vec();
        delete.push(("tags[0].key", "A"));
        lab.run("deleteTags", &delete);
        assert_eq!(lab.fails("deleteTags", &delete), (530, "Failed to delete tags".to_owned()));
        assert_eq!(lab.rows("listTags", &[]).len(), 2);
        lab.run("deleteTags", &object);
        assert_eq!(lab.rows("listTags", &[]).len(), 0);
    }
}
