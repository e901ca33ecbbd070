//! Worlds, made from descriptions of their objects in answers: that in which a file begins, and that
//! of recorded lists (`left.rs`).
//!
//! A world is written as a world file has it (`deploy/world.schema.json`). Fields of an answer that the
//! simulator has no meaning for are carried over by the tables below.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ccm_simulator::World;
use serde_json::{Map, Value, json};

use super::library::{Kind, Library, Seed};
use super::recording::{ReplayError, WorldFacts};
use super::send::{Keys, plain};

/// The release that was recorded.
const RELEASE: &str = "4.23.0.0-SNAPSHOT";

/// The public range that was recorded, both ends included.
pub(super) const PUBLIC_RANGE: (&str, &str) = ("203.0.113.10", "203.0.113.120");

/// Number of the first guest network in the database, after the four of the system.
const FIRST_NETWORK: usize = 204;

/// Number of the first virtual machine of a user, after the two of the system.
const FIRST_MACHINE: usize = 3;

/// The lists that every CloudStack has.
const DEFAULT_LISTS: &[&str] = &["default_allow", "default_deny"];

/// How long a job takes: so long that a poll at the same instant finds it running.
const JOB: &str = "1s";

/// The domain of root, as a world file has it; everybody else is in the domain recorded.
const ROOT: &str = "ROOT";

/// An account of the recordings, which has one user.
struct Recorded {
    /// What the recordings call its caller.
    caller: &'static str,
    name: &'static str,
    role: &'static str,
    domain: Option<&'static str>,
    /// The projects it works in.
    projects: &'static [&'static str],
}

