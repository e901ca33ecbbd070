//! What to fetch, decided from what is wanted and recorded.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::ids::{JobId, ProjectId, PublicIpId};

/// What an observation must cover. Everything else comes with the bulk lists: virtual machines,
/// networks, VPCs, allocated addresses, load balancer rules, firewall rules, ACL lists and items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// `projectid` of every list.
    pub project: Option<ProjectId>,
    /// Addresses that Services ask for: they may be free, and free ones are listed only by
    /// `ipaddress` with `allocatedonly=false`.
    pub addresses: BTreeSet<Ipv4Addr>,
    /// Addresses that Services record: an Allocating or Releasing one is listed only by state.
    pub address_ids: BTreeSet<PublicIpId>,
    /// Jobs that intents name.
    pub jobs: BTreeSet<JobId>,
}
