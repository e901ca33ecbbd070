//! How mistakes and oddities in a Service are told. Both have stable codes, which are the same word
//! in plans, events, metrics and `explain`.

use std::fmt;
use std::net::IpAddr;

use thiserror::Error;

use crate::parse::annotations;

/// All mistakes of one Service, in the order of its fields; never empty.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct ParseErrors(Vec<ParseError>);

impl ParseErrors {
    /// Wraps mistakes; `None` if there are none.
    pub fn new(errors: Vec<ParseError>) -> Option<Self> {
        (!errors.is_empty()).then_some(Self(errors))
    }

    /// The mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &ParseError> {
        self.0.iter()
    }
}

impl fmt::Display for ParseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

/// Where in a Service a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An annotation, by its whole key.
    Annotation(&'static str),
    /// A field, by its path.
    Field(&'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(key) => write!(f, "annotation `{key}`"),
            Self::Field(path) => write!(f, "`{path}`"),
        }
    }
}

/// A mistake in a Service that makes it unusable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    /// A value that is no boolean.
    #[error("annotation `{key}` is {}, which is no boolean; write \"true\" or \"false\"", Shown(.value))]
    NotABoolean {
        /// The annotation.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// An entry that is no network.
    #[error("invalid CIDR {} in {place}; {}", Shown(.entry), cidr_remedy(.entry))]
    InvalidCidr {
        /// Where it stands.
        place: Place,
        /// The entry, blanks trimmed.
        entry: String,
    },
    /// Further entries that are no networks.
    #[error("{more} more entries in {place} are no CIDRs")]
    MoreInvalidCidrs {
        /// Where they stand.
        place: Place,
        /// How many.
        more: usize,
    },
    /// CloudStack cuts a longer list in the middle of a CIDR and says success.
    #[error(
        "annotation `{}` lists {entries} networks in {length} characters, over the limit of {limit}, \
         into which {fit} of them fit; aggregate them, or use `spec.loadBalancerSourceRanges`, which takes a thousand",
        annotations::SOURCE_CIDRS
    )]
    SourceListTooLong {
        /// Characters of the list as it would be sent.
        length: usize,
        /// How many networks it has.
        entries: usize,
        /// How many of them fit.
        fit: usize,
        /// How many characters CloudStack keeps.
        limit: usize,
    },
    /// A session affinity that no algorithm stands for.
    #[error("unsupported load balancer affinity {}; `spec.sessionAffinity` can be `None` or `ClientIP`", Shown(.value))]
    UnsupportedAffinity {
        /// `spec.sessionAffinity`.
        value: String,
    },
    /// A requested address that is none.
    #[error("{place} is {}, which is {}; name an IPv4 address, for example `203.0.113.10`", Shown(.value), address_kind(.value))]
    NotAnIpv4Address {
        /// Where it stands.
        place: Place,
        /// The value.
        value: String,
    },
    /// A name that the status can't hold.
    #[error("annotation `{}` is {}, which is no DNS name: {why}; write for example `lb.example.com`", annotations::HOSTNAME, Shown(.value))]
    NotAHostname {
        /// The value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is nothing to balance.
    #[error("the Service has no ports; add one to `spec.ports`")]
    NoPorts,
    /// A port number that TCP and UDP don't have.
    #[error("`{field}` is {number}, which is no port number; write one from 1 to 65535")]
    NotAPort {
        /// The path of the field.
        field: String,
        /// The number.
        number: i32,
    },
    /// A port that can't be reached through the nodes.
    #[error(
        "port {port} has no node port, through which CloudStack reaches the nodes; set `spec.allocateLoadBalancerNodePorts` to true or give it a `nodePort`"
    )]
    NoNodePort {
        /// `spec.ports[].port`.
        port: i32,
    },
    /// Two ports that are the same.
    #[error("port {port}/{protocol} stands in `spec.ports` twice; remove one")]
    DuplicatePort {
        /// `spec.ports[].port`.
        port: u16,
        /// `spec.ports[].protocol`.
        protocol: String,
    },
    /// CloudStack balances IPv4 only.
    #[error(
        "`spec.ipFamilies` asks for IPv6 only, but load balancers of CloudStack have IPv4 addresses; add `IPv4`"
    )]
    OnlyIpv6,
}

impl ParseError {
    /// Its stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotABoolean { .. } => "NotABoolean",
            Self::InvalidCidr { .. } | Self::MoreInvalidCidrs { .. } => "InvalidCidr",
            Self::SourceListTooLong { .. } => "SourceListTooLong",
            Self::UnsupportedAffinity { .. } => "UnsupportedAffinity",
            Self::NotAnIpv4Address { .. } => "NotAnIpv4Address",
            Self::NotAHostname { .. } => "NotAHostname",
            Self::NoPorts => "NoPorts",
            Self::NotAPort { .. } => "NotAPort",
            Self::NoNodePort { .. } => "NoNodePort",
            Self::DuplicatePort { .. } => "DuplicatePort",
            Self::OnlyIpv6 => "OnlyIpv6",
        }
    }
}

