//! Virtual machines alone, for what is done about Nodes.

use ccm_core::exec::error::CallError;
use ccm_core::ids::VirtualMachineId;
use ccm_core::node::lifecycle::Answer;
use ccm_core::observe::VirtualMachine;

use crate::client::Client;
use crate::command::Command;
use crate::decode::machine::virtual_machine;
use crate::decode::sorted;
use crate::error::is_unknown_id;
use crate::observe::{decoded, machine_details};
use crate::wire::{Runtime, Transport};

const MACHINES: Command = Command::ListVirtualMachines;

impl<T: Transport, R: Runtime> Client<T, R> {
    /// All virtual machines of the account or project.
    ///
    /// # Errors
    /// [`CallError`] if they can't be listed whole.
    pub async fn machines(&self) -> Result<Vec<VirtualMachine>, CallError> {
        let params = self.scoped(None, machine_details());
        let entries = self.list(MACHINES, &params, "virtualmachine").await;
        let entries = entries.map_err(|failure| failure.into_error(MACHINES))?;
        decoded(MACHINES, sorted(&entries, virtual_machine, |machine| &machine.id))
    }

    /// Asks for one machine by id. An id that never existed answers 431, one that is expunged an
    /// empty list (observed); both mean that nobody can see it.
    pub async fn machine(&self, id: &VirtualMachineId) -> Answer {
        let params = self.scoped(None, vec![("id", id.to_string())]);
        match self.list(MACHINES, &params, "virtualmachine").await {
            Ok(entries) => {
                let machines = sorted(&entries, virtual_machine, |machine| &machine.id);
                match decoded(MACHINES, machines) {
                    Ok(machines) => match machines.iter().find(|machine| machine.id == *id) {
                        Some(machine) => Answer::Found(machine.state.clone()),
                        None if machines.is_empty() => Answer::Absent,
                        None => Answer::Failed("another virtual machine was listed".to_owned()),
                    },
                    Err(error) => Answer::Failed(error.to_string()),
                }
            }
            Err(failure) if failure.server().is_some_and(is_unknown_id) => Answer::Absent,
            Err(failure) => Answer::Failed(failure.into_error(MACHINES).to_string()),
        }
    }
}
