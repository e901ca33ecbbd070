//! Everything that one port needs, first compared, then written down as steps in lawful order:
//! narrow the opening, change the rule and its members, widen the opening.

use std::collections::BTreeSet;

use crate::cidr::CidrSet;
use crate::ids::{LoadBalancerRuleId, NetworkId, PublicIpId};
use crate::model::service::Port;
use crate::plan::action::{
    AclTarget, Action, AssignToLoadBalancerRule, CreateFirewallRule, CreateLoadBalancerRule,
    CreateNetworkAcl, DeleteFirewallRule, DeleteLoadBalancerRule, DeleteNetworkAcl, Ref,
    RemoveFromLoadBalancerRule,
};
use crate::plan::builder::{After, Builder};
use crate::plan::firewall_rule::FirewallChange;
use crate::plan::load_balancer_rule::{RuleChange, WantedRule};
use crate::plan::member::MemberChange;
use crate::plan::network_acl::AclChange;
use crate::plan::port::Served;
use crate::plan::reason::{Disruption, Reason};

/// What one port needs.
#[derive(Debug)]
pub(super) struct PortWork<'a> {
    pub(super) served: Served<'a>,
    pub(super) wanted: WantedRule,
    /// `None`: there is no rule yet.
    pub(super) change: Option<RuleChange>,
    pub(super) members: MemberChange,
    pub(super) firewall: FirewallChange<'a>,
    /// With the list that a new item goes to and its number.
    pub(super) acl: Option<(AclTarget, Option<u32>)>,
    pub(super) acl_change: AclChange,
}

impl PortWork<'_> {
    /// The port.
    pub(super) fn port(&self) -> Port {
        self.served.port
    }

    /// Whether the recorded digest stays true throughout.
    pub(super) fn keeps_digest(&self) -> bool {
        let stays = matches!(self.change, Some(RuleChange::Keep | RuleChange::Update(_)));
        stays && self.members.is_empty()
    }

    /// Whether something is to be opened.
    pub(super) fn opens(&self) -> bool {
        let FirewallChange { inside, close, widen, contained: _, keep: _, notes: _ } =
            &self.firewall;
        let remade = close.iter().any(|(_, again)| again.is_some());
        !inside.is_empty() || !widen.is_empty() || remade || self.acl_change.create
    }
}

/// Where a port is served.
pub(super) struct Site<'s> {
    /// The address.
    pub(super) address: Ref<PublicIpId>,
    /// The network of the rules.
    pub(super) network: &'s NetworkId,
    /// The reason text of new ACL items.
    pub(super) description: &'s str,
    /// The VPC whose firewall is tried.
    pub(super) trial: Option<crate::ids::VpcId>,
}

/// Writes down the steps of a port. Gives its rule.
pub(super) fn add_steps(
    builder: &mut Builder,
    site: &Site<'_>,
    work: &PortWork<'_>,
    after: &After,
    acl_after: &After,
) -> Ref<LoadBalancerRuleId> {
    let mut steps = Steps { builder, site, work };
    let narrowed = steps.narrow(after);
    let (rule, ready) = steps.rule(&narrowed);
    steps.open(&ready, acl_after);
    steps.remove_members(&rule, &ready);
    rule
}

struct Steps<'s, 'a> {
    builder: &'s mut Builder,
    site: &'s Site<'s>,
    work: &'s PortWork<'a>,
}

impl Steps<'_, '_> {
    /// Whether there is a rule that serves all along. Where there is none yet, nobody is cut by
    /// opening late, and nobody may be let in early.
    fn keeps_serving(&self) -> bool {
        self.work.change.is_some() && self.work.members.serves()
    }

    /// Steps 1 and 2 of the firewall's order.
    fn narrow(&mut self, after: &After) -> After {
        let mut narrowed = after.clone();
        let keeps_serving = self.keeps_serving();
        if keeps_serving {
            for cidrs in &self.work.firewall.inside {
                narrowed.insert(self.create_opening(cidrs, after, Reason::PortClosed));
            }
        }
        let before_close = narrowed.clone();
        for (rule, again) in &self.work.firewall.close {
            let disruption = if again.is_some() { Disruption::Cut } else { Disruption::None };
            let closed = self.delete_opening(rule, &before_close, Reason::OpenTooWide, disruption);
            narrowed.insert(closed.clone());
            if let Some(cidrs) = again.as_ref().filter(|_| keeps_serving) {
                let at_once = After::from([closed]);
                narrowed.insert(self.create_opening(cidrs, &at_once, Reason::Regrouped));
            }
        }
        narrowed
    }

    /// The rule and its new members. Gives the rule and the steps after which it serves.
    fn rule(&mut self, after: &After) -> (Ref<LoadBalancerRuleId>, After) {
        let port = self.work.port();
        match (&self.work.change, self.work.served.rule) {
            (Some(RuleChange::Keep), Some(rule)) => {
                let rule = Ref::Existing(rule.id.clone());
                let ready = self.add_members(&rule, after);
                (rule, ready)
            }
            (Some(RuleChange::Update(updates)), Some(rule)) => {
                let mut ready = after.clone();
                for (update, reason) in updates {
                    let action = Action::UpdateLoadBalancerRule(update.clone());
                    let name = format!("rule/{port}/update");
                    let id =
                        self.builder.add(&name, action, &ready, reason.clone(), Disruption::Reload);
                    ready = After::from([id]);
                }
                let rule = Ref::Existing(rule.id.clone());
                let ready = self.add_members(&rule, &ready);
                (rule, ready)
            }
            (Some(RuleChange::Recreate(reason)), Some(rule)) => {
                let action = Action::DeleteLoadBalancerRule(DeleteLoadBalancerRule {
                    rule: rule.id.clone(),
                });
                let name = format!("rule/{port}/delete");
                let id = self.builder.add(&name, action, after, reason.clone(), Disruption::Cut);
                self.create_rule(&After::from([id]), reason.clone(), Disruption::Cut)
            }
            (_, _) => {
                let reason = Reason::PortWithoutRule { port: port.number };
                self.create_rule(after, reason, Disruption::None)
            }
        }
    }

