//! A cluster in memory, with those manners of an API server that a plan depends on.
//!
//! - A Service in deletion stays as long as a finalizer does, and takes no new one.
//! - Only a Service of type LoadBalancer has a status; a change of type empties it, and takes the
//!   class and, for `ClusterIP`, the node ports along.
//! - An address published without an ipMode gets `VIP`.
//! - A uid is given at creation and never again.
//!
//! Deterministic: uids and node ports are counted.

use std::collections::BTreeMap;

use thiserror::Error;

use ccm_core::ids::{ClusterId, ServiceKey};
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::plan::action::{FinalizerChange, ResolvedPatch};

use crate::manifests::Manifests;
use crate::patch::{annotations_after, finalizers_after, ingress};

/// First port of the range that API servers allocate node ports from.
const FIRST_NODE_PORT: i32 = 30_000;

/// A write that an API server refuses.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ApplyError {
    /// 404.
    #[error("Service {0} does not exist")]
    NotFound(ServiceKey),
    /// 409.
    #[error("Service {0} exists already")]
    AlreadyExists(ServiceKey),
    /// 422.
    #[error("Service {service} is invalid: {why}")]
    Invalid {
        /// The Service.
        service: ServiceKey,
        /// The rule that the write breaks.
        why: &'static str,
    },
}

/// A cluster in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCluster {
    services: BTreeMap<ServiceKey, RawService>,
    nodes: BTreeMap<String, RawNode>,
    created: u64,
    revision: u64,
}

impl MemoryCluster {
    /// A cluster that holds what manifests say.
    ///
    /// # Errors
    /// As [`MemoryCluster::create`].
    pub fn from_manifests(manifests: Manifests) -> Result<Self, ApplyError> {
        let mut cluster = Self::default();
        for service in manifests.services {
            cluster.create(service)?;
        }
        for node in manifests.nodes {
            cluster.set_node(node);
        }
        Ok(cluster)
    }

    /// The Services, by key.
    pub fn services(&self) -> impl Iterator<Item = &RawService> {
        self.services.values()
    }

