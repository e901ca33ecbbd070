//! Whose is a load balancer rule? Proof from strongest to weakest: tag, description, a name with
//! the Service's uid on an address that the Service records, the record itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{PublicIpId, ServiceKey, ServiceUid};
use crate::model::Desired;
use crate::model::mark::Mark;
use crate::model::policy::Policy;
use crate::model::rule_name::{self, NamedBy};
use crate::model::service::{Port, Service};
use crate::observe::LoadBalancerRule;
use crate::observe::index::Observed;

/// Tag that names the cluster of an object.
pub const TAG_CLUSTER: &str = "k8s-cluster";
/// Tag that names the Service (its uid) of an object.
pub const TAG_SERVICE: &str = "k8s-service";
/// Tag that names the kind of Kubernetes object that [`TAG_SERVICE`] is the uid of.
pub const TAG_KIND: &str = "k8s-kind";

/// Tag by which people keep an address: it is never released while it bears this.
pub const TAG_KEEP: &str = "k8s-keep";

/// Whether the tags of an address keep it: [`TAG_KEEP`] with any value but `false`.
pub fn is_kept_by_tag(tags: &BTreeMap<String, String>) -> bool {
    tags.iter().any(|(key, value)| key.eq_ignore_ascii_case(TAG_KEEP) && value != "false")
}

/// Whether an object bears one of our tags. CloudStack compares keys without regard to case.
pub fn is_tagged(tags: &BTreeMap<String, String>) -> bool {
    let ours = [TAG_CLUSTER, TAG_SERVICE, TAG_KIND];
    tags.keys().any(|key| ours.iter().any(|tag| tag.eq_ignore_ascii_case(key)))
}

/// Whose a rule is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A Service that exists here, with how that is proven.
    Service(ServiceKey, Proof),
    /// A Service that we don't know: another cluster's, or one that is gone.
    Unknown(Mark),
    /// Nobody says.
    Nobody,
}

/// How ownership of a rule is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// A tag or our description: we made it, or made it ours.
    Marked,
    /// The name of another controller of before us, with the Service's identity in it.
    Named,
    /// The Service's record holds its id.
    Recorded,
}

/// Finds owners of rules.
#[derive(Debug)]
pub struct Owners<'a> {
    observed: &'a Observed,
    by_uid: BTreeMap<&'a ServiceUid, &'a Service>,
    by_load_balancer: BTreeMap<String, &'a Service>,
    by_fork_prefix: BTreeMap<String, &'a Service>,
    by_recorded_rule: BTreeMap<(&'a str, Port), &'a Service>,
    /// Addresses of the rules that bear our mark, of each Service that could adopt others.
    marked_at: BTreeMap<ServiceUid, BTreeSet<&'a PublicIpId>>,
}

impl<'a> Owners<'a> {
    /// Indexes all Services.
    pub fn new(desired: &'a Desired, observed: &'a Observed, policy: &'a Policy) -> Self {
        let services = || desired.services.values();
        let mut by_recorded_rule = BTreeMap::new();
        for service in services() {
            for (port, member) in service.recorded.record.iter().flat_map(|r| &r.members) {
                by_recorded_rule.insert((member.rule.as_str(), *port), service);
            }
        }
        Self {
            observed,
            by_uid: services().map(|s| (&s.uid, s)).collect(),
            by_load_balancer: services()
                .map(|s| (rule_name::load_balancer_name(&s.uid), s))
                .collect(),
            by_fork_prefix: services().map(|s| (fork_prefix(policy, &s.key), s)).collect(),
            by_recorded_rule,
            marked_at: marked_addresses(
                observed,
                &services().filter(|s| lacks_record(s)).map(|s| &s.uid).collect(),
            ),
        }
    }

    /// Whose a rule is.
    pub fn owner(&self, rule: &LoadBalancerRule) -> Owner {
        if let Some(uid) = rule.tags.get(TAG_SERVICE) {
            return self.marked(rule, ServiceUid::parse(uid).ok(), None);
        }
        if let Some(mark) = rule.description.as_deref().and_then(Mark::parse) {
            return self.marked(rule, Some(mark.service.clone()), Some(mark));
        }
        self.named(rule).or_else(|| self.recorded(rule)).unwrap_or(Owner::Nobody)
    }

