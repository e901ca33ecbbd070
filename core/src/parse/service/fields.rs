//! The single fields of a Service. Each reader notes its mistakes and gives a value that nobody
//! sees if there are any.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::cidr::{Cidr, CidrSet};
use crate::model::service::{Algorithm, ServicePort, Transport};
use crate::parse::annotations;
use crate::parse::error::{ParseError, Place, SpecWarning};
use crate::parse::raw::{RawService, RawServicePort};

/// A dual-stack Service is served by its IPv4 half; one that is IPv6 only can't be.
pub(super) fn families(raw: &RawService, errors: &mut Vec<ParseError>) {
    let families = &raw.ip_families;
    if !families.is_empty() && families.iter().all(|family| family == "IPv6") {
        errors.push(ParseError::OnlyIpv6);
    }
}

/// `spec.ports`, in its order.
pub(super) fn ports(raw: &RawService, errors: &mut Vec<ParseError>) -> Vec<ServicePort> {
    if raw.ports.is_empty() {
        errors.push(ParseError::NoPorts);
    }
    let mut seen = BTreeSet::new();
    let mut ports = Vec::new();
    for (index, raw) in raw.ports.iter().enumerate() {
        let Some(port) = port(raw, index, errors) else {
            continue;
        };
        let protocol = match &port.transport {
            Ok(transport) => transport.to_string().to_uppercase(),
            Err(other) => other.clone(),
        };
        if !seen.insert((protocol.clone(), port.number)) {
            errors.push(ParseError::DuplicatePort { port: port.number, protocol });
        }
        ports.push(port);
    }
    ports
}

fn port(raw: &RawServicePort, index: usize, errors: &mut Vec<ParseError>) -> Option<ServicePort> {
    let RawServicePort { name, protocol, port, node_port } = raw;
    let number = port_number(*port, || format!("spec.ports[{index}].port"), errors);
    let node_port = match node_port {
        None | Some(0) => {
            errors.push(ParseError::NoNodePort { port: *port });
            None
        }
        Some(number) => port_number(*number, || format!("spec.ports[{index}].nodePort"), errors),
    };
    Some(ServicePort {
        name: name.clone().unwrap_or_default(),
        transport: match protocol.as_deref() {
            None | Some("" | "TCP") => Ok(Transport::Tcp),
            Some("UDP") => Ok(Transport::Udp),
            Some(other) => Err(other.to_owned()),
        },
        number: number?,
        node_port: node_port?,
    })
}

fn port_number(
    number: i32,
    field: impl Fn() -> String,
    errors: &mut Vec<ParseError>,
) -> Option<u16> {
    match u16::try_from(number) {
        Ok(port) if port > 0 => Some(port),
        Ok(_) | Err(_) => {
            errors.push(ParseError::NotAPort { field: field(), number });
            None
        }
    }
}

/// `spec.sessionAffinity`.
pub(super) fn algorithm(raw: &RawService, errors: &mut Vec<ParseError>) -> Algorithm {
    match raw.session_affinity.as_deref() {
        None | Some("" | "None") => Algorithm::RoundRobin,
        Some("ClientIP") => Algorithm::Source,
        Some(other) => {
            errors.push(ParseError::UnsupportedAffinity { value: other.to_owned() });
            Algorithm::RoundRobin
        }
    }
}

/// A boolean annotation: exactly `true` or `false`, so that no value is taken for false in silence.
pub(super) fn boolean(
    raw: &RawService,
    key: &'static str,
    default: bool,
    errors: &mut Vec<ParseError>,
) -> bool {
    match raw.annotations.get(key).map(String::as_str) {
        None => default,
        Some("true") => true,
        Some("false") => false,
        Some(other) => {
            errors.push(ParseError::NotABoolean { key, value: other.to_owned() });
            default
        }
    }
}

/// Annotation `…-keep-ip`, for a Service that goes: what can't be read must not cost an address.
pub(super) fn keeps_address(raw: &RawService) -> bool {
    raw.annotations.get(annotations::KEEP_IP).is_some_and(|value| value != "false")
}

/// How many entries of one list are told to be wrong, one by one.
const MOST_TOLD: usize = 10;

