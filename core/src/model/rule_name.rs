//! Names of load balancer rules: ours, and those of the controllers before us.
//!
//! A name proves nothing by itself. It tells whose a rule claims to be.

use crate::ids::ServiceUid;
use crate::model::service::{Port, RuleProtocol};

/// `a` + the uid without dashes, cut to 32 characters: what every provider of the Go framework
/// calls a load balancer.
pub fn load_balancer_name(uid: &ServiceUid) -> String {
    let mut name = String::from("a");
    name.extend(uid.as_str().chars().filter(|c| *c != '-'));
    name.chars().take(32).collect()
}

/// The name of a rule: `<lb>-<protocol>-<port>`.
pub fn rule_name(uid: &ServiceUid, protocol: RuleProtocol, port: u16) -> String {
    format!("{}-{protocol}-{port}", load_balancer_name(uid))
}

/// What the name of a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// `<lb>-<protocol>-<port>` of ours and of the Go controller.
    Controller {
        /// The Service's load balancer name.
        load_balancer: String,
        /// The protocol in the name.
        protocol: RuleProtocol,
    },
    /// `<lb>-<port>` of the provider that was once part of Kubernetes.
    InTree {
        /// The Service's load balancer name.
        load_balancer: String,
    },
    /// `K8s_svc_<cluster>_<namespace>_<name>-<protocol>-<port>` of the Go controller's fork.
    Fork {
        /// Everything before the protocol.
        prefix: String,
    },
    /// Something else.
    Other,
}

/// Reads the name of a rule that serves `port`.
pub fn read(name: &str, port: u16) -> NamedBy {
    let Some(stem) = name.strip_suffix(&format!("-{port}")) else {
        return NamedBy::Other;
    };
    let (base, protocol) = split_protocol(stem);
    match protocol {
        Some(_) if base.starts_with("K8s_svc_") => NamedBy::Fork { prefix: base.to_owned() },
        Some(protocol) if is_load_balancer_name(base) => {
            NamedBy::Controller { load_balancer: base.to_owned(), protocol }
        }
        None if is_load_balancer_name(base) => NamedBy::InTree { load_balancer: base.to_owned() },
        _ => NamedBy::Other,
    }
}

/// The start of the fork's rule names for one Service.
pub fn fork_prefix(cluster: &str, namespace: &str, name: &str) -> String {
    format!("K8s_svc_{cluster}_{namespace}_{name}")
}

/// The port as it stands in marks and records: `tcp-443`. Proxy protocol makes no difference: the
/// transport stays tcp.
pub fn port_text(port: Port) -> String {
    format!("{}-{}", port.transport, port.number)
}

fn split_protocol(stem: &str) -> (&str, Option<RuleProtocol>) {
    for (suffix, protocol) in [
        ("-tcp-proxy", RuleProtocol::TcpProxy),
        ("-tcp", RuleProtocol::Tcp),
        ("-udp", RuleProtocol::Udp),
    ] {
        if let Some(base) = stem.strip_suffix(suffix) {
            return (base, Some(protocol));
        }
    }
    (stem, None)
}

fn is_load_balancer_name(text: &str) -> bool {
    text.len() == 32
        && text.strip_prefix('a').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let uid = ServiceUid::parse("6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f").unwrap();
        let lb = "a6f1c2a305b7e4c119d021a2b3c4d5e6";
        assert_eq!(load_balancer_name(&uid), lb);
        for protocol in [RuleProtocol::Tcp, RuleProtocol::TcpProxy, RuleProtocol::Udp] {
            let named = read(&rule_name(&uid, protocol, 443), 443);
            assert_eq!(named, NamedBy::Controller { load_balancer: lb.to_owned(), protocol });
        }
        assert_eq!(read(&format!("{lb}-80"), 80), NamedBy::InTree { load_balancer: lb.to_owned() });
        assert_eq!(
            read("K8s_svc_kubernetes_default_a-b-tcp-80", 80),
            NamedBy::Fork { prefix: fork_prefix("kubernetes", "default", "a-b") }
        );
    }

    #[test]
    fn a_name_for_another_port_or_by_hand_says_nothing() {
        for name in ["web", "a6f1c2a305b7e4c119d021a2b3c4d5e6-tcp-80", "", "-443", "api-tcp-443"] {
            assert_eq!(read(name, 443), NamedBy::Other, "{name:?}");
        }
    }
}
