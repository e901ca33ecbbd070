//! Public IP addresses of a world file, and the rules on them.

use std::net::Ipv4Addr;

use super::{Builder, named, vm_named};
use crate::cloud::{Cloud, Owner, RuleState};
use crate::object::date;
use crate::resources::firewall_rule::FirewallRule;
use crate::resources::load_balancer_rule::{self, LoadBalancerRule, stored_cidrs};
use crate::resources::member::Mapping;
use crate::resources::network::Network;
use crate::resources::port_forward::PortForward;
use crate::resources::public_ip::{AddressState, PublicIp};
use crate::resources::tag::ResourceType;
use crate::table::Key;
use crate::world::{self, World, WorldError};

impl Builder {
    /// Addresses of the file keep their order; those of the range that it does not name are free.
    pub(super) fn addresses(&mut self, world: &World) -> Result<(), WorldError> {
        for (at, address) in world.addresses.iter().enumerate() {
            self.address(&format!("addresses[{at}]"), address)?;
        }
        let Some(range) = world.public_range else {
            return Ok(());
        };
        let (from, to) = (u32::from(range.from), u32::from(range.to));
        if to < from || to - from > 65_535 {
            return Err(WorldError::Invalid {
                place: "public-range".to_owned(),
                cause: "`to` must not lie before `from`, nor more than 65535 addresses after it"
                    .to_owned(),
            });
        }
        for number in from..=to {
            let address = Ipv4Addr::from(number);
            if address_row(&self.cloud, "", address).is_err() {
                let id = self.cloud.ids.next_id();
                self.cloud.addresses.insert(free_address(id, address));
            }
        }
        Ok(())
    }

    fn address(&mut self, place: &str, address: &world::Address) -> Result<(), WorldError> {
        if address_row(&self.cloud, place, address.address).is_ok() {
            return Err(WorldError::Invalid {
                place: place.to_owned(),
                cause: format!("{} is there twice", address.address),
            });
        }
        let id = self.id(address.id.as_ref());
        let mut row = free_address(id.clone(), address.address);
        row.portable = address.portable;
        let Some(owner) = &address.owner else {
            self.cloud.addresses.insert_numbered(address.number, row);
            return Ok(());
        };
        let owner = self.owner(place, owner)?;
        row.owner = Some(owner);
        row.state = AddressState::Allocated;
        row.allocated = Some(address.allocated.map_or_else(|| self.started.clone(), date));
        row.network = match &address.network {
            Some(name) => Some(self.network_named(place, name)?),
            None => None,
        };
        row.vpc = match &address.vpc {
            Some(name) => {
                Some(named(&self.cloud.vpcs, name, |row| &row.name).ok_or_else(|| {
                    WorldError::Unknown {
                        place: format!("{place}.vpc"),
                        kind: "VPC",
                        name: name.clone(),
                    }
                })?)
            }
            // An address bound to a tier belongs to the tier's VPC.
            None => row.network.and_then(|key| self.cloud.networks.get(key)).and_then(Network::vpc),
        };
        row.source_nat = address.source_nat;
        row.static_nat = match &address.static_nat {
            Some(name) => Some(vm_named(&self.cloud, &format!("{place}.static-nat"), name)?),
            None => None,
        };
        self.cloud.addresses.insert_numbered(address.number, row);
        self.tags(ResourceType::PublicIpAddress, &id, owner, &address.tags);
        Ok(())
    }

    pub(super) fn firewall_rule(
        &mut self,
        place: &str,
        rule: &world::FirewallRule,
    ) -> Result<(), WorldError> {
        let (address, owner, row) = serving(&self.cloud, place, rule.address)?;
        let id = self.id(rule.id.as_ref());
        let number = self.cloud.next_rule();
        let of_vpc = row.vpc.is_some();
        let mut cidrs = rule.cidrs.clone();
        cidrs.sort();
        self.cloud.firewall_rules.insert_at(
            number,
            FirewallRule {
                id: id.clone(),
                owner,
                address,
                network: row.network.filter(|_| !of_vpc),
                vpc: row.vpc,
                protocol: rule.protocol.clone(),
                first: rule.start_port,
                last: rule.end_port.or(rule.start_port),
                icmp: (rule.protocol == "icmp").then_some(rule.icmp),
                cidrs,
                system: false,
                state: RuleState::Active,
                programmed: true,
            },
        );
        self.tags(ResourceType::FirewallRule, &id, owner, &rule.tags);
        Ok(())
    }

