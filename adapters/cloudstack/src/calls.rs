//! One match over the core's [`Call`]: command, parameters, and where the result's id is.

use ccm_core::cidr::Sources;
use ccm_core::ids::{JobId, ResourceId, VirtualMachineId};
use ccm_core::model::service::Port;
use ccm_core::plan::action::{
    AclTarget, AssignToLoadBalancerRule, AssociateIpAddress, Call, CheckAddressUnused,
    CreateFirewallRule, CreateLoadBalancerRule, CreateNetworkAcl, CreateTags, DeleteFirewallRule,
    DeleteLoadBalancerRule, DeleteNetworkAcl, DisassociateIpAddress, Placement,
    RemoveFromLoadBalancerRule, UpdateLoadBalancerRule,
};
use jiff::Timestamp;

use crate::command::Command;

/// Parameters of a request, without those that every request has.
pub(crate) type Params = Vec<(&'static str, String)>;

/// What a call comes to.
pub(crate) enum Deed<'a> {
    /// An async command.
    Change(Change),
    /// Lists.
    Check(&'a CheckAddressUnused),
    /// A write to Kubernetes: nothing for CloudStack.
    Elsewhere,
}

/// An async command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The command.
    pub(crate) command: Command,
    /// Its parameters.
    pub(crate) params: Params,
    /// What its finished job gives.
    pub(crate) gives: Gives,
    /// Job id and `expires`, where the caller chose them.
    pub(crate) witness: Option<(JobId, Timestamp)>,
}

impl Change {
    /// The object that it changes: the parameter `id`. What a create makes has none yet.
    pub(crate) fn target(&self) -> Option<&str> {
        let id = self.params.iter().find(|(name, _)| *name == "id");
        id.map(|(_, value)| value.as_str())
    }
}

/// What a finished job gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// `ipaddress`, to be read again.
    Address,
    /// `loadbalancer`.
    LoadBalancerRule,
    /// `firewallrule`.
    FirewallRule,
    /// `networkacl`.
    NetworkAclItem,
    /// `{"success":true}`, or an object that is older than the job.
    Nothing,
}

/// Translates a call.
pub(crate) fn deed(call: &Call) -> Deed<'_> {
    match call {
        Call::AssociateIpAddress(args) => Deed::Change(associate(args)),
        Call::CheckAddressUnused(args) => Deed::Check(args),
        Call::DisassociateIpAddress(args) => Deed::Change(disassociate(args)),
        Call::CreateLoadBalancerRule(args) => Deed::Change(create_rule(args)),
        Call::UpdateLoadBalancerRule(args) => Deed::Change(update_rule(args)),
        Call::DeleteLoadBalancerRule(args) => Deed::Change(delete_rule(args)),
        Call::AssignToLoadBalancerRule(args) => Deed::Change(assign(args)),
        Call::RemoveFromLoadBalancerRule(args) => Deed::Change(remove(args)),
        Call::CreateFirewallRule(args) => Deed::Change(create_firewall_rule(args)),
        Call::DeleteFirewallRule(args) => Deed::Change(delete_firewall_rule(args)),
        Call::CreateNetworkAcl(args) => Deed::Change(create_acl_item(args)),
        Call::DeleteNetworkAcl(args) => Deed::Change(delete_acl_item(args)),
        Call::CreateTags(args) => Deed::Change(create_tags(args)),
        Call::PatchService(_) => Deed::Elsewhere,
    }
}

/// The owner follows from the network or VPC; `projectid` is checked against it.
fn associate(args: &AssociateIpAddress) -> Change {
    let AssociateIpAddress { placement, address, project, job, expires } = args;
    let mut params = match placement {
        Placement::Network(network) => vec![("networkid", network.to_string())],
        Placement::Vpc(vpc) => vec![("vpcid", vpc.to_string())],
    };
    params.extend(address.map(|address| ("ipaddress", address.to_string())));
    params.extend(project.iter().map(|project| ("projectid", project.to_string())));
    Change {
        witness: Some((job.clone(), *expires)),
        ..change(Command::AssociateIpAddress, Gives::Address, params)
    }
}

fn disassociate(args: &DisassociateIpAddress) -> Change {
    let DisassociateIpAddress { address } = args;
    let params = vec![("id", address.to_string())];
    change(Command::DisassociateIpAddress, Gives::Nothing, params)
}

/// `openfirewall=false` is fine on every kind of network; true is refused in a VPC. `networkid`
/// is wanted for the first rule on a VPC address and harmless elsewhere.
fn create_rule(args: &CreateLoadBalancerRule<ccm_core::ids::PublicIpId>) -> Change {
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
    let mut params = vec![
        ("publicipid", address.to_string()),
        ("networkid", network.to_string()),
        ("name", name.clone()),
        ("description", description.clone()),
        ("publicport", public_port.to_string()),
        ("privateport", private_port.to_string()),
        ("protocol", protocol.to_string()),
        ("algorithm", algorithm.to_string()),
        ("openfirewall", "false".to_owned()),
    ];
    match sources {
        // Up to 4.17 the parameter itself is refused.
        Sources::Everybody => {}
        Sources::Only(cidrs) => params.push(("cidrlist", cidrs.joined())),
    }
    change(Command::CreateLoadBalancerRule, Gives::LoadBalancerRule, params)
}

