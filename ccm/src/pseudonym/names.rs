//! What names and ids become.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use ccm_core::ids::InvalidId;

/// What a text names. Each kind is numbered for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// An id of CloudStack.
    Id,
    /// The uid of a Service.
    Uid,
    /// A cluster's id or name.
    Cluster,
    /// A namespace.
    Namespace,
    /// A Service.
    Service,
    /// A Node or virtual machine, and each label of a DNS name.
    Host,
    /// A network, VPC or ACL list.
    Network,
    /// A zone.
    Zone,
    /// A service offering.
    Offering,
    /// A load balancer name of a Service that is not there.
    LoadBalancer,
    /// The start of a rule name of the Go controller's fork, for a Service that is not there.
    Fork,
    /// 12 hex digits over something that is not there.
    Digest,
    /// A text without meaning for a plan.
    Text,
}

impl Kind {
    fn pseudonym(self, number: usize) -> String {
        match self {
            Self::Id => format!("{number:08x}-0000-4000-8000-{number:012x}"),
            Self::Uid => format!("{number:08x}-0000-4000-9000-{number:012x}"),
            Self::Cluster => format!("cluster-{number:04}"),
            Self::Namespace => format!("namespace-{number:04}"),
            Self::Service => format!("service-{number:04}"),
            Self::Host => format!("host-{number:04}"),
            Self::Network => format!("network-{number:04}"),
            Self::Zone => format!("zone-{number:04}"),
            Self::Offering => format!("offering-{number:04}"),
            Self::LoadBalancer => format!("af{number:030x}"),
            Self::Fork => format!("K8s_svc_x_x_{number:04}"),
            Self::Digest => format!("{number:012x}"),
            Self::Text => format!("text-{number:04}"),
        }
    }
}

/// Collects texts, then replaces them.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<(Kind, String), Option<String>>,
    counts: BTreeMap<Kind, usize>,
    /// Whether numbers are given.
    pub(super) numbered: bool,
}

impl Names {
    /// First pass: notes the text and gives it back. Second pass: gives its pseudonym. An empty
    /// text tells nothing and stays.
    pub(super) fn take(&mut self, kind: Kind, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let known = self.known.entry((kind, text.to_owned())).or_default();
        if self.numbered && known.is_none() {
            let count = self.counts.entry(kind).or_default();
            *count += 1;
            *known = Some(kind.pseudonym(*count));
        }
        known.clone().unwrap_or_else(|| text.to_owned())
    }

    /// As [`Names::take`], for an id with a type.
    pub(super) fn typed<T>(&mut self, kind: Kind, id: &T) -> Result<T>
    where
        T: Clone + Into<String> + TryFrom<String, Error = InvalidId>,
    {
        let text: String = id.clone().into();
        T::try_from(self.take(kind, &text)).context("a pseudonym is no id (please report this)")
    }

    /// An id of CloudStack.
    pub(super) fn id<T>(&mut self, id: &T) -> Result<T>
    where
        T: Clone + Into<String> + TryFrom<String, Error = InvalidId>,
    {
        self.typed(Kind::Id, id)
    }

    /// An id of CloudStack that may be absent.
    pub(super) fn optional<T>(&mut self, id: Option<&T>) -> Result<Option<T>>
    where
        T: Clone + Into<String> + TryFrom<String, Error = InvalidId>,
    {
        id.map(|id| self.id(id)).transpose()
    }

    /// A host name, label by label, so that a short name stays the start of its long name. Upper
    /// case stays upper case, which matters where names are compared exactly.
    pub(super) fn host(&mut self, name: &str) -> String {
        let labels = name.split('.').map(|label| {
            let pseudonym = self.take(Kind::Host, &label.to_lowercase());
            if label.chars().any(char::is_uppercase) { pseudonym.to_uppercase() } else { pseudonym }
        });
        labels.collect::<Vec<_>>().join(".")
    }

    /// Gives numbers in the order of the texts.
    pub(super) fn number(&mut self) {
        for ((kind, _), pseudonym) in &mut self.known {
            let count = self.counts.entry(*kind).or_default();
            *count += 1;
            *pseudonym = Some(kind.pseudonym(*count));
        }
        self.numbered = true;
    }

    /// Says what a text becomes.
    pub(super) fn fix(&mut self, kind: Kind, text: &str, pseudonym: &str) {
        self.known.insert((kind, text.to_owned()), Some(pseudonym.to_owned()));
    }

    /// Known texts of a kind.
    pub(super) fn known(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let of_kind = self.known.keys().filter(move |(other, _)| *other == kind);
        of_kind.map(|(_, text)| text.as_str())
    }
}
