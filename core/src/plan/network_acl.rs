//! Items of the network ACL list of a VPC tier: one for each port of each Service.

use std::collections::BTreeSet;

use crate::ids::{NetworkAclItemId, NetworkAclListId};
use crate::model::mark::Mark;
use crate::model::rule_name::port_text;
use crate::model::service::{Lifecycle, LoadBalancerSpec, Port, Service, ServicePort};
use crate::observe::index::Observed;
use crate::observe::ownership::{Owner, port_of};
use crate::observe::{LoadBalancerRule, NetworkAclItem, RuleState};
use crate::plan::action::AclTarget;
use crate::plan::network::{self, Filter};
use crate::plan::planner::{Planner, comes_before};
use crate::plan::report::Note;
use crate::plan::standing::{Basis, Standing};

/// What is to be done about one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AclChange {
    /// An item is to be made.
    pub(super) create: bool,
    /// Items of ours that somebody edited, or that were never pushed: they go once a right one is
    /// there.
    pub(super) wrong: Vec<NetworkAclItemId>,
    /// Why the item will have no effect.
    pub(super) note: Option<Note>,
}

/// Whether the reason of an item says that it was made for this Service.
pub(super) fn is_own(item: &NetworkAclItem, service: &Service) -> bool {
    mark(item).is_some_and(|mark| mark.service == service.uid)
}

/// Whether an item could be one that the Go controller made for `port`: unmarked, open to all.
pub(super) fn is_adoptable(item: &NetworkAclItem, port: Port) -> bool {
    item.opens_exactly(port)
        && item.state != RuleState::Deleting
        && item.reason.as_ref().is_none_or(String::is_empty)
}

/// Compares a port with the items of the tier's list.
pub(super) fn change(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    list: &NetworkAclListId,
    port: Port,
) -> AclChange {
    let items = || planner.observed.acl_items_of(list);
    let alive = |item: &&NetworkAclItem| item.state != RuleState::Deleting;
    let own = || items().filter(alive).filter(|item| is_own_for(item, service, port));
    let is_right = |item: &&NetworkAclItem| item.opens_exactly(port) && item.state.is_pushed();
    let wrong = own().filter(|item| !is_right(item)).map(|item| item.id.clone());
    let wrong: Vec<NetworkAclItemId> = wrong.collect();
    let made = own().any(|item| is_right(&item));
    if made || items().filter(alive).any(|item| is_recorded(item, service, port)) {
        return AclChange { wrong, ..AclChange::default() };
    }
    if adopted(planner, service, standing, list, port).is_some() {
        return AclChange::default();
    }
    let deny = first_deny(planner.observed, list, port);
    let note = deny
        .filter(|deny| {
            number_before(planner.observed, list, deny.number, &BTreeSet::new()).is_none()
        })
        .map(|deny| Note::AclBlockedByDeny { port, item: deny.id.clone() });
    AclChange { create: true, wrong, note }
}

/// The ports that items of ours are for, made or adopted, in any list.
pub(super) fn own_ports(observed: &Observed, service: &Service) -> BTreeSet<Port> {
    let made = observed.acl_items().filter(|item| is_own(item, service));
    let made = made.filter_map(|item| Port::parse(&mark(item)?.port));
    let adopted = recorded(service).filter_map(|id| observed.acl_item(id)?.opened_port());
    made.chain(adopted).collect()
}

/// The lists in which something of a port may have to be closed: those of the tiers of its rules,
/// and those that hold items of ours for it.
pub(super) fn lists_of(
    planner: &Planner<'_>,
    service: &Service,
    rules: &[&LoadBalancerRule],
    port: Port,
) -> BTreeSet<NetworkAclListId> {
    let networks = rules.iter().filter_map(|rule| planner.observed.networks.get(&rule.network));
    let of_tiers = networks.filter_map(|network| network.acl_list.clone());
    let ours = planner
        .observed
        .acl_items()
        .filter(|item| is_own_for(item, service, port) || is_recorded(item, service, port));
    of_tiers.chain(ours.map(|item| item.list.clone())).collect()
}

/// The item that adoption takes over for a port: the Go controller makes one for the port of a
/// rule, where nothing but the tier's list filters.
fn adopted<'a>(
    planner: &Planner<'a>,
    service: &Service,
    standing: &Standing<'_>,
    list: &NetworkAclListId,
    port: Port,
) -> Option<&'a NetworkAclItem> {
    let opened = |rule: &LoadBalancerRule| {
        port_of(rule) == port
            && filtering_list(planner, service, standing, rule).as_ref() == Some(list)
    };
    let adopts =
        standing.basis == Basis::Adoption && standing.rules.iter().any(|(rule, _)| opened(rule));
    let mut items = planner.observed.acl_items_of(list).filter(|_| adopts);
    items.find(|item| is_adoptable(item, port))
}

/// The list that filters what comes in to a rule.
fn filtering_list(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    rule: &LoadBalancerRule,
) -> Option<NetworkAclListId> {
    let network = planner.observed.networks.get(&rule.network)?;
    match network::filter(planner, service, standing, network) {
        (Filter::Acl(AclTarget::List(list)), _) => Some(list),
        (
            Filter::Acl(AclTarget::Network(_)) | Filter::Firewall { trial: _ } | Filter::Unmanaged,
            _,
        ) => None,
    }
}

