//! What the core holds, as [`Facts`]. Every field is named: a new one does not compile until the
//! body that it comes from is read in [`said`](crate::said), too.

use ccm_core::observe::{
    FirewallRule, LoadBalancerRule, Network, NetworkAclItem, NetworkAclList, NetworkService, Nic,
    PublicIpAddress, VirtualMachine, Vpc,
};

use crate::facts::{Collected, Facts, cidrs, listed, pairs};

pub fn address(address: &PublicIpAddress) -> Facts {
    let PublicIpAddress {
        id,
        address,
        state,
        allocated,
        source_nat,
        static_nat,
        network,
        vpc,
        has_rules,
        tags,
    } = address;
    Collected::default()
        .with("id", id)
        .with("address", address)
        .with("state", format!("{state:?}"))
        .with_some("allocated", allocated.as_ref())
        .with("source_nat", source_nat)
        .with_some("static_nat", static_nat.as_ref())
        .with_some("network", network.as_ref())
        .with_some("vpc", vpc.as_ref())
        .with_some("has_rules", *has_rules)
        .with("tags", pairs(tags))
        .0
}

pub fn rule(rule: &LoadBalancerRule) -> Facts {
    let LoadBalancerRule {
        id,
        name,
        description,
        address,
        public_port,
        private_port,
        protocol,
        algorithm,
        sources,
        network,
        state,
        tags,
    } = rule;
    let protocol = protocol.as_ref().map(|protocol| match protocol {
        Ok(known) => known.to_string(),
        Err(other) => other.clone(),
    });
    let algorithm = match algorithm {
        Ok(known) => known.to_string(),
        Err(other) => other.clone(),
    };
    Collected::default()
        .with("id", id)
        .with("name", name)
        .with_some("description", description.as_ref())
        .with("address", address)
        .with("public_port", public_port)
        .with("private_port", private_port)
        .with_some("protocol", protocol.map(|text| text.to_lowercase()))
        .with("algorithm", algorithm.to_lowercase())
        .with("sources", cidrs(&sources.to_set()))
        .with("network", network)
        .with("state", format!("{state:?}"))
        .with("tags", pairs(tags))
        .0
}

pub fn firewall_rule(rule: &FirewallRule) -> Facts {
    let FirewallRule { id, address, protocol, ports, cidrs: from, state, tags } = rule;
    Collected::default()
        .with("id", id)
        .with("address", address)
        .with("protocol", protocol)
        .with_some("ports", ports.map(|(start, end)| format!("{start}-{end}")))
        .with("cidrs", cidrs(from))
        .with("state", format!("{state:?}"))
        .with("tags", pairs(tags))
        .0
}

pub fn acl_list(list: &NetworkAclList) -> Facts {
    let NetworkAclList { id, name, vpc } = list;
    Collected::default().with("id", id).with("name", name).with_some("vpc", vpc.as_ref()).0
}

pub fn acl_item(item: &NetworkAclItem) -> Facts {
    let NetworkAclItem {
        id,
        list,
        protocol,
        ports,
        cidrs: from,
        ingress,
        allow,
        number,
        reason,
        state,
        tags,
    } = item;
    Collected::default()
        .with("id", id)
        .with("list", list)
        .with("protocol", protocol)
        .with_some("ports", ports.map(|(start, end)| format!("{start}-{end}")))
        .with("cidrs", cidrs(from))
        .with("ingress", ingress)
        .with("allow", allow)
        .with("number", number)
        .with_some("reason", reason.as_ref())
        .with("state", format!("{state:?}"))
        .with("tags", pairs(tags))
        .0
}

pub fn network(network: &Network) -> Facts {
    let Network { id, name, kind, vpc, acl_list, acl_name, services } = network;
    let services = services.iter().map(|(name, NetworkService { providers, capabilities })| {
        let providers = listed(providers.iter().cloned());
        format!("{name:?}: {providers:?} {}", pairs(capabilities))
    });
    Collected::default()
        .with("id", id)
        .with("name", name)
        .with("kind", kind)
        .with_some("vpc", vpc.as_ref())
        .with_some("acl_list", acl_list.as_ref())
        .with_some("acl_name", acl_name.as_ref())
        .with("services", listed(services))
        .0
}

pub fn vpc(vpc: &Vpc) -> Facts {
    let Vpc { id, name, services } = vpc;
    let services = listed(services.iter().cloned());
    Collected::default().with("id", id).with("name", name).with("services", services).0
}

pub fn machine(machine: &VirtualMachine) -> Facts {
    let VirtualMachine { id, name, state, zone, offering, nics, public_ip } = machine;
    Collected::default()
        .with("id", id)
        .with("name", name)
        .with("state", state)
        .with("zone", zone)
        .with_some("offering", offering.as_ref())
        .with("nics", listed(nics.iter().map(nic)))
        .with_some("public_ip", *public_ip)
        .0
}

fn nic(nic: &Nic) -> String {
    let Nic { network, network_name, ipv4, ipv6, default, device } = nic;
    let nic = Collected::default()
        .with("network", network)
        .with("network_name", network_name)
        .with_some("ipv4", *ipv4)
        .with_some("ipv6", *ipv6)
        .with("default", default)
        .with("device", device);
    format!("{:?}", nic.0)
}
