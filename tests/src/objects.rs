//! What is in CloudStack, as its owners list it: to compare before and after.

use std::collections::BTreeMap;
use std::fmt;

use ccm_simulator::Simulator;
use jiff::Timestamp;
use serde_json::Value;

/// The lists, with their arrays and the parameter that a project needs none of.
const LISTS: [(&str, &str); 4] = [
    ("listPublicIpAddresses", "publicipaddress"),
    ("listLoadBalancerRules", "loadbalancerrule"),
    ("listFirewallRules", "firewallrule"),
    ("listNetworkACLs", "networkacl"),
];

/// Fields that tell objects apart, for people.
const SHOWN: [&str; 11] = [
    "id",
    "ipaddress",
    "publicip",
    "publicport",
    "name",
    "protocol",
    "aclname",
    "startport",
    "cidrlist",
    "state",
    "description",
];

/// Addresses, load balancer rules with their members, firewall rules and ACL items, by id.
#[derive(Clone, PartialEq, Eq)]
pub struct Objects(BTreeMap<String, Object>);

/// One object as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The command that lists it.
    pub list: &'static str,
    /// Its fields.
    pub fields: Value,
    /// Names of its members, if it is a load balancer rule.
    pub members: Vec<String>,
}

impl Object {
    /// A field as text; empty if it is absent.
    pub fn text(&self, field: &str) -> String {
        match self.fields.get(field) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// Its id.
    pub fn id(&self) -> String {
        self.text("id")
    }
}

impl Objects {
    /// Lists everything that accounts see, their projects included. Leaves no trace in the log of
    /// calls.
    pub fn of(simulator: &Simulator, accounts: &[&str], now: Timestamp) -> Self {
        let mut simulator = simulator.clone();
        let mut objects = BTreeMap::new();
        for account in accounts {
            for (list, array) in LISTS {
                let states: &[&str] = match list {
                    "listPublicIpAddresses" => &["Allocated", "Allocating", "Releasing"],
                    _ => &[""],
                };
                for state in states {
                    let mut params = vec![("listall", "true"), ("projectid", "-1")];
                    params.extend((!state.is_empty()).then_some(("state", *state)));
                    for fields in entries(&mut simulator, account, list, &params, array, now) {
                        let id = fields.get("id").and_then(Value::as_str).unwrap_or_default();
                        let id = id.to_owned();
                        let members = match list {
                            "listLoadBalancerRules" => members(&mut simulator, account, &id, now),
                            _ => Vec::new(),
                        };
                        objects.insert(id, Object { list, fields, members });
                    }
                }
            }
        }
        Self(objects)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.0.values()
    }

    /// Those that are of interest.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&Object) -> bool) -> Self {
        let kept = self.0.iter().filter(|(_, object)| wanted(object));
        Self(kept.map(|(id, object)| (id.clone(), object.clone())).collect())
    }

    /// Load balancer rules.
    pub fn rules(&self) -> Vec<&Object> {
        self.of_list("listLoadBalancerRules")
    }

    /// The load balancer rule of a public port.
    pub fn rule(&self, port: u16) -> &Object {
        let rules = self.rules();
        let mut found = rules.iter().filter(|rule| rule.text("publicport") == port.to_string());
        let rule = found.next().unwrap_or_else(|| panic!("no rule has port {port}: {self:#?}"));
        assert!(found.next().is_none(), "two rules have port {port}: {self:#?}");
        rule
    }

    /// Firewall rules, as `port cidrs`, sorted.
    pub fn openings(&self) -> Vec<String> {
        let rules = self.of_list("listFirewallRules");
        let text = |rule: &&Object| {
            let (port, cidrs) = (rule.text("startport"), rule.text("cidrlist"));
            format!("{port} {cidrs}")
        };
        let mut openings: Vec<_> = rules.iter().map(text).collect();
        openings.sort();
        openings
    }

    /// Firewall rules.
    pub fn firewall_rules(&self) -> Vec<&Object> {
        self.of_list("listFirewallRules")
    }

    /// Items of ACL lists that can be edited.
    pub fn acl_items(&self) -> Vec<&Object> {
        let mut items = self.of_list("listNetworkACLs");
        items.retain(|item| !item.text("aclname").starts_with("default_"));
        items
    }

    /// The addresses, as text, sorted.
    pub fn addresses(&self) -> Vec<String> {
        let addresses = self.of_list("listPublicIpAddresses");
        let mut addresses: Vec<_> =
            addresses.iter().map(|address| address.text("ipaddress")).collect();
        addresses.sort();
        addresses
    }

    /// The address of a text.
    pub fn address(&self, text: &str) -> &Object {
        let addresses = self.of_list("listPublicIpAddresses");
        let found = addresses.into_iter().find(|address| address.text("ipaddress") == text);
        found.unwrap_or_else(|| panic!("{text} is not allocated: {self:#?}"))
    }

    /// What differs, as lines for people: `-` was there before, `+` is there now.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let changed = |one: &Self, other: &Self, mark: &str| -> Vec<String> {
            let differs = one.0.iter().filter(|(id, object)| other.0.get(*id) != Some(object));
            differs
                .map(|(_, Object { list, fields, members })| {
                    format!("{mark} {list} {fields} {}", members.join(" "))
                })
                .collect()
        };
        [changed(before, self, "-"), changed(self, before, "+")].concat()
    }

    fn of_list(&self, list: &str) -> Vec<&Object> {
        self.0.values().filter(|object| object.list == list).collect()
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.values().map(|object| {
            let shown = SHOWN.map(|field| object.text(field));
            let shown: Vec<_> = shown.into_iter().filter(|text| !text.is_empty()).collect();
            format!("{} {} {}", object.list, shown.join(" "), object.members.join(" "))
        });
        f.debug_list().entries(lines).finish()
    }
}

fn entries(
    simulator: &mut Simulator,
    account: &str,
    command: &str,
    params: &[(&str, &str)],
    array: &str,
    now: Timestamp,
) -> Vec<Value> {
    let response = simulator.call(account, command, params, now);
    let body: Value = serde_json::from_str(&response.body).expect("JSON");
    let root = body.as_object().and_then(|root| root.values().next());
    let list = root.and_then(|root| root.get(array)).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

fn members(simulator: &mut Simulator, account: &str, rule: &str, now: Timestamp) -> Vec<String> {
    let (command, array) = ("listLoadBalancerRuleInstances", "loadbalancerruleinstance");
    let found = entries(simulator, account, command, &[("id", rule)], array, now);
    let mut names: Vec<String> =
        found.iter().filter_map(|vm| Some(vm.get("name")?.as_str()?.to_owned())).collect();
    names.sort();
    names
}
