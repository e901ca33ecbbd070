//! Which calls must not be out at the same time, also across Services.
//!
//! Two concurrent jobs on one rule can wedge it until somebody repairs CloudStack's database
//! (observed): this is not politeness.

use std::collections::BTreeMap;

use crate::ids::{FirewallRuleId, LoadBalancerRuleId, NetworkAclListId, NetworkId, PublicIpId};
use crate::plan::action::{AclTarget, Call};

/// Something that calls work on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Address(PublicIpId),
    Rule(LoadBalancerRuleId),
    FirewallRule(FirewallRuleId),
    AclList(NetworkAclListId),
    AclOfNetwork(NetworkId),
}

/// How a call uses an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Others of this kind may be out beside it.
    Shared,
    /// Nothing may be out beside it.
    Exclusive,
}

/// The calls that are out, by what they work on.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    taken: BTreeMap<Object, (usize, bool)>,
}

impl Lanes {
    /// Takes the lanes of a call, or none of them if one is taken.
    pub fn enter(&mut self, call: &Call) -> bool {
        let uses = uses(call);
        if !uses.iter().all(|(object, kind)| self.is_free(object, *kind)) {
            return false;
        }
        for (object, kind) in uses {
            let entry = self.taken.entry(object).or_default();
            *entry = (entry.0 + 1, kind == Use::Exclusive);
        }
        true
    }

    /// Gives them back.
    pub fn leave(&mut self, call: &Call) {
        for (object, _) in uses(call) {
            if let Some((count, _)) = self.taken.get_mut(&object) {
                *count = count.saturating_sub(1);
            }
        }
        self.taken.retain(|_, (count, _)| *count > 0);
    }

    fn is_free(&self, object: &Object, kind: Use) -> bool {
        match self.taken.get(object) {
            None => true,
            Some((_, exclusive)) => !exclusive && kind == Use::Shared,
        }
    }
}

fn uses(call: &Call) -> Vec<(Object, Use)> {
    match call {
        Call::DisassociateIpAddress(args) => {
            vec![(Object::Address(args.address.clone()), Use::Exclusive)]
        }
        Call::CreateLoadBalancerRule(args) => {
            vec![(Object::Address(args.address.clone()), Use::Shared)]
        }
        Call::CreateFirewallRule(args) => {
            vec![(Object::Address(args.address.clone()), Use::Shared)]
        }
        Call::UpdateLoadBalancerRule(args) => {
            vec![(Object::Rule(args.rule.clone()), Use::Exclusive)]
        }
        Call::DeleteLoadBalancerRule(args) => {
            vec![(Object::Rule(args.rule.clone()), Use::Exclusive)]
        }
        Call::AssignToLoadBalancerRule(args) => {
            vec![(Object::Rule(args.rule.clone()), Use::Exclusive)]
        }
        Call::RemoveFromLoadBalancerRule(args) => {
            vec![(Object::Rule(args.rule.clone()), Use::Exclusive)]
        }
        Call::DeleteFirewallRule(args) => {
            vec![(Object::FirewallRule(args.rule.clone()), Use::Exclusive)]
        }
        Call::CreateNetworkAcl(args) => vec![match &args.target {
            AclTarget::List(list) => (Object::AclList(list.clone()), Use::Exclusive),
            AclTarget::Network(network) => (Object::AclOfNetwork(network.clone()), Use::Exclusive),
        }],
        Call::DeleteNetworkAcl(args) => {
            vec![(Object::AclList(args.list.clone()), Use::Exclusive)]
        }
        Call::AssociateIpAddress(_) | Call::CheckAddressUnused(_) | Call::PatchService(_) => {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::action::{DisassociateIpAddress, RemoveFromLoadBalancerRule};

    fn remove(rule: &str) -> Call {
        let rule = LoadBalancerRuleId::parse(rule).unwrap();
        Call::RemoveFromLoadBalancerRule(RemoveFromLoadBalancerRule { rule, vms: BTreeSet::new() })
    }

    #[test]
    fn never_two_calls_on_one_rule() {
        let mut lanes = Lanes::default();
        assert!(lanes.enter(&remove("r1")));
        assert!(!lanes.enter(&remove("r1")));
        assert!(lanes.enter(&remove("r2")));
        lanes.leave(&remove("r1"));
        assert!(lanes.enter(&remove("r1")));
    }

    #[test]
    fn nothing_beside_a_release() {
        let release = Call::DisassociateIpAddress(DisassociateIpAddress {
            address: PublicIpId::parse("A").unwrap(),
        });
        let mut lanes = Lanes::default();
        assert!(lanes.enter(&release));
        assert!(!lanes.enter(&release));
    }
}
