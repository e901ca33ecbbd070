//! Tells a history to the laboratory and watches.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use ccm_core::cidr::CidrSet;
use ccm_core::exec::execution::StepError;
use ccm_core::ids::{ServiceKey, ServiceUid};
use ccm_core::model::Learned;
use ccm_core::model::rule_name::load_balancer_name;
use ccm_core::parse::raw::RawService;
use ccm_core::plan::planner::Depth;
use ccm_core::plan::report::{Note, Severity};
use ccm_simulator::world::VpcServices;
use ccm_tests::interrupted::{Interrupted, Interruption};
use ccm_tests::lab::{Lab, Setup, annotation, block_on};
use ccm_tests::oracle::{self, Exposure, Inventory, text};
use ccm_tests::wish::Wish;
use cloudstack_ccm::driver::{self, SharedLanes, Silent};

use crate::history::{Event, Hand, History, Legacy, Place};
use crate::leavings::Leavings;
use crate::legacy;

const SERVICES: [&str; 2] = ["web", "api"];
/// The name that somebody gives a rule.
const BY_HAND: &str = "by-hand";
/// Rounds of all Services within which everything converges once nothing interferes.
const ROUNDS: usize = 40;

pub(crate) fn tell(history: &History) {
    let mut story = Story::new(history);
    for (event, interruption) in &history.events {
        story.happen(event);
        story.run_all(*interruption);
    }
    story.converge();
    story.check_promises();
    story.delete_all();
    story.check_leftovers();
}

/// Tells a history up to an event, of which the controller has not heard yet.
pub(crate) fn follow(history: &History, last: usize) -> Lab {
    let mut story = Story::new(history);
    for (number, (event, interruption)) in history.events.iter().take(last + 1).enumerate() {
        story.happen(event);
        if number < last {
            story.run_all(*interruption);
        }
    }
    story.lab
}

