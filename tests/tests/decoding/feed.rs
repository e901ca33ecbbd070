//! One body, given to the real client as the answer to the command that it was recorded for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ccm_cloudstack::{
    Client, Command, Credentials, Options, Transport, TransportError, Verb, WireRequest,
    WireResponse,
};
use ccm_core::cidr::{CidrSet, Sources};
use ccm_core::exec::error::CallError;
use ccm_core::exec::output::{AddressUse, Output};
use ccm_core::ids::{
    FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, NetworkAclListId, NetworkId,
    PublicIpId, ResourceId, VirtualMachineId,
};
use ccm_core::model::service::{Algorithm, Port, RuleProtocol, Transport as PortTransport};
use ccm_core::observe::scope::Scope;
use ccm_core::observe::{AssociateJob, CloudState, Listing};
use ccm_core::plan::action::{
    AclTarget, AssignToLoadBalancerRule, AssociateIpAddress, Call, CheckAddressUnused,
    CreateFirewallRule, CreateLoadBalancerRule, CreateNetworkAcl, CreateTags, DeleteFirewallRule,
    DeleteLoadBalancerRule, DeleteNetworkAcl, DisassociateIpAddress, Placement,
    RemoveFromLoadBalancerRule, ResourceType, UpdateLoadBalancerRule,
};
use ccm_tests::lab::{VirtualRuntime, block_on};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::facts::{Collected, Facts};
use crate::understood;

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct Body {
    /// HTTP status.
    pub status: u16,
    /// What was sent.
    pub text: String,
}

impl Body {
    /// An answer in JSON.
    pub fn json(status: u16, body: &Value) -> Self {
        Self { status, text: body.to_string() }
    }
}

/// What the client made of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Understood {
    /// Objects, sorted.
    Read(Vec<Facts>),
    /// The role may not list this.
    Denied,
    /// The job, if one was followed, and what it made.
    Carried { job: Option<String>, made: Option<String> },
    /// The state of a job of associateIpAddress.
    Job(AssociateJob),
    /// An error.
    Error(CallError),
}

/// The job that the client thinks of itself, if the answer names none.
pub const OWN_JOB: &str = "own";

/// The one object of any kind that exists besides.
const ID: &str = "11111111-2222-3333-4444-555555555555";
const NOW: &str = "2026-12-01T21:30:00Z";

/// Answers one command with the body, and others so that it is asked.
#[derive(Clone)]
struct Tape {
    command: Command,
    body: Body,
    followed: Arc<Mutex<Option<String>>>,
}

impl Transport for Tape {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        let asked = request.param("command").unwrap_or_default();
        let Body { status, text } = if asked == self.command.name() {
            self.body.clone()
        } else {
            Body::json(200, &json!({ "answer": self.other(asked, &request) }))
        };
        Ok(WireResponse { status, content_type: None, body: text })
    }
}

impl Tape {
    fn other(&self, asked: &str, request: &WireRequest) -> Value {
        match asked {
            "listCapabilities" => json!({"capability": {"cloudstackversion": "4.23.0.0"}}),
            "listNetworks" => {
                let tier = json!({"id": ID, "name": "tier", "vpcid": ID, "aclid": ID});
                json!({"count": 1, "network": [tier]})
            }
            "listPublicIpAddresses" => {
                let Some(id) = request.param("id") else { return json!({}) };
                let address = json!({"id": id, "ipaddress": "203.0.113.9", "state": "Allocated",
                    "allocated": "2026-12-01T20:16:39+0000"});
                json!({"count": 1, "publicipaddress": [address]})
            }
            "queryAsyncJobResult" => {
                let job = request.param("jobid").unwrap_or_default();
                *self.followed.lock().expect("a lock") = Some(job.to_owned());
                json!({"jobid": job, "jobstatus": 1, "jobresult": {"success": true}})
            }
            _ if asked.starts_with("list") => json!({}),
            _ => json!({ "jobid": ID }),
        }
    }
}

type Ears = (Client<Tape, VirtualRuntime>, Arc<Mutex<Option<String>>>);

fn client(command: Command, body: &Body) -> Ears {
    let followed = Arc::default();
    let tape = Tape { command, body: body.clone(), followed: Arc::clone(&followed) };
    let runtime = VirtualRuntime::new(NOW.parse().expect("an instant"));
    let credentials = Credentials::new("recorded-api-key", "recorded-secret-key");
    (Client::new(tape, runtime, credentials, Options::default()), followed)
}

