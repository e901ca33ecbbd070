//! Laws about load balancer rules, their members and their openings.

#![expect(clippy::wildcard_enum_match_arm, reason = "each law looks at a few kinds of action")]

use std::collections::BTreeSet;

use crate::ids::LoadBalancerRuleId;
use crate::model::service::{Lifecycle, Port};
use crate::observe::ownership::port_of;
use crate::observe::{FirewallRule, LoadBalancerRule, RuleState};
use crate::plan::action::Action;
use crate::plan::check::case::{Case, broken};
use crate::plan::{Step, StepId};

pub(super) fn early_openings(case: &Case<'_>) -> Vec<StepId> {
    let first_rule = |step: &&Step, port: Port| match &step.action {
        Action::CreateLoadBalancerRule(create) => {
            create.public_port == port.number
                && create.protocol.transport() == port.transport
                && case.deleted_for(step).is_none()
        }
        _ => false,
    };
    broken(case.changes(), |opening| {
        let Some(port) = opened_port(opening) else { return false };
        let mut creates = case.changes().filter(|step| first_rule(step, port));
        creates.any(|create| {
            let assigned = case.changes().any(|step| {
                let assigns = matches!(&step.action, Action::AssignToLoadBalancerRule(assign)
                    if assign.rule.pending() == Some(&create.id));
                assigns && case.waits_for(opening, step)
            });
            !assigned || !case.waits_for(opening, create)
        })
    })
}

pub(super) fn early_deletions(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |delete| {
        let Some(rule) = case.deleted_rule(delete).filter(|_| !case.is_recreate(delete)) else {
            return false;
        };
        let closes = |step: &&Step| match &step.action {
            Action::DeleteFirewallRule(close) => {
                let on = case.observed.firewall_rules_on(&rule.address);
                close.port == port_of(rule) && on.into_iter().any(|found| found.id == close.rule)
            }
            Action::DeleteNetworkAcl(close) => {
                let network = case.observed.networks.get(&rule.network);
                close.port == port_of(rule)
                    && network.is_some_and(|found| found.acl_list.as_ref() == Some(&close.list))
            }
            _ => false,
        };
        case.changes().filter(closes).any(|close| !case.waits_for(delete, close))
    })
}

pub(super) fn needless_removes(case: &Case<'_>) -> Vec<StepId> {
    let deleted: BTreeSet<&LoadBalancerRuleId> =
        case.changes().filter_map(|step| case.deleted_rule(step)).map(|rule| &rule.id).collect();
    broken(case.changes(), |step| match &step.action {
        Action::RemoveFromLoadBalancerRule(remove) => deleted.contains(&remove.rule),
        _ => false,
    })
}

pub(super) fn slow_recreates(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |create| {
        let Some(delete) = case.deleted_for(create).filter(|_| is_of_one_port(case, create)) else {
            return false;
        };
        let assigns = |step: &&Step| {
            matches!(&step.action, Action::AssignToLoadBalancerRule(assign)
                if assign.rule.pending() == Some(&create.id))
        };
        !stands_right_behind(case, create, delete)
            || case.changes().find(assigns).is_some_and(|a| !stands_right_behind(case, a, create))
    })
}

/// Whether a create makes the rule that a delete takes away, rather than one of the other
/// transport, or one whose deletion was begun earlier.
fn is_of_one_port(case: &Case<'_>, create: &Step) -> bool {
    let Action::CreateLoadBalancerRule(made) = &create.action else { return false };
    let deleted = case.deleted_for(create).and_then(|delete| case.deleted_rule(delete));
    deleted.is_some_and(|rule| {
        rule.state != RuleState::Deleting && port_of(rule).transport == made.protocol.transport()
    })
}

/// Whether a step waits for nothing but another, and is the next one in the plan.
fn stands_right_behind(case: &Case<'_>, step: &Step, other: &Step) -> bool {
    let place = |wanted: &Step| case.plan.steps.iter().position(|found| found.id == wanted.id);
    step.after == BTreeSet::from([other.id.clone()])
        && place(step) == place(other).map(|place| place + 1)
}

/// Openings of a port that stays, closed although the Service goes on asking for them. A recreate
/// leaves them, and so does a node set that became empty.
pub(super) fn needless_closings(case: &Case<'_>) -> Vec<StepId> {
    broken(case.changes(), |close| match &close.action {
        Action::DeleteFirewallRule(call) => case.closed_rule(close).is_some_and(|opening| {
            let mut rules = case.staying_rules().filter(|rule| rule.address == opening.address);
            rules.any(|rule| port_of(rule) == call.port)
                && opening.state.is_pushed()
                && stays(case, call.port)
                && asks_for_opening(case, opening)
        }),
        Action::DeleteNetworkAcl(call) => {
            let is_in_list = |rule: &LoadBalancerRule| {
                let network = case.observed.networks.get(&rule.network);
                network.is_some_and(|network| network.acl_list.as_ref() == Some(&call.list))
            };
            let mut rules = case.staying_rules().filter(|rule| port_of(rule) == call.port);
            let item = case.observed.acl_item(&call.item);
            rules.any(is_in_list)
                && item.is_some_and(|item| item.state.is_pushed() && item.opens_exactly(call.port))
                && stays(case, call.port)
        }
        _ => false,
    })
}

/// Whether the Service goes on with a port. One that can't be read goes on with all it has.
fn stays(case: &Case<'_>, port: Port) -> bool {
    let unreadable = case.service.lifecycle == Lifecycle::Wanted && case.service.spec.is_err();
    unreadable || case.asks_for(port)
}

/// Whether a firewall rule is wholly wanted, and nobody else lets the same networks in.
fn asks_for_opening(case: &Case<'_>, opening: &FirewallRule) -> bool {
    let others = case.observed.firewall_rules_on(&opening.address);
    let mut others = others.filter(|other| other.id != opening.id);
    case.wanted().is_none_or(|spec| opening.cidrs.is_subset(&spec.ranges))
        && opening.port().is_some_and(|port| {
            !others.any(|o| o.covers(port) && !o.cidrs.common(&opening.cidrs).is_empty())
        })
}

pub(super) fn disorderly_members(case: &Case<'_>) -> Vec<StepId> {
    let mut broken = Vec::new();
    let mut seen: BTreeSet<(String, bool)> = BTreeSet::new();
    for step in case.changes() {
        let (rule, adds) = match &step.action {
            Action::AssignToLoadBalancerRule(assign) => (assign.rule.to_string(), true),
            Action::RemoveFromLoadBalancerRule(remove) => (remove.rule.to_string(), false),
            _ => continue,
        };
        let early = !adds
            && case.changes().any(|other| {
                let assigns = matches!(&other.action, Action::AssignToLoadBalancerRule(assign)
                    if assign.rule.to_string() == rule);
                assigns && !case.waits_for(step, other)
            });
        if early || !seen.insert((rule, adds)) {
            broken.push(step.id.clone());
        }
    }
    broken
}

/// The port that a step opens.
fn opened_port(step: &Step) -> Option<Port> {
    match &step.action {
        Action::CreateFirewallRule(create) => Some(create.port),
        Action::CreateNetworkAcl(create) => Some(create.port),
        _ => None,
    }
}
