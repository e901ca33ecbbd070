//! [`CloudState`] with the indexes that planning needs. A view for one Service is a borrow.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jiff::Timestamp;

use crate::ids::{
    FirewallRuleId, JobId, LoadBalancerRuleId, NetworkAclItemId, NetworkAclListId, NetworkId,
    PublicIpId, VirtualMachineId, VpcId,
};
use crate::observe::{
    AddressState, AssociateJob, Capabilities, CloudState, FirewallRule, Listing, LoadBalancerRule,
    Network, NetworkAclItem, NetworkAclList, PublicIpAddress, VirtualMachine, Vpc,
};

/// The observed cloud, indexed by id. Lists inside are sorted by id, so that the order in which a
/// server lists things never shows in a plan.
#[derive(Clone, Debug)]
pub struct Observed {
    /// When the observation began.
    pub at: Timestamp,
    /// What the server and the role can do.
    pub capabilities: Capabilities,
    /// Public IP addresses.
    pub addresses: BTreeMap<PublicIpId, PublicIpAddress>,
    /// Load balancer rules.
    pub rules: BTreeMap<LoadBalancerRuleId, LoadBalancerRule>,
    /// Members of the rules that were read.
    pub members: BTreeMap<LoadBalancerRuleId, BTreeSet<VirtualMachineId>>,
    /// Network ACL lists, where the role may see them.
    pub acl_lists: Listing<BTreeMap<NetworkAclListId, NetworkAclList>>,
    /// Guest networks.
    pub networks: BTreeMap<NetworkId, Network>,
    /// VPCs, where the role may see them.
    pub vpcs: Listing<BTreeMap<VpcId, Vpc>>,
    /// Virtual machines.
    pub virtual_machines: BTreeMap<VirtualMachineId, VirtualMachine>,
    firewall_rules: BTreeMap<FirewallRuleId, FirewallRule>,
    acl_items: Listing<BTreeMap<NetworkAclItemId, NetworkAclItem>>,
    jobs: BTreeMap<JobId, AssociateJob>,
    address_by_ip: BTreeMap<Ipv4Addr, PublicIpId>,
    rules_by_address: BTreeMap<PublicIpId, BTreeSet<LoadBalancerRuleId>>,
    firewall_by_address: BTreeMap<PublicIpId, BTreeSet<FirewallRuleId>>,
    acl_items_by_list: BTreeMap<NetworkAclListId, BTreeSet<NetworkAclItemId>>,
}

impl Observed {
    /// Indexes a state.
    pub fn new(state: CloudState) -> Self {
        let CloudState {
            at,
            capabilities,
            addresses,
            rules,
            members,
            firewall_rules,
            acl_lists,
            acl_items,
            networks,
            vpcs,
            virtual_machines,
            jobs,
        } = state;
        let acl_items = by_id(acl_items, |item| item.id.clone());
        Self {
            at,
            capabilities,
            address_by_ip: addresses.iter().map(|a| (a.address, a.id.clone())).collect(),
            rules_by_address: group(&rules, |r| r.address.clone(), |r| r.id.clone()),
            firewall_by_address: group(&firewall_rules, |r| r.address.clone(), |r| r.id.clone()),
            acl_items_by_list: group(
                acl_items.listed().into_iter().flat_map(BTreeMap::values),
                |item| item.list.clone(),
                |item| item.id.clone(),
            ),
            addresses: addresses.into_iter().map(|a| (a.id.clone(), a)).collect(),
            rules: rules.into_iter().map(|r| (r.id.clone(), r)).collect(),
            members,
            firewall_rules: firewall_rules.into_iter().map(|r| (r.id.clone(), r)).collect(),
            acl_lists: by_id(acl_lists, |list| list.id.clone()),
            acl_items,
            networks: networks.into_iter().map(|n| (n.id.clone(), n)).collect(),
            vpcs: by_id(vpcs, |vpc| vpc.id.clone()),
            virtual_machines: virtual_machines.into_iter().map(|v| (v.id.clone(), v)).collect(),
            jobs,
        }
    }

