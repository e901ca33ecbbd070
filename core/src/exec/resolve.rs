//! From a planned action to a call: references become the ids that earlier steps gave.

use std::collections::BTreeMap;

use crate::exec::output::Output;
use crate::ids::{LoadBalancerRuleId, PublicIpId, ResourceId};
use crate::plan::StepId;
use crate::plan::action::{
    Action, AddressDraft, AssignToLoadBalancerRule, Call, CreateFirewallRule,
    CreateLoadBalancerRule, CreateTags, Edit, IngressDraft, MemberDraft, PatchService, RecordDraft,
    Ref, ResolvedAddress,
};

/// What the steps so far gave.
pub(crate) type Outputs = BTreeMap<StepId, Output>;

/// The call of an action; `None` if a step that it needs gave something else than expected.
pub(super) fn resolve(action: &Action, outputs: &Outputs) -> Option<Call> {
    Some(match action.clone() {
        Action::AssociateIpAddress(args) => Call::AssociateIpAddress(args),
        Action::CheckAddressUnused(args) => Call::CheckAddressUnused(args),
        Action::DisassociateIpAddress(args) => Call::DisassociateIpAddress(args),
        Action::CreateLoadBalancerRule(args) => {
            let CreateLoadBalancerRule {
                address,
                network,
                name,
                description,
                public_port,
                private_port,
                protocol,
                algorithm,
                sources,
            } = args;
            Call::CreateLoadBalancerRule(CreateLoadBalancerRule {
                address: address_id(address, outputs)?,
                network,
                name,
                description,
                public_port,
                private_port,
                protocol,
                algorithm,
                sources,
            })
        }
        Action::UpdateLoadBalancerRule(args) => Call::UpdateLoadBalancerRule(args),
        Action::DeleteLoadBalancerRule(args) => Call::DeleteLoadBalancerRule(args),
        Action::AssignToLoadBalancerRule(AssignToLoadBalancerRule { rule, vms }) => {
            let rule = rule_id(rule, outputs)?;
            Call::AssignToLoadBalancerRule(AssignToLoadBalancerRule { rule, vms })
        }
        Action::RemoveFromLoadBalancerRule(args) => Call::RemoveFromLoadBalancerRule(args),
        Action::CreateFirewallRule(CreateFirewallRule { address, port, cidrs, trial }) => {
            let address = address_id(address, outputs)?;
            Call::CreateFirewallRule(CreateFirewallRule { address, port, cidrs, trial })
        }
        Action::DeleteFirewallRule(args) => Call::DeleteFirewallRule(args),
        Action::CreateNetworkAcl(args) => Call::CreateNetworkAcl(args),
        Action::DeleteNetworkAcl(args) => Call::DeleteNetworkAcl(args),
        Action::CreateTags(CreateTags { resource, objects, tags }) => {
            let objects = objects.into_iter().map(|object| resource_id(object, outputs));
            let objects = objects.collect::<Option<_>>()?;
            Call::CreateTags(CreateTags { resource, objects, tags })
        }
        Action::PatchService(patch) => Call::PatchService(self::patch(patch, outputs)?),
    })
}

fn patch(
    patch: PatchService<Ref<ResolvedAddress>, Ref<LoadBalancerRuleId>>,
    outputs: &Outputs,
) -> Option<PatchService<ResolvedAddress, LoadBalancerRuleId>> {
    let PatchService { service, uid, finalizer, verdict, intents, record, ingress } = patch;
    let record = match record {
        Edit::Set(draft) => Edit::Set(self::record(draft, outputs)?),
        Edit::Remove => Edit::Remove,
        Edit::Keep => Edit::Keep,
    };
    let ingress = match ingress {
        Some(IngressDraft::Address { address, ip_mode }) => {
            Some(IngressDraft::Address { address: self::address(address, outputs)?, ip_mode })
        }
        Some(IngressDraft::Hostname(name)) => Some(IngressDraft::Hostname(name)),
        Some(IngressDraft::Empty) => Some(IngressDraft::Empty),
        None => None,
    };
    Some(PatchService { service, uid, finalizer, verdict, intents, record, ingress })
}

/// The record of a draft; `None` while an id is not known.
pub(crate) fn record(
    draft: RecordDraft<Ref<ResolvedAddress>, Ref<LoadBalancerRuleId>>,
    outputs: &Outputs,
) -> Option<RecordDraft<ResolvedAddress, LoadBalancerRuleId>> {
    let RecordDraft { addresses, openings, acl, firewall, members } = draft;
    let addresses = addresses.into_iter().map(|AddressDraft { address, ours }| {
        Some(AddressDraft { address: self::address(address, outputs)?, ours })
    });
    let members = members.into_iter().map(|(port, MemberDraft { rule, digest })| {
        Some((port, MemberDraft { rule: rule_id(rule, outputs)?, digest }))
    });
    Some(RecordDraft {
        addresses: addresses.collect::<Option<_>>()?,
        openings,
        acl,
        firewall,
        members: members.collect::<Option<_>>()?,
    })
}

fn address(reference: Ref<ResolvedAddress>, outputs: &Outputs) -> Option<ResolvedAddress> {
    match reference {
        Ref::Existing(address) => Some(address),
        Ref::Pending(pending) => outputs.get(pending.step())?.address().cloned(),
    }
}

fn address_id(reference: Ref<PublicIpId>, outputs: &Outputs) -> Option<PublicIpId> {
    match reference {
        Ref::Existing(id) => Some(id),
        Ref::Pending(pending) => {
            outputs.get(pending.step())?.address().map(|address| address.id.clone())
        }
    }
}

fn rule_id(reference: Ref<LoadBalancerRuleId>, outputs: &Outputs) -> Option<LoadBalancerRuleId> {
    match reference {
        Ref::Existing(id) => Some(id),
        Ref::Pending(pending) => outputs.get(pending.step())?.rule().cloned(),
    }
}

fn resource_id(reference: Ref<ResourceId>, outputs: &Outputs) -> Option<ResourceId> {
    match reference {
        Ref::Existing(id) => Some(id),
        Ref::Pending(pending) => outputs.get(pending.step())?.resource(),
    }
}
