//! Taking things away: a port (opening first, then its rule), then the address.

use std::collections::BTreeSet;

use crate::ids::PublicIpId;
use crate::model::service::{Lifecycle, Port, Service};
use crate::observe::ownership::{Owner, TAG_KEEP, is_kept_by_tag, port_of};
use crate::observe::{LoadBalancerRule, NetworkAclItem, PublicIpAddress, RuleState};
use crate::parse::annotations;
use crate::plan::action::{
    Action, CheckAddressUnused, DeleteFirewallRule, DeleteLoadBalancerRule, DeleteNetworkAcl,
    DisassociateIpAddress,
};
use crate::plan::builder::After;
use crate::plan::draft::{Draft, known_ports};
use crate::plan::network::some_names;
use crate::plan::planner::{Planner, comes_before};
use crate::plan::reason::{Disruption, Reason};
use crate::plan::report::Note;
use crate::plan::standing::Holding;
use crate::plan::{StepId, firewall_rule, network_acl, standing};

/// Closes a port of an address and deletes its rules. Gives the steps that must be through before
/// the port number or the address may be used for something else.
pub(super) fn close_port(
    draft: &mut Draft<'_, '_>,
    address: &PublicIpId,
    port: Port,
    after: &After,
    reason: &Reason,
) -> After {
    let rules: Vec<&LoadBalancerRule> =
        draft.standing.rules_on(address).filter(|rule| port_of(rule) == port).collect();
    let mut closed = close_firewall(draft, address, port, after, reason);
    // Items belong to the Service, not to an address: a port that moves keeps its item.
    if !draft.served.contains(&port) {
        closed.extend(close_acl(draft, &rules, port, after, reason));
    }
    let mut before_delete = after.clone();
    before_delete.extend(closed.iter().cloned());
    for rule in rules {
        let reason = deletion_reason(rule, reason);
        let action =
            Action::DeleteLoadBalancerRule(DeleteLoadBalancerRule { rule: rule.id.clone() });
        let name = format!("rule/{port}/delete");
        closed.insert(draft.builder.add(&name, action, &before_delete, reason, Disruption::Cut));
    }
    closed
}

/// Finishes the deletion of rules of ours that an earlier attempt left half-way.
pub(super) fn delete_dying_rules(
    draft: &mut Draft<'_, '_>,
    address: &PublicIpId,
    port: Port,
    after: &After,
) -> After {
    let dying: Vec<&LoadBalancerRule> = draft
        .standing
        .rules_on(address)
        .filter(|rule| port_of(rule) == port && rule.state == RuleState::Deleting)
        .collect();
    let mut deleted = After::new();
    for rule in dying {
        let action =
            Action::DeleteLoadBalancerRule(DeleteLoadBalancerRule { rule: rule.id.clone() });
        let name = format!("rule/{port}/delete");
        let reason = Reason::DeletionUnfinished;
        deleted.insert(draft.builder.add(&name, action, after, reason, Disruption::None));
    }
    deleted
}

fn deletion_reason(rule: &LoadBalancerRule, reason: &Reason) -> Reason {
    if rule.state == RuleState::Deleting { Reason::DeletionUnfinished } else { reason.clone() }
}

fn close_firewall(
    draft: &mut Draft<'_, '_>,
    address: &PublicIpId,
    port: Port,
    after: &After,
    reason: &Reason,
) -> After {
    let (own, _) = firewall_rule::own_and_foreign(
        draft.planner,
        draft.service,
        draft.standing.basis,
        draft.standing.holding(address),
        address,
        port,
    );
    let mut closed = After::new();
    for rule in own {
        let action = Action::DeleteFirewallRule(DeleteFirewallRule {
            rule: rule.id.clone(),
            port,
            cidrs: rule.cidrs.clone(),
        });
        let name = format!("firewall/{port}/close");
        closed.insert(draft.builder.add(&name, action, after, reason.clone(), Disruption::Cut));
    }
    closed
}

