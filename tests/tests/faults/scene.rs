//! A world with one of everything, and for each command the operation that sends it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use ccm_cloudstack::{
    Client, Command, Credentials, Options, Transport, TransportError, Verb, WireRequest,
    WireResponse,
};
use ccm_core::cidr::{CidrSet, Sources};
use ccm_core::exec::error::CallError;
use ccm_core::ids::{
    FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, NetworkAclListId, NetworkId,
    PublicIpId, ResourceId, VirtualMachineId,
};
use ccm_core::model::service::{Algorithm, Port, RuleProtocol, Transport as PortTransport};
use ccm_core::observe::scope::Scope;
use ccm_core::plan::action::{
    AclTarget, AssignToLoadBalancerRule, AssociateIpAddress, Call, CheckAddressUnused,
    CreateFirewallRule, CreateLoadBalancerRule, CreateNetworkAcl, CreateTags, DeleteFirewallRule,
    DeleteLoadBalancerRule, DeleteNetworkAcl, DisassociateIpAddress, Placement,
    RemoveFromLoadBalancerRule, ResourceType, UpdateLoadBalancerRule,
};
use ccm_simulator::Simulator;
use ccm_simulator::faults::{Fault, FaultKind};
use ccm_tests::door::Door;
use ccm_tests::lab::{Lab, Setup, VirtualRuntime, block_on};
use ccm_tests::objects::Objects;
use jiff::{Timestamp, ToSpan as _};

/// Of the standard world: account `prod`.
const KEYS: (&str, &str) = ("standard-api-key", "standard-secret-key");
const NETWORK: &str = "00000000-0000-4000-8000-0000000000a1";
const TIER: &str = "00000000-0000-4000-8000-0000000000b1";
const ACL_LIST: &str = "00000000-0000-4000-8000-0000000000d1";
const NODES: [&str; 2] =
    ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"];
const ADDRESS: &str = "203.0.113.50";
/// Small, so that most lists have several pages.
const PAGE: u32 = 2;

/// Done to the simulator before a request of a command reaches it.
type Interruption = Box<dyn FnMut(&mut Simulator, &str) + Send>;

/// The way to the simulator, on which something may happen.
#[derive(Clone)]
pub struct Way {
    lab: ccm_tests::lab::SharedSimulator,
    door: Door,
    interruption: Arc<Mutex<Option<Interruption>>>,
}

impl Transport for Way {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        let command = request.param("command").unwrap_or_default();
        if let Some(interrupt) = self.interruption.lock().expect("a lock").as_mut() {
            self.lab.with(|simulator| interrupt(simulator, command));
        }
        self.door.send(request).await
    }
}

/// A fresh world, and the client in front of it.
pub struct Scene {
    lab: Lab,
    client: Client<Way, VirtualRuntime>,
    way: Way,
    address: PublicIpId,
    rule: LoadBalancerRuleId,
    firewall_rule: FirewallRuleId,
    acl_item: NetworkAclItemId,
    job: JobId,
}

impl Scene {
    /// An address with a rule, a member, a firewall rule and a port forward; an ACL item.
    pub fn new() -> Self {
        Self::behind(|lab| Door::Direct(lab.simulator.clone()))
    }

    /// The same over HTTP, on the loopback device.
    pub fn over_http() -> Self {
        Self::behind(|lab| Door::http(&lab.simulator))
    }

