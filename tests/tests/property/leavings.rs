//! The ACL items of the Go controller, and when one of them may stay.
//!
//! A Service that adopts records the item of each of its ports. When the last record of an item
//! goes, so does the item; unless a load balancer rule behind the same list has its port then, and
//! the plan says that the item stays. Who strips a record takes the proof away.

use std::collections::BTreeSet;

use ccm_tests::lab::{Lab, annotation};
use ccm_tests::oracle::{self, text};
use serde_json::Value;

/// What was recorded when we looked last, and what may stay.
#[derive(Default)]
pub(crate) struct Leavings {
    recorded: BTreeSet<String>,
    may_stay: BTreeSet<String>,
}

impl Leavings {
    /// Looks at the records after a write. `told` are the items of which the plan says that they
    /// stay. Gives those that stay against the law.
    pub(crate) fn look(
        &mut self,
        lab: &Lab,
        account: &str,
        told: &BTreeSet<String>,
    ) -> Vec<String> {
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
    }

    /// Whether an item may be there once all Services are gone.
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

/// The items that any Service records.
fn recorded(lab: &Lab) -> BTreeSet<String> {
    let objects = lab.cluster.with(|cluster| cluster.services().cloned().collect::<Vec<_>>());
    let records = objects.iter().filter_map(|raw| raw.annotations.get(&annotation("record")));
    let records = records.map(|text| serde_json::from_str::<Value>(text).expect("a record"));
    let items = records.flat_map(|record| record["acl"].as_array().cloned().unwrap_or_default());
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