/// Closes ACL items of the Service whose ports have no rule of its any more: on no address would
/// they be missed.
pub(super) fn close_items_without_rule(
    draft: &mut Draft<'_, '_>,
    stays: impl Fn(&Port) -> bool,
    reason: impl Fn(Port) -> Reason,
) -> After {
    let served: BTreeSet<Port> =
        draft.standing.rules.iter().map(|(rule, _)| port_of(rule)).collect();
    let mut closed = After::new();
    for port in network_acl::own_ports(draft.planner.observed, draft.service) {
        if !served.contains(&port) && !stays(&port) {
            closed.extend(close_acl(draft, &[], port, &After::new(), &reason(port)));
        }
    }
    closed
}

fn close_acl(
    draft: &mut Draft<'_, '_>,
    rules: &[&LoadBalancerRule],
    port: Port,
    after: &After,
    reason: &Reason,
) -> After {
    let mut closed = After::new();
    for list in network_acl::lists_of(draft.planner, draft.service, rules, port) {
        let (items, notes) =
            network_acl::closing(draft.planner, draft.service, draft.standing, &list, port);
        for note in notes {
            draft.note(note);
        }
        for item in items {
            closed.insert(close_acl_item(draft, item, port, after, reason));
        }
    }
    closed
}

/// A port that is left on two addresses has one item: it is closed once, before both.
fn close_acl_item(
    draft: &mut Draft<'_, '_>,
    item: &NetworkAclItem,
    port: Port,
    after: &After,
    reason: &Reason,
) -> StepId {
    if let Some(step) = draft.closed_items.get(&item.id) {
        return step.clone();
    }
    let (id, list) = (item.id.clone(), item.list.clone());
    let action = Action::DeleteNetworkAcl(DeleteNetworkAcl { item: id.clone(), list, port });
    let name = format!("acl/{port}/close");
    let step = draft.builder.add(&name, action, after, reason.clone(), Disruption::Cut);
    draft.closed_items.insert(id, step.clone());
    step
}

/// Takes everything of ours off an address and releases it if nothing speaks against that.
/// Gives the steps after which the Service needs the address no more.
pub(super) fn leave_address(
    draft: &mut Draft<'_, '_>,
    holding: &Holding,
    after: &After,
    reason: &Reason,
) -> After {
    let mut through = After::new();
    for port in draft.known_ports(&holding.id) {
        through.extend(close_port(draft, &holding.id, port, after, reason));
    }
    match kept(draft.planner, draft.service, draft, holding) {
        Some(note) => {
            draft.note(note);
            through
        }
        None => {
            let mut before = after.clone();
            before.extend(through.iter().cloned());
            through.insert(release(draft, holding, &before));
            through
        }
    }
}

fn release(draft: &mut Draft<'_, '_>, holding: &Holding, after: &After) -> StepId {
    let check = draft.builder.add(
        "address/check",
        Action::CheckAddressUnused(CheckAddressUnused {
            address: holding.id.clone(),
            allocated: holding.allocated.clone(),
        }),
        after,
        Reason::ReleaseNeedsProof,
        Disruption::None,
    );
    draft.builder.add(
        "address/release",
        Action::DisassociateIpAddress(DisassociateIpAddress { address: holding.id.clone() }),
        &After::from([check]),
        Reason::AddressUnneeded,
        Disruption::None,
    )
}

/// Why an address stays, if it does.
fn kept(
    planner: &Planner<'_>,
    service: &Service,
    draft: &Draft<'_, '_>,
    holding: &Holding,
) -> Option<Note> {
    let found = planner.observed.addresses.get(&holding.id)?;
    let address = found.address;
    if draft.standing.unproven.contains(&holding.id) {
        return Some(Note::AddressUnproven { address });
    }
    if !holding.ours {
        return Some(Note::AddressOfUser { address });
    }
    if let Some(other) = other_user(planner, service, &holding.id) {
        let by = format!("Service {} uses it too", other.key);
        return Some(Note::AddressInUse { address, by });
    }
    if let Some(by) = keeper(draft, found) {
        return Some(Note::AddressKept { address, by });
    }
    if found.source_nat || found.static_nat.is_some() {
        let by = "it is used for NAT".to_owned();
        return Some(Note::AddressInUse { address, by });
    }
    let learned = &planner.desired.learned;
    let by = other_object(planner, draft, &holding.id)
        .or_else(|| learned.holder(&holding.id, planner.now).map(str::to_owned));
    by.map(|by| Note::AddressInUse { address, by })
}

