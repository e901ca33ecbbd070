//! Each law can fail: plans built by hand that break one of them, and no other.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{LAWS, check};
use crate::cidr::{CidrSet, Sources};
use crate::ids::{
    ClusterId, FirewallRuleId, JobId, LoadBalancerRuleId, NetworkId, PublicIpId, ServiceKey,
    ServiceUid, VirtualMachineId,
};
use crate::model::mark::Mark;
use crate::model::policy::Policy;
use crate::model::record::{AddressRecord, Intent, Opening, Record, Recorded, Verdict};
use crate::model::service::{
    Algorithm, Lifecycle, LoadBalancerSpec, Port, RuleProtocol, Service, ServicePort, Transport,
};
use crate::observe::index::Observed;
use crate::observe::{
    AddressState, Capabilities, CloudState, FirewallRule, LoadBalancerRule, Network,
    NetworkService, PublicIpAddress, RuleState,
};
use crate::plan::StepId;
use crate::plan::action::{
    Action, AssignToLoadBalancerRule, AssociateIpAddress, CheckAddressUnused, CreateFirewallRule,
    CreateLoadBalancerRule, DeleteFirewallRule, DeleteLoadBalancerRule, DisassociateIpAddress,
    Edit, FinalizerChange, IngressDraft, IpMode, Placement, PlannedPatch, Ref,
    RemoveFromLoadBalancerRule, ResolvedAddress, UpdateLoadBalancerRule,
};
use crate::plan::builder::{After, Builder};
use crate::plan::reason::{Disruption, Reason};
use crate::plan::service_patch;

/// A law, what breaks it, and how.
type Bad = (&'static str, &'static str, fn(&mut Scene));

