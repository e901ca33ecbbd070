//! The services of networks and VPCs with their providers and capabilities, as virtual routers
//! offer them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::object::{Field, Object};
use crate::resources::network::Network;
use crate::versions::{Feature, Version};
use crate::world::LbScheme;

/// Services of an isolated network.
pub(crate) const ISOLATED: &[&str] = &[
    "Dhcp",
    "Dns",
    "Firewall",
    "Lb",
    "PortForwarding",
    "SourceNat",
    "StaticNat",
    "UserData",
    "Vpn",
];
/// Services of a shared network.
pub(crate) const SHARED: &[&str] = &["Dhcp", "Dns", "UserData"];
/// Services of a wire of layer 2.
pub(crate) const L2: &[&str] = &[];
/// Services of a VPC tier.
pub(crate) const TIER: &[&str] = &[
    "Dhcp",
    "Dns",
    "Lb",
    "NetworkACL",
    "PortForwarding",
    "SourceNat",
    "StaticNat",
    "UserData",
    "Vpn",
];
/// Services of a VPC.
pub(crate) const VPC: &[&str] = TIER;

/// `SupportedStickinessMethods`: JSON inside a string.
const STICKINESS: &str = r#"[{"methodname":"LbCookie","paramlist":[{"paramname":"cookie-name","required":false,"isflag":false,"description":" "},{"paramname":"mode","required":false,"isflag":false,"description":" "},{"paramname":"nocache","required":false,"isflag":true,"description":" "},{"paramname":"indirect","required":false,"isflag":true,"description":" "},{"paramname":"postonly","required":false,"isflag":true,"description":" "},{"paramname":"domain","required":false,"isflag":false,"description":" "}],"description":"This is loadbalancer cookie based stickiness method."},{"methodname":"AppCookie","paramlist":[{"paramname":"cookie-name","required":false,"isflag":false,"description":" "},{"paramname":"length","required":false,"isflag":false,"description":" "},{"paramname":"holdtime","required":false,"isflag":false,"description":" "},{"paramname":"request-learn","required":false,"isflag":true,"description":" "},{"paramname":"prefix","required":false,"isflag":true,"description":" "},{"paramname":"mode","required":false,"isflag":false,"description":" "}],"description":"This is App session based sticky method. Define session stickiness on an existing application cookie. It can be used only for a specific http traffic"},{"methodname":"SourceBased","paramlist":[{"paramname":"tablesize","required":false,"isflag":false,"description":" "},{"paramname":"expire","required":false,"isflag":false,"description":" "}],"description":"This is source based Stickiness method, it can be used for any type of protocol."}]"#;
const COUNTERS: &str = r#"[{"methodname":"CPU","paramlist":[]},{"methodname":"MEMORY","paramlist":[]},{"methodname":"VIRTUALROUTER","paramlist":[]}]"#;

/// Who serves a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Provider {
    VirtualRouter,
    VpcVirtualRouter,
    InternalLbVm,
}

impl Provider {
    const ALL: [Self; 3] = [Self::VirtualRouter, Self::VpcVirtualRouter, Self::InternalLbVm];

    fn of(network: &Network, service: &str) -> Self {
        match network.offering.lb_scheme {
            LbScheme::Internal if service == "Lb" => Self::InternalLbVm,
            LbScheme::Internal | LbScheme::Public if network.tier.is_some() => {
                Self::VpcVirtualRouter
            }
            LbScheme::Internal | LbScheme::Public => Self::VirtualRouter,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::VirtualRouter => "VirtualRouter",
            Self::VpcVirtualRouter => "VpcVirtualRouter",
            Self::InternalLbVm => "InternalLbVm",
        }
    }
}

/// The JSON of the services that networks usually have, by name, provider and whether `ssl` is
/// offered: most of what a list of networks says, and the same for each.
static TEXTS: LazyLock<BTreeMap<(&'static str, Provider, bool), String>> = LazyLock::new(|| {
    let mut texts = BTreeMap::new();
    for name in [ISOLATED, TIER].into_iter().flatten() {
        for provider in Provider::ALL {
            for ssl in [false, true] {
                texts.insert((*name, provider, ssl), text(name, provider, ssl));
            }
        }
    }
    texts
});

/// `service` of a network: each with its one provider and what the provider can do.
pub(crate) fn of_network(network: &Network, version: &Version) -> Field<'static> {
    let ssl = version.has(Feature::SslOffload);
    let texts = network.services.iter().map(|name| {
        let provider = Provider::of(network, name);
        let known = TEXTS.get(&(name.as_str(), provider, ssl));
        known.map_or_else(
            || Cow::Owned(text(name, provider, ssl)),
            |known| Cow::Borrowed(known.as_str()),
        )
    });
    let texts: Vec<Cow<'_, str>> = texts.collect();
    Field::Json(format!("[{}]", texts.join(",")))
}

