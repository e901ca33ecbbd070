//! The virtual machines of a world file, and their sizes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::Deserialize;

use super::Extra;

#[cfg(test)]
use schemars::JsonSchema;

/// Size of a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ServiceOffering {
    /// Its name.
    pub name: String,
    /// Number of CPUs.
    #[serde(default = "defaults::cpus")]
    pub cpus: u32,
    /// Speed of a CPU in MHz.
    #[serde(default = "defaults::speed")]
    pub speed: u32,
    /// Memory in MiB.
    #[serde(default = "defaults::memory")]
    pub memory: u32,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VirtualMachine {
    /// Host name.
    pub name: String,
    /// By default the name.
    #[serde(default)]
    pub display_name: Option<String>,
    /// Account or project.
    pub owner: String,
    /// Its state.
    #[serde(default)]
    pub state: VmState,
    /// Name of a service offering, listed or not.
    #[serde(default)]
    pub offering: Option<String>,
    /// Its interfaces, in the order of their device ids.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Its number in the database, which error texts show; by default after the largest.
    #[serde(default)]
    pub number: Option<u64>,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Further fields of its answers.
    #[serde(default)]
    pub extra: Extra,
}

/// State of a virtual machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub enum VmState {
    /// On its way up.
    Starting,
    /// Up.
    #[default]
    Running,
    /// On its way down.
    Stopping,
    /// Down.
    Stopped,
    /// Up, on its way to another host.
    Migrating,
    /// Removed, may still be recovered; hidden from users.
    Destroyed,
    /// Removed for good.
    Expunging,
    /// Broken.
    Error,
    /// Nobody knows.
    Unknown,
}

impl VmState {
    /// The word in answers.
    pub fn text(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Migrating => "Migrating",
            Self::Destroyed => "Destroyed",
            Self::Expunging => "Expunging",
            Self::Error => "Error",
            Self::Unknown => "Unknown",
        }
    }
}

/// An interface of a virtual machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Nic {
    /// Network or tier.
    pub network: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Further addresses.
    #[serde(default)]
    pub secondary: Vec<Ipv4Addr>,
    /// Whether it is the default one; the first is unless another says so.
    #[serde(default)]
    pub default: bool,
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Further fields of its answers.
    #[serde(default)]
    pub extra: Extra,
}

mod defaults {
    pub(super) fn cpus() -> u32 {
        1
    }

    pub(super) fn speed() -> u32 {
        1000
    }

    pub(super) fn memory() -> u32 {
        1024
    }
}