    /// A mark with the uid of a Service that exists here is that Service's, whatever cluster id it
    /// names, if the Service records the address or has no record.
    fn marked(
        &self,
        rule: &LoadBalancerRule,
        uid: Option<ServiceUid>,
        mark: Option<Mark>,
    ) -> Owner {
        let service = uid.and_then(|uid| self.by_uid.get(&uid).copied());
        match (service, mark) {
            (Some(service), _) if self.may_own(service, rule) => {
                Owner::Service(service.key.clone(), Proof::Marked)
            }
            (_, Some(mark)) => Owner::Unknown(mark),
            (_, None) => Owner::Nobody,
        }
    }

    fn named(&self, rule: &LoadBalancerRule) -> Option<Owner> {
        let service = match rule_name::read(&rule.name, rule.public_port) {
            NamedBy::Controller { load_balancer, .. } | NamedBy::InTree { load_balancer } => {
                let service = *self.by_load_balancer.get(&load_balancer)?;
                (self.records(service, rule) || self.is_adoptable(service, rule)).then_some(service)
            }
            NamedBy::Fork { prefix } => {
                let service = *self.by_fork_prefix.get(&prefix)?;
                let at = service.recorded.fork.as_ref().map(|fork| &fork.address);
                (at == Some(&rule.address) || self.records(service, rule)).then_some(service)
            }
            NamedBy::Other => None,
        };
        Some(Owner::Service(service?.key.clone(), Proof::Named))
    }

    fn recorded(&self, rule: &LoadBalancerRule) -> Option<Owner> {
        let port = port_of(rule);
        let service = *self.by_recorded_rule.get(&(rule.id.short(), port))?;
        self.records(service, rule).then(|| Owner::Service(service.key.clone(), Proof::Recorded))
    }

    /// The Go controller leaves the finalizer, and no record of ours. Where rules bear our mark, the
    /// record is lost, and what we adopted is on their addresses.
    fn is_adoptable(&self, service: &Service, rule: &LoadBalancerRule) -> bool {
        lacks_record(service)
            && self.marked_at.get(&service.uid).is_none_or(|at| at.contains(&rule.address))
    }

    fn may_own(&self, service: &Service, rule: &LoadBalancerRule) -> bool {
        service.recorded.record.is_none() || self.records(service, rule)
    }

    /// Whether the Service records the address that the rule is on, as it is allocated now.
    fn records(&self, service: &Service, rule: &LoadBalancerRule) -> bool {
        let recorded = service.recorded.record.as_ref().and_then(|r| r.address(&rule.address));
        let allocated =
            self.observed.addresses.get(&rule.address).and_then(|a| a.allocated.as_ref());
        recorded.is_some_and(|recorded| Some(&recorded.allocated) == allocated)
    }
}

/// Whether another controller may have served it, or its record is lost.
fn lacks_record(service: &Service) -> bool {
    service.recorded.finalizer && service.recorded.record.is_none()
}

/// Where the rules are that bear the marks of these Services: of none, once all have their records.
fn marked_addresses<'a>(
    observed: &'a Observed,
    services: &BTreeSet<&ServiceUid>,
) -> BTreeMap<ServiceUid, BTreeSet<&'a PublicIpId>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    if services.is_empty() {
        return found;
    }
    for rule in observed.rules.values() {
        if let Some(service) = marked_for(rule).filter(|uid| services.contains(uid)) {
            found.entry(service).or_default().insert(&rule.address);
        }
    }
    found
}

/// The Service that a tag or our description names.
fn marked_for(rule: &LoadBalancerRule) -> Option<ServiceUid> {
    let tagged = rule.tags.get(TAG_SERVICE).and_then(|uid| ServiceUid::parse(uid).ok());
    tagged.or_else(|| Some(Mark::parse(rule.description.as_deref()?)?.service))
}

/// The public port that a rule serves. One without a protocol is served as tcp.
pub fn port_of(rule: &LoadBalancerRule) -> Port {
    use crate::model::service::Transport;
    let transport = match &rule.protocol {
        Some(Ok(protocol)) => protocol.transport(),
        Some(Err(_)) | None => Transport::Tcp,
    };
    Port { transport, number: rule.public_port }
}

fn fork_prefix(policy: &Policy, key: &ServiceKey) -> String {
    rule_name::fork_prefix(&policy.cluster_name, &key.namespace, &key.name)
}