/// Networks in CIDR notation. Blanks around them are trimmed, host bits are kept.
pub(super) fn cidrs<'a>(
    entries: impl IntoIterator<Item = &'a str>,
    place: Place,
    errors: &mut Vec<ParseError>,
) -> CidrSet {
    let mut wrong: usize = 0;
    let read = |entry: &str| match Cidr::parse(entry) {
        Ok(cidr) => Some(cidr),
        Err(_) => {
            wrong = wrong.saturating_add(1);
            if wrong <= MOST_TOLD {
                errors.push(ParseError::InvalidCidr { place, entry: shortened(entry) });
            }
            None
        }
    };
    let set = entries.into_iter().map(str::trim).filter_map(read).collect();
    if let Some(more @ 1..) = wrong.checked_sub(MOST_TOLD) {
        errors.push(ParseError::MoreInvalidCidrs { place, more });
    }
    set
}

/// As much of an entry as is told.
fn shortened(entry: &str) -> String {
    entry.chars().take(200).collect()
}

/// `spec.loadBalancerSourceRanges`; none means everybody.
pub(super) fn ranges(raw: &RawService, errors: &mut Vec<ParseError>) -> CidrSet {
    let entries = raw.source_ranges.iter().map(String::as_str);
    let set = cidrs(entries, Place::Field("spec.loadBalancerSourceRanges"), errors);
    if set.is_empty() { CidrSet::everybody() } else { set }
}

/// Annotation `…-hostname`. Empty means not set, as for the Go controller, but not in silence.
pub(super) fn hostname(
    raw: &RawService,
    warnings: &mut Vec<SpecWarning>,
    errors: &mut Vec<ParseError>,
) -> Option<String> {
    let value = raw.annotations.get(annotations::HOSTNAME)?;
    if value.is_empty() {
        warnings.push(SpecWarning::EmptyHostname);
        return None;
    }
    if let Err(why) = dns_name(value) {
        errors.push(ParseError::NotAHostname { value: value.clone(), why });
    }
    Some(value.clone())
}

/// What `status.loadBalancer.ingress[].hostname` may be: an RFC 1123 subdomain, and no address.
fn dns_name(text: &str) -> Result<(), &'static str> {
    if text.parse::<IpAddr>().is_ok() {
        return Err("it is an address");
    }
    if text.len() > 253 {
        return Err("it has more than 253 characters");
    }
    if text.contains('*') {
        return Err("a wildcard names no host");
    }
    if text.chars().any(|c| c.is_ascii_uppercase()) {
        return Err("it has upper case letters, which a status can't hold");
    }
    for label in text.split('.') {
        if label.is_empty() {
            return Err("a part between dots is empty");
        }
        if label.len() > 63 {
            return Err("a part between dots has more than 63 characters");
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err("a part begins or ends with a dash");
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !label.chars().all(allowed) {
            return Err("only letters, digits, dashes and dots may be in it");
        }
    }
    Ok(())
}

/// The address that the Service asks for.
///
/// 1. Annotation `…-address`, if `…-id` is absent: with `…-id` both are the fork's record.
/// 2. `spec.loadBalancerIP`.
pub(super) fn requested_address(
    raw: &RawService,
    warnings: &mut Vec<SpecWarning>,
    errors: &mut Vec<ParseError>,
) -> Option<Ipv4Addr> {
    let field = raw.load_balancer_ip.as_ref().filter(|ip| !ip.is_empty());
    let annotation = raw
        .annotations
        .get(annotations::ADDRESS)
        .filter(|_| !raw.annotations.contains_key(annotations::FORK_ID));
    let (value, place) = match (annotation, field) {
        (Some(annotation), field) => {
            if let Some(field) = field.filter(|field| *field != annotation) {
                warnings.push(SpecWarning::AddressFieldIgnored {
                    field: field.clone(),
                    annotation: annotation.clone(),
                });
            }
            (annotation, Place::Annotation(annotations::ADDRESS))
        }
        (None, Some(field)) => (field, Place::Field("spec.loadBalancerIP")),
        (None, None) => return None,
    };
    match value.parse() {
        Ok(address) => Some(address),
        Err(_) => {
            errors.push(ParseError::NotAnIpv4Address { place, value: value.clone() });
            None
        }
    }
}