/// Gives a body to the client as the answer to a command.
pub fn feed(command: Command, body: &Body) -> Understood {
    match command.verb() {
        Verb::Read => listen(command, body),
        Verb::Create
        | Verb::Update
        | Verb::Assign
        | Verb::Remove
        | Verb::Delete
        | Verb::Release => carry(command, command, body),
    }
}

/// Gives a body to the client as the answer to the question for the job of a command.
pub fn feed_job(of: Command, body: &Body) -> Understood {
    carry(of, Command::QueryAsyncJobResult, body)
}

fn listen(command: Command, body: &Body) -> Understood {
    let (client, _) = client(command, body);
    let heard = block_on(async {
        match command {
            Command::ListLoadBalancerRuleInstances => {
                let rule = LoadBalancerRuleId::parse(ID).expect("an id");
                let members = client.members(&BTreeSet::from([rule])).await?;
                let id = |id: &VirtualMachineId| Collected::default().with("id", id).0;
                Ok(Understood::Read(members.values().flatten().map(id).collect()))
            }
            Command::ListApis => Ok(match client.apis().await? {
                Listing::Listed(names) => {
                    let name = |name: &String| Collected::default().with("name", name).0;
                    Understood::Read(names.iter().map(name).collect())
                }
                Listing::Denied => Understood::Denied,
            }),
            Command::ListPortForwardingRules => {
                let call = Call::CheckAddressUnused(CheckAddressUnused {
                    address: PublicIpId::parse(ID).expect("an id"),
                    allocated: String::new(),
                });
                let output = client.call(&call).await?;
                let Output::AddressUse(AddressUse { port_forwards, .. }) = output else {
                    panic!("{output:?}")
                };
                let id = |id: &String| Collected::default().with("id", id).0;
                Ok(Understood::Read(port_forwards.iter().map(id).collect()))
            }
            _ => {
                let job = JobId::parse(ID).expect("an id");
                let jobs = [job].into_iter().filter(|_| command == Command::QueryAsyncJobResult);
                let jobs = jobs.collect();
                let state = client.observe(&Scope { jobs, ..Scope::default() }).await?;
                Ok(part(command, state))
            }
        }
    });
    heard.unwrap_or_else(Understood::Error)
}

/// What came from a command.
fn part(command: Command, state: CloudState) -> Understood {
    let CloudState {
        at: _,
        capabilities,
        addresses,
        rules,
        members: _,
        firewall_rules,
        acl_lists,
        acl_items,
        networks,
        vpcs,
        virtual_machines,
        jobs,
    } = state;
    match command {
        Command::ListCapabilities => {
            let limit = capabilities.rate_limit;
            let limit = limit.map(|limit| format!("{} in {} s", limit.calls, limit.seconds));
            let facts = Collected::default()
                .with_some("version", capabilities.version)
                .with_some("limit", limit);
            Understood::Read(vec![facts.0])
        }
        Command::ListPublicIpAddresses => read(&addresses, understood::address),
        Command::ListLoadBalancerRules => read(&rules, understood::rule),
        Command::ListFirewallRules => read(&firewall_rules, understood::firewall_rule),
        Command::ListNetworkAclLists => read_listing(&acl_lists, understood::acl_list),
        Command::ListNetworkAcls => read_listing(&acl_items, understood::acl_item),
        Command::ListNetworks => read(&networks, understood::network),
        Command::ListVpcs => read_listing(&vpcs, understood::vpc),
        Command::ListVirtualMachines => read(&virtual_machines, understood::machine),
        Command::QueryAsyncJobResult => {
            Understood::Job(jobs.into_values().next().expect("the job"))
        }
        other => panic!("{} is not part of an observation", other.name()),
    }
}

fn read<T>(objects: &[T], facts: fn(&T) -> Facts) -> Understood {
    let mut read: Vec<Facts> = objects.iter().map(facts).collect();
    read.sort();
    Understood::Read(read)
}

fn read_listing<T>(listing: &Listing<Vec<T>>, facts: fn(&T) -> Facts) -> Understood {
    listing.listed().map_or(Understood::Denied, |objects| read(objects, facts))
}

