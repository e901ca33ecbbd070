//! From a world file to the cloud that it describes. Objects are made in the order of the file, so
//! that database numbers and drawn ids are the same every time.

mod addresses;
mod machines;
mod networks;
mod owners;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub(crate) use self::addresses::add_port_forward;
use self::machines::{add_vm, offering};
pub(crate) use self::machines::{add_vm_of_known_offering, vm_named};
pub(crate) use self::owners::add_pair;
use super::{VirtualMachine, World, WorldError};
use crate::cloud::{Cloud, Owner, RuleState, Zone};
use crate::faults::router::Router;
use crate::ids::IdSource;
use crate::jobs::Jobs;
use crate::object::date;
use crate::resources::domain::Domain;
use crate::resources::network::Network;
use crate::resources::network_acl::{AclItem, AclList};
use crate::resources::tag::{self, ResourceType, Tags};
use crate::resources::user::RoleIds;
use crate::settings::Settings;
use crate::table::{Key, Row, Table};
use crate::throttle::Throttle;

/// Builds everything.
///
/// # Errors
/// If a name leads nowhere or something contradicts something else.
pub(crate) fn cloud(world: &World) -> Result<Cloud, WorldError> {
    let cloud = empty(world)?;
    let mut builder = Builder {
        main_domain: Key::of(owners::domain_number(&Table::new(), &world.domain)),
        started: date(world.started),
        late_ids: IdSource::new(!world.seed),
        cloud,
    };
    builder.settings(world)?;
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
        enabled: true,
        extra: world.zone.extra.clone(),
    };
    let domain = Domain {
        id: id(&world.domain.id),
        name: world.domain.name.clone(),
        path: world.domain.path.clone(),
        public_ip_limit: world.domain.limits.public_ips,
    };
    let mut domains = Table::new();
    domains.insert_at(owners::domain_number(&domains, &world.domain), domain);
    let server_id = id(&None);
    let mut role_ids = IdSource::new(!world.seed.rotate_left(32));
    Ok(Cloud {
        version,
        started: world.started,
        now: Timestamp::MIN,
        ids,
        page_limit: world.page_limit,
        server_id,
        zone,
        settings: Settings::default(),
        throttle: Throttle::default(),
        domains,
        accounts: Table::new(),
        users: Table::new(),
        role_ids: RoleIds {
            user: role_ids.next_id(),
            domain_admin: role_ids.next_id(),
            root_admin: role_ids.next_id(),
            project_kubernetes_service: role_ids.next_id(),
        },
        projects: Table::new(),
        networks: Table::new(),
        vpcs: Table::new(),
        vpc_offerings: Table::new(),
        vms: Table::new(),
        addresses: Table::new(),
        rules: Table::new(),
        firewall_rules: Table::new(),
        port_forwards: Table::new(),
        stickiness: Table::new(),
        last_rule: 0,
        acl_lists: Table::new(),
        acl_items: Table::new(),
        tags: Tags::new(),
        jobs: Jobs::new(&world.jobs),
        router: Router::default(),
        next_address: None,
        next_guest_address: None,
        page_fault: None,
    })
}

struct Builder {
    cloud: Cloud,
    main_domain: Key<Domain>,
    started: String,
    /// A source of its own, so that a world that says more about its users keeps its other ids.
    late_ids: IdSource,
}

/// The row of a name or id.
pub(crate) fn named<T: Row>(
    table: &Table<T>,
    name: &str,
    name_of: fn(&T) -> &str,
) -> Option<Key<T>> {
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

    fn settings(&mut self, world: &World) -> Result<(), WorldError> {
        for (name, value) in &world.settings {
            self.cloud.settings.set(name, value).map_err(|error| WorldError::Invalid {
                place: "settings".to_owned(),
                cause: error.to_string(),
            })?;
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
                description: Some(description.to_owned()),
                vpc: None,
                is_global: false,
            });
            let fixed = world.default_acl_items.get(name).map(|ids| ids.each_ref().map(Some));
            let [ingress, egress] = fixed.unwrap_or_default();
            for (number, ingress, id) in [(1, true, ingress), (2, false, egress)] {
                let id = self.id(id);
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
                    damaged: false,
                });
            }
        }
    }

    fn virtual_machine(
        &mut self,
        place: &str,
        world: &World,
        vm: &VirtualMachine,
    ) -> Result<(), WorldError> {
        let offering = offering(&mut self.cloud, &world.service_offerings, vm.offering.as_deref());
        add_vm(&mut self.cloud, place, vm, offering, self.started.clone()).map(|_| ())
    }

    fn network_named(&self, place: &str, name: &str) -> Result<Key<Network>, WorldError> {
        network_named(&self.cloud, place, name)
    }
}

/// An account or a project by name; an account wins.
pub(crate) fn owner_named(cloud: &Cloud, place: &str, name: &str) -> Result<Owner, WorldError> {
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
