//! What a running job will still do: its pushes to the router, then its effects and its result.
//!
//! Plain data, so that the whole simulator can be copied in the middle of anything, and so that a
//! job can die with its server.

use serde_json::{Value, json};

use jiff::SignedDuration;

use crate::cloud::Cloud;
use crate::error::JobFailure;
use crate::faults::RouterPart;
use crate::resources::firewall_rule::{self, FirewallRule};
use crate::resources::load_balancer_rule::{self, LoadBalancerRule, Updated};
use crate::resources::member::{self, Assigned, Removed};
use crate::resources::network_acl::AclItem;
use crate::resources::public_ip::{self, PublicIp};
use crate::resources::virtual_machine::{Details, VirtualMachine};
use crate::resources::vm_life::{self, Change};
use crate::resources::{associate_ip, change_acl, create_rule};
use crate::table::Key;

/// What a job still has to do when its time is over.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Nothing more: the result is known.
    Done(Value),
    AddressAssociated {
        address: Key<PublicIp>,
        result: Value,
    },
    AddressReleased(Key<PublicIp>),
    RuleCreated {
        rule: Key<LoadBalancerRule>,
        firewall: Option<Key<FirewallRule>>,
        result: Value,
    },
    /// A push of something about a rule that stays stored if the router refuses.
    RulePushed {
        rule: Key<LoadBalancerRule>,
        result: Value,
        refusal: &'static str,
    },
    RuleUpdated(Box<Updated>),
    RuleDeleted(load_balancer_rule::Deleted),
    MembersAssigned(Assigned),
    MembersRemoved(Removed),
    FirewallCreated(Key<FirewallRule>),
    FirewallDeleted(Key<FirewallRule>),
    AclCreated(Key<AclItem>),
    AclUpdated {
        item: Key<AclItem>,
        result: Value,
    },
    AclDeleted(Key<AclItem>),
    VmChanged {
        vm: Key<VirtualMachine>,
        change: Change,
        /// What the result shows of it.
        details: Details,
    },
}

impl Work {
    /// How much longer it takes with a slow router.
    pub(crate) fn delay(&self, cloud: &Cloud) -> SignedDuration {
        self.pushes(cloud)
            .into_iter()
            .map(|part| cloud.router.delay(part))
            .fold(SignedDuration::ZERO, SignedDuration::saturating_add)
    }

    /// What it sends to the router. Where there is none nothing is sent.
    fn pushes(&self, cloud: &Cloud) -> Vec<RouterPart> {
        match self {
            Self::Done(_) | Self::AddressAssociated { .. } | Self::VmChanged { .. } => Vec::new(),
            Self::AddressReleased(address) => public_ip::release_pushes(cloud, *address),
            Self::RuleCreated { firewall, .. } => {
                firewall.map(|rule| firewall_rule::pushes(cloud, rule)).unwrap_or_default()
            }
            Self::RulePushed { rule, .. } => load_balancer_rule::pushes(cloud, *rule),
            Self::RuleUpdated(updated) => load_balancer_rule::pushes(cloud, updated.rule),
            Self::RuleDeleted(deleted) => load_balancer_rule::delete_pushes(cloud, deleted.rule),
            Self::MembersAssigned(Assigned { rule, .. })
            | Self::MembersRemoved(Removed { rule, .. }) => {
                load_balancer_rule::pushes(cloud, *rule)
            }
            Self::FirewallCreated(rule) | Self::FirewallDeleted(rule) => {
                firewall_rule::pushes(cloud, *rule)
            }
            Self::AclCreated(_) | Self::AclUpdated { .. } | Self::AclDeleted(_) => {
                vec![RouterPart::Acl]
            }
        }
    }

    /// The address whose row it has locked until it ends.
    pub(crate) fn locks(&self, cloud: &Cloud) -> Option<Key<PublicIp>> {
        match self {
            Self::AddressReleased(address) => Some(*address),
            Self::FirewallCreated(rule) => cloud.firewall_rules.get(*rule).map(|row| row.address),
            Self::Done(_)
            | Self::AddressAssociated { .. }
            | Self::RuleCreated { .. }
            | Self::RulePushed { .. }
            | Self::RuleUpdated(_)
            | Self::RuleDeleted(_)
            | Self::MembersAssigned(_)
            | Self::MembersRemoved(_)
            | Self::FirewallDeleted(_)
            | Self::AclCreated(_)
            | Self::AclUpdated { .. }
            | Self::AclDeleted(_)
            | Self::VmChanged { .. } => None,
        }
    }

    /// The effects of a job's end, and its result.
    pub(crate) fn finish(self, cloud: &mut Cloud) -> Result<Value, JobFailure> {
        match self {
            Self::Done(result) => Ok(result),
            Self::AddressAssociated { address, result } => {
                associate_ip::finish_associate(cloud, address).map(|()| result)
            }
            Self::AddressReleased(address) => public_ip::finish_disassociate(cloud, address),
            Self::RuleCreated { rule, firewall, result } => {
                create_rule::finish(cloud, rule, firewall).map(|()| result)
            }
            Self::RulePushed { rule, result, refusal } => {
                load_balancer_rule::finish_push(cloud, rule, refusal).map(|()| result)
            }
            Self::RuleUpdated(updated) => load_balancer_rule::finish_update(cloud, *updated),
            Self::RuleDeleted(deleted) => load_balancer_rule::finish_delete(cloud, &deleted),
            Self::MembersAssigned(assigned) => member::finish_assign(cloud, &assigned),
            Self::MembersRemoved(removed) => member::finish_remove(cloud, &removed),
            Self::FirewallCreated(rule) => firewall_rule::finish_create(cloud, rule),
            Self::FirewallDeleted(rule) => firewall_rule::finish_delete(cloud, rule),
            Self::AclCreated(item) => change_acl::finish_create(cloud, item),
            Self::AclUpdated { item, result } => {
                change_acl::finish_update(cloud, item);
                Ok(result)
            }
            Self::AclDeleted(item) => {
                change_acl::finish_delete(cloud, item);
                Ok(success())
            }
            Self::VmChanged { vm, change, details } => vm_life::finish(cloud, vm, change, &details),
        }
    }
}

/// The result of a job that makes or changes no object.
pub(crate) fn success() -> Value {
    json!({"success": true})
}