const fn user(name: &'static str, projects: &'static [&'static str]) -> Recorded {
    Recorded { caller: name, name, role: "User", domain: None, projects }
}

/// The accounts of the recordings by age; `system` owns the addresses of system virtual machines,
/// and `o-project-role` adds the restricted one to the project.
const ACCOUNTS: &[Recorded] = &[
    Recorded { role: "Root Admin", domain: Some(ROOT), ..user("system", &[]) },
    Recorded { role: "Root Admin", domain: Some(ROOT), ..user("admin", &[]) },
    user("ccm-user", &["proj1"]),
    user("other-user", &[]),
    Recorded { role: "Domain Admin", ..user("dom-admin", &[]) },
    Recorded {
        caller: "kubeadmin",
        role: "Project Kubernetes Service Role",
        ..user("kubeadmin-proj", &[])
    },
];

/// What an answer about a network tells beyond what the simulator knows.
const NETWORK_FACTS: &[&str] = &[
    "displaytext",
    "networkdomain",
    "networkofferingdisplaytext",
    "receivedbytes",
    "sentbytes",
    "restartrequired",
];

/// The same for VPCs.
const VPC_FACTS: &[&str] = &["displaytext", "networkdomain"];

/// The same for interfaces.
const NIC_FACTS: &[&str] = &["macaddress", "isolationuri", "broadcasturi"];

/// The same for zones and projects.
const ZONE_FACTS: &[&str] = &["gputotal", "gpuused", "zonetoken"];

/// The same for projects: these, and all that ends in one of the others.
const PROJECT_FACTS: &[&str] = &["displaytext", "vmrunning", "vmstopped"];
const PROJECT_COUNTS: &[&str] = &["available", "limit", "total"];

/// The same for virtual machines: what the hypervisor and the template say.
const VM_FACTS: &[&str] = &[
    "bootmode",
    "boottype",
    "cpuused",
    "diskioread",
    "diskiowrite",
    "diskkbsread",
    "diskkbswrite",
    "guestosid",
    "isomaxcount",
    "memoryintfreekbs",
    "memorykbs",
    "memorytargetkbs",
    "networkkbsread",
    "networkkbswrite",
    "osdisplayname",
    "ostypeid",
    "pooltype",
    "readonlydetails",
    "receivedbytes",
    "sentbytes",
    "templatedisplaytext",
    "templateformat",
    "templateid",
    "templatename",
    "templatetype",
];

/// The world that holds the seeds.
///
/// # Errors
/// If a seed lacks what a world needs.
pub(super) fn world(
    facts: &WorldFacts,
    library: &Library,
    seeds: &[Seed],
) -> Result<World, ReplayError> {
    let of_recordings = json!({
        "zone": zone(facts, library, seeds),
        "domain": domain(facts, library),
        "jobs": {"default": JOB},
        "accounts": ACCOUNTS.iter().map(|row| account(facts, library, row)).collect::<Vec<_>>(),
        "projects": rows(seeds, Kind::Project, |seed| Some(project(&seed.object))),
        "default-acl-lists": {
            "default_allow": facts.id("acl_default_allow"),
            "default_deny": facts.id("acl_default_deny"),
        },
        "networks": isolated_networks(facts, seeds),
        "virtual-machines": machines(facts, seeds),
    });
    with_objects(of_recordings, seeds)
}

/// A world of which the parts are given that no seed tells, with the objects that seeds tell whole.
pub(super) fn with_objects(parts: Value, seeds: &[Seed]) -> Result<World, ReplayError> {
    let mut text = json!({
        "version": 1,
        "release": RELEASE,
        "seed": 1,
        "started": "2026-12-01T19:37:21Z",
        "public-range": {"from": PUBLIC_RANGE.0, "to": PUBLIC_RANGE.1},
        "domains": [{"name": ROOT, "path": ROOT}],
        "service-offerings": offerings(seeds),
        "default-acl-items": default_items(seeds),
        "vpcs": rows(seeds, Kind::Vpc, |seed| Some(vpc(seeds, &seed.object))),
        "addresses": rows(seeds, Kind::Address, |seed| Some(address(&seed.object))),
        "firewall-rules": rows(seeds, Kind::FirewallRule, |seed| firewall_rule(seeds, &seed.object)),
        "rules": rows(seeds, Kind::Rule, |seed| rule(seeds, seed)),
    });
    if let (Value::Object(text), Value::Object(parts)) = (&mut text, parts) {
        text.extend(parts);
    }
    serde_json::from_value(text.clone())
        .map_err(|error| ReplayError(format!("the seeded world: {error}: {text}")))
}

/// Builds the entries of one kind, the oldest first.
pub(super) fn rows(
    seeds: &[Seed],
    kind: Kind,
    build: impl Fn(&Seed) -> Option<Value>,
) -> Vec<Value> {
    let mut found: Vec<&Seed> = seeds.iter().filter(|seed| seed.kind == kind).collect();
    // Where an answer tells the age it is better than the order in which answers came.
    found.sort_by_key(|seed| seed.object.get("created").map(plain));
    found.into_iter().filter_map(build).collect()
}

fn zone(facts: &WorldFacts, library: &Library, seeds: &[Seed]) -> Value {
    let own = seeds.iter().find(|seed| seed.kind == Kind::Zone).map(|seed| &seed.object);
    let seen = own.or(library.any(Kind::Zone)).unwrap_or(&Value::Null);
    let address = library.any(Kind::Address).unwrap_or(&Value::Null);
    clean(json!({
        "name": seen["name"],
        "id": facts.id("zoneid"),
        "physical-network": facts.id("physicalnetworkid"),
        "public-network": address["networkid"],
        "extra": pick(seen, ZONE_FACTS),
    }))
}

fn domain(facts: &WorldFacts, library: &Library) -> Value {
    let owned = library.any(Kind::Address).unwrap_or(&Value::Null);
    json!({"name": owned["domain"], "path": owned["domainpath"], "id": facts.id("domainid")})
}

fn account(facts: &WorldFacts, library: &Library, row: &Recorded) -> Value {
    let Recorded { caller, name, role, domain, projects } = row;
    let Keys { api_key, secret_key } = Keys::of(caller);
    let known = library.account(name);
    clean(json!({
        "name": name,
        "role": role,
        "domain": domain,
        "id": facts.id(&format!("account_{name}")).or(known.map(|(id, _)| id)),
        "user": known.map(|(_, user)| user),
        "api-key": api_key,
        "secret-key": secret_key,
        "projects": projects,
    }))
}

fn project(seen: &Value) -> Value {
    let keys = seen.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let counts = keys.filter(|key| PROJECT_COUNTS.iter().any(|end| key.ends_with(end)));
    let facts: Vec<&str> = PROJECT_FACTS.iter().copied().chain(counts).collect();
    json!({"name": seen["name"], "id": seen["id"], "extra": pick(seen, &facts)})
}

fn offerings(seeds: &[Seed]) -> Vec<Value> {
    let mut found = BTreeMap::new();
    for seed in seeds.iter().filter(|seed| seed.kind == Kind::VirtualMachine) {
        let vm = &seed.object;
        found.entry(plain(&vm["serviceofferingname"])).or_insert_with(|| {
            json!({
                "name": vm["serviceofferingname"],
                "id": vm["serviceofferingid"],
                "cpus": vm["cpunumber"],
                "speed": vm["cpuspeed"],
                "memory": vm["memory"],
            })
        });
    }
    found.into_values().collect()
}

/// All networks but tiers, and the one of another account that no answer shows.
fn isolated_networks(facts: &WorldFacts, seeds: &[Seed]) -> Vec<Value> {
    let mut isolated = networks(seeds, &Value::Null);
    let foreign = facts.id("net_other");
    if foreign.is_some() && isolated.iter().all(|network| network["id"].as_str() != foreign) {
        let row =
            json!({"name": "other", "id": foreign, "owner": "other-user", "cidr": "10.1.1.0/24"});
        isolated.push(clean(row));
    }
    isolated
}

/// The networks of a VPC; null means those of none.
pub(super) fn networks(seeds: &[Seed], vpc: &Value) -> Vec<Value> {
    let of = |seed: &Seed| seed.object.get("vpcid").unwrap_or(&Value::Null) == vpc;
    let mut all: Vec<&Value> =
        seeds.iter().filter(|seed| seed.kind == Kind::Network).map(|seed| &seed.object).collect();
    all.sort_by_key(|network| plain(&network["created"]));
    rows(seeds, Kind::Network, |seed| {
        let number = all.iter().position(|network| network["id"] == seed.object["id"]);
        of(seed).then(|| network(&seed.object, FIRST_NETWORK + number.unwrap_or_default()))
    })
}

fn network(seen: &Value, number: usize) -> Value {
    let is_tier = seen.get("vpcid").is_some();
    let services = seen["service"]
        .as_array()
        .map(|services| services.iter().map(|service| service["name"].clone()).collect::<Vec<_>>());
    clean(json!({
        "name": seen["name"],
        "id": seen["id"],
        "number": number,
        "owner": if is_tier { Value::Null } else { owner(seen) },
        "cidr": seen["cidr"],
        "state": seen["state"],
        "acl": if is_tier { seen.get("aclname").cloned().unwrap_or("none".into()) } else { Value::Null },
        "services": services,
        "offering": {
            "name": seen["networkofferingname"],
            "id": seen["networkofferingid"],
            "conserve-mode": seen["networkofferingconservemode"],
        },
        "tags": tags(seen),
        "extra": pick(seen, NETWORK_FACTS),
    }))
}

fn vpc(seeds: &[Seed], seen: &Value) -> Value {
    let services = seen["service"].as_array().into_iter().flatten();
    let has_firewall = services.into_iter().any(|service| service["name"] == "Firewall");
    let lists = rows(seeds, Kind::AclList, |seed| {
        let list = &seed.object;
        (list.get("vpcid") == Some(&seen["id"])).then(|| {
            clean(json!({
                "name": list["name"],
                "description": list["description"],
                "id": list["id"],
                "items": items(seeds, &list["id"]),
            }))
        })
    });
    clean(json!({
        "name": seen["name"],
        "id": seen["id"],
        "owner": owner(seen),
        "cidr": seen["cidr"],
        "offering": seen["vpcofferingid"],
        "services": if has_firewall { "with-firewall" } else { "default" },
        "conserve-mode": seen["vpcofferingconservemode"],
        "acl-lists": lists,
        "tiers": networks(seeds, &seen["id"]),
        "tags": tags(seen),
        "extra": pick(seen, VPC_FACTS),
    }))
}

fn items(seeds: &[Seed], list: &Value) -> Vec<Value> {
    rows(seeds, Kind::AclItem, |seed| {
        let item = &seed.object;
        (item["aclid"] == *list).then(|| {
            clean(json!({
                "id": item["id"],
                "number": item["number"],
                "protocol": item["protocol"],
                "start-port": port(&item["startport"]),
                "end-port": port(&item["endport"]),
                "cidrs": split(&item["cidrlist"], ','),
                "traffic": item["traffictype"],
                "action": item["action"],
                "reason": item["reason"],
            }))
        })
    })
}

/// The two items of each default list, ingress first.
fn default_items(seeds: &[Seed]) -> Value {
    let mut found: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for seed in seeds.iter().filter(|seed| seed.kind == Kind::AclItem) {
        let [list, number] = [&seed.object["aclname"], &seed.object["number"]].map(plain);
        if DEFAULT_LISTS.contains(&list.as_str()) {
            found.entry(list).or_default().insert(number, seed.object["id"].clone());
        }
    }
    let pairs = found.into_iter().map(|(list, ids)| (list, ids.into_values().collect::<Vec<_>>()));
    let whole = pairs.filter(|(_, ids)| ids.len() == 2);
    whole.map(|(list, ids)| (list, ids.into())).collect::<Map<_, _>>().into()
}

/// All machines, and the one of another account that no answer shows whole.
fn machines(facts: &WorldFacts, seeds: &[Seed]) -> Vec<Value> {
    let mut machines = rows(seeds, Kind::VirtualMachine, |seed| Some(vm(&seed.object)));
    let foreign = facts.id("vm_foreign");
    if foreign.is_some() && machines.iter().all(|vm| vm["id"].as_str() != foreign) {
        machines.push(clean(json!({
            "name": "foreign",
            "id": foreign,
            "owner": "other-user",
            "nics": [{"network": facts.id("net_other"), "address": "10.1.1.9"}],
        })));
    }
    for (at, machine) in machines.iter_mut().enumerate() {
        machine["number"] = (FIRST_MACHINE + at).into();
    }
    machines
}

pub(super) fn vm(seen: &Value) -> Value {
    clean(json!({
        "name": seen["name"],
        "display-name": seen["displayname"],
        "id": seen["id"],
        "owner": owner(seen),
        "state": seen["state"],
        "offering": seen["serviceofferingname"],
        "nics": seen["nic"].as_array().into_iter().flatten().map(nic).collect::<Vec<_>>(),
        "tags": tags(seen),
        "extra": pick(seen, VM_FACTS),
    }))
}

/// A virtual machine as a world file has it.
///
/// # Errors
/// If the description lacks what a world needs.
pub(super) fn virtual_machine(
    seen: &Value,
) -> Result<ccm_simulator::world::VirtualMachine, ReplayError> {
    serde_json::from_value(vm(seen)).map_err(|error| ReplayError(error.to_string()))
}

fn nic(seen: &Value) -> Value {
    let secondary = seen["secondaryip"].as_array().into_iter().flatten();
    clean(json!({
        "network": seen["networkid"],
        "address": seen["ipaddress"],
        "id": seen["id"],
        "default": seen["isdefault"],
        "secondary": secondary.map(|address| address["ipaddress"].clone()).collect::<Vec<_>>(),
        "extra": pick(seen, NIC_FACTS),
    }))
}

fn address(seen: &Value) -> Value {
    let taken = seen["state"] != "Free";
    let of_owner = |value: Value| if taken { value } else { Value::Null };
    let from: Ipv4Addr = PUBLIC_RANGE.0.parse().expect("an address");
    let at: Option<Ipv4Addr> = seen["ipaddress"].as_str().and_then(|text| text.parse().ok());
    clean(json!({
        "address": seen["ipaddress"],
        "id": seen["id"],
        // The database numbers the range from its beginning.
        "number": at.and_then(|at| (u32::from(at) + 1).checked_sub(u32::from(from))),
        "owner": of_owner(owner(seen)),
        "network": of_owner(seen["associatednetworkid"].clone()),
        "vpc": of_owner(seen["vpcname"].clone()),
        "source-nat": seen["issourcenat"],
        "allocated": of_owner(instant(&seen["allocated"])),
        "tags": tags(seen),
    }))
}

fn firewall_rule(all: &[Seed], seen: &Value) -> Option<Value> {
    has_address(all, &seen["ipaddressid"]).then(|| {
        clean(json!({
            "id": seen["id"],
            "address": seen["ipaddress"],
            "protocol": seen["protocol"],
            "start-port": port(&seen["startport"]),
            "end-port": port(&seen["endport"]),
            "icmp": seen.get("icmptype").map(|kind| [kind, &seen["icmpcode"]]),
            "cidrs": split(&seen["cidrlist"], ','),
            "tags": tags(seen),
        }))
    })
}

fn rule(all: &[Seed], rule: &Seed) -> Option<Value> {
    let seen = &rule.object;
    let members: &[String] = if seen["state"] == "Active" { &rule.members } else { &[] };
    has_address(all, &seen["publicipid"]).then(|| {
        clean(json!({
            "id": seen["id"],
            "name": seen["name"],
            "description": seen["description"],
            "address": seen["publicip"],
            "port": port(&seen["publicport"]),
            "private-port": port(&seen["privateport"]),
            "protocol": seen["protocol"],
            "algorithm": seen["algorithm"],
            // As it is stored; the separator tells whether it was updated.
            "cidrs": seen.get("cidrlist").map(|list| vec![list.clone()]),
            "members": members,
            "tags": tags(seen),
        }))
    })
}

fn has_address(seeds: &[Seed], id: &Value) -> bool {
    seeds.iter().any(|seed| {
        seed.kind == Kind::Address && seed.object["id"] == *id && seed.object["state"] != "Free"
    })
}

/// The name of the account or project that an answer names.
fn owner(seen: &Value) -> Value {
    seen.get("project").or_else(|| seen.get("account")).cloned().unwrap_or_default()
}

fn tags(seen: &Value) -> Value {
    let tags = seen["tags"].as_array().into_iter().flatten();
    tags.map(|tag| (plain(&tag["key"]), tag["value"].clone())).collect::<Map<_, _>>().into()
}

/// A time as a world file has it: with a colon in the offset.
fn instant(seen: &Value) -> Value {
    let text = seen.as_str().and_then(|text| text.strip_suffix("+0000"));
    text.map(|text| format!("{text}Z").into()).unwrap_or_default()
}

/// A port, which some answers show as a text.
fn port(value: &Value) -> Option<u16> {
    plain(value).parse().ok()
}

fn split(value: &Value, separator: char) -> Option<Vec<String>> {
    value.as_str().map(|text| text.split(separator).map(str::to_owned).collect())
}

fn pick(seen: &Value, keys: &[&str]) -> Value {
    let found = keys.iter().filter_map(|key| Some(((*key).to_owned(), seen.get(*key)?.clone())));
    found.collect::<Map<_, _>>().into()
}

/// Without the keys that have no value.
fn clean(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, clean(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other,
    }
}
