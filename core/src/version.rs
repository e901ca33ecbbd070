//! CloudStack's version, and the few decisions that hang on it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first three parts of `cloudstackversion` (listCapabilities) or `cloud-stack-version` (XML).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// 4 for every release there is.
    pub major: u16,
    /// The release line, for example 22.
    pub minor: u16,
    /// The maintenance release.
    pub patch: u16,
}

impl Version {
    /// A version from its parts.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `4.22`, `4.22.0.0`, `4.22.0.0-SNAPSHOT`. Everything else, `unknown` and `4` included,
    /// is no version.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split('-').next()?;
        let mut parts = numbers.split('.').map(|part| part.parse::<u16>().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        let patch = match parts.next() {
            None => 0,
            Some(part) => part?,
        };
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// How a rule's protocol can be switched between tcp and tcp-proxy (updateLoadBalancerRule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolChange {
    /// One update; the server pushes it (4.22 and later).
    InPlace,
    /// The server stores it but pushes only together with a changed algorithm: update with another
    /// algorithm, then back (4.17.1 to 4.21, and versions that we don't know).
    WithAlgorithm,
    /// The parameter is ignored: delete and create (before 4.17.1).
    Recreate,
}

/// What the server's version decides where it doesn't tell itself. An unknown version never
/// enables a change whose effect has not been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(pub Option<Version>);

impl Features {
    const CIDRS_ON_UPDATE: Version = Version::new(4, 22, 0);
    const PROTOCOL_PUSHED: Version = Version::new(4, 22, 0);
    const PROTOCOL_ON_UPDATE: Version = Version::new(4, 17, 1);
    const CIDRS_ON_CREATE: Version = Version::new(4, 18, 0);
    const FIREWALL_IN_VPC: Version = Version::new(4, 23, 0);
    const DENIED_IS_432: Version = Version::new(4, 18, 0);

    /// Whether `cidrlist` of updateLoadBalancerRule takes effect.
    pub fn edits_rule_sources(self) -> bool {
        self.0.is_some_and(|version| version >= Self::CIDRS_ON_UPDATE)
    }

    /// Whether createLoadBalancerRule takes `cidrlist`; older servers refuse the parameter.
    pub fn restricts_rule_sources(self) -> bool {
        self.0.is_none_or(|version| version >= Self::CIDRS_ON_CREATE)
    }

    /// Whether an update pushes even when its algorithm is left out or unchanged.
    pub fn pushes_without_algorithm(self) -> bool {
        self.0.is_some_and(|version| version >= Self::PROTOCOL_PUSHED)
    }

    /// How the protocol of a rule is switched.
    pub fn protocol_change(self) -> ProtocolChange {
        match self.0 {
            Some(version) if version >= Self::PROTOCOL_PUSHED => ProtocolChange::InPlace,
            Some(version) if version < Self::PROTOCOL_ON_UPDATE => ProtocolChange::Recreate,
            _ => ProtocolChange::WithAlgorithm,
        }
    }

    /// Whether a command that the role denies in so many words may be answered as a wrong key is.
    pub fn denies_as_unauthorized(self) -> bool {
        self.0.is_none_or(|version| version < Self::DENIED_IS_432)
    }

    /// Whether a VPC may have a Firewall service at all.
    pub fn may_filter_in_vpc(self) -> bool {
        self.0.is_none_or(|version| version >= Self::FIREWALL_IN_VPC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c009_version_strings() {
        for text in ["4.22", "4.22.0.0", "4.22.0.0-SNAPSHOT"] {
            assert_eq!(Version::parse(text), Some(Version::new(4, 22, 0)), "{text}");
        }
        assert_eq!(Version::parse("4.15.2.0"), Some(Version::new(4, 15, 2)));
        for text in ["unknown", "", "4", "4.x", "4.x.1", "-", "4.22.y"] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
        assert!(!Features(None).edits_rule_sources());
        for (text, denies) in [("4.17.2.0", true), ("unknown", true), ("4.18.0.0", false)] {
            assert_eq!(Features(Version::parse(text)).denies_as_unauthorized(), denies, "{text}");
        }
    }

    #[test]
    fn protocol_changes_by_release() {
        let change = |text| Features(Version::parse(text)).protocol_change();
        assert_eq!(change("4.17.0.0"), ProtocolChange::Recreate);
        assert_eq!(change("4.17.1.0"), ProtocolChange::WithAlgorithm);
        assert_eq!(change("4.21.0.0"), ProtocolChange::WithAlgorithm);
        assert_eq!(change("unknown"), ProtocolChange::WithAlgorithm);
        assert_eq!(change("4.22.0.0"), ProtocolChange::InPlace);
    }
}