    /// The Nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &RawNode> {
        self.nodes.values()
    }

    /// One Service.
    pub fn service(&self, key: &ServiceKey) -> Option<&RawService> {
        self.services.get(key)
    }

    /// Counts the writes that changed something.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Creates a Service. It gets a uid if it has none, and node ports where they are missing and
    /// its type has them.
    ///
    /// # Errors
    /// [`ApplyError::AlreadyExists`] if there is one of that key.
    pub fn create(&mut self, mut service: RawService) -> Result<ServiceKey, ApplyError> {
        if service.namespace.is_empty() {
            "default".clone_into(&mut service.namespace);
        }
        let key = ServiceKey::new(service.namespace.as_str(), service.name.as_str());
        if self.services.contains_key(&key) {
            return Err(ApplyError::AlreadyExists(key));
        }
        self.created = self.created.saturating_add(1);
        if service.uid.is_none() {
            service.uid = Some(format!("00000000-0000-4000-8000-{:012x}", self.created));
        }
        self.allocate_node_ports(&mut service);
        self.services.insert(key.clone(), service);
        self.changed();
        Ok(key)
    }

    /// Changes a Service as a person would, by any means: nothing is checked.
    ///
    /// # Errors
    /// [`ApplyError::NotFound`].
    pub fn edit(
        &mut self,
        key: &ServiceKey,
        change: impl FnOnce(&mut RawService),
    ) -> Result<(), ApplyError> {
        change(self.find(key)?);
        self.changed();
        Ok(())
    }

    /// Changes the type of a Service, with what an API server does besides.
    ///
    /// # Errors
    /// [`ApplyError::NotFound`].
    pub fn set_type(&mut self, key: &ServiceKey, service_type: &str) -> Result<(), ApplyError> {
        let mut service = self.find(key)?.clone();
        service.service_type = Some(service_type.to_owned());
        if service_type != "LoadBalancer" {
            service.ingress.clear();
            service.load_balancer_class = None;
            service.source_ranges.clear();
        }
        if service_type == "ClusterIP" {
            for port in &mut service.ports {
                port.node_port = None;
            }
        }
        self.allocate_node_ports(&mut service);
        self.services.insert(key.clone(), service);
        self.changed();
        Ok(())
    }

    /// Deletes a Service: at once if it has no finalizer, else it is in deletion.
    ///
    /// # Errors
    /// [`ApplyError::NotFound`].
    pub fn delete(&mut self, key: &ServiceKey) -> Result<(), ApplyError> {
        self.find(key)?.deleting = true;
        self.changed();
        self.collect(key);
        Ok(())
    }

    /// Takes a Service out, whatever holds it.
    pub fn forget(&mut self, key: &ServiceKey) {
        self.services.remove(key);
        self.changed();
    }

    /// Creates or replaces a Node.
    pub fn set_node(&mut self, node: RawNode) {
        self.nodes.insert(node.name.clone(), node);
        self.changed();
    }

    /// Removes a Node; `false` if there was none.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let removed = self.nodes.remove(name).is_some();
        if removed {
            self.changed();
        }
        removed
    }

    /// Carries out a planned write, all of it or nothing; gives the Service as it is afterwards, or
    /// as it went with its last finalizer.
    ///
    /// # Errors
    /// [`ApplyError`] as an API server would refuse it.
    pub fn apply(
        &mut self,
        patch: &ResolvedPatch,
        cluster: &ClusterId,
    ) -> Result<RawService, ApplyError> {
        let key = &patch.service;
        let before = self.find(key)?.clone();
        let after = patched(before.clone(), patch, cluster)?;
        if after != before {
            self.services.insert(key.clone(), after.clone());
            self.changed();
            self.collect(key);
        }
        Ok(after)
    }

    fn find(&mut self, key: &ServiceKey) -> Result<&mut RawService, ApplyError> {
        self.services.get_mut(key).ok_or_else(|| ApplyError::NotFound(key.clone()))
    }

    fn changed(&mut self) {
        self.revision = self.revision.saturating_add(1);
    }

    /// A Service in deletion goes with its last finalizer.
    fn collect(&mut self, key: &ServiceKey) {
        let gone = |service: &RawService| service.deleting && service.finalizers.is_empty();
        if self.services.get(key).is_some_and(gone) {
            self.services.remove(key);
        }
    }

    /// `allocateLoadBalancerNodePorts` is not modelled: a missing node port is `None`, and a port
    /// that must have none is 0.
    fn allocate_node_ports(&self, service: &mut RawService) {
        let has_node_ports =
            matches!(service.service_type.as_deref(), Some("LoadBalancer" | "NodePort"));
        if !has_node_ports {
            return;
        }
        let others = self.services.values().flat_map(|other| &other.ports);
        let highest =
            others.chain(&service.ports).filter_map(|port| port.node_port).max().unwrap_or(0);
        let mut next = highest.saturating_add(1).max(FIRST_NODE_PORT);
        for port in &mut service.ports {
            if port.node_port.is_none() {
                port.node_port = Some(next);
                next = next.saturating_add(1);
            }
        }
    }
}

fn patched(
    mut service: RawService,
    patch: &ResolvedPatch,
    cluster: &ClusterId,
) -> Result<RawService, ApplyError> {
    let invalid = |why| ApplyError::Invalid { service: patch.service.clone(), why };
    if service.uid.as_deref() != Some(patch.uid.as_str()) {
        return Err(invalid("metadata.uid can't be changed"));
    }
    if let Some(change) = patch.finalizer
        && let Some(list) = finalizers_after(&service.finalizers, change)
    {
        if change == FinalizerChange::Add && service.deleting {
            return Err(invalid("no new finalizers can be added while it is in deletion"));
        }
        service.finalizers = list;
    }
    for (name, text) in annotations_after(patch, cluster) {
        match text {
            Some(text) => service.annotations.insert(name.to_owned(), text),
            None => service.annotations.remove(name),
        };
    }
    if let Some(draft) = &patch.ingress {
        service.ingress = ingress(draft);
        let load_balancer = service.service_type.as_deref() == Some("LoadBalancer");
        if !load_balancer && !service.ingress.is_empty() {
            return Err(invalid("an ingress needs type LoadBalancer"));
        }
        for entry in &mut service.ingress {
            if entry.ip.is_some() && entry.ip_mode.is_none() {
                entry.ip_mode = Some("VIP".to_owned());
            }
        }
    }
    Ok(service)
}

#[cfg(test)]
mod tests {
    use ccm_core::model::record::{FINALIZER, Verdict};
    use ccm_core::parse::raw::RawServicePort;
    use ccm_core::parse::{self, ParseContext};
    use ccm_core::plan::action::{IngressDraft, IpMode, PatchService};

    use super::*;
    use ccm_core::plan::action::Edit;

    use crate::patch::tests::{UID, address, cluster, draft, nothing};

    fn web() -> RawService {
        RawService {
            namespace: "shop".into(),
            name: "web".into(),
            uid: Some(UID.into()),
            service_type: Some("LoadBalancer".into()),
            ports: vec![RawServicePort { port: 80, ..RawServicePort::default() }],
            ..RawService::default()
        }
    }

