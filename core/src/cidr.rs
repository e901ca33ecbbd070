//! CIDR lists as people write them and as CloudStack gives them back.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One network in CIDR notation. It keeps its spelling (CloudStack stores host bits as written and
/// compares firewall rules as text) but two spellings of one network are equal.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    text: String,
    network: IpNet,
}

/// A text that is no network in CIDR notation.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "invalid CIDR {text:?}: expected an address and a prefix length, for example `192.0.2.0/24`"
)]
pub struct InvalidCidr {
    /// The text that was found.
    pub text: String,
}

impl Cidr {
    /// Takes `address/prefix`, IPv4 or IPv6, host bits allowed.
    ///
    /// # Errors
    /// [`InvalidCidr`] for anything else, bare addresses and blanks included.
    pub fn parse(text: &str) -> Result<Self, InvalidCidr> {
        let network: IpNet = text.parse().map_err(|_| InvalidCidr { text: text.to_owned() })?;
        Ok(Self { text: text.to_owned(), network: network.trunc() })
    }

    /// As [`Cidr::parse`], but a bare address means itself alone: CloudStack gives such entries back.
    ///
    /// # Errors
    /// [`InvalidCidr`] for anything that is neither.
    pub fn parse_listed(text: &str) -> Result<Self, InvalidCidr> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Self { text: text.to_owned(), network: IpNet::from(address) }),
            Err(_) => Self::parse(text),
        }
    }

    /// The spelling that was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether every address of `other` is one of this network.
    pub fn contains(&self, other: &Self) -> bool {
        self.network.contains(&other.network)
    }

    /// The network without host bits.
    pub fn network(&self) -> IpNet {
        self.network
    }

    /// Whether it is an IPv4 network written with its prefix: the only form that
    /// updateLoadBalancerRule takes in `cidrlist`.
    pub fn is_ipv4_with_prefix(&self) -> bool {
        self.network.addr().is_ipv4() && self.text.contains('/')
    }
}

impl PartialEq for Cidr {
    fn eq(&self, other: &Self) -> bool {
        self.network == other.network
    }
}

impl Eq for Cidr {}

impl PartialOrd for Cidr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cidr {
    fn cmp(&self, other: &Self) -> Ordering {
        self.network.cmp(&other.network)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Cidr {
    type Error = InvalidCidr;
    fn try_from(text: String) -> Result<Self, InvalidCidr> {
        Self::parse_listed(&text)
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.text
    }
}

/// A set of networks. Empty means none; "everybody" is said by [`CidrSet::everybody`] or, for a
/// load balancer rule, by [`Sources::Everybody`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CidrSet(BTreeSet<Cidr>);

impl CidrSet {
    /// 0.0.0.0/0 alone.
    pub fn everybody() -> Self {
        Self::from_iter([Cidr { text: "0.0.0.0/0".to_owned(), network: Ipv4Net::default().into() }])
    }

    /// Splits a list as CloudStack writes it: blanks after a create, commas after an update.
    ///
    /// # Errors
    /// [`InvalidCidr`] for the first entry that is neither a network nor an address.
    pub fn parse_listed(text: &str) -> Result<Self, InvalidCidr> {
        text.split([' ', ',']).filter(|entry| !entry.is_empty()).map(Cidr::parse_listed).collect()
    }

    /// Whether there is no network in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many networks it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The networks, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Cidr> {
        self.0.iter()
    }

    /// Whether this very network is an element (not: lies inside one).
    pub fn has(&self, cidr: &Cidr) -> bool {
        self.0.contains(cidr)
    }

    /// Whether every element is an element of `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether one element contains `cidr`.
    pub fn covers(&self, cidr: &Cidr) -> bool {
        self.0.iter().any(|own| own.contains(cidr))
    }

    /// Whether every element of `other` lies inside one of these.
    pub fn covers_all(&self, other: &Self) -> bool {
        other.iter().all(|cidr| self.covers(cidr))
    }

    /// The elements that `other` lacks.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).cloned().collect())
    }

