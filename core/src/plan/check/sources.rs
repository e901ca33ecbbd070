//! The law about who may come in: what all layers let through, a rule's own list and the firewall.
//!
//! Every list that a layer has in the course of a plan lasts from one step to another. Two lists can
//! be in force together unless one surely ends before the other begins. What any such pair lets
//! through was let through before the plan, or is after it. ACL items let everybody in: where no
//! firewall rule is seen or made, the rule's list decides alone.

#![expect(clippy::wildcard_enum_match_arm, reason = "the law looks at a few kinds of action")]

use std::collections::BTreeSet;

use crate::cidr::{CidrSet, Sources};
use crate::ids::{LoadBalancerRuleId, PublicIpId};
use crate::model::policy::SourceRangesMode;
use crate::model::service::Port;
use crate::observe::RuleState;
use crate::observe::ownership::port_of;
use crate::plan::action::{Action, Ref};
use crate::plan::check::case::Case;
use crate::plan::{Step, StepId};

/// A port of an address.
type Site = (Ref<PublicIpId>, Port);

/// A list of a layer, and how long it is in force.
struct Span<'a> {
    cidrs: CidrSet,
    /// What of it the Service asks for, where the plan makes it.
    asked: CidrSet,
    rule: Option<&'a LoadBalancerRuleId>,
    /// `None`: it is there before the plan.
    begin: Option<&'a Step>,
    /// `None`: it is there after it.
    end: Option<&'a Step>,
}

impl Span<'_> {
    fn before(cidrs: CidrSet) -> Self {
        Self { asked: cidrs.clone(), cidrs, rule: None, begin: None, end: None }
    }
}

pub(super) fn exposures(case: &Case<'_>) -> Vec<StepId> {
    let sites: BTreeSet<Site> = case.changes().filter_map(|step| site(case, step)).collect();
    sites.iter().flat_map(|site| exposures_of(case, site)).collect()
}

fn exposures_of(case: &Case<'_>, site: &Site) -> BTreeSet<StepId> {
    let rules = rule_spans(case, site);
    let openings = opening_spans(case, site);
    let pairs =
        || rules.iter().flat_map(|rule| openings.iter().map(move |opening| (rule, opening)));
    let old = pairs().filter(|(rule, opening)| rule.begin.is_none() && opening.begin.is_none());
    let old = old.map(|(rule, opening)| rule.cidrs.overlap(&opening.cidrs));
    let new = pairs().filter(|(rule, opening)| rule.end.is_none() && opening.end.is_none());
    let new = new.map(|(rule, opening)| rule.asked.overlap(&opening.asked));
    let lawful = old.chain(new).fold(CidrSet::default(), |all, some| all.plus(&some));
    pairs()
        .filter(|(rule, opening)| coexist(case, rule, opening))
        .filter(|(rule, opening)| !lawful.covers_all(&rule.cidrs.overlap(&opening.cidrs)))
        .flat_map(|(rule, opening)| [rule.begin, opening.begin])
        .flatten()
        .map(|step| step.id.clone())
        .collect()
}

fn coexist(case: &Case<'_>, one: &Span<'_>, other: &Span<'_>) -> bool {
    let ends_before = |first: &Span<'_>, then: &Span<'_>| {
        let (Some(end), Some(begin)) = (first.end, then.begin) else { return false };
        case.waits_for(begin, end)
    };
    !ends_before(one, other) && !ends_before(other, one)
}

/// The port whose sources a step changes.
fn site(case: &Case<'_>, step: &Step) -> Option<Site> {
    let of_rule = |id: &LoadBalancerRuleId| {
        let rule = case.observed.rules.get(id)?;
        Some((Ref::Existing(rule.address.clone()), port_of(rule)))
    };
    match &step.action {
        Action::CreateLoadBalancerRule(create) => {
            let port = Port { transport: create.protocol.transport(), number: create.public_port };
            Some((create.address.clone(), port))
        }
        Action::UpdateLoadBalancerRule(update) => of_rule(&update.rule),
        Action::DeleteLoadBalancerRule(delete) => of_rule(&delete.rule),
        Action::CreateFirewallRule(create) => Some((create.address.clone(), create.port)),
        Action::DeleteFirewallRule(close) => {
            Some((Ref::Existing(case.closed_rule(step)?.address.clone()), close.port))
        }
        _ => None,
    }
}

fn rule_spans<'a>(case: &Case<'a>, site: &Site) -> Vec<Span<'a>> {
    let (address, port) = site;
    let there = case.observed.rules.values();
    let there = there.filter(|rule| Ref::Existing(rule.address.clone()) == *address);
    let mut spans: Vec<Span<'a>> = there
        .filter(|rule| port_of(rule) == *port)
        .map(|rule| Span { rule: Some(&rule.id), ..Span::before(rule.sources.to_set()) })
        .collect();
    for step in case.changes().filter(|step| self::site(case, step).as_ref() == Some(site)) {
        match &step.action {
            Action::CreateLoadBalancerRule(create) => {
                spans.push(rule_span(case, &create.sources, step));
            }
            Action::UpdateLoadBalancerRule(update) => {
                let Some(sources) = &update.sources else { continue };
                end(&mut spans, &update.rule, step);
                let span = rule_span(case, sources, step);
                spans.push(Span { rule: Some(&update.rule), ..span });
            }
            Action::DeleteLoadBalancerRule(delete) => end(&mut spans, &delete.rule, step),
            _ => {}
        }
    }
    spans
}

fn rule_span<'a>(case: &Case<'a>, sources: &Sources, step: &'a Step) -> Span<'a> {
    let strict = case.policy.source_ranges_mode == SourceRangesMode::Strict;
    let asked = case.wanted().map(|spec| match &spec.rule_sources {
        Sources::Everybody if strict => spec.ranges.clone(),
        annotated => annotated.to_set(),
    });
    made(sources.to_set(), asked, step)
}

fn made(cidrs: CidrSet, asked: Option<CidrSet>, step: &Step) -> Span<'_> {
    let asked = asked.map_or_else(|| cidrs.clone(), |asked| asked.overlap(&cidrs));
    Span { asked, begin: Some(step), ..Span::before(cidrs) }
}

fn end<'a>(spans: &mut [Span<'a>], rule: &LoadBalancerRuleId, step: &'a Step) {
    for span in spans.iter_mut().filter(|span| span.rule == Some(rule) && span.end.is_none()) {
        span.end = Some(step);
    }
}

fn opening_spans<'a>(case: &Case<'a>, site: &Site) -> Vec<Span<'a>> {
    let (address, port) = site;
    let there = match address {
        Ref::Existing(id) => case.observed.firewall_rules_on(id).collect(),
        Ref::Pending(_) => Vec::new(),
    };
    let there = there.into_iter().filter(|rule| rule.covers(*port));
    let mut spans: Vec<Span<'a>> = there
        .filter(|rule| rule.state != RuleState::Deleting)
        .map(|rule| {
            let closes =
                |step: &&Step| case.closed_rule(step).is_some_and(|found| found.id == rule.id);
            Span { end: case.changes().find(closes), ..Span::before(rule.cidrs.clone()) }
        })
        .collect();
    for step in case.changes() {
        if let Action::CreateFirewallRule(create) = &step.action
            && (&create.address, &create.port) == (address, port)
        {
            let asked = case.wanted().map(|spec| spec.ranges.clone());
            spans.push(made(create.cidrs.clone(), asked, step));
        }
    }
    if spans.is_empty() {
        spans.push(Span::before(CidrSet::everybody()));
    }
    spans
}
