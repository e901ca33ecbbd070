//! A story: what happens to Services one change after the other, with the plans that it takes.

use std::collections::BTreeSet;

use ccm_core::event::sync::Cause;
use ccm_core::ids::ServiceKey;
use ccm_core::model::service::Lifecycle;
use ccm_core::plan::action::Kind;
use ccm_core::plan::planner::Depth;
use ccm_core::plan::{Planned, Step};
use ccm_core::render::human::{self, Colour};
use ccm_simulator::LoggedCall;
use ccm_tests::lab::{Lab, Setup, fixture};
use serde::Serialize;
use serde_json::Value;

use crate::told::{Told, lifecycle, lines, objects};

/// A client inside 198.51.100.0/24.
pub(crate) const CLIENT: &str = "198.51.100.7";
/// A client elsewhere.
pub(crate) const STRANGER: &str = "192.0.2.99";
/// Columns of the JSON in snapshots.
const WIDTH: usize = 120;
/// The first address that is free in the standard world.
pub(crate) const FIRST: &str = "203.0.113.10";

/// Tells a story directly and through HTTP, and compares its plans with `fixtures/plans/<case>.snap`,
/// as people read them, and `<case>.json.snap`, as programs do.
pub(crate) fn golden(case: &str, setup: impl Fn() -> Setup, tell: impl Fn(&mut Story)) {
    let mut direct = Story::begin(setup());
    tell(&mut direct);
    let mut through_http = Story::begin(setup().over_http());
    tell(&mut through_http);
    assert_eq!(through_http.calls(), direct.calls(), "calls through HTTP, and without");
    compare(case, &direct.text, Some(&direct.json));
}

/// See the module.
pub(crate) struct Story {
    pub(crate) lab: Lab,
    told: Told,
    text: String,
    json: String,
}

impl Story {
    fn begin(setup: Setup) -> Self {
        let (text, json) = Default::default();
        Self { lab: setup.start(), told: Told::default(), text, json }
    }

    /// Carries out whatever is to be done, without writing it down.
    pub(crate) fn settle(&mut self, key: &ServiceKey) {
        self.lab.settle(key);
        let (planned, _) = self.lab.plan(key);
        drop(self.told.of(&planned, Lifecycle::Wanted, Cause::Wanted, self.lab.now()));
    }

    /// Writes down the plan of a Service.
    pub(crate) fn show(&mut self, title: &str, key: &ServiceKey) {
        drop(self.put_down(title, key, Cause::Wanted));
    }

    fn put_down(&mut self, title: &str, key: &ServiceKey, cause: Cause) -> Planned {
        let (planned, document) = self.lab.plan(key);
        let lifecycle = lifecycle(&self.lab.cluster, &self.lab.policy, key);
        let events = self.told.of(&planned, lifecycle, cause, self.lab.now());
        let plan = human::print(&document, Colour::Never);
        for part in ["## ", title, "\n\n", &plan, "\n", &lines(&events), "\n"] {
            self.text.push_str(part);
        }
        let (plan, events) = (compact(&document), compact(&objects(&events)));
        for part in ["## ", title, "\n\n", &plan, "\n\nevents\n", &events, "\n\n"] {
            self.json.push_str(part);
        }
        planned
    }

    /// Writes down the plan, carries it out, and checks that a second one is empty.
    pub(crate) fn change(&mut self, title: &str, key: &ServiceKey) {
        self.carry_out(title, key, Cause::Wanted);
    }

    /// As [`Story::change`], for what somebody changed in CloudStack.
    pub(crate) fn repair(&mut self, title: &str, key: &ServiceKey) {
        self.carry_out(title, key, Cause::Drift);
    }

    fn carry_out(&mut self, title: &str, key: &ServiceKey, cause: Cause) {
        let planned = self.put_down(title, key, cause);
        assert!(!planned.plan.is_empty(), "{title}: nothing is planned");
        let before = self.lab.changing_calls().len();
        let outcome = self.lab.execute(&planned);
        assert!(outcome.is_success(), "{title}: {outcome:#?}");
        let made = self.lab.changing_calls().len() - before;
        let is_change = |step: &&Step| step.action.kind() == Kind::Change;
        assert_eq!(made, planned.plan.steps.iter().filter(is_change).count(), "calls of {title}");
        self.expect_settled(title, key);
    }

    fn expect_settled(&self, title: &str, key: &ServiceKey) {
        if self.lab.service(key).is_some() {
            let world = self.lab.read_at(Depth::Thorough);
            let again = self.lab.plan_in(&world, key).0.plan;
            assert!(again.is_empty(), "after {title}: {again:#?}");
        }
    }

    /// Writes down a plan that does nothing. Gives what it says.
    pub(crate) fn stay(&mut self, title: &str, key: &ServiceKey) -> String {
        let planned = self.put_down(title, key, Cause::Wanted);
        assert!(planned.plan.is_empty(), "{title}: {:#?}", planned.plan);
        let notes: Vec<String> = planned.report.notes.iter().map(ToString::to_string).collect();
        notes.join("\n")
    }