const BAD: &[Bad] = &[
    ("steps wait only for earlier ones", "a step waits for one that never comes", |scene| {
        scene.update(None, &["later"]);
    }),
    ("finalizer before the first cloud change", "no finalizer at all", |scene| {
        scene.service.recorded.finalizer = false;
        scene.update(None, &[]);
    }),
    ("finalizer before the first cloud change", "it is written at the same time", |scene| {
        scene.service.recorded.finalizer = false;
        let finalizer = Some(FinalizerChange::Add);
        scene.patch(PlannedPatch { finalizer, ..scene.nothing() }, &[]);
        scene.update(None, &[]);
    }),
    ("finalizer removed after the last cloud change", "before the rule is gone", |scene| {
        scene.service.lifecycle = Lifecycle::Deleting;
        let closed = scene.close(&[]);
        scene.delete(&[&closed]);
        scene.patch(service_patch::farewell(&scene.service), &[&closed]);
    }),
    ("record and verdict go with the finalizer", "the record stays", |scene| {
        scene.service.lifecycle = Lifecycle::OtherType;
        let farewell = service_patch::farewell(&scene.service);
        scene.patch(PlannedPatch { record: Edit::Keep, ..farewell }, &[]);
    }),
    ("record and verdict go with the finalizer", "the verdict stays", |scene| {
        scene.service.recorded.verdict = Some(Verdict::Ours);
        scene.service.lifecycle = Lifecycle::OtherType;
        let farewell = service_patch::farewell(&scene.service);
        scene.patch(PlannedPatch { verdict: Edit::Keep, ..farewell }, &[]);
    }),
    ("intent before associate", "no intent at all", |scene| {
        scene.associate(&[]);
    }),
    ("intent before associate", "the intent of another job", |scene| {
        let written = scene.intend("6b1f0c52-0000-4000-8000-000000000002");
        scene.associate(&[&written]);
    }),
    ("new address recorded before it is used", "a rule at once", |scene| {
        let written = scene.intend(JOB);
        let address = scene.associate(&[&written]);
        let rule = scene.create(&address, HTTPS, &[]);
        scene.assign(&rule, &[]);
    }),
    ("openings recorded by content before they are made", "no record of it", |scene| {
        scene.open(HTTP, A, &[]);
    }),
    ("rule and first members before the opening", "beside the assign", |scene| {
        scene.record_opening(HTTPS, EVERYBODY);
        let rule = scene.create(&existing(), HTTPS, &[]);
        scene.assign(&rule, &[]);
        let made = made_by(&rule);
        scene.open(HTTPS, EVERYBODY, &[&made]);
    }),
    ("rule and first members before the opening", "without members", |scene| {
        scene.record_opening(HTTPS, EVERYBODY);
        let rule = made_by(&scene.create(&existing(), HTTPS, &[]));
        scene.open(HTTPS, EVERYBODY, &[&rule]);
    }),
    ("opening closed before its rule is deleted", "both at once", |scene| {
        scene.service.lifecycle = Lifecycle::Deleting;
        scene.close(&[]);
        scene.delete(&[]);
    }),
    ("delete unmaps members: no separate remove", "a remove before the delete", |scene| {
        scene.service.lifecycle = Lifecycle::Deleting;
        let removed = scene.remove(&["vm-1"], &[]);
        let closed = scene.close(&[&removed]);
        scene.delete(&[&closed]);
    }),
    ("sources at every prefix within old and new", "the wide layer opens first", |scene| {
        scene.rule().sources = only("10.0.0.0/8");
        scene.opening().cidrs = cidrs("10.1.0.0/16");
        scene.spec().rule_sources = only("10.2.0.0/16");
        scene.spec().ranges = cidrs("10.0.0.0/8");
        scene.record_opening(HTTP, "10.0.0.0/8");
        scene.open(HTTP, "10.0.0.0/8", &[]);
        scene.update(Some(only("10.2.0.0/16")), &[]);
    }),
    ("sources at every prefix within old and new", "a recreate under the old opening", |scene| {
        scene.rule().sources = only("10.1.0.0/16");
        scene.opening().cidrs = cidrs("10.0.0.0/8");
        scene.spec().ranges = cidrs("10.3.0.0/16");
        scene.record_opening(HTTP, "10.3.0.0/16");
        let deleted = scene.delete(&[]);
        let rule = scene.create(&existing(), HTTP, &[&deleted]);
        let assigned = scene.assign(&rule, &[]);
        let closed = scene.close(&[&assigned]);
        scene.open(HTTP, "10.3.0.0/16", &[&closed]);
    }),
    ("sources at every prefix within old and new", "more than the Service asks for", |scene| {
        scene.opening().cidrs = cidrs(A);
        scene.spec().ranges = cidrs(A);
        scene.record_opening(HTTP, EVERYBODY);
        scene.open(HTTP, EVERYBODY, &[]);
    }),
    ("a port that stays keeps its openings", "a recreate closes it", |scene| {
        scene.record_opening(HTTP, EVERYBODY);
        let closed = scene.close(&[]);
        let deleted = scene.delete(&[&closed]);
        let rule = scene.create(&existing(), HTTP, &[&deleted]);
        let assigned = scene.assign(&rule, &[]);
        scene.open(HTTP, EVERYBODY, &[&assigned]);
    }),
    ("a port that stays keeps its openings", "an emptied node set closes it", |scene| {
        let removed = scene.remove(&["vm-1"], &[]);
        scene.close(&[&removed]);
    }),
    ("recreate is delete, create, assign, adjacent", "create waits for another port", |scene| {
        let deleted = scene.delete(&[]);
        let other = made_by(&scene.create(&existing(), HTTPS, &[]));
        let rule = scene.create(&existing(), HTTP, &[&deleted, &other]);
        scene.assign(&rule, &[]);
    }),
    ("recreate is delete, create, assign, adjacent", "assign waits for another port", |scene| {
        let deleted = scene.delete(&[]);
        let rule = scene.create(&existing(), HTTP, &[&deleted]);
        let other = made_by(&scene.create(&existing(), HTTPS, &[]));
        scene.assign(&rule, &[&other]);
    }),
    ("recreate is delete, create, assign, adjacent", "another step in between", |scene| {
        let deleted = scene.delete(&[]);
        let rule = scene.create(&existing(), HTTP, &[&deleted]);
        scene.create(&existing(), HTTPS, &[]);
        scene.assign(&rule, &[]);
    }),
    ("adds before removes, one call per rule and direction", "both at once", |scene| {
        scene.assign(&the_rule(), &[]);
        scene.remove(&["vm-1"], &[]);
    }),
    ("adds before removes, one call per rule and direction", "two removes", |scene| {
        let first = scene.remove(&["vm-1"], &[]);
        scene.remove(&["vm-9"], &[&first]);
    }),
    ("status after what it promises", "beside an update", |scene| {
        scene.update(None, &[]);
        scene.publish(address_with(IpMode::Vip), &[]);
    }),
    ("status after what it promises", "a new rule without members", |scene| {
        let rule = made_by(&scene.create(&existing(), HTTPS, &[]));
        scene.publish(address_with(IpMode::Vip), &[&rule]);
    }),
    ("status after what it promises", "a new rule that is closed", |scene| {
        let rule = scene.create(&existing(), HTTPS, &[]);
        let assigned = scene.assign(&rule, &[]);
        scene.publish(address_with(IpMode::Vip), &[&assigned]);
    }),
    ("status after what it promises", "a rule that has no members", |scene| {
        scene.state.members.clear();
        scene.state.members.insert(id("rule-http", LoadBalancerRuleId::parse), [].into());
        scene.publish(address_with(IpMode::Vip), &[]);
    }),
    ("status after what it promises", "a rule that nobody is let in to", |scene| {
        scene.state.firewall_rules.clear();
        scene.publish(IngressDraft::Hostname("web.example.org".to_owned()), &[]);
    }),
    ("status in one write", "first the hostname, then the address", |scene| {
        let hostname = IngressDraft::Hostname("web.example.org".to_owned());
        let first = scene.publish(hostname, &[]);
        scene.publish(address_with(IpMode::Proxy), &[&first]);
    }),
    ("address released last, checked on a fresh read", "no fresh read", |scene| {
        scene.service.lifecycle = Lifecycle::Deleting;
        let closed = scene.close(&[]);
        let deleted = scene.delete(&[&closed]);
        scene.release(&[&deleted]);
    }),
    ("address released last, checked on a fresh read", "before its rule is deleted", |scene| {
        scene.service.lifecycle = Lifecycle::Deleting;
        let closed = scene.close(&[]);
        let checked = scene.check_unused(&[&closed]);
        scene.delete(&[&closed]);
        scene.release(&[&checked]);
    }),
];

