//! Identifiers as types of their own, so that no rule id is ever passed where an address id is meant.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// A text that cannot be an identifier.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{kind} {text:?} is not an identifier: expected 1 to 255 printable characters without blanks"
)]
pub struct InvalidId {
    /// What the identifier was meant for, in CloudStack's words.
    pub kind: &'static str,
    /// The text that was found.
    pub text: String,
}

fn is_identifier(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes an identifier as a server or a person wrote it.
            ///
            /// # Errors
            /// [`InvalidId`] if the text is empty, longer than 255 characters or holds blanks.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                if is_identifier(text) {
                    Ok(Self(Arc::from(text)))
                } else {
                    Err(InvalidId { kind: $kind, text: text.to_owned() })
                }
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }
    };
}

id!(
    /// `id` of listPublicIpAddresses. Survives a release: the next owner of the address gets it too.
    PublicIpId, "public IP address"
);
id!(
    /// `id` of listLoadBalancerRules.
    LoadBalancerRuleId, "load balancer rule"
);
id!(
    /// `id` of listFirewallRules.
    FirewallRuleId, "firewall rule"
);
id!(
    /// `id` of listNetworkACLLists, `aclid` of listNetworks.
    NetworkAclListId, "network ACL list"
);
id!(
    /// `id` of listNetworkACLs: one item of a list.
    NetworkAclItemId, "network ACL item"
);
id!(
    /// `id` of listNetworks: an isolated network or a VPC tier.
    NetworkId, "network"
);
id!(
    /// `id` of listVPCs.
    VpcId, "VPC"
);
id!(
    /// `id` of listVirtualMachines, lower case.
    VirtualMachineId, "virtual machine"
);
id!(
    /// An object of any of these kinds: `resourceids` of createTags.
    ResourceId, "taggable object"
);
id!(
    /// `id` of listProjects.
    ProjectId, "project"
);
id!(
    /// `jobid` of queryAsyncJobResult; a lower-case UUID where we choose it (`customjobid`).
    JobId, "async job"
);
id!(
    /// `metadata.uid` of a Service.
    ServiceUid, "Service uid"
);
id!(
    /// `metadata.uid` of a Node.
    NodeUid, "Node uid"
);
id!(
    /// What this cluster calls itself in marks on cloud objects (ownership rules, section 1).
    ClusterId, "cluster id"
);

/// The lower-case form that `customjobid` takes.
impl From<Uuid> for JobId {
    fn from(uuid: Uuid) -> Self {
        Self(Arc::from(uuid.hyphenated().to_string()))
    }
}

impl From<Uuid> for ServiceUid {
    fn from(uuid: Uuid) -> Self {
        Self(Arc::from(uuid.hyphenated().to_string()))
    }
}

macro_rules! resources {
    ($($name:ident),*) => {
        $(impl From<&$name> for ResourceId {
            fn from(id: &$name) -> Self {
                Self(Arc::clone(&id.0))
            }
        })*
    };
}

resources!(PublicIpId, LoadBalancerRuleId, FirewallRuleId, NetworkAclItemId);

impl LoadBalancerRuleId {
    /// The first eight characters, as records keep them.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

/// Namespace and name of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceKey {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`; of a Service that vanished with its uid, see [`ServiceKey::vanished`].
    pub name: String,
}

/// Stands between name and uid of a Service that vanished. No name of an object holds it.
const VANISHED: char = '@';

impl ServiceKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of what is left of a Service that vanished: another one may have its name by now.
    #[must_use]
    pub fn vanished(&self, uid: &str) -> Self {
        Self::new(self.namespace.as_str(), format!("{}{VANISHED}{uid}", self.object_name()))
    }

    /// Whether it is the key of a Service that vanished.
    pub fn is_vanished(&self) -> bool {
        self.name.contains(VANISHED)
    }

    /// `metadata.name`, of a Service that vanished too.
    pub fn object_name(&self) -> &str {
        self.name.split(VANISHED).next().unwrap_or_default()
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name } = self;
        write!(f, "{namespace}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_blank_empty_and_long_texts() {
        for text in ["", "a b", "tab\there", &"x".repeat(256), "ümlaut"] {
            assert!(PublicIpId::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(PublicIpId::parse("0b332beb").unwrap().as_str(), "0b332beb");
    }

    #[test]
    fn a_vanished_service_has_a_key_of_its_own() {
        let web = ServiceKey::new("shop", "web");
        let gone = web.vanished("6f1c2a30");
        assert_eq!(gone.to_string(), "shop/web@6f1c2a30");
        assert_eq!((gone.object_name(), web.object_name()), ("web", "web"));
        assert!(gone.is_vanished() && !web.is_vanished());
    }

    #[test]
    fn short_form_of_a_rule_id_has_eight_characters() {
        let id = LoadBalancerRuleId::parse("60ab8e3f-5327-4dfd").unwrap();
        assert_eq!(id.short(), "60ab8e3f");
        assert_eq!(LoadBalancerRuleId::parse("r1").unwrap().short(), "r1");
    }
}
