//! Whose an address is after everything that can happen to its Service: one table, in
//! `fixtures/plans/addresses/table.snap`.

use std::fmt::Write as _;

use ccm_core::ids::ServiceKey;
use ccm_core::parse::raw::RawService;
use ccm_core::plan::report::Note;
use ccm_tests::lab::{Lab, Setup, annotation, port, uid_of, web};
use serde_json::Value;

use crate::story::{CLIENT, FIRST, compare};

const FREE: &str = "203.0.113.30";
/// Free too.
const OTHER: &str = "203.0.113.31";
/// Allocated by a person.
const USERS: &str = "203.0.113.50";
/// Of another account.
const FOREIGN: &str = "203.0.113.53";

/// How the Service came to its address.
struct Origin {
    title: &'static str,
    /// What it asks for.
    ask: fn(&mut RawService),
    /// What it asks for once it is served.
    then: fn(&mut RawService),
    /// Another Service that has the address already.
    beside: Option<fn(&mut RawService)>,
}

const NOTHING: fn(&mut RawService) = |_| ();

const ORIGINS: [Origin; 7] = [
    Origin { title: "it asks for no address", ask: NOTHING, then: NOTHING, beside: None },
    Origin { title: "it asks for a free address", ask: ask_free, then: NOTHING, beside: None },
    Origin {
        title: "it asks for the address that it has",
        ask: NOTHING,
        then: |raw| raw.load_balancer_ip = Some(FIRST.to_owned()),
        beside: None,
    },
    Origin {
        title: "it shares the address of another Service",
        ask: ask_free,
        then: NOTHING,
        beside: Some(|raw| {
            ask_free(raw);
            raw.ports = vec![port("https", "TCP", 443, 30443)];
        }),
    },
    Origin {
        title: "it asks for an address that a person allocated",
        ask: |raw| raw.load_balancer_ip = Some(USERS.to_owned()),
        then: NOTHING,
        beside: None,
    },
    Origin {
        title: "it asks for an address of another account",
        ask: |raw| raw.load_balancer_ip = Some(FOREIGN.to_owned()),
        then: NOTHING,
        beside: None,
    },
    Origin {
        title: "it keeps its address",
        ask: |raw| _ = raw.annotations.insert(annotation("keep-ip"), "true".to_owned()),
        then: NOTHING,
        beside: None,
    },
];

fn ask_free(raw: &mut RawService) {
    raw.load_balancer_ip = Some(FREE.to_owned());
}

/// What happens to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Created,
    Deleted,
    FieldCleared,
    FieldChanged,
    TypeChanged,
    Recreated,
    ReplacedByForce,
}

const TURNS: [(&str, Turn); 7] = [
    ("created", Turn::Created),
    ("deleted", Turn::Deleted),
    ("field cleared", Turn::FieldCleared),
    ("another address asked for", Turn::FieldChanged),
    ("type changed to ClusterIP", Turn::TypeChanged),
    ("deleted and created again", Turn::Recreated),
    ("removed by force and created again while the controller is down", Turn::ReplacedByForce),
];

/// A Service on its address, before or after its turn.
struct Scene {
    lab: Lab,
    key: ServiceKey,
    keys: Vec<ServiceKey>,
    ask: fn(&mut RawService),
    /// How many calls were made before the turn.
    before: usize,
}

impl Scene {
    fn set(setup: Setup, origin: &Origin) -> Self {
        let mut lab = setup.start();
        let mut keys = Vec::new();
        if let Some(edit) = origin.beside {
            let other = lab.create("other", edit);
            lab.settle(&other);
            keys.push(other);
        }
        let before = lab.changing_calls().len();
        let key = lab.create("web", origin.ask);
        keys.push(key.clone());
        Self { lab, key, keys, ask: origin.ask, before }
    }

    fn settle(&mut self) {
        for key in self.keys.clone() {
            self.lab.recover(&key);
        }
    }

    fn happen(&mut self, turn: Turn) {
        let (lab, key) = (&mut self.lab, &self.key);
        match turn {
            Turn::Created => {}
            Turn::Deleted => lab.delete(key),
            Turn::FieldCleared => lab.edit(key, |raw| raw.load_balancer_ip = None),
            Turn::FieldChanged => {
                lab.edit(key, |raw| raw.load_balancer_ip = Some(OTHER.to_owned()));
            }
            Turn::TypeChanged => {
                lab.edit(key, |raw| raw.service_type = Some("ClusterIP".to_owned()));
            }
            Turn::Recreated => {
                lab.delete(key);
                lab.recover(key);
                self.create_again();
            }
            Turn::ReplacedByForce => {
                lab.edit(key, |raw| raw.finalizers.clear());
                lab.delete(key);
                self.create_again();
            }
        }
    }

    fn create_again(&self) {
        self.lab.create("web", |raw| {
            (self.ask)(raw);
            raw.uid = Some(uid_of("web again"));
        });
    }

