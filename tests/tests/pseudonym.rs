//! A pseudonymised snapshot leads to the same plans: with records, marks, foreign rules, other
//! spellings of nodes, and whatever is wrong.

use ccm_core::cidr::Sources;
use ccm_core::model::Learned;
use ccm_core::observe::index::Observed;
use ccm_core::parse::raw::RawService;
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::render::document::Document;
use ccm_tests::lab::{Lab, Setup, annotation, block_on, port};
use cloudstack_ccm::driver;
use cloudstack_ccm::ports::Cluster as _;
use cloudstack_ccm::pseudonym;
use cloudstack_ccm::saved::Snapshot;

fn snapshot(lab: &Lab, depth: Depth) -> Snapshot {
    let objects = block_on(lab.cluster.read()).unwrap();
    let desired = driver::desire(&objects, &lab.policy, Learned::default());
    let state = driver::observe_state(&lab.client, &desired, &lab.policy, depth);
    Snapshot::new(lab.policy.clone(), objects, block_on(state).unwrap())
}

/// What must be equal: steps with their commands and codes, notes, counts, in this order.
fn shape(snapshot: &Snapshot) -> Vec<String> {
    let Snapshot { policy, objects, cloud, .. } = snapshot;
    let desired = driver::desire(objects, policy, Learned::default());
    let observed = Observed::new(cloud.clone());
    let planner = Planner::new(&desired, &observed, policy, cloud.at);
    let plans = driver::plan_all(&planner).unwrap();
    let document = Document::new(&planner, &plans, "test");
    let steps = document.steps.iter().map(|step| {
        let args: Vec<&String> = step.call.args.keys().collect();
        format!("{} {} {args:?} {:?} {}", step.id, step.call.name, step.after, step.reason.code)
    });
    let notes = document.notes.iter().map(|note| format!("{:?} {}", note.severity, note.code));
    steps.chain(notes).chain([format!("{:?}", document.summary)]).collect()
}

/// Checks it for a world, and gives the shape.
fn same_under_pseudonyms(lab: &Lab) -> Vec<String> {
    let mut found = Vec::new();
    for depth in [Depth::Quick, Depth::Thorough] {
        let plain = snapshot(lab, depth);
        let hidden = pseudonym::replace(&plain).unwrap();
        found = shape(&plain);
        assert_eq!(found, shape(&hidden), "{depth:?}");
        let read: Snapshot =
            serde_json::from_str(&serde_json::to_string(&hidden).unwrap()).unwrap();
        assert_eq!(read, hidden, "what is written is read back");
        hides(&plain, &serde_json::to_string(&hidden).unwrap());
    }
    found
}

fn hides(plain: &Snapshot, hidden: &str) {
    let uids = plain.objects.services.iter().filter_map(|service| service.uid.clone());
    let ids = plain.cloud.rules.iter().map(|rule| rule.id.to_string());
    let machines = plain.cloud.virtual_machines.iter().map(|machine| machine.id.to_string());
    let addresses = plain.cloud.addresses.iter().map(|found| format!("\"{}\"", found.address));
    for word in uids.chain(ids).chain(machines).chain(addresses) {
        assert!(!hidden.contains(&word), "{word}");
        let undashed = word.replace('-', "");
        let stem = undashed.get(..31).unwrap_or(&undashed);
        assert!(!hidden.contains(stem), "{stem}");
    }
    for name in ["shop", "iso-1", "tier-1", "acl-1", "node-1", "by hand", "example"] {
        assert!(!hidden.contains(name), "{name}");
    }
}

fn sources(service: &mut RawService) {
    service.source_ranges = vec!["198.51.100.0/24".to_owned(), "192.0.2.0/25".to_owned()];
    let cidrs = annotation("source-cidrs");
    service.annotations.insert(cidrs, "198.51.0.0/16, 192.0.2.0/24".to_owned());
    service.ports.push(port("https", "TCP", 443, 30443));
}

#[test]
fn a_converged_service_stays_converged_and_a_changed_one_changes_alike() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", sources);
    assert!(same_under_pseudonyms(&lab).len() > 8);
    lab.converge(&web);
    let converged = same_under_pseudonyms(&lab);
    assert_eq!(converged.len(), 1, "digests and openings are known again: {converged:?}");
    lab.edit(&web, |service| {
        service.source_ranges = vec!["198.51.100.128/25".to_owned()];
        service.annotations.insert(annotation("proxy-protocol"), "true".to_owned());
        service.annotations.insert(annotation("hostname"), "web.shop.example".to_owned());
        service.annotations.insert("kubectl/last-applied".to_owned(), "shop".to_owned());
    });
    lab.add_node("node-4");
    assert!(same_under_pseudonyms(&lab).len() > 6);
    lab.delete(&web);
    assert!(same_under_pseudonyms(&lab).len() > 6);
}

#[test]
fn a_tier_with_an_acl_list_and_what_others_made() {
    let mut lab = Setup::standard().nodes(&["tier1-1", "tier1-2"]).start();
    let web = lab.create("web", |_| {});
    lab.converge(&web);
    let state = snapshot(&lab, Depth::Quick).cloud;
    let rule = &state.rules[0];
    assert_eq!(rule.sources, Sources::Everybody);
    lab.by_hand(
        "createLoadBalancerRule",
        &[
            ("publicipid", rule.address.as_str()),
            ("networkid", rule.network.as_str()),
            ("name", "by hand"),
            ("publicport", "443"),
            ("privateport", "443"),
            ("algorithm", "roundrobin"),
        ],
    );
    lab.edit(&web, |service| service.ports.push(port("https", "TCP", 443, 30443)));
    let shape = same_under_pseudonyms(&lab);
    assert!(shape.iter().any(|line| line.contains("PortTaken")), "{shape:?}");
}

#[test]
fn mistakes_stay_mistakes_and_nodes_are_matched_by_name() {
    let lab = Setup::standard().start();
    lab.create("right", sources);
    lab.create("wrong", |service| {
        let cidrs = annotation("source-cidrs");
        service.annotations.insert(cidrs, "everybody, 10.0.0.0/33".to_owned());
        service.annotations.insert(annotation("proxy-protocol"), "yes".to_owned());
        service.annotations.insert(annotation("host-name"), "web.example".to_owned());
    });
    lab.create("there", |service| service.load_balancer_ip = Some("203.0.113.52".to_owned()));
    lab.create("nowhere", |service| service.load_balancer_ip = Some("192.0.2.77".to_owned()));
    lab.cluster.with(|cluster| {
        let nodes: Vec<_> = cluster.nodes().cloned().collect();
        for (mut node, name) in nodes.into_iter().zip(["node-1.shop.example", "NODE-2", "node-9"]) {
            cluster.remove_node(&node.name);
            name.clone_into(&mut node.name);
            node.provider_id = None;
            cluster.set_node(node);
        }
    });
    let shape = same_under_pseudonyms(&lab);
    for code in ["InvalidSpec", "NodeWithoutMachine", "AddressNotFound", "AddressIsStaticNat"] {
        assert!(shape.iter().any(|line| line.contains(code)), "{code}: {shape:?}");
    }
}
