//! The addresses of a Node: all NICs, the default one first, always in one order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::model::node::{AddressType, NodeAddress};
use crate::observe::{Nic, VirtualMachine};

/// What a virtual machine gives a Node: the addresses of its NICs (the default one first, then by
/// device; IPv4 before IPv6), the public one of its static NAT, and the Node's own name.
///
/// The machine's `hostname` is the hypervisor's: it is never a Node's.
pub fn of_machine(node: &str, machine: &VirtualMachine) -> Vec<NodeAddress> {
    let mut nics: Vec<&Nic> = machine.nics.iter().collect();
    nics.sort_by_key(|nic| (!nic.default, nic.device));
    let internal = nics.into_iter().flat_map(|nic| {
        let v4 = nic.ipv4.map(IpAddr::V4);
        let v6 = nic.ipv6.map(IpAddr::V6);
        [v4, v6].into_iter().flatten().map(|ip| entry(AddressType::InternalIp, ip.to_string()))
    });
    let external = machine.public_ip.map(|ip| entry(AddressType::ExternalIp, ip.to_string()));
    internal.chain(external).chain([entry(AddressType::Hostname, node)]).collect()
}

fn entry(kind: AddressType, address: impl Into<String>) -> NodeAddress {
    NodeAddress { kind, address: address.into() }
}

/// Why the addresses that kubelet was told to use can't be honoured. Texts are the Go framework's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProvidedIpError {
    /// No address at all.
    #[error("failed to parse node IP {text:?}: could not parse {part:?}")]
    NotAnAddress {
        /// The annotation.
        text: String,
        /// The part that is none.
        part: String,
    },
    /// Too many, or two of one family.
    #[error(
        "failed to parse node IP {0:?}: must contain either a single IP or a dual-stack pair of IPs"
    )]
    NotAPair(String),
    /// 0.0.0.0 or :: in a pair.
    #[error("failed to parse node IP {0:?}: dual-stack node IP cannot include '0.0.0.0' or '::'")]
    Unspecified(String),
    /// The machine does not have it.
    #[error("failed to get node address from cloud provider that matches ip: {0}")]
    NotOfTheMachine(IpAddr),
}

/// Honours kubelet's `--node-ip`: the addresses it names come first, others of the same types go,
/// the rest stays as it is.
///
/// # Errors
/// [`ProvidedIpError`] if the text names no addresses, or one that the machine does not have.
pub fn honour_provided(
    addresses: &[NodeAddress],
    text: &str,
) -> Result<Vec<NodeAddress>, ProvidedIpError> {
    let wanted = parse_provided(text)?;
    let mut honoured: Vec<NodeAddress> = Vec::new();
    for ip in &wanted {
        let same = |found: &&NodeAddress| found.address.parse() == Ok(*ip);
        let before = honoured.len();
        honoured.extend(addresses.iter().filter(same).cloned());
        if honoured.len() == before {
            return Err(ProvidedIpError::NotOfTheMachine(*ip));
        }
    }
    let named: Vec<AddressType> = honoured.iter().map(|found| found.kind.clone()).collect();
    honoured.extend(addresses.iter().filter(|found| !named.contains(&found.kind)).cloned());
    Ok(honoured)
}

/// One address, or an IPv4 and an IPv6 one with a comma in between.
fn parse_provided(text: &str) -> Result<Vec<IpAddr>, ProvidedIpError> {
    let parts: Vec<&str> = text.split(',').collect();
    let ips: Vec<IpAddr> = parts
        .iter()
        .map(|part| {
            parse_leniently(part).ok_or_else(|| ProvidedIpError::NotAnAddress {
                text: text.to_owned(),
                part: (*part).to_owned(),
            })
        })
        .collect::<Result<_, _>>()?;
    match ips.as_slice() {
        [_] => Ok(ips),
        [one, other] if one.is_ipv4() == other.is_ipv4() => {
            Err(ProvidedIpError::NotAPair(text.to_owned()))
        }
        [one, other] if one.is_unspecified() || other.is_unspecified() => {
            Err(ProvidedIpError::Unspecified(text.to_owned()))
        }
        [_, _] => Ok(ips),
        _ => Err(ProvidedIpError::NotAPair(text.to_owned())),
    }
}