    /// The commands that change CloudStack, in the order in which they were sent.
    fn calls(&self) -> String {
        let calls = self.lab.changing_calls();
        let calls = calls.get(self.before..).unwrap_or_default();
        if calls.is_empty() { "none".to_owned() } else { calls.join(", ") }
    }

    /// What the Service says of itself.
    fn service(&self) -> String {
        let Some(raw) = self.lab.service(&self.key) else { return "gone".to_owned() };
        let served: Vec<String> = raw.ingress.into_iter().filter_map(|entry| entry.ip).collect();
        match served.first() {
            Some(address) => format!("served on {address}"),
            None if self.lab.plan(&self.key).0.report.is_blocked() => {
                let notes = self.lab.plan(&self.key).0.report.notes;
                let codes: Vec<&str> = notes.iter().map(Note::code).collect();
                format!("refused: {}", codes.join(", "))
            }
            None => "not served".to_owned(),
        }
    }

    /// The addresses that the account has beyond what it had at first, and the one asked for.
    fn addresses(&self) -> String {
        let objects = self.lab.objects();
        let at_first = Setup::standard().start().objects().addresses();
        let mut asked = web("web");
        (self.ask)(&mut asked);
        let shown = |address: &String| {
            asked.load_balancer_ip.as_ref() == Some(address) || !at_first.contains(address)
        };
        let owners = objects.addresses().into_iter().filter(shown).map(|address| {
            let owner = self.owner(&objects.address(&address).id());
            format!("{address} {owner}")
        });
        let owners: Vec<String> = owners.collect();
        if owners.is_empty() { "none".to_owned() } else { owners.join("; ") }
    }

    /// Whose an address is, as records say.
    fn owner(&self, id: &str) -> String {
        let entries = self.keys.iter().filter_map(|key| {
            let raw = self.lab.service(key)?;
            let record: Value =
                serde_json::from_str(raw.annotations.get(&annotation("record"))?).expect("JSON");
            let entries = record["addresses"].as_array().expect("a list").clone();
            let entry = entries.into_iter().find(|entry| entry["id"] == id)?;
            let whose = if entry["ours"] == true { "ours" } else { "the user's" };
            Some(format!("{whose}, by {}", key.name))
        });
        let entries: Vec<String> = entries.collect();
        if entries.is_empty() {
            "allocated, recorded by nobody".to_owned()
        } else {
            entries.join(" and ")
        }
    }

    /// A Service that says where it is served is served there, and nowhere else.
    fn check_traffic(&self) {
        let raw = self.lab.service(&self.key);
        let served = raw.and_then(|raw| raw.ingress.into_iter().find_map(|entry| entry.ip));
        for address in [FIRST, FREE, OTHER, USERS] {
            let answers = !self.lab.reach(CLIENT, address, 80).is_empty();
            assert_eq!(answers, served.as_deref() == Some(address), "{address}");
        }
        if self.keys.len() > 1 {
            assert!(!self.lab.reach(CLIENT, FREE, 443).is_empty(), "the other Service goes on");
        }
    }
}

/// A row of the table. The controller watched, or was down meanwhile: that makes no difference.
fn row(setup: &impl Fn() -> Setup, origin: &Origin, (title, turn): (&str, Turn)) -> String {
    let rows = [false, true].map(|was_down| {
        let mut scene = Scene::set(setup(), origin);
        if turn != Turn::Created {
            scene.settle();
            if scene.lab.service(&scene.key).is_some() {
                scene.lab.edit(&scene.key, origin.then);
                scene.settle();
            }
            scene.before = scene.lab.changing_calls().len();
            scene.happen(turn);
        }
        if was_down {
            scene.lab.restart();
        }
        scene.settle();
        // By force, the rules of the one that was removed go on serving.
        if turn != Turn::ReplacedByForce {
            scene.check_traffic();
        }
        let (calls, service, addresses) = (scene.calls(), scene.service(), scene.addresses());
        format!("| {title} | {calls} | {service} | {addresses} |\n")
    });
    let [watched, down] = rows;
    assert_eq!(watched, down, "{}: the controller was down meanwhile", origin.title);
    watched
}

fn table(setup: impl Fn() -> Setup) -> String {
    let mut text = String::new();
    for origin in &ORIGINS {
        let title = origin.title;
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "## {title}\n\n| The Service is | Calls | Then | Addresses |\n|---|---|---|---|\n"
        );
        for turn in TURNS {
            text.push_str(&row(&setup, origin, turn));
        }
        text.push('\n');
    }
    text
}

#[test]
fn whose_an_address_is_after_all_that_can_happen() {
    let direct = table(Setup::standard);
    assert_eq!(table(|| Setup::standard().over_http()), direct, "through HTTP, and without");
    compare("addresses/table", &direct, None);
}
