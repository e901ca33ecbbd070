//! Tags on what is ours, where `ownership-tags` is on: the strongest proof, and what people filter
//! by. Nothing waits for a tag: ownership is known without (record, description, reason).
//!
//! A tag names the Service that an object was made for. Address and openings can be shared or
//! handed over afterwards: then the record of the Service that has them counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::ResourceId;
use crate::observe::ownership::{TAG_CLUSTER, TAG_KIND, TAG_SERVICE, is_tagged};
use crate::observe::{PublicIpAddress, RuleState};
use crate::plan::action::{Action, CreateTags, Ref, ResourceType};
use crate::plan::builder::After;
use crate::plan::draft::Draft;
use crate::plan::reason::Reason;
use crate::plan::report::Note;
use crate::plan::standing::Holding;
use crate::plan::{firewall_rule, network_acl};

/// The command, as roles name it.
const CREATE_TAGS: &str = "createTags";

/// Tags everything of the Service that is on the address at the end of the plan, with one call for
/// each type of object. `held` is the address, if it is there and ours.
pub(super) fn add_steps(draft: &mut Draft<'_, '_>, held: Option<&Holding>) {
    if !draft.planner.policy.ownership_tags {
        return;
    }
    if draft.planner.observed.capabilities.denied.contains(CREATE_TAGS) {
        draft.note(Note::TagsDenied {});
        return;
    }
    let untagged = untagged(draft, held);
    // One behind the other: a role that may not tag is asked once.
    let mut after = After::new();
    for (resource, objects) in untagged {
        let tags = tags(draft);
        let action = Action::CreateTags(CreateTags { resource, objects, tags });
        let name = format!("tags/{}", resource.as_str());
        after = After::from([draft.builder.add_aside(&name, action, &after, Reason::TagsMissing)]);
    }
}

fn tags(draft: &Draft<'_, '_>) -> [(&'static str, String); 3] {
    let (cluster, service) = (&draft.planner.policy.cluster_id, &draft.service.uid);
    [
        (TAG_CLUSTER, cluster.to_string()),
        (TAG_SERVICE, service.to_string()),
        (TAG_KIND, "Service".to_owned()),
    ]
}

type Untagged = BTreeMap<ResourceType, Vec<Ref<ResourceId>>>;

fn untagged(draft: &Draft<'_, '_>, held: Option<&Holding>) -> Untagged {
    let mut untagged = Untagged::new();
    let mut add = |resource, object| untagged.entry(resource).or_default().push(object);
    for (step, action) in draft.builder.actions() {
        if let Some(resource) = made_by(action) {
            add(resource, draft.builder.made(step));
        }
    }
    let learned = &draft.planner.desired.learned;
    let deleted = deleted(draft);
    for (resource, id) in existing(draft, held) {
        if !deleted.contains(&id) && !learned.is_untaggable(&id, draft.planner.now) {
            add(resource, Ref::Existing(id));
        }
    }
    untagged
}

/// What a step makes that can be tagged.
fn made_by(action: &Action) -> Option<ResourceType> {
    match action {
        Action::AssociateIpAddress(_) => Some(ResourceType::PublicIpAddress),
        Action::CreateLoadBalancerRule(_) => Some(ResourceType::LoadBalancer),
        Action::CreateFirewallRule(_) => Some(ResourceType::FirewallRule),
        Action::CreateNetworkAcl(_) => Some(ResourceType::NetworkAcl),
        Action::CheckAddressUnused(_)
        | Action::DisassociateIpAddress(_)
        | Action::UpdateLoadBalancerRule(_)
        | Action::DeleteLoadBalancerRule(_)
        | Action::AssignToLoadBalancerRule(_)
        | Action::RemoveFromLoadBalancerRule(_)
        | Action::DeleteFirewallRule(_)
        | Action::DeleteNetworkAcl(_)
        | Action::CreateTags(_)
        | Action::PatchService(_) => None,
    }
}

/// What the plan deletes.
fn deleted(draft: &Draft<'_, '_>) -> BTreeSet<ResourceId> {
    let deleted = draft.builder.actions().filter_map(|(_, action)| match action {
        Action::DeleteLoadBalancerRule(delete) => Some(ResourceId::from(&delete.rule)),
        Action::DeleteFirewallRule(delete) => Some(ResourceId::from(&delete.rule)),
        Action::DeleteNetworkAcl(delete) => Some(ResourceId::from(&delete.item)),
        Action::AssociateIpAddress(_)
        | Action::CheckAddressUnused(_)
        | Action::DisassociateIpAddress(_)
        | Action::CreateLoadBalancerRule(_)
        | Action::UpdateLoadBalancerRule(_)
        | Action::AssignToLoadBalancerRule(_)
        | Action::RemoveFromLoadBalancerRule(_)
        | Action::CreateFirewallRule(_)
        | Action::CreateNetworkAcl(_)
        | Action::CreateTags(_)
        | Action::PatchService(_) => None,
    });
    deleted.collect()
}

/// What is there, ours, and bears none of our tags.
fn existing(draft: &Draft<'_, '_>, held: Option<&Holding>) -> Vec<(ResourceType, ResourceId)> {
    let Some(holding) = held else { return Vec::new() };
    let mut found = Vec::new();
    found
        .extend(address(draft, holding).map(|it| (ResourceType::PublicIpAddress, (&it.id).into())));
    let rules = draft.standing.rules_on(&holding.id);
    let rules = rules.filter(|rule| rule.state != RuleState::Deleting && !is_tagged(&rule.tags));
    found.extend(rules.map(|rule| (ResourceType::LoadBalancer, (&rule.id).into())));
    found.extend(openings(draft, holding).map(|id| (ResourceType::FirewallRule, id)));
    found.extend(acl_items(draft).map(|id| (ResourceType::NetworkAcl, id)));
    found
}

fn address<'a>(draft: &Draft<'a, '_>, holding: &Holding) -> Option<&'a PublicIpAddress> {
    let found = draft.planner.observed.addresses.get(&holding.id)?;
    (holding.ours && !is_tagged(&found.tags)).then_some(found)
}

fn openings(draft: &Draft<'_, '_>, holding: &Holding) -> impl Iterator<Item = ResourceId> {
    let basis = draft.standing.basis;
    let own = draft.served.iter().flat_map(move |port| {
        firewall_rule::own_and_foreign(
            draft.planner,
            draft.service,
            basis,
            Some(holding),
            &holding.id,
            *port,
        )
        .0
    });
    let alive = own.filter(|rule| rule.state != RuleState::Deleting && !is_tagged(&rule.tags));
    alive.map(|rule| ResourceId::from(&rule.id))
}

/// Adopted items are shared by everybody on the tier: only those that we made.
fn acl_items(draft: &Draft<'_, '_>) -> impl Iterator<Item = ResourceId> {
    let own = draft.planner.observed.acl_items();
    let own = own.filter(|item| network_acl::is_own(item, draft.service));
    let alive = own.filter(|item| item.state != RuleState::Deleting && !is_tagged(&item.tags));
    alive.map(|item| ResourceId::from(&item.id))
}
