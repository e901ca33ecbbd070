//! A cluster in which everything is converged and nothing is to be done, of any size.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ccm_core::cidr::{CidrSet, Sources};
use ccm_core::ids::{
    ClusterId, FirewallRuleId, LoadBalancerRuleId, NetworkId, PublicIpId, VirtualMachineId,
};
use ccm_core::model::Desired;
use ccm_core::model::mark::Mark;
use ccm_core::model::policy::Policy;
use ccm_core::model::record::{
    AddressRecord, FINALIZER, MemberDigest, Opening, Record, Verdict, members_digest,
};
use ccm_core::model::rule_name::rule_name;
use ccm_core::model::service::{Algorithm, Ingress, Port, RuleProtocol, Transport};
use ccm_core::observe::index::Observed;
use ccm_core::observe::{
    AddressState, Capabilities, CloudState, FirewallRule, LoadBalancerRule, Network,
    NetworkService, Nic, PublicIpAddress, RuleState, VirtualMachine,
};
use ccm_core::parse::raw::{RawNode, RawService, RawServicePort};
use ccm_core::parse::{self, ParseContext};
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::version::Version;
use jiff::Timestamp;

use crate::lab::{annotation, uid_of};

/// How many nodes serve.
pub const NODES: usize = 500;
const ALLOCATED: &str = "2026-01-01T00:00:00+0000";
const PORT: Port = Port { transport: Transport::Tcp, number: 443 };

/// See the module.
pub struct Cluster {
    desired: Desired,
    observed: Observed,
    policy: Policy,
}

impl Cluster {
    /// With as many Services, each with one port.
    pub fn converged(services: usize) -> Self {
        let policy = Policy::new(ClusterId::parse("prod").unwrap());
        let now = Timestamp::UNIX_EPOCH;
        let version = Some(Version::new(4, 22, 0));
        let capabilities = Capabilities { version, ..Capabilities::default() };
        let mut state = CloudState::empty(now, capabilities);
        state.networks.push(network());
        state.virtual_machines = (0..NODES).map(machine).collect();
        let digest = members_digest(state.virtual_machines.iter().map(|vm| &vm.id));
        let mut raws = Vec::new();
        for number in 0..services {
            let served = Served::new(number);
            state.addresses.push(served.address());
            state.rules.push(served.rule(&policy));
            state.firewall_rules.push(served.opening());
            raws.push(served.raw(&policy, &digest));
        }
        let nodes: Vec<RawNode> = (0..NODES).map(node).collect();
        let context = ParseContext { cluster_id: policy.cluster_id.clone() };
        let desired = parse::desired(&raws, &nodes, &context);
        Self { desired, observed: Observed::new(state), policy }
    }

    /// Plans everything: every plan must be empty, without a read of members. Gives how many.
    pub fn plan(&self) -> usize {
        let now = Timestamp::UNIX_EPOCH;
        let planner = Planner::new(&self.desired, &self.observed, &self.policy, now);
        assert!(planner.members_to_read(Depth::Quick).is_empty(), "digests spare the reads");
        let mut count = 0;
        for key in self.desired.services.keys() {
            let found = planner.plan(key).expect("a plan");
            assert!(found.plan.is_empty() && found.report.is_empty(), "{found:#?}");
            count += 1;
        }
        count
    }
}

/// One Service with one port, served.
struct Served {
    name: String,
    uid: String,
    ip: Ipv4Addr,
    id: String,
}

