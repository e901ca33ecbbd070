//! Sets of source addresses, kept as networks.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A set of IPv4 and IPv6 addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Disjoint, sorted, as few as possible.
    nets: Vec<IpNet>,
}

/// A network, or a bare address as a network of one. Host bits are ignored.
pub(crate) fn parse(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map(|net| net.trunc())
        .ok()
}

impl Sources {
    pub(crate) fn everybody() -> Self {
        Self::of([IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())])
    }

    pub(crate) fn nobody() -> Self {
        Self { nets: Vec::new() }
    }

    pub(crate) fn of(nets: impl IntoIterator<Item = IpNet>) -> Self {
        let nets: Vec<IpNet> = nets.into_iter().collect();
        let mut nets = IpNet::aggregate(&nets);
        nets.sort();
        Self { nets }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.nets.iter().any(|net| net.contains(&address))
    }

    /// What is in both. Two networks are disjoint, or one holds the other.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self::of(self.nets.iter().flat_map(|one| {
            other.nets.iter().filter_map(move |two| {
                if one.contains(two) { Some(*two) } else { two.contains(one).then_some(*one) }
            })
        }))
    }

    /// What is in one of both.
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self::of(self.nets.iter().chain(&other.nets).copied())
    }

    /// What is in this one only.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut left = self.nets.clone();
        for gone in &other.nets {
            left = left.into_iter().flat_map(|net| remainder(net, *gone)).collect();
        }
        Self::of(left)
    }

    pub(crate) fn into_nets(self) -> Vec<IpNet> {
        self.nets
    }
}

/// A network without another: halved until the other is met exactly.
fn remainder(net: IpNet, gone: IpNet) -> Vec<IpNet> {
    if gone.contains(&net) {
        return Vec::new();
    }
    if !net.contains(&gone) {
        return vec![net];
    }
    let halves: Vec<IpNet> = match net {
        IpNet::V4(net) => net
            .subnets(net.prefix_len() + 1)
            .map(|halves| halves.map(IpNet::V4).collect())
            .unwrap_or_default(),
        IpNet::V6(net) => net
            .subnets(net.prefix_len() + 1)
            .map(|halves| halves.map(IpNet::V6).collect())
            .unwrap_or_default(),
    };
    halves.into_iter().flat_map(|half| remainder(half, gone)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_meet_join_and_part() {
        let ten = of(&["10.0.0.0/8"]);
        let inner = of(&["10.1.0.0/16", "192.0.2.0/24"]);
        assert_eq!(ten.and(&inner), of(&["10.1.0.0/16"]));
        assert_eq!(ten.or(&inner), of(&["10.0.0.0/8", "192.0.2.0/24"]));
        let left = ten.without(&inner);
        assert!(left.contains("10.0.255.255".parse().unwrap()));
        assert!(!left.contains("10.1.2.3".parse().unwrap()));
        assert!(left.contains("10.2.0.0".parse().unwrap()));
        assert_eq!(left.or(&of(&["10.1.0.0/16"])), ten);
        assert_eq!(Sources::everybody().without(&Sources::everybody()), Sources::nobody());
    }

    #[test]
    fn bare_addresses_are_networks_of_one() {
        let one = of(&["10.1.2.3", "garbage"]);
        assert!(one.contains("10.1.2.3".parse().unwrap()));
        assert!(!one.contains("10.1.2.4".parse().unwrap()));
        assert!(of(&["10.1.2.3/8"]).contains("10.9.9.9".parse().unwrap()));
    }

    fn of(texts: &[&str]) -> Sources {
        Sources::of(texts.iter().filter_map(|text| parse(text)))
    }
}
