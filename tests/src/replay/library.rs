//! What the recordings tell about objects: every description of one in an answer or in
//! `setup.jsonl`, and which objects existed when a file began.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::names::ids;
use super::recording::{Directory, Exchange, Recording};
use super::send::plain;
use super::setup::Setup;

/// A kind of object that a world holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    AclItem,
    AclList,
    Address,
    FirewallRule,
    Network,
    Project,
    Rule,
    VirtualMachine,
    Vpc,
    Zone,
}

/// Keys of answers under which objects stand, alone or in a list.
const KEYS: &[(&str, Kind)] = &[
    ("firewallrule", Kind::FirewallRule),
    ("ipaddress", Kind::Address),
    ("loadbalancer", Kind::Rule),
    ("loadbalancerrule", Kind::Rule),
    ("loadbalancerruleinstance", Kind::VirtualMachine),
    ("network", Kind::Network),
    ("networkacl", Kind::AclItem),
    ("networkacllist", Kind::AclList),
    ("project", Kind::Project),
    ("publicipaddress", Kind::Address),
    ("virtualmachine", Kind::VirtualMachine),
    ("vpc", Kind::Vpc),
    ("zone", Kind::Zone),
];

/// Commands that make the object whose id they answer.
const MAKERS: &[&str] = &["associate", "create", "deploy"];

/// Kinds that are listed the newest first.
const NEWEST_FIRST: &[Kind] = &[Kind::AclItem, Kind::FirewallRule, Kind::Network];

/// What even a short description of a virtual machine shows, or leaves out if there is none.
const SHOWN_WITHOUT_DETAILS: &[&str] = &["bootmode", "boottype", "state", "tags"];

/// How commands begin that change nothing.
const READERS: &[&str] = &["get", "list", "query"];

/// Parameters that name what a command changes, so that later answers describe it in another way;
/// with a part of the command's name.
const CHANGED: &[(&str, &str)] = &[
    ("", "id"),
    ("", "ipaddressid"),
    ("", "publicipid"),
    ("", "resourceids"),
    ("", "virtualmachineid"),
    ("NetworkACL", "networkid"),
];

/// Where something was seen: number of the file, and line. What `setup.jsonl` tells comes before
/// the line that it names.
type Place = (usize, usize);

/// A description of an object.
#[derive(Debug, Clone)]
struct Sighting {
    place: Place,
    kind: Kind,
    object: Value,
}

/// All descriptions.
#[derive(Debug, Clone, Default)]
pub(super) struct Library {
    sightings: BTreeMap<String, Vec<Sighting>>,
    /// The virtual machines behind a rule, as seen.
    members: BTreeMap<String, Vec<(Place, Vec<String>)>>,
    /// Where ids were mentioned first, and which id of that place it was.
    first: BTreeMap<String, (Place, usize)>,
    /// Names of accounts to their ids and those of their users.
    accounts: BTreeMap<String, (String, String)>,
}

/// An object that existed when a file began.
#[derive(Debug, Clone)]
pub(super) struct Seed {
    pub(super) kind: Kind,
    /// As an answer shows it.
    pub(super) object: Value,
    /// Of a rule: ids of its virtual machines.
    pub(super) members: Vec<String>,
    age: (Place, isize),
}

impl Seed {
    /// An object that a list shows as it is.
    pub(super) fn listed(kind: Kind, object: Value, members: Vec<String>) -> Self {
        Self { kind, object, members, age: Default::default() }
    }
}

impl Library {
    pub(super) fn of(directory: &Directory) -> Self {
        let mut library = Self::default();
        for (file, recording) in directory.recordings.iter().enumerate() {
            for setup in directory.setup.iter().filter(|setup| setup.file == recording.name) {
                library.read_setup(file, setup);
            }
            for (at, exchange) in recording.exchanges.iter().enumerate() {
                library.read_exchange((file, at + 1), exchange);
            }
        }
        for sightings in library.sightings.values_mut() {
            sightings.sort_by_key(|sighting| sighting.place);
        }
        library
    }

    fn read_setup(&mut self, file: usize, setup: &Setup) {
        let Some(object) = &setup.object else {
            return;
        };
        let place = (file, setup.before_line.unwrap_or_default().saturating_sub(1));
        let kind = object["kind"].as_str().and_then(kind_of);
        if let (Some(kind), Some(id)) = (kind, object["id"].as_str()) {
            self.add(place, kind, id, object);
            if let Some(members) = object["members"].as_array() {
                let id_of = |vm: &Value| vm["virtualmachineid"].as_str().map(str::to_owned);
                let members = members.iter().filter_map(id_of).collect();
                self.members.entry(id.to_owned()).or_default().push((place, members));
            }
        }
    }