fn text(name: &str, provider: Provider, ssl: bool) -> String {
    let capabilities = match provider {
        Provider::InternalLbVm => internal_lb(),
        Provider::VirtualRouter => capabilities(name, false, ssl),
        Provider::VpcVirtualRouter => capabilities(name, true, ssl),
    };
    Object::new()
        .with("name", name)
        .with("provider", providers(&[provider.name()]))
        .with("capability", capabilities)
        .json()
}

/// What machines that balance load inside a VPC can do.
fn internal_lb() -> Field<'static> {
    [
        ("LbSchemes", "Internal"),
        ("SupportedLBIsolation", "dedicated"),
        ("SupportedLbAlgorithms", "roundrobin,leastconn,source"),
        ("SupportedProtocols", "tcp, udp, tcp-proxy"),
    ]
    .into_iter()
    .map(|(name, value)| capability(name, value, false))
    .collect()
}

/// The JSON of the services that VPCs usually have, by name and whether the internal provider
/// balances too.
static VPC_TEXTS: LazyLock<BTreeMap<(&'static str, bool), String>> = LazyLock::new(|| {
    let both = |name: &&'static str| [false, true].map(|internal| (*name, internal));
    let keys = VPC.iter().flat_map(both);
    keys.map(|(name, internal)| ((name, internal), vpc_text(name, internal))).collect()
});

/// `service` of a VPC: names and providers only.
pub(crate) fn of_vpc(services: &[String], internal: bool) -> Field<'static> {
    let texts = services.iter().map(|name| {
        let known = VPC_TEXTS.get(&(name.as_str(), internal));
        known.map_or_else(
            || Cow::Owned(vpc_text(name, internal)),
            |known| Cow::Borrowed(known.as_str()),
        )
    });
    let texts: Vec<Cow<'_, str>> = texts.collect();
    Field::Json(format!("[{}]", texts.join(",")))
}

fn vpc_text(name: &str, internal: bool) -> String {
    let names: &[&str] = if internal && name == "Lb" {
        &["VpcVirtualRouter", "InternalLbVm"]
    } else {
        &["VpcVirtualRouter"]
    };
    Object::new().with("name", name).with("provider", providers(names)).json()
}

fn providers<'a>(names: &[&'a str]) -> Field<'a> {
    names.iter().map(|name| Object::new().with("name", *name)).collect()
}

fn capability(name: &'static str, value: &'static str, choosable: bool) -> Object<'static> {
    Object::new()
        .with("name", name)
        .with("value", value)
        .with("canchooseservicecapability", choosable)
}

fn capabilities(service: &str, in_vpc: bool, ssl: bool) -> Field<'static> {
    // The third part tells whether an offering may choose the capability.
    let known: &'static [(&'static str, &'static str, bool)] = match service {
        "Dhcp" => &[("DhcpAccrossMultipleSubnets", "true", false)],
        "Dns" => &[("AllowDnsSuffixModification", "true", false)],
        "Firewall" => &[
            ("MultipleIps", "true", false),
            ("SupportedEgressProtocols", "tcp,udp,icmp, all", false),
            ("SupportedProtocols", "tcp,udp,icmp", false),
            ("SupportedTrafficDirection", "ingress, egress", false),
            ("TrafficStatistics", "per public ip", false),
        ],
        "Lb" => &[
            ("AutoScaleCounters", COUNTERS, false),
            ("ElasticLb", "false", false),
            ("InlineMode", "false", false),
            ("LbSchemes", "Public", false),
            ("SslTermination", "true", false),
            ("SupportedLBIsolation", "dedicated", true),
            ("SupportedLbAlgorithms", "roundrobin,leastconn,source", false),
            ("SupportedProtocols", "tcp, udp, tcp-proxy, ssl", false),
            ("SupportedStickinessMethods", STICKINESS, false),
            ("VmAutoScaling", "true", false),
        ],
        "NetworkACL" => &[("SupportedProtocols", "tcp,udp,icmp", false)],
        "PortForwarding" => &[("SupportedProtocols", "tcp,udp", false)],
        "SourceNat" => {
            &[("RedundantRouter", "false", true), ("SupportedSourceNatTypes", "peraccount", true)]
        }
        "StaticNat" => &[("AssociatePublicIP", "true", false), ("ElasticIp", "false", false)],
        "Vpn" if in_vpc => {
            &[("SupportedVpnTypes", "pptp,l2tp,ipsec", false), ("VpnTypes", "s2svpn", false)]
        }
        "Vpn" => &[
            ("SupportedVpnTypes", "pptp,l2tp,ipsec", false),
            ("VpnTypes", "remoteaccessvpn", false),
        ],
        _ => &[],
    };
    known
        .iter()
        .filter(|(name, _, _)| ssl || *name != "SslTermination")
        .map(|(name, value, choosable)| {
            let value = if !ssl && service == "Lb" && *name == "SupportedProtocols" {
                "tcp, udp, tcp-proxy"
            } else {
                *value
            };
            capability(name, value, *choosable)
        })
        .collect()
}
