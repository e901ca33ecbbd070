//! The state of CloudStack.

use std::collections::BTreeMap;

use anyhow::Result;
use ccm_core::observe::ownership::{TAG_CLUSTER, TAG_SERVICE};
use ccm_core::observe::{
    AssociateJob, CloudState, FirewallRule, Listing, LoadBalancerRule, Network, NetworkAclItem,
    NetworkAclList, Nic, PublicIpAddress, VirtualMachine, Vpc,
};

use super::Pass;
use super::names::Kind;

/// Names that CloudStack itself gives, and that planning knows.
const DEFAULT_LISTS: [&str; 2] = ["default_allow", "default_deny"];

type Tags = BTreeMap<String, String>;

impl Pass {
    pub(super) fn cloud(&mut self, state: &CloudState) -> Result<CloudState> {
        let CloudState {
            at,
            capabilities,
            addresses,
            rules,
            members,
            firewall_rules,
            acl_lists,
            acl_items,
            networks,
            vpcs,
            virtual_machines,
            jobs,
        } = state;
        let mut new_members = BTreeMap::new();
        for (rule, machines) in members {
            let machines = machines.iter().map(|id| self.names.id(id)).collect::<Result<_>>()?;
            new_members.insert(self.names.id(rule)?, machines);
        }
        let mut new_jobs = BTreeMap::new();
        for (id, job) in jobs {
            new_jobs.insert(self.names.id(id)?, self.job(job)?);
        }
        Ok(CloudState {
            at: *at,
            capabilities: capabilities.clone(),
            addresses: all(addresses, |found| self.public_address(found))?,
            rules: all(rules, |found| self.rule(found))?,
            members: new_members,
            firewall_rules: all(firewall_rules, |found| self.firewall_rule(found))?,
            acl_lists: listing(acl_lists, |found| self.acl_list(found))?,
            acl_items: listing(acl_items, |found| self.acl_item(found))?,
            networks: all(networks, |found| self.network(found))?,
            vpcs: listing(vpcs, |found| self.vpc(found))?,
            virtual_machines: all(virtual_machines, |found| self.machine(found))?,
            jobs: new_jobs,
        })
    }

    fn public_address(&mut self, found: &PublicIpAddress) -> Result<PublicIpAddress> {
        Ok(PublicIpAddress {
            id: self.names.id(&found.id)?,
            address: self.addresses.v4(found.address),
            static_nat: found.static_nat.as_ref().map(|machine| self.names.host(machine)),
            network: self.names.optional(found.network.as_ref())?,
            vpc: self.names.optional(found.vpc.as_ref())?,
            tags: self.tags(&found.tags),
            state: found.state,
            allocated: found.allocated.clone(),
            source_nat: found.source_nat,
            has_rules: found.has_rules,
        })
    }

    fn rule(&mut self, found: &LoadBalancerRule) -> Result<LoadBalancerRule> {
        let description = found.description.as_deref();
        Ok(LoadBalancerRule {
            id: self.names.id(&found.id)?,
            name: self.rule_name(&found.name, found.public_port),
            description: description.map(|text| self.description(text)).transpose()?,
            address: self.names.id(&found.address)?,
            sources: self.addresses.sources(&found.sources)?,
            network: self.names.id(&found.network)?,
            tags: self.tags(&found.tags),
            public_port: found.public_port,
            private_port: found.private_port,
            protocol: found.protocol.clone(),
            algorithm: found.algorithm.clone(),
            state: found.state,
        })
    }

    fn firewall_rule(&mut self, found: &FirewallRule) -> Result<FirewallRule> {
        Ok(FirewallRule {
            id: self.names.id(&found.id)?,
            address: self.names.id(&found.address)?,
            cidrs: self.addresses.set(&found.cidrs)?,
            tags: self.tags(&found.tags),
            protocol: found.protocol.clone(),
            ports: found.ports,
            state: found.state,
        })
    }

    fn acl_list(&mut self, found: &NetworkAclList) -> Result<NetworkAclList> {
        let NetworkAclList { id, name, vpc } = found;
        let (id, vpc) = (self.names.id(id)?, self.names.optional(vpc.as_ref())?);
        Ok(NetworkAclList { id, name: self.list_name(name), vpc })
    }

