//! What is told about a Node, with stable codes.

use std::fmt;

use crate::ids::VirtualMachineId;
use crate::node::address::ProvidedIpError;

/// Something to tell about a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNote {
    /// No virtual machine could be it: it stays tainted.
    WithoutMachine,
    /// Several could be it.
    Ambiguous(Vec<VirtualMachineId>),
    /// Its provider id names a machine that is gone; another one serves.
    ProviderIdStale {
        /// What the provider id says.
        stale: VirtualMachineId,
        /// The machine that has its name and address.
        machine: VirtualMachineId,
    },
    /// What kubelet was told to use is not there.
    ProvidedIpInvalid(ProvidedIpError),
    /// An initialised Node lacks labels that CloudStack could tell. They are not added: that would
    /// change the topology of running workloads.
    LabelMissing(&'static str),
}

impl NodeNote {
    /// Every code, for the reference.
    pub const CODES: &'static [&'static str] = &[
        "NodeWithoutMachine",
        "NodeAmbiguous",
        "ProviderIDStale",
        "ProvidedNodeIPInvalid",
        "NodeLabelMissing",
    ];

    /// Its stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::WithoutMachine => "NodeWithoutMachine",
            Self::Ambiguous(_) => "NodeAmbiguous",
            Self::ProviderIdStale { .. } => "ProviderIDStale",
            Self::ProvidedIpInvalid(_) => "ProvidedNodeIPInvalid",
            Self::LabelMissing(_) => "NodeLabelMissing",
        }
    }
}

impl fmt::Display for NodeNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutMachine => f.write_str(
                "no virtual machine that we can see is it, neither by its providerID nor by its \
                 name; set the providerID if the machine is called otherwise",
            ),
            Self::Ambiguous(candidates) => {
                let ids: Vec<&str> = candidates.iter().map(VirtualMachineId::as_str).collect();
                let ids = ids.join(" ");
                write!(f, "it could be any of the virtual machines {ids}; set its providerID")
            }
            Self::ProviderIdStale { stale, machine } => write!(
                f,
                "its providerID names virtual machine {stale}, which is gone; {machine} has its \
                 name and address and serves in its place: delete the Node object to renew it"
            ),
            Self::ProvidedIpInvalid(error) => write!(f, "provided node ip is not valid: {error}"),
            Self::LabelMissing(key) => write!(
                f,
                "label {key} is missing; it is not added to a Node that is in use, since that \
                 would change where its workloads count as running"
            ),
        }
    }
}
