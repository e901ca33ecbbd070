//! Which release is simulated, and what differs between releases: one table, one question.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

/// A CloudStack release such as `4.22.0.0-SNAPSHOT`; compared by its first three numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u16; 3],
    text: String,
}

/// The first and the last minor release that is simulated.
const SIMULATED: RangeInclusive<[u16; 2]> = [4, 15]..=[4, 23];

/// A text that names no CloudStack release that is simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a CloudStack release from 4.15 to 4.23; write for example `4.22.0.0`")]
pub struct NotAVersion(String);

/// Something that began with one release. Everything older than 4.15 is taken for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    RuleAndVmNamesMatchExactly,
    AclDefaultCoversIpv6,
    RuleCidrList,
    DomainPath,
    AclKeyword,
    XmlErrorsWithoutVersion,
    UpdatePushesMostly,
    SslOffload,
    RuleNetworkChecked,
    JobByResource,
    AddressStateList,
    AssignErrorReason,
    RulesBuried,
    VpcFirewall,
    ForbiddenApiNameListsAll,
    NicEnabled,
    VpcConserveMode,
    DeniedIs432,
    ApiKeyAccess,
    PostOnlyMode,
    KeyPairs,
    GlobalAclLists,
    Quarantine,
    NicDevices,
    RuleProtocolUpdate,
    BlankFirewallCidrs,
    ConserveErrorCode,
    IpLimitInJob,
    AddressLock,
}

/// The releases in which the differences began, and how it was before: the place to look when a test of one release fails
/// on another.
#[rustfmt::skip]
const SINCE: &[([u16; 3], Feature, &str)] = &[
    ([4, 16, 0], Feature::NicDevices, "NICs were in no order and did not tell their devices"),
    ([4, 17, 0], Feature::RuleAndVmNamesMatchExactly, "`name` of rules and VMs was a substring"),
    ([4, 17, 0], Feature::AclDefaultCoversIpv6, "an ACL item without cidrlist got 0.0.0.0/0 only"),
    ([4, 17, 1], Feature::RuleProtocolUpdate, "updateLoadBalancerRule ignored protocol"),
    ([4, 18, 0], Feature::RuleCidrList, "createLoadBalancerRule refused cidrlist"),
    ([4, 18, 0], Feature::DeniedIs432, "a command that a role denies got 401, as if the key were wrong"),
    ([4, 19, 0], Feature::GlobalAclLists, "every ACL list belonged to a VPC"),
    ([4, 19, 0], Feature::Quarantine, "a released address was anybody's at once"),
    ([4, 19, 1], Feature::AddressLock, "a request about an address did not wait for the jobs on it"),
    ([4, 19, 2], Feature::BlankFirewallCidrs, "a firewall rule with a blank cidrlist was refused"),
    ([4, 19, 2], Feature::IpLimitInJob, "addresses still being acquired counted for the limit"),
    ([4, 19, 2], Feature::DomainPath, "rules and addresses had no domainpath"),
    ([4, 20, 0], Feature::AclKeyword, "listNetworkACLs ignored keyword"),
    ([4, 20, 0], Feature::ConserveErrorCode, "an address of a network without conserve mode refused a second use as 530"),
    ([4, 20, 1], Feature::ApiKeyAccess, "API keys could not be turned off"),
    ([4, 21, 0], Feature::PostOnlyMode, "`enforce.post.requests.and.timestamps` did not exist"),
    ([4, 21, 0], Feature::XmlErrorsWithoutVersion, "XML errors showed the version too"),
    ([4, 22, 0], Feature::UpdatePushesMostly, "an update was pushed only for another algorithm"),
    ([4, 22, 0], Feature::SslOffload, "a virtual router did not offer ssl"),
    ([4, 22, 1], Feature::RuleNetworkChecked, "a rule's networkid other than its address's was ignored"),
    ([4, 22, 1], Feature::JobByResource, "queryAsyncJobResult knew jobid only"),
    ([4, 22, 1], Feature::AddressStateList, "listPublicIpAddresses took one state, unchecked"),
    ([4, 23, 0], Feature::KeyPairs, "a user had one key pair without rules, and a signed call counted once"),
    ([4, 23, 0], Feature::AssignErrorReason, "a failed assign gave no reason"),
    ([4, 23, 0], Feature::RulesBuried, "ids of deleted rules were unknown at once"),
    ([4, 23, 0], Feature::VpcFirewall, "addresses of a VPC had no firewall"),
    ([4, 23, 0], Feature::ForbiddenApiNameListsAll, "listApis failed for a name out of reach"),
    ([4, 23, 0], Feature::NicEnabled, "NICs did not tell whether they are enabled"),
    ([4, 23, 0], Feature::VpcConserveMode, "VPCs did not tell their conserve mode"),
];

