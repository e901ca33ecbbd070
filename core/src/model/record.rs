//! What a Service records for us, and the exact texts of those annotations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::cidr::CidrSet;
use crate::ids::{ClusterId, JobId, NetworkAclItemId, PublicIpId, ServiceUid, VirtualMachineId};
use crate::model::service::{Ingress, Port};

/// `service.kubernetes.io/load-balancer-cleanup`, as every controller of the Go framework writes it.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Largest record before member digests are left out, in bytes.
pub const RECORD_LIMIT: usize = 4 * 1024;

/// Everything on a Service that earlier plans, or another controller, wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Whether [`FINALIZER`] is set.
    pub finalizer: bool,
    /// `…-ip-associated-by-controller`.
    pub verdict: Option<Verdict>,
    /// `…-ip-intent`, those of this Service.
    pub intents: Intents,
    /// `…-record`, if it is this Service's.
    pub record: Option<Record>,
    /// Whether a record or intent of another uid was found (a copied or restored manifest).
    pub of_another_service: bool,
    /// The fork's `…-address`, `…-id` and `…-network-id`.
    pub fork: Option<ForkRecord>,
    /// `status.loadBalancer.ingress`.
    pub ingress: Vec<Ingress>,
    /// Whether somebody removed or edited some of this: it is remembered, and is to be written back.
    pub stripped: bool,
}

/// Whose an address is: what happens to it when the Service goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// We associated it, we release it.
    Ours,
    /// It was there before: it stays.
    User,
}

/// `…-ip-intent`: associate calls that may be out, the latest first. An earlier one stays while
/// nobody knows what became of it: an address that it made after all would be lost otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intents(Vec<Intent>);

/// An associate call that may be out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The `customjobid` of the call.
    pub job: JobId,
    /// When the intent was formed, to the second.
    pub at: Timestamp,
    /// The Service it was formed for.
    pub service: ServiceUid,
}

/// A text that is no intent.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text:?} is not an intent: expected `<job uuid> <RFC 3339 time> <Service uid>`")]
pub struct NotAnIntent {
    /// The text that was found.
    pub text: String,
}

/// How many intents, or addresses in a record, a Service can have. Each costs requests whenever
/// CloudStack is read; we write one or two.
pub const MOST_RECORDED: usize = 64;

/// A text that is no list of intents.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotIntents {
    /// One of them is none.
    #[error(transparent)]
    Malformed(#[from] NotAnIntent),
    /// More than we ever write.
    #[error("{0} intents, more than {MOST_RECORDED}: somebody else has written them")]
    TooMany(usize),
}

impl Intents {
    const SEPARATOR: &str = ", ";

    /// Reads the annotation.
    ///
    /// # Errors
    /// [`NotIntents`] if one of them has another form, or there are too many.
    pub fn parse(text: &str) -> Result<Self, NotIntents> {
        let count = text.split(Self::SEPARATOR).count();
        if count > MOST_RECORDED {
            return Err(NotIntents::TooMany(count));
        }
        let read: Result<_, NotAnIntent> = text.split(Self::SEPARATOR).map(Intent::parse).collect();
        Ok(read?)
    }

    /// The latest first.
    pub fn as_slice(&self) -> &[Intent] {
        &self.0
    }

    /// Whether no call is out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Intent> for Intents {
    fn from_iter<T: IntoIterator<Item = Intent>>(intents: T) -> Self {
        Self(intents.into_iter().collect())
    }
}

impl IntoIterator for Intents {
    type Item = Intent;
    type IntoIter = std::vec::IntoIter<Intent>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Intents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(Self::SEPARATOR))
    }
}

impl Intent {
    /// Reads one of the annotation's texts.
    ///
    /// # Errors
    /// [`NotAnIntent`] if it has another form.
    pub fn parse(text: &str) -> Result<Self, NotAnIntent> {
        let read = || {
            let mut words = text.split(' ');
            let job = JobId::parse(words.next()?).ok()?;
            let at = words.next()?.parse().ok()?;
            let service = ServiceUid::parse(words.next()?).ok()?;
            words.next().is_none().then_some(Self { job, at, service })
        };
        read().ok_or_else(|| NotAnIntent { text: text.to_owned() })
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, at, service } = self;
        write!(f, "{job} {at} {service}")
    }
}

/// What the Go controller's fork records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkRecord {
    /// `…-id`: the address.
    pub address: PublicIpId,
}

