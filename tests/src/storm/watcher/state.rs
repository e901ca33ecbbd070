//! What there is, looked at after each call and each write.

use std::collections::BTreeSet;

use ccm_core::cidr::{Cidr, CidrSet};
use ccm_core::model::record::FINALIZER;
use ccm_core::parse::raw::RawService;
use ccm_simulator::Simulator;
use serde_json::Value;

use super::{Maker, Watcher, annotations};
use crate::lab::{annotation, lock};
use crate::oracle::{promised, text};
use crate::storm::api_server::raw_service;
use crate::storm::promise::Promise;

impl Watcher {
    /// Looks at CloudStack after a call.
    pub fn check_cloud(&self, simulator: &mut Simulator) {
        self.seen().steps += 1;
        self.check_leaks(simulator);
        self.check_exposure(simulator);
    }

    fn check_leaks(&self, simulator: &mut Simulator) {
        let known: Vec<String> =
            self.servers.iter().map(|server| annotations(&server.services())).collect();
        for row in self.list(simulator, "listPublicIpAddresses", &[]) {
            let id = text(&row, "id");
            let (maker, job) = {
                let seen = self.seen();
                let Some(maker) = seen.makers.get(id).cloned() else { continue };
                (maker, seen.jobs.get(id).cloned())
            };
            let named = known[maker.cluster].contains(id)
                || job.is_some_and(|job| known[maker.cluster].contains(&job));
            let is_held = text(&row, "state") != "Allocated"
                || named
                || maker.uid.as_deref().is_none_or(|uid| self.may_be_nameless(uid))
                || self.seen().erased.contains(id)
                || self.is_job_forgotten(id)
                || self.is_shared(id)
                    && maker.uid.as_deref().is_some_and(|uid| self.is_let_go(uid));
            if !is_held {
                let address = text(&row, "ipaddress");
                let what = format!("no Service of cluster {} names {address}", maker.cluster);
                self.violate(Promise::Leaks, what);
                self.seen().makers.remove(id);
            }
        }
    }

    /// Whether an address may stay although no Service needs it.
    fn is_excused(&self, id: &str) -> bool {
        self.is_shared(id) || self.is_job_forgotten(id)
    }

    fn is_shared(&self, id: &str) -> bool {
        self.seen().shared.contains(id)
    }

    fn is_job_forgotten(&self, id: &str) -> bool {
        let seen = self.seen();
        seen.jobs.get(id).is_some_and(|job| seen.forgotten.contains(job))
    }

    /// As long as it is served, a Service names what others use, too.
    fn is_let_go(&self, uid: &str) -> bool {
        self.seen().let_go.contains(uid)
    }

    fn may_be_nameless(&self, uid: &str) -> bool {
        let seen = self.seen();
        let asked = seen.asked.get(uid);
        asked.is_some_and(|asked| asked.erased || asked.stripped || asked.forgotten)
    }

    fn check_exposure(&self, simulator: &mut Simulator) {
        let openings = self.list(simulator, "listFirewallRules", &[]);
        for row in self.list(simulator, "listLoadBalancerRules", &[]) {
            let maker = self.seen().makers.get(text(&row, "id")).cloned();
            let Some(Maker { cluster, uid: Some(uid) }) = maker else { continue };
            let port: u16 = text(&row, "publicport").parse().expect("a port");
            let by_others = openings.iter().filter(|opening| {
                text(opening, "ipaddressid") == text(&row, "publicipid")
                    && !self.is_of(cluster, text(opening, "id"))
            });
            let allowed: CidrSet = by_others
                .flat_map(|opening| text(opening, "cidrlist").split(','))
                .filter_map(|cidr| Cidr::parse_listed(cidr).ok())
                .chain(self.asked_sources(&uid, port).iter().cloned())
                .collect();
            let address = text(&row, "publicip");
            for open in open(simulator, address, port).iter().filter(|open| !allowed.covers(open)) {
                let allows = format!("allowed by {uid} and others are {allowed}");
                let what = format!("{address}:{port} is open to {open}; {allows}");
                self.violate(Promise::Sources, what);
            }
        }
    }

    fn asked_sources(&self, uid: &str, port: u16) -> CidrSet {
        let seen = self.seen();
        let asked = seen.asked.get(uid).and_then(|asked| asked.sources.get(&port));
        asked.cloned().unwrap_or_default()
    }

    /// Looks at a Service after a write to it.
    pub fn service_written(&self, cluster: usize, before: &Value, after: &Value) {
        self.seen().steps += 1;
        let (before, after) = (raw_service(before), raw_service(after));
        let uid = after.uid.clone().expect("a uid");
        let holds = |raw: &RawService| raw.finalizers.iter().any(|name| name == FINALIZER);
        let goes = holds(&before) && !holds(&after);
        if goes {
            self.note_let_go(&uid);
        }
        if after.annotations.contains_key(&annotation("record")) {
            self.note_written_back(&uid);
        }
        let mut simulator = lock(&self.simulator);
        simulator.advance(self.clock.right());
        let shown = |raw: &RawService| raw.ingress.first().and_then(|entry| entry.ip.clone());
        let new = shown(&after).filter(|ip| shown(&before).as_ref() != Some(ip));
        if let Some(address) = new.filter(|_| !self.is_meddled(&uid)) {
            self.check_publication(&mut simulator, cluster, &after, &address);
        }
        if goes && !self.is_in_motion(&uid) {
            self.check_farewell(&mut simulator, cluster, &uid);
        }
    }