/// Fields of answers that came with a release, by the key of their object: their `since`.
#[rustfmt::skip]
pub(crate) const FIELDS: &[(&str, &str, [u16; 3])] = &[
    ("asyncjobs", "domainpath", [4, 19, 2]),
    ("asyncjobs", "managementserverid", [4, 19, 0]),
    ("asyncjobs", "managementservername", [4, 21, 0]),
    ("firewallrule", "traffictype", [4, 17, 0]),
    ("ipaddress", "forprovider", [4, 21, 0]),
    ("ipaddress", "forsystemvms", [4, 20, 0]),
    ("ipaddress", "hasrules", [4, 19, 0]),
    ("network", "created", [4, 16, 0]),
    ("network", "supportsvmautoscaling", [4, 18, 0]),
    ("virtualmachine", "arch", [4, 20, 1]),
    ("virtualmachine", "lastupdated", [4, 16, 0]),
    ("virtualmachine", "vmtype", [4, 20, 0]),
    ("vpc", "vpcofferingconservemode", [4, 23, 0]),
    ("zone", "type", [4, 18, 0]),
];

/// The fields of an object that a release does not have yet.
pub(crate) fn newer_fields(kind: &str, version: &Version) -> Vec<&'static str> {
    let newer =
        FIELDS.iter().filter(|(known, _, since)| *known == kind && !version.reaches(*since));
    newer.map(|(_, field, _)| *field).collect()
}

/// The first three numbers of a release, simulated or not.
pub(crate) fn numbers(text: &str) -> Option<[u16; 3]> {
    let number = text.split('-').next()?;
    let parts: Vec<u16> = number.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    match parts.as_slice() {
        [major, minor] => Some([*major, *minor, 0]),
        [major, minor, patch] | [major, minor, patch, _] => Some([*major, *minor, *patch]),
        _ => None,
    }
}

impl Version {
    /// Whether a difference has begun in this release.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        SINCE.iter().any(|(since, known, _)| *known == feature && self.reaches(*since))
    }

    /// Whether this is the release of these numbers or a later one.
    pub(crate) fn reaches(&self, numbers: [u16; 3]) -> bool {
        self.numbers >= numbers
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    /// Reads two to four numbers and an optional suffix after a dash.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let numbers = numbers(text)
            .filter(|[major, minor, _]| SIMULATED.contains(&[*major, *minor]))
            .ok_or_else(|| NotAVersion(text.chars().take(80).collect()))?;
        let number = text.split('-').next().unwrap_or_default();
        let text = match number.split('.').count() {
            2 => format!("{number}.0.0"),
            3 => format!("{number}.0"),
            _ => text.to_owned(),
        };
        Ok(Self { numbers, text })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_releases_are_completed_and_suffixes_kept() {
        let shown = |text: &str| text.parse::<Version>().unwrap().to_string();
        assert_eq!(shown("4.21"), "4.21.0.0");
        assert_eq!(shown("4.22.1"), "4.22.1.0");
        assert_eq!(shown("4.23.0.0-SNAPSHOT"), "4.23.0.0-SNAPSHOT");
        assert!("latest".parse::<Version>().is_err());
        assert!("4".parse::<Version>().is_err());
    }

    #[test]
    fn releases_from_4_15_to_4_23_are_simulated() {
        for text in ["4.15", "4.15.2.0", "4.23.9"] {
            assert!(text.parse::<Version>().is_ok(), "{text}");
        }
        for text in ["4.14.1", "4.24", "5.0"] {
            let refused = text.parse::<Version>().unwrap_err().to_string();
            assert!(refused.contains("from 4.15 to 4.23"), "{refused}");
        }
    }

    #[test]
    fn a_difference_holds_from_its_release_on() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(!version("4.21.0.0").has(Feature::UpdatePushesMostly));
        assert!(version("4.22.0.0").has(Feature::UpdatePushesMostly));
        assert!(!version("4.22.0.0").has(Feature::RuleNetworkChecked));
        assert!(version("4.23.0.0-SNAPSHOT").has(Feature::RuleNetworkChecked));
    }
}
