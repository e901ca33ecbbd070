//! What a call gives back when it succeeds.

use std::collections::BTreeMap;

use crate::ids::{FirewallRuleId, LoadBalancerRuleId, NetworkAclItemId, ResourceId};
use crate::plan::action::ResolvedAddress;

/// The result of a [`Call`](crate::plan::action::Call). For an async command: of its finished job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Of associateIpAddress: read again after the job, since its result shows an older state.
    Address(ResolvedAddress),
    /// Of createLoadBalancerRule.
    LoadBalancerRule(LoadBalancerRuleId),
    /// Of createFirewallRule.
    FirewallRule(FirewallRuleId),
    /// Of createNetworkACL.
    NetworkAclItem(NetworkAclItemId),
    /// Of the fresh read before a release.
    AddressUse(AddressUse),
    /// Of everything else.
    Done,
}

impl Output {
    /// The address, if it is one.
    pub fn address(&self) -> Option<&ResolvedAddress> {
        if let Self::Address(address) = self { Some(address) } else { None }
    }

    /// The object that was made, if one was.
    pub fn resource(&self) -> Option<ResourceId> {
        match self {
            Self::Address(address) => Some((&address.id).into()),
            Self::LoadBalancerRule(id) => Some(id.into()),
            Self::FirewallRule(id) => Some(id.into()),
            Self::NetworkAclItem(id) => Some(id.into()),
            Self::AddressUse(_) | Self::Done => None,
        }
    }

    /// The load balancer rule, if it is one.
    pub fn rule(&self) -> Option<&LoadBalancerRuleId> {
        if let Self::LoadBalancerRule(id) = self { Some(id) } else { None }
    }
}

/// What is on an address (listPublicIpAddresses by id, listLoadBalancerRules by `publicipid`,
/// listFirewallRules and listPortForwardingRules by `ipaddressid`, all read afresh).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressUse {
    /// `allocated` as listed; `None` if the address is not (or no longer) in our scope.
    pub allocated: Option<String>,
    /// Whether the state is Allocated or Releasing.
    pub held: bool,
    /// `issourcenat` or `isstaticnat`.
    pub nat: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Ids of load balancer rules, in any state but Deleting.
    pub load_balancer_rules: Vec<String>,
    /// Ids of firewall rules, in any state but Deleting.
    pub firewall_rules: Vec<String>,
    /// Ids of port-forwarding rules, in any state but Deleting; none if the role may not list them.
    pub port_forwards: Vec<String>,
    /// `hasrules`, where the server tells. It can be stale.
    pub has_rules: Option<bool>,
}
