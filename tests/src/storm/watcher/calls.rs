//! What is asked of CloudStack, looked at before it is done.

use std::collections::BTreeSet;

use ccm_core::cidr::CidrSet;
use ccm_core::model::record::{FINALIZER, Opening};
use ccm_core::model::service::{Port, Transport};
use ccm_core::parse::raw::RawService;
use ccm_simulator::{Request, Simulator};

use super::{MEDDLED, Maker, Watcher};
use crate::lab::annotation;
use crate::oracle::text;
use crate::storm::promise::Promise;
use crate::storm::request::{command, param, told};

/// A call so many seconds after another one is of the same plan: a job of a rule takes three.
const SAME_BREATH: u64 = 5;

impl Watcher {
    fn ids(&self, simulator: &mut Simulator) -> BTreeSet<String> {
        let kinds = [
            "listPublicIpAddresses",
            "listLoadBalancerRules",
            "listFirewallRules",
            "listNetworkACLs",
        ];
        let rows = kinds.iter().flat_map(|command| self.list(simulator, command, &[]));
        let rows = rows.filter(|row| text(row, "state") != "Free");
        rows.map(|row| text(&row, "id").to_owned()).collect()
    }

    /// Looks at a call of a process that changes something, and lets it happen.
    pub fn change<T>(
        &self,
        simulator: &mut Simulator,
        cluster: usize,
        request: &Request,
        happen: impl FnOnce(&mut Simulator) -> T,
    ) -> T {
        self.check_call(simulator, cluster, request);
        if !command(request).starts_with("create") && !command(request).starts_with("associate") {
            return happen(simulator);
        }
        let before = self.ids(simulator);
        let result = happen(simulator);
        let made = self.ids(simulator);
        let uid = self.for_whom(cluster, request);
        for id in made.difference(&before) {
            let maker = Maker { cluster, uid: uid.clone() };
            let job = param(request, "customjobid");
            let mut seen = self.seen();
            seen.makers.insert(id.clone(), maker);
            if let Some(job) = job {
                seen.jobs.insert(id.clone(), job.to_owned());
            }
        }
        result
    }

    /// The Service that a call is made for, if the call says so.
    fn for_whom(&self, cluster: usize, request: &Request) -> Option<String> {
        let described = param(request, "description").or(param(request, "reason"));
        let described = described.and_then(|text| text.split("service=").nth(1));
        let described = described.and_then(|text| text.split(' ').next()).map(str::to_owned);
        let job = param(request, "customjobid");
        let intended = || {
            let services = self.servers[cluster].services();
            let intent = annotation("ip-intent");
            let intends = |raw: &RawService| {
                let text = raw.annotations.get(&intent);
                text.zip(job).is_some_and(|(text, job)| text.contains(job))
            };
            services.into_iter().find(intends).and_then(|raw| raw.uid)
        };
        described.or_else(intended)
    }

    fn check_call(&self, simulator: &mut Simulator, cluster: usize, request: &Request) {
        let (command, id) = (command(request), param(request, "id").unwrap_or_default());
        let fine = match command {
            "deleteLoadBalancerRule"
            | "updateLoadBalancerRule"
            | "assignToLoadBalancerRule"
            | "removeFromLoadBalancerRule" => {
                self.is_mine_or_gone(simulator, cluster, "listLoadBalancerRules", id)
            }
            "deleteNetworkACL" => self.is_mine_or_gone(simulator, cluster, "listNetworkACLs", id),
            "deleteFirewallRule" => self.may_close(simulator, cluster, id),
            "disassociateIpAddress" => {
                self.check_release(simulator, cluster, id);
                self.is_mine_or_gone(simulator, cluster, "listPublicIpAddresses", id)
            }
            "createLoadBalancerRule" => {
                let address = param(request, "publicipid").unwrap_or_default();
                self.may_use(simulator, cluster, address)
            }
            "createFirewallRule" => {
                let address = param(request, "ipaddressid").unwrap_or_default();
                self.may_use(simulator, cluster, address)
            }
            "associateIpAddress" | "createNetworkACL" | "createTags" => true,
            other => panic!("no controller of ours sends {other}"),
        };
        self.check_order(simulator, cluster, request);
        if command == "removeFromLoadBalancerRule" {
            let now = self.clock.seconds();
            self.seen().shrunk.insert(id.to_owned(), now);
        }
        if !fine {
            let told = told(request);
            let what = format!("cluster {cluster} calls {command} on what is not its own: {told}");
            self.violate(Promise::Ownership, what);
        }
    }

