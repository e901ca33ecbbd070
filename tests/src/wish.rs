//! What a Service asks for, drawn at random.

use ccm_core::parse::raw::RawService;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde::{Deserialize, Serialize};

use crate::lab::{annotation, port};

/// What a Service asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wish {
    /// Its ports.
    pub ports: Vec<WantedPort>,
    /// Annotation `proxy-protocol`.
    pub proxy: bool,
    /// Session affinity `ClientIP`.
    pub sticky: bool,
    /// Annotation `source-cidrs`.
    pub rule_sources: Option<Vec<String>>,
    /// `spec.loadBalancerSourceRanges`.
    pub ranges: Vec<String>,
    /// `spec.loadBalancerIP`.
    pub address: Option<String>,
    /// Annotation `hostname`.
    pub hostname: bool,
}

/// A port that a Service asks for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct WantedPort {
    /// The public port.
    pub number: u16,
    /// The node port.
    pub node_port: u16,
    /// No router balances UDP: such a port is refused, and holds nothing else back.
    pub udp: bool,
}

/// Networks of which two either contain each other or have nothing in common.
const NETWORKS: [&str; 6] = [
    "198.51.100.0/24",
    "198.51.100.0/28",
    "198.51.100.1/32",
    "192.0.2.0/24",
    "0.0.0.0/0",
    "203.0.113.128/25",
];

impl Wish {
    /// Makes a Service ask for it, whatever it asked for before.
    pub fn write_on(&self, raw: &mut RawService) {
        let Self { ports, proxy, sticky, rule_sources, ranges, address, hostname } = self;
        raw.service_type = Some("LoadBalancer".to_owned());
        raw.load_balancer_class = None;
        let ports = ports.iter().map(|WantedPort { number, node_port, udp }| {
            let protocol = if *udp { "UDP" } else { "TCP" };
            port(&format!("p{number}"), protocol, (*number).into(), (*node_port).into())
        });
        raw.ports = ports.collect();
        let mut annotate = |key: &str, value: Option<String>| match value {
            Some(value) => _ = raw.annotations.insert(annotation(key), value),
            None => _ = raw.annotations.remove(&annotation(key)),
        };
        annotate("proxy-protocol", proxy.then(|| "true".to_owned()));
        annotate("source-cidrs", rule_sources.as_ref().map(|list| list.join(",")));
        annotate("hostname", hostname.then(|| "lb.example.test".to_owned()));
        raw.session_affinity = Some(if *sticky { "ClientIP" } else { "None" }.to_owned());
        raw.source_ranges.clone_from(ranges);
        raw.load_balancer_ip.clone_from(address);
    }
}

/// Any wish. The addresses that it may name: a free one, and one that a user has.
pub fn wishes() -> impl Strategy<Value = Wish> {
    let ports =
        subsequence(vec![80_u16, 443, 8443], 1..=3).prop_flat_map(|numbers| {
            let udp = proptest::bool::weighted(0.15);
            vec((0_u16..2, udp), numbers.len()).prop_map(move |chosen| {
                let ports = numbers.iter().zip(chosen).enumerate();
                let port = |(place, (number, (node, udp))): (usize, (&u16, (u16, bool)))| {
                    WantedPort { number: *number, node_port: 30080 + node, udp: udp && place > 0 }
                };
                ports.map(port).collect::<Vec<_>>()
            })
        });
    let networks = || subsequence(NETWORKS.map(str::to_owned).to_vec(), 0..=3);
    let addresses = ["203.0.113.30", "203.0.113.50"].map(str::to_owned).to_vec();
    let address = proptest::option::weighted(0.4, select(addresses));
    let sources = proptest::option::of(networks());
    (ports, any::<bool>(), any::<bool>(), sources, networks(), address, any::<bool>()).prop_map(
        |(ports, proxy, sticky, rule_sources, ranges, address, hostname)| Wish {
            ports,
            proxy,
            sticky,
            rule_sources,
            ranges,
            address,
            hostname,
        },
    )
}