    /// Checks which VMs answer a connection.
    pub(crate) fn answers(&self, source: &str, address: &str, port: u16, names: &[&str]) {
        let wanted: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let found = self.lab.reach(source, address, port);
        assert_eq!(found, wanted, "from {source} to {address}:{port}");
    }

    /// What the status of a Service says.
    pub(crate) fn published(&self, key: &ServiceKey) -> Vec<String> {
        let service = self.lab.service(key).expect("the Service");
        let entries = service.ingress.into_iter();
        entries.filter_map(|entry| entry.ip.or(entry.hostname)).collect()
    }

    /// The rules that CloudStack lists, by public port.
    pub(crate) fn rules(&self, port: u16) -> Vec<Value> {
        let rules = self.listed("listLoadBalancerRules", "loadbalancerrule");
        let port = Value::from(port.to_string());
        rules.into_iter().filter(|rule| rule["publicport"] == port).collect()
    }

    /// The id of the only rule for a public port.
    pub(crate) fn rule(&self, port: u16) -> String {
        let rules = self.rules(port);
        assert_eq!(rules.len(), 1, "{rules:#?}");
        rules[0]["id"].as_str().expect("an id").to_owned()
    }

    /// Whether an address is allocated.
    pub(crate) fn holds(&self, address: &str) -> bool {
        let all = self.listed("listPublicIpAddresses", "publicipaddress");
        all.iter().any(|found| found["ipaddress"] == address && found["state"] == "Allocated")
    }

    /// The rows of a list, as the account of the controller sees them.
    pub(crate) fn listed(&self, command: &str, array: &str) -> Vec<Value> {
        let mut answer = self.lab.by_hand(command, &[("listall", "true")]);
        match answer[array].take() {
            Value::Array(rows) => rows,
            _ => Vec::new(),
        }
    }

    /// What the last call of a command said in a parameter.
    pub(crate) fn param(&self, command: &str, name: &str) -> String {
        self.lab.simulator.with(|simulator| {
            let call = simulator.calls().iter().rfind(|call| call.command == command);
            let mut params = call.expect("a call").params.iter();
            params.find(|(known, _)| known == name).expect("the parameter").1.clone()
        })
    }

    /// The id of an address.
    pub(crate) fn address_id(&self, address: &str) -> String {
        let all = self.listed("listPublicIpAddresses", "publicipaddress");
        let found = all.iter().find(|found| found["ipaddress"] == address);
        found.expect("the address")["id"].as_str().expect("an id").to_owned()
    }

    /// What was asked of CloudStack to change something, without ids that depend on the order of
    /// calls that run side by side.
    fn calls(&self) -> Vec<(&'static str, Vec<(String, String)>)> {
        let changing = |call: &&LoggedCall| call.mutates;
        let mut calls = self.lab.simulator.with(|simulator| {
            let calls = simulator.calls().iter().filter(changing);
            calls.map(|call| (call.command, lasting(&call.params))).collect::<Vec<_>>()
        });
        calls.sort();
        calls
    }
}

/// Compares plans with their snapshots.
pub(crate) fn compare(case: &str, text: &str, json: Option<&str>) {
    let (area, name) = case.split_once('/').expect("a case is called area/name");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(fixture("plans").join(area));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::assert_snapshot!(name, text);
        if let Some(json) = json {
            insta::assert_snapshot!(format!("{name}.json"), json);
        }
    });
}

/// Pretty JSON in which everything that fits one line is on one line.
pub(crate) fn compact(document: &impl Serialize) -> String {
    let pretty = serde_json::to_string_pretty(document).expect("a document is JSON");
    let mut lines: Vec<String> = Vec::new();
    let mut open = Vec::new();
    for line in pretty.lines() {
        if line.ends_with(['{', '[']) {
            open.push(lines.len());
        }
        lines.push(line.to_owned());
        if line.trim_start().starts_with(['}', ']']) {
            let start = open.pop().expect("what closes was opened");
            let inside = lines[start..].iter().skip(1).map(|line| line.trim_start());
            let space = if lines[start].ends_with('{') { " " } else { "" };
            let inside = inside.collect::<Vec<_>>().join(" ");
            let (inside, end) = inside.rsplit_once(' ').expect("something is inside");
            let joined = format!("{}{space}{inside}{space}{end}", lines[start]);
            if joined.len() <= WIDTH {
                lines.truncate(start);
                lines.push(joined);
            }
        }
    }
    lines.join("\n")
}

fn lasting(params: &[(String, String)]) -> Vec<(String, String)> {
    const MINTED: [&str; 7] =
        ["id", "publicipid", "ipaddressid", "customjobid", "aclid", "ids", "resourceids"];
    let kept = params.iter().filter(|(name, _)| !MINTED.contains(&name.as_str()));
    kept.cloned().collect()
}
