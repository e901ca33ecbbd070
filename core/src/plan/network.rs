//! The network of a Service, and what filters traffic in it.

use crate::ids::{NetworkId, VpcId};
use crate::model::node::ProviderId;
use crate::model::service::Service;
use crate::observe::{Listing, Network};
use crate::plan::action::AclTarget;
use crate::plan::planner::Planner;
use crate::plan::public_ip::Target;
use crate::plan::report::Note;
use crate::plan::standing::{Basis, Standing};

/// What has to be opened for a port in a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// Firewall rules on the address. In a VPC that we may not look at, the first one is a trial.
    Firewall {
        /// The VPC that is tried.
        trial: Option<VpcId>,
    },
    /// Items of a network ACL list.
    Acl(AclTarget),
    /// Nothing that we may or must manage.
    Unmanaged,
}

/// Decides the network: that of the address; for a new address that of most nodes.
pub(super) fn decide<'a>(
    planner: &Planner<'a>,
    standing: &Standing<'_>,
    target: &Target,
) -> Result<&'a Network, Note> {
    let id = match target.held() {
        Some(address) => of_address(planner, standing, &address.id),
        None => planner.machines.main_network(|_| true).cloned(),
    };
    let id = id.ok_or_else(|| unknown(planner))?;
    let network = planner.observed.networks.get(&id).ok_or_else(|| not_found(planner, &id))?;
    if !network.services.contains_key("Lb") {
        let name = network.name.clone();
        return Err(Note::NetworkWithoutLoadBalancer { network: id, name });
    }
    let served = standing.rules.iter().any(|(rule, _)| rule.network == id);
    match target.held() {
        // Without any eligible node the rule is made, and waits for its first member.
        Some(address)
            if !served
                && planner.machines.eligible > 0
                && planner.machines.backends(&id).vms.is_empty() =>
        {
            let network = network.name.clone();
            Err(Note::AddressInOtherNetwork { address: address.address, network })
        }
        _ => Ok(network),
    }
}

fn of_address(
    planner: &Planner<'_>,
    standing: &Standing<'_>,
    address: &crate::ids::PublicIpId,
) -> Option<NetworkId> {
    let found = planner.observed.addresses.get(address)?;
    let of_rules = standing.rules_on(address).map(|rule| rule.network.clone()).next();
    let Some(vpc) = &found.vpc else {
        return found.network.clone().or(of_rules);
    };
    let in_vpc = |id: &NetworkId| {
        planner.observed.networks.get(id).is_some_and(|network| network.vpc.as_ref() == Some(vpc))
    };
    of_rules
        .or_else(|| found.network.clone())
        .or_else(|| planner.machines.main_network(in_vpc).cloned())
}

fn unknown(planner: &Planner<'_>) -> Note {
    if planner.machines.eligible == 0 {
        return Note::NoEligibleNodes {};
    }
    let nodes = some_names(planner.machines.unmatched.iter());
    Note::NetworkUnknown { nodes, project: scope_of(planner) }
}

fn not_found(planner: &Planner<'_>, id: &NetworkId) -> Note {
    let has_nic = |name: &&String| {
        let machine = match planner.machines.matches.get(*name) {
            Some(
                crate::observe::machines::Match::Machine(machine)
                | crate::observe::machines::Match::Replaced { machine, .. },
            ) => planner.observed.virtual_machines.get(machine),
            _ => None,
        };
        machine.is_some_and(|machine| machine.nics.iter().any(|nic| &nic.network == id))
    };
    let nodes = some_names(planner.desired.nodes.keys().filter(has_nic));
    Note::NetworkNotFound { network: id.clone(), nodes, project: scope_of(planner) }
}

/// Nothing was found for a node: what was looked for, and where.
pub(super) fn without_machine(planner: &Planner<'_>, node: &str) -> Note {
    let id = match planner.desired.nodes.get(node).map(|node| &node.provider_id) {
        Some(ProviderId::CloudStack(machine)) => machine.to_string(),
        Some(ProviderId::None | ProviderId::Foreign(_)) | None => "none".to_owned(),
    };
    Note::NodeWithoutMachine { node: node.to_owned(), id, scope: scope_of(planner) }
}

