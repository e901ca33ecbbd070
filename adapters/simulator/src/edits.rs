//! Changes of the world from outside: what an operator or another system does beside the
//! controller. They take effect at once, at the time of the last request. Changes that the API
//! offers are made with `Simulator::call`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use thiserror::Error;

use crate::object::date;
use crate::resources::virtual_machine::VirtualMachine;
use crate::resources::vm_life;
use crate::settings::SettingError;
use crate::simulator::Simulator;
use crate::table::Key;
use crate::world::{
    PortForward as NewForward, VirtualMachine as NewVm, VmState, WorldError, build,
};

/// A change that can not be made.
#[derive(Debug, Error)]
pub enum EditError {
    /// A name leads nowhere.
    #[error("the change can not be made")]
    World(#[from] WorldError),
    /// A setting means nothing here.
    #[error("the setting can not be changed")]
    Setting(#[from] SettingError),
    /// The virtual machine is a member of a load-balancer rule, which CloudStack does not allow.
    #[error("virtual machine {vm:?} is a member of a load-balancer rule; remove it first")]
    IsMember {
        /// The virtual machine.
        vm: String,
    },
    /// There is no load-balancer rule of that id.
    #[error("there is no load-balancer rule {rule:?}")]
    NoRule {
        /// What was asked for.
        rule: String,
    },
    /// The virtual machine has no interface in the network.
    #[error("virtual machine {vm:?} has no interface in network {network:?}")]
    NoNic {
        /// The virtual machine.
        vm: String,
        /// The network.
        network: String,
    },
}

impl Simulator {
    /// Adds a virtual machine and returns its id. Its offering takes the size of a known one of
    /// that name.
    ///
    /// # Errors
    /// If its owner or a network is unknown.
    pub fn add_vm(&mut self, vm: &NewVm) -> Result<String, EditError> {
        let created = date(self.cloud.now.max(self.cloud.started));
        Ok(build::add_vm_of_known_offering(&mut self.cloud, vm, created)?)
    }

    /// Adds a port-forwarding rule to an address that has an owner, and returns the rule's id.
    ///
    /// # Errors
    /// If the address is unknown or free.
    pub fn add_port_forward(&mut self, forward: &NewForward) -> Result<String, EditError> {
        Ok(build::add_port_forward(&mut self.cloud, "port-forward", forward)?)
    }

    /// Chooses the public IP address that the next associateIpAddress without one draws, by its id or
    /// as text, if it is free then. An unknown one chooses none.
    pub fn draw_next(&mut self, address: &str) {
        let mut rows = self.cloud.addresses.iter();
        let named = rows.find(|(_, row)| row.id == address || row.address.to_string() == address);
        self.cloud.next_address = named.map(|(key, _)| key);
    }

    /// Chooses the address that the next new interface or secondary address draws, if it is in its
    /// network and free.
    pub fn draw_next_guest(&mut self, address: Ipv4Addr) {
        self.cloud.next_guest_address = Some(address);
    }

    /// Stops a virtual machine, by name or id. It stays a member of its rules and pushes nothing.
    ///
    /// # Errors
    /// If there is none of that name or id.
    pub fn stop_vm(&mut self, vm: &str) -> Result<(), EditError> {
        self.set_state(vm, VmState::Stopped).map(|_| ())
    }

    /// Starts a virtual machine. Nothing is pushed either.
    ///
    /// # Errors
    /// If there is none of that name or id.
    pub fn start_vm(&mut self, vm: &str) -> Result<(), EditError> {
        self.set_state(vm, VmState::Running).map(|_| ())
    }

    /// Destroys a virtual machine: it is hidden, still mapped, and its rules are pushed once
    /// without it.
    ///
    /// # Errors
    /// If there is none of that name or id.
    pub fn destroy_vm(&mut self, vm: &str) -> Result<(), EditError> {
        self.set_state(vm, VmState::Destroyed).map(|_| ())
    }

    /// Removes a virtual machine for good: its mappings end, and its id names nothing any more but
    /// still resolves.
    ///
    /// # Errors
    /// If there is none of that name or id.
    pub fn expunge_vm(&mut self, vm: &str) -> Result<(), EditError> {
        let key = self.vm(vm)?;
        vm_life::expunge(&mut self.cloud, key);
        Ok(())
    }

    /// Gives a virtual machine another name, which is at once its display name too.
    ///
    /// # Errors
    /// If there is none of that name or id.
    pub fn rename_vm(&mut self, vm: &str, name: &str) -> Result<(), EditError> {
        let key = self.vm(vm)?;
        if let Some(row) = self.cloud.vms.get_mut(key) {
            name.clone_into(&mut row.name);
            name.clone_into(&mut row.display_name);
        }
        Ok(())
    }

    /// Moves a virtual machine to another owner, under the same id and with one interface in
    /// another network. Its old owner sees it no more.
    ///
    /// # Errors
    /// If one of them is unknown, or the machine is a member of a rule.
    pub fn move_vm(
        &mut self,
        vm: &str,
        owner: &str,
        network: &str,
        address: &str,
    ) -> Result<(), EditError> {
        let key = self.vm(vm)?;
        let owner = build::owner_named(&self.cloud, "move_vm", owner)?;
        let network = build::network_named(&self.cloud, "move_vm", network)?;
        if !vm_life::rules_of(&self.cloud, key).is_empty() {
            return Err(EditError::IsMember { vm: vm.to_owned() });
        }
        let id = self.cloud.ids.next_id();
        if let Some(row) = self.cloud.vms.get_mut(key) {
            row.owner = owner;
            row.nics.truncate(1);
            for nic in &mut row.nics {
                nic.id.clone_from(&id);
                nic.network = network;
                address.clone_into(&mut nic.address);
                nic.secondary.clear();
                nic.default = true;
            }
        }
        Ok(())
    }

    /// Gives a virtual machine another address in a network. Lists of members show it at once; the
    /// router keeps the old one until the next push of the rule.
    ///
    /// # Errors
    /// If the virtual machine or its interface is unknown.
    pub fn change_vm_address(
        &mut self,
        vm: &str,
        network: &str,
        address: &str,
    ) -> Result<(), EditError> {
        let key = self.vm(vm)?;
        let in_network = build::network_named(&self.cloud, "change_vm_address", network)?;
        let nic = self
            .cloud
            .vms
            .get_mut(key)
            .and_then(|row| row.nics.iter_mut().find(|nic| nic.network == in_network));
        let Some(nic) = nic else {
            return Err(EditError::NoNic { vm: vm.to_owned(), network: network.to_owned() });
        };
        let old = std::mem::replace(&mut nic.address, address.to_owned());
        let mappings = self.cloud.rules.iter_mut().flat_map(|(_, rule)| &mut rule.members);
        for mapping in mappings {
            if (mapping.vm, mapping.network, &mapping.address) == (key, in_network, &old) {
                address.clone_into(&mut mapping.address);
            }
        }
        Ok(())
    }

    /// Gives a network its router: from now on pushes have an effect, and every rule is pushed.
    ///
    /// # Errors
    /// If there is no network of that name or id.
    pub fn implement_network(&mut self, network: &str) -> Result<(), EditError> {
        let key = build::network_named(&self.cloud, "implement_network", network)?;
        vm_life::implement(&mut self.cloud, key);
        Ok(())
    }

    /// Drops what the database of CloudStack holds twice about the members of a rule, as an operator
    /// must do by hand after a removal and an assign of one virtual machine overlapped.
    ///
    /// # Errors
    /// If there is no rule of that id.
    pub fn repair_rule(&mut self, rule: &str) -> Result<(), EditError> {
        let key = self.cloud.rules.find(rule);
        let Some(row) = key.and_then(|key| self.cloud.rules.get_mut(key)) else {
            return Err(EditError::NoRule { rule: rule.to_owned() });
        };
        let mut seen = BTreeSet::new();
        row.members.retain(|mapping| seen.insert((mapping.vm, mapping.address.clone())));
        for mapping in &mut row.members {
            mapping.revoked = false;
        }
        Ok(())
    }

    fn vm(&self, name: &str) -> Result<Key<VirtualMachine>, EditError> {
        Ok(build::vm_named(&self.cloud, "edit", name)?)
    }

    fn set_state(&mut self, vm: &str, state: VmState) -> Result<Key<VirtualMachine>, EditError> {
        let key = self.vm(vm)?;
        vm_life::set_state(&mut self.cloud, key, state);
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    const PUBLIC: &str = "203.0.113.2";

    fn published(vms: &[&str]) -> (Lab, String) {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[("openfirewall", "true")]);
        lab.assign(&rule, vms);
        (lab, rule)
    }

    fn answering(lab: &Lab) -> Vec<String> {
        let reach = lab.reach("192.0.2.1", PUBLIC, 80);
        reach.members.into_iter().map(|member| member.name).collect()
    }

    #[test]
    fn stopped_machines_stay_members_and_destroyed_ones_are_hidden_until_expunged() {
        let (mut lab, rule) = published(&["node-1"]);
        lab.simulator.stop_vm("node-1").unwrap();
        let members = [("id", rule.as_str())];
        assert_eq!(lab.column("listLoadBalancerRuleInstances", &members, "state"), ["Stopped"]);
        let vm = lab.id("listVirtualMachines", "node-1");
        lab.simulator.start_vm("node-1").unwrap();
        assert_eq!(answering(&lab), ["node-1"]);
        lab.simulator.destroy_vm("node-1").unwrap();
        assert_eq!(lab.rows("listLoadBalancerRuleInstances", &members).len(), 0);
        assert_eq!(lab.rows("listLoadBalancerRules", &[("virtualmachineid", &vm)]).len(), 1);
        assert_eq!(lab.listed_rule(&rule)["state"], "Active");
        assert_eq!(lab.rows("listVirtualMachines", &[("id", &vm)]).len(), 0);
        let assign = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        assert!(
            lab.fails("assignToLoadBalancerRule", &assign)
                .1
                .ends_with("Invalid instance id specified")
        );
        lab.simulator.expunge_vm("node-1").unwrap();
        assert_eq!(lab.listed_rule(&rule)["state"], "Add");
        lab.run("removeFromLoadBalancerRule", &assign);
        assert!(lab.simulator.stop_vm("node-1").is_err());
    }

    #[test]
    fn a_new_address_is_listed_at_once_and_known_to_the_router_after_the_next_push() {
        let (mut lab, rule) = published(&["node-1"]);
        lab.simulator.change_vm_address("node-1", "iso", "10.1.1.77").unwrap();
        let rows = lab.rows("listLoadBalancerRuleInstances", &[("id", &rule), ("lbvmips", "true")]);
        assert_eq!(rows[0]["lbvmipaddresses"], serde_json::json!(["10.1.1.77"]));
        assert_eq!(answering(&lab), [""; 0]);
        lab.run("updateLoadBalancerRule", &[("id", &rule), ("name", "push")]);
        assert_eq!(answering(&lab), ["node-1"]);
    }

    #[test]
    fn a_moved_machine_is_gone_for_its_old_owner() {
        let (mut lab, rule) = published(&["node-1"]);
        let stranger = lab.id("listVirtualMachines", "stranger");
        assert!(lab.simulator.move_vm("node-1", "other", "foreign", "10.1.1.50").is_err());
        lab.simulator.move_vm("stranger", "prod", "iso", "10.1.1.50").unwrap();
        assert_eq!(lab.rows("listVirtualMachines", &[("id", &stranger)]).len(), 1);
        lab.assign(&rule, &["stranger"]);
        assert_eq!(lab.by("other").rows("listVirtualMachines", &[]).len(), 0);
    }

    #[test]
    fn machines_come_and_change_their_names() {
        let (mut lab, rule) = published(&["node-1"]);
        let vm = serde_json::json!({"name": "node-9", "owner": "prod", "nics": [{"network": "iso", "address": "10.1.1.19"}]});
        let vm = serde_json::from_value(vm).unwrap();
        let id = lab.simulator.add_vm(&vm).unwrap();
        lab.simulator.rename_vm("node-9", "node-10").unwrap();
        assert_eq!(lab.id("listVirtualMachines", "node-10"), id);
        lab.assign(&rule, &["node-10"]);
        assert_eq!(answering(&lab), ["node-1", "node-10"]);
    }
}
