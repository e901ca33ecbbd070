//! Events of the core group: what is told, about what, and when not again.
//!
//! | File | Decides |
//! |---|---|
//! | `mod.rs` | reasons and sentences: one table, those of the Go framework first |
//! | `note.rs` | which notes of a plan or a Node are told, and as what |
//! | `sync.rs` | what is told before and after a plan is executed |
//! | `dry_run.rs` | when a plan that is not executed is told |
//! | `announced.rs` | what still stands and was told already |
//! | `correlate.rs` | what is counted up, folded or dropped instead of created |
//!
//! Reasons, components and sentences of the Go framework are what alerts of users match on.

pub mod announced;
pub mod correlate;
pub mod dry_run;
mod lru;
mod note;
mod reference;
pub mod sync;

pub use note::of_report;
pub use reference::markdown;

use std::collections::BTreeSet;
use std::fmt;

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// `source.component`.
    pub component: Component,
    /// `type`.
    pub kind: Kind,
    /// `reason`.
    pub reason: &'static str,
    /// `message`, at most 1024 bytes.
    pub message: String,
}

impl Event {
    /// What newer event APIs take at most; more than a person reads.
    const LONGEST: usize = 1024;

    fn new(component: Component, kind: Kind, reason: &'static str, message: String) -> Self {
        Self { component, kind, reason, message: shortened(message, Self::LONGEST) }
    }
}

/// At most `limit` bytes, the last of which say that something is missing.
fn shortened(mut text: String, limit: usize) -> String {
    const MORE: &str = "…";
    if text.len() > limit {
        let end = text.floor_char_boundary(limit.saturating_sub(MORE.len()));
        text.truncate(end);
        text.push_str(MORE);
    }
    text
}

/// Which part of the controller tells something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Services.
    Service,
    /// Nodes: initialisation, addresses, labels.
    Node,
    /// Nodes: shutdown, deletion.
    NodeLifecycle,
    /// The process: leader election, credentials.
    Manager,
}

impl Component {
    /// `source.component`, as the Go framework calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service-controller",
            Self::Node => "cloud-node-controller",
            Self::NodeLifecycle => "cloud-node-lifecycle-controller",
            Self::Manager => "cloud-controller-manager",
        }
    }
}

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Worth knowing.
    Normal,
    /// Somebody should do something.
    Warning,
}

impl Kind {
    /// The API's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

macro_rules! occasions {
    ($($(#[$doc:meta])* $component:ident $kind:ident $variant:ident { $($field:ident: $type:ty),* } => $text:literal,)*) => {
        /// An occasion to tell something; its name is the reason.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Occasion {
            $($(#[$doc])* $variant {
                $(#[doc = concat!("The `", stringify!($field), "` of the sentence.")] $field: $type),*
            }),*
        }

        impl Occasion {
            /// The event.
            pub fn event(&self) -> Event {
                match self {
                    $(Self::$variant { $($field: _),* } => Event::new(
                        Component::$component,
                        Kind::$kind,
                        stringify!($variant),
                        self.to_string(),
                    )),*
                }
            }

            /// Every reason with its component, type and sentence, for the reference.
            pub const TABLE: &'static [(&'static str, Component, Kind, &'static str)] =
                &[$((stringify!($variant), Component::$component, Kind::$kind, $text)),*];
        }

        impl fmt::Display for Occasion {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$variant { $($field),* } => write!(f, $text)),* }
            }
        }
    };
}

