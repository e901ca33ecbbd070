//! Services and Nodes.

use std::collections::BTreeMap;

use anyhow::Result;
use ccm_core::ids::ServiceKey;
use ccm_core::model::node::ProviderId;
use ccm_core::model::record::FINALIZER;
use ccm_core::model::service::Ingress;
use ccm_core::parse::annotations::{self, STANDARD_SOURCE_RANGES};
use ccm_core::parse::provider_id;
use ccm_core::parse::raw::{RawNode, RawService, RawServicePort};

use super::Pass;
use super::names::Kind;
use crate::ports::Objects;

/// Words for which a value that is wrong stands in.
const WRONG: &str = "(not what is expected)";
/// Labels and taints of Nodes that planning looks at.
const NODE_LABELS: [&str; 1] = ["node.kubernetes.io/exclude-from-external-load-balancers"];
const NODE_TAINTS: [&str; 1] = ["ToBeDeletedByClusterAutoscaler"];

/// Namespace and name, as the parser has them.
pub(super) fn key(service: &RawService) -> ServiceKey {
    let namespace = if service.namespace.is_empty() { "default" } else { &service.namespace };
    ServiceKey::new(namespace, service.name.as_str())
}

impl Pass {
    pub(super) fn objects(&mut self, objects: &Objects) -> Result<Objects> {
        let Objects { services, nodes, stripped: _ } = objects;
        let services = services.iter().map(|raw| self.service(raw)).collect::<Result<_>>()?;
        Ok(Objects::new(services, nodes.iter().map(|raw| self.node(raw)).collect()))
    }

    pub(super) fn service_key(&mut self, key: &ServiceKey) -> ServiceKey {
        let ServiceKey { namespace, name } = key;
        ServiceKey::new(
            self.names.take(Kind::Namespace, namespace),
            self.names.take(Kind::Service, name),
        )
    }

    fn service(&mut self, raw: &RawService) -> Result<RawService> {
        let RawService {
            namespace: _,
            name: _,
            uid,
            creation_timestamp,
            deleting,
            finalizers,
            annotations,
            service_type,
            load_balancer_class,
            load_balancer_ip,
            source_ranges,
            session_affinity,
            ip_families,
            ports,
            ingress,
        } = raw;
        let ServiceKey { namespace, name } = self.service_key(&key(raw));
        let mut kept = BTreeMap::new();
        for (key, value) in annotations {
            if let Some(value) = self.annotation(key, value)? {
                kept.insert(key.clone(), value);
            }
        }
        let finalizer = |text: &String| match text.as_str() {
            FINALIZER => text.clone(),
            other => self.names.take(Kind::Text, other),
        };
        Ok(RawService {
            namespace,
            name,
            finalizers: finalizers.iter().map(finalizer).collect(),
            uid: uid.as_ref().map(|uid| self.names.take(Kind::Uid, uid)),
            creation_timestamp: *creation_timestamp,
            deleting: *deleting,
            annotations: kept,
            service_type: service_type.clone(),
            load_balancer_class: load_balancer_class
                .as_ref()
                .map(|class| self.names.take(Kind::Text, class)),
            load_balancer_ip: load_balancer_ip.as_ref().map(|text| self.address(text)),
            source_ranges: source_ranges.iter().map(|text| self.address(text)).collect(),
            session_affinity: session_affinity.clone(),
            ip_families: ip_families.clone(),
            ports: ports.iter().map(|port| self.port(port)).collect(),
            ingress: ingress.iter().map(|entry| self.ingress(entry)).collect(),
        })
    }

