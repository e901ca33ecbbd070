//! Who may come in through the firewall of an address, port by port.
//!
//! Firewall rules can't be edited, and CloudStack refuses a second rule with the same port and one
//! CIDR text in common. The order of a change keeps the port no wider than before or after it at
//! every step:
//!
//! 1. make rules for wanted networks that lie inside what is open now;
//! 2. delete rules that are not wholly wanted, or have no effect; re-make at once what was wanted of
//!    them and lies inside what is open;
//! 3. (the load balancer rule's own list changes);
//! 4. make the other wanted rules;
//! 5. delete rules that wanted ones contain.

use crate::cidr::{Cidr, CidrSet};
use crate::model::record::Opening;
use crate::model::service::{Port, Service};
use crate::observe::ownership::{Owner, TAG_SERVICE, port_of};
use crate::observe::{FirewallRule, RuleState};
use crate::plan::planner::Planner;
use crate::plan::report::Note;
use crate::plan::standing::{Basis, Holding};

/// Most rules made for one change of one port.
const LARGEST_GROUP_COUNT: usize = 8;

/// What is to be done about one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FirewallChange<'a> {
    /// Step 1.
    pub(super) inside: Vec<CidrSet>,
    /// Step 2: a rule to delete, and what is re-made of it.
    pub(super) close: Vec<(&'a FirewallRule, Option<CidrSet>)>,
    /// Step 4.
    pub(super) widen: Vec<CidrSet>,
    /// Step 5.
    pub(super) contained: Vec<&'a FirewallRule>,
    /// Rules of ours that stay.
    pub(super) keep: Vec<&'a FirewallRule>,
    /// What others do.
    pub(super) notes: Vec<Note>,
}

impl FirewallChange<'_> {
    /// The same where nobody answers yet: what is to be opened waits, and so do the rules that it
    /// will contain.
    #[must_use]
    pub(super) fn waiting(mut self) -> Self {
        self.keep.append(&mut self.contained);
        self
    }

    /// Openings that are ours before the change.
    pub(super) fn openings_before(&self, port: Port) -> impl Iterator<Item = Opening> {
        let closing = self.close.iter().map(|(rule, _)| *rule);
        let rules = self.keep.iter().copied().chain(closing).chain(self.contained.iter().copied());
        rules.map(move |rule| Opening::new(port, &rule.cidrs))
    }

    /// Openings that are ours after it.
    pub(super) fn openings_after(&self, port: Port) -> impl Iterator<Item = Opening> {
        let kept = self.keep.iter().map(|rule| &rule.cidrs);
        let made = self.inside.iter().chain(&self.widen);
        let remade = self.close.iter().filter_map(|(_, again)| again.as_ref());
        kept.chain(made).chain(remade).map(move |cidrs| Opening::new(port, cidrs))
    }
}

/// Compares what is open with what is wanted.
pub(super) fn change<'a>(
    own: &[&'a FirewallRule],
    foreign: &[&FirewallRule],
    port: Port,
    wanted: &CidrSet,
) -> FirewallChange<'a> {
    let mut change = FirewallChange::default();
    let by_others = opened_by_others(foreign, port, wanted, &mut change.notes);
    let wanted = wanted.minus(&by_others);
    // What is dying, or was never pushed, goes; what it should have opened is made again.
    let (alive, without_effect): (Vec<_>, Vec<_>) =
        own.iter().copied().partition(|rule| rule.state.is_pushed());
    let (keep, go): (Vec<_>, Vec<_>) =
        alive.into_iter().partition(|rule| rule.cidrs.is_subset(&wanted));
    let kept = keep.iter().fold(CidrSet::default(), |set, rule| set.plus(&rule.cidrs));
    let (contained, close): (Vec<_>, Vec<_>) = go
        .into_iter()
        .partition(|rule| wanted.covers_all(&rule.cidrs) && rule.cidrs.common(&wanted).is_empty());
    let open_now = close.iter().fold(CidrSet::default(), |set, rule| set.plus(&rule.cidrs));
    let missing = wanted.minus(&kept).minus(&open_now);
    let is_inside = |cidr: &Cidr| open_now.covers(cidr);
    let remade = |rule: &FirewallRule| -> CidrSet {
        rule.cidrs.common(&missing).iter().filter(|cidr| is_inside(cidr)).cloned().collect()
    };
    // CloudStack refuses a text that is there already, even where it opens nothing.
    let held = without_effect.iter().fold(CidrSet::default(), |set, rule| set.plus(&remade(rule)));
    let (inside, widen): (Vec<Cidr>, Vec<Cidr>) =
        missing.minus(&held).iter().cloned().partition(is_inside);
    change.inside = groups(&CidrSet::from_iter(inside));
    change.widen = groups(&CidrSet::from_iter(widen));
    let some = |cidrs: CidrSet| (!cidrs.is_empty()).then_some(cidrs);
    let stays = |rule: &FirewallRule| rule.cidrs.common(&wanted).minus(&kept);
    change.close = close.into_iter().map(|rule| (rule, some(stays(rule)))).collect();
    change.close.extend(without_effect.into_iter().map(|rule| (rule, some(remade(rule)))));
    change.contained = contained;
    change.keep = keep;
    change
}