    fn acl_item(&mut self, found: &NetworkAclItem) -> Result<NetworkAclItem> {
        let reason = found.reason.as_deref();
        Ok(NetworkAclItem {
            id: self.names.id(&found.id)?,
            list: self.names.id(&found.list)?,
            cidrs: self.addresses.set(&found.cidrs)?,
            reason: reason.map(|text| self.description(text)).transpose()?,
            tags: self.tags(&found.tags),
            protocol: found.protocol.clone(),
            ports: found.ports,
            ingress: found.ingress,
            allow: found.allow,
            number: found.number,
            state: found.state,
        })
    }

    fn network(&mut self, found: &Network) -> Result<Network> {
        Ok(Network {
            id: self.names.id(&found.id)?,
            name: self.names.take(Kind::Network, &found.name),
            vpc: self.names.optional(found.vpc.as_ref())?,
            acl_list: self.names.optional(found.acl_list.as_ref())?,
            acl_name: found.acl_name.as_ref().map(|name| self.list_name(name)),
            kind: found.kind.clone(),
            services: found.services.clone(),
        })
    }

    fn vpc(&mut self, found: &Vpc) -> Result<Vpc> {
        let Vpc { id, name, services } = found;
        let name = self.names.take(Kind::Network, name);
        Ok(Vpc { id: self.names.id(id)?, name, services: services.clone() })
    }

    fn machine(&mut self, found: &VirtualMachine) -> Result<VirtualMachine> {
        let VirtualMachine { id, name, state, zone, offering, nics, public_ip } = found;
        Ok(VirtualMachine {
            id: self.names.id(id)?,
            name: self.names.host(name),
            state: state.clone(),
            zone: self.names.take(Kind::Zone, zone),
            offering: offering.as_ref().map(|name| self.names.take(Kind::Offering, name)),
            nics: all(nics, |nic| self.nic(nic))?,
            public_ip: public_ip.map(|address| self.addresses.v4(address)),
        })
    }

    fn nic(&mut self, found: &Nic) -> Result<Nic> {
        let Nic { network, network_name, ipv4, ipv6, default, device } = found;
        Ok(Nic {
            network: self.names.id(network)?,
            network_name: self.names.take(Kind::Network, network_name),
            ipv4: ipv4.map(|address| self.addresses.v4(address)),
            ipv6: ipv6.map(|address| self.addresses.v6(address)),
            default: *default,
            device: *device,
        })
    }

    fn job(&mut self, job: &AssociateJob) -> Result<AssociateJob> {
        Ok(match job {
            AssociateJob::Pending => AssociateJob::Pending,
            AssociateJob::Succeeded(id) => AssociateJob::Succeeded(self.names.id(id)?),
            AssociateJob::Failed(id) => AssociateJob::Failed(self.names.optional(id.as_ref())?),
            AssociateJob::Unknown => AssociateJob::Unknown,
        })
    }

    fn list_name(&mut self, name: &str) -> String {
        if DEFAULT_LISTS.contains(&name) {
            name.to_owned()
        } else {
            self.names.take(Kind::Network, name)
        }
    }

    fn tags(&mut self, tags: &Tags) -> Tags {
        let tag = |(key, value): (&String, &String)| match key.as_str() {
            TAG_CLUSTER => (key.clone(), self.names.take(Kind::Cluster, value)),
            TAG_SERVICE => (key.clone(), self.names.take(Kind::Uid, value)),
            other => (self.names.take(Kind::Text, other), self.names.take(Kind::Text, value)),
        };
        tags.iter().map(tag).collect()
    }
}

fn all<T>(list: &[T], each: impl FnMut(&T) -> Result<T>) -> Result<Vec<T>> {
    list.iter().map(each).collect()
}

fn listing<T>(
    list: &Listing<Vec<T>>,
    each: impl FnMut(&T) -> Result<T>,
) -> Result<Listing<Vec<T>>> {
    Ok(match list {
        Listing::Listed(list) => Listing::Listed(all(list, each)?),
        Listing::Denied => Listing::Denied,
    })
}