    fn read_exchange(&mut self, place: Place, exchange: &Exchange) {
        for (at, id) in mentioned(exchange).into_iter().enumerate() {
            self.first.entry(id).or_insert((place, at));
        }
        self.read_value(place, &exchange.body);
        let answer = exchange.answer();
        let [name, id, user] = ["account", "accountid", "userid"].map(|key| answer[key].as_str());
        if let (Some(name), Some(id), Some(user)) = (name, id, user) {
            self.accounts.insert(name.to_owned(), (id.to_owned(), user.to_owned()));
        }
        self.read_replaced_list(place, exchange);
        if exchange.command.as_deref() == Some("listLoadBalancerRuleInstances")
            && let Some(rule) = exchange.params.get("id").and_then(Value::as_str)
            && let Some(vms) = exchange.answer()["loadbalancerruleinstance"].as_array()
        {
            let id_of = |vm: &Value| {
                let vm = vm.get("loadbalancerruleinstance").unwrap_or(vm);
                vm["id"].as_str().map(str::to_owned)
            };
            let members = vms.iter().filter_map(id_of).collect();
            self.members.entry(rule.to_owned()).or_default().push((place, members));
        }
    }

    /// A tier that got another ACL list: no answer describes it until the next list of networks.
    fn read_replaced_list(&mut self, (file, line): Place, exchange: &Exchange) {
        let last = |param: &str| {
            let id = exchange.params.get(param)?.as_str()?;
            let mut seen = self.sightings.get(id)?.iter();
            let whole = seen.rfind(|seen| is_whole(seen.kind, &seen.object))?;
            Some((id, &whole.object))
        };
        if exchange.command.as_deref() != Some("replaceNetworkACLList") || exchange.status != 200 {
            return;
        }
        if let (Some((id, tier)), Some((acl, list))) = (last("networkid"), last("aclid")) {
            let mut tier = tier.clone();
            tier["aclid"] = acl.into();
            tier["aclname"] = list["name"].clone();
            self.add((file, line + 1), Kind::Network, id, &tier);
        }
    }