/// What says that people keep an address: its tag, or a Service that holds it. An address of which
/// only an intent speaks was never anybody's: its Service does not keep it.
fn keeper(draft: &Draft<'_, '_>, found: &PublicIpAddress) -> Option<String> {
    if is_kept_by_tag(&found.tags) {
        return Some(format!("tag `{TAG_KEEP}` keeps it"));
    }
    let (planner, service) = (draft.planner, draft.service);
    let own = Some(service).filter(|_| !standing::is_unrecorded(service, draft.standing, found));
    let others = planner.others_on(&found.id, &service.key).into_iter().filter(|other| {
        let standing = planner.standing(&other.key);
        standing.is_some_and(|standing| standing.holding(&found.id).is_some())
    });
    let keeper = own.into_iter().chain(others).find(|service| service.keeps_address)?;
    Some(format!("annotation `{}` of Service {} keeps it", annotations::KEEP_IP, keeper.key))
}

/// Whether an address of ours that a Service leaves stays for what others have on it: the Service
/// goes on recording it, and releases it once nothing is left.
pub(super) fn is_waited_for(draft: &Draft<'_, '_>, holding: &Holding) -> bool {
    let (planner, service) = (draft.planner, draft.service);
    other_user(planner, service, &holding.id).is_none()
        && matches!(kept(planner, service, draft, holding), Some(Note::AddressInUse { .. }))
}

/// Why a Service must go on recording an address that it leaves: of those that stay, none records
/// yet that it is ours. One that its Service keeps is the user's from then on, for all of them.
pub(super) fn hand_over_pending(
    planner: &Planner<'_>,
    service: &Service,
    holding: &Holding,
) -> Option<Note> {
    let ours = |other: &Service| {
        let standing = planner.standing(&other.key);
        standing.and_then(|standing| standing.holding(&holding.id)).is_some_and(|held| held.ours)
    };
    let mut others = other_users(planner, service, &holding.id).filter(|_| holding.ours);
    let other = if service.keeps_address {
        others.find(|other| ours(other))?
    } else {
        others.next().filter(|other| !ours(other))?
    };
    let (address, service) = (holding.id.clone(), other.key.clone());
    Some(Note::VerdictNotHandedOver { address, service })
}

/// A Service that goes on using the address, or that goes later than this one: whoever goes last
/// releases.
pub(super) fn other_user<'a>(
    planner: &Planner<'a>,
    service: &Service,
    address: &PublicIpId,
) -> Option<&'a Service> {
    other_users(planner, service, address).next()
}

fn other_users<'a>(
    planner: &Planner<'a>,
    service: &Service,
    address: &PublicIpId,
) -> impl Iterator<Item = &'a Service> {
    planner.others_on(address, &service.key).into_iter().filter(|other| match other.lifecycle {
        Lifecycle::Wanted => true,
        Lifecycle::Deleting | Lifecycle::OtherType | Lifecycle::OtherClass => {
            let leaving = service.lifecycle != Lifecycle::Wanted;
            !leaving || comes_before(service, other)
        }
    })
}

/// Something on the address that is neither this Service's nor a leaving one's.
fn other_object(
    planner: &Planner<'_>,
    draft: &Draft<'_, '_>,
    address: &PublicIpId,
) -> Option<String> {
    let rules = planner.observed.rules_on(address).filter(|rule| {
        let of_known_service = matches!(planner.owners.owner(rule), Owner::Service(..));
        rule.state != RuleState::Deleting && !of_known_service
    });
    let rules: Vec<String> = rules.map(|rule| format!("{:?} ({})", rule.name, rule.id)).collect();
    if !rules.is_empty() {
        return Some(format!("not ours and on it: rule {}", some_names(rules.iter())));
    }
    let mut ports = draft.known_ports(address);
    for other in planner.others_on(address, &draft.service.key) {
        let standing = planner.standing(&other.key).into_iter();
        ports.extend(
            standing.flat_map(|standing| known_ports(planner.observed, other, standing, address)),
        );
    }
    let mut openings = planner.observed.firewall_rules_on(address);
    let opening = openings.find(|rule| {
        rule.state != RuleState::Deleting && !rule.port().is_some_and(|port| ports.contains(&port))
    })?;
    Some(format!("firewall rule {} is on it, which is not ours", opening.id))
}
