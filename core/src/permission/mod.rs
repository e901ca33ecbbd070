//! What the program has to be allowed to do, on both sides: two tables, from which
//! `check-permissions` and `deploy/docs/permissions.md` are made, and against which the manifests
//! are held.
//!
//! | File | Holds |
//! |---|---|
//! | `cloudstack.rs` | commands of the CloudStack API |
//! | `kubernetes.rs` | verbs on resources of the Kubernetes API |
//! | `page.rs` | the reference page |
//! | `report.rs` | what `check-permissions` found out, for people and programs |

pub mod cloudstack;
pub mod kubernetes;
mod page;
pub mod report;

pub use page::markdown;

/// What somebody wants the program to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Be the controller.
    Controller,
    /// Be the controller with `--dry-run`.
    DryRun,
    /// `plan` and `snapshot` of a live cluster.
    Plan,
    /// `apply` to a live cluster.
    Apply,
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Controller, Self::DryRun, Self::Plan, Self::Apply];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::DryRun => "dry-run",
            Self::Plan => "plan",
            Self::Apply => "apply",
        }
    }

    /// Whether it changes anything in CloudStack.
    pub const fn changes_cloud(self) -> bool {
        match self {
            Self::Controller | Self::Apply => true,
            Self::DryRun | Self::Plan => false,
        }
    }

    /// The manifest and the cluster role in it that grant what the task needs in the cluster.
    pub const fn granted_by(self) -> (&'static str, &'static str) {
        match self {
            Self::Controller | Self::Apply => {
                ("deploy/manifests/rbac.yaml", "system:cloud-controller-manager")
            }
            Self::DryRun | Self::Plan => {
                ("deploy/manifests/dry-run.yaml", "system:cloudstack-ccm-dry-run")
            }
        }
    }
}

/// How much depends on a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing works without it.
    Always,
    /// Nothing works without it for Nodes in a tier of a VPC; elsewhere it is not used.
    InVpc,
    /// The rest works without it.
    Optional,
}

impl Need {
    /// The word for it in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Always => "needed",
            Self::InVpc => "needed in a VPC",
            Self::Optional => "optional",
        }
    }
}