/// As Go does, with leading zeros in the numbers of an IPv4 address.
fn parse_leniently(text: &str) -> Option<IpAddr> {
    if let Ok(v6) = text.parse::<Ipv6Addr>() {
        return Some(IpAddr::V6(v6));
    }
    let octets: Vec<&str> = text.split('.').map(significant).collect();
    octets.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

fn significant(octet: &str) -> &str {
    match octet.trim_start_matches('0') {
        "" if !octet.is_empty() => "0",
        digits => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{NetworkId, VirtualMachineId};

    fn nic(address: &str, device: u32, default: bool) -> Nic {
        Nic {
            network: NetworkId::parse("n").unwrap(),
            network_name: "net".into(),
            ipv4: address.parse().ok(),
            ipv6: default.then(|| "2001:db8::11".parse().unwrap()),
            default,
            device,
        }
    }

    fn machine(nics: Vec<Nic>) -> VirtualMachine {
        VirtualMachine {
            id: VirtualMachineId::parse("u1").unwrap(),
            name: "node-1".into(),
            state: "Running".into(),
            zone: "zone-1".into(),
            offering: Some("medium".into()),
            nics,
            public_ip: Some("203.0.113.7".parse().unwrap()),
        }
    }

    fn texts(addresses: &[NodeAddress]) -> Vec<String> {
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn c069_the_order_of_addresses_is_stable() {
        let [stor, app, third] =
            [nic("10.5.0.11", 0, false), nic("10.1.1.11", 1, true), nic("10.9.0.11", 2, false)];
        for nics in [
            vec![stor.clone(), app.clone(), third.clone()],
            vec![third.clone(), stor.clone(), app.clone()],
            vec![app, third, stor],
        ] {
            let found = of_machine("node-1", &machine(nics));
            assert_eq!(
                texts(&found),
                [
                    "InternalIP 10.1.1.11",
                    "InternalIP 2001:db8::11",
                    "InternalIP 10.5.0.11",
                    "InternalIP 10.9.0.11",
                    "ExternalIP 203.0.113.7",
                    "Hostname node-1",
                ]
            );
        }
    }

    #[test]
    fn provided_addresses_come_first_and_others_of_their_type_go() {
        let machine = machine(vec![nic("10.1.1.11", 0, true), nic("10.5.0.11", 1, false)]);
        let all = of_machine("node-1", &machine);
        let honoured = |text: &str| texts(&honour_provided(&all, text).unwrap());
        let rest = ["ExternalIP 203.0.113.7", "Hostname node-1"];
        for text in ["10.5.0.11", "010.05.0.011"] {
            assert_eq!(honoured(text), [&["InternalIP 10.5.0.11"], &rest[..]].concat());
        }
        let pair = ["InternalIP 2001:db8::11", "InternalIP 10.1.1.11"];
        assert_eq!(honoured("2001:db8::11,10.1.1.11"), [&pair[..], &rest[..]].concat());
        let internal = ["InternalIP 10.1.1.11", "InternalIP 2001:db8::11", "InternalIP 10.5.0.11"];
        let external = [&["ExternalIP 203.0.113.7"], &internal[..], &["Hostname node-1"]].concat();
        assert_eq!(honoured("203.0.113.7"), external);
    }

    #[test]
    fn provided_addresses_that_can_not_be_honoured_are_told() {
        let all = of_machine("node-1", &machine(vec![nic("10.1.1.11", 0, true)]));
        for (text, says) in [
            (
                "10.9.9.9",
                "failed to get node address from cloud provider that matches ip: 10.9.9.9",
            ),
            ("0.0.0.0", "failed to get node address from cloud provider that matches ip: 0.0.0.0"),
            ("node-1", r#"failed to parse node IP "node-1": could not parse "node-1""#),
            (
                "10.1.1.11, ::1",
                r#"failed to parse node IP "10.1.1.11, ::1": could not parse " ::1""#,
            ),
            ("", r#"failed to parse node IP "": could not parse """#),
            (
                "10.1.1.11,10.1.1.12",
                r#"failed to parse node IP "10.1.1.11,10.1.1.12": must contain either a single IP or a dual-stack pair of IPs"#,
            ),
            (
                "10.1.1.11,::",
                r#"failed to parse node IP "10.1.1.11,::": dual-stack node IP cannot include '0.0.0.0' or '::'"#,
            ),
        ] {
            assert_eq!(honour_provided(&all, text).unwrap_err().to_string(), says);
        }
    }
}