    fn is_mine_or_gone(
        &self,
        simulator: &mut Simulator,
        cluster: usize,
        command: &str,
        id: &str,
    ) -> bool {
        self.is_of(cluster, id)
            || !self.list(simulator, command, &[]).iter().any(|row| text(row, "id") == id)
    }

    /// Whatever somebody put on exactly a port of ours on an address of ours counts as ours.
    fn may_close(&self, simulator: &mut Simulator, cluster: usize, id: &str) -> bool {
        let rows = self.list(simulator, "listFirewallRules", &[]);
        let Some(row) = rows.iter().find(|row| text(row, "id") == id) else { return true };
        self.is_of(cluster, id) || self.is_of(cluster, text(row, "ipaddressid"))
    }

    /// An address of the cluster, or one that a Service of it asked for.
    fn may_use(&self, simulator: &mut Simulator, cluster: usize, id: &str) -> bool {
        if self.is_of(cluster, id) {
            return true;
        }
        self.note_shared(id);
        let rows = self.list(simulator, "listPublicIpAddresses", &[]);
        let Some(row) = rows.iter().find(|row| text(row, "id") == id) else { return true };
        let uids: Vec<_> =
            self.servers[cluster].services().into_iter().filter_map(|raw| raw.uid).collect();
        let seen = self.seen();
        let asked = uids.iter().filter_map(|uid| seen.asked.get(uid));
        asked.flat_map(|asked| &asked.addresses).any(|address| address == text(row, "ipaddress"))
    }

    fn check_release(&self, simulator: &mut Simulator, cluster: usize, id: &str) {
        let rows = self.list(simulator, "listPublicIpAddresses", &[]);
        let Some(row) = rows.iter().find(|row| text(row, "id") == id) else { return };
        let rules = self.list(simulator, "listLoadBalancerRules", &[("publicipid", id)]);
        let openings = self.list(simulator, "listFirewallRules", &[("ipaddressid", id)]);
        if !rules.is_empty() || !openings.is_empty() {
            let with = format!("with rules {rules:?} and firewall rules {openings:?} on it");
            self.violate(Promise::Release, format!("cluster {cluster} releases {row} {with}"));
        }
        let address = text(row, "ipaddress");
        let shows = |raw: &RawService| {
            raw.ingress.iter().any(|entry| entry.ip.as_deref() == Some(address))
                && !raw.deleting
                && raw.service_type.as_deref() == Some("LoadBalancer")
                && raw.load_balancer_class.is_none()
        };
        for raw in self.servers[cluster].services().iter().filter(|raw| shows(raw)) {
            if !raw.uid.as_deref().is_some_and(|uid| self.is_in_motion(uid)) {
                let what = format!("cluster {cluster} releases {address}, which {raw:?} shows");
                self.violate(Promise::Release, what);
            }
        }
    }

    fn check_order(&self, simulator: &mut Simulator, cluster: usize, request: &Request) {
        let early = match command(request) {
            "associateIpAddress" => self.without_intent(cluster, request),
            "createLoadBalancerRule" => self.without_record(cluster, request),
            "createNetworkACL" => self.without_finalizer(cluster, request),
            "createFirewallRule" => self.too_early(simulator, cluster, request),
            "deleteLoadBalancerRule" => self.still_open(simulator, cluster, request),
            "assignToLoadBalancerRule" => self.too_late(simulator, request),
            _ => None,
        };
        if let Some(why) = early {
            let (command, told) = (command(request), told(request));
            let what = format!("cluster {cluster} calls {command} {why}: {told}");
            self.violate(Promise::Order, what);
        }
    }

