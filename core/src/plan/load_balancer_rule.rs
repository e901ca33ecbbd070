//! What a load balancer rule needs: nothing, an edit in place, or delete and create.
//!
//! A rule is identified by its address and public port, never by its name. What can be edited is
//! edited; ports and address never can, the source list only from 4.22 and only to IPv4 networks.

use crate::cidr::Sources;
use crate::model::mark::Mark;
use crate::model::policy::Policy;
use crate::model::record::Verdict;
use crate::model::rule_name::{self, NamedBy, rule_name};
use crate::model::service::{Algorithm, LoadBalancerSpec, Port, RuleProtocol, Service, Transport};
use crate::observe::{LoadBalancerRule, RuleState};
use crate::plan::action::UpdateLoadBalancerRule;
use crate::plan::reason::Reason;
use crate::version::{Features, ProtocolChange};

/// What a rule should look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedRule {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) private_port: u16,
    pub(super) protocol: RuleProtocol,
    pub(super) algorithm: Algorithm,
    pub(super) sources: Sources,
}

/// What is to be done to a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleChange {
    /// Nothing.
    Keep,
    /// Updates, in this order.
    Update(Vec<(UpdateLoadBalancerRule, Reason)>),
    /// Delete and create.
    Recreate(Reason),
}

/// The rule that a port of a Service asks for.
pub(super) fn wanted(
    policy: &Policy,
    service: &Service,
    spec: &LoadBalancerSpec,
    sources: &Sources,
    port: Port,
    node_port: u16,
    verdict: Verdict,
) -> WantedRule {
    let protocol = match port.transport {
        Transport::Udp => RuleProtocol::Udp,
        Transport::Tcp if spec.proxy_protocol => RuleProtocol::TcpProxy,
        Transport::Tcp => RuleProtocol::Tcp,
    };
    WantedRule {
        name: rule_name(&service.uid, protocol, port.number),
        description: Mark::new(&policy.cluster_id, &service.uid, port, verdict).to_string(),
        private_port: node_port,
        protocol,
        algorithm: spec.algorithm,
        sources: sources.clone(),
    }
}

/// Compares a rule with what it should be. `members` says whether any VM is mapped to it.
pub(super) fn change(
    rule: &LoadBalancerRule,
    wanted: &WantedRule,
    features: Features,
    has_members: bool,
) -> RuleChange {
    if let Some(reason) = must_recreate(rule, wanted, features) {
        return RuleChange::Recreate(reason);
    }
    let Some(reason) = must_update(rule, wanted, has_members) else {
        return RuleChange::Keep;
    };
    RuleChange::Update(updates(rule, wanted, features, reason))
}

fn must_recreate(
    rule: &LoadBalancerRule,
    wanted: &WantedRule,
    features: Features,
) -> Option<Reason> {
    if rule.private_port != wanted.private_port {
        let (found, wanted) = (rule.private_port, wanted.private_port);
        return Some(Reason::NodePortDiffers { found, wanted });
    }
    if rule.sources != wanted.sources && !can_edit_sources(&wanted.sources, features) {
        let (found, wanted) = (rule.sources.clone(), wanted.sources.clone());
        return Some(Reason::SourcesCannotBeEdited { found, wanted });
    }
    let found = protocol(rule);
    if found != wanted.protocol && features.protocol_change() == ProtocolChange::Recreate {
        return Some(Reason::ProtocolCannotBeEdited { found, wanted: wanted.protocol });
    }
    None
}

/// updateLoadBalancerRule takes IPv4 networks with prefix only.
fn can_edit_sources(sources: &Sources, features: Features) -> bool {
    let editable = match sources {
        Sources::Everybody => true,
        Sources::Only(set) => set.iter().all(crate::cidr::Cidr::is_ipv4_with_prefix),
    };
    editable && features.edits_rule_sources()
}

fn must_update(rule: &LoadBalancerRule, wanted: &WantedRule, has_members: bool) -> Option<Reason> {
    let found = protocol(rule);
    if found != wanted.protocol || name_bears_other_protocol(rule, wanted) {
        return Some(Reason::ProtocolDiffers { found, wanted: wanted.protocol });
    }
    if rule.algorithm != Ok(wanted.algorithm) {
        let found = match &rule.algorithm {
            Ok(algorithm) => algorithm.to_string(),
            Err(text) => text.clone(),
        };
        return Some(Reason::AlgorithmDiffers { found, wanted: wanted.algorithm });
    }
    if rule.sources != wanted.sources {
        let (found, wanted) = (rule.sources.clone(), wanted.sources.clone());
        return Some(Reason::SourcesDiffer { found, wanted });
    }
    if rule.state == RuleState::Add && has_members {
        return Some(Reason::PushOwed);
    }
    let marked = rule.description.as_deref().is_some_and(|text| Mark::parse(text).is_some());
    (marked && rule.name != wanted.name).then(|| Reason::NameDiffers { found: rule.name.clone() })
}

/// A failed update keeps the new protocol but not the new name: such a rule was not pushed.
fn name_bears_other_protocol(rule: &LoadBalancerRule, wanted: &WantedRule) -> bool {
    match rule_name::read(&rule.name, rule.public_port) {
        NamedBy::Controller { load_balancer: _, protocol } => protocol != wanted.protocol,
        NamedBy::InTree { .. } | NamedBy::Fork { .. } | NamedBy::Other => false,
    }
}

/// One update that carries everything, or two where the server pushes only a changed algorithm.
fn updates(
    rule: &LoadBalancerRule,
    wanted: &WantedRule,
    features: Features,
    reason: Reason,
) -> Vec<(UpdateLoadBalancerRule, Reason)> {
    let same_algorithm = rule.algorithm == Ok(wanted.algorithm);
    let whole = UpdateLoadBalancerRule {
        rule: rule.id.clone(),
        protocol: wanted.protocol,
        name: (rule.name != wanted.name).then(|| wanted.name.clone()),
        description: (rule.description.as_deref() != Some(&wanted.description))
            .then(|| wanted.description.clone()),
        algorithm: (!same_algorithm).then_some(wanted.algorithm),
        sources: (rule.sources != wanted.sources).then(|| wanted.sources.clone()),
    };
    let pushes = features.pushes_without_algorithm() || !same_algorithm;
    let cosmetic = matches!(reason, Reason::NameDiffers { .. });
    if pushes || cosmetic {
        // An update with nothing but id and protocol pushes nothing: the name makes it one.
        let bare = whole.algorithm.is_none() && whole.sources.is_none();
        let name = whole.name.clone().or_else(|| bare.then(|| wanted.name.clone()));
        return vec![(UpdateLoadBalancerRule { name, ..whole }, reason)];
    }
    let detour = UpdateLoadBalancerRule {
        rule: rule.id.clone(),
        protocol: wanted.protocol,
        name: None,
        description: None,
        algorithm: Some(wanted.algorithm.another()),
        sources: None,
    };
    let back = UpdateLoadBalancerRule {
        name: Some(wanted.name.clone()),
        algorithm: Some(wanted.algorithm),
        ..whole
    };
    vec![(detour, Reason::PushNeedsAlgorithm), (back, reason)]
}

/// A rule made without a protocol, or with one that we never make, is compared as tcp.
fn protocol(rule: &LoadBalancerRule) -> RuleProtocol {
    match &rule.protocol {
        Some(Ok(protocol)) => *protocol,
        Some(Err(_)) | None => RuleProtocol::Tcp,
    }
}
