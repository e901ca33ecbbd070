//! What is left of Services that are not there: of a cluster that is gone, or of Services whose
//! finalizer somebody took off.
//!
//! What bears a cluster's id and a Service's uid tells of that Service, though nothing else does. From
//! that it is made up once more, in deletion and with the record that the traces prove: what removes
//! it is the plan of a deletion, with all its checks.
//!
//! 1. A trace is the description of a load balancer rule, the reason of an ACL item, or the tags of an
//!    address, a rule or a firewall rule.
//! 2. An address is ours if its tags name the Service, or a rule on it was made with `address=ours`.
//!    An address that a Service which exists records is that Service's.
//! 3. A Service that exists is left alone; so is one of which objects bear another cluster's id too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use crate::ids::{ClusterId, FirewallRuleId, LoadBalancerRuleId, PublicIpId, ServiceUid};
use crate::model::Desired;
use crate::model::mark::Mark;
use crate::model::record::{AddressRecord, Opening, Record, Verdict};
use crate::model::rule_name::{self, NamedBy};
use crate::model::service::Port;
use crate::observe::LoadBalancerRule;
use crate::observe::index::Observed;
use crate::observe::ownership::{TAG_CLUSTER, TAG_SERVICE, port_of};
use crate::parse::annotations;
use crate::parse::raw::RawService;

/// The namespace under which plans show Services that are gone: of their names nothing is left.
pub const NAMESPACE: &str = "gone";

/// What is left of Services that are not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    /// The Services, in deletion: called by their uid, with the record that their traces prove.
    pub services: Vec<RawService>,
    /// What looks as if it were left too, and is not proven to be.
    pub unproven: Vec<Unproven>,
}

/// Something that may be left of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unproven {
    /// A Service of which objects name another cluster too: it may have moved there.
    OfTwoClusters {
        /// Its uid.
        service: ServiceUid,
        /// The other cluster.
        other: ClusterId,
    },
    /// A firewall rule on an address that is not ours, for a port that the Service had.
    Opening {
        /// The firewall rule.
        rule: FirewallRuleId,
        /// The port.
        port: Port,
        /// The address.
        address: Ipv4Addr,
        /// The Service that had the port.
        service: ServiceUid,
    },
    /// A rule called as the Go controller calls them, which names no cluster.
    NamedRule {
        /// The load balancer rule.
        rule: LoadBalancerRuleId,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfTwoClusters { service, other } => write!(
                f,
                "Service {service}: some of its objects name cluster {other}, where it may live on"
            ),
            Self::Opening { rule, port, address, service } => write!(
                f,
                "firewall rule {rule} opens port {port} of {address}, which Service {service} had; \
                 the address is not ours, and nothing says who opened it"
            ),
            Self::NamedRule { rule, name } => write!(
                f,
                "load balancer rule {name:?} ({rule}) is called as the Go controller calls them; \
                 nothing says of which cluster it is"
            ),
        }
    }
}

/// Finds what is left of a cluster's Services, but for those that exist.
pub fn find(observed: &Observed, cluster: &ClusterId, existing: &Desired) -> Orphans {
    let mut traces = traces(observed);
    let exist: BTreeSet<&ServiceUid> = existing.services.values().map(|s| &s.uid).collect();
    let unproven = named_rules(observed, &exist, &traces);
    traces.retain(|service, traces| !exist.contains(service) && traces.clusters.contains(cluster));
    let mut orphans = Orphans { services: Vec::new(), unproven };
    for (service, traces) in &mut traces {
        for (id, ours) in &mut traces.addresses {
            *ours &= !is_held(existing, id);
        }
        match traces.clusters.iter().find(|other| *other != cluster) {
            Some(other) => orphans
                .unproven
                .push(Unproven::OfTwoClusters { service: service.clone(), other: other.clone() }),
            None => {
                orphans.services.push(made_up(observed, cluster, service, traces));
                orphans.unproven.extend(unproven_openings(observed, service, traces));
            }
        }
    }
    orphans.unproven.sort();
    orphans
}

/// Whether a Service that exists records an address.
fn is_held(existing: &Desired, address: &PublicIpId) -> bool {
    let mut records = existing.services.values().filter_map(|s| s.recorded.record.as_ref());
    records.any(|record| record.address(address).is_some())
}

/// The clusters that objects name, each with the number of its Services.
pub fn clusters(observed: &Observed) -> BTreeMap<ClusterId, usize> {
    let mut clusters = BTreeMap::new();
    for cluster in traces(observed).into_values().flat_map(|traces| traces.clusters) {
        *clusters.entry(cluster).or_default() += 1;
    }
    clusters
}

/// What bears the uid of one Service.
#[derive(Debug, Default)]
struct Traces {
    clusters: BTreeSet<ClusterId>,
    /// Addresses, and whether they are ours.
    addresses: BTreeMap<PublicIpId, bool>,
    ports: BTreeSet<(PublicIpId, Port)>,
    openings: BTreeSet<Opening>,
}