fn scope_of(planner: &Planner<'_>) -> String {
    match &planner.policy.project {
        Some(project) => format!("project {project}"),
        None => "the account of the API key, no project".to_owned(),
    }
}

/// At most five names, and how many more there are.
pub(super) fn some_names<'s>(names: impl Iterator<Item = &'s String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    let shown = names.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Decides what filters traffic: the service lists of the network and of its VPC tell; never a
/// version, except that no VPC has a firewall below 4.23.
pub(super) fn filter(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    network: &Network,
) -> (Filter, Option<Note>) {
    if network.services.contains_key("Firewall") {
        return (Filter::Firewall { trial: None }, None);
    }
    if let Some(filter) = vpc_filter(planner, service, standing, network) {
        return (filter, None);
    }
    if network.services.contains_key("NetworkACL") {
        return acl(planner, network);
    }
    (Filter::Unmanaged, None)
}

/// The firewall of a tier's VPC, if it has one or may have one.
fn vpc_filter(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    network: &Network,
) -> Option<Filter> {
    let vpc = network.vpc.as_ref()?;
    if !planner.observed.capabilities.features().may_filter_in_vpc() {
        return None;
    }
    match &planner.observed.vpcs {
        Listing::Listed(vpcs) => {
            let filters = vpcs.get(vpc)?.services.contains("Firewall");
            filters.then_some(Filter::Firewall { trial: None })
        }
        Listing::Denied if planner.observed.vpc_has_firewall_rules(vpc) => {
            Some(Filter::Firewall { trial: None })
        }
        Listing::Denied => {
            let recorded = service.recorded.record.as_ref().and_then(|record| record.firewall);
            let tried = planner.desired.learned.vpcs_without_firewall.contains(vpc);
            let known = recorded == Some(false)
                || tried
                || adopts_without_firewall(planner, standing, network);
            let trial = !known && !has_acl_item(planner, service, standing, network);
            trial.then(|| Filter::Firewall { trial: Some(vpc.clone()) })
        }
    }
}

/// Whether another controller served this Service in a VPC that we may not look at, without one
/// firewall rule in it: that goes on, since an adoption tries nothing.
pub(super) fn adopts_without_firewall(
    planner: &Planner<'_>,
    standing: &Standing<'_>,
    network: &Network,
) -> bool {
    let may_filter = planner.observed.capabilities.features().may_filter_in_vpc();
    let hidden = may_filter && planner.observed.vpcs.listed().is_none();
    standing.basis == Basis::Adoption
        && standing.rules.iter().any(|(rule, _)| rule.network == network.id)
        && network
            .vpc
            .as_ref()
            .is_some_and(|vpc| hidden && !planner.observed.vpc_has_firewall_rules(vpc))
}

/// Whether an ACL item of this Service, made or adopted, is in the tier's list.
fn has_acl_item(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    network: &Network,
) -> bool {
    let Some(list) = &network.acl_list else {
        return false;
    };
    planner.observed.acl_items_of(list).any(|item| {
        crate::plan::network_acl::is_own(item, service)
            || standing.rules.iter().any(|(rule, _)| {
                let port = crate::observe::ownership::port_of(rule);
                crate::plan::network_acl::is_adoptable(item, port)
            })
    })
}

fn acl(planner: &Planner<'_>, network: &Network) -> (Filter, Option<Note>) {
    let Some(list) = &network.acl_list else {
        return (Filter::Acl(AclTarget::Network(network.id.clone())), None);
    };
    let name = network.acl_name.clone().unwrap_or_default();
    let editable = match &planner.observed.acl_lists {
        Listing::Listed(lists) => lists.get(list).is_some_and(|list| list.vpc.is_some()),
        Listing::Denied => !matches!(name.as_str(), "default_allow" | "default_deny"),
    };
    if !editable && name == "default_allow" {
        return (Filter::Unmanaged, None);
    }
    if !editable {
        let network = network.name.clone();
        return (Filter::Unmanaged, Some(Note::AclListDenies { network, list: name }));
    }
    if !planner.observed.sees_acl_items() {
        let network = network.name.clone();
        return (Filter::Unmanaged, Some(Note::AclNotVisible { network }));
    }
    (Filter::Acl(AclTarget::List(list.clone())), None)
}