    /// `None`: planning does not look at it. An unknown key under our prefix is warned of, so its
    /// key stays.
    fn annotation(&mut self, key: &str, value: &str) -> Result<Option<String>> {
        Ok(Some(match key {
            annotations::PROXY_PROTOCOL | annotations::VERDICT => match value {
                "" | "true" | "false" => value.to_owned(),
                _ => WRONG.to_owned(),
            },
            annotations::HOSTNAME => self.hostname(value),
            annotations::SOURCE_CIDRS | STANDARD_SOURCE_RANGES => {
                let entries = value.split(',').map(|entry| self.padded(entry));
                entries.collect::<Vec<_>>().join(",")
            }
            annotations::ADDRESS => self.address(value),
            annotations::INTENT => self.intents(value)?,
            annotations::RECORD => self.record(value)?,
            annotations::FORK_ID | annotations::FORK_NETWORK_ID => self.names.take(Kind::Id, value),
            other if other.starts_with(annotations::PREFIX) => self.names.take(Kind::Text, value),
            _ => return Ok(None),
        }))
    }

    fn padded(&mut self, entry: &str) -> String {
        let inner = entry.trim();
        let mapped = self.address(inner);
        if inner.is_empty() { entry.to_owned() } else { entry.replace(inner, &mapped) }
    }

    /// An address or network; what is neither stays neither.
    fn address(&mut self, text: &str) -> String {
        match self.addresses.text(text) {
            Some(mapped) => mapped,
            None if text.is_empty() => String::new(),
            None => WRONG.to_owned(),
        }
    }

    /// A name that is none stays none.
    fn hostname(&mut self, text: &str) -> String {
        let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
        if is_name { self.names.host(text) } else { WRONG.to_owned() }
    }

    fn port(&mut self, port: &RawServicePort) -> RawServicePort {
        let RawServicePort { name, protocol, port, node_port } = port;
        RawServicePort {
            name: name.as_ref().map(|name| self.names.take(Kind::Text, name)),
            protocol: protocol.clone(),
            port: *port,
            node_port: *node_port,
        }
    }

    fn ingress(&mut self, ingress: &Ingress) -> Ingress {
        let Ingress { ip, hostname, ip_mode } = ingress;
        Ingress {
            ip: ip.as_ref().map(|text| self.address(text)),
            hostname: hostname.as_ref().map(|name| self.names.host(name)),
            ip_mode: ip_mode.clone(),
        }
    }

    fn node(&mut self, raw: &RawNode) -> RawNode {
        let RawNode {
            name,
            deleting,
            labels,
            provider_id,
            taints,
            addresses,
            uid,
            creation_timestamp,
            ready,
            provided_node_ip,
        } = raw;
        let labels = labels.iter().filter(|(key, _)| NODE_LABELS.contains(&key.as_str()));
        let taints = taints.iter().filter(|key| NODE_TAINTS.contains(&key.as_str()));
        let address = |(kind, text): &(String, String)| {
            let mapped = self.addresses.text(text);
            (kind.clone(), mapped.unwrap_or_else(|| self.names.host(text)))
        };
        RawNode {
            addresses: addresses.iter().map(address).collect(),
            name: self.names.host(name),
            deleting: *deleting,
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            provider_id: provider_id.as_ref().map(|text| self.provider_id(text)),
            taints: taints.cloned().collect(),
            uid: uid.as_ref().map(|uid| self.names.take(Kind::Uid, uid)),
            creation_timestamp: *creation_timestamp,
            ready: ready.clone(),
            provided_node_ip: provided_node_ip.as_ref().map(|text| self.node_ips(text)),
        }
    }

    /// One address, or two with a comma in between.
    fn node_ips(&mut self, text: &str) -> String {
        let texts: Vec<String> = text.split(',').map(|text| self.address(text)).collect();
        texts.join(",")
    }

    fn provider_id(&mut self, text: &str) -> String {
        match provider_id(text) {
            ProviderId::None => String::new(),
            ProviderId::CloudStack(id) => {
                format!("external-cloudstack://{}", self.names.take(Kind::Id, id.as_str()))
            }
            ProviderId::Foreign(text) => format!("other://{}", self.names.take(Kind::Text, &text)),
        }
    }
}
