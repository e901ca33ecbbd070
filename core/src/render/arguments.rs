//! The arguments of an action under the names that the API gives them.

use std::collections::BTreeSet;

use crate::cidr::Sources;
use crate::ids::VirtualMachineId;
use crate::plan::action::{
    AclTarget, Action, AddressDraft, Edit, FinalizerChange, IngressDraft, MemberDraft, Placement,
    PlannedPatch, Ref, ResolvedAddress,
};

/// Name and value of every argument, in the order of the API's documentation. What an earlier
/// step makes is `$` and that step's name.
pub(super) fn arguments(action: &Action) -> Vec<(&'static str, String)> {
    match action {
        Action::AssociateIpAddress(call) => {
            let placement = match &call.placement {
                Placement::Network(id) => ("networkid", id.to_string()),
                Placement::Vpc(id) => ("vpcid", id.to_string()),
            };
            let address = call.address.map(|ip| ("ipaddress", ip.to_string()));
            let project = call.project.as_ref().map(|id| ("projectid", id.to_string()));
            [Some(placement), address, project].into_iter().flatten().collect()
        }
        Action::CheckAddressUnused(call) => vec![("id", call.address.to_string())],
        Action::DisassociateIpAddress(call) => vec![("id", call.address.to_string())],
        Action::CreateLoadBalancerRule(call) => vec![
            ("publicipid", call.address.to_string()),
            ("networkid", call.network.to_string()),
            ("name", call.name.clone()),
            ("publicport", call.public_port.to_string()),
            ("privateport", call.private_port.to_string()),
            ("protocol", call.protocol.to_string()),
            ("algorithm", call.algorithm.to_string()),
            ("cidrlist", source_list(&call.sources)),
            ("openfirewall", "false".to_owned()),
            ("description", call.description.clone()),
        ],
        Action::UpdateLoadBalancerRule(call) => [
            Some(("id", call.rule.to_string())),
            Some(("protocol", call.protocol.to_string())),
            call.name.as_ref().map(|name| ("name", name.clone())),
            call.algorithm.map(|algorithm| ("algorithm", algorithm.to_string())),
            call.sources.as_ref().map(|sources| ("cidrlist", source_list(sources))),
            call.description.as_ref().map(|text| ("description", text.clone())),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Action::DeleteLoadBalancerRule(call) => vec![("id", call.rule.to_string())],
        Action::AssignToLoadBalancerRule(call) => {
            vec![("id", call.rule.to_string()), ("virtualmachineids", machines(&call.vms))]
        }
        Action::RemoveFromLoadBalancerRule(call) => {
            vec![("id", call.rule.to_string()), ("virtualmachineids", machines(&call.vms))]
        }
        Action::CreateFirewallRule(call) => vec![
            ("ipaddressid", call.address.to_string()),
            ("protocol", call.port.transport.to_string()),
            ("startport", call.port.number.to_string()),
            ("endport", call.port.number.to_string()),
            ("cidrlist", call.cidrs.joined()),
        ],
        Action::DeleteFirewallRule(call) => vec![("id", call.rule.to_string())],
        Action::CreateNetworkAcl(call) => {
            let target = match &call.target {
                AclTarget::List(id) => ("aclid", id.to_string()),
                AclTarget::Network(id) => ("networkid", id.to_string()),
            };
            let number = call.number.map(|number| ("number", number.to_string()));
            let fixed = [
                ("protocol", call.port.transport.to_string()),
                ("startport", call.port.number.to_string()),
                ("endport", call.port.number.to_string()),
                ("cidrlist", "0.0.0.0/0".to_owned()),
                ("traffictype", "Ingress".to_owned()),
                ("action", "Allow".to_owned()),
            ];
            let reason = ("reason", call.reason.clone());
            [target].into_iter().chain(number).chain(fixed).chain([reason]).collect()
        }
        Action::DeleteNetworkAcl(call) => vec![("id", call.item.to_string())],
        Action::CreateTags(call) => {
            let objects: Vec<String> = call.objects.iter().map(ToString::to_string).collect();
            let tags: Vec<String> =
                call.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
            vec![
                ("resourcetype", call.resource.as_str().to_owned()),
                ("resourceids", objects.join(",")),
                ("tags", tags.join(" ")),
            ]
        }
        Action::PatchService(patch) => self::patch(patch),
    }
}

fn patch(patch: &PlannedPatch) -> Vec<(&'static str, String)> {
    let PlannedPatch { service: _, uid: _, finalizer, verdict, intents, record, ingress } = patch;
    let finalizer = finalizer.map(|change| match change {
        FinalizerChange::Add => ("finalizer", "add".to_owned()),
        FinalizerChange::Remove => ("finalizer", "remove".to_owned()),
    });
    let verdict = verdict.map(|verdict| format!("{verdict:?}").to_lowercase());
    let intents = intents.map(|intents| {
        let jobs: Vec<String> =
            intents.as_slice().iter().map(|intent| format!("job {}", intent.job)).collect();
        jobs.join(", ")
    });
    let record = record.map(|draft| {
        let addresses: Vec<String> = draft.addresses.iter().map(address_draft).collect();
        let openings: Vec<String> = draft.openings.iter().map(ToString::to_string).collect();
        let members: Vec<String> =
            draft.members.iter().map(|(port, member)| member_draft(*port, member)).collect();
        let acl: Vec<String> = draft.acl.iter().map(ToString::to_string).collect();
        let parts =
            [("addresses", addresses), ("openings", openings), ("acl", acl), ("members", members)];
        let parts = parts.into_iter().filter(|(_, list)| !list.is_empty());
        parts
            .map(|(name, list)| format!("{name} {}", list.join(" ")))
            .collect::<Vec<_>>()
            .join("; ")
    });
    let ingress = ingress.as_ref().map(|ingress| match ingress {
        IngressDraft::Empty => ("status", "empty".to_owned()),
        IngressDraft::Hostname(name) => ("status", format!("hostname {name}")),
        IngressDraft::Address { address, ip_mode } => {
            ("status", format!("ip {} ({})", self::address(address), ip_mode.as_str()))
        }
    });
    let edits = [("verdict", verdict), ("intent", intents), ("record", record)];
    let edits = edits.into_iter().filter_map(|(name, edit)| match edit {
        Edit::Keep => None,
        Edit::Set(text) => Some((name, text)),
        Edit::Remove => Some((name, "removed".to_owned())),
    });
    finalizer.into_iter().chain(edits).chain(ingress).collect()
}

fn address(reference: &Ref<ResolvedAddress>) -> String {
    match reference {
        Ref::Existing(address) => address.address.to_string(),
        Ref::Pending(pending) => format!("${}", pending.step()),
    }
}

fn address_draft(draft: &AddressDraft<Ref<ResolvedAddress>>) -> String {
    let AddressDraft { address: reference, ours } = draft;
    format!("{}={}", address(reference), if *ours { "ours" } else { "user" })
}

fn member_draft(
    port: crate::model::service::Port,
    draft: &MemberDraft<Ref<crate::ids::LoadBalancerRuleId>>,
) -> String {
    let MemberDraft { rule, digest } = draft;
    format!("{port}={rule}:{digest}")
}

fn source_list(sources: &Sources) -> String {
    match sources {
        Sources::Everybody => String::new(),
        Sources::Only(set) => set.joined(),
    }
}

fn machines(vms: &BTreeSet<VirtualMachineId>) -> String {
    vms.iter().map(VirtualMachineId::as_str).collect::<Vec<_>>().join(",")
}