occasions! {
    /// Work on a load balancer begins.
    Service Normal EnsuringLoadBalancer { } => "Ensuring load balancer",
    /// It is done.
    Service Normal EnsuredLoadBalancer { } => "Ensured load balancer",
    /// No Node is eligible.
    Service Warning UnAvailableLoadBalancer { } => "There are no available nodes for LoadBalancer",
    /// Something failed, or is refused.
    Service Warning SyncLoadBalancerFailed { error: String } => "Error syncing load balancer: {error}",
    /// What a Service that is gone left could not be removed.
    Service Warning DeleteLoadBalancerFailed { error: String } => "Error deleting load balancer: {error}",
    /// The removal of a load balancer begins.
    Service Normal DeletingLoadBalancer { } => "Deleting load balancer",
    /// It is done.
    Service Normal DeletedLoadBalancer { } => "Deleted load balancer",
    /// Members were brought up to date.
    Service Normal UpdatedLoadBalancer { } => "Updated load balancer with new hosts",
    /// That failed.
    Service Warning UpdateLoadBalancerFailed { hosts: Hosts, error: String } => "Error updating load balancer with new hosts {hosts}, error: {error}",
    /// A Node was initialised.
    Node Normal Synced { } => "Node synced successfully",
    /// A Node is deleted.
    NodeLifecycle Normal DeletingNode { node: String } => "Deleting node {node} because it does not exist in the cloud provider",
    /// That failed.
    NodeLifecycle Warning DeletingNodeFailed { node: String, error: String } => "Failed deleting node {node}: {error}",
    /// The Lease came to this process, or left it.
    Manager Normal LeaderElection { identity: String, turn: Turn } => "{identity} {turn}",
    /// What was changed in CloudStack is as before.
    Service Normal DriftRepaired { what: String } => "Put back what somebody changed in CloudStack: {what}",
    /// What was changed in CloudStack is not put back.
    Service Warning DriftFound { what: String } => "Somebody changed something in CloudStack, and it is not put back: {what}",
    /// Somebody removes what we write on the Service.
    Service Warning AnnotationsStripped { times: usize } => "Somebody removed or edited what this controller writes on the Service (finalizer, annotations, status), {times} times within an hour; from now on it is written back once per drift round: find out what does it (`kubectl get --show-managed-fields`) and let it keep what it does not know",
    /// Everything is in order but tags.
    Service Warning TaggingFailed { error: String } => "The load balancer works, but its objects bear no tags: {error}",
    /// Dry run.
    Service Normal PlannedChanges { summary: String } => "Dry run, nothing was changed: {summary}",
    /// Too many Nodes went at once.
    NodeLifecycle Warning NodeDeletionHeld { node: String } => "Node {node} is not deleted though its virtual machine is gone: too many others were deleted within the last minutes; if that is right, it follows by itself",
    /// New credentials are in use.
    Manager Normal CredentialsReplaced { what: String } => "What changed in the cloud-config works and is in use: {what}",
    /// New credentials don't work.
    Manager Warning CredentialsKept { error: String } => "What changed in the cloud-config is not used, and CloudStack is asked as before: {error}",
}

/// Which way the Lease went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// To this process.
    Became,
    /// Away from it.
    Stopped,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Became => "became leader",
            Self::Stopped => "stopped leading",
        })
    }
}

/// Names of Nodes as the Go framework lists them: twenty at most, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    const SHOWN: usize = 20;
}

