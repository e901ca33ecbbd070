//! Which ports of a Service can be served, each on its own: a refused port holds nothing else back.

use std::collections::BTreeMap;

use crate::model::policy::UdpOnRouter;
use crate::model::service::{LoadBalancerSpec, Port, Service, Transport};
use crate::observe::ownership::{Owner, port_of};
use crate::observe::{LoadBalancerRule, Network, RuleState};
use crate::plan::planner::{Planner, comes_before};
use crate::plan::public_ip::Target;
use crate::plan::report::{Blocker, Note};
use crate::plan::standing::Standing;

/// Virtual routers balance with HAProxy: no UDP, and one port is taken.
const ROUTERS: [&str; 2] = ["VirtualRouter", "VpcVirtualRouter"];
/// `network.loadbalancer.haproxy.stats.port`: refused on router networks.
const STATISTICS_PORT: u16 = 8081;
const DNS_PORT: u16 = 53;

/// A port to serve.
#[derive(Clone, Debug)]
pub(super) struct Served<'a> {
    /// The public port.
    pub(super) port: Port,
    /// The node port.
    pub(super) node_port: u16,
    /// The rule of ours that serves it.
    pub(super) rule: Option<&'a LoadBalancerRule>,
}

/// Ports by what becomes of them.
#[derive(Debug, Default)]
pub(super) struct Ports<'a> {
    /// To serve, in spec order.
    pub(super) served: Vec<Served<'a>>,
    /// Wanted but refused: nothing of them is made or removed.
    pub(super) refused: Vec<Port>,
    /// Why.
    pub(super) notes: Vec<Note>,
}

/// Sorts the ports of a Service.
pub(super) fn sort<'a>(
    planner: &Planner<'a>,
    service: &Service,
    spec: &LoadBalancerSpec,
    standing: &Standing<'a>,
    target: &Target,
    network: &Network,
) -> Ports<'a> {
    let sorter = Sorter { planner, service, standing, target, network };
    let mut ports = Ports::default();
    let mut numbers: BTreeMap<u16, Port> = BTreeMap::new();
    for wanted in &spec.ports {
        let transport = match &wanted.transport {
            Ok(transport) => *transport,
            Err(protocol) => {
                let protocol = protocol.clone();
                ports.notes.push(Note::ProtocolNotServed { port: wanted.number, protocol });
                continue;
            }
        };
        let port = Port { transport, number: wanted.number };
        let twice = numbers.get(&port.number).map(|other| Note::PortTwice { port, other: *other });
        match twice.or_else(|| sorter.refusal(port)) {
            Some(note) => {
                ports.refused.push(port);
                ports.notes.push(note);
            }
            None => {
                numbers.insert(port.number, port);
                let (node_port, rule) = (wanted.node_port, sorter.own_rule(port));
                ports.served.push(Served { port, node_port, rule });
            }
        }
    }
    ports
}

struct Sorter<'a, 'b> {
    planner: &'b Planner<'a>,
    service: &'b Service,
    standing: &'b Standing<'a>,
    target: &'b Target,
    network: &'b Network,
}

impl<'a> Sorter<'a, '_> {
    fn refusal(&self, port: Port) -> Option<Note> {
        self.refused_by_network(port).or_else(|| self.taken(port))
    }

    fn refused_by_network(&self, port: Port) -> Option<Note> {
        let balancer = self.network.services.get("Lb")?;
        let router = balancer.providers.iter().all(|name| ROUTERS.contains(&name.as_str()));
        let may_try = self.planner.policy.udp_on_router == UdpOnRouter::Try;
        if port.transport == Transport::Udp && router && !may_try {
            return Some(Note::UdpNotServed { port, network: self.network.name.clone() });
        }
        if port.number == STATISTICS_PORT && router {
            let why = "the virtual router keeps 8081 for the statistics of its balancer".to_owned();
            return Some(Note::PortReserved { port, why });
        }
        let found = self.planner.observed.addresses.get(&self.target.held()?.id)?;
        let names = self.network.services.contains_key("Dns");
        (port.number == DNS_PORT && found.source_nat && names).then(|| Note::PortReserved {
            port,
            why: format!("the router answers DNS on source-NAT address {}", found.address),
        })
    }

    /// CloudStack has one rule per address and port number, whatever the protocol.
    fn taken(&self, port: Port) -> Option<Note> {
        let address = self.target.held()?;
        let on_port = |rule: &&LoadBalancerRule| {
            rule.public_port == port.number && rule.state != RuleState::Deleting
        };
        if let Some(rule) = self.planner.observed.rules_on(&address.id).find(on_port) {
            let by = match self.planner.owners.owner(rule) {
                Owner::Service(key, _) if key == self.service.key => return None,
                Owner::Service(key, _) => Blocker::Service(key),
                Owner::Unknown(_) | Owner::Nobody => {
                    Blocker::Rule { id: rule.id.clone(), name: rule.name.clone() }
                }
            };
            return Some(Note::PortTaken { port, address: address.address, by });
        }
        let learned = &self.planner.desired.learned;
        if self.own_rule(port).is_none()
            && learned.is_taken(&address.id, port.number, self.planner.now)
        {
            return Some(Note::PortTaken { port, address: address.address, by: Blocker::Unseen });
        }
        let claimed = self.claimed_first(&address.id, port)?;
        let by = Blocker::Service(claimed.key.clone());
        Some(Note::PortTaken { port, address: address.address, by })
    }

    /// An older Service on the same address that wants the port too and has no rule yet.
    fn claimed_first(&self, address: &crate::ids::PublicIpId, port: Port) -> Option<&'a Service> {
        let others = self.planner.others_on(address, &self.service.key);
        others.into_iter().find(|other| {
            let wants = other
                .spec
                .as_ref()
                .is_ok_and(|spec| spec.ports.iter().any(|wanted| wanted.number == port.number));
            let wanted = other.lifecycle == crate::model::service::Lifecycle::Wanted;
            wanted && wants && comes_before(other, self.service)
        })
    }

    fn own_rule(&self, port: Port) -> Option<&'a LoadBalancerRule> {
        let address = self.target.held()?;
        self.standing
            .rules_on(&address.id)
            .find(|rule| port_of(rule) == port && rule.state != RuleState::Deleting)
    }
}