/// The items of others that are a Service's to delete: those that it records and that still do
/// what they did, and those that adoption takes over. Nothing else tells that they are: an item
/// stays recorded until it is gone.
pub(super) fn held_items(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
) -> BTreeSet<NetworkAclItemId> {
    let observed = planner.observed;
    let recorded = recorded(service).filter(|id| match observed.acl_item(id) {
        Some(item) => item.opened_port().is_some(),
        None => !observed.sees_acl_items(),
    });
    let adopted = standing.rules.iter().filter_map(|(rule, _)| {
        let list = filtering_list(planner, service, standing, rule)?;
        adopted(planner, service, standing, &list, port_of(rule)).map(|item| &item.id)
    });
    recorded.chain(adopted).cloned().collect()
}

/// A number for a new item: the largest free one before the first item that denies the port, so
/// that items of others keep theirs; absent if nothing denies it, or no such number is free.
pub(super) fn number(
    observed: &Observed,
    list: &NetworkAclListId,
    port: Port,
    planned: &BTreeSet<u32>,
) -> Option<u32> {
    let deny = first_deny(observed, list, port)?;
    number_before(observed, list, deny.number, planned)
}

/// What is to be closed for a port that is no longer served: items of ours, and adopted ones that
/// nobody needs any more.
pub(super) fn closing<'a>(
    planner: &Planner<'a>,
    service: &Service,
    standing: &Standing<'_>,
    list: &NetworkAclListId,
    port: Port,
) -> (Vec<&'a NetworkAclItem>, Vec<Note>) {
    let mut notes = Vec::new();
    let mut close = Vec::new();
    let taken_over = adopted(planner, service, standing, list, port).map(|item| &item.id);
    for item in planner.observed.acl_items_of(list) {
        let adopted = is_recorded(item, service, port) || taken_over == Some(&item.id);
        if is_own_for(item, service, port) {
            close.push(item);
        } else if adopted {
            match needed_by(planner, service, list, port, &item.id) {
                None => close.push(item),
                Some(by) => notes.push(Note::AclItemKept { item: item.id.clone(), by }),
            }
        }
    }
    (close, notes)
}

fn is_own_for(item: &NetworkAclItem, service: &Service, port: Port) -> bool {
    is_own(item, service) && mark(item).is_some_and(|mark| mark.port == port_text(port))
}

fn is_recorded(item: &NetworkAclItem, service: &Service, port: Port) -> bool {
    item.opens_exactly(port) && records(service, &item.id)
}

fn recorded(service: &Service) -> impl Iterator<Item = &NetworkAclItemId> {
    service.recorded.record.iter().flat_map(|record| &record.acl)
}

fn records(service: &Service, item: &NetworkAclItemId) -> bool {
    recorded(service).any(|id| id == item)
}

/// An adopted item serves the whole tier: who else needs it? Of Services that stop needing it at
/// the same time the last one deletes it.
fn needed_by(
    planner: &Planner<'_>,
    service: &Service,
    list: &NetworkAclListId,
    port: Port,
    item: &NetworkAclItemId,
) -> Option<String> {
    let keeps = |other: &&Service| {
        other.key != service.key && (wants(other, port) || comes_before(service, other))
    };
    let recording = planner.desired.services.values().filter(|other| records(other, item));
    if let Some(other) = recording.into_iter().find(keeps) {
        return Some(format!("Service {} records it too", other.key));
    }
    let rules = planner.observed.rules.values().filter(|rule| {
        let network = planner.observed.networks.get(&rule.network);
        let in_list = network.is_some_and(|network| network.acl_list.as_ref() == Some(list));
        port_of(rule) == port && in_list
    });
    for rule in rules {
        let Owner::Service(key, _) = planner.owners.owner(rule) else {
            return Some(format!("rule {:?} ({}) has that port", rule.name, rule.id));
        };
        if planner.desired.services.get(&key).as_ref().is_some_and(keeps) {
            return Some(format!("Service {key} has that port"));
        }
    }
    None
}

/// Whether a Service goes on serving a port.
fn wants(service: &Service, port: Port) -> bool {
    let is_listed = |spec: &LoadBalancerSpec| {
        let same = |wanted: &ServicePort| {
            wanted.number == port.number && wanted.transport.as_ref() == Ok(&port.transport)
        };
        spec.ports.iter().any(same)
    };
    service.lifecycle == Lifecycle::Wanted && service.spec.as_ref().map_or(true, is_listed)
}

fn mark(item: &NetworkAclItem) -> Option<Mark> {
    Mark::parse(item.reason.as_deref()?)
}

fn first_deny<'a>(
    observed: &'a Observed,
    list: &NetworkAclListId,
    port: Port,
) -> Option<&'a NetworkAclItem> {
    let denying = observed.acl_items_of(list).filter(|item| !item.allow && item.matches(port));
    denying.min_by_key(|item| item.number)
}

fn number_before(
    observed: &Observed,
    list: &NetworkAclListId,
    limit: u32,
    planned: &BTreeSet<u32>,
) -> Option<u32> {
    let taken: BTreeSet<u32> = observed.acl_items_of(list).map(|item| item.number).collect();
    (1..limit).rev().find(|number| !taken.contains(number) && !planned.contains(number))
}
