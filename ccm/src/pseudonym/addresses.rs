//! What addresses and networks become: bit by bit, each bit turned or not by a keyed hash of the
//! bits before it. Two addresses share as many leading bits as before.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context as _, Result};
use ccm_core::cidr::{Cidr, CidrSet, Sources};
use ipnet::IpNet;
use sha2::{Digest as _, Sha256};

/// See the module.
#[derive(Debug)]
pub(super) struct Addresses {
    key: String,
    old: BTreeSet<IpAddr>,
    new: BTreeSet<IpAddr>,
}

impl Addresses {
    /// Whoever has the key can go back.
    pub(super) fn new(key: &str) -> Self {
        Self { key: key.to_owned(), old: BTreeSet::new(), new: BTreeSet::new() }
    }

    /// Whether an address became one that occurs in the original.
    pub(super) fn collide(&self) -> bool {
        !self.old.is_disjoint(&self.new)
    }

    /// An IPv4 address.
    pub(super) fn v4(&mut self, address: Ipv4Addr) -> Ipv4Addr {
        let bits = self.turned(u128::from(u32::from(address)) << 96, 32, "4") >> 96;
        let new = u32::try_from(bits).map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from);
        self.note(address.into(), new.into());
        new
    }

    /// An IPv6 address.
    pub(super) fn v6(&mut self, address: Ipv6Addr) -> Ipv6Addr {
        let new = Ipv6Addr::from(self.turned(u128::from(address), 128, "6"));
        self.note(address.into(), new.into());
        new
    }

    /// An address of either kind.
    pub(super) fn ip(&mut self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => self.v4(v4).into(),
            IpAddr::V6(v6) => self.v6(v6).into(),
        }
    }

    /// A network or an address as people write it; `None` if it is neither.
    pub(super) fn text(&mut self, text: &str) -> Option<String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(self.ip(address).to_string());
        }
        let net: IpNet = text.parse().ok()?;
        if net.prefix_len() == 0 {
            return Some(net.to_string());
        }
        let mapped = IpNet::new(self.ip(net.addr()), net.prefix_len()).ok()?;
        // Host bits that were not there must not appear.
        let has_host_bits = net.addr() != net.network();
        Some(if has_host_bits { mapped } else { mapped.trunc() }.to_string())
    }

    /// A set of networks.
    pub(super) fn set(&mut self, set: &CidrSet) -> Result<CidrSet> {
        let map = |cidr: &Cidr| {
            let text = self.text(cidr.text()).unwrap_or_else(|| cidr.text().to_owned());
            Cidr::parse_listed(&text).context("a pseudonym is no network (please report this)")
        };
        set.iter().map(map).collect()
    }

    /// The sources of a rule.
    pub(super) fn sources(&mut self, sources: &Sources) -> Result<Sources> {
        Ok(match sources {
            Sources::Everybody => Sources::Everybody,
            Sources::Only(set) => Sources::Only(self.set(set)?),
        })
    }

    fn note(&mut self, old: IpAddr, new: IpAddr) {
        self.old.insert(old);
        self.new.insert(new);
    }

    /// `bits` stand at the left.
    fn turned(&self, bits: u128, width: u32, family: &str) -> u128 {
        let mut turned = bits;
        for position in 0..width {
            let before = if position == 0 { 0 } else { bits >> (128 - position) };
            let mut hash = Sha256::new();
            hash.update(format!("{}/{family}/{position}/{before:x}", self.key));
            let turns = hash.finalize().first().is_some_and(|byte| byte & 1 == 1);
            // The first bit always turns: then few addresses can become one of the others.
            if turns || position == 0 {
                turned ^= 1 << (127 - position);
            }
        }
        turned
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_contained_what_still_does(one: u32, other: u32, prefix in 0_u8..=32) {
            let mut addresses = Addresses::new("key");
            let net = IpNet::new(Ipv4Addr::from(one).into(), prefix).unwrap().trunc();
            let other = IpAddr::from(Ipv4Addr::from(other));
            let mapped: IpNet = addresses.text(&net.to_string()).unwrap().parse().unwrap();
            prop_assert_eq!(mapped.prefix_len(), prefix);
            prop_assert_eq!(mapped.trunc(), mapped);
            prop_assert_eq!(net.contains(&other), mapped.contains(&addresses.ip(other)));
        }
    }

    #[test]
    fn everybody_stays_everybody_and_nonsense_is_none() {
        let mut addresses = Addresses::new("key");
        assert_eq!(addresses.text("0.0.0.0/0").as_deref(), Some("0.0.0.0/0"));
        assert_eq!(addresses.text("::/0").as_deref(), Some("::/0"));
        assert_eq!(addresses.text("10.0.0.0/33"), None);
        assert_ne!(addresses.text("2001:db8::1").as_deref(), Some("2001:db8::1"));
    }
}
