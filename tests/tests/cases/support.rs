//! What the cases share: reading plans and Services, and worlds that other controllers left.

use std::collections::BTreeSet;

use ccm_core::ids::ServiceKey;
use ccm_core::model::record::FINALIZER;
use ccm_core::model::service::Ingress;
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::plan::action::Kind;
use ccm_core::plan::report::{Note, Severity};
use ccm_core::plan::{Plan, Planned};
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup, annotation, port, uid_of};

/// The first free address, which a new Service gets.
pub const A: &str = "203.0.113.10";
/// The second free address.
pub const B: &str = "203.0.113.11";
/// Somebody outside.
pub const CLIENT: &str = "198.51.100.7";
/// An address in `iso-1` that a user allocated.
pub const USERS: &str = "203.0.113.50";

/// A Service that asks for an address, with one port.
pub fn asks_with_port(lab: &Lab, name: &str, address: &str, number: i32) -> ServiceKey {
    lab.create(name, |raw| {
        raw.load_balancer_ip = Some(address.to_owned());
        raw.ports = vec![port("p", "TCP", number, 30000 + number)];
    })
}

/// Codes of a plan's notes.
pub fn codes(planned: &Planned) -> Vec<&'static str> {
    planned.report.notes.iter().map(Note::code).collect()
}

/// The sentence of the note of a code.
pub fn says(planned: &Planned, code: &str) -> String {
    let found = planned.report.notes.iter().find(|note| note.code() == code);
    found.unwrap_or_else(|| panic!("no {code} in {:?}", planned.report.notes)).to_string()
}

/// How much the note of a code matters.
pub fn severity(planned: &Planned, code: &str) -> Severity {
    let found = planned.report.notes.iter().find(|note| note.code() == code);
    found.unwrap_or_else(|| panic!("no {code} in {:?}", planned.report.notes)).severity()
}

/// Commands of the steps of a plan that change CloudStack, in order.
pub fn commands(planned: &Planned) -> Vec<&'static str> {
    let changes = planned.plan.steps.iter().filter(|step| step.action.kind() == Kind::Change);
    changes.map(|step| step.action.command()).collect()
}

/// Names of the steps of a plan, in order.
pub fn steps(planned: &Planned) -> Vec<&str> {
    planned.plan.steps.iter().map(|step| step.id.as_str()).collect()
}

/// The plan up to a step.
pub fn prefix(planned: &Planned, length: usize) -> Planned {
    let steps = planned.plan.steps.iter().take(length).cloned().collect();
    let plan = Plan { steps, ..planned.plan.clone() };
    Planned { plan, report: planned.report.clone() }
}

/// Plans once, with every check; nothing is to be done. Gives what is said about that.
pub fn report_of_nothing(lab: &Lab, key: &ServiceKey) -> Planned {
    let (planned, _) = lab.plan(key);
    assert!(planned.plan.is_empty(), "{}", lab.print(key));
    planned
}

/// Plans once, with every check; nothing is to be done.
pub fn assert_nothing_planned(lab: &Lab, key: &ServiceKey) {
    let _ = report_of_nothing(lab, key);
}

/// A Service that is refused: no step, however often it is tried; nothing changes.
pub fn assert_refused(lab: &mut Lab, key: &ServiceKey, code: &str) -> String {
    let before = lab.objects();
    let service = lab.service(key);
    let calls = lab.changing_calls().len();
    for _ in 0..5 {
        let (planned, _) = lab.reconcile(key);
        assert!(planned.plan.is_empty(), "{}", lab.print(key));
        assert_eq!(severity(&planned, code), Severity::Blocked);
        assert!(planned.report.look_again().is_some_and(|wait| wait.as_secs() >= 300));
    }
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    assert_eq!(lab.service(key), service);
    assert_eq!(lab.changing_calls().len(), calls);
    says(&lab.plan(key).0, code)
}

/// The published status.
pub fn status(lab: &Lab, key: &ServiceKey) -> Vec<String> {
    let service = lab.service(key).expect("the Service");
    service.ingress.iter().map(shown).collect()
}

fn shown(entry: &Ingress) -> String {
    let Ingress { ip, hostname, ip_mode } = entry;
    let parts = [ip, hostname, ip_mode].into_iter().flatten();
    parts.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// An annotation of ours on the Service.
pub fn annotated(lab: &Lab, key: &ServiceKey, name: &str) -> Option<String> {
    lab.service(key).expect("the Service").annotations.get(&annotation(name)).cloned()
}

/// What `…-ip-associated-by-controller` says.
pub fn verdict(lab: &Lab, key: &ServiceKey) -> Option<String> {
    annotated(lab, key, "ip-associated-by-controller")
}

/// Sets an annotation of ours.
pub fn annotate(raw: &mut RawService, name: &str, value: &str) {
    raw.annotations.insert(annotation(name), value.to_owned());
}

/// Removes an annotation of ours.
pub fn unset(raw: &mut RawService, name: &str) {
    raw.annotations.remove(&annotation(name));
}

/// Removes every annotation of ours, as some deployment tools do.
pub fn strip(raw: &mut RawService) {
    let prefix = annotation("");
    raw.annotations.retain(|key, _| !key.starts_with(&prefix));
}

/// A set of names.
pub fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// The Nodes of the standard world.
pub fn all_nodes() -> BTreeSet<String> {
    names(["node-1", "node-2", "node-3"])
}

/// Calls of a command that were accepted.
pub fn accepted(lab: &Lab, command: &str) -> usize {
    lab.simulator.with(|simulator| {
        let calls = simulator.calls().iter();
        calls.filter(|call| call.command == command && call.status == 200).count()
    })
}

/// The parameters of every call of a command.
pub fn calls_of(lab: &Lab, command: &str) -> Vec<Vec<(String, String)>> {
    lab.simulator.with(|simulator| {
        let calls = simulator.calls().iter().filter(|call| call.command == command);
        calls.map(|call| call.params.clone()).collect()
    })
}

/// A parameter among those of a call.
pub fn param<'a>(call: &'a [(String, String)], name: &str) -> Option<&'a str> {
    call.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}

