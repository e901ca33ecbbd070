//! From a world file to the cloud that it describes. Objects are made in the order of the file, so that database numbers
//! and drawn ids are the same every time.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;

use super::{World, WorldError};
use crate::cloud::{Cloud, Domain, Owner, RuleState, Zone};
use crate::ids::IdSource;
use crate::jobs::Jobs;
use crate::object::date;
use crate::resources::account::{Account, Project};
use crate::resources::firewall_rule::FirewallRule;
use crate::resources::load_balancer_rule::{self, LoadBalancerRule, stored_cidrs};
use crate::resources::member::Mapping;
use crate::resources::network::{Network, Offering, Tier};
use crate::resources::network_acl::{AclItem, AclList};
use crate::resources::port_forward::PortForward;
use crate::resources::public_ip::{AddressState, PublicIp};
use crate::resources::services;
use crate::resources::tag::{self, ResourceType};
use crate::resources::virtual_machine::{Nic, ServiceOffering, VirtualMachine};
use crate::resources::vpc::Vpc;
use crate::table::{Key, Row, Table};
use crate::world::{AclAction, NetworkState, TrafficType, VpcServices};

/// Builds everything.
///
/// # Errors
/// If a name leads nowhere or something contradicts something else.
pub(crate) fn cloud(world: &World) -> Result<Cloud, WorldError> {
    let mut builder = Builder { cloud: empty(world)?, started: date(world.started) };
    builder.owners(world)?;
    builder.default_lists(world);
    for (at, network) in world.networks.iter().enumerate() {
        let place = format!("networks[{at}]");
        let owner = network.owner.as_deref().unwrap_or_default();
        let owner = builder.owner(&place, owner)?;
        builder.network(&place, network, owner, None)?;
    }
    for (at, vpc) in world.vpcs.iter().enumerate() {
        builder.vpc(&format!("vpcs[{at}]"), vpc)?;
    }
    for (at, vm) in world.virtual_machines.iter().enumerate() {
        builder.virtual_machine(&format!("virtual-machines[{at}]"), world, vm)?;
    }
    builder.addresses(world)?;
    for (at, rule) in world.firewall_rules.iter().enumerate() {
        builder.firewall_rule(&format!("firewall-rules[{at}]"), rule)?;
    }
    for (at, forward) in world.port_forwards.iter().enumerate() {
        builder.port_forward(&format!("port-forwards[{at}]"), forward)?;
    }
    for (at, rule) in world.rules.iter().enumerate() {
        builder.rule(&format!("rules[{at}]"), rule)?;
    }
    Ok(builder.cloud)
}

fn empty(world: &World) -> Result<Cloud, WorldError> {
    let version = world.release.parse().map_err(|source| WorldError::Release { source })?;
    let mut ids = IdSource::new(world.seed);
    let mut id = |fixed: &Option<String>| fixed.clone().unwrap_or_else(|| ids.next_id());
    let zone = Zone {
        id: id(&world.zone.id),
        name: world.zone.name.clone(),
        physical_network: id(&world.zone.physical_network),
        public_network: id(&world.zone.public_network),
        extra: world.zone.extra.clone(),
    };
    let domain = Domain {
        id: id(&world.domain.id),
        name: world.domain.name.clone(),
        path: world.domain.path.clone(),
    };
    let server_id = id(&None);
    Ok(Cloud {
        version,
        now: Timestamp::MIN,
        ids,
        page_limit: world.page_limit,
        server_id,
        zone,
        domain,
        accounts: Table::new(),
        projects: Table::new(),
        networks: Table::new(),
        vpcs: Table::new(),
        vms: Table::new(),
        addresses: Table::new(),
        rules: Table::new(),
        firewall_rules: Table::new(),
        port_forwards: Table::new(),
        last_rule: 0,
        acl_lists: Table::new(),
        acl_items: Table::new(),
        tags: Table::new(),
        jobs: Jobs::new(world.jobs),
    })
}

struct Builder {
    cloud: Cloud,
    started: String,
}

