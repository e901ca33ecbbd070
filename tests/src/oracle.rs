//! Rules that every state must keep, restated simply and without the planner's code.

use std::collections::{BTreeMap, BTreeSet};

use ccm_core::cidr::{Cidr, CidrSet};
use ccm_core::parse::raw::RawService;
use serde_json::Value;

use crate::lab::{Lab, annotation};

/// Lists everything of a kind that an account can see.
pub fn list(lab: &Lab, account: &str, command: &str, params: &[(&str, &str)]) -> Vec<Value> {
    let mut all = vec![("listall", "true")];
    if account != "prod" {
        all.push(("projectid", "-1"));
    }
    all.extend_from_slice(params);
    let now = lab.now();
    let response = lab.simulator.with(|simulator| simulator.call(account, command, &all, now));
    assert_eq!(response.status, 200, "{command}: {}", response.body);
    let body: Value = serde_json::from_str(&response.body).expect("JSON");
    let root = body.as_object().and_then(|root| root.values().next()).cloned();
    let rows = root.as_ref().and_then(Value::as_object).into_iter().flat_map(|root| root.values());
    rows.filter_map(Value::as_array).flatten().cloned().collect()
}

/// A text field of an answer.
pub fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Parameters of a rule that somebody puts beside another one, on port 9999 of the same address.
pub fn rule_beside(rule: &Value) -> [(&'static str, &str); 8] {
    [
        ("publicipid", text(rule, "publicipid")),
        ("networkid", text(rule, "networkid")),
        ("name", "manual"),
        ("algorithm", "roundrobin"),
        ("publicport", "9999"),
        ("privateport", "9999"),
        ("protocol", "tcp"),
        ("openfirewall", "false"),
    ]
}

/// What an account holds in CloudStack, by kind and id. Two inventories are equal if nothing was
/// made, changed or removed in between.
#[derive(Clone, Debug, PartialEq)]
pub struct Inventory(BTreeMap<(&'static str, String), Value>);

impl Inventory {
    /// Takes stock. Fields that follow from what others put beside an object are left out.
    pub fn take(lab: &Lab, account: &str) -> Self {
        let kinds = [
            ("address", "listPublicIpAddresses"),
            ("rule", "listLoadBalancerRules"),
            ("firewall", "listFirewallRules"),
            ("acl", "listNetworkACLs"),
        ];
        let mut objects = BTreeMap::new();
        for (kind, command) in kinds {
            for mut value in list(lab, account, command, &[]) {
                let id = text(&value, "id").to_owned();
                if kind == "address" {
                    let fields = value.as_object_mut().expect("an object");
                    fields.retain(|name, _| {
                        matches!(name.as_str(), "id" | "ipaddress" | "allocated")
                    });
                }
                if kind == "rule" {
                    let members =
                        list(lab, account, "listLoadBalancerRuleInstances", &[("id", &id)]);
                    let members: Value =
                        members.iter().map(|vm| Value::from(text(vm, "id"))).collect();
                    value.as_object_mut().expect("an object").insert("members".into(), members);
                }
                objects.insert((kind, id), value);
            }
        }
        Self(objects)
    }

    /// Ids of a kind.
    pub fn ids(&self, kind: &'static str) -> BTreeSet<String> {
        self.0.keys().filter(|(found, _)| *found == kind).map(|(_, id)| id.clone()).collect()
    }

    /// Objects of a kind.
    pub fn objects(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |((found, _), _)| *found == kind).map(|(_, value)| value)
    }

    /// What of `self` is missing or changed in `later`.
    pub fn lost(&self, later: &Self) -> Vec<String> {
        let lost = self.0.iter().filter(|(key, value)| later.0.get(*key) != Some(*value));
        lost.map(|((kind, id), value)| {
            let now = later.0.get(&(*kind, id.clone()));
            format!("{kind} {id}: was {value}, is {}", now.map_or("gone".into(), Value::to_string))
        })
        .collect()
    }

    /// Both together.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The part that `other` lacks.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let rest = self.0.iter().filter(|(key, _)| !other.0.contains_key(*key));
        Self(rest.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Who may come in to which port of which address, as traffic would find it.
pub type Exposure = BTreeMap<(String, u16), CidrSet>;

/// What is open now on the addresses of an account.
pub fn exposure(lab: &Lab, account: &str) -> Exposure {
    let mut exposure = Exposure::new();
    for rule in list(lab, account, "listLoadBalancerRules", &[]) {
        let address = text(&rule, "publicip").to_owned();
        let port: u16 = text(&rule, "publicport").parse().expect("a port");
        let cidrs = lab.simulator.with(|simulator| simulator.open_cidrs(&address, port));
        let cidrs = cidrs.iter().map(|cidr| Cidr::parse_listed(cidr).expect("a CIDR"));
        // Public addresses are IPv4: nobody comes to them from an IPv6 network.
        let cidrs = cidrs.filter(|cidr| cidr.network().addr().is_ipv4()).collect();
        exposure.insert((address, port), cidrs);
    }
    exposure
}

/// What of `now` lies neither inside what was open before nor inside what is wanted.
pub fn too_wide(now: &Exposure, old: &Exposure, wanted: &BTreeMap<u16, CidrSet>) -> Vec<String> {
    let nothing = CidrSet::default();
    let mut wide = Vec::new();
    for ((address, port), open) in now {
        let before = old.get(&(address.clone(), *port)).unwrap_or(&nothing);
        let wanted = wanted.get(port).unwrap_or(&nothing);
        for cidr in open.iter().filter(|cidr| !before.covers(cidr) && !wanted.covers(cidr)) {
            wide.push(format!(
                "{address}:{port} is open to {cidr}; before {before}, wanted {wanted}"
            ));
        }
    }
    wide
}

/// Which sources the documentation promises for each port of a Service: the annotation restricts
/// the rule, the ranges restrict the firewall where there is one.
pub fn promised(raw: &RawService, has_firewall: bool) -> BTreeMap<u16, CidrSet> {
    let list = |text: &str| CidrSet::parse_listed(text).expect("CIDRs");
    let annotated = raw.annotations.get(&annotation("source-cidrs")).map(|text| list(text));
    let rule = annotated.filter(|set| !set.is_empty()).unwrap_or_else(CidrSet::everybody);
    let ranges = list(&raw.source_ranges.join(","));
    let firewall = if ranges.is_empty() || !has_firewall { CidrSet::everybody() } else { ranges };
    let both: CidrSet = intersection(&rule, &firewall);
    // No router balances UDP.
    let balanced = raw.ports.iter().filter(|port| port.protocol.as_deref() != Some("UDP"));
    let numbers = balanced.map(|port| u16::try_from(port.port).expect("a port"));
    numbers.map(|number| (number, both.clone())).collect()
}

/// Two networks either contain each other or have nothing in common.
fn intersection(one: &CidrSet, other: &CidrSet) -> CidrSet {
    let inside = |set: &CidrSet, of: &CidrSet| -> Vec<Cidr> {
        set.iter().filter(|cidr| of.covers(cidr)).cloned().collect()
    };
    inside(one, other).into_iter().chain(inside(other, one)).collect()
}