    /// With the members of rules that were read since. One of `asked` that has none has vanished.
    #[must_use]
    pub fn with_members(
        mut self,
        asked: &BTreeSet<LoadBalancerRuleId>,
        found: BTreeMap<LoadBalancerRuleId, BTreeSet<VirtualMachineId>>,
    ) -> Self {
        for vanished in asked.iter().filter(|rule| !found.contains_key(*rule)) {
            if let Some(rule) = self.rules.remove(vanished)
                && let Some(others) = self.rules_by_address.get_mut(&rule.address)
            {
                others.remove(vanished);
            }
        }
        self.members.extend(found);
        self
    }

    /// The address with this text.
    pub fn address_by_ip(&self, ip: Ipv4Addr) -> Option<&PublicIpAddress> {
        self.addresses.get(self.address_by_ip.get(&ip)?)
    }

    /// An address that is somebody's and can be used.
    pub fn allocated(&self, id: &PublicIpId) -> Option<&PublicIpAddress> {
        self.addresses.get(id).filter(|address| address.state == AddressState::Allocated)
    }

    /// Load balancer rules on an address, whoever's.
    pub fn rules_on<'a>(
        &'a self,
        address: &PublicIpId,
    ) -> impl Iterator<Item = &'a LoadBalancerRule> {
        let ids = self.rules_by_address.get(address).into_iter().flatten();
        ids.filter_map(|id| self.rules.get(id))
    }

    /// Firewall rules on an address, whoever's.
    pub fn firewall_rules_on<'a>(
        &'a self,
        address: &PublicIpId,
    ) -> impl Iterator<Item = &'a FirewallRule> {
        let ids = self.firewall_by_address.get(address).into_iter().flatten();
        ids.filter_map(|id| self.firewall_rules.get(id))
    }

    /// A firewall rule.
    pub fn firewall_rule(&self, id: &FirewallRuleId) -> Option<&FirewallRule> {
        self.firewall_rules.get(id)
    }

    /// Whether any address of a VPC has a firewall rule.
    pub fn vpc_has_firewall_rules(&self, vpc: &VpcId) -> bool {
        self.firewall_by_address.keys().any(|id| {
            self.addresses.get(id).is_some_and(|address| address.vpc.as_ref() == Some(vpc))
        })
    }

    /// Whether ACL items could be listed.
    pub fn sees_acl_items(&self) -> bool {
        self.acl_items.listed().is_some()
    }

    /// All ACL items that could be listed.
    pub fn acl_items(&self) -> impl Iterator<Item = &NetworkAclItem> {
        self.acl_items.listed().into_iter().flat_map(BTreeMap::values)
    }

    /// Firewall rules of all addresses.
    pub fn firewall_rules(&self) -> impl Iterator<Item = &FirewallRule> {
        self.firewall_rules.values()
    }

    /// Items of an ACL list.
    pub fn acl_items_of<'a>(
        &'a self,
        list: &NetworkAclListId,
    ) -> impl Iterator<Item = &'a NetworkAclItem> {
        let ids = self.acl_items_by_list.get(list).into_iter().flatten();
        ids.filter_map(|id| self.acl_item(id))
    }

    /// An ACL item.
    pub fn acl_item(&self, id: &NetworkAclItemId) -> Option<&NetworkAclItem> {
        self.acl_items.listed()?.get(id)
    }

    /// What is known of an associate job; a job that nobody asked about is unknown.
    pub fn job(&self, id: &JobId) -> AssociateJob {
        self.jobs.get(id).cloned().unwrap_or(AssociateJob::Unknown)
    }
}

fn by_id<K: Ord, V>(list: Listing<Vec<V>>, id: impl Fn(&V) -> K) -> Listing<BTreeMap<K, V>> {
    match list {
        Listing::Listed(values) => {
            Listing::Listed(values.into_iter().map(|value| (id(&value), value)).collect())
        }
        Listing::Denied => Listing::Denied,
    }
}

fn group<'a, V: 'a, K: Ord, I: Ord>(
    values: impl IntoIterator<Item = &'a V>,
    key: impl Fn(&V) -> K,
    id: impl Fn(&V) -> I,
) -> BTreeMap<K, BTreeSet<I>> {
    let mut groups: BTreeMap<K, BTreeSet<I>> = BTreeMap::new();
    for value in values {
        groups.entry(key(value)).or_default().insert(id(value));
    }
    groups
}