/// Rules on an address that are ours, and those of others that open `port`.
///
/// On an address of ours every rule on exactly a port of ours is ours. On a user's address it is
/// those that bear our tag or were recorded with it; in adoption all on exactly the port; with the record lost those that
/// the Service asks for now. A port that somebody else serves is theirs, with all that opens it.
pub(super) fn own_and_foreign<'a>(
    planner: &Planner<'a>,
    service: &Service,
    basis: Basis,
    holding: Option<&Holding>,
    address: &crate::ids::PublicIpId,
    port: Port,
) -> (Vec<&'a FirewallRule>, Vec<&'a FirewallRule>) {
    let ours = holding.is_some_and(|holding| holding.ours);
    let theirs = is_served_by_others(planner, service, address, port);
    let is_own = |rule: &FirewallRule| {
        rule.port() == Some(port)
            && !theirs
            && (ours
                || rule.tags.get(TAG_SERVICE).is_some_and(|uid| uid == service.uid.as_str())
                || match basis {
                    Basis::Adoption => holding.is_some(),
                    Basis::Record => holding.is_some() && is_recorded(service, port, &rule.cidrs),
                    Basis::Marks => is_asked_for(service, &rule.cidrs),
                    Basis::Nothing => false,
                })
    };
    planner
        .observed
        .firewall_rules_on(address)
        .filter(|rule| rule.covers(port))
        .partition(|rule| is_own(rule))
}

fn is_served_by_others(
    planner: &Planner<'_>,
    service: &Service,
    address: &crate::ids::PublicIpId,
    port: Port,
) -> bool {
    planner.observed.rules_on(address).any(|rule| {
        let own =
            matches!(planner.owners.owner(rule), Owner::Service(key, _) if key == service.key);
        rule.state != RuleState::Deleting && port_of(rule) == port && !own
    })
}

/// Whether the record holds an opening.
pub(super) fn is_recorded(service: &Service, port: Port, cidrs: &CidrSet) -> bool {
    let record = service.recorded.record.as_ref();
    record.is_some_and(|record| record.openings.contains(&Opening::new(port, cidrs)))
}

fn is_asked_for(service: &Service, cidrs: &CidrSet) -> bool {
    service.spec.as_ref().is_ok_and(|spec| cidrs.is_subset(&spec.ranges))
}

/// The wanted networks that somebody else's rules let in by the same text.
fn opened_by_others(
    foreign: &[&FirewallRule],
    port: Port,
    wanted: &CidrSet,
    notes: &mut Vec<Note>,
) -> CidrSet {
    let mut opened = CidrSet::default();
    for rule in foreign.iter().filter(|rule| rule.state != RuleState::Deleting) {
        notes.push(Note::OpenedByOthers { port, rule: rule.id.clone() });
        opened = opened.plus(&rule.cidrs.common(wanted));
    }
    opened
}