/// Without `protocol` the update of a rule that was made without one is reported as failed.
fn update_rule(args: &UpdateLoadBalancerRule) -> Change {
    let UpdateLoadBalancerRule { rule, protocol, name, description, algorithm, sources } = args;
    let mut params = vec![("id", rule.to_string()), ("protocol", protocol.to_string())];
    params.extend(name.iter().map(|name| ("name", name.clone())));
    params.extend(description.iter().map(|text| ("description", text.clone())));
    params.extend(algorithm.iter().map(|algorithm| ("algorithm", algorithm.to_string())));
    // An empty list clears; leaving it out leaves it alone.
    params.extend(sources.iter().map(|sources| match sources {
        Sources::Everybody => ("cidrlist", String::new()),
        Sources::Only(cidrs) => ("cidrlist", cidrs.joined()),
    }));
    change(Command::UpdateLoadBalancerRule, Gives::Nothing, params)
}

fn delete_rule(args: &DeleteLoadBalancerRule) -> Change {
    let DeleteLoadBalancerRule { rule } = args;
    let params = vec![("id", rule.to_string())];
    change(Command::DeleteLoadBalancerRule, Gives::Nothing, params)
}

fn assign(args: &AssignToLoadBalancerRule<ccm_core::ids::LoadBalancerRuleId>) -> Change {
    let AssignToLoadBalancerRule { rule, vms } = args;
    let params = vec![("id", rule.to_string()), ("virtualmachineids", joined(vms))];
    change(Command::AssignToLoadBalancerRule, Gives::Nothing, params)
}

fn remove(args: &RemoveFromLoadBalancerRule) -> Change {
    let RemoveFromLoadBalancerRule { rule, vms } = args;
    let params = vec![("id", rule.to_string()), ("virtualmachineids", joined(vms))];
    change(Command::RemoveFromLoadBalancerRule, Gives::Nothing, params)
}

fn create_firewall_rule(args: &CreateFirewallRule<ccm_core::ids::PublicIpId>) -> Change {
    let CreateFirewallRule { address, port, cidrs, trial: _ } = args;
    let mut params = vec![("ipaddressid", address.to_string())];
    params.extend(port_params(*port));
    params.push(("cidrlist", cidrs.joined()));
    change(Command::CreateFirewallRule, Gives::FirewallRule, params)
}

fn delete_firewall_rule(args: &DeleteFirewallRule) -> Change {
    let DeleteFirewallRule { rule, port: _, cidrs: _ } = args;
    let params = vec![("id", rule.to_string())];
    change(Command::DeleteFirewallRule, Gives::Nothing, params)
}

fn create_acl_item(args: &CreateNetworkAcl) -> Change {
    let CreateNetworkAcl { target, port, number, reason } = args;
    let mut params = match target {
        AclTarget::List(list) => vec![("aclid", list.to_string())],
        AclTarget::Network(network) => vec![("networkid", network.to_string())],
    };
    params.extend(port_params(*port));
    params.extend([
        ("cidrlist", "0.0.0.0/0".to_owned()),
        ("traffictype", "Ingress".to_owned()),
        ("action", "Allow".to_owned()),
        ("reason", reason.clone()),
    ]);
    params.extend(number.map(|number| ("number", number.to_string())));
    change(Command::CreateNetworkAcl, Gives::NetworkAclItem, params)
}

fn delete_acl_item(args: &DeleteNetworkAcl) -> Change {
    let DeleteNetworkAcl { item, list: _, port: _ } = args;
    let params = vec![("id", item.to_string())];
    change(Command::DeleteNetworkAcl, Gives::Nothing, params)
}

/// The parameters of each tag.
const TAG_PARAMS: [(&str, &str); 3] = [
    ("tags[0].key", "tags[0].value"),
    ("tags[1].key", "tags[1].value"),
    ("tags[2].key", "tags[2].value"),
];

fn create_tags(args: &CreateTags<ResourceId>) -> Change {
    let CreateTags { resource, objects, tags } = args;
    let ids: Vec<&str> = objects.iter().map(ResourceId::as_str).collect();
    let mut params =
        vec![("resourcetype", resource.as_str().to_owned()), ("resourceids", ids.join(","))];
    for ((key_param, value_param), (key, value)) in TAG_PARAMS.into_iter().zip(tags) {
        params.push((key_param, (*key).to_owned()));
        params.push((value_param, value.clone()));
    }
    change(Command::CreateTags, Gives::Nothing, params)
}

fn change(command: Command, gives: Gives, params: Params) -> Change {
    Change { command, params, gives, witness: None }
}

fn port_params(port: Port) -> [(&'static str, String); 3] {
    let Port { transport, number } = port;
    [
        ("protocol", transport.to_string()),
        ("startport", number.to_string()),
        ("endport", number.to_string()),
    ]
}

/// Comma-separated without blanks: a blank makes an id unknown, and the whole call fails.
fn joined(vms: &std::collections::BTreeSet<VirtualMachineId>) -> String {
    let ids: Vec<&str> = vms.iter().map(VirtualMachineId::as_str).collect();
    ids.join(",")
}
