//! The text by which a load balancer rule (description) or a network ACL item (reason) says whose
//! it is: `cloudstack-ccm/1 cluster=<id> service=<uid> port=tcp-443 address=ours`.

use std::fmt;

use crate::ids::{ClusterId, ServiceUid};
use crate::model::record::Verdict;
use crate::model::rule_name::port_text;
use crate::model::service::Port;

const PREFIX: &str = "cloudstack-ccm/1";

/// A parsed mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The cluster that made the object.
    pub cluster: ClusterId,
    /// The Service it was made for.
    pub service: ServiceUid,
    /// Its port, for example `tcp-443`.
    pub port: String,
    /// Whose the address was when the object was made.
    pub address: Option<Verdict>,
}

impl Mark {
    /// The mark of an object made now.
    pub fn new(cluster: &ClusterId, service: &ServiceUid, port: Port, address: Verdict) -> Self {
        Self {
            cluster: cluster.clone(),
            service: service.clone(),
            port: port_text(port),
            address: Some(address),
        }
    }

    /// Reads a description or reason. A text that is no mark of ours gives `None`; fields that we
    /// don't know are skipped.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next() != Some(PREFIX) {
            return None;
        }
        let (mut cluster, mut service, mut port, mut address) = (None, None, None, None);
        for word in words {
            match word.split_once('=') {
                Some(("cluster", value)) => cluster = ClusterId::parse(value).ok(),
                Some(("service", value)) => service = ServiceUid::parse(value).ok(),
                Some(("port", value)) => port = Some(value.to_owned()),
                Some(("address", "ours")) => address = Some(Verdict::Ours),
                Some(("address", "user")) => address = Some(Verdict::User),
                _ => {}
            }
        }
        Some(Self { cluster: cluster?, service: service?, port: port?, address })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, service, port, address } = self;
        write!(f, "{PREFIX} cluster={cluster} service={service} port={port}")?;
        match address {
            Some(Verdict::Ours) => f.write_str(" address=ours"),
            Some(Verdict::User) => f.write_str(" address=user"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::service::Transport;

    #[test]
    fn a_mark_is_read_back_and_fits_into_255_characters() {
        let mark = Mark::new(
            &ClusterId::parse(&"c".repeat(63)).unwrap(),
            &ServiceUid::parse("6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f").unwrap(),
            Port { transport: Transport::Tcp, number: 65535 },
            Verdict::User,
        );
        let text = mark.to_string();
        assert!(text.len() <= 255, "{}", text.len());
        assert_eq!(Mark::parse(&text), Some(mark));
    }

    #[test]
    fn other_texts_are_no_marks() {
        for text in ["", "ops", "cloudstack-ccm/1", "cloudstack-ccm/2 cluster=a service=b port=c"] {
            assert_eq!(Mark::parse(text), None, "{text:?}");
        }
    }
}
