//! A Service as the planner sees it.

use std::fmt;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cidr::{CidrSet, Sources};
use crate::ids::{ServiceKey, ServiceUid};
use crate::model::record::Recorded;
use crate::parse::{ParseErrors, SpecWarning};

/// A Service, whatever its type: what it wants, and what it records.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Namespace and name.
    pub key: ServiceKey,
    /// `metadata.uid`; in manifest mode derived where the file has none.
    pub uid: ServiceUid,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether it wants a load balancer of us.
    pub lifecycle: Lifecycle,
    /// What it wants, or why that can't be read. What it records is read in any case.
    pub spec: Result<LoadBalancerSpec, ParseErrors>,
    /// Annotation `…-address` or `spec.loadBalancerIP`: readable even where the rest of what it
    /// wants is not.
    pub requested_address: Option<Ipv4Addr>,
    /// Annotation `…-keep-ip`: an address of ours stays allocated when the Service leaves it. A value
    /// that can't be read keeps it too.
    pub keeps_address: bool,
    /// What earlier plans wrote on it.
    pub recorded: Recorded,
    /// What is odd about it without making it unusable.
    pub warnings: Vec<SpecWarning>,
}

/// Whether a Service wants a load balancer of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// Type LoadBalancer, no class, not in deletion.
    Wanted,
    /// In deletion.
    Deleting,
    /// Of another type.
    OtherType,
    /// Type LoadBalancer with a class: somebody else's.
    OtherClass,
}

/// What a Service of type LoadBalancer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancerSpec {
    /// In the order of `spec.ports`; never empty; no node port is 0.
    pub ports: Vec<ServicePort>,
    /// From `spec.sessionAffinity`.
    pub algorithm: Algorithm,
    /// Annotation `…-proxy-protocol`.
    pub proxy_protocol: bool,
    /// Annotation `…-source-cidrs`: who may use the load balancer rules.
    pub rule_sources: Sources,
    /// `spec.loadBalancerSourceRanges`: whom the firewall lets in; never empty.
    pub ranges: CidrSet,
    /// Annotation `…-hostname`: published in place of the address.
    pub hostname: Option<String>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// `spec.ports[].name`, empty if it has none.
    pub name: String,
    /// The protocol, or the name of one that no load balancer of CloudStack has.
    pub transport: Result<Transport, String>,
    /// `spec.ports[].port`.
    pub number: u16,
    /// `spec.ports[].nodePort`.
    pub node_port: u16,
}

/// A public port: the unit of rules, openings and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    /// tcp or udp.
    pub transport: Transport,
    /// The public port.
    pub number: u16,
}

impl Port {
    /// Reads `tcp-443`.
    pub fn parse(text: &str) -> Option<Self> {
        let (transport, number) = text.split_once('-')?;
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            _ => return None,
        };
        Some(Self { transport, number: number.parse().ok()? })
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, number } = self;
        write!(f, "{transport}-{number}")
    }
}

/// The transport protocol of a port, as firewall rules and ACL items name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// `tcp`.
    Tcp,
    /// `udp`.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// `protocol` of a load balancer rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleProtocol {
    /// `tcp`.
    Tcp,
    /// `tcp-proxy`: tcp, with the PROXY protocol towards the members.
    TcpProxy,
    /// `udp`.
    Udp,
}

impl RuleProtocol {
    /// The transport that it uses on the wire.
    pub fn transport(self) -> Transport {
        match self {
            Self::Tcp | Self::TcpProxy => Transport::Tcp,
            Self::Udp => Transport::Udp,
        }
    }

    /// Reads `protocol` of listLoadBalancerRules, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "tcp" => Some(Self::Tcp),
            "tcp-proxy" => Some(Self::TcpProxy),
            "udp" => Some(Self::Udp),
            _ => None,
        }
    }
}

impl fmt::Display for RuleProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::TcpProxy => "tcp-proxy",
            Self::Udp => "udp",
        })
    }
}

/// `algorithm` of a load balancer rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// `roundrobin`: `sessionAffinity` `None`.
    RoundRobin,
    /// `source`: `sessionAffinity` `ClientIP`.
    Source,
    /// `leastconn`: no Service can ask for it yet.
    LeastConn,
}

impl Algorithm {
    /// Reads `algorithm` of listLoadBalancerRules, in any case; the server stores what it is given.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "roundrobin" => Some(Self::RoundRobin),
            "source" => Some(Self::Source),
            "leastconn" => Some(Self::LeastConn),
            _ => None,
        }
    }

    /// Some other one: up to 4.21 only a changed algorithm makes the server push a rule.
    #[must_use]
    pub fn another(self) -> Self {
        match self {
            Self::RoundRobin => Self::Source,
            Self::Source | Self::LeastConn => Self::RoundRobin,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RoundRobin => "roundrobin",
            Self::Source => "source",
            Self::LeastConn => "leastconn",
        })
    }
}

/// One entry of `status.loadBalancer.ingress`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ingress {
    /// The public address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// A name in place of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// `VIP` or `Proxy`; only beside `ip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_mode: Option<String>,
}
