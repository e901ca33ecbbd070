//! What becomes of an object, with names in place of ids and with what was there before.

use std::collections::BTreeSet;
use std::fmt::Display;

use crate::ids::{NetworkAclListId, VirtualMachineId};
use crate::observe::LoadBalancerRule;
use crate::observe::index::Observed;
use crate::plan::Step;
use crate::plan::action::{
    AclTarget, Action, AssociateIpAddress, CreateLoadBalancerRule, Placement,
    UpdateLoadBalancerRule,
};
use crate::plan::planner::Planner;
use crate::render::document::Detail;

/// Longest list of names before the rest is counted.
const NAMES_SHOWN: usize = 5;

/// Says what the steps do to their object.
pub(super) fn details(planner: &Planner<'_>, steps: &[&Step]) -> Vec<Detail> {
    let observed = planner.observed;
    let replacement = Replacement::of(observed, steps);
    let mut details = Vec::new();
    for step in steps {
        for detail in part(observed, &step.action, &replacement) {
            add(&mut details, detail);
        }
    }
    details
}

/// Whether a rule is made anew, and in place of which one.
struct Replacement<'o> {
    deleted: Option<&'o LoadBalancerRule>,
    created: bool,
}

impl<'o> Replacement<'o> {
    fn of(observed: &'o Observed, steps: &[&Step]) -> Self {
        let mut found = Self { deleted: None, created: false };
        for step in steps {
            if let Action::DeleteLoadBalancerRule(call) = &step.action {
                found.deleted = observed.rules.get(&call.rule);
            }
            found.created |= matches!(step.action, Action::CreateLoadBalancerRule(_));
        }
        found
    }
}

/// What several steps do to one thing stands on one line.
fn add(details: &mut Vec<Detail>, detail: Detail) {
    if details.contains(&detail) {
        return;
    }
    let same = |known: &&mut Detail| known.what == detail.what && !known.what.is_empty();
    match details.iter_mut().find(same) {
        Some(known) => {
            known.text.push_str(", then ");
            known.text.push_str(&detail.text);
        }
        None => details.push(detail),
    }
}

fn whole(text: impl Into<String>) -> Detail {
    Detail { what: String::new(), text: text.into() }
}

fn about(what: &str, text: impl Into<String>) -> Detail {
    Detail { what: what.to_owned(), text: text.into() }
}

fn part(observed: &Observed, action: &Action, replacement: &Replacement<'_>) -> Vec<Detail> {
    let Replacement { deleted, created } = replacement;
    let detail = match action {
        Action::AssociateIpAddress(call) => whole(associate(observed, call)),
        Action::DisassociateIpAddress(call) => {
            let found = observed.addresses.get(&call.address);
            let name = found.map_or_else(|| call.address.to_string(), |a| a.address.to_string());
            whole(format!("release {name}"))
        }
        Action::CreateLoadBalancerRule(call) => return create(call, *deleted),
        Action::UpdateLoadBalancerRule(call) => {
            return update(call, observed.rules.get(&call.rule));
        }
        Action::DeleteLoadBalancerRule(_) if *created => return Vec::new(),
        Action::DeleteLoadBalancerRule(call) => match observed.rules.get(&call.rule) {
            Some(rule) => whole(format!("delete {:?}", rule.name)),
            None => whole(format!("delete {}", call.rule)),
        },
        Action::AssignToLoadBalancerRule(call) => {
            about("members", format!("+ {}", machines(observed, &call.vms, " + ")))
        }
        Action::RemoveFromLoadBalancerRule(call) => {
            about("members", format!("- {}", machines(observed, &call.vms, " - ")))
        }
        Action::CreateFirewallRule(call) => whole(format!("+ {}", call.cidrs)),
        Action::DeleteFirewallRule(call) => whole(format!("- {}", call.cidrs)),
        Action::CreateNetworkAcl(call) => {
            let list = match &call.target {
                AclTarget::List(id) => format!("in list {}", list_name(observed, id)),
                AclTarget::Network(_) => "in a new list".to_owned(),
            };
            match call.number {
                Some(number) => whole(format!("+ 0.0.0.0/0 {list}, number {number}")),
                None => whole(format!("+ 0.0.0.0/0 {list}, last")),
            }
        }
        Action::DeleteNetworkAcl(call) => match observed.acl_item(&call.item) {
            Some(item) => {
                let list = list_name(observed, &item.list);
                whole(format!("- {} in list {list}, number {}", item.cidrs, item.number))
            }
            None => whole(format!("- item {}", call.item)),
        },
        Action::CreateTags(call) => {
            about(call.resource.as_str(), format!("+ on {}", objects(call.objects.len())))
        }
        Action::CheckAddressUnused(_) => return Vec::new(),
        Action::PatchService(_) => return writes(action),
    };
    vec![detail]
}