/// `…-record`. `A` is how an address is known: by id on a Service, by reference in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The cluster that wrote it.
    pub cluster: ClusterId,
    /// The Service it belongs to.
    pub service: ServiceUid,
    /// The addresses, the current one first.
    pub addresses: Vec<AddressRecord>,
    /// Firewall rules that are ours by content.
    pub openings: BTreeSet<Opening>,
    /// ACL items that are ours by id: those that were adopted.
    pub acl: BTreeSet<NetworkAclItemId>,
    /// `Some(false)`: the address's VPC has no Firewall service, found by trying.
    pub firewall: Option<bool>,
    /// Member digests by port.
    pub members: BTreeMap<Port, MemberDigest>,
}

/// An address in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRecord {
    /// `id` of listPublicIpAddresses.
    pub id: PublicIpId,
    /// `allocated` as listed: another text is another allocation of the same id.
    pub allocated: String,
    /// Whether we associated it.
    pub ours: bool,
}

/// A firewall rule by its content: `tcp-443:<12 hex of the SHA-256 of its sorted CIDR texts>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Opening(String);

impl Opening {
    /// The opening of `port` for `cidrs`.
    pub fn new(port: Port, cidrs: &CidrSet) -> Self {
        Self(format!("{port}:{}", short_hash(&cidrs.sorted_texts())))
    }

    /// Its port; `None` for a text that we did not write.
    pub fn port(&self) -> Option<Port> {
        Port::parse(self.0.split_once(':')?.0)
    }
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The rule of a port, and the members that it was last seen or left with:
/// `<rule id, 8 characters>:<digest>`. While they change the digest is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemberDigest {
    /// The first 8 characters of the rule's id.
    pub rule: String,
    /// [`members_digest`] of its members; empty if nobody vouches for them.
    pub digest: String,
}

impl TryFrom<String> for MemberDigest {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            Some((rule, digest)) => Ok(Self { rule: rule.to_owned(), digest: digest.to_owned() }),
            None => Err(format!("{text:?} is not `<rule>:<digest>`")),
        }
    }
}

impl From<MemberDigest> for String {
    fn from(member: MemberDigest) -> Self {
        let MemberDigest { rule, digest } = member;
        format!("{rule}:{digest}")
    }
}

/// 12 hex digits over the sorted ids of a rule's members.
pub fn members_digest<'a>(vms: impl IntoIterator<Item = &'a VirtualMachineId>) -> String {
    let sorted: BTreeSet<&str> = vms.into_iter().map(VirtualMachineId::as_str).collect();
    short_hash(&sorted.into_iter().collect::<Vec<_>>())
}

fn short_hash(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text.as_bytes());
        hasher.update(b"\n");
    }
    let mut hash = String::with_capacity(12);
    for byte in hasher.finalize().iter().take(6) {
        // Writing to a String can't fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

/// The JSON text of a record.
#[derive(Serialize, Deserialize)]
struct RecordText {
    v: u32,
    cluster: ClusterId,
    service: ServiceUid,
    addresses: Vec<AddressRecord>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    openings: BTreeSet<Opening>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    acl: BTreeSet<NetworkAclItemId>,
    #[serde(default, rename = "fw", skip_serializing_if = "Option::is_none")]
    firewall: Option<bool>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    members: BTreeMap<String, MemberDigest>,
}

/// A text that is no record.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotARecord {
    /// It is no JSON of the form that we write.
    #[error("not a record: {0}")]
    Malformed(String),
    /// A later format.
    #[error("a record of format {0}; this version reads format 1")]
    Version(u32),
    /// More than we ever write.
    #[error("a record of {0} addresses, more than {MOST_RECORDED}: somebody else has written it")]
    TooManyAddresses(usize),
}

impl Record {
    /// An empty record of a Service.
    pub fn new(cluster: ClusterId, service: ServiceUid) -> Self {
        Self {
            cluster,
            service,
            addresses: Vec::new(),
            openings: BTreeSet::new(),
            acl: BTreeSet::new(),
            firewall: None,
            members: BTreeMap::new(),
        }
    }

    /// Reads the annotation.
    ///
    /// # Errors
    /// [`NotARecord`] if it has another form or a later version.
    pub fn parse(text: &str) -> Result<Self, NotARecord> {
        let malformed = |error: serde_json::Error| NotARecord::Malformed(error.to_string());
        let read: RecordText = serde_json::from_str(text).map_err(malformed)?;
        let RecordText { v, cluster, service, addresses, openings, acl, firewall, members } = read;
        if v != 1 {
            return Err(NotARecord::Version(v));
        }
        if addresses.len() > MOST_RECORDED {
            return Err(NotARecord::TooManyAddresses(addresses.len()));
        }
        let members = members
            .into_iter()
            .filter_map(|(port, digest)| Some((Port::parse(&port)?, digest)))
            .collect();
        Ok(Self { cluster, service, addresses, openings, acl, firewall, members })
    }

