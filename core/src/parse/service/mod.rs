//! A Service as it came → [`Service`].
//!
//! Identity, life cycle and records can always be read. What it asks for can be wrong: then *all*
//! mistakes are collected, in the order of the fields here, and nothing of it is used.
//!
//! Decided here: defaults, strict booleans, what an address annotation means, which lists are too
//! long. Left to the planner: whether a requested address exists, protocols other than TCP and UDP
//! (that port alone is refused), the same number as TCP and UDP.

mod fields;

use std::net::Ipv4Addr;

use uuid::Uuid;

use crate::cidr::{CidrSet, Sources};
use crate::ids::{ClusterId, ServiceKey, ServiceUid};
use crate::model::service::{Lifecycle, LoadBalancerSpec, Service};
use crate::parse::annotations;
use crate::parse::error::{ParseError, ParseErrors, SpecWarning};
use crate::parse::raw::RawService;
use crate::parse::recorded::recorded;

/// How many characters of a rule's `cidrlist` CloudStack keeps; it cuts the rest without a word.
pub const SOURCE_LIST_LIMIT: usize = 255;

/// What reading a Service takes beside the Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseContext {
    /// Needed for the uid of a manifest that has none.
    pub cluster_id: ClusterId,
}

/// Reads a Service of any type. What it asks for (`spec`) is meaningful only if it is wanted.
pub fn service(raw: &RawService, context: &ParseContext) -> Service {
    let key = key(raw);
    let uid = raw
        .uid
        .as_deref()
        .and_then(|uid| ServiceUid::parse(uid).ok())
        .unwrap_or_else(|| derived_uid(&context.cluster_id, &key));
    let mut warnings = unknown_annotations(raw);
    let recorded = recorded(raw, &uid, &mut warnings);
    let (requested_address, spec) = spec(raw, &mut warnings);
    Service {
        key,
        uid,
        created: raw.creation_timestamp,
        lifecycle: lifecycle(raw),
        spec,
        requested_address,
        keeps_address: fields::keeps_address(raw),
        recorded,
        warnings,
    }
}

/// The uid of a manifest that has none: the version 5 UUID, in the URL namespace, of
/// `cloudstack-ccm:<cluster id>/<namespace>/<name>`.
pub fn derived_uid(cluster: &ClusterId, key: &ServiceKey) -> ServiceUid {
    let name = format!("cloudstack-ccm:{cluster}/{key}");
    ServiceUid::from(Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()))
}

fn key(raw: &RawService) -> ServiceKey {
    let namespace = match raw.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    };
    ServiceKey::new(namespace, raw.name.as_str())
}

/// 1. With a class it is somebody else's, in deletion too.
/// 2. In deletion it wants nothing, whatever its type.
/// 3. Type `LoadBalancer` is wanted; any other is not.
fn lifecycle(raw: &RawService) -> Lifecycle {
    let load_balancer = raw.service_type.as_deref() == Some("LoadBalancer");
    if load_balancer && raw.load_balancer_class.is_some() {
        Lifecycle::OtherClass
    } else if raw.deleting {
        Lifecycle::Deleting
    } else if load_balancer {
        Lifecycle::Wanted
    } else {
        Lifecycle::OtherType
    }
}

fn unknown_annotations(raw: &RawService) -> Vec<SpecWarning> {
    raw.annotations
        .keys()
        .filter_map(|key| {
            if key == annotations::STANDARD_SOURCE_RANGES {
                return Some(SpecWarning::StandardSourceRanges);
            }
            let unknown = key.starts_with(annotations::PREFIX) && annotations::find(key).is_none();
            unknown.then(|| SpecWarning::UnknownAnnotation {
                key: key.clone(),
                nearest: annotations::nearest_user_key(key),
            })
        })
        .collect()
}

/// The address that a Service asks for counts even where the rest can't be read.
fn spec(
    raw: &RawService,
    warnings: &mut Vec<SpecWarning>,
) -> (Option<Ipv4Addr>, Result<LoadBalancerSpec, ParseErrors>) {
    let mut errors = Vec::new();
    fields::families(raw, &mut errors);
    let spec = LoadBalancerSpec {
        ports: fields::ports(raw, &mut errors),
        algorithm: fields::algorithm(raw, &mut errors),
        proxy_protocol: fields::boolean(raw, annotations::PROXY_PROTOCOL, false, &mut errors),
        rule_sources: rule_sources(raw, warnings, &mut errors),
        ranges: fields::ranges(raw, &mut errors),
        hostname: fields::hostname(raw, warnings, &mut errors),
    };
    let requested_address = fields::requested_address(raw, warnings, &mut errors);
    fields::boolean(raw, annotations::KEEP_IP, false, &mut errors);
    match ParseErrors::new(errors) {
        None => (requested_address, Ok(spec)),
        Some(errors) => (requested_address, Err(errors)),
    }
}

/// The annotation's list. An empty text means everybody, as documented for the Go controller; a
/// list that is broken in any other way is refused, so that a typing mistake never widens it.
fn rule_sources(
    raw: &RawService,
    warnings: &mut Vec<SpecWarning>,
    errors: &mut Vec<ParseError>,
) -> Sources {
    let Some(text) = raw.annotations.get(annotations::SOURCE_CIDRS) else {
        return Sources::Everybody;
    };
    if text.is_empty() {
        warnings.push(SpecWarning::EmptySourceList);
        return Sources::Everybody;
    }
    let set = fields::cidrs(
        text.split(','),
        crate::parse::Place::Annotation(annotations::SOURCE_CIDRS),
        errors,
    );
    let sources = Sources::from_set(set);
    if let Sources::Only(set) = &sources {
        refuse_long_list(set, errors);
    }
    sources
}

fn refuse_long_list(set: &CidrSet, errors: &mut Vec<ParseError>) {
    let length = set.joined().len();
    if length <= SOURCE_LIST_LIMIT {
        return;
    }
    let mut end = 0;
    let fit = set
        .sorted_texts()
        .iter()
        .enumerate()
        .take_while(|(index, text)| {
            end += text.len() + usize::from(*index > 0);
            end <= SOURCE_LIST_LIMIT
        })
        .count();
    errors.push(ParseError::SourceListTooLong {
        length,
        entries: set.len(),
        fit,
        limit: SOURCE_LIST_LIMIT,
    });
}

#[cfg(test)]
mod tests;