impl Served {
    fn new(number: usize) -> Self {
        let name = format!("service-{number}");
        let offset = u32::try_from(number).expect("few Services");
        let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(100, 64, 0, 0)) + offset);
        Self {
            uid: uid_of(&name),
            name,
            ip,
            id: format!("{number:08x}-0000-4000-8000-000000000000"),
        }
    }

    fn address_id(&self) -> PublicIpId {
        PublicIpId::parse(&self.id).unwrap()
    }

    fn rule_id(&self) -> LoadBalancerRuleId {
        LoadBalancerRuleId::parse(&self.id).unwrap()
    }

    fn address(&self) -> PublicIpAddress {
        PublicIpAddress {
            id: self.address_id(),
            address: self.ip,
            state: AddressState::Allocated,
            allocated: Some(ALLOCATED.to_owned()),
            source_nat: false,
            static_nat: None,
            network: Some(network_id()),
            vpc: None,
            has_rules: Some(true),
            tags: BTreeMap::new(),
        }
    }

    fn rule(&self, policy: &Policy) -> LoadBalancerRule {
        let uid = ccm_core::ids::ServiceUid::parse(&self.uid).unwrap();
        LoadBalancerRule {
            id: self.rule_id(),
            name: rule_name(&uid, RuleProtocol::Tcp, PORT.number),
            description: Some(Mark::new(&policy.cluster_id, &uid, PORT, Verdict::Ours).to_string()),
            address: self.address_id(),
            public_port: PORT.number,
            private_port: 30443,
            protocol: Some(Ok(RuleProtocol::Tcp)),
            algorithm: Ok(Algorithm::RoundRobin),
            sources: Sources::Everybody,
            network: network_id(),
            state: RuleState::Active,
            tags: BTreeMap::new(),
        }
    }

    fn opening(&self) -> FirewallRule {
        FirewallRule {
            id: FirewallRuleId::parse(&self.id).unwrap(),
            address: self.address_id(),
            protocol: "tcp".to_owned(),
            ports: Some((PORT.number, PORT.number)),
            cidrs: CidrSet::everybody(),
            state: RuleState::Active,
            tags: BTreeMap::new(),
        }
    }

    fn raw(&self, policy: &Policy, digest: &str) -> RawService {
        let uid = ccm_core::ids::ServiceUid::parse(&self.uid).unwrap();
        let mut record = Record::new(policy.cluster_id.clone(), uid);
        let (id, allocated) = (self.address_id(), ALLOCATED.to_owned());
        record.addresses.push(AddressRecord { id, allocated, ours: true });
        record.openings = BTreeSet::from([Opening::new(PORT, &CidrSet::everybody())]);
        let rule = self.rule_id().short().to_owned();
        record.members.insert(PORT, MemberDigest { rule, digest: digest.to_owned() });
        RawService {
            namespace: "bench".to_owned(),
            name: self.name.clone(),
            uid: Some(self.uid.clone()),
            finalizers: vec![FINALIZER.to_owned()],
            annotations: BTreeMap::from([
                (annotation("ip-associated-by-controller"), "true".to_owned()),
                (annotation("record"), record.to_text()),
            ]),
            service_type: Some("LoadBalancer".to_owned()),
            ports: vec![RawServicePort {
                name: None,
                protocol: Some("TCP".to_owned()),
                port: 443,
                node_port: Some(30443),
            }],
            ingress: vec![Ingress {
                ip: Some(self.ip.to_string()),
                hostname: None,
                ip_mode: Some("VIP".to_owned()),
            }],
            ..RawService::default()
        }
    }
}

fn network_id() -> NetworkId {
    NetworkId::parse("network").unwrap()
}

fn network() -> Network {
    let router = NetworkService {
        providers: BTreeSet::from(["VirtualRouter".to_owned()]),
        capabilities: BTreeMap::new(),
    };
    Network {
        id: network_id(),
        name: "network".to_owned(),
        kind: "Isolated".to_owned(),
        vpc: None,
        acl_list: None,
        acl_name: None,
        services: ["Lb", "Firewall"].map(|name| (name.to_owned(), router.clone())).into(),
    }
}

fn machine_id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn machine(number: usize) -> VirtualMachine {
    let offset = u32::try_from(number).expect("few machines");
    VirtualMachine {
        id: VirtualMachineId::parse(&machine_id(number)).unwrap(),
        name: format!("node-{number}"),
        state: "Running".to_owned(),
        zone: "zone-1".to_owned(),
        offering: None,
        nics: vec![Nic {
            network: network_id(),
            network_name: "network".to_owned(),
            ipv4: Some(Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + offset)),
            ipv6: None,
            default: true,
            device: 0,
        }],
        public_ip: None,
    }
}

fn node(number: usize) -> RawNode {
    RawNode {
        name: format!("node-{number}"),
        provider_id: Some(format!("external-cloudstack://{}", machine_id(number))),
        ..RawNode::default()
    }
}