    pub(super) fn port_forward(
        &mut self,
        place: &str,
        forward: &world::PortForward,
    ) -> Result<(), WorldError> {
        add_port_forward(&mut self.cloud, place, forward).map(|_| ())
    }

    pub(super) fn rule(&mut self, place: &str, rule: &world::Rule) -> Result<(), WorldError> {
        let (address, owner, row) = serving(&self.cloud, place, rule.address)?;
        let Some(network) = row.network else {
            return Err(WorldError::Invalid {
                place: format!("{place}.address"),
                cause: format!("{} serves no network; give it one under `addresses`", rule.address),
            });
        };
        let mut members = Vec::new();
        for name in &rule.members {
            let place = format!("{place}.members");
            let vm = vm_named(&self.cloud, &place, name)?;
            let nic = self.cloud.vms.get(vm).and_then(|vm| vm.nic_in(network));
            let Some(nic) = nic else {
                return Err(WorldError::Invalid {
                    place,
                    cause: format!("{name:?} has no interface in the network of {}", rule.address),
                });
            };
            members.push(Mapping { vm, network, address: nic.address.clone(), revoked: false });
        }
        let id = self.id(rule.id.as_ref());
        let number = self.cloud.next_rule();
        let key = self.cloud.rules.insert_at(
            number,
            LoadBalancerRule {
                id: id.clone(),
                name: rule.name.clone(),
                description: rule.description.clone(),
                owner,
                address,
                network,
                public_port: rule.port,
                private_port: rule.private_port,
                algorithm: rule.algorithm.clone(),
                protocol: rule.protocol.clone(),
                cidrs: rule.cidrs.as_ref().map(|cidrs| stored_cidrs(cidrs, " ")),
                state: RuleState::Add,
                members,
                past: Vec::new(),
                firewall: None,
                programmed: None,
            },
        );
        load_balancer_rule::push(&mut self.cloud, key).ok();
        self.tags(ResourceType::LoadBalancer, &id, owner, &rule.tags);
        Ok(())
    }
}

/// Adds a port-forwarding rule and returns its id.
pub(crate) fn add_port_forward(
    cloud: &mut Cloud,
    place: &str,
    forward: &world::PortForward,
) -> Result<String, WorldError> {
    let (address, _, _) = serving(cloud, place, forward.address)?;
    let id = forward.id.clone().unwrap_or_else(|| cloud.ids.next_id());
    let row = PortForward {
        id: id.clone(),
        address,
        first: forward.start_port,
        last: forward.end_port.unwrap_or(forward.start_port),
        target: None,
    };
    let number = cloud.next_rule();
    cloud.port_forwards.insert_at(number, row);
    Ok(id)
}

fn address_row(
    cloud: &Cloud,
    place: &str,
    address: Ipv4Addr,
) -> Result<(Key<PublicIp>, PublicIp), WorldError> {
    cloud
        .addresses
        .iter()
        .find(|(_, row)| row.address == address)
        .map(|(key, row)| (key, row.clone()))
        .ok_or_else(|| WorldError::Unknown {
            place: format!("{place}.address"),
            kind: "public IP address",
            name: address.to_string(),
        })
}

/// An address that serves a network, with its owner.
fn serving(
    cloud: &Cloud,
    place: &str,
    address: Ipv4Addr,
) -> Result<(Key<PublicIp>, Owner, PublicIp), WorldError> {
    let (key, row) = address_row(cloud, place, address)?;
    match row.owner {
        Some(owner) => Ok((key, owner, row)),
        None => Err(WorldError::Invalid {
            place: format!("{place}.address"),
            cause: format!("{address} is free; give it an owner under `addresses`"),
        }),
    }
}

fn free_address(id: String, address: Ipv4Addr) -> PublicIp {
    PublicIp {
        id,
        address,
        state: AddressState::Free,
        owner: None,
        allocated: None,
        network: None,
        vpc: None,
        source_nat: false,
        static_nat: None,
        portable: false,
        past_rules: false,
        quarantine: None,
    }
}