impl FromIterator<String> for Hosts {
    fn from_iter<T: IntoIterator<Item = String>>(names: T) -> Self {
        Self(names.into_iter().collect())
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(names) = self;
        let mut shown: Vec<&str> = names.iter().map(String::as_str).take(Self::SHOWN).collect();
        let more = format!("<{} more>", names.len().saturating_sub(Self::SHOWN));
        if names.len() > Self::SHOWN {
            shown.push(&more);
        }
        let (shown, total) = (shown.join(" "), names.len());
        write!(f, "[{shown}] [node names limited, total number of nodes: {total}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(occasion: &Occasion) -> (&'static str, &'static str, &'static str, String) {
        let Event { component, kind, reason, message } = occasion.event();
        (component.as_str(), kind.as_str(), reason, message)
    }

    /// Sections 1.5, 2.2, 3 and 5.4 of the contract.
    #[test]
    fn alerts_on_events_of_the_go_framework_go_on_working() {
        let error = || "boom".to_owned();
        let node = || "node-1".to_owned();
        let hosts = ["b", "a"].map(str::to_owned).into_iter().collect();
        let identity = || "host_uuid".to_owned();
        for (occasion, component, kind, reason, message) in [
            (
                Occasion::EnsuringLoadBalancer {},
                "service-controller",
                "Normal",
                "EnsuringLoadBalancer",
                "Ensuring load balancer",
            ),
            (
                Occasion::EnsuredLoadBalancer {},
                "service-controller",
                "Normal",
                "EnsuredLoadBalancer",
                "Ensured load balancer",
            ),
            (
                Occasion::UnAvailableLoadBalancer {},
                "service-controller",
                "Warning",
                "UnAvailableLoadBalancer",
                "There are no available nodes for LoadBalancer",
            ),
            (
                Occasion::SyncLoadBalancerFailed { error: error() },
                "service-controller",
                "Warning",
                "SyncLoadBalancerFailed",
                "Error syncing load balancer: boom",
            ),
            (
                Occasion::DeletingLoadBalancer {},
                "service-controller",
                "Normal",
                "DeletingLoadBalancer",
                "Deleting load balancer",
            ),
            (
                Occasion::DeletedLoadBalancer {},
                "service-controller",
                "Normal",
                "DeletedLoadBalancer",
                "Deleted load balancer",
            ),
            (
                Occasion::UpdatedLoadBalancer {},
                "service-controller",
                "Normal",
                "UpdatedLoadBalancer",
                "Updated load balancer with new hosts",
            ),
            (
                Occasion::UpdateLoadBalancerFailed { hosts, error: error() },
                "service-controller",
                "Warning",
                "UpdateLoadBalancerFailed",
                "Error updating load balancer with new hosts [a b] [node names limited, total \
                 number of nodes: 2], error: boom",
            ),
            (
                Occasion::Synced {},
                "cloud-node-controller",
                "Normal",
                "Synced",
                "Node synced successfully",
            ),
            (
                Occasion::DeletingNode { node: node() },
                "cloud-node-lifecycle-controller",
                "Normal",
                "DeletingNode",
                "Deleting node node-1 because it does not exist in the cloud provider",
            ),
            (
                Occasion::DeletingNodeFailed { node: node(), error: error() },
                "cloud-node-lifecycle-controller",
                "Warning",
                "DeletingNodeFailed",
                "Failed deleting node node-1: boom",
            ),
            (
                Occasion::LeaderElection { identity: identity(), turn: Turn::Became },
                "cloud-controller-manager",
                "Normal",
                "LeaderElection",
                "host_uuid became leader",
            ),
            (
                Occasion::LeaderElection { identity: identity(), turn: Turn::Stopped },
                "cloud-controller-manager",
                "Normal",
                "LeaderElection",
                "host_uuid stopped leading",
            ),
        ] {
            assert_eq!(told(&occasion), (component, kind, reason, message.to_owned()));
        }
    }

    #[test]
    fn no_more_than_twenty_hosts_are_named() {
        let hosts = |count: usize| -> Hosts { (0..count).map(|n| format!("n{n:02}")).collect() };
        assert_eq!(hosts(0).to_string(), "[] [node names limited, total number of nodes: 0]");
        assert!(hosts(20).to_string().contains("n19] [node names limited"));
        let many = hosts(50).to_string();
        assert!(many.contains("n19 <30 more>] [node names limited, total number of nodes: 50]"));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        for text in ["x".repeat(5000), "ü".repeat(5000), "€".repeat(5000)] {
            let message = Occasion::SyncLoadBalancerFailed { error: text }.event().message;
            assert!(message.len() <= 1024 && message.len() > 1015, "{}", message.len());
            assert!(message.ends_with('…'));
        }
        let short = Occasion::Synced {}.event().message;
        assert_eq!(short, "Node synced successfully");
    }

    #[test]
    fn reasons_are_unique() {
        let reasons: BTreeSet<_> = Occasion::TABLE.iter().map(|(reason, ..)| reason).collect();
        assert_eq!(reasons.len(), Occasion::TABLE.len());
    }
}
