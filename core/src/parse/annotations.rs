//! The annotations of a Service: ONE table. A new option is a constant and a line here.

use std::fmt::Write as _;

use crate::parse::nearest::nearest;

/// What every annotation of ours begins with.
pub const PREFIX: &str = "service.beta.kubernetes.io/cloudstack-load-balancer-";

/// The annotation of the Go framework for source ranges. The Go controller ignores it, and so do
/// we: not in silence.
pub const STANDARD_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// An annotation that we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The whole key.
    pub key: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// What holds where it is absent, as people read it.
    pub default: &'static str,
    /// Who writes it.
    pub writer: Writer,
    /// What it does, in one sentence.
    pub doc: &'static str,
}

/// What an annotation's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Exactly `true` or `false`.
    Boolean,
    /// A DNS name.
    Hostname,
    /// Networks in CIDR notation, separated by commas.
    CidrList,
    /// An IPv4 address.
    Ipv4Address,
    /// An id of CloudStack.
    Id,
    /// `<job uuid> <RFC 3339 time> <Service uid>`.
    Intent,
    /// JSON.
    Record,
}

impl Kind {
    /// As the reference calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Boolean => "`\"true\"` or `\"false\"`",
            Self::Hostname => "DNS name",
            Self::CidrList => "comma-separated CIDR list",
            Self::Ipv4Address => "IPv4 address",
            Self::Id => "CloudStack id",
            Self::Intent => "job id, time and Service uid",
            Self::Record => "JSON",
        }
    }
}

/// Who writes an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// People.
    User,
    /// This controller.
    Controller,
    /// The Go controller's fork; we only read it.
    Fork,
}

impl Writer {
    /// As the reference calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::User => "you",
            Self::Controller => "the controller",
            Self::Fork => "the Go controller's fork",
        }
    }
}

macro_rules! annotations {
    ($($name:ident = $suffix:literal, $kind:ident, $default:literal, $writer:ident, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub const $name: &str = concat!(
                "service.beta.kubernetes.io/cloudstack-load-balancer-",
                $suffix
            );
        )*

        /// Every annotation that we know, in the order of the reference.
        pub const ALL: &[Annotation] = &[$(Annotation {
            key: $name,
            kind: Kind::$kind,
            default: $default,
            writer: Writer::$writer,
            doc: $doc,
        }),*];
    };
}

annotations! {
    PROXY_PROTOCOL = "proxy-protocol", Boolean, "`false`", User,
        "Makes the load balancer speak the PROXY protocol to the members of TCP ports, so that they learn the client's address.";
    HOSTNAME = "hostname", Hostname, "the address is published", User,
        "Publishes this name in the Service's status in place of the address; an empty value is the same as none.";
    SOURCE_CIDRS = "source-cidrs", CidrList, "everybody", User,
        "Says who may use the load balancer rules; at most 255 characters, and an empty value means everybody, not nobody.";
    ADDRESS = "address", Ipv4Address, "any free address", User,
        "Asks for this public address and wins over `spec.loadBalancerIP`; beside `…-id` it is a record of the Go controller's fork and asks for nothing.";
    KEEP_IP = "keep-ip", Boolean, "`false`", User,
        "Keeps the address allocated when the Service goes, changes its type or moves to another address; whoever wants it then asks for it by `…-address`.";
    VERDICT = "ip-associated-by-controller", Boolean, "not set", Controller,
        "Tells whether the controller associated the address, and so releases it when the Service goes.";
    INTENT = "ip-intent", Intent, "not set", Controller,
        "Tells which requests for a new address may be under way, the latest first.";
    RECORD = "record", Record, "not set", Controller,
        "Tells which addresses, openings and ACL items are this Service's.";
    FORK_ID = "id", Id, "not set", Fork,
        "Names the address that the fork gave to the Service; read once, at adoption.";
    FORK_NETWORK_ID = "network-id", Id, "not set", Fork,
        "Names the network that the fork used; read once, at adoption.";
}

/// The annotation of that key.
pub fn find(key: &str) -> Option<&'static Annotation> {
    ALL.iter().find(|annotation| annotation.key == key)
}

/// Among the keys that people write, the one most like `key`.
pub fn nearest_user_key(key: &str) -> Option<&'static str> {
    let suffix = key.strip_prefix(PREFIX).unwrap_or(key);
    let suffixes = ALL
        .iter()
        .filter(|annotation| annotation.writer == Writer::User)
        .filter_map(|annotation| annotation.key.strip_prefix(PREFIX));
    let near = nearest(suffix, suffixes)?;
    ALL.iter().map(|annotation| annotation.key).find(|key| key.strip_prefix(PREFIX) == Some(near))
}

/// The reference, as `deploy/docs/annotations.md` holds it.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Annotations of a Service\n\n\
         <!-- Generated from core/src/parse/annotations.rs; tests/tests/docs.rs compares. -->\n\n",
    );
    // Writing to a String can't fail.
    let _ = write!(text, "Every key begins with `{PREFIX}`; the table names what follows.\n\n");
    text.push_str(
        "| Key | Value | Without it | Written by | What it does |\n|---|---|---|---|---|\n",
    );
    for Annotation { key, kind, default, writer, doc } in ALL {
        let suffix = key.strip_prefix(PREFIX).unwrap_or(key);
        let _ = writeln!(
            text,
            "| `…-{suffix}` | {} | {default} | {} | {doc} |",
            kind.title(),
            writer.title()
        );
    }
    text.push_str(
        "\nA Service with a malformed value is refused: nothing is changed for it in CloudStack, what \
         works goes on\nworking, and a Warning event says what is wrong. A key under the prefix that is not in \
         the table does no\nharm; a Warning event names the known key most like it. Don't write or remove what \
         the controller writes.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_stands_under_the_prefix_once() {
        let mut keys: Vec<&str> = ALL.iter().map(|annotation| annotation.key).collect();
        assert!(keys.iter().all(|key| key.starts_with(PREFIX)));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), ALL.len());
    }

    #[test]
    fn c027_only_keys_that_people_write_are_suggested() {
        let near = |suffix: &str| nearest_user_key(&format!("{PREFIX}{suffix}"));
        assert_eq!(near("proxy_protocol"), Some(PROXY_PROTOCOL));
        assert_eq!(near("source-cidr"), Some(SOURCE_CIDRS));
        assert_eq!(near("host-name"), Some(HOSTNAME));
        assert_eq!(near("adress"), Some(ADDRESS));
        assert!(near("records").is_some_and(|key| key != RECORD));
    }
}