#[test]
fn every_law_is_broken_by_a_plan_that_breaks_just_that_law() {
    for (law, how, build) in BAD {
        let mut scene = Scene::new();
        build(&mut scene);
        assert_eq!(scene.broken_laws(), [*law], "{how}");
    }
    for law in LAWS {
        assert!(BAD.iter().any(|(name, _, _)| *name == law.name), "nothing breaks {:?}", law.name);
    }
}

#[test]
fn a_lawful_change_of_sources_and_a_lawful_recreate_break_none() {
    let mut narrowed = Scene::new();
    narrowed.spec().ranges = cidrs(A);
    narrowed.record_opening(HTTP, A);
    let opened = narrowed.open(HTTP, A, &[]);
    narrowed.close(&[&opened]);
    assert_eq!(narrowed.broken_laws(), [""; 0]);

    let mut recreated = Scene::new();
    let deleted = recreated.delete(&[]);
    let rule = recreated.create(&existing(), HTTP, &[&deleted]);
    let assigned = recreated.assign(&rule, &[]);
    recreated.publish(address_with(IpMode::Vip), &[&assigned]);
    assert_eq!(recreated.broken_laws(), [""; 0]);
}

const HTTP: Port = Port { transport: Transport::Tcp, number: 80 };
const HTTPS: Port = Port { transport: Transport::Tcp, number: 443 };
const EVERYBODY: &str = "0.0.0.0/0";
const A: &str = "198.51.100.0/24";
const UID: &str = "0d3c6a10-0000-4000-8000-000000000001";
const JOB: &str = "6b1f0c52-0000-4000-8000-000000000001";
const ALLOCATED: &str = "2026-12-01T08:00:00+0000";

/// Service `shop/web` on an address of its own: one port, one member, open to everybody.
struct Scene {
    service: Service,
    state: CloudState,
    builder: Builder,
}

impl Scene {
    fn new() -> Self {
        let service = service();
        let mut state = CloudState::empty(Timestamp::UNIX_EPOCH, Capabilities::default());
        state.addresses.push(address());
        state.networks.push(network());
        state.rules.push(rule(&service));
        state.firewall_rules.push(opening());
        let vm = id("vm-1", VirtualMachineId::parse);
        state.members.insert(id("rule-http", LoadBalancerRuleId::parse), [vm].into());
        let builder = Builder::new(service.key.clone());
        Self { service, state, builder }
    }