fn traces(observed: &Observed) -> BTreeMap<ServiceUid, Traces> {
    let mut found: BTreeMap<ServiceUid, Traces> = BTreeMap::new();
    for rule in observed.rules.values() {
        let mark = rule.description.as_deref().and_then(Mark::parse);
        let ours = mark.as_ref().is_some_and(|mark| mark.address == Some(Verdict::Ours));
        let tagged = tagged(&rule.tags);
        let marked = mark.map(|mark| (mark.cluster, mark.service));
        let Some((_, service)) = tagged.as_ref().or(marked.as_ref()) else { continue };
        let traces = found.entry(service.clone()).or_default();
        traces.clusters.extend([tagged, marked].into_iter().flatten().map(|(cluster, _)| cluster));
        *traces.addresses.entry(rule.address.clone()).or_default() |= ours;
        traces.ports.insert((rule.address.clone(), port_of(rule)));
    }
    for item in observed.acl_items() {
        if let Some(mark) = item.reason.as_deref().and_then(Mark::parse) {
            found.entry(mark.service).or_default().clusters.insert(mark.cluster);
        }
    }
    for address in observed.addresses.values() {
        if let Some((cluster, service)) = tagged(&address.tags) {
            let traces = found.entry(service).or_default();
            traces.clusters.insert(cluster);
            traces.addresses.insert(address.id.clone(), true);
        }
    }
    for rule in observed.firewall_rules() {
        if let (Some((cluster, service)), Some(port)) = (tagged(&rule.tags), rule.port()) {
            let traces = found.entry(service).or_default();
            traces.clusters.insert(cluster);
            traces.addresses.entry(rule.address.clone()).or_default();
            traces.openings.insert(Opening::new(port, &rule.cidrs));
        }
    }
    found
}

fn tagged(tags: &BTreeMap<String, String>) -> Option<(ClusterId, ServiceUid)> {
    let cluster = ClusterId::parse(tags.get(TAG_CLUSTER)?).ok()?;
    Some((cluster, ServiceUid::parse(tags.get(TAG_SERVICE)?).ok()?))
}

/// The Service, as it would be in deletion.
fn made_up(
    observed: &Observed,
    cluster: &ClusterId,
    service: &ServiceUid,
    traces: &Traces,
) -> RawService {
    let addresses = traces.addresses.iter().filter_map(|(id, ours)| {
        let allocated = observed.addresses.get(id)?.allocated.clone()?;
        Some(AddressRecord { id: id.clone(), allocated, ours: *ours })
    });
    let record = Record {
        addresses: addresses.collect(),
        openings: traces.openings.clone(),
        ..Record::new(cluster.clone(), service.clone())
    };
    RawService {
        namespace: NAMESPACE.to_owned(),
        name: service.to_string(),
        uid: Some(service.to_string()),
        deleting: true,
        annotations: [(annotations::RECORD.to_owned(), record.to_text())].into(),
        service_type: Some("LoadBalancer".to_owned()),
        ..RawService::default()
    }
}

/// Firewall rules bear no text: on an address that is not ours nothing tells whose they are.
fn unproven_openings(observed: &Observed, service: &ServiceUid, traces: &Traces) -> Vec<Unproven> {
    let on_others = traces.ports.iter().filter(|(id, _)| traces.addresses.get(id) != Some(&true));
    let openings = on_others.flat_map(|(id, port)| {
        let address = observed.addresses.get(id).map(|found| found.address);
        let rules = observed.firewall_rules_on(id).filter(|rule| {
            rule.port() == Some(*port) && tagged(&rule.tags).is_none_or(|(_, uid)| uid != *service)
        });
        rules.filter_map(move |rule| {
            let (rule, service) = (rule.id.clone(), service.clone());
            Some(Unproven::Opening { rule, port: *port, address: address?, service })
        })
    });
    openings.collect()
}

/// Rules of the Go controller that no Service adopted, or none that is known.
fn named_rules(
    observed: &Observed,
    exist: &BTreeSet<&ServiceUid>,
    traces: &BTreeMap<ServiceUid, Traces>,
) -> Vec<Unproven> {
    let known = exist.iter().copied().chain(traces.keys());
    let known: BTreeSet<String> = known.map(rule_name::load_balancer_name).collect();
    let is_left = |rule: &&LoadBalancerRule| {
        let marked = rule.description.as_deref().and_then(Mark::parse).is_some();
        let named = match rule_name::read(&rule.name, rule.public_port) {
            NamedBy::Controller { load_balancer, .. } | NamedBy::InTree { load_balancer } => {
                !known.contains(&load_balancer)
            }
            NamedBy::Fork { .. } | NamedBy::Other => false,
        };
        named && !marked && tagged(&rule.tags).is_none()
    };
    let rules = observed.rules.values().filter(is_left);
    rules
        .map(|rule| Unproven::NamedRule { rule: rule.id.clone(), name: rule.name.clone() })
        .collect()
}