    fn read_value(&mut self, place: Place, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if let Some(kind) = kind_of(key) {
                        let rows =
                            value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                        for row in rows {
                            if let Some(id) = row.get("id").and_then(Value::as_str) {
                                self.add(place, kind, id, row);
                            }
                        }
                    }
                    self.read_value(place, value);
                }
            }
            Value::Array(values) => {
                for value in values {
                    self.read_value(place, value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn add(&mut self, place: Place, kind: Kind, id: &str, object: &Value) {
        let sighting = Sighting { place, kind, object: object.clone() };
        self.sightings.entry(id.to_owned()).or_default().push(sighting);
    }

    /// What existed when a file began, the oldest first: what it mentions and does not make, and
    /// what `always` names.
    pub(super) fn seeds(
        &self,
        directory: &Directory,
        file: usize,
        always: &BTreeSet<String>,
    ) -> Vec<Seed> {
        let recording = &directory.recordings[file];
        let setup: Vec<&Setup> =
            directory.setup.iter().filter(|setup| setup.file == recording.name).collect();
        let mut made = made_in(recording, &setup);
        made.extend(self.made_by_jobs(file, recording));
        let mut wanted = always.clone();
        wanted.extend(self.source_nat_addresses(always));
        wanted.extend(self.default_items());
        let lasting = directory.facts.lasting().filter(|id| self.is_older(id, file));
        wanted.extend(lasting.map(str::to_owned));
        if !recording.exchanges.iter().any(lists_items) {
            wanted.extend(self.left_items(directory, file));
        }
        for (at, exchange) in recording.exchanges.iter().enumerate() {
            let existed = |id: &String| made.get(id).is_none_or(|line| at + 1 < *line);
            wanted.extend(mentioned(exchange).into_iter().filter(existed));
        }
        wanted.extend(setup.iter().filter_map(|setup| {
            let at_first = setup.before_line == Some(1);
            setup.object.as_ref().filter(|_| at_first)?["id"].as_str().map(str::to_owned)
        }));
        let unchanged = unchanged_until(recording, &setup);
        let seed = |id: &String| self.seed((file, unchanged.get(id).copied()), id);
        let mut seeds: Vec<Seed> = wanted
            .iter()
            .filter_map(seed)
            .filter(|seed| !made_by_a_neighbour(recording, &setup, &made, seed))
            .collect();
        let tiers = seeds.iter().filter(|seed| seed.kind == Kind::Network);
        let lists = tiers.filter_map(|tier| tier.object["aclid"].as_str()).map(str::to_owned);
        let lists: BTreeSet<String> = lists.filter(|list| !wanted.contains(list)).collect();
        seeds.extend(lists.iter().filter_map(seed));
        seeds.sort_by_key(|seed| seed.age);
        seeds
    }

    /// Addresses that came with the networks and VPCs among some objects.
    fn source_nat_addresses(&self, of: &BTreeSet<String>) -> impl Iterator<Item = String> {
        let serves =
            |object: &Value, key: &str| object[key].as_str().is_some_and(|id| of.contains(id));
        self.sightings.iter().filter_map(move |(id, sightings)| {
            let first = sightings.first()?;
            let object = &first.object;
            let is_one = first.kind == Kind::Address
                && object["issourcenat"] == true
                && (serves(object, "associatednetworkid") || serves(object, "vpcid"));
            is_one.then(|| id.clone())
        })
    }

    /// ACL items that earlier files made and did not delete: the next number of a list depends on
    /// them.
    fn left_items(&self, directory: &Directory, file: usize) -> Vec<String> {
        const DELETE: &str = "deleteNetworkACL";
        let earlier: Vec<&Recording> = directory.recordings.iter().take(file).collect();
        let recorded = earlier.iter().flat_map(|recording| &recording.exchanges);
        let recorded = recorded.filter(|exchange| exchange.command.as_deref() == Some(DELETE));
        let recorded = recorded.filter_map(|exchange| exchange.params.get("id"));
        let unrecorded = directory.setup.iter().filter(|setup| {
            let is_earlier = earlier.iter().any(|recording| recording.name == setup.file);
            is_earlier && setup.args["command"] == DELETE
        });
        let unrecorded = unrecorded.map(|setup| &setup.args["params"]["id"]);
        let deleted: BTreeSet<String> = recorded.chain(unrecorded).map(plain).collect();
        let made = self.sightings.iter().filter(|(id, sightings)| {
            let first = sightings.first();
            !deleted.contains(*id)
                && first.is_some_and(|first| first.kind == Kind::AclItem && first.place.0 < file)
        });
        made.map(|(id, _)| id.clone()).collect()
    }

    /// Whether an address was in use before a file.
    fn is_older(&self, id: &str, file: usize) -> bool {
        let sightings = self.sightings.get(id).into_iter().flatten();
        let mut earlier = sightings.filter(|sighting| sighting.place.0 < file);
        earlier.any(|sighting| sighting.object["state"] != "Free")
    }

    /// Items of lists that belong to no VPC: nobody makes them.
    fn default_items(&self) -> impl Iterator<Item = String> {
        self.sightings.iter().filter_map(|(id, sightings)| {
            let first = sightings.first()?;
            let list = first.object["aclid"].as_str().and_then(|list| self.sightings.get(list))?;
            let is_one = first.kind == Kind::AclItem && list[0].object.get("vpcid").is_none();
            is_one.then(|| id.clone())
        })
    }

    /// The description of an object that is nearest to the beginning of a file: the first in it, if
    /// the file changes the object no earlier, else the last in the files before, else the first of
    /// all. `unchanged` is the last line of the file at which the object is as the file found it;
    /// none if the file does not change it.
    fn seed(&self, (file, unchanged): (usize, Option<usize>), id: &str) -> Option<Seed> {
        let sightings: Vec<&Sighting> = self.sightings.get(id)?.iter().collect();
        let is_first = |(seen, line): Place| {
            seen == file && unchanged.is_none_or(|unchanged| line <= unchanged)
        };
        let is_own = |sighting: &&&Sighting| is_first(sighting.place);
        let whole = |sighting: &&&Sighting| is_whole(sighting.kind, &sighting.object);
        let all = || sightings.iter().filter(whole);
        let before = || all().rfind(|sighting| sighting.place.0 < file);
        let first = all().next()?;
        let nearest = all().find(is_own).or_else(before).unwrap_or(first);
        let mut object = nearest.object.clone();
        if let Some(own) = sightings.iter().find(is_own) {
            overlay(&mut object, &own.object, SHOWN_WITHOUT_DETAILS);
        }
        let members = self.members.get(id).and_then(|seen| {
            let own = seen.iter().find(|(place, _)| is_first(*place));
            own.or_else(|| seen.iter().rfind(|(place, _)| place.0 < file))
        });
        Some(Seed {
            kind: nearest.kind,
            object,
            members: members.map(|(_, members)| members.clone()).unwrap_or_default(),
            age: self.age(nearest.kind, id),
        })
    }

    /// Where an object stands among those of its kind by age, as far as the order of the recording
    /// tells. Several first mentioned by one answer stand in the order of its list.
    fn age(&self, kind: Kind, id: &str) -> (Place, isize) {
        let (place, at) = self.first.get(id).copied().unwrap_or_default();
        let at = at.cast_signed();
        (place, if NEWEST_FIRST.contains(&kind) { -at } else { at })
    }

    /// Objects that came to light in a job's result: the job made them.
    fn made_by_jobs(&self, file: usize, recording: &Recording) -> Vec<(String, usize)> {
        let lines = recording.exchanges.iter().enumerate();
        lines
            .filter(|(_, exchange)| exchange.answer().get("jobresult").is_some())
            .flat_map(|(at, exchange)| mentioned(exchange).into_iter().map(move |id| (id, at + 1)))
            .filter(|(id, line)| {
                self.first.get(id).is_some_and(|(place, _)| *place == (file, *line))
            })
            .collect()
    }

    /// The ids of an account and its user, if an answer tells them.
    pub(super) fn account(&self, name: &str) -> Option<(&str, &str)> {
        self.accounts.get(name).map(|(id, user)| (id.as_str(), user.as_str()))
    }

    /// The first description of any object of a kind.
    pub(super) fn any(&self, kind: Kind) -> Option<&Value> {
        let all = self.sightings.values().flatten();
        let whole = all.filter(|seen| seen.kind == kind && is_whole(kind, &seen.object));
        let first = whole.min_by_key(|seen| seen.place);
        first.map(|sighting| &sighting.object)
    }
}

pub(super) fn kind_of(key: &str) -> Option<Kind> {
    KEYS.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind)
}

/// Whether a description has all that a world needs. A list of virtual machines may leave out
/// their details.
fn is_whole(kind: Kind, object: &Value) -> bool {
    match kind {
        Kind::VirtualMachine => {
            object.get("serviceofferingname").is_some() && object["nic"][0]["deviceid"] == "0"
        }
        Kind::Network => object.get("cidr").is_some(),
        Kind::Address => object.get("allocated").is_some() || object["state"] == "Free",
        Kind::AclItem
        | Kind::AclList
        | Kind::FirewallRule
        | Kind::Project
        | Kind::Rule
        | Kind::Vpc
        | Kind::Zone => true,
    }
}

/// Every id in a request and its answer.
fn mentioned(exchange: &Exchange) -> Vec<String> {
    let mut found = Vec::new();
    exchange.params.values().for_each(|value| collect_ids(value, &mut found));
    collect_ids(&exchange.body, &mut found);
    found
}

/// Every id in the texts of a value.
fn collect_ids(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(ids(text).map(str::to_owned)),
        Value::Array(values) => values.iter().for_each(|value| collect_ids(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| collect_ids(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Ids that a file makes, with the line of it.
fn made_in(recording: &Recording, setup: &[&Setup]) -> BTreeMap<String, usize> {
    let mut made = BTreeMap::new();
    for (at, exchange) in recording.exchanges.iter().enumerate() {
        let command = exchange.command.as_deref().unwrap_or_default();
        if MAKERS.iter().any(|maker| command.starts_with(maker)) {
            let answer = exchange.answer();
            let nested = answer.as_object().into_iter().flat_map(|answer| answer.values());
            for id in std::iter::once(answer).chain(nested).filter_map(|made| made.get("id")) {
                made.entry(id.as_str().unwrap_or_default().to_owned()).or_insert(at + 1);
            }
        }
    }
    for setup in setup {
        let id = setup.object.as_ref().and_then(|object| object["id"].as_str());
        if let (Some(id), Some(line)) = (id, setup.before_line.filter(|line| *line > 1)) {
            made.entry(id.to_owned()).or_insert(line);
        }
    }
    made
}

/// The last line at which objects are as a file found them. A request that is accepted changes them
/// with its answer at the earliest, and an act before its line.
fn unchanged_until(recording: &Recording, setup: &[&Setup]) -> BTreeMap<String, usize> {
    let mut changes: Vec<(String, usize)> = Vec::new();
    for (at, exchange) in recording.exchanges.iter().enumerate() {
        if let Some(command) = exchange.command.as_deref().filter(|_| exchange.status == 200) {
            let params = |name: &str| exchange.params.get(name);
            changes.extend(changed_by(command, params).into_iter().map(|id| (id, at + 1)));
        }
    }
    for setup in setup {
        let before = setup.before_line.unwrap_or_default().saturating_sub(1);
        let object = setup.object.as_ref().unwrap_or(&Value::Null);
        let named = changed_by("", |name| setup.args.get(name));
        changes.extend(named.into_iter().map(|id| (id, before)));
        for call in [&setup.args, object, &object["made_by"]] {
            let command = call["command"].as_str().unwrap_or_default();
            let params = |name: &str| call["params"].get(name);
            changes.extend(changed_by(command, params).into_iter().map(|id| (id, before)));
        }
    }
    let mut unchanged = BTreeMap::new();
    for (id, line) in changes {
        let first = unchanged.entry(id).or_insert(line);
        *first = line.min(*first);
    }
    unchanged
}

/// What a command changes among the objects that its parameters name.
fn changed_by<'a>(command: &str, param: impl Fn(&str) -> Option<&'a Value>) -> Vec<String> {
    let mut changed = Vec::new();
    let table = CHANGED.iter().filter(|(part, _)| command.contains(part));
    for (_, name) in table.filter(|_| !READERS.iter().any(|reader| command.starts_with(reader))) {
        collect_ids(param(name).unwrap_or(&Value::Null), &mut changed);
    }
    changed
}

/// Whether an exchange shows all items of an ACL list.
fn lists_items(exchange: &Exchange) -> bool {
    exchange.command.as_deref() == Some("listNetworkACLs")
        && ["aclid", "networkid"].iter().any(|param| exchange.params.contains_key(*param))
        && !exchange.params.contains_key("id")
}

/// Takes some fields from another description of the same object.
fn overlay(object: &mut Value, other: &Value, keys: &[&str]) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    for key in keys {
        match other.get(key) {
            Some(value) => fields.insert((*key).to_owned(), value.clone()),
            None => fields.remove(*key),
        };
    }
}

/// Whether a rule came with something that the file makes: with its address, as the automatic
/// firewall rule of a load-balancer rule, or from a create that was refused for its job id.
fn made_by_a_neighbour(
    recording: &Recording,
    setup: &[&Setup],
    made: &BTreeMap<String, usize>,
    seed: &Seed,
) -> bool {
    let text = |key: &str| seed.object.get(key).map(plain).unwrap_or_default();
    let creates = |address: &str, port: &str| {
        rule_creations(recording, setup).find(|params| {
            params.get("publicipid").map(String::as_str) == Some(address)
                && params.get("publicport").map(String::as_str) == Some(port)
        })
    };
    match seed.kind {
        Kind::Rule => {
            let creation = creates(&text("publicipid"), &text("publicport"));
            made.contains_key(&text("publicipid"))
                || creation.is_some_and(|params| params.contains_key("customjobid"))
        }
        Kind::FirewallRule => {
            let creation = creates(&text("ipaddressid"), &text("startport"));
            made.contains_key(&text("ipaddressid"))
                || creation.is_some_and(|params| {
                    params.get("openfirewall").map(String::as_str) != Some("false")
                })
        }
        Kind::AclItem
        | Kind::AclList
        | Kind::Address
        | Kind::Network
        | Kind::Project
        | Kind::VirtualMachine
        | Kind::Vpc
        | Kind::Zone => false,
    }
}

/// The parameters of every creation of a load-balancer rule, recorded or not.
fn rule_creations<'a>(
    recording: &'a Recording,
    setup: &'a [&Setup],
) -> impl Iterator<Item = BTreeMap<&'a str, String>> {
    const CREATE: &str = "createLoadBalancerRule";
    let recorded = recording.exchanges.iter();
    let recorded =
        recorded.filter(|exchange| exchange.command.as_deref() == Some(CREATE)).map(|exchange| {
            exchange.params.iter().map(|(name, value)| (name.as_str(), plain(value))).collect()
        });
    let made_by = setup.iter().filter_map(|setup| setup.object.as_ref()?.get("made_by"));
    let made_by = made_by.filter(|made_by| made_by["command"] == CREATE).map(|made_by| {
        let params = made_by["params"].as_object().into_iter().flatten();
        params.map(|(name, value)| (name.as_str(), plain(value))).collect()
    });
    recorded.chain(made_by)
}