/// Sends a command; the body answers it, or the question for its job.
fn carry(command: Command, answered: Command, body: &Body) -> Understood {
    let (client, followed) = client(answered, body);
    let output = block_on(client.call(&call(command)));
    let own = |job: String| if job.starts_with("10000000-") { OWN_JOB.to_owned() } else { job };
    let own = |job: String| if job == WITNESS { OWN_JOB.to_owned() } else { own(job) };
    let job = followed.lock().expect("a lock").take().map(own);
    match output {
        Ok(output) => Understood::Carried { job, made: output.resource().map(String::from) },
        Err(error) => Understood::Error(error),
    }
}

/// The job of an associateIpAddress, which the core chooses.
const WITNESS: &str = "0a9d3c1e-4f5b-4c6d-8e7f-001122334455";

/// A call that sends a command.
fn call(command: Command) -> Call {
    let address = PublicIpId::parse(ID).expect("an id");
    let rule = LoadBalancerRuleId::parse(ID).expect("an id");
    let firewall_rule = FirewallRuleId::parse(ID).expect("an id");
    let item = NetworkAclItemId::parse(ID).expect("an id");
    let list = NetworkAclListId::parse(ID).expect("an id");
    let network = NetworkId::parse(ID).expect("an id");
    let vms = BTreeSet::from([VirtualMachineId::parse(ID).expect("an id")]);
    let port = Port { transport: PortTransport::Tcp, number: 80 };
    match command {
        Command::AssociateIpAddress => Call::AssociateIpAddress(AssociateIpAddress {
            placement: Placement::Network(network),
            address: None,
            project: None,
            job: JobId::parse(WITNESS).expect("an id"),
            expires: "2026-12-01T21:39:00Z".parse::<Timestamp>().expect("an instant"),
        }),
        Command::DisassociateIpAddress => {
            Call::DisassociateIpAddress(DisassociateIpAddress { address })
        }
        Command::CreateLoadBalancerRule => Call::CreateLoadBalancerRule(CreateLoadBalancerRule {
            address,
            network,
            name: "web".to_owned(),
            description: "test".to_owned(),
            public_port: 80,
            private_port: 30080,
            protocol: RuleProtocol::Tcp,
            algorithm: Algorithm::RoundRobin,
            sources: Sources::Everybody,
        }),
        Command::UpdateLoadBalancerRule => Call::UpdateLoadBalancerRule(UpdateLoadBalancerRule {
            rule,
            protocol: RuleProtocol::Tcp,
            name: None,
            description: None,
            algorithm: None,
            sources: None,
        }),
        Command::DeleteLoadBalancerRule => {
            Call::DeleteLoadBalancerRule(DeleteLoadBalancerRule { rule })
        }
        Command::AssignToLoadBalancerRule => {
            Call::AssignToLoadBalancerRule(AssignToLoadBalancerRule { rule, vms })
        }
        Command::RemoveFromLoadBalancerRule => {
            Call::RemoveFromLoadBalancerRule(RemoveFromLoadBalancerRule { rule, vms })
        }
        Command::CreateFirewallRule => Call::CreateFirewallRule(CreateFirewallRule {
            address,
            port,
            cidrs: CidrSet::everybody(),
            trial: None,
        }),
        Command::DeleteFirewallRule => Call::DeleteFirewallRule(DeleteFirewallRule {
            rule: firewall_rule,
            port,
            cidrs: CidrSet::everybody(),
        }),
        Command::CreateNetworkAcl => Call::CreateNetworkAcl(CreateNetworkAcl {
            target: AclTarget::List(list),
            port,
            number: None,
            reason: "test".to_owned(),
        }),
        Command::DeleteNetworkAcl => Call::DeleteNetworkAcl(DeleteNetworkAcl { item, list, port }),
        Command::CreateTags => Call::CreateTags(CreateTags {
            resource: ResourceType::LoadBalancer,
            objects: vec![ResourceId::from(&rule)],
            tags: ["a", "b", "c"].map(|key| (key, "1".to_owned())),
        }),
        other => panic!("{} changes nothing", other.name()),
    }
}

/// Commands by their names.
pub fn commands() -> BTreeMap<&'static str, Command> {
    Command::ALL.iter().map(|command| (command.name(), *command)).collect()
}