/// A VPC has no firewall before 4.23.
fn possible(place: Place, release: &'static str) -> &'static str {
    match place {
        Place::TierWithFirewall => "4.23.0.0",
        Place::Isolated
        | Place::TierWithList
        | Place::TierAllow
        | Place::TierDeny
        | Place::TierWithoutList
        | Place::PlainProject
        | Place::RestrictedProject => release,
    }
}

/// Whether the record of a Service speaks of a rule.
fn records(raw: &RawService, rule: &serde_json::Value) -> bool {
    let record = raw.annotations.get(&annotation("record"));
    let entry = text(rule, "id").get(..8).map(|short| format!("\"{short}:"));
    record.zip(entry).is_some_and(|(record, entry)| record.contains(&entry))
}

/// Whether the model of traffic asks the ACL of the tier.
fn acl_gates(place: Place) -> bool {
    matches!(place, Place::TierWithList | Place::TierAllow | Place::TierWithoutList)
}

fn public_port(rule: &serde_json::Value) -> u16 {
    text(rule, "publicport").parse().expect("a port")
}

fn wants_us(raw: &RawService) -> bool {
    raw.service_type.as_deref() == Some("LoadBalancer") && raw.load_balancer_class.is_none()
}

struct Story {
    lab: Lab,
    release: &'static str,
    place: Place,
    nodes: Vec<&'static str>,
    account: &'static str,
    foreign: Inventory,
    before: Inventory,
    leavings: RefCell<Leavings>,
}

impl Story {
    fn new(history: &History) -> Self {
        let release = possible(history.place, history.release);
        let setup = Setup::standard().release(release);
        let (setup, nodes, account) = match history.place {
            Place::Isolated => (setup, vec!["node-1", "node-2"], "prod"),
            Place::TierWithList => (setup, vec!["tier1-1", "tier1-2"], "prod"),
            Place::TierAllow => (setup, vec!["allow-1"], "prod"),
            Place::TierDeny => (setup, vec!["deny-1"], "prod"),
            Place::TierWithoutList => (setup, vec!["none-1"], "prod"),
            Place::TierWithFirewall => {
                let mut setup = setup;
                setup.world.vpcs[0].services = VpcServices::WithFirewall;
                (setup, vec!["tier1-1", "tier1-2"], "prod")
            }
            Place::PlainProject => {
                (setup.project("member", "web"), vec!["web-1", "web-2"], "member")
            }
            Place::RestrictedProject => {
                (setup.project("kubeadmin-web", "web"), vec!["web-1", "web-2"], "member")
            }
        };
        let lab = setup.nodes(&nodes).start();
        let place = history.place;
        lab.simulator.with(|simulator| simulator.set_acl_gates_traffic(acl_gates(place)));
        // What was there before was not allocated when any Service's address was.
        lab.runtime.pass(3600);
        let before = Inventory::take(&lab, account);
        let (foreign, leavings) = (before.clone(), RefCell::default());
        Self { lab, release, place, nodes, account, foreign, before, leavings }
    }

    fn key(number: usize) -> ServiceKey {
        ServiceKey::new("shop", SERVICES[number % SERVICES.len()])
    }

    fn number(key: &ServiceKey) -> usize {
        SERVICES.iter().position(|name| *name == key.name).expect("known")
    }

    fn keys(&self) -> Vec<ServiceKey> {
        let keys = (0..SERVICES.len()).map(Self::key);
        keys.filter(|key| self.lab.service(key).is_some()).collect()
    }

    fn has_firewall(&self) -> bool {
        match self.place {
            Place::Isolated
            | Place::TierWithFirewall
            | Place::PlainProject
            | Place::RestrictedProject => true,
            Place::TierWithList | Place::TierAllow | Place::TierDeny | Place::TierWithoutList => {
                false
            }
        }
    }

    fn happen(&mut self, event: &Event) {
        let exists = |number: usize| self.lab.service(&Self::key(number)).is_some();
        match event {
            Event::Create(number, wish) => {
                if !exists(*number) {
                    self.lab.runtime.pass(7);
                    let name = SERVICES[*number % SERVICES.len()];
                    self.lab.create(name, |raw| wish.write_on(raw));
                }
            }
            Event::Adopt(number, wish, legacy) if !exists(*number) => {
                self.adopt(*number, &legacy::served(wish, self.release), *legacy);
            }
            Event::Change(number, wish) if exists(*number) => {
                self.lab.edit(&Self::key(*number), |raw| wish.write_on(raw));
            }
            Event::Delete(number) if exists(*number) => self.lab.delete(&Self::key(*number)),
            Event::ChangeType(number) if exists(*number) => {
                let key = Self::key(*number);
                self.lab
                    .cluster
                    .with(|cluster| cluster.set_type(&key, "ClusterIP"))
                    .expect("a type");
            }
            Event::ChangeClass(number) if self.is_known(*number) => {
                self.lab.edit(&Self::key(*number), |raw| {
                    raw.load_balancer_class = Some("example.test/other".to_owned());
                    raw.ingress.clear();
                });
            }
            Event::NodeLeaves(number) => {
                let name = self.nodes[*number % self.nodes.len()];
                self.lab.cluster.with(|cluster| cluster.remove_node(name));
            }
            Event::NodeJoins(number) => {
                let name = self.nodes[*number % self.nodes.len()];
                self.lab.add_node(name);
            }
            Event::NodeExcluded(number) => self.exclude(*number),
            Event::Strip(number) if exists(*number) => {
                // What proves an address before its first rule is the record alone.
                self.converge();
                let key = Self::key(*number);
                let gone = self.lab.service(&key).is_none() || self.rules_of_key(&key).is_empty();
                if gone || self.has_nameless(*number) || self.lab.plan(&key).0.report.is_blocked() {
                    // What a refused Service left open on a user's address is not what it asks
                    // for: without its record nothing proves that it is ours.
                    return;
                }
                self.lab.edit(&key, |raw| {
                    for key in ["record", "ip-associated-by-controller"] {
                        raw.annotations.remove(&annotation(key));
                    }
                });
                self.leavings.get_mut().look_at_stripped(&self.lab);
                self.converge();
            }
            Event::ByHand(number, hand) => self.by_hand(*number, *hand),
            Event::ForeignRule(number) => self.add_foreign_rule(*number),
            Event::Restart => self.lab.learned = Learned::default(),
            Event::Adopt(_, _, _)
            | Event::Change(_, _)
            | Event::Delete(_)
            | Event::ChangeType(_)
            | Event::ChangeClass(_)
            | Event::Strip(_) => {}
        }
    }

    /// Whether a Service is there that we have heard of: until then what the Go controller left
    /// is another class's to care for.
    fn is_known(&self, number: usize) -> bool {
        let raw = self.lab.service(&Self::key(number));
        raw.is_some_and(|raw| {
            let ours = ["record", "ip-intent"].map(annotation);
            ours.iter().any(|key| raw.annotations.contains_key(key)) || raw.finalizers.is_empty()
        })
    }

    fn adopt(&mut self, number: usize, wish: &Wish, legacy: Legacy) {
        let name = SERVICES[number % SERVICES.len()];
        let key = self.lab.create(name, |raw| wish.write_on(raw));
        let site = (self.place, self.account);
        let address = legacy::lay_down(&self.lab, site, &key, wish, legacy);
        self.leavings.get_mut().add_address(address, legacy.verdict);
    }

    fn exclude(&self, number: usize) {
        let name = self.nodes[number % self.nodes.len()];
        let node = self
            .lab
            .cluster
            .with(|cluster| cluster.nodes().find(|node| node.name == name).cloned());
        if let Some(mut node) = node {
            let label = "node.kubernetes.io/exclude-from-external-load-balancers".to_owned();
            node.labels.insert(label, "true".to_owned());
            self.lab.cluster.with(|cluster| cluster.set_node(node));
        }
    }

    /// The rules in CloudStack that are a Service's: they bear its name or its uid, or it records
    /// them.
    fn rules_of(&self, number: usize) -> Vec<serde_json::Value> {
        let Some(raw) = self.lab.service(&Self::key(number)) else { return Vec::new() };
        let uid = ServiceUid::parse(raw.uid.as_deref().expect("a uid")).expect("a uid");
        let prefix = load_balancer_name(&uid);
        let mut rules = oracle::list(&self.lab, self.account, "listLoadBalancerRules", &[]);
        rules.retain(|rule| {
            text(rule, "name").starts_with(&prefix)
                || text(rule, "description").contains(uid.as_str())
                || records(&raw, rule)
        });
        rules
    }

    /// Whether nothing but the record proves a rule of a Service.
    fn has_nameless(&self, number: usize) -> bool {
        let mut rules = self.rules_of(number).into_iter();
        rules.any(|rule| text(&rule, "name") == BY_HAND && text(&rule, "description").is_empty())
    }

    fn by_hand(&self, number: usize, hand: Hand) {
        let rules = self.rules_of(number);
        let Some(rule) = rules.first() else { return };
        let raw = self.lab.service(&Self::key(number)).expect("it has rules");
        // Before its adoption is recorded nothing but its name proves whose a rule is.
        let is_unproven = text(rule, "description").is_empty() && !records(&raw, rule);
        let id = text(rule, "id");
        let run = |command, params: &[(&str, &str)]| {
            self.lab.by_hand_as(self.account, command, params);
        };
        match hand {
            Hand::DeleteRule => {
                if is_unproven {
                    self.leavings.borrow_mut().look_at_unrecorded(&self.lab, self.account, rule);
                }
                run("deleteLoadBalancerRule", &[("id", id)]);
            }
            Hand::RemoveMember => {
                let command = "listLoadBalancerRuleInstances";
                let members = oracle::list(&self.lab, self.account, command, &[("id", id)]);
                if let Some(member) = members.first() {
                    let vm = text(member, "id");
                    run("removeFromLoadBalancerRule", &[("id", id), ("virtualmachineids", vm)]);
                }
            }
            Hand::ChangeAlgorithm => run(
                "updateLoadBalancerRule",
                &[("id", id), ("algorithm", "leastconn"), ("protocol", text(rule, "protocol"))],
            ),
            Hand::Rename if is_unproven => {}
            Hand::Rename => run(
                "updateLoadBalancerRule",
                &[("id", id), ("name", BY_HAND), ("protocol", text(rule, "protocol"))],
            ),
            Hand::CloseFirewall => {
                let on = [("ipaddressid", text(rule, "publicipid"))];
                let found = oracle::list(&self.lab, self.account, "listFirewallRules", &on);
                if let Some(opening) = found.first() {
                    run("deleteFirewallRule", &[("id", text(opening, "id"))]);
                }
            }
        }
    }

    fn add_foreign_rule(&mut self, number: usize) {
        let rules = self.rules_of(number);
        let Some(rule) = rules.first() else { return };
        let taken = oracle::list(&self.lab, self.account, "listLoadBalancerRules", &[]);
        let address = text(rule, "publicipid");
        if taken.iter().any(|other| {
            text(other, "publicipid") == address && text(other, "publicport") == "9999"
        }) {
            return;
        }
        let before = Inventory::take(&self.lab, self.account);
        let beside = oracle::rule_beside(rule);
        self.lab.by_hand_as(self.account, "createLoadBalancerRule", &beside);
        let made = Inventory::take(&self.lab, self.account).without(&before);
        self.foreign = self.foreign.clone().with(made);
    }

    /// Plans and executes every Service once.
    fn run_all(&mut self, interruption: Interruption) -> bool {
        let mut quiet = true;
        for key in self.keys() {
            quiet &= self.run(&key, interruption, Depth::Quick);
        }
        quiet
    }

    /// Gives whether there was nothing to do and nothing to wait for.
    fn run(&mut self, key: &ServiceKey, interruption: Interruption, depth: Depth) -> bool {
        let world = self.lab.read_at(depth);
        let (planned, _) = self.lab.plan_in(&world, key);
        let waits = planned.report.notes.iter().any(|note| note.severity() == Severity::Waiting);
        if planned.plan.is_empty() {
            return !waits;
        }
        let wanted = self.wanted(key);
        let mut old = oracle::exposure(&self.lab, self.account);
        self.add_wishes_of_others(key, &mut old);
        let told = planned.report.notes.iter().filter_map(|note| match note {
            Note::AclItemKept { item, by: _ } => Some(item.to_string()),
            _ => None,
        });
        let told: BTreeSet<String> = told.collect();
        let failures = RefCell::new(Vec::new());
        let watch = |command: &str| {
            let now: Exposure = oracle::exposure(&self.lab, self.account);
            let mut found = oracle::too_wide(&now, &old, &wanted);
            found.extend(self.foreign.lost(&Inventory::take(&self.lab, self.account)));
            found.extend(self.leavings.borrow_mut().look(&self.lab, self.account, &told));
            let found = found.into_iter().map(|what| format!("after {command}: {what}"));
            failures.borrow_mut().extend(found);
        };
        let wire = Interrupted::new(&self.lab.client, &self.lab.cluster, interruption, &watch);
        let lanes = SharedLanes::default();
        let outcome = block_on(driver::execute(&wire, &wire, &planned.plan, &lanes, &Silent))
            .expect("nothing else runs");
        let failures = failures.into_inner();
        assert!(failures.is_empty(), "{}\n{:#?}", failures.join("\n"), planned.plan);
        // Another Service that leaves the address too may not be through yet.
        let expected = |error: &StepError| matches!(error, StepError::AddressInUse(_));
        if interruption == Interruption::Never {
            let fine = outcome.is_success() || outcome.failed.values().all(expected);
            assert!(fine, "{outcome:#?}\n{:#?}", planned.plan);
        }
        if !matches!(interruption, Interruption::KilledBefore(_)) {
            let now = self.lab.now();
            self.lab.learned.absorb(outcome.lessons, now);
        }
        false
    }

    /// An ACL item holds for its whole tier: one that a Service needs also opens the rules of others
    /// to what these others ask for.
    fn add_wishes_of_others(&self, key: &ServiceKey, open: &mut Exposure) {
        if !acl_gates(self.place) {
            return;
        }
        for other in self.keys().into_iter().filter(|other| other != key) {
            let wanted = self.wanted(&other);
            for rule in self.rules_of(Self::number(&other)) {
                let port = public_port(&rule);
                if let Some(sources) = wanted.get(&port) {
                    let before =
                        open.entry((text(&rule, "publicip").to_owned(), port)).or_default();
                    *before = before.plus(sources);
                }
            }
        }
    }

    /// Who may come in to which port of a Service that is ours to serve.
    fn wanted(&self, key: &ServiceKey) -> BTreeMap<u16, CidrSet> {
        let raw = self.lab.service(key).filter(|raw| wants_us(raw) && !raw.deleting);
        raw.map(|raw| oracle::promised(&raw, self.has_firewall())).unwrap_or_default()
    }

    /// Runs until nothing is left to do, an uneventful drift round included.
    fn converge(&mut self) {
        let mut pause = 60;
        for _ in 0..ROUNDS {
            let quiet = self.run_all(Interruption::Never);
            let thorough = quiet
                && self
                    .keys()
                    .iter()
                    .all(|key| self.run(key, Interruption::Never, Depth::Thorough));
            if thorough {
                return;
            }
            self.lab.runtime.pass(pause);
            pause = (pause * 3 / 2).min(3600);
        }
        for key in self.keys() {
            let (planned, _) = self.lab.plan(&key);
            let waits: Vec<&Note> = planned.report.notes.iter().collect();
            assert!(planned.plan.is_empty(), "{key} does not converge: {planned:#?}");
            println!("{key} waits: {waits:?}");
        }
    }

    /// What the documentation promises is what traffic finds.
    fn check_promises(&mut self) {
        for key in self.keys() {
            let raw = self.lab.service(&key).expect("it exists");
            let (planned, _) = self.lab.plan(&key);
            let hindered = planned.report.notes.iter().any(|note| {
                let waits = matches!(note.severity(), Severity::Blocked | Severity::Waiting);
                (waits && note.code() != "UdpNotServed") || note.code() == "NoEligibleNodes"
            });
            if hindered || !wants_us(&raw) {
                continue;
            }
            assert_eq!(raw.ingress.len(), 1, "{key} is not published: {raw:#?}");
            let wanted = oracle::promised(&raw, self.has_firewall());
            let open = oracle::exposure(&self.lab, self.account);
            let numbers: Vec<u16> = self.rules_of_key(&key);
            for (number, sources) in wanted {
                assert!(numbers.contains(&number), "{key} has no rule for {number}");
                let found = open.iter().any(|((_, found), open)| {
                    *found == number && open.covers_all(&sources) && sources.covers_all(open)
                });
                assert!(found, "{key}:{number} should be open to {sources}: {open:?}");
            }
        }
    }

    fn rules_of_key(&self, key: &ServiceKey) -> Vec<u16> {
        self.rules_of(Self::number(key)).iter().map(public_port).collect()
    }

    fn delete_all(&mut self) {
        for key in self.keys() {
            self.lab.delete(&key);
        }
        self.converge();
        assert!(self.keys().is_empty(), "not gone: {:?}", self.keys());
    }

    /// Everything that was there is there; of what was made only what others need stays.
    fn check_leftovers(&self) {
        let after = Inventory::take(&self.lab, self.account);
        let lost = self.before.lost(&after);
        assert!(lost.is_empty(), "{}", lost.join("\n"));
        let left = after.without(&self.before).without(&self.foreign);
        let held: Vec<&str> =
            self.foreign.objects("rule").map(|rule| text(rule, "publicipid")).collect();
        let needless = ["address", "rule", "firewall", "acl"].into_iter().flat_map(|kind| {
            left.objects(kind).filter(|object| {
                let id = text(object, "id");
                !held.contains(&id) && !self.leavings.borrow().may_stay(id)
            })
        });
        let needless: Vec<String> = needless.map(ToString::to_string).collect();
        assert!(needless.is_empty(), "left over: {}", needless.join("\n"));
    }
}