    fn with_web() -> (MemoryCluster, ServiceKey) {
        let mut cluster = MemoryCluster::default();
        let key = cluster.create(web()).unwrap();
        (cluster, key)
    }

    fn served() -> ResolvedPatch {
        PatchService {
            finalizer: Some(FinalizerChange::Add),
            verdict: Edit::Set(Verdict::Ours),
            record: Edit::Set(draft()),
            ingress: Some(IngressDraft::Address { address: address(), ip_mode: IpMode::Vip }),
            ..nothing()
        }
    }

    #[test]
    fn what_is_written_is_read_back_by_the_core_and_a_repeat_changes_nothing() {
        let (mut memory, key) = with_web();
        memory.apply(&served(), &cluster()).unwrap();
        let context = ParseContext { cluster_id: cluster() };
        let desired = parse::desired(memory.services(), memory.nodes(), &context);
        let service = &desired.services[&key];
        assert!(service.spec.is_ok() && service.warnings.is_empty());
        assert!(service.recorded.finalizer && service.recorded.record.is_some());
        assert_eq!(service.recorded.verdict, Some(Verdict::Ours));
        let revision = memory.revision();
        memory.apply(&served(), &cluster()).unwrap();
        assert_eq!(memory.revision(), revision);
    }

    #[test]
    fn a_service_in_deletion_goes_with_its_last_finalizer() {
        let (mut memory, key) = with_web();
        memory.apply(&served(), &cluster()).unwrap();
        memory.delete(&key).unwrap();
        assert!(memory.service(&key).unwrap().deleting);
        let leave = PatchService { finalizer: Some(FinalizerChange::Remove), ..nothing() };
        memory.apply(&leave, &cluster()).unwrap();
        assert_eq!(memory.service(&key), None);
        assert_eq!(memory.apply(&leave, &cluster()), Err(ApplyError::NotFound(key.clone())));
        let another = RawService { uid: None, ..web() };
        assert_eq!(memory.create(another), Ok(key.clone()));
        let uid = memory.service(&key).unwrap().uid.clone();
        assert_eq!(uid.as_deref(), Some("00000000-0000-4000-8000-000000000002"));
        let refused = memory.apply(&served(), &cluster());
        assert!(matches!(refused, Err(ApplyError::Invalid { .. })), "planned for the first one");
    }

    #[test]
    fn a_service_in_deletion_takes_no_finalizer_and_keeps_foreign_ones() {
        let (mut memory, key) = with_web();
        memory.edit(&key, |service| service.finalizers.push("foreign/x".into())).unwrap();
        memory.delete(&key).unwrap();
        let refused = memory.apply(&served(), &cluster());
        assert!(matches!(refused, Err(ApplyError::Invalid { .. })), "{refused:?}");
        assert!(memory.service(&key).unwrap().annotations.is_empty());
    }

    #[test]
    fn a_change_of_type_empties_the_status_and_a_later_status_is_refused() {
        let (mut memory, key) = with_web();
        memory.apply(&served(), &cluster()).unwrap();
        memory.set_type(&key, "ClusterIP").unwrap();
        let service = memory.service(&key).unwrap();
        assert!(service.ingress.is_empty());
        assert_eq!(service.finalizers, [FINALIZER]);
        assert_eq!(service.ports[0].node_port, None);
        assert!(memory.apply(&served(), &cluster()).is_err());
        memory.set_type(&key, "LoadBalancer").unwrap();
        assert_eq!(memory.service(&key).unwrap().ports[0].node_port, Some(30_000));
    }

    #[test]
    fn node_ports_differ_and_a_port_that_has_none_keeps_none() {
        let (mut memory, _) = with_web();
        let mut other = web();
        other.name = "api".into();
        other.ports.push(RawServicePort {
            port: 81,
            node_port: Some(0),
            ..RawServicePort::default()
        });
        let key = memory.create(other).unwrap();
        let ports: Vec<_> =
            memory.service(&key).unwrap().ports.iter().map(|port| port.node_port).collect();
        assert_eq!(ports, [Some(30_001), Some(0)]);
    }

    #[test]
    fn nodes_come_and_go() {
        let mut memory = MemoryCluster::default();
        memory.set_node(RawNode { name: "node-1".into(), ..RawNode::default() });
        assert_eq!(memory.nodes().count(), 1);
        assert!(memory.remove_node("node-1"));
        assert!(!memory.remove_node("node-1"));
    }
}
