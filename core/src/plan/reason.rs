//! Why a step is planned, and what it costs the Service's users.
//!
//! Codes are `UpperCamelCase` and never re-used: the same word stands in plans, events and metrics.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cidr::Sources;
use crate::model::service::{Algorithm, RuleProtocol};

/// What users of the Service notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disruption {
    /// Nothing.
    None,
    /// The router reloads its balancer; established connections normally survive.
    Reload,
    /// Connections to this port are cut.
    Cut,
    /// The Service gets another address.
    AddressChange,
}

impl Disruption {
    /// The letter behind each line of a plan.
    pub fn letter(self) -> char {
        match self {
            Self::None => 'n',
            Self::Reload => 'r',
            Self::Cut => 'c',
            Self::AddressChange => 'a',
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $({ $($field:ident: $type:ty),* })? => $text:literal,)*) => {
        /// Why a step is planned.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $variant $({
                $(#[doc = concat!("The `", stringify!($field), "` of the sentence.")] $field: $type),*
            })?),*
        }

        impl Reason {
            /// Its stable code.
            pub fn code(&self) -> &'static str {
                match self { $(Self::$variant $({ $($field: _),* })? => stringify!($variant)),* }
            }

            /// Every code with its sentence, for the reference.
            pub const CODES: &'static [(&'static str, &'static str)] =
                &[$((stringify!($variant), $text)),*];
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),* })? => write!(f, $text)),*
                }
            }
        }
    };
}

reasons! {
    /// An address is needed.
    AddressMissing => "the Service has no address yet",
    /// The requested address is free.
    AddressRequested { address: std::net::Ipv4Addr } => "the Service asks for {address}, which is free",
    /// The intent must be on the Service before the call.
    IntentBeforeAddress => "the intent is written before the call, so that a crash leaves a witness",
    /// The record must be on the Service before anything uses the address.
    RecordBeforeUse => "what the next steps rely on is recorded before they run",
    /// A record is brought up to date.
    RecordDiffers => "the record on the Service does not say what is there",
    /// Somebody removed or edited it.
    WrittenBack => "somebody removed or edited what was written on the Service: it is written back as it was",
    /// The verdict on a shared address goes over.
    AddressHandedOver => "a Service that goes hands this address over, since it is asked for here too",
    /// What another controller left is taken over.
    Adopted => "taken over from another controller as it is",
    /// A port has no rule.
    PortWithoutRule { port: u16 } => "port {port} has no rule on this address",
    /// The protocol differs.
    ProtocolDiffers { found: RuleProtocol, wanted: RuleProtocol } => "protocol is {found}, wanted is {wanted}",
    /// The algorithm differs.
    AlgorithmDiffers { found: String, wanted: Algorithm } => "algorithm is {found}, wanted is {wanted}",
    /// Name or description differ.
    NameDiffers { found: String } => "the rule is called {found:?}",
    /// The rule's own source list differs and can be edited.
    SourcesDiffer { found: Sources, wanted: Sources } => "sources are {found}, wanted are {wanted}",
    /// The rule's own source list differs and this server can't edit it.
    SourcesCannotBeEdited { found: Sources, wanted: Sources } => "sources are {found}, wanted are {wanted}; this CloudStack can't edit them in place (4.22 can, for IPv4 networks)",
    /// The protocol can't be edited on this server.
    ProtocolCannotBeEdited { found: RuleProtocol, wanted: RuleProtocol } => "protocol is {found}, wanted is {wanted}; this CloudStack can't edit it (4.17.1 can)",
    /// The private port can't be edited anywhere.
    NodePortDiffers { found: u16, wanted: u16 } => "node port is {found}, wanted is {wanted}; CloudStack can't edit it",
    /// Members are mapped but were never pushed.
    PushOwed => "members are mapped but the router was never told",
    /// First half of an edit that old servers push only with a changed algorithm.
    PushNeedsAlgorithm => "up to 4.21 the router is told only when the algorithm changes",
    /// Nodes are no members yet.
    MembersMissing { count: usize } => "nodes that are not members yet: {count}",
    /// VMs are members without standing for an eligible node.
    MembersStale { count: usize } => "members that stand for no eligible node: {count}",
    /// A wanted source can't come in.
    PortClosed => "the port is not open to these sources",
    /// Sources can come in that are not wanted.
    OpenTooWide => "the port is open to sources that are not wanted",
    /// A firewall rule is part of a group of which one source goes.
    Regrouped => "these sources stay; their firewall rule also let others in and can't be edited",
    /// Somebody edited an ACL item of ours.
    OpeningEdited => "somebody edited this item of ours; a right one takes its place",
    /// A firewall rule is contained in a wider one.
    OpenTwice => "a wider opening lets these sources in too",
    /// The port is no longer wanted.
    PortRemoved { port: u16 } => "port {port} is no longer wanted",
    /// The object was left half deleted.
    DeletionUnfinished => "an earlier deletion was not finished",
    /// The Service moves to another address.
    AddressReplaced => "the Service has moved to another address",
    /// The Service is being deleted.
    ServiceDeleted => "the Service is being deleted",
    /// The Service is not of type LoadBalancer any more.
    TypeChanged => "the Service is no longer of type LoadBalancer, or of another class",
    /// The address is released.
    AddressUnneeded => "the address was associated for this Service and nothing needs it any more",
    /// An address that an associate left half-made.
    AssociateUnfinished => "an associate call failed and left the address half-made",
    /// The fresh read before a release.
    ReleaseNeedsProof => "an address is released only if a fresh read finds nothing on it",
    /// Status has to be published.
    StatusDiffers => "the status does not say where the Service is served",
    /// Something of ours bears no tag.
    TagsMissing => "ownership-tags is on and these objects bear no tag of ours yet",
    /// Everything is gone.
    NothingLeft => "nothing of the Service is left in CloudStack",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_sentences_follow_the_style() {
        let codes: std::collections::BTreeSet<_> =
            Reason::CODES.iter().map(|(code, _)| code).collect();
        assert_eq!(codes.len(), Reason::CODES.len());
        for (code, text) in Reason::CODES {
            assert!(!text.ends_with('.'), "{code}");
            assert!(!text.starts_with(char::is_uppercase), "{code}");
        }
    }
}
