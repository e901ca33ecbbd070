//! Texts that hold names and ids: rule names, descriptions, reasons, records, and what is derived
//! from ids and networks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use ccm_core::cidr::CidrSet;
use ccm_core::ids::{LoadBalancerRuleId, ServiceUid, VirtualMachineId};
use ccm_core::model::Learned;
use ccm_core::model::mark::Mark;
use ccm_core::model::record::{
    AddressRecord, Intent, Intents, MemberDigest, Opening, Record, members_digest,
};
use ccm_core::model::rule_name::{self, NamedBy};
use ccm_core::observe::index::Observed;
use ccm_core::observe::machines::Machines;

use super::names::Kind;
use super::{Pass, Snapshot};
use crate::driver;

/// What digests and hashes of the original can stand for.
#[derive(Debug)]
pub(super) struct Derived {
    machines: BTreeMap<String, BTreeSet<VirtualMachineId>>,
    networks: BTreeSet<CidrSet>,
    rules: BTreeSet<LoadBalancerRuleId>,
}

impl Derived {
    /// Collects sets of machines and of networks that a record may speak of.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { policy, objects, cloud, .. } = snapshot;
        let desired = driver::desire(objects, policy, Learned::default());
        let listed = Observed::new(cloud.clone()).virtual_machines;
        let found = Machines::new(&desired.nodes, &listed, policy.node_readiness);
        let backends = cloud.networks.iter().map(|network| found.backends(&network.id).vms);
        let sets = backends.chain(cloud.members.values().cloned()).chain([BTreeSet::new()]);
        let mut networks: BTreeSet<CidrSet> =
            cloud.firewall_rules.iter().map(|rule| rule.cidrs.clone()).collect();
        networks.insert(CidrSet::everybody());
        for spec in desired.services.values().filter_map(|service| service.spec.as_ref().ok()) {
            networks.insert(spec.ranges.clone());
            networks.insert(spec.rule_sources.to_set());
        }
        Self {
            machines: sets.map(|set| (members_digest(&set), set)).collect(),
            networks,
            rules: cloud.rules.iter().map(|rule| rule.id.clone()).collect(),
        }
    }
}

impl Pass {
    /// The name of a load balancer rule.
    pub(super) fn rule_name(&mut self, name: &str, port: u16) -> String {
        match rule_name::read(name, port) {
            NamedBy::Controller { load_balancer, protocol } => {
                format!("{}-{protocol}-{port}", self.load_balancer(&load_balancer))
            }
            NamedBy::InTree { load_balancer } => {
                format!("{}-{port}", self.load_balancer(&load_balancer))
            }
            NamedBy::Fork { prefix } => {
                let rest = name.strip_prefix(&prefix).unwrap_or_default();
                format!("{}{rest}", self.fork(&prefix))
            }
            NamedBy::Other => self.names.take(Kind::Text, name),
        }
    }

    fn load_balancer(&mut self, name: &str) -> String {
        let is_it = |uid: &&str| {
            ServiceUid::parse(uid).is_ok_and(|uid| rule_name::load_balancer_name(&uid) == name)
        };
        let uid = self.names.known(Kind::Uid).find(is_it).map(str::to_owned);
        match uid.map(|uid| self.names.take(Kind::Uid, &uid)) {
            Some(uid) if self.names.numbered => ServiceUid::parse(&uid)
                .map_or_else(|_| name.to_owned(), |uid| rule_name::load_balancer_name(&uid)),
            Some(_) | None => self.names.take(Kind::LoadBalancer, name),
        }
    }

    fn fork(&mut self, prefix: &str) -> String {
        let cluster = self.policy.cluster_name.clone();
        let start = rule_name::fork_prefix(&cluster, "", "");
        let start = start.trim_end_matches('_').to_owned() + "_";
        let namespaces: Vec<String> =
            self.names.known(Kind::Namespace).map(str::to_owned).collect();
        let services: Vec<String> = self.names.known(Kind::Service).map(str::to_owned).collect();
        let key = prefix.strip_prefix(&start).and_then(|rest| {
            let parts = |namespace: &String| {
                let name = rest.strip_prefix(namespace)?.strip_prefix('_')?;
                services.iter().any(|known| known == name).then(|| (namespace.clone(), name))
            };
            namespaces.iter().find_map(parts)
        });
        match key {
            Some((namespace, name)) => {
                let cluster = self.cluster_name(&cluster);
                let namespace = self.names.take(Kind::Namespace, &namespace);
                rule_name::fork_prefix(&cluster, &namespace, &self.names.take(Kind::Service, name))
            }
            None => self.names.take(Kind::Fork, prefix),
        }
    }