    /// Somebody comes in to a port that the Service asks for, or did a moment ago: if anybody may. What
    /// it asks for now may let nobody in: ranges of the rule and of the firewall with nothing in common.
    fn check_publication(
        &self,
        simulator: &mut Simulator,
        cluster: usize,
        raw: &RawService,
        address: &str,
    ) {
        let uid = raw.uid.as_deref().expect("a uid");
        if promised(raw, self.firewalls[cluster]).values().all(CidrSet::is_empty) {
            return;
        }
        let sources = self.seen().asked.get(uid).map(|asked| asked.sources.clone());
        let sources = sources.unwrap_or_default();
        let ports: Vec<u16> =
            sources.into_iter().filter(|(_, set)| !set.is_empty()).map(|(port, _)| port).collect();
        let serves = ports.iter().any(|port| !open(simulator, address, *port).is_empty());
        if !ports.is_empty() && !serves {
            let what = format!("cluster {cluster} shows {address}, which serves nothing");
            self.violate(Promise::Publication, what);
        }
    }

    fn check_farewell(&self, simulator: &mut Simulator, cluster: usize, uid: &str) {
        for left in self.left_of(simulator, uid) {
            let what = format!("cluster {cluster} lets {uid} go and leaves {left}");
            self.violate(Promise::Farewell, what);
        }
    }

    /// What is there that was made for a Service, and that nobody else keeps.
    pub fn left_of(&self, simulator: &mut Simulator, uid: &str) -> Vec<String> {
        let kinds = ["listLoadBalancerRules", "listNetworkACLs", "listPublicIpAddresses"];
        let mut left = Vec::new();
        for command in kinds {
            for row in self.list(simulator, command, &[]) {
                let id = text(&row, "id").to_owned();
                let maker = self.seen().makers.get(&id).cloned();
                let Some(maker) = maker.filter(|maker| maker.uid.as_deref() == Some(uid)) else {
                    continue;
                };
                let is_kept = command == "listPublicIpAddresses"
                    && (text(&row, "state") != "Allocated"
                        || annotations(&self.servers[maker.cluster].services()).contains(&id)
                        || self.is_excused(&id));
                if !is_kept {
                    left.push(format!("{command} {row}"));
                }
            }
        }
        left
    }

    /// Looks at a Node that was just deleted.
    pub fn node_deleted(&self, cluster: usize, node: &Value) {
        self.seen().steps += 1;
        let id = node["spec"]["providerID"].as_str().unwrap_or_default();
        let id = id.rsplit('/').next().unwrap_or_default();
        let mut simulator = lock(&self.simulator);
        let machines = self.list(&mut simulator, "listVirtualMachines", &[]);
        let alive = |row: &&Value| {
            text(row, "id") == id && !matches!(text(row, "state"), "Destroyed" | "Expunging")
        };
        if let Some(machine) = machines.iter().find(alive) {
            let what = format!("cluster {cluster} deletes a Node whose machine lives: {machine}");
            self.violate(Promise::Nodes, what);
        }
    }

    /// The load balancer rules that were made for a Service.
    pub fn rules_of(&self, simulator: &mut Simulator, uid: &str) -> Vec<Value> {
        let mut rules = self.list(simulator, "listLoadBalancerRules", &[]);
        let seen = self.seen();
        rules.retain(|row| {
            let maker = seen.makers.get(text(row, "id"));
            maker.is_some_and(|maker| maker.uid.as_deref() == Some(uid))
        });
        rules
    }

    /// Uids of Services that somebody removed by force.
    pub fn erased(&self) -> BTreeSet<String> {
        let seen = self.seen();
        let erased = seen.asked.iter().filter(|(_, asked)| asked.erased);
        erased.map(|(uid, _)| uid.clone()).collect()
    }

    /// Uids of all Services that a process of ours made something for.
    pub fn served(&self) -> BTreeSet<(usize, String)> {
        let seen = self.seen();
        let makers = seen.makers.values();
        makers.filter_map(|maker| Some((maker.cluster, maker.uid.clone()?))).collect()
    }
}

/// Who may come in to a port, as traffic finds it. Public addresses are IPv4.
pub fn open(simulator: &mut Simulator, address: &str, port: u16) -> CidrSet {
    let cidrs = simulator.open_cidrs(address, port);
    let cidrs = cidrs.iter().map(|cidr| Cidr::parse_listed(cidr).expect("a CIDR"));
    cidrs.filter(|cidr| cidr.network().addr().is_ipv4()).collect()
}