    fn behind(door: impl FnOnce(&Lab) -> Door) -> Self {
        let lab = Setup::standard().release("4.23.0.0").start();
        let door = door(&lab);
        let listed = lab.by_hand("listPublicIpAddresses", &[("ipaddress", ADDRESS)]);
        let address = text(&listed["publicipaddress"][0]["id"]);
        let made = |command: &str, params: &[(&str, &str)]| {
            let answer = lab.by_hand(command, params);
            (text(&answer["id"]), text(&answer["jobid"]))
        };
        let port = |port| {
            [
                ("publicipid", address.as_str()),
                ("name", "web"),
                ("algorithm", "roundrobin"),
                ("publicport", port),
                ("privateport", "30080"),
                ("protocol", "tcp"),
                ("openfirewall", "false"),
            ]
        };
        let (rule, job) = made("createLoadBalancerRule", &port("80"));
        for other in ["81", "82"] {
            made("createLoadBalancerRule", &port(other));
        }
        let member = [("id", rule.as_str()), ("virtualmachineids", NODES[0])];
        lab.by_hand("assignToLoadBalancerRule", &member);
        let open = [
            ("ipaddressid", address.as_str()),
            ("protocol", "tcp"),
            ("startport", "80"),
            ("cidrlist", "192.0.2.0/24"),
        ];
        let (firewall_rule, _) = made("createFirewallRule", &open);
        let item = [("aclid", ACL_LIST), ("protocol", "tcp"), ("startport", "80")];
        let (acl_item, _) = made("createNetworkACL", &item);
        let forward = serde_json::json!({"address": ADDRESS, "start-port": 2222});
        let forward = serde_json::from_value(forward).expect("a port forward");
        lab.simulator.with(|simulator| simulator.add_port_forward(&forward)).expect("an address");
        let way = Way { lab: lab.simulator.clone(), door, interruption: Arc::default() };
        let options = Options { page_size: PAGE, ..Options::default() };
        let credentials = Credentials::new(KEYS.0, KEYS.1);
        Self {
            client: Client::new(way.clone(), lab.runtime.clone(), credentials, options),
            way,
            lab,
            address: PublicIpId::parse(&address).expect("an id"),
            rule: LoadBalancerRuleId::parse(&rule).expect("an id"),
            firewall_rule: FirewallRuleId::parse(&firewall_rule).expect("an id"),
            acl_item: NetworkAclItemId::parse(&acl_item).expect("an id"),
            job: JobId::parse(&job).expect("an id"),
        }
    }

    /// Works on the simulator.
    pub fn simulator<T>(&self, work: impl FnOnce(&mut Simulator) -> T) -> T {
        self.lab.simulator.with(work)
    }

    /// Lets a command meet with a fault, always or so many times.
    pub fn inject(&self, command: Command, kind: FaultKind, times: Option<u32>) {
        let fault = Fault { times, ..Fault::on(command.name(), kind) };
        self.simulator(|simulator| simulator.inject(fault));
    }

    /// Lets so many of a hundred requests meet with a fault, whatever their command.
    pub fn inject_by_chance(&self, kind: FaultKind, percent: u8) {
        self.simulator(|simulator| simulator.inject(Fault::on_all(kind).percent(percent)));
    }

    /// The network of the address is without its router from now on, and so is the VPC.
    pub fn stop_routers(&self) {
        self.simulator(|simulator| {
            for network in [NETWORK, TIER] {
                simulator.stop_router(network).expect("a network");
            }
        });
    }

    /// The address goes to another account, with nothing on it.
    pub fn give_the_address_away(&self) {
        self.lab.by_hand("disassociateIpAddress", &[("id", self.address.as_str())]);
        let zone = self.lab.by_hand("listZones", &[]);
        let zone = text(&zone["zone"][0]["id"]);
        let wanted = [("zoneid", zone.as_str()), ("ipaddress", ADDRESS)];
        self.lab.by_hand_as("other", "associateIpAddress", &wanted);
    }

    /// Somebody takes away what a command is about.
    pub fn take_away(&self, command: Command) {
        let by_hand = |command, id: &str| drop(self.lab.by_hand(command, &[("id", id)]));
        match command {
            Command::DisassociateIpAddress
            | Command::CreateLoadBalancerRule
            | Command::CreateFirewallRule => {
                by_hand("disassociateIpAddress", self.address.as_str());
            }
            Command::UpdateLoadBalancerRule
            | Command::DeleteLoadBalancerRule
            | Command::AssignToLoadBalancerRule
            | Command::RemoveFromLoadBalancerRule
            | Command::CreateTags => by_hand("deleteLoadBalancerRule", self.rule.as_str()),
            Command::DeleteFirewallRule => {
                by_hand("deleteFirewallRule", self.firewall_rule.as_str());
            }
            Command::DeleteNetworkAcl => by_hand("deleteNetworkACL", self.acl_item.as_str()),
            other => panic!("{} is about nothing that can be taken away", other.name()),
        }
    }

