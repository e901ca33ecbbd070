//! Whether everything is as it should be, restated without plans: what people asked for is served,
//! to whom and by whom they asked, and nothing is there that nobody asked for.

use std::collections::BTreeSet;

use ccm_core::cidr::CidrSet;
use ccm_core::model::record::FINALIZER;
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_simulator::Simulator;

use super::run::Storm;
use super::watcher::open;
use crate::lab::annotation;
use crate::oracle::{promised, text};

/// Why it is not settled yet; nothing if it is.
pub(super) fn reasons(storm: &Storm) -> Vec<String> {
    storm.cloud.with(|simulator| {
        let mut reasons = Vec::new();
        for number in 0..storm.clusters.len() {
            let cluster = Cluster { storm, number };
            for raw in storm.clusters[number].server.services() {
                let why = cluster.service(simulator, &raw);
                reasons.extend(why.iter().map(|why| format!("k{number} {}: {why}", raw.name)));
            }
        }
        reasons.extend(leftovers(storm, simulator));
        reasons
    })
}

/// Services that must be served exactly as they ask.
pub(super) fn served(storm: &Storm) -> Vec<(usize, RawService)> {
    let numbers = 0..storm.clusters.len();
    let all = numbers.flat_map(|number| {
        let cluster = Cluster { storm, number };
        let services = storm.clusters[number].server.services().into_iter();
        let served = services.filter(move |raw| is_wanted(raw) && cluster.must_serve(raw));
        served.map(move |raw| (number, raw))
    });
    all.collect()
}

fn is_wanted(raw: &RawService) -> bool {
    raw.service_type.as_deref() == Some("LoadBalancer")
        && raw.load_balancer_class.is_none()
        && !raw.deleting
}

struct Cluster<'a> {
    storm: &'a Storm,
    number: usize,
}

impl Cluster<'_> {
    fn service(&self, simulator: &mut Simulator, raw: &RawService) -> Vec<String> {
        if self.is_theirs(raw) {
            return Vec::new();
        }
        if raw.deleting {
            return vec!["it is still in deletion".to_owned()];
        }
        if is_wanted(raw) { self.wanted(simulator, raw) } else { Self::unwanted(raw) }
    }

    /// Whether nothing says that we ever served a Service of another class. Whoever serves the class
    /// may use our finalizer too.
    fn is_theirs(&self, raw: &RawService) -> bool {
        let uid = raw.uid.as_deref().expect("a uid");
        raw.load_balancer_class.is_some()
            && !raw.annotations.contains_key(&annotation("record"))
            && self.storm.watcher.is_forgotten(uid)
    }

    fn unwanted(raw: &RawService) -> Vec<String> {
        let mut reasons = Vec::new();
        if raw.finalizers.iter().any(|name| name == FINALIZER) {
            reasons.push("it has our finalizer and is not for us".to_owned());
        }
        if raw.annotations.contains_key(&annotation("record")) {
            reasons.push("it has a record and is not for us".to_owned());
        }
        reasons
    }

    fn wanted(&self, simulator: &mut Simulator, raw: &RawService) -> Vec<String> {
        let (there, running) = (self.members(|_| true), self.members(|runs| runs));
        let sources = promised(raw, self.storm.has_firewall(self.number));
        let is_shown = !raw.ingress.is_empty();
        if raw.annotations.contains_key(&annotation("ip-intent")) {
            return vec!["an associate call for it may be out".to_owned()];
        }
        if !self.must_serve(raw) {
            return Vec::new();
        }
        if !is_shown {
            return vec!["it shows no address".to_owned()];
        }
        let uid = raw.uid.as_deref().expect("a uid");
        let rules = self.storm.watcher.rules_of(simulator, uid);
        let mut reasons = Vec::new();
        for rule in &rules {
            let port = text(rule, "publicport");
            if !sources.keys().any(|wanted| wanted.to_string() == port) {
                reasons.push(format!("there is a rule for port {port}"));
            }
        }
        for (port, wanted) in sources {
            let of_port = |row: &&serde_json::Value| text(row, "publicport") == port.to_string();
            let Some(rule) = rules.iter().find(of_port) else {
                reasons.push(format!("there is no rule for port {port}"));
                continue;
            };
            let found = open(simulator, text(rule, "publicip"), port);
            if !covers(&found, &wanted) || !covers(&wanted, &found) {
                reasons.push(format!("port {port} is open to {found}, not to {wanted}"));
            }
            let on = [("id", text(rule, "id"))];
            let list = "listLoadBalancerRuleInstances";
            let found = self.storm.watcher.list(simulator, list, &on);
            let found: BTreeSet<String> =
                found.iter().map(|row| text(row, "name").to_owned()).collect();
            // A machine that does not run stays a member, and becomes none.
            if !found.is_subset(&there) || !running.is_subset(&found) {
                reasons.push(format!("members of port {port} are {found:?} of {there:?}"));
            }
        }
        reasons
    }

    /// Whether nothing may keep it from being served. An address that a Service once asked
    /// for may be shared or not be had, and old releases take no sources.
    fn must_serve(&self, raw: &RawService) -> bool {
        let sources = promised(raw, self.storm.has_firewall(self.number));
        let restricts = raw.annotations.get(&annotation("source-cidrs"));
        let can_restrict = self.storm.takes_sources() || restricts.is_none_or(String::is_empty);
        let uid = raw.uid.as_deref().expect("a uid");
        can_restrict
            && !self.storm.watcher.asked_for_address(uid)
            && !self.members(|runs| runs).is_empty()
            && !sources.is_empty()
    }

    /// Machines that are to be members, if they run or not as asked for.
    fn members(&self, fits: impl Fn(bool) -> bool) -> BTreeSet<String> {
        let cluster = &self.storm.clusters[self.number];
        let excluded = "node.kubernetes.io/exclude-from-external-load-balancers";
        let is_member = |node: &RawNode| {
            node.provider_id.is_some()
                && !node.labels.contains_key(excluded)
                && cluster.machines.get(&node.name).is_some_and(|runs| fits(*runs))
        };
        cluster.server.nodes().into_iter().filter(is_member).map(|node| node.name).collect()
    }
}

fn covers(one: &CidrSet, other: &CidrSet) -> bool {
    other.iter().all(|cidr| one.covers(cidr))
}

/// What is left of Services that are gone, or not ours to serve any more.
fn leftovers(storm: &Storm, simulator: &mut Simulator) -> Vec<String> {
    let erased = storm.watcher.erased();
    let mut left = Vec::new();
    for (cluster, uid) in storm.watcher.served() {
        let services = storm.clusters[cluster].server.services();
        let lives = services.iter().any(|raw| raw.uid.as_deref() == Some(&*uid) && is_wanted(raw));
        if !lives && !erased.contains(&uid) {
            left.extend(storm.watcher.left_of(simulator, &uid));
        }
    }
    left
}
