//! What must not be out at the same time, also across Services.
//!
//! Two concurrent jobs on one rule can wedge it until somebody repairs CloudStack's database
//! (observed): this is not politeness. And from the fresh read before a release to its end nobody
//! may put anything on the address: a plan that releases has its address to itself.

use std::collections::BTreeMap;

use crate::ids::{FirewallRuleId, LoadBalancerRuleId, NetworkAclListId, NetworkId, PublicIpId};
use crate::plan::Plan;
use crate::plan::action::{AclTarget, Call};

/// Something that plans or calls work on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Address(PublicIpId),
    Rule(LoadBalancerRuleId),
    FirewallRule(FirewallRuleId),
    AclList(NetworkAclListId),
    AclOfNetwork(NetworkId),
}

/// How an object is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Others of this kind may be out beside it.
    Shared,
    /// Nothing may be out beside it.
    Exclusive,
}

/// The plans that are being executed and the calls that are out, by what they work on.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    taken: BTreeMap<Object, (usize, Use)>,
}

impl Lanes {
    /// Takes the addresses of a plan, or none of them if a plan that is being executed releases one
    /// of them, or works on one that this plan releases. Then the plan is void: plan again later.
    pub fn admit(&mut self, plan: &Plan) -> bool {
        self.take(addresses(plan))
    }

    /// Gives them back, once the plan is over.
    pub fn dismiss(&mut self, plan: &Plan) {
        self.give_back(addresses(plan));
    }

    /// Takes the lane of a call, if it is free.
    pub fn enter(&mut self, call: &Call) -> bool {
        self.take(object(call).into_iter().collect())
    }

    /// Gives it back.
    pub fn leave(&mut self, call: &Call) {
        self.give_back(object(call).into_iter().collect());
    }

    /// Whether a call could enter.
    pub fn is_free_for(&self, call: &Call) -> bool {
        object(call).is_none_or(|(object, kind)| self.is_free(&object, kind))
    }

    fn take(&mut self, uses: Vec<(Object, Use)>) -> bool {
        if !uses.iter().all(|(object, kind)| self.is_free(object, *kind)) {
            return false;
        }
        for (object, kind) in uses {
            let (count, _) = self.taken.remove(&object).unwrap_or((0, kind));
            self.taken.insert(object, (count + 1, kind));
        }
        true
    }

    fn give_back(&mut self, uses: Vec<(Object, Use)>) {
        for (object, _) in uses {
            if let Some((count, _)) = self.taken.get_mut(&object) {
                *count = count.saturating_sub(1);
            }
        }
        self.taken.retain(|_, (count, _)| *count > 0);
    }

    fn is_free(&self, object: &Object, kind: Use) -> bool {
        match self.taken.get(object) {
            None => true,
            Some((_, taken)) => *taken == Use::Shared && kind == Use::Shared,
        }
    }
}

fn addresses(plan: &Plan) -> Vec<(Object, Use)> {
    let kind = |id: &PublicIpId| if plan.releases(id) { Use::Exclusive } else { Use::Shared };
    plan.addresses.iter().map(|id| (Object::Address(id.clone()), kind(id))).collect()
}

/// What nothing else may work on while a call is out.
fn object(call: &Call) -> Option<(Object, Use)> {
    let object = match call {
        Call::UpdateLoadBalancerRule(args) => Object::Rule(args.rule.clone()),
        Call::DeleteLoadBalancerRule(args) => Object::Rule(args.rule.clone()),
        Call::AssignToLoadBalancerRule(args) => Object::Rule(args.rule.clone()),
        Call::RemoveFromLoadBalancerRule(args) => Object::Rule(args.rule.clone()),
        Call::DeleteFirewallRule(args) => Object::FirewallRule(args.rule.clone()),
        Call::CreateNetworkAcl(args) => match &args.target {
            AclTarget::List(list) => Object::AclList(list.clone()),
            AclTarget::Network(network) => Object::AclOfNetwork(network.clone()),
        },
        Call::DeleteNetworkAcl(args) => Object::AclList(args.list.clone()),
        Call::AssociateIpAddress(_)
        | Call::CheckAddressUnused(_)
        | Call::DisassociateIpAddress(_)
        | Call::CreateLoadBalancerRule(_)
        | Call::CreateFirewallRule(_)
        | Call::CreateTags(_)
        | Call::PatchService(_) => return None,
    };
    Some((object, Use::Exclusive))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ids::ServiceKey;
    use crate::plan::action::{Action, DisassociateIpAddress, RemoveFromLoadBalancerRule};
    use crate::plan::reason::{Disruption, Reason};
    use crate::plan::{Step, StepId};

    fn remove(rule: &str) -> Call {
        let rule = LoadBalancerRuleId::parse(rule).unwrap();
        Call::RemoveFromLoadBalancerRule(RemoveFromLoadBalancerRule { rule, vms: BTreeSet::new() })
    }

    fn address() -> PublicIpId {
        PublicIpId::parse("A").unwrap()
    }

    fn plan(actions: impl IntoIterator<Item = Action>) -> Plan {
        let service = ServiceKey::new("default", "web");
        let steps = actions.into_iter().map(|action| Step {
            id: StepId::new("release"),
            action,
            after: BTreeSet::new(),
            reason: Reason::ServiceDeleted,
            disruption: Disruption::None,
        });
        Plan { addresses: [address()].into(), steps: steps.collect(), ..Plan::new(service) }
    }

    #[test]
    fn never_two_calls_on_one_rule() {
        let mut lanes = Lanes::default();
        assert!(lanes.enter(&remove("r1")));
        assert!(!lanes.is_free_for(&remove("r1")));
        assert!(!lanes.enter(&remove("r1")));
        assert!(lanes.enter(&remove("r2")));
        lanes.leave(&remove("r1"));
        assert!(lanes.enter(&remove("r1")));
    }

    #[test]
    fn plans_share_an_address_but_not_beside_one_that_releases_it() {
        let using = plan([]);
        let release = DisassociateIpAddress { address: address() };
        let releasing = plan([Action::DisassociateIpAddress(release)]);
        let mut lanes = Lanes::default();
        assert!(lanes.admit(&using));
        assert!(lanes.admit(&using));
        lanes.dismiss(&using);
        assert!(!lanes.admit(&releasing));
        lanes.dismiss(&using);
        assert!(lanes.admit(&releasing));
        assert!(!lanes.admit(&using));
        assert!(!lanes.admit(&releasing));
        lanes.dismiss(&releasing);
        assert!(lanes.admit(&using));
    }
}