    /// From now on something happens to the simulator before each request reaches it.
    pub fn interrupt(&self, work: impl FnMut(&mut Simulator, &str) + Send + 'static) {
        *self.way.interruption.lock().expect("a lock") = Some(Box::new(work));
    }

    /// What is there.
    pub fn objects(&self) -> Objects {
        self.lab.objects()
    }

    /// The virtual time.
    pub fn now(&self) -> Timestamp {
        self.lab.now()
    }

    /// Commands that were ever sent.
    pub fn sent(&self) -> BTreeSet<String> {
        self.lab.simulator.sent()
    }

    /// Runs the operation that sends a list command; gives what came from that list alone.
    ///
    /// # Errors
    /// What the client reports.
    pub fn listed(&self, command: Command) -> Result<String, CallError> {
        let state = match operation(command) {
            Operation::Observe => block_on(self.client.observe(&Scope::default()))?,
            Operation::Members | Operation::Permissions | Operation::Call(_) => {
                return self.run(command);
            }
        };
        Ok(match command {
            Command::ListNetworks => format!("{:?}", state.networks),
            Command::ListVpcs => format!("{:?}", state.vpcs),
            Command::ListVirtualMachines => format!("{:?}", state.virtual_machines),
            Command::ListPublicIpAddresses => format!("{:?}", state.addresses),
            Command::ListLoadBalancerRules => format!("{:?}", state.rules),
            Command::ListFirewallRules => format!("{:?}", state.firewall_rules),
            Command::ListNetworkAclLists => format!("{:?}", state.acl_lists),
            Command::ListNetworkAcls => format!("{:?}", state.acl_items),
            other => panic!("{} is no list", other.name()),
        })
    }

    /// Somebody changes what a list command lists.
    pub fn disturb(&self, list: Command) {
        let zone = self.lab.by_hand("listZones", &[]);
        let zone = text(&zone["zone"][0]["id"]);
        let by_hand = |command, params: &[(&str, &str)]| drop(self.lab.by_hand(command, params));
        let new = [("name", "new"), ("zoneid", zone.as_str()), ("cidr", "10.9.0.0/16")];
        match list {
            Command::ListNetworks => {
                by_hand("createNetwork", &[new[0], new[1], ("networkofferingid", "new")]);
            }
            Command::ListVpcs => {
                let vpcs = self.lab.by_hand("listVPCs", &[]);
                let offering = text(&vpcs["vpc"][0]["vpcofferingid"]);
                by_hand("createVPC", &[new[0], new[1], new[2], ("vpcofferingid", &offering)]);
            }
            Command::ListVirtualMachines => {
                let vm =
                    serde_json::from_value(serde_json::json!({"name": "new", "owner": "prod"}));
                let vm = vm.expect("a machine");
                self.simulator(|simulator| simulator.add_vm(&vm)).expect("an owner");
            }
            Command::ListPublicIpAddresses => {
                by_hand("associateIpAddress", &[("networkid", NETWORK)]);
            }
            Command::ListLoadBalancerRules => {
                by_hand("deleteLoadBalancerRule", &[("id", self.rule.as_str())]);
            }
            Command::ListFirewallRules => {
                by_hand("deleteFirewallRule", &[("id", self.firewall_rule.as_str())]);
            }
            Command::ListNetworkAclLists => {
                let vpcs = self.lab.by_hand("listVPCs", &[]);
                let vpc = text(&vpcs["vpc"][0]["id"]);
                by_hand("createNetworkACLList", &[("name", "new"), ("vpcid", &vpc)]);
            }
            Command::ListNetworkAcls => {
                by_hand("deleteNetworkACL", &[("id", self.acl_item.as_str())]);
            }
            Command::ListLoadBalancerRuleInstances => self.assign_by_hand(NODES[1]),
            Command::ListPortForwardingRules => {
                let forward = serde_json::json!({"address": ADDRESS, "start-port": 3333});
                let forward = serde_json::from_value(forward).expect("a port forward");
                self.simulator(|simulator| simulator.add_port_forward(&forward)).expect("one");
            }
            other => panic!("{} is no list", other.name()),
        }
    }