/// The row of a name or id.
fn named<T: Row>(table: &Table<T>, name: &str, name_of: fn(&T) -> &str) -> Option<Key<T>> {
    table.iter().find(|(_, row)| name_of(row) == name || row.id() == name).map(|(key, _)| key)
}

impl Builder {
    fn id(&mut self, fixed: Option<&String>) -> String {
        match fixed {
            Some(id) => id.clone(),
            None => self.cloud.ids.next_id(),
        }
    }

    fn tags(
        &mut self,
        kind: ResourceType,
        id: &str,
        owner: Owner,
        tags: &BTreeMap<String, String>,
    ) {
        for (key, value) in tags {
            tag::add(&mut self.cloud, kind, id, owner, key, value);
        }
    }

    fn owners(&mut self, world: &World) -> Result<(), WorldError> {
        for account in &world.accounts {
            let id = self.id(account.id.as_ref());
            let user = self.id(account.user.as_ref());
            self.cloud.accounts.insert(Account {
                id,
                name: account.name.clone(),
                user,
                role: account.role,
                api_key: account.api_key.clone(),
                secret_key: account.secret_key.clone(),
                enabled: account.enabled,
                public_ip_limit: account.limits.public_ips,
            });
        }
        for project in &world.projects {
            let id = self.id(project.id.as_ref());
            let members = world
                .accounts
                .iter()
                .filter(|account| account.projects.contains(&project.name))
                .filter_map(|account| named(&self.cloud.accounts, &account.name, |row| &row.name))
                .collect();
            self.cloud.projects.insert(Project {
                id,
                name: project.name.clone(),
                display_text: project.name.clone(),
                created: self.started.clone(),
                members,
                public_ip_limit: project.limits.public_ips,
                extra: project.extra.clone(),
            });
        }
        for (at, account) in world.accounts.iter().enumerate() {
            for name in &account.projects {
                if named(&self.cloud.projects, name, |row| &row.name).is_none() {
                    return Err(WorldError::Unknown {
                        place: format!("accounts[{at}].projects"),
                        kind: "project",
                        name: name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn owner(&self, place: &str, name: &str) -> Result<Owner, WorldError> {
        owner_named(&self.cloud, place, name)
    }

    /// The lists that every CloudStack has, in the order in which it makes them.
    fn default_lists(&mut self, world: &World) {
        for (name, allow, description) in [
            ("default_deny", false, "Default Network ACL Deny All"),
            ("default_allow", true, "Default Network ACL Allow All"),
        ] {
            let id = self.id(world.default_acl_lists.get(name));
            let list = self.cloud.acl_lists.insert(AclList {
                id,
                name: name.to_owned(),
                description: description.to_owned(),
                vpc: None,
            });
            for (number, ingress) in [(1, true), (2, false)] {
                let id = self.cloud.ids.next_id();
                self.cloud.acl_items.insert(AclItem {
                    id,
                    list,
                    number,
                    protocol: "all".to_owned(),
                    first: None,
                    last: None,
                    cidrs: "0.0.0.0/0".to_owned(),
                    ingress,
                    allow,
                    reason: None,
                    icmp: None,
                    state: RuleState::Active,
                });
            }
        }
    }

    fn network(
        &mut self,
        place: &str,
        network: &super::Network,
        owner: Owner,
        tier: Option<Tier>,
    ) -> Result<(), WorldError> {
        if tier.is_none() && network.acl.is_some() {
            return Err(WorldError::Invalid {
                place: format!("{place}.acl"),
                cause: "an isolated network has no ACL list; only a tier of a VPC has".to_owned(),
            });
        }
        let id = self.id(network.id.as_ref());
        let offering = match &network.offering {
            Some(offering) => Offering {
                id: self.id(offering.id.as_ref()),
                name: offering.name.clone(),
                conserve_mode: offering.conserve_mode,
            },
            None => Offering {
                id: self.cloud.ids.next_id(),
                name: if tier.is_some() {
                    "DefaultIsolatedNetworkOfferingForVpcNetworks"
                } else {
                    "DefaultIsolatedNetworkOfferingWithSourceNatService"
                }
                .to_owned(),
                conserve_mode: true,
            },
        };
        let known = if tier.is_some() { services::TIER } else { services::ISOLATED };
        let services = network
            .services
            .clone()
            .unwrap_or_else(|| known.iter().map(|name| (*name).to_owned()).collect());
        let gateway = network.cidr.hosts().next().unwrap_or_else(|| network.cidr.addr());
        self.cloud.networks.insert(Network {
            id: id.clone(),
            name: network.name.clone(),
            display_text: network.name.clone(),
            owner,
            cidr: network.cidr,
            gateway: gateway.to_string(),
            created: self.started.clone(),
            implemented: network.state == NetworkState::Implemented,
            services,
            offering,
            tier,
            extra: network.extra.clone(),
        });
        self.tags(ResourceType::Network, &id, owner, &network.tags);
        Ok(())
    }

    fn vpc(&mut self, place: &str, vpc: &super::Vpc) -> Result<(), WorldError> {
        let owner = self.owner(place, &vpc.owner)?;
        let id = self.id(vpc.id.as_ref());
        let mut services: Vec<String> =
            services::VPC.iter().map(|name| (*name).to_owned()).collect();
        let offering_name = match vpc.services {
            VpcServices::Default => "Default VPC offering",
            VpcServices::WithFirewall => {
                services.push("Firewall".to_owned());
                "VPC offering with Firewall"
            }
        };
        let offering_id = self.cloud.ids.next_id();
        let key = self.cloud.vpcs.insert(Vpc {
            id: id.clone(),
            name: vpc.name.clone(),
            display_text: vpc.name.clone(),
            owner,
            cidr: vpc.cidr.to_string(),
            created: self.started.clone(),
            services,
            offering_id,
            offering_name: offering_name.to_owned(),
            extra: vpc.extra.clone(),
        });
        self.tags(ResourceType::Vpc, &id, owner, &vpc.tags);
        for list in &vpc.acl_lists {
            self.acl_list(key, list);
        }
        for (at, tier) in vpc.tiers.iter().enumerate() {
            let place = format!("{place}.tiers[{at}]");
            if tier.owner.is_some() {
                return Err(WorldError::Invalid {
                    place: format!("{place}.owner"),
                    cause: "a tier belongs to the owner of its VPC; leave it out".to_owned(),
                });
            }
            let acl = self.acl_of_tier(&place, key, tier.acl.as_deref())?;
            self.network(&place, tier, owner, Some(Tier { vpc: key, acl }))?;
        }
        Ok(())
    }

    fn acl_of_tier(
        &self,
        place: &str,
        vpc: Key<Vpc>,
        name: Option<&str>,
    ) -> Result<Option<Key<AclList>>, WorldError> {
        let Some(name) = name.filter(|name| *name != "none") else {
            return Ok(None);
        };
        self.cloud
            .acl_lists
            .iter()
            .find(|(_, list)| list.name == name && list.vpc.is_none_or(|own| own == vpc))
            .map(|(key, _)| Some(key))
            .ok_or_else(|| WorldError::Unknown {
                place: format!("{place}.acl"),
                kind: "ACL list",
                name: name.to_owned(),
            })
    }

    fn acl_list(&mut self, vpc: Key<Vpc>, list: &super::AclList) {
        let id = self.id(list.id.as_ref());
        let key = self.cloud.acl_lists.insert(AclList {
            id,
            name: list.name.clone(),
            description: list.description.clone().unwrap_or_else(|| list.name.clone()),
            vpc: Some(vpc),
        });
        let mut highest = 0;
        for item in &list.items {
            let number = item.number.unwrap_or(highest + 1);
            highest = highest.max(number);
            let id = self.id(item.id.as_ref());
            self.cloud.acl_items.insert(AclItem {
                id,
                list: key,
                number,
                protocol: item.protocol.clone(),
                first: item.start_port,
                last: item.end_port.or(item.start_port),
                cidrs: item.cidrs.join(","),
                ingress: item.traffic == TrafficType::Ingress,
                allow: item.action == AclAction::Allow,
                reason: item.reason.clone(),
                icmp: (item.protocol == "icmp").then_some((-1, -1)),
                state: RuleState::Active,
            });
        }
    }

    fn virtual_machine(
        &mut self,
        place: &str,
        world: &World,
        vm: &super::VirtualMachine,
    ) -> Result<(), WorldError> {
        let offering = offering(&mut self.cloud, &world.service_offerings, vm.offering.as_deref());
        add_vm(&mut self.cloud, place, vm, offering, self.started.clone()).map(|_| ())
    }

    fn network_named(&self, place: &str, name: &str) -> Result<Key<Network>, WorldError> {
        network_named(&self.cloud, place, name)
    }

    /// Addresses of the file keep their order; those of the range that it does not name are free.
    fn addresses(&mut self, world: &World) -> Result<(), WorldError> {
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
            if self.address_row("", address).is_err() {
                let id = self.cloud.ids.next_id();
                self.cloud.addresses.insert(free_address(id, address));
            }
        }
        Ok(())
    }

    fn address(&mut self, place: &str, address: &super::Address) -> Result<(), WorldError> {
        if self.address_row(place, address.address).is_ok() {
            return Err(WorldError::Invalid {
                place: place.to_owned(),
                cause: format!("{} is there twice", address.address),
            });
        }
        let id = self.id(address.id.as_ref());
        let mut row = free_address(id.clone(), address.address);
        let Some(owner) = &address.owner else {
            self.cloud.addresses.insert(row);
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
        self.cloud.addresses.insert(row);
        self.tags(ResourceType::PublicIpAddress, &id, owner, &address.tags);
        Ok(())
    }

    fn address_row(
        &self,
        place: &str,
        address: Ipv4Addr,
    ) -> Result<(Key<PublicIp>, PublicIp), WorldError> {
        self.cloud
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
        &self,
        place: &str,
        address: Ipv4Addr,
    ) -> Result<(Key<PublicIp>, Owner, PublicIp), WorldError> {
        let (key, row) = self.address_row(place, address)?;
        match row.owner {
            Some(owner) => Ok((key, owner, row)),
            None => Err(WorldError::Invalid {
                place: format!("{place}.address"),
                cause: format!("{address} is free; give it an owner under `addresses`"),
            }),
        }
    }

    fn firewall_rule(&mut self, place: &str, rule: &super::FirewallRule) -> Result<(), WorldError> {
        let (address, owner, row) = self.serving(place, rule.address)?;
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
                icmp: (rule.protocol == "icmp").then_some((-1, -1)),
                cidrs,
                state: RuleState::Active,
                programmed: true,
            },
        );
        self.tags(ResourceType::FirewallRule, &id, owner, &rule.tags);
        Ok(())
    }

    fn port_forward(
        &mut self,
        place: &str,
        forward: &super::PortForward,
    ) -> Result<(), WorldError> {
        let (address, _, _) = self.serving(place, forward.address)?;
        let id = self.id(forward.id.as_ref());
        let number = self.cloud.next_rule();
        self.cloud.port_forwards.insert_at(
            number,
            PortForward {
                id,
                address,
                first: forward.start_port,
                last: forward.end_port.unwrap_or(forward.start_port),
            },
        );
        Ok(())
    }

    fn rule(&mut self, place: &str, rule: &super::Rule) -> Result<(), WorldError> {
        let (address, owner, row) = self.serving(place, rule.address)?;
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
            members.push(Mapping { vm, address: nic.address.clone(), revoked: false });
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
        load_balancer_rule::push(&mut self.cloud, key);
        self.tags(ResourceType::LoadBalancer, &id, owner, &rule.tags);
        Ok(())
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
        releasing: false,
    }
}

/// An account or a project by name; an account wins.
fn owner_named(cloud: &Cloud, place: &str, name: &str) -> Result<Owner, WorldError> {
    let account = named(&cloud.accounts, name, |row| &row.name).map(Owner::Account);
    account
        .or_else(|| named(&cloud.projects, name, |row| &row.name).map(Owner::Project))
        .ok_or_else(|| WorldError::Unknown {
            place: format!("{place}.owner"),
            kind: "account or project",
            name: name.to_owned(),
        })
}

/// The network of a name or id.
pub(crate) fn network_named(
    cloud: &Cloud,
    place: &str,
    name: &str,
) -> Result<Key<Network>, WorldError> {
    named(&cloud.networks, name, |row| &row.name).ok_or_else(|| WorldError::Unknown {
        place: format!("{place}.network"),
        kind: "network",
        name: name.to_owned(),
    })
}

/// The virtual machine of a name or id.
pub(crate) fn vm_named(
    cloud: &Cloud,
    place: &str,
    name: &str,
) -> Result<Key<VirtualMachine>, WorldError> {
    named(&cloud.vms, name, |row| &row.name).ok_or_else(|| WorldError::Unknown {
        place: place.to_owned(),
        kind: "virtual machine",
        name: name.to_owned(),
    })
}

/// The service offering of a name; one that the file does not describe has the usual size.
fn offering(
    cloud: &mut Cloud,
    listed: &[super::ServiceOffering],
    name: Option<&str>,
) -> ServiceOffering {
    let name = name.unwrap_or("Small Instance");
    // Machines of one offering share its id.
    let known = cloud
        .vms
        .iter()
        .find(|(_, vm)| vm.offering.name == name)
        .map(|(_, vm)| vm.offering.clone());
    if let Some(known) = known {
        return known;
    }
    let listed = listed.iter().find(|offering| offering.name == name);
    let fixed = listed.and_then(|offering| offering.id.clone());
    ServiceOffering {
        id: fixed.unwrap_or_else(|| cloud.ids.next_id()),
        name: name.to_owned(),
        cpus: listed.map_or(1, |offering| offering.cpus),
        speed: listed.map_or(1000, |offering| offering.speed),
        memory: listed.map_or(1024, |offering| offering.memory),
    }
}

/// Adds a virtual machine and returns its id.
fn add_vm(
    cloud: &mut Cloud,
    place: &str,
    vm: &super::VirtualMachine,
    offering: ServiceOffering,
    created: String,
) -> Result<String, WorldError> {
    let owner = owner_named(cloud, place, &vm.owner)?;
    let networks = vm
        .nics
        .iter()
        .enumerate()
        .map(|(at, nic)| network_named(cloud, &format!("{place}.nics[{at}]"), &nic.network))
        .collect::<Result<Vec<_>, _>>()?;
    let mut draw = |fixed: Option<&String>| match fixed {
        Some(id) => id.clone(),
        None => cloud.ids.next_id(),
    };
    let id = draw(vm.id.as_ref());
    let chosen = vm.nics.iter().position(|nic| nic.default).unwrap_or(0);
    let mut nics = Vec::new();
    for ((at, nic), network) in vm.nics.iter().enumerate().zip(networks) {
        let nic_id = draw(nic.id.as_ref());
        let secondary =
            nic.secondary.iter().map(|address| (draw(None), address.to_string())).collect();
        let [_, second, third, fourth] = nic.address.octets();
        nics.push(Nic {
            id: nic_id,
            network,
            address: nic.address.to_string(),
            secondary,
            mac: format!("02:01:{at:02x}:{second:02x}:{third:02x}:{fourth:02x}"),
            default: at == chosen,
            extra: nic.extra.clone(),
        });
    }
    let creator = match owner {
        Owner::Account(account) => Some(account),
        Owner::Project(project) => {
            cloud.projects.get(project).and_then(|project| project.members.first().copied())
        }
    };
    cloud.vms.insert(VirtualMachine {
        id: id.clone(),
        name: vm.name.clone(),
        display_name: vm.display_name.clone().unwrap_or_else(|| vm.name.clone()),
        owner,
        creator,
        state: vm.state,
        created,
        nics,
        offering,
        extra: vm.extra.clone(),
    });
    for (key, value) in &vm.tags {
        tag::add(cloud, ResourceType::UserVm, &id, owner, key, value);
    }
    Ok(id)
}

/// Adds a virtual machine to a world that already lives; its offering is one that other machines have, or a new one.
pub(crate) fn add_vm_of_known_offering(
    cloud: &mut Cloud,
    vm: &super::VirtualMachine,
    created: String,
) -> Result<String, WorldError> {
    let offering = offering(cloud, &[], vm.offering.as_deref());
    add_vm(cloud, "virtual-machine", vm, offering, created)
}