    fn broken_laws(self) -> Vec<&'static str> {
        let Self { service, state, builder } = self;
        let policy = Policy::new(id("prod", ClusterId::parse));
        let breaches = check(&builder.finish(), &service, &Observed::new(state), &policy);
        breaches.iter().map(|breach| breach.law).collect()
    }

    fn spec(&mut self) -> &mut LoadBalancerSpec {
        self.service.spec.as_mut().unwrap()
    }

    fn rule(&mut self) -> &mut LoadBalancerRule {
        &mut self.state.rules[0]
    }

    fn opening(&mut self) -> &mut FirewallRule {
        &mut self.state.firewall_rules[0]
    }

    fn record_opening(&mut self, port: Port, sources: &str) {
        let record = self.service.recorded.record.as_mut().unwrap();
        record.openings.insert(Opening::new(port, &cidrs(sources)));
    }

    fn nothing(&self) -> PlannedPatch {
        service_patch::empty(&self.service)
    }

    fn add(&mut self, name: &str, action: Action, after: &[&str]) -> String {
        let after: After = after.iter().map(|id| StepId::new(*id)).collect();
        let reason = Reason::AddressMissing;
        self.builder.add(name, action, &after, reason, Disruption::None).to_string()
    }

    fn patch(&mut self, patch: PlannedPatch, after: &[&str]) -> String {
        self.add("service", Action::PatchService(patch), after)
    }

    fn publish(&mut self, ingress: IngressDraft<Ref<ResolvedAddress>>, after: &[&str]) -> String {
        let patch = PlannedPatch { ingress: Some(ingress), ..self.nothing() };
        self.patch(patch, after)
    }

    fn intend(&mut self, job: &str) -> String {
        let intent = Intent {
            job: id(job, JobId::parse),
            at: Timestamp::UNIX_EPOCH,
            service: self.service.uid.clone(),
        };
        let intents = Edit::Set(std::iter::once(intent).collect());
        self.patch(PlannedPatch { intents, ..self.nothing() }, &[])
    }

    fn associate(&mut self, after: &[&str]) -> Ref<PublicIpId> {
        let action = AssociateIpAddress {
            placement: Placement::Network(id("network", NetworkId::parse)),
            address: None,
            project: None,
            job: id(JOB, JobId::parse),
            expires: Timestamp::UNIX_EPOCH,
        };
        let after: After = after.iter().map(|id| StepId::new(*id)).collect();
        let (_, address, _) = self.builder.associate(action, &after, Reason::AddressMissing);
        address
    }

    fn create(
        &mut self,
        address: &Ref<PublicIpId>,
        port: Port,
        after: &[&str],
    ) -> Ref<LoadBalancerRuleId> {
        let action = CreateLoadBalancerRule {
            address: address.clone(),
            network: id("network", NetworkId::parse),
            name: "web".to_owned(),
            description: String::new(),
            public_port: port.number,
            private_port: 30080,
            protocol: RuleProtocol::Tcp,
            algorithm: Algorithm::RoundRobin,
            sources: Sources::Everybody,
        };
        let after: After = after.iter().map(|id| StepId::new(*id)).collect();
        let (reason, name) = (Reason::AddressMissing, format!("rule/{port}"));
        self.builder.create_rule(&name, action, &after, reason, Disruption::None).1
    }

    fn assign(&mut self, rule: &Ref<LoadBalancerRuleId>, after: &[&str]) -> String {
        let vms = [id("vm-2", VirtualMachineId::parse)].into();
        let call = AssignToLoadBalancerRule { rule: rule.clone(), vms };
        self.add("members/add", Action::AssignToLoadBalancerRule(call), after)
    }

    fn remove(&mut self, vms: &[&str], after: &[&str]) -> String {
        let vms = vms.iter().map(|vm| id(vm, VirtualMachineId::parse)).collect();
        let call = RemoveFromLoadBalancerRule { rule: rule_id(), vms };
        self.add("members/remove", Action::RemoveFromLoadBalancerRule(call), after)
    }

    fn update(&mut self, sources: Option<Sources>, after: &[&str]) -> String {
        let call = UpdateLoadBalancerRule {
            rule: rule_id(),
            protocol: RuleProtocol::Tcp,
            name: None,
            description: None,
            algorithm: Some(Algorithm::Source),
            sources,
        };
        self.add("rule/update", Action::UpdateLoadBalancerRule(call), after)
    }

    fn delete(&mut self, after: &[&str]) -> String {
        let call = DeleteLoadBalancerRule { rule: rule_id() };
        self.add("rule/delete", Action::DeleteLoadBalancerRule(call), after)
    }

    fn open(&mut self, port: Port, sources: &str, after: &[&str]) -> String {
        let cidrs = cidrs(sources);
        let call = CreateFirewallRule { address: existing(), port, cidrs, trial: None };
        self.add("firewall/open", Action::CreateFirewallRule(call), after)
    }

    fn close(&mut self, after: &[&str]) -> String {
        let FirewallRule { id, cidrs, .. } = self.opening().clone();
        let call = DeleteFirewallRule { rule: id, port: HTTP, cidrs };
        self.add("firewall/close", Action::DeleteFirewallRule(call), after)
    }

    fn check_unused(&mut self, after: &[&str]) -> String {
        let allocated = ALLOCATED.to_owned();
        let call = CheckAddressUnused { address: address_id(), allocated };
        self.add("address/check", Action::CheckAddressUnused(call), after)
    }

    fn release(&mut self, after: &[&str]) -> String {
        let call = DisassociateIpAddress { address: address_id() };
        self.add("address/release", Action::DisassociateIpAddress(call), after)
    }
}