fn objects(count: usize) -> String {
    if count == 1 { "1 object".to_owned() } else { format!("{count} objects") }
}

fn associate(observed: &Observed, call: &AssociateIpAddress) -> String {
    let place = match &call.placement {
        Placement::Network(id) => {
            let name = observed.networks.get(id).map_or(id.as_str(), |network| &network.name);
            format!("for network {name}")
        }
        Placement::Vpc(id) => {
            let vpcs = observed.vpcs.listed();
            let name = vpcs.and_then(|vpcs| vpcs.get(id)).map_or(id.as_str(), |vpc| &vpc.name);
            format!("for VPC {name}")
        }
    };
    match call.address {
        Some(address) => format!("take {address} {place}"),
        None => format!("take any {place}"),
    }
}

fn create<A>(call: &CreateLoadBalancerRule<A>, old: Option<&LoadBalancerRule>) -> Vec<Detail> {
    let (public, private) = (call.public_port, call.private_port);
    let (protocol, algorithm) = (call.protocol, call.algorithm);
    let headline = format!("{public} -> node port {private}, {protocol}, {algorithm}");
    let was = old.map(|rule| &rule.sources).filter(|sources| **sources != call.sources);
    vec![whole(headline), about("sources", change(was, &call.sources))]
}

/// The API wants the protocol in every update; it is told only if it changes.
fn update(call: &UpdateLoadBalancerRule, old: Option<&LoadBalancerRule>) -> Vec<Detail> {
    let protocol = old.and_then(|rule| rule.protocol.as_ref()?.as_ref().ok());
    let algorithm = old.and_then(|rule| rule.algorithm.as_ref().ok());
    let mut details = Vec::new();
    if protocol != Some(&call.protocol) {
        details.push(about("protocol", change(protocol, &call.protocol)));
    }
    if let Some(wanted) = call.algorithm {
        // An edit that old servers push only with another algorithm goes there and back.
        let text = match algorithm {
            Some(found) if *found == wanted => format!("back to {wanted}"),
            found => change(found, &wanted),
        };
        details.push(about("algorithm", text));
    }
    if let Some(wanted) = &call.sources {
        details.push(about("sources", change(old.map(|rule| &rule.sources), wanted)));
    }
    if let Some(wanted) = call.name.as_ref().filter(|name| old.is_none_or(|r| r.name != **name)) {
        details.push(about("name", wanted.as_str()));
    }
    if details.is_empty() {
        let text = if call.description.is_some() { "new description" } else { "push it again" };
        details.push(whole(text));
    }
    details
}

fn change<T: Display>(was: Option<&T>, wanted: &T) -> String {
    match was {
        Some(was) => format!("{was} -> {wanted}"),
        None => wanted.to_string(),
    }
}

fn writes(action: &Action) -> Vec<Detail> {
    let arguments = super::arguments::arguments(action);
    arguments.iter().map(|(name, _)| whole(*name)).collect()
}

fn list_name<'o>(observed: &'o Observed, id: &'o NetworkAclListId) -> &'o str {
    let lists = observed.acl_lists.listed();
    lists.and_then(|lists| lists.get(id)).map_or(id.as_str(), |list| &list.name)
}

fn machines(observed: &Observed, vms: &BTreeSet<VirtualMachineId>, between: &str) -> String {
    let mut names: Vec<&str> = vms
        .iter()
        .map(|id| observed.virtual_machines.get(id).map_or(id.as_str(), |machine| &machine.name))
        .collect();
    names.sort_unstable();
    let shown = names.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(between);
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