/// Something odd about a Service that does not make it unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecWarning {
    /// An annotation under our prefix that we don't know.
    UnknownAnnotation {
        /// The whole key.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
    },
    /// An empty `…-source-cidrs`: the opposite of what it may look like.
    EmptySourceList,
    /// An empty `…-hostname`, which is the same as none.
    EmptyHostname,
    /// The Go framework's annotation for source ranges, which has no effect here.
    StandardSourceRanges,
    /// `spec.loadBalancerIP` beside another `…-address`, which wins.
    AddressFieldIgnored {
        /// The field.
        field: String,
        /// The annotation.
        annotation: String,
    },
    /// `…-ip-associated-by-controller` is no boolean; it counts as absent.
    UnreadableVerdict {
        /// Its value.
        value: String,
    },
    /// A record that can't be read; it counts as absent.
    UnreadableRecord {
        /// The annotation.
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl SpecWarning {
    /// Every code, for the reference.
    pub const CODES: &'static [&'static str] = &[
        "UnknownAnnotation",
        "EmptySourceList",
        "EmptyHostname",
        "StandardSourceRanges",
        "AddressFieldIgnored",
        "UnreadableVerdict",
        "UnreadableRecord",
    ];

    /// Its stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownAnnotation { .. } => "UnknownAnnotation",
            Self::EmptySourceList => "EmptySourceList",
            Self::EmptyHostname => "EmptyHostname",
            Self::StandardSourceRanges => "StandardSourceRanges",
            Self::AddressFieldIgnored { .. } => "AddressFieldIgnored",
            Self::UnreadableVerdict { .. } => "UnreadableVerdict",
            Self::UnreadableRecord { .. } => "UnreadableRecord",
        }
    }
}

impl fmt::Display for SpecWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAnnotation { key, nearest } => {
                write!(f, "annotation {} is unknown and has no effect", Shown(key))?;
                match nearest {
                    Some(nearest) => write!(f, "; the nearest known one is `{nearest}`"),
                    None => Ok(()),
                }
            }
            Self::EmptySourceList => write!(
                f,
                "annotation `{}` is empty, which means everybody, not nobody; remove it, or list networks",
                annotations::SOURCE_CIDRS
            ),
            Self::EmptyHostname => write!(
                f,
                "annotation `{}` is empty, so the address is published; remove it, or write a DNS name",
                annotations::HOSTNAME
            ),
            Self::StandardSourceRanges => write!(
                f,
                "annotation `{}` has no effect; use `spec.loadBalancerSourceRanges` or annotation `{}`",
                annotations::STANDARD_SOURCE_RANGES,
                annotations::SOURCE_CIDRS
            ),
            Self::AddressFieldIgnored { field, annotation } => write!(
                f,
                "`spec.loadBalancerIP` {} has no effect beside annotation `{}` {}; remove one of them",
                Shown(field),
                annotations::ADDRESS,
                Shown(annotation)
            ),
            Self::UnreadableVerdict { value } => write!(
                f,
                "annotation `{}` is {}, neither \"true\" nor \"false\", and counts as absent; it is the controller's to write",
                annotations::VERDICT,
                Shown(value)
            ),
            Self::UnreadableRecord { key, why } => {
                write!(f, "annotation `{key}` can't be read and counts as absent: {why}")
            }
        }
    }
}

/// A value in quotes, cut to what a person reads and an event can hold.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        match text.char_indices().nth(100) {
            Some((end, _)) => write!(f, "{:?}…", text.get(..end).unwrap_or_default()),
            None => write!(f, "{text:?}"),
        }
    }
}

fn cidr_remedy(entry: &str) -> String {
    match entry.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => format!("write `{address}/32` for this address alone"),
        Ok(IpAddr::V6(address)) => format!("write `{address}/128` for this address alone"),
        Err(_) if entry.is_empty() => {
            "an entry is empty; remove the comma too many, or write for example `192.0.2.0/24`"
                .to_owned()
        }
        Err(_) => "expected an address and a prefix length, for example `192.0.2.0/24`".to_owned(),
    }
}

fn address_kind(value: &str) -> &'static str {
    match value.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => "an IPv4 address",
        Ok(IpAddr::V6(_)) => {
            "an IPv6 address, and load balancers of CloudStack have IPv4 addresses"
        }
        Err(_) => "no IP address",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_codes_is_complete() {
        let (key, value, why) = (String::new, String::new, String::new);
        let warnings = [
            SpecWarning::UnknownAnnotation { key: key(), nearest: None },
            SpecWarning::EmptySourceList,
            SpecWarning::EmptyHostname,
            SpecWarning::StandardSourceRanges,
            SpecWarning::AddressFieldIgnored { field: value(), annotation: value() },
            SpecWarning::UnreadableVerdict { value: value() },
            SpecWarning::UnreadableRecord { key: annotations::RECORD, why: why() },
        ];
        let codes: Vec<_> = warnings.iter().map(SpecWarning::code).collect();
        assert_eq!(codes, SpecWarning::CODES);
    }
}