    /// The elements that `other` has too.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).cloned().collect())
    }

    /// The elements of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).cloned().collect())
    }

    /// The networks that lie inside both sets. Two networks either contain each other or have
    /// nothing in common.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Self {
        let inside = |one: &Self, of: &Self| -> Vec<Cidr> {
            one.iter().filter(|cidr| of.covers(cidr)).cloned().collect()
        };
        inside(self, other).into_iter().chain(inside(other, self)).collect()
    }

    /// The spellings, sorted as text: the form that openings are recorded in.
    pub fn sorted_texts(&self) -> Vec<&str> {
        let mut texts: Vec<&str> = self.0.iter().map(Cidr::text).collect();
        texts.sort_unstable();
        texts
    }

    /// Comma-separated, as the API takes it (`cidrlist`).
    pub fn joined(&self) -> String {
        self.sorted_texts().join(",")
    }
}

impl FromIterator<Cidr> for CidrSet {
    fn from_iter<T: IntoIterator<Item = Cidr>>(cidrs: T) -> Self {
        Self(cidrs.into_iter().collect())
    }
}

impl fmt::Display for CidrSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined())
    }
}

/// Who may use a load balancer rule (`cidrlist`). Absent, empty and 0.0.0.0/0 are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sources {
    /// No restriction.
    #[default]
    Everybody,
    /// These networks only; never empty.
    Only(CidrSet),
}

impl Sources {
    /// Reads a set: an empty one, or one with 0.0.0.0/0 in it, is everybody.
    pub fn from_set(set: CidrSet) -> Self {
        if set.is_empty() || set.covers_all(&CidrSet::everybody()) {
            Self::Everybody
        } else {
            Self::Only(set)
        }
    }

    /// Whether nobody is turned away.
    pub fn is_everybody(&self) -> bool {
        matches!(self, Self::Everybody)
    }

    /// The networks let in, 0.0.0.0/0 for everybody.
    pub fn to_set(&self) -> CidrSet {
        match self {
            Self::Everybody => CidrSet::everybody(),
            Self::Only(set) => set.clone(),
        }
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("everybody"),
            Self::Only(set) => write!(f, "{set}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CidrSet {
        CidrSet::parse_listed(text).unwrap()
    }

    #[test]
    fn c044_every_spelling_of_a_list_reads_the_same() {
        let wanted = set("198.51.100.0/24,192.0.2.7/32");
        for text in [
            "198.51.100.0/24 192.0.2.7/32",
            "192.0.2.7/32,198.51.100.0/24",
            "198.51.100.0/24, 192.0.2.7/32",
            "198.51.100.0/24,198.51.100.0/24,192.0.2.7/32",
            "198.51.100.0/24 192.0.2.7",
        ] {
            assert_eq!(set(text), wanted, "{text}");
        }
        for text in ["", "0.0.0.0/0", " "] {
            assert!(Sources::from_set(set(text)).is_everybody(), "{text:?}");
        }
    }

    #[test]
    fn host_bits_are_kept_in_the_text_and_ignored_in_comparison() {
        let cidr = Cidr::parse("10.1.2.3/8").unwrap();
        assert_eq!(cidr.text(), "10.1.2.3/8");
        assert_eq!(cidr, Cidr::parse("10.0.0.0/8").unwrap());
    }

    #[test]
    fn only_listed_entries_may_be_bare_addresses() {
        assert!(Cidr::parse("198.51.100.0").is_err());
        assert!(Cidr::parse("198.51.100.0/33").is_err());
        assert!(Cidr::parse("*").is_err());
        assert!(!Cidr::parse_listed("198.51.100.7").unwrap().is_ipv4_with_prefix());
        assert!(Cidr::parse("2001:db8::/32").is_ok());
    }

    #[test]
    fn the_overlap_of_two_sets_is_the_narrower_network_of_each_pair() {
        let one = set("10.0.0.0/8,192.0.2.0/24");
        let other = set("10.1.0.0/16,192.0.0.0/16,198.51.100.0/24");
        assert_eq!(one.overlap(&other), set("10.1.0.0/16,192.0.2.0/24"));
        assert_eq!(one.overlap(&set("203.0.113.0/24")), CidrSet::default());
    }

    #[test]
    fn a_network_inside_another_is_covered_but_no_element() {
        let wide = set("10.0.0.0/8");
        let narrow = Cidr::parse("10.1.0.0/16").unwrap();
        assert!(wide.covers(&narrow));
        assert!(!wide.has(&narrow));
    }
}
