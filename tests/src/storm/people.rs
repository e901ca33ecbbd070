//! What people and machines do.

use ccm_core::parse::raw::RawService;
use ccm_simulator::Simulator;
use jiff::ToSpan as _;
use serde_json::{Value, json};

use super::api_server::{Place, raw_service, service_object};
use super::run::Storm;
use super::script::{Hand, SERVICES};
use super::world::node_name;
use crate::lab::annotation;
use crate::oracle::{rule_beside, text};
use crate::wish::Wish;

const NAMESPACE: &str = "shop";
const NAMES: [&str; SERVICES] = ["web", "api", "mail", "dns"];

impl Storm {
    fn place(service: usize) -> Place {
        Place::service(NAMESPACE, NAMES[service % SERVICES])
    }

    fn service(&self, cluster: usize, service: usize) -> Option<RawService> {
        self.clusters[cluster].server.get(&Self::place(service)).as_ref().map(raw_service)
    }

    pub(super) fn apply(&self, cluster: usize, service: usize, wish: &Wish) {
        let (place, server) = (Self::place(service), &self.clusters[cluster].server);
        match self.service(cluster, service) {
            Some(raw) if raw.deleting => {}
            Some(mut raw) => {
                let class = raw.load_balancer_class.clone();
                wish.write_on(&mut raw);
                if class.is_some() {
                    return;
                }
                self.watcher.note_asked(cluster, &raw);
                let wanted = service_object(&raw);
                server.edit(&place, |object| {
                    object["spec"] = wanted["spec"].clone();
                    object["metadata"]["annotations"] = wanted["metadata"]["annotations"].clone();
                });
            }
            None => {
                let mut raw = RawService {
                    namespace: NAMESPACE.to_owned(),
                    name: place.name.clone(),
                    uid: Some(self.dice.uuid()),
                    ..RawService::default()
                };
                wish.write_on(&mut raw);
                self.watcher.note_asked(cluster, &raw);
                server.create(&place, service_object(&raw), self.clock.right());
            }
        }
    }

    /// Somebody changes what is there of a Service.
    pub(super) fn edit(&self, cluster: usize, service: usize, change: impl FnOnce(&mut Value)) {
        if let Some(uid) = self.service(cluster, service).and_then(|raw| raw.uid) {
            self.watcher.note_meddled(&uid);
            self.clusters[cluster].server.edit(&Self::place(service), change);
        }
    }