    fn create_rule(
        &mut self,
        after: &After,
        reason: Reason,
        disruption: Disruption,
    ) -> (Ref<LoadBalancerRuleId>, After) {
        let WantedRule { name, description, private_port, protocol, algorithm, sources } =
            self.work.wanted.clone();
        let action = CreateLoadBalancerRule {
            address: self.site.address.clone(),
            network: self.site.network.clone(),
            name,
            description,
            public_port: self.work.port().number,
            private_port,
            protocol,
            algorithm,
            sources,
        };
        let step = format!("rule/{}", self.work.port());
        let (id, rule) = self.builder.create_rule(&step, action, after, reason, disruption);
        let ready = self.assign(&rule, &self.work.members.after, &After::from([id]));
        (rule, ready)
    }

    fn add_members(&mut self, rule: &Ref<LoadBalancerRuleId>, after: &After) -> After {
        self.assign(rule, &self.work.members.add, after)
    }

    fn assign(
        &mut self,
        rule: &Ref<LoadBalancerRuleId>,
        vms: &BTreeSet<crate::ids::VirtualMachineId>,
        after: &After,
    ) -> After {
        if vms.is_empty() {
            return after.clone();
        }
        let action = AssignToLoadBalancerRule { rule: rule.clone(), vms: vms.clone() };
        let name = format!("members/{}/add", self.work.port());
        let reason = Reason::MembersMissing { count: vms.len() };
        After::from([self.builder.assign(&name, action, after, reason)])
    }

    /// Steps 4 and 5 of the firewall's order, and the ACL item: once somebody answers.
    fn open(&mut self, ready: &After, acl_after: &After) {
        let mut opened = ready.clone();
        if self.work.members.serves() {
            let work = self.work;
            let narrow = work.firewall.inside.iter();
            let remade = work.firewall.close.iter().filter_map(|(_, again)| again.as_ref());
            let keeps_serving = self.keeps_serving();
            let late = narrow.chain(remade).filter(|_| !keeps_serving);
            for cidrs in late.chain(&work.firewall.widen) {
                opened.insert(self.create_opening(cidrs, ready, Reason::PortClosed));
            }
            self.create_acl_item(ready, acl_after);
        }
        for rule in &self.work.firewall.contained {
            self.delete_opening(rule, &opened, Reason::OpenTwice, Disruption::None);
        }
    }

    fn create_acl_item(&mut self, ready: &After, acl_after: &After) {
        let Some((target, number)) = self.work.acl.clone() else { return };
        let mut made = ready.clone();
        if self.work.acl_change.create {
            made = self.add_acl_item(target.clone(), number, ready, acl_after);
        }
        let AclTarget::List(list) = target else { return };
        for item in &self.work.acl_change.wrong {
            let (item, list, port) = (item.clone(), list.clone(), self.work.port());
            let action = Action::DeleteNetworkAcl(DeleteNetworkAcl { item, list, port });
            let name = format!("acl/{port}/close");
            self.builder.add(&name, action, &made, Reason::OpeningEdited, Disruption::None);
        }
    }

    fn add_acl_item(
        &mut self,
        target: AclTarget,
        number: Option<u32>,
        ready: &After,
        acl_after: &After,
    ) -> After {
        let port = self.work.port();
        let reason = self.site.description.to_owned();
        let action = Action::CreateNetworkAcl(CreateNetworkAcl { target, port, number, reason });
        let after: After = ready.union(acl_after).cloned().collect();
        let name = format!("acl/{port}");
        After::from([self.builder.add(&name, action, &after, Reason::PortClosed, Disruption::None)])
    }

    fn remove_members(&mut self, rule: &Ref<LoadBalancerRuleId>, after: &After) {
        let recreated = matches!(self.work.change, None | Some(RuleChange::Recreate(_)));
        let vms = &self.work.members.remove;
        let Ref::Existing(rule) = rule else { return };
        if vms.is_empty() || recreated {
            return;
        }
        let action = Action::RemoveFromLoadBalancerRule(RemoveFromLoadBalancerRule {
            rule: rule.clone(),
            vms: vms.clone(),
        });
        let name = format!("members/{}/remove", self.work.port());
        let reason = Reason::MembersStale { count: vms.len() };
        self.builder.add(&name, action, after, reason, Disruption::Reload);
    }

    fn create_opening(
        &mut self,
        cidrs: &CidrSet,
        after: &After,
        reason: Reason,
    ) -> crate::plan::StepId {
        let port = self.work.port();
        let action = Action::CreateFirewallRule(CreateFirewallRule {
            address: self.site.address.clone(),
            port,
            cidrs: cidrs.clone(),
            trial: self.site.trial.clone(),
        });
        let name = format!("firewall/{port}/open");
        self.builder.add(&name, action, after, reason, Disruption::None)
    }

    fn delete_opening(
        &mut self,
        rule: &crate::observe::FirewallRule,
        after: &After,
        reason: Reason,
        disruption: Disruption,
    ) -> crate::plan::StepId {
        let port = self.work.port();
        let action = Action::DeleteFirewallRule(DeleteFirewallRule {
            rule: rule.id.clone(),
            port,
            cidrs: rule.cidrs.clone(),
        });
        let name = format!("firewall/{port}/close");
        self.builder.add(&name, action, after, reason, disruption)
    }
}