/// A Node that names no VM.
pub fn node(name: &str, address: &str) -> RawNode {
    RawNode {
        name: name.to_owned(),
        addresses: vec![("InternalIP".to_owned(), address.to_owned())],
        ..RawNode::default()
    }
}

/// Adds or replaces a Node.
pub fn set_node(lab: &Lab, node: RawNode) {
    lab.cluster.with(|cluster| cluster.set_node(node));
}

/// Changes a Node.
pub fn edit_node(lab: &Lab, name: &str, edit: impl FnOnce(&mut RawNode)) {
    lab.cluster.with(|cluster| {
        let mut node = cluster.nodes().find(|node| node.name == name).expect("a Node").clone();
        edit(&mut node);
        cluster.set_node(node);
    });
}

/// Removes a Node.
pub fn remove_node(lab: &Lab, name: &str) {
    assert!(lab.cluster.with(|cluster| cluster.remove_node(name)));
}

/// `a` + the uid without dashes, cut to 32 characters.
pub fn load_balancer_name(service: &str) -> String {
    format!("a{}", uid_of(service).replace('-', "")).chars().take(32).collect()
}

/// A VM in one network.
pub fn machine(name: &str, id: &str, network: &str, address: &str) -> world::VirtualMachine {
    world::VirtualMachine {
        name: name.to_owned(),
        display_name: None,
        owner: "prod".to_owned(),
        state: world::VmState::Running,
        offering: Some("medium".to_owned()),
        nics: vec![nic(network, address)],
        tags: [].into(),
        id: Some(id.to_owned()),
        number: None,
        extra: [].into(),
    }
}

/// A NIC of a VM.
pub fn nic(network: &str, address: &str) -> world::Nic {
    world::Nic {
        network: network.to_owned(),
        address: address.parse().expect("an address"),
        secondary: Vec::new(),
        default: false,
        id: None,
        extra: [].into(),
    }
}

/// An allocated address in `iso-1`.
pub fn allocated(address: &str) -> world::Address {
    world::Address {
        address: address.parse().expect("an address"),
        owner: Some("prod".to_owned()),
        network: Some("iso-1".to_owned()),
        vpc: None,
        source_nat: false,
        portable: false,
        static_nat: None,
        allocated: None,
        number: None,
        tags: [].into(),
        id: None,
    }
}

/// A rule without members.
pub fn rule(name: &str, address: &str, port: u16) -> world::Rule {
    world::Rule {
        name: name.to_owned(),
        description: None,
        address: address.parse().expect("an address"),
        port,
        private_port: 30000 + port % 1000,
        protocol: Some("tcp".to_owned()),
        algorithm: "roundrobin".to_owned(),
        cidrs: None,
        members: Vec::new(),
        tags: [].into(),
        id: None,
    }
}

/// A firewall rule for a port.
pub fn opening(address: &str, port: u16, cidrs: &[&str]) -> world::FirewallRule {
    world::FirewallRule {
        address: address.parse().expect("an address"),
        protocol: "tcp".to_owned(),
        start_port: Some(port),
        end_port: None,
        icmp: (-1, -1),
        cidrs: cidrs.iter().map(|cidr| (*cidr).to_owned()).collect(),
        tags: [].into(),
        id: None,
    }
}

/// What the Go controller leaves in CloudStack for Service `shop/<name>`, port 80, on an address.
pub fn left_by_go(mut setup: Setup, name: &str, address: world::Address) -> Setup {
    let ip = address.address.to_string();
    setup.world.addresses.push(address);
    setup.world.rules.push(world::Rule {
        private_port: 30080,
        members: ["node-1", "node-2", "node-3"].map(str::to_owned).to_vec(),
        ..rule(&format!("{}-tcp-80", load_balancer_name(name)), &ip, 80)
    });
    setup.world.firewall_rules.push(opening(&ip, 80, &["0.0.0.0/0"]));
    setup
}

/// The Service as the Go controller leaves it, served on `ip`.
pub fn served_by_go(raw: &mut RawService, ip: &str) {
    raw.finalizers.push(FINALIZER.to_owned());
    let ip_mode = Some("VIP".to_owned());
    raw.ingress = vec![Ingress { ip: Some(ip.to_owned()), hostname: None, ip_mode }];
}