    fn assign_by_hand(&self, vm: &str) {
        let params = [("id", self.rule.as_str()), ("virtualmachineids", vm)];
        self.lab.by_hand("assignToLoadBalancerRule", &params);
    }

    /// While the client's next job runs, somebody assigns the rule's member once more.
    pub fn assign_during_the_next_job(&self) {
        let rule = self.rule.to_string();
        let mut done = false;
        self.interrupt(move |simulator, command| {
            if command == Command::QueryAsyncJobResult.name() && !done {
                done = true;
                let params = [("id", rule.as_str()), ("virtualmachineids", NODES[0])];
                let assign = Command::AssignToLoadBalancerRule.name();
                simulator.call("prod", assign, &params, Timestamp::UNIX_EPOCH);
            }
        });
    }

    /// Somebody repairs the rule in CloudStack's database.
    pub fn repair(&self) {
        let rule = self.rule.as_str();
        self.simulator(|simulator| simulator.repair_rule(rule)).expect("the rule");
    }

    /// Runs the operation that sends a command; gives what it found.
    ///
    /// # Errors
    /// What the client reports.
    pub fn run(&self, command: Command) -> Result<String, CallError> {
        block_on(async {
            match operation(command) {
                Operation::Observe => {
                    let scope =
                        Scope { jobs: BTreeSet::from([self.job.clone()]), ..Scope::default() };
                    let mut state = self.client.observe(&scope).await?;
                    state.at = Timestamp::UNIX_EPOCH;
                    Ok(format!("{state:?}"))
                }
                Operation::Members => {
                    let members = self.client.members(&BTreeSet::from([self.rule.clone()])).await?;
                    Ok(format!("{members:?}"))
                }
                Operation::Permissions => {
                    let permissions = self.client.permissions().await?;
                    Ok(format!("{permissions:?}"))
                }
                Operation::Call(call) => {
                    let output = self.client.call(&call(self)).await?;
                    Ok(format!("{output:?}"))
                }
            }
        })
    }
}

/// What sends a command.
enum Operation {
    /// `Client::observe`.
    Observe,
    /// `Client::members`.
    Members,
    /// `Client::permissions`.
    Permissions,
    /// `Client::call`.
    Call(fn(&Scene) -> Call),
}

/// The commands that change something.
pub fn changes() -> impl Iterator<Item = Command> {
    Command::ALL.iter().copied().filter(|command| command.verb() != Verb::Read)
}

/// The commands that change nothing.
pub fn reads() -> impl Iterator<Item = Command> {
    Command::ALL.iter().copied().filter(|command| command.verb() == Verb::Read)
}