    pub(super) fn strip(&self, cluster: usize, service: usize) {
        if let Some(uid) = self.service(cluster, service).and_then(|raw| raw.uid) {
            self.watcher.note_stripped(&uid);
        }
        self.edit(cluster, service, |object| {
            if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                for key in ["record", "ip-associated-by-controller", "ip-intent"] {
                    annotations.remove(&annotation(key));
                }
            }
        });
    }

    pub(super) fn delete(&self, cluster: usize, service: usize) {
        self.clusters[cluster].server.delete(&Self::place(service), self.clock.right());
    }

    pub(super) fn erase(&self, cluster: usize, service: usize) {
        if let Some(raw) = self.service(cluster, service) {
            self.watcher.note_erased(&raw);
            self.clusters[cluster].server.erase(&Self::place(service));
        }
    }

    /// A Node as a kubelet registers it with an external cloud provider.
    pub(super) fn join(&self, cluster: usize, node: usize) {
        let name = node_name(cluster, node);
        if !self.clusters[cluster].machines.contains_key(&name) {
            return;
        }
        self.watcher.note_nodes_changed();
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": self.dice.uuid(), "labels": {}},
            "spec": {"taints": [{
                "key": "node.cloudprovider.kubernetes.io/uninitialized",
                "value": "true", "effect": "NoSchedule",
            }]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.clusters[cluster].server.create(&Place::node(&name), object, self.clock.right());
    }

    pub(super) fn edit_node(&self, cluster: usize, node: usize, change: impl FnOnce(&mut Value)) {
        self.watcher.note_nodes_changed();
        self.clusters[cluster].server.edit(&Place::node(&node_name(cluster, node)), change);
    }

    pub(super) fn machine(
        &mut self,
        cluster: usize,
        node: usize,
        runs: bool,
        change: impl FnOnce(&mut Simulator, &str),
    ) {
        let name = node_name(cluster, node);
        let Some(known) = self.clusters[cluster].machines.get_mut(&name) else { return };
        *known = runs;
        self.cloud.with(|simulator| change(simulator, &name));
        let ready = if runs { "True" } else { "False" };
        self.edit_node(cluster, node, |object| {
            object["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
        });
    }

    pub(super) fn by_hand(&self, cluster: usize, service: usize, hand: Hand) {
        let Some(uid) = self.service(cluster, service).and_then(|raw| raw.uid) else { return };
        let rules = self.cloud.with(|simulator| self.watcher.rules_of(simulator, &uid));
        let Some(rule) = rules.first() else { return };
        self.watcher.note_meddled(&uid);
        let id = text(rule, "id");
        let update = |field, value| {
            let protocol = text(rule, "protocol");
            let params = [("id", id), (field, value), ("protocol", protocol)];
            self.cloud.by_hand("updateLoadBalancerRule", &params);
        };
        match hand {
            Hand::DeleteRule => self.cloud.by_hand("deleteLoadBalancerRule", &[("id", id)]),
            Hand::RemoveMember => {
                let list = "listLoadBalancerRuleInstances";
                let on = [("id", id)];
                let members = self.cloud.with(|simulator| self.watcher.list(simulator, list, &on));
                if let Some(member) = members.first() {
                    let params = [("id", id), ("virtualmachineids", text(member, "id"))];
                    self.cloud.by_hand("removeFromLoadBalancerRule", &params);
                }
            }
            Hand::ChangeAlgorithm => update("algorithm", "leastconn"),
            Hand::Rename => update("name", "by-hand"),
            Hand::CloseFirewall => {
                let (list, on) = ("listFirewallRules", [("ipaddressid", text(rule, "publicipid"))]);
                let found = self.cloud.with(|simulator| self.watcher.list(simulator, list, &on));
                if let Some(opening) = found.first() {
                    let params = [("id", text(opening, "id"))];
                    self.cloud.by_hand("deleteFirewallRule", &params);
                }
            }
            Hand::ForeignRule => {
                self.watcher.note_shared(text(rule, "publicipid"));
                self.cloud.by_hand("createLoadBalancerRule", &rule_beside(rule));
            }
            Hand::ForeignOpening => {
                let [address, port] = ["publicipid", "publicport"].map(|name| text(rule, name));
                self.watcher.note_shared(address);
                let params = [
                    ("ipaddressid", address),
                    ("protocol", text(rule, "protocol")),
                    ("startport", port),
                    ("endport", port),
                    ("cidrlist", "203.0.113.200/32"),
                ];
                self.cloud.by_hand("createFirewallRule", &params);
            }
            Hand::Namesake => self.put_namesake(rule),
            Hand::Undescribe => update("description", "web"),
            Hand::GiveAway => self.give_away(rule),
        }
    }

    /// CloudStack is ahead of all others by the minute that its job may take.
    fn give_away(&self, rule: &Value) {
        let [id, address, network] =
            ["publicipid", "publicip", "networkid"].map(|name| text(rule, name));
        self.watcher.note_given_away(id);
        self.cloud.by_hand("disassociateIpAddress", &[("id", id)]);
        let then = self.clock.right() + 1.minute();
        self.cloud.with(|simulator| simulator.advance(then));
        let again = [("ipaddress", address), ("networkid", network)];
        self.cloud.by_hand("associateIpAddress", &again);
    }

    /// The source NAT address of a network is nobody's but the network's.
    fn put_namesake(&self, rule: &Value) {
        let list = "listPublicIpAddresses";
        let on = [("issourcenat", "true")];
        let found = self.cloud.with(|simulator| self.watcher.list(simulator, list, &on));
        for address in &found {
            let mut params = rule_beside(rule);
            for (name, value) in &mut params {
                match *name {
                    "publicipid" => *value = text(address, "id"),
                    "name" | "publicport" => *value = text(rule, name),
                    _ => {}
                }
            }
            self.cloud.by_hand("createLoadBalancerRule", &params);
        }
    }

    pub(super) fn delete_all(&self) {
        for cluster in &self.clusters {
            for raw in cluster.server.services() {
                let place = Place::service(&raw.namespace, &raw.name);
                cluster.server.delete(&place, self.clock.right());
            }
        }
    }
}