/// Up to 8 networks get a rule each; more are sorted and cut into 8 groups.
fn groups(cidrs: &CidrSet) -> Vec<CidrSet> {
    let size = cidrs.len().div_ceil(LARGEST_GROUP_COUNT).max(1);
    let all: Vec<Cidr> = cidrs.iter().cloned().collect();
    all.chunks(size).map(|chunk| chunk.iter().cloned().collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ids::{FirewallRuleId, PublicIpId};
    use crate::model::service::Transport;

    const PORT: Port = Port { transport: Transport::Tcp, number: 80 };

    fn set(text: &str) -> CidrSet {
        CidrSet::parse_listed(text).unwrap()
    }

    fn rule(id: &str, cidrs: &str) -> FirewallRule {
        FirewallRule {
            id: FirewallRuleId::parse(id).unwrap(),
            address: PublicIpId::parse("A").unwrap(),
            protocol: "tcp".to_owned(),
            ports: Some((80, 80)),
            cidrs: set(cidrs),
            state: RuleState::Active,
            tags: BTreeMap::new(),
        }
    }

    #[derive(Debug, PartialEq)]
    struct Shown {
        inside: Vec<String>,
        close: Vec<(String, Option<String>)>,
        widen: Vec<String>,
        contained: Vec<String>,
    }

    fn shown(own: &[FirewallRule], foreign: &[FirewallRule], wanted: &str) -> Shown {
        let own: Vec<_> = own.iter().collect();
        let foreign: Vec<_> = foreign.iter().collect();
        let change = change(&own, &foreign, PORT, &set(wanted));
        Shown {
            inside: change.inside.iter().map(CidrSet::joined).collect(),
            close: change
                .close
                .iter()
                .map(|(rule, again)| (rule.id.to_string(), again.as_ref().map(CidrSet::joined)))
                .collect(),
            widen: change.widen.iter().map(CidrSet::joined).collect(),
            contained: change.contained.iter().map(|rule| rule.id.to_string()).collect(),
        }
    }

    fn nothing() -> Shown {
        Shown { inside: vec![], close: vec![], widen: vec![], contained: vec![] }
    }

    const A: &str = "198.51.100.1/32";
    const B: &str = "198.51.100.2/32";
    const C: &str = "198.51.100.3/32";

    #[test]
    fn a_rule_that_was_never_pushed_is_deleted_and_made_again() {
        let unpushed = FirewallRule { state: RuleState::Add, ..rule("f1", A) };
        let found = shown(&[unpushed, rule("f2", B)], &[], &format!("{A},{B}"));
        let expected =
            Shown { close: vec![("f1".into(), None)], widen: vec![A.into()], ..nothing() };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_an_unpushed_rule_holds_is_remade_once_that_rule_is_gone() {
        let unpushed = FirewallRule { state: RuleState::Add, ..rule("f1", A) };
        let found = shown(&[unpushed, rule("f0", "0.0.0.0/0")], &[], A);
        let close = vec![("f0".into(), None), ("f1".into(), Some(A.into()))];
        assert_eq!(found, Shown { close, ..nothing() });
    }

    #[test]
    fn c051_a_range_is_added_by_a_rule_of_its_own() {
        let found = shown(&[rule("f1", A)], &[], &format!("{A},{B}"));
        assert_eq!(found, Shown { widen: vec![B.into()], ..nothing() });
    }

    #[test]
    fn c106_rules_of_one_network_each_change_without_a_cut() {
        let found = shown(&[rule("fa", A), rule("fb", B)], &[], &format!("{B},{C}"));
        let expected =
            Shown { close: vec![("fa".into(), None)], widen: vec![C.into()], ..nothing() };
        assert_eq!(found, expected);
    }

    #[test]
    fn c106_a_group_that_keeps_some_is_deleted_and_remade() {
        let found = shown(&[rule("fab", &format!("{A},{B}"))], &[], &format!("{B},{C}"));
        let expected = Shown {
            close: vec![("fab".into(), Some(B.into()))],
            widen: vec![C.into()],
            ..nothing()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn narrowing_everybody_opens_the_narrow_rule_first() {
        let found = shown(&[rule("f0", "0.0.0.0/0")], &[], A);
        let expected =
            Shown { inside: vec![A.into()], close: vec![("f0".into(), None)], ..nothing() };
        assert_eq!(found, expected);
    }

    #[test]
    fn widening_deletes_the_contained_rule_last() {
        let found = shown(&[rule("f1", A)], &[], "0.0.0.0/0");
        let expected =
            Shown { widen: vec!["0.0.0.0/0".into()], contained: vec!["f1".into()], ..nothing() };
        assert_eq!(found, expected);
    }

    #[test]
    fn any_partition_of_the_wanted_set_is_converged() {
        let both = format!("{A},{B}");
        assert_eq!(shown(&[rule("f", &both)], &[], &both), nothing());
        assert_eq!(shown(&[rule("fb", B), rule("fa", A)], &[], &both), nothing());
    }

    #[test]
    fn c105_what_others_opened_is_not_opened_again() {
        let mut wide = rule("theirs", "0.0.0.0/0");
        wide.ports = Some((1, 65535));
        assert_eq!(shown(&[], &[wide], "0.0.0.0/0"), nothing());
        let found = shown(&[], &[rule("theirs", A)], &format!("{A},{B}"));
        assert_eq!(found, Shown { widen: vec![B.into()], ..nothing() });
    }

    #[test]
    fn many_networks_are_cut_into_eight_groups() {
        let many: Vec<String> = (0..100).map(|n| format!("10.{n}.0.0/16")).collect();
        let found = shown(&[], &[], &many.join(","));
        assert_eq!(found.widen.len(), 8);
        assert_eq!(groups(&set(&many[..8].join(","))).len(), 8);
    }

    #[test]
    fn a_rule_left_in_deleting_is_deleted_again_and_counts_for_nothing() {
        let mut dying = rule("f1", A);
        dying.state = RuleState::Deleting;
        let found = shown(&[dying], &[], A);
        let expected =
            Shown { close: vec![("f1".into(), None)], widen: vec![A.into()], ..nothing() };
        assert_eq!(found, expected);
    }
}
