//! What the Go controller left, and when some of it may stay.
//!
//! An address of which nothing says whose it is counts as the user's if the Service names an
//! address, this one or another, when it is adopted.
//!
//! A Service that adopts records the item of each of its ports. When the last record of an item
//! goes, so does the item; unless a load balancer rule behind the same list has its port then, and
//! the plan says that the item stays. Who strips a record takes the proof away; so does who deletes
//! a rule before its adoption is recorded, for the item of its port.

use std::collections::BTreeSet;

use ccm_core::parse::raw::RawService;
use ccm_tests::lab::{Lab, annotation};
use ccm_tests::oracle::{self, text};
use serde_json::Value;

/// What was recorded when we looked last, and what may stay.
#[derive(Default)]
pub(crate) struct Leavings {
    recorded: BTreeSet<String>,
    may_stay: BTreeSet<String>,
    addresses: BTreeSet<String>,
    without_verdict: BTreeSet<String>,
}

impl Leavings {
    /// An address that the Go controller took, and whether it says so.
    pub(crate) fn add_address(&mut self, id: String, verdict: bool) {
        if !verdict {
            self.without_verdict.insert(id.clone());
        }
        self.addresses.insert(id);
    }

    /// Looks at the records after a write. `told` are the items of which the plan says that they
    /// stay. Gives those that stay against the law.
    pub(crate) fn look(
        &mut self,
        lab: &Lab,
        account: &str,
        told: &BTreeSet<String>,
    ) -> Vec<String> {
        self.look_at_addresses(lab);
        let mut against_the_law = Vec::new();
        for id in self.no_longer_recorded(lab) {
            let items = oracle::list(lab, account, "listNetworkACLs", &[]);
            let Some(item) = items.iter().find(|item| text(item, "id") == id) else { continue };
            if told.contains(&id) && is_used(lab, account, item) {
                self.may_stay.insert(id);
            } else {
                against_the_law.push(format!("nobody records it any more: {item}"));
            }
        }
        against_the_law
    }

    /// Looks at the records after somebody stripped one.
    pub(crate) fn look_at_stripped(&mut self, lab: &Lab) {
        let lost = self.no_longer_recorded(lab);
        self.may_stay.extend(lost);
        self.without_verdict.extend(self.addresses.iter().cloned());
    }

    /// Looks at the items of a port whose rule goes before its Service records anything.
    pub(crate) fn look_at_unrecorded(&mut self, lab: &Lab, account: &str, rule: &Value) {
        let items = oracle::list(lab, account, "listNetworkACLs", &[]).into_iter();
        let unmarked = items.filter(|item| {
            text(item, "reason").is_empty() && text(item, "startport") == text(rule, "publicport")
        });
        self.may_stay.extend(unmarked.map(|item| text(&item, "id").to_owned()));
    }

    fn look_at_addresses(&mut self, lab: &Lab) {
        for (raw, record) in records(lab) {
            let entries = record["addresses"].as_array().cloned().unwrap_or_default();
            for entry in entries.iter().filter(|entry| entry["ours"] == false) {
                let id = text(entry, "id");
                if raw.load_balancer_ip.is_some() && self.without_verdict.contains(id) {
                    self.may_stay.insert(id.to_owned());
                }
            }
        }
    }

    /// Whether an item or an address may be there once all Services are gone.
    pub(crate) fn may_stay(&self, item: &str) -> bool {
        self.may_stay.contains(item)
    }

    fn no_longer_recorded(&mut self, lab: &Lab) -> BTreeSet<String> {
        let recorded = recorded(lab);
        self.may_stay.retain(|item| !recorded.contains(item));
        let before = std::mem::replace(&mut self.recorded, recorded);
        before.difference(&self.recorded).cloned().collect()
    }
}

/// The Services that record something, with that.
fn records(lab: &Lab) -> Vec<(RawService, Value)> {
    let services = lab.cluster.with(|cluster| cluster.services().cloned().collect::<Vec<_>>());
    let records = services.into_iter().filter_map(|raw| {
        let text = raw.annotations.get(&annotation("record"))?;
        let record = serde_json::from_str(text).expect("a record");
        Some((raw, record))
    });
    records.collect()
}

/// The items that any Service records.
fn recorded(lab: &Lab) -> BTreeSet<String> {
    let records = records(lab).into_iter();
    let items =
        records.flat_map(|(_, record)| record["acl"].as_array().cloned().unwrap_or_default());
    items.map(|item| item.as_str().expect("an id").to_owned()).collect()
}

/// Whether a rule in a network of the item's list has its port.
fn is_used(lab: &Lab, account: &str, item: &Value) -> bool {
    let networks = oracle::list(lab, account, "listNetworks", &[]);
    let is_of_list = |network: &&Value| text(network, "aclid") == text(item, "aclid");
    let behind: BTreeSet<&str> =
        networks.iter().filter(is_of_list).map(|network| text(network, "id")).collect();
    oracle::list(lab, account, "listLoadBalancerRules", &[]).iter().any(|rule| {
        behind.contains(text(rule, "networkid"))
            && text(rule, "publicport") == text(item, "startport")
    })
}