    /// A description or reason: our mark, or any text.
    pub(super) fn description(&mut self, text: &str) -> Result<String> {
        let Some(mark) = Mark::parse(text) else {
            return Ok(self.names.take(Kind::Text, text));
        };
        let as_we_write_it = mark.to_string() == text;
        let Mark { cluster, service, port, address } = mark;
        let mark = Mark {
            cluster: self.names.typed(Kind::Cluster, &cluster)?,
            service: self.names.typed(Kind::Uid, &service)?,
            port,
            address,
        };
        Ok(if as_we_write_it { mark.to_string() } else { format!("{mark} more=text") })
    }

    /// The text of a record; one that can't be read can't be read afterwards either.
    pub(super) fn record(&mut self, text: &str) -> Result<String> {
        let Ok(record) = Record::parse(text) else {
            return Ok("a record that can't be read".to_owned());
        };
        let Record { cluster, service, addresses, openings, acl, firewall, members } = record;
        let address = |AddressRecord { id, allocated, ours }| {
            Ok(AddressRecord { id: self.names.id(&id)?, allocated, ours })
        };
        let addresses = addresses.into_iter().map(address).collect::<Result<_>>()?;
        let opening = |opening| self.opening(&opening);
        let openings = openings.into_iter().map(opening).collect::<Result<_>>()?;
        let acl = acl.iter().map(|id| self.names.id(id)).collect::<Result<_>>()?;
        let member = |(port, digest)| Ok((port, self.member(&digest)?));
        let members = members.into_iter().map(member).collect::<Result<_>>()?;
        let cluster = self.names.typed(Kind::Cluster, &cluster)?;
        let service = self.names.typed(Kind::Uid, &service)?;
        let record = Record { cluster, service, addresses, openings, acl, firewall, members };
        Ok(record.to_text())
    }

    /// The text of intents.
    pub(super) fn intents(&mut self, text: &str) -> Result<String> {
        let Ok(intents) = Intents::parse(text) else {
            return Ok("an intent that can't be read".to_owned());
        };
        let renamed = intents.into_iter().map(|Intent { job, at, service }| {
            let job = self.names.id(&job)?;
            Ok(Intent { job, at, service: self.names.typed(Kind::Uid, &service)? })
        });
        Ok(renamed.collect::<Result<Intents>>()?.to_string())
    }

    fn opening(&mut self, opening: &Opening) -> Result<Opening> {
        let Some(port) = opening.port() else {
            return Ok(opening.clone());
        };
        let known = self.derived.networks.iter().find(|set| Opening::new(port, set) == *opening);
        match known.cloned() {
            Some(set) => Ok(Opening::new(port, &self.addresses.set(&set)?)),
            None => {
                let text = opening.to_string();
                let hash = text.split_once(':').map_or("", |(_, hash)| hash);
                let hash = self.names.take(Kind::Digest, hash);
                Ok(serde_json::from_value(format!("{port}:{hash}").into())?)
            }
        }
    }

    fn member(&mut self, member: &MemberDigest) -> Result<MemberDigest> {
        let MemberDigest { rule, digest } = member;
        let known = self.derived.rules.iter().find(|id| id.short() == rule).cloned();
        let rule = match known {
            Some(id) => self.names.id(&id)?.short().to_owned(),
            None => {
                let id = self.names.take(Kind::Id, rule);
                id.chars().take(8).collect()
            }
        };
        let digest = match self.derived.machines.get(digest).cloned() {
            Some(set) => {
                let set =
                    set.iter().map(|id| self.names.id(id)).collect::<Result<BTreeSet<_>>>()?;
                members_digest(&set)
            }
            None => self.names.take(Kind::Digest, digest),
        };
        Ok(MemberDigest { rule, digest })
    }
}
