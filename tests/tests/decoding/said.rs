//! What a body says, read as simply as possible and without the client's code: the oracle.
//!
//! A field that is absent, null or empty says nothing. A number may be written as a text, and so
//! may true and false. Whatever else is of another kind than it should be can't be read, and the
//! client must say so by the field's name.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::facts::{Collected, Facts, listed, pairs};

/// One object, and the fields of it that can't be read.
pub struct Said<'a> {
    value: &'a Value,
    facts: Collected,
    unreadable: Vec<&'static str>,
}

/// The facts, or the names of fields of which the client must name one.
pub type Reading = Result<Facts, Vec<&'static str>>;

impl<'a> Said<'a> {
    fn of(value: &'a Value) -> Self {
        let unreadable = if value.is_object() { Vec::new() } else { vec!["(entry)"] };
        Self { value, facts: Collected::default(), unreadable }
    }

    fn end(self) -> Reading {
        if self.unreadable.is_empty() { Ok(self.facts.0) } else { Err(self.unreadable) }
    }

    /// Gives up on a field.
    fn doubt<T>(&mut self, field: &'static str) -> Option<T> {
        self.unreadable.push(field);
        None
    }

    fn text(&mut self, field: &'static str) -> Option<&'a str> {
        match self.value.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.as_str()).filter(|text| !text.is_empty()),
            Some(_) => self.doubt(field),
        }
    }

    fn read<T>(&mut self, field: &'static str, read: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        let text = self.text(field)?;
        read(text).or_else(|| self.doubt(field))
    }

    fn number(&mut self, field: &'static str, most: u64) -> Option<u64> {
        let number = match self.value.get(field) {
            None | Some(Value::Null) => return None,
            Some(Value::String(text)) if text.trim().is_empty() => return None,
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(value) => value.as_u64(),
        };
        number.filter(|number| *number <= most).or_else(|| self.doubt(field))
    }

    fn flag(&mut self, field: &'static str) -> Option<bool> {
        let flag = match self.value.get(field) {
            None | Some(Value::Null) => return None,
            Some(Value::Bool(flag)) => Some(*flag),
            Some(Value::String(text)) => text.trim().to_lowercase().parse().ok(),
            Some(_) => None,
        };
        flag.or_else(|| self.doubt(field))
    }

    fn entries(&mut self, field: &'static str) -> &'a [Value] {
        match self.value.get(field) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(entries)) => entries,
            Some(_) => self.doubt(field).unwrap_or_default(),
        }
    }

    /// Reads objects in an array. What is wrong with them is wrong with this object.
    fn each<T>(&mut self, field: &'static str, read: impl Fn(&mut Said<'a>) -> T) -> Vec<T> {
        let entries = self.entries(field).iter().map(|entry| {
            let mut said = Said::of(entry);
            let read = read(&mut said);
            self.unreadable.append(&mut said.unreadable);
            read
        });
        entries.collect()
    }

    fn must<T>(&mut self, field: &'static str, value: Option<T>) -> Option<T> {
        value.or_else(|| self.doubt(field))
    }

    fn put(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.facts = self.facts.with_some(name, value.map(|value| value.to_string()));
        self
    }

    /// An id that must be there.
    fn id(mut self, name: &'static str, field: &'static str) -> Self {
        let id = self.read(field, id);
        let id = self.must(field, id);
        self.put(name, id)
    }

    /// An id that may be there.
    fn some_id(mut self, name: &'static str, field: &'static str) -> Self {
        let id = self.read(field, id);
        self.put(name, id)
    }

    /// A text that may be there.
    fn some_text(mut self, name: &'static str, field: &'static str) -> Self {
        let text = self.text(field);
        self.put(name, text)
    }

    /// A text that is empty if it is not there.
    fn any_text(mut self, name: &'static str, field: &'static str) -> Self {
        let text = self.text(field);
        self.put(name, Some(text.unwrap_or_default()))
    }

    /// A text that must be there.
    fn must_text(mut self, name: &'static str, field: &'static str) -> Self {
        let text = self.text(field);
        let text = self.must(field, text);
        self.put(name, text)
    }

    /// One of some texts, as what the core calls it.
    fn one_of(
        mut self,
        name: &'static str,
        field: &'static str,
        known: &[(&str, &'static str)],
    ) -> Self {
        let find =
            |text: &str| known.iter().find(|(said, _)| *said == text).map(|(_, meant)| *meant);
        let found = self.read(field, find);
        let found = self.must(field, found);
        self.put(name, found)
    }

    fn must_number(mut self, name: &'static str, field: &'static str, most: u64) -> Self {
        let number = self.number(field, most);
        let number = self.must(field, number);
        self.put(name, number)
    }

    fn ports(mut self) -> Self {
        let most = u64::from(u16::MAX);
        let ports = match (self.number("startport", most), self.number("endport", most)) {
            (None, None) => None,
            (Some(start), end) => Some((start, end.unwrap_or(start))),
            (None, Some(end)) => Some((0, end)),
        };
        self.put("ports", ports.map(|(start, end)| format!("{start}-{end}")))
    }

    fn tags(mut self) -> Self {
        let tags = self.each("tags", |tag| {
            let key = tag.text("key");
            let key = tag.must("key", key).unwrap_or_default();
            (key.to_owned(), tag.text("value").unwrap_or_default().to_owned())
        });
        let tags: std::collections::BTreeMap<_, _> = tags.into_iter().collect();
        self.put("tags", Some(pairs(&tags)))
    }

    /// An object in any other state is there.
    fn state(mut self) -> Self {
        let state = self.text("state").map(|text| match text {
            "Add" | "Staged" => "Add",
            "Deleting" | "Revoke" => "Deleting",
            _ => "Active",
        });
        let state = self.must("state", state);
        self.put("state", state)
    }
}

pub fn address(value: &Value) -> Option<Reading> {
    let mut said = Said::of(value);
    let ip = said.read("ipaddress", |text| text.parse::<IpAddr>().ok());
    let ip = said.must("ipaddress", ip);
    if ip.is_some_and(|ip| ip.is_ipv6()) {
        return None;
    }
    let (name, id) = (said.text("virtualmachinename"), said.text("virtualmachineid"));
    let is_static_nat = said.flag("isstaticnat") == Some(true);
    let machine = name.or(id).or(is_static_nat.then_some(""));
    let source_nat = said.flag("issourcenat").unwrap_or(false);
    let has_rules = said.flag("hasrules");
    let states = ["Allocating", "Allocated", "Releasing", "Reserved", "Free"];
    let read = said
        .put("address", ip)
        .put("static_nat", machine)
        .put("source_nat", Some(source_nat))
        .put("has_rules", has_rules)
        .id("id", "id")
        .one_of("state", "state", &states.map(|state| (state, state)))
        .some_text("allocated", "allocated")
        .some_id("network", "associatednetworkid")
        .some_id("vpc", "vpcid")
        .tags()
        .end();
    Some(read)
}

pub fn rule(value: &Value) -> Reading {
    let mut said = Said::of(value);
    let protocol = said.text("protocol").map(str::to_lowercase);
    let algorithm = said.text("algorithm").unwrap_or_default().to_lowercase();
    let from = sources(said.text("cidrlist").unwrap_or_default());
    let most = u64::from(u16::MAX);
    said.put("protocol", protocol)
        .put("algorithm", Some(algorithm))
        .put("sources", Some(from))
        .id("id", "id")
        .any_text("name", "name")
        .some_text("description", "description")
        .id("address", "publicipid")
        .must_number("public_port", "publicport", most)
        .must_number("private_port", "privateport", most)
        .id("network", "networkid")
        .state()
        .tags()
        .end()
}

pub fn firewall_rule(value: &Value) -> Reading {
    let mut said = Said::of(value);
    let protocol = said.text("protocol").map(str::to_lowercase);
    let protocol = said.must("protocol", protocol);
    let from = said.read("cidrlist", cidrs);
    said.put("protocol", protocol)
        .put("cidrs", Some(from.unwrap_or_else(|| EVERYBODY.to_owned())))
        .id("id", "id")
        .id("address", "ipaddressid")
        .ports()
        .state()
        .tags()
        .end()
}

pub fn acl_list(value: &Value) -> Reading {
    Said::of(value).id("id", "id").any_text("name", "name").some_id("vpc", "vpcid").end()
}

pub fn acl_item(value: &Value) -> Reading {
    let mut said = Said::of(value);
    let protocol = said.text("protocol").map(str::to_lowercase);
    let protocol = said.must("protocol", protocol);
    let from = said.read("cidrlist", cidrs);
    let either = |yes: &'static str, no: &'static str| {
        move |text: &str| {
            let lower = text.to_lowercase();
            (lower == yes).then_some(true).or((lower == no).then_some(false))
        }
    };
    let ingress = said.read("traffictype", either("ingress", "egress"));
    let ingress = said.must("traffictype", ingress);
    let allow = said.read("action", either("allow", "deny"));
    let allow = said.must("action", allow);
    said.put("protocol", protocol)
        .put("cidrs", Some(from.unwrap_or_default()))
        .put("ingress", ingress)
        .put("allow", allow)
        .id("id", "id")
        .id("list", "aclid")
        .ports()
        .must_number("number", "number", u64::from(u32::MAX))
        .some_text("reason", "reason")
        .state()
        .tags()
        .end()
}

pub fn network(value: &Value) -> Reading {
    let mut said = Said::of(value);
    let services = said.each("service", |service| {
        let name = named(service);
        let providers: BTreeSet<String> = service.each("provider", named).into_iter().collect();
        let capabilities = service.each("capability", |capability| {
            (named(capability), capability.text("value").unwrap_or_default().to_owned())
        });
        let capabilities: std::collections::BTreeMap<_, _> = capabilities.into_iter().collect();
        (name, format!("{:?} {}", listed(providers.into_iter()), pairs(&capabilities)))
    });
    let services: std::collections::BTreeMap<_, _> = services.into_iter().collect();
    let services = services.into_iter().map(|(name, service)| format!("{name:?}: {service}"));
    said.put("services", Some(listed(services)))
        .id("id", "id")
        .any_text("name", "name")
        .any_text("kind", "type")
        .some_id("vpc", "vpcid")
        .some_id("acl_list", "aclid")
        .some_text("acl_name", "aclname")
        .end()
}

fn named(said: &mut Said<'_>) -> String {
    let name = said.text("name");
    said.must("name", name).unwrap_or_default().to_owned()
}

pub fn api(value: &Value) -> Reading {
    Said::of(value).must_text("name", "name").end()
}

pub fn vpc(value: &Value) -> Reading {
    let mut said = Said::of(value);
    let services: BTreeSet<String> = said.each("service", named).into_iter().collect();
    said.put("services", Some(listed(services.into_iter())))
        .id("id", "id")
        .any_text("name", "name")
        .end()
}

pub fn machine(value: &Value) -> Reading {
    let mut said = Said::of(value);
    let id = said.read("id", id).map(str::to_lowercase);
    let id = said.must("id", id);
    let public_ip = said.read("publicip", |text| text.parse::<Ipv4Addr>().ok());
    let mut nics = Vec::new();
    for (index, entry) in (0..).zip(said.entries("nic")) {
        let mut nic = Said::of(entry);
        nics.extend(nic_of(&mut nic, index));
        said.unreadable.append(&mut nic.unreadable);
    }
    said.put("id", id)
        .put("public_ip", public_ip)
        .put("nics", Some(listed(nics.into_iter())))
        .must_text("name", "name")
        .must_text("state", "state")
        .any_text("zone", "zonename")
        .some_text("offering", "serviceofferingname")
        .end()
}

/// A NIC without network is none of ours, whatever else it says.
fn nic_of(said: &mut Said<'_>, index: u64) -> Option<String> {
    let network = said.read("networkid", id)?;
    let device = said.number("deviceid", u64::from(u32::MAX)).unwrap_or(index);
    let nic = Collected::default()
        .with("network", network)
        .with("network_name", said.text("networkname").unwrap_or_default())
        .with_some("ipv4", said.read("ipaddress", |text| text.parse::<Ipv4Addr>().ok()))
        .with_some("ipv6", said.read("ip6address", |text| text.parse::<Ipv6Addr>().ok()))
        .with("default", said.flag("isdefault").unwrap_or(false))
        .with("device", device);
    Some(format!("{:?}", nic.0))
}

/// An entry of `lbrulevmidip` wraps the machine, one of `loadbalancerruleinstance` is it.
pub fn member(value: &Value) -> Reading {
    let machine = value.get("loadbalancerruleinstance").unwrap_or(value);
    let mut said = Said::of(machine);
    let id = said.read("id", id).map(str::to_lowercase);
    let id = said.must("id", id);
    said.put("id", id).end()
}

pub fn capability(value: &Value) -> Reading {
    let mut said = Said::of(value);
    let version = said.text("cloudstackversion").and_then(version);
    let most = u64::from(u32::MAX);
    let (calls, seconds) =
        (said.number("apilimitmax", most), said.number("apilimitinterval", most));
    let limit = calls.filter(|calls| *calls > 0);
    let limit = limit.map(|calls| format!("{calls} in {} s", seconds.unwrap_or(1).max(1)));
    said.put("version", version).put("limit", limit).end()
}

/// The first three numbers of `4.23.0.0-SNAPSHOT`.
pub fn version(text: &str) -> Option<String> {
    let numbers = text.split('-').next()?.split('.').take(3);
    let numbers: Option<Vec<u16>> = numbers.map(|part| part.parse().ok()).collect();
    match numbers?.as_slice() {
        [major, minor] => Some(format!("{major}.{minor}.0")),
        [major, minor, patch] => Some(format!("{major}.{minor}.{patch}")),
        _ => None,
    }
}

/// An id: 1 to 255 visible ASCII characters.
pub fn id(text: &str) -> Option<&str> {
    let visible = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    (visible && (1..=255).contains(&text.len())).then_some(text)
}

const EVERYBODY: &str = "0.0.0.0/0";

/// The networks of a list, if all of them can be read.
fn cidrs(text: &str) -> Option<String> {
    let parts = text.split([' ', ',']).filter(|part| !part.is_empty());
    let networks: Option<BTreeSet<String>> = parts.map(cidr).collect();
    networks.map(|networks| listed(networks.into_iter()))
}

/// The sources of a load balancer rule: CloudStack cuts the list at 255 characters, so what can't
/// be read does not count, unless nothing can.
fn sources(text: &str) -> String {
    let networks: BTreeSet<String> = text.split([' ', ',']).filter_map(cidr).collect();
    if networks.contains(EVERYBODY) || text.trim().is_empty() {
        return EVERYBODY.to_owned();
    }
    if networks.is_empty() {
        return "255.255.255.255/32".to_owned();
    }
    listed(networks.into_iter())
}

/// A network without its host bits.
fn cidr(text: &str) -> Option<String> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let (bits, width, address): (u128, u8, IpAddr) = match address.parse().ok()? {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32, ip.into()),
        IpAddr::V6(ip) => (u128::from(ip), 128, ip.into()),
    };
    let prefix = prefix.unwrap_or(width);
    let free = u32::from(width.checked_sub(prefix)?);
    let kept = bits.checked_shr(free).and_then(|bits| bits.checked_shl(free)).unwrap_or(0);
    let network = match address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from(u32::try_from(kept).ok()?)),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from(kept)),
    };
    Some(format!("{network}/{prefix}"))
}