    fn without_intent(&self, cluster: usize, request: &Request) -> Option<&'static str> {
        match self.for_whom(cluster, request) {
            Some(uid) => self.lacks_finalizer(cluster, &uid),
            None => Some("without an intent"),
        }
    }

    fn without_finalizer(&self, cluster: usize, request: &Request) -> Option<&'static str> {
        self.lacks_finalizer(cluster, &self.for_whom(cluster, request)?)
    }

    fn lacks_finalizer(&self, cluster: usize, uid: &str) -> Option<&'static str> {
        let services = self.servers[cluster].services();
        let raw = services.iter().find(|raw| raw.uid.as_deref() == Some(uid))?;
        let lacks = !raw.finalizers.iter().any(|name| name == FINALIZER);
        (lacks && !self.is_meddled(uid)).then_some("without a finalizer")
    }

    fn without_record(&self, cluster: usize, request: &Request) -> Option<&'static str> {
        let uid = self.for_whom(cluster, request)?;
        let address = param(request, "publicipid").unwrap_or_default();
        let services = self.servers[cluster].services();
        let raw = services.iter().find(|raw| raw.uid.as_deref() == Some(&uid))?;
        let record = raw.annotations.get(&annotation("record")).map_or("", String::as_str);
        let lacks = !record.contains(address) && !self.is_meddled(&uid);
        lacks.then_some("without a record").or_else(|| self.lacks_finalizer(cluster, &uid))
    }

    /// A first opening waits for somebody who answers, and every one until it is recorded.
    fn too_early(
        &self,
        simulator: &mut Simulator,
        cluster: usize,
        request: &Request,
    ) -> Option<&'static str> {
        let (address, port) = (param(request, "ipaddressid")?, param(request, "startport"));
        let rules = self.list(simulator, "listLoadBalancerRules", &[("publicipid", address)]);
        let rule = rules.iter().find(|row| Some(text(row, "publicport")) == port);
        let Some(rule) = rule else {
            return (!self.is_recorded_by_meddled(cluster, address)).then_some("without a rule");
        };
        let id = text(rule, "id");
        let uid = self.seen().makers.get(id).and_then(|maker| maker.uid.clone())?;
        if !self.is_of(cluster, id) || self.is_meddled(&uid) {
            return None;
        }
        let members = self.list(simulator, "listLoadBalancerRuleInstances", &[("id", id)]);
        if members.is_empty() {
            return Some("for a port without a member");
        }
        self.unrecorded(cluster, &uid, port?, param(request, "cidrlist")?)
    }

    /// Whether somebody worked a moment ago on a Service that records an address.
    fn is_recorded_by_meddled(&self, cluster: usize, address: &str) -> bool {
        let record = annotation("record");
        self.servers[cluster].services().into_iter().any(|raw| {
            let records = raw.annotations.get(&record).is_some_and(|text| text.contains(address));
            records && raw.uid.is_some_and(|uid| self.is_meddled(&uid))
        })
    }

    /// Who takes the place of others comes before they go, if that is known at the same time.
    fn too_late(&self, simulator: &mut Simulator, request: &Request) -> Option<&'static str> {
        let id = param(request, "id")?;
        let now = self.clock.seconds();
        let within = |at: Option<u64>, time| at.is_some_and(|at| now.saturating_sub(at) <= time);
        let (shrunk, changed) = {
            let seen = self.seen();
            (seen.shrunk.get(id).copied(), seen.nodes_changed)
        };
        if !within(shrunk, SAME_BREATH) || within(changed, MEDDLED) {
            return None;
        }
        let members = self.list(simulator, "listLoadBalancerRuleInstances", &[("id", id)]);
        members.is_empty().then_some("after all others were taken out")
    }

    /// What is opened is recorded by port and networks.
    fn unrecorded(
        &self,
        cluster: usize,
        uid: &str,
        port: &str,
        cidrs: &str,
    ) -> Option<&'static str> {
        let services = self.servers[cluster].services();
        let raw = services.iter().find(|raw| raw.uid.as_deref() == Some(uid))?;
        let port = Port { transport: Transport::Tcp, number: port.parse().expect("a port") };
        let cidrs = CidrSet::parse_listed(cidrs).expect("networks");
        let opening = Opening::new(port, &cidrs).to_string();
        let record = raw.annotations.get(&annotation("record")).map_or("", String::as_str);
        (!record.contains(&opening)).then_some("before the opening is recorded")
    }

    /// What a Service leaves is closed before its rule goes.
    fn still_open(
        &self,
        simulator: &mut Simulator,
        cluster: usize,
        request: &Request,
    ) -> Option<&'static str> {
        let id = param(request, "id")?;
        let maker = self.seen().makers.get(id).cloned()?;
        let uid = maker.uid?;
        let services = self.servers[cluster].services();
        let leaves = services.iter().all(|raw| raw.uid.as_deref() != Some(&*uid) || raw.deleting);
        let rows = self.list(simulator, "listLoadBalancerRules", &[]);
        let row = rows.iter().find(|row| text(row, "id") == id)?;
        let port: u64 = text(row, "publicport").parse().expect("a port");
        let openings =
            self.list(simulator, "listFirewallRules", &[("ipaddressid", text(row, "publicipid"))]);
        let is_open = openings.iter().any(|opening| {
            opening["startport"] == port && self.is_of(cluster, text(opening, "id"))
        });
        (leaves && is_open).then_some("before its port is closed")
    }
}