/// A new command does not compile until it is here, and then meets with every fault.
fn operation(command: Command) -> Operation {
    match command {
        Command::ListCapabilities
        | Command::ListNetworks
        | Command::ListVpcs
        | Command::ListVirtualMachines
        | Command::ListPublicIpAddresses
        | Command::ListLoadBalancerRules
        | Command::ListFirewallRules
        | Command::ListNetworkAclLists
        | Command::ListNetworkAcls
        | Command::QueryAsyncJobResult => Operation::Observe,
        Command::ListApis => Operation::Permissions,
        Command::ListLoadBalancerRuleInstances => Operation::Members,
        Command::ListPortForwardingRules => Operation::Call(check),
        Command::AssociateIpAddress => Operation::Call(associate),
        Command::DisassociateIpAddress => Operation::Call(|scene| {
            Call::DisassociateIpAddress(DisassociateIpAddress { address: scene.address.clone() })
        }),
        Command::CreateLoadBalancerRule => Operation::Call(create_rule),
        Command::UpdateLoadBalancerRule => Operation::Call(update_rule),
        Command::DeleteLoadBalancerRule => Operation::Call(|scene| {
            Call::DeleteLoadBalancerRule(DeleteLoadBalancerRule { rule: scene.rule.clone() })
        }),
        Command::AssignToLoadBalancerRule => Operation::Call(|scene| {
            let (rule, vms) = (scene.rule.clone(), vm(NODES[1]));
            Call::AssignToLoadBalancerRule(AssignToLoadBalancerRule { rule, vms })
        }),
        Command::RemoveFromLoadBalancerRule => Operation::Call(|scene| {
            let (rule, vms) = (scene.rule.clone(), vm(NODES[0]));
            Call::RemoveFromLoadBalancerRule(RemoveFromLoadBalancerRule { rule, vms })
        }),
        Command::CreateFirewallRule => Operation::Call(|scene| {
            Call::CreateFirewallRule(CreateFirewallRule {
                address: scene.address.clone(),
                port: port(443),
                cidrs: CidrSet::everybody(),
                trial: None,
            })
        }),
        Command::DeleteFirewallRule => Operation::Call(|scene| {
            Call::DeleteFirewallRule(DeleteFirewallRule {
                rule: scene.firewall_rule.clone(),
                port: port(80),
                cidrs: CidrSet::everybody(),
            })
        }),
        Command::CreateNetworkAcl => Operation::Call(|_| {
            Call::CreateNetworkAcl(CreateNetworkAcl {
                target: AclTarget::List(acl_list()),
                port: port(443),
                number: None,
                reason: "test".to_owned(),
            })
        }),
        Command::CreateTags => Operation::Call(|scene| {
            Call::CreateTags(CreateTags {
                resource: ResourceType::LoadBalancer,
                objects: vec![ResourceId::from(&scene.rule)],
                tags: ["a", "b", "c"].map(|key| (key, "1".to_owned())),
            })
        }),
        Command::DeleteNetworkAcl => Operation::Call(|scene| {
            let (item, list) = (scene.acl_item.clone(), acl_list());
            Call::DeleteNetworkAcl(DeleteNetworkAcl { item, list, port: port(80) })
        }),
    }
}

fn check(scene: &Scene) -> Call {
    Call::CheckAddressUnused(CheckAddressUnused {
        address: scene.address.clone(),
        allocated: String::new(),
    })
}

fn associate(scene: &Scene) -> Call {
    Call::AssociateIpAddress(AssociateIpAddress {
        placement: Placement::Network(network()),
        address: None,
        project: None,
        job: JobId::parse("0a9d3c1e-4f5b-4c6d-8e7f-001122334455").expect("an id"),
        expires: scene.now().checked_add(9.minutes()).expect("a time"),
    })
}

fn create_rule(scene: &Scene) -> Call {
    Call::CreateLoadBalancerRule(CreateLoadBalancerRule {
        address: scene.address.clone(),
        network: network(),
        name: "web-tcp-443".to_owned(),
        description: "test".to_owned(),
        public_port: 443,
        private_port: 30443,
        protocol: RuleProtocol::Tcp,
        algorithm: Algorithm::Source,
        sources: Sources::Everybody,
    })
}

fn update_rule(scene: &Scene) -> Call {
    Call::UpdateLoadBalancerRule(UpdateLoadBalancerRule {
        rule: scene.rule.clone(),
        protocol: RuleProtocol::Tcp,
        name: None,
        description: None,
        algorithm: Some(Algorithm::Source),
        sources: None,
    })
}

fn port(number: u16) -> Port {
    Port { transport: PortTransport::Tcp, number }
}

fn vm(id: &str) -> BTreeSet<VirtualMachineId> {
    BTreeSet::from([VirtualMachineId::parse(id).expect("an id")])
}

fn network() -> NetworkId {
    NetworkId::parse(NETWORK).expect("an id")
}

fn acl_list() -> NetworkAclListId {
    NetworkAclListId::parse(ACL_LIST).expect("an id")
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