    /// The annotation's text. If it is longer than [`RECORD_LIMIT`], the member digests are left
    /// out: those rules are then read instead.
    pub fn to_text(&self) -> String {
        let whole = self.json(true);
        if whole.len() <= RECORD_LIMIT { whole } else { self.json(false) }
    }

    fn json(&self, with_members: bool) -> String {
        let Self { cluster, service, addresses, openings, acl, firewall, members } = self.clone();
        let members = if with_members { members } else { BTreeMap::new() };
        let text = RecordText {
            v: 1,
            cluster,
            service,
            addresses,
            openings,
            acl,
            firewall,
            members: members.into_iter().map(|(port, digest)| (port.to_string(), digest)).collect(),
        };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// The entry of an address.
    pub fn address(&self, id: &PublicIpId) -> Option<&AddressRecord> {
        self.addresses.iter().find(|address| &address.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::service::Transport;

    fn port(number: u16) -> Port {
        Port { transport: Transport::Tcp, number }
    }

    fn record() -> Record {
        let mut record = Record::new(
            ClusterId::parse("prod").unwrap(),
            ServiceUid::parse("6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f").unwrap(),
        );
        record.addresses.push(AddressRecord {
            id: PublicIpId::parse("0b332beb-3d9a-4c8c-971b-57079ccdbdcd").unwrap(),
            allocated: "2026-12-01T20:48:10+0000".to_owned(),
            ours: true,
        });
        record.openings.insert(Opening::new(port(443), &CidrSet::everybody()));
        record.members.insert(
            port(443),
            MemberDigest { rule: "60ab8e3f".to_owned(), digest: members_digest([]) },
        );
        record
    }

    #[test]
    fn the_format_is_the_documented_one() {
        insta::assert_snapshot!(record().to_text(), @r#"{"v":1,"cluster":"prod","service":"6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f","addresses":[{"id":"0b332beb-3d9a-4c8c-971b-57079ccdbdcd","allocated":"2026-12-01T20:48:10+0000","ours":true}],"openings":["tcp-443:1056040935d2"],"members":{"tcp-443":"60ab8e3f:e3b0c44298fc"}}"#);
    }

    #[test]
    fn a_record_is_read_back() {
        assert_eq!(Record::parse(&record().to_text()), Ok(record()));
        assert_eq!(
            Record::parse(r#"{"v":2,"cluster":"c","service":"s","addresses":[]}"#),
            Err(NotARecord::Version(2))
        );
        assert!(Record::parse("{").is_err());
    }

    #[test]
    fn a_record_that_is_too_large_loses_its_digests_first() {
        let mut large = record();
        for number in 1..500 {
            large.members.insert(
                port(number),
                MemberDigest { rule: "60ab8e3f".into(), digest: "0".repeat(12) },
            );
        }
        let read = Record::parse(&large.to_text()).unwrap();
        assert!(read.members.is_empty());
        assert_eq!(read.addresses, large.addresses);
        assert_eq!(read.openings, large.openings);
    }

    #[test]
    fn intents_are_read_back() {
        let one = "83ab0ded-0000-4000-8000-000000000001 2026-12-01T20:48:10Z 6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f";
        let two = format!("{one}, {one}");
        for text in [one, &two] {
            assert_eq!(Intents::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Intents::parse(&two).unwrap().as_slice().len(), 2);
        for text in ["", "a b c", "x 2026-12-01T20:48:10Z", "x 2026-12-01T20:48:10Z u extra"] {
            assert!(Intents::parse(text).is_err(), "{text:?}");
            assert!(Intents::parse(&format!("{one}, {text}")).is_err(), "{text:?}");
        }
    }

    #[test]
    fn more_than_we_ever_write_is_not_read() {
        let one = "83ab0ded-0000-4000-8000-000000000001 2026-12-01T20:48:10Z 6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f";
        let intents = |count| Intents::parse(&vec![one; count].join(", "));
        assert!(intents(MOST_RECORDED).is_ok());
        assert_eq!(intents(MOST_RECORDED + 1), Err(NotIntents::TooMany(MOST_RECORDED + 1)));
        let mut record = record();
        record.addresses = vec![record.addresses[0].clone(); MOST_RECORDED];
        assert!(Record::parse(&record.to_text()).is_ok());
        record.addresses.push(record.addresses[0].clone());
        let refused = Err(NotARecord::TooManyAddresses(MOST_RECORDED + 1));
        assert_eq!(Record::parse(&record.to_text()), refused);
    }
}
