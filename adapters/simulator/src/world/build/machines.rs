//! Virtual machines of a world file, and ones that come later.

use super::{named, network_named, owner_named};
use crate::cloud::{Cloud, Owner};
use crate::resources::tag::{self, ResourceType};
use crate::resources::virtual_machine::{Nic, ServiceOffering, VirtualMachine};
use crate::table::Key;
use crate::world::{self, WorldError};

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
pub(super) fn offering(
    cloud: &mut Cloud,
    listed: &[world::ServiceOffering],
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
pub(super) fn add_vm(
    cloud: &mut Cloud,
    place: &str,
    vm: &world::VirtualMachine,
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
    let creator = creator.and_then(|account| cloud.first_user(account));
    cloud.vms.insert_numbered(
        vm.number,
        VirtualMachine {
            id: id.clone(),
            name: vm.name.clone(),
            display_name: vm.display_name.clone().unwrap_or_else(|| vm.name.clone()),
            owner,
            creator,
            state: vm.state,
            updated: Some(created.clone()),
            created,
            nics,
            offering,
            extra: vm.extra.clone(),
        },
    );
    for (key, value) in &vm.tags {
        tag::add(cloud, ResourceType::UserVm, &id, owner, key, value);
    }
    Ok(id)
}

/// Adds a virtual machine to a world that already lives; its offering is one that other machines
/// have, or a new one.
pub(crate) fn add_vm_of_known_offering(
    cloud: &mut Cloud,
    vm: &world::VirtualMachine,
    created: String,
) -> Result<String, WorldError> {
    let offering = offering(cloud, &[], vm.offering.as_deref());
    add_vm(cloud, "virtual-machine", vm, offering, created)
}