pub fn port_forward(value: &Value) -> Option<Reading> {
    let read = Said::of(value).id("id", "id").state().end();
    let deleting = |facts: &Facts| facts.get("state").is_some_and(|state| state == "Deleting");
    if read.as_ref().is_ok_and(deleting) {
        return None;
    }
    Some(read.map(|mut facts| {
        facts.remove("state");
        facts
    }))
}

/// What queryAsyncJobResult says of a job.
pub struct Job<'a> {
    /// Whether it succeeded, once it has ended.
    pub ended: Option<bool>,
    /// `jobinstanceid`.
    pub instance: Option<&'a str>,
    code: Option<u64>,
    result: &'a Value,
}

impl<'a> Job<'a> {
    /// The id of what it made, by its key in `jobresult`.
    pub fn made(&self, key: &str) -> Option<&'a str> {
        let named = self.result.get(key).and_then(|object| object.get("id")?.as_str());
        let named = named.filter(|id| !id.is_empty());
        named.or(self.instance).and_then(id)
    }

    /// Code and text of its failure.
    pub fn error(&self) -> (u16, &'a str) {
        let code = self.result.get("errorcode").and_then(|code| match code {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_u64(),
        });
        let code = code.and_then(|code: u64| u16::try_from(code).ok());
        let code = code.or(self.code.and_then(|code| u16::try_from(code).ok())).unwrap_or(530);
        let text = self.result.get("errortext").and_then(Value::as_str);
        (code, text.unwrap_or_default())
    }
}

pub fn job(value: &Value) -> Result<Job<'_>, Vec<&'static str>> {
    let mut said = Said::of(value);
    let status = said.number("jobstatus", 3);
    let status = said.must("jobstatus", status);
    let instance = said.read("jobinstanceid", id);
    let failed = matches!(status, Some(2 | 3));
    let code = failed.then(|| said.number("jobresultcode", u64::from(u16::MAX))).flatten();
    let result = value.get("jobresult").filter(|result| result.is_object()).unwrap_or(&Value::Null);
    let mut inner = Said::of(result);
    let success =
        if status == Some(1) && result.is_object() { inner.flag("success") } else { None };
    if result.is_object() {
        said.unreadable.append(&mut inner.unreadable);
    }
    let refuted = success == Some(false);
    let result = if status == Some(1) && refuted { &Value::Null } else { result };
    let ended = match status {
        Some(0) => None,
        Some(1) => Some(!refuted),
        _ => Some(false),
    };
    said.end().map(|_| Job { ended, instance, code, result })
}