fn id<I, E: std::fmt::Debug>(text: &str, parse: fn(&str) -> Result<I, E>) -> I {
    parse(text).unwrap()
}

fn cidrs(text: &str) -> CidrSet {
    CidrSet::parse_listed(text).unwrap()
}

fn only(text: &str) -> Sources {
    Sources::Only(cidrs(text))
}

fn address_id() -> PublicIpId {
    id("address", PublicIpId::parse)
}

fn rule_id() -> LoadBalancerRuleId {
    id("rule-http", LoadBalancerRuleId::parse)
}

fn existing() -> Ref<PublicIpId> {
    Ref::Existing(address_id())
}

fn the_rule() -> Ref<LoadBalancerRuleId> {
    Ref::Existing(rule_id())
}

/// The step that makes a rule.
fn made_by(rule: &Ref<LoadBalancerRuleId>) -> String {
    rule.pending().unwrap().to_string()
}

fn address_with(ip_mode: IpMode) -> IngressDraft<Ref<ResolvedAddress>> {
    let address = Ref::Existing(ResolvedAddress {
        id: address_id(),
        address: address().address,
        allocated: ALLOCATED.to_owned(),
    });
    IngressDraft::Address { address, ip_mode }
}

fn service() -> Service {
    let port = |port: Port| ServicePort {
        name: port.to_string(),
        transport: Ok(port.transport),
        number: port.number,
        node_port: 30080,
    };
    let uid = id(UID, ServiceUid::parse);
    let mut record = Record::new(id("prod", ClusterId::parse), uid.clone());
    let allocated = ALLOCATED.to_owned();
    record.addresses.push(AddressRecord { id: address_id(), allocated, ours: true });
    record.openings.insert(Opening::new(HTTP, &cidrs(EVERYBODY)));
    Service {
        key: ServiceKey::new("shop", "web"),
        uid,
        created: None,
        lifecycle: Lifecycle::Wanted,
        spec: Ok(LoadBalancerSpec {
            ports: vec![port(HTTP), port(HTTPS)],
            algorithm: Algorithm::RoundRobin,
            proxy_protocol: false,
            rule_sources: Sources::Everybody,
            ranges: cidrs(EVERYBODY),
            hostname: None,
        }),
        requested_address: None,
        keeps_address: false,
        recorded: Recorded { finalizer: true, record: Some(record), ..Recorded::default() },
        warnings: Vec::new(),
    }
}

fn address() -> PublicIpAddress {
    PublicIpAddress {
        id: address_id(),
        address: "203.0.113.10".parse().unwrap(),
        state: AddressState::Allocated,
        allocated: Some(ALLOCATED.to_owned()),
        source_nat: false,
        static_nat: None,
        network: Some(id("network", NetworkId::parse)),
        vpc: None,
        has_rules: None,
        tags: BTreeMap::new(),
    }
}

fn network() -> Network {
    let service = |name: &str| (name.to_owned(), NetworkService::default());
    Network {
        id: id("network", NetworkId::parse),
        name: "iso".to_owned(),
        kind: "Isolated".to_owned(),
        vpc: None,
        acl_list: None,
        acl_name: None,
        services: ["Lb", "Firewall"].map(service).into(),
    }
}

fn rule(service: &Service) -> LoadBalancerRule {
    let mark = Mark::new(&id("prod", ClusterId::parse), &service.uid, HTTP, Verdict::Ours);
    LoadBalancerRule {
        id: rule_id(),
        name: "web".to_owned(),
        description: Some(mark.to_string()),
        address: address_id(),
        public_port: 80,
        private_port: 30080,
        protocol: Some(Ok(RuleProtocol::Tcp)),
        algorithm: Ok(Algorithm::RoundRobin),
        sources: Sources::Everybody,
        network: id("network", NetworkId::parse),
        state: RuleState::Active,
        tags: BTreeMap::new(),
    }
}

fn opening() -> FirewallRule {
    FirewallRule {
        id: id("opening", FirewallRuleId::parse),
        address: address_id(),
        protocol: "tcp".to_owned(),
        ports: Some((80, 80)),
        cidrs: cidrs(EVERYBODY),
        state: RuleState::Active,
        tags: BTreeMap::new(),
    }
}
