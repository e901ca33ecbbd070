//! Cases 7, C062: what is left of a cluster that is gone.

use ccm_core::ids::{ClusterId, ServiceKey, ServiceUid};
use ccm_core::model::policy::{Mode, Policy};
use ccm_core::model::{Desired, Learned};
use ccm_core::observe::index::Observed;
use ccm_core::observe::orphan::{self, Orphans, Unproven};
use ccm_core::parse::raw::RawService;
use ccm_core::plan::Planned;
use ccm_core::plan::planner::Depth;
use ccm_core::plan::report::Note;
use ccm_tests::lab::{Lab, Setup, block_on, port, uid_of};
use cloudstack_ccm::driver;
use cloudstack_ccm::ports::Objects;

use crate::support::{
    A, B, CLIENT, USERS, accepted, all_nodes, allocated, asks_with_port, commands, left_by_go,
    load_balancer_name, opening, rule, served_by_go, strip,
};

/// The Services of cluster `first`, of which nothing but CloudStack tells any more.
fn destroy(lab: &Lab, keys: &[ServiceKey]) {
    for key in keys {
        lab.edit(key, |raw| raw.finalizers.clear());
        lab.delete(key);
        assert_eq!(lab.service(key), None);
    }
}

fn of_cluster(lab: &mut Lab, cluster: &str) {
    lab.policy.cluster_id = ClusterId::parse(cluster).unwrap();
    lab.restart();
}

fn observe(lab: &Lab, desired: &Desired) -> Observed {
    let observed = driver::observe(&lab.client, desired, &lab.policy, Depth::Thorough);
    block_on(observed).expect("a state")
}

fn find(lab: &Lab, cluster: &str, existing: &Desired) -> Orphans {
    let observed = observe(lab, &Desired::default());
    orphan::find(&observed, &ClusterId::parse(cluster).unwrap(), existing)
}

fn existing(lab: &Lab) -> Desired {
    lab.read().desired
}

/// What `cleanup` does after its question. Gives the plans.
fn clean(lab: &mut Lab, cluster: &str, existing: &Desired) -> Vec<Planned> {
    let objects = Objects::new(find(lab, cluster, existing).services, Vec::new());
    let cluster_id = ClusterId::parse(cluster).unwrap();
    let policy = Policy { cluster_id, mode: Mode::Manifests, ..lab.policy.clone() };
    let before = std::mem::replace(&mut lab.policy, policy);
    let desired = driver::desire(&objects, &lab.policy, Learned::default());
    let mut plans = Vec::new();
    for key in desired.services.keys() {
        let world = driver::World { desired: desired.clone(), observed: observe(lab, &desired) };
        let (planned, _) = lab.plan_in(&world, key);
        assert!(lab.execute(&planned).is_success());
        plans.push(planned);
    }
    lab.policy = before;
    plans
}

fn two_ports(raw: &mut RawService) {
    raw.ports.push(port("https", "TCP", 443, 30443));
}

const SHARED: &str = "203.0.113.30";

fn on_one_address(lab: &mut Lab) -> [ServiceKey; 2] {
    [("web", 80), ("tls", 443)].map(|(name, number)| {
        let key = asks_with_port(lab, name, SHARED, number);
        lab.settle(&key);
        key
    })
}

#[test]
fn c062_a_cluster_that_is_gone_is_removed_and_nothing_else() {
    for tags in [false, true] {
        for nodes in [&["node-1", "node-2", "node-3"][..], &["tier1-1", "tier1-2"]] {
            let mut lab = Setup::standard().nodes(nodes).start();
            lab.policy.ownership_tags = tags;
            let at_first = lab.objects();
            of_cluster(&mut lab, "first");
            let gone = [lab.create("web", two_ports), lab.create("api", |_| ())];
            for key in &gone {
                lab.settle(key);
            }
            let before_second = lab.objects();
            destroy(&lab, &gone);

            of_cluster(&mut lab, "second");
            let web = lab.create("web", |raw| raw.uid = Some(uid_of("second web")));
            lab.settle(&web);
            let second = lab.objects();
            assert_eq!(second.rules().len(), 4);

            let found = find(&lab, "first", &Desired::default());
            let uids: Vec<&str> = found.services.iter().map(|raw| raw.name.as_str()).collect();
            let mut expected = [uid_of("web"), uid_of("api")];
            expected.sort();
            assert_eq!(uids, expected);
            assert_eq!(found.unproven, []);

            let plans = clean(&mut lab, "first", &Desired::default());
            let releases =
                plans.iter().flat_map(commands).filter(|c| *c == "disassociateIpAddress");
            assert_eq!(releases.count(), 2);
            let left = lab.objects();
            let of_second = left.changes_since(&at_first);
            assert_eq!(
                of_second,
                second.changes_since(&before_second),
                "as if the first never was"
            );
            assert_eq!(lab.reach(CLIENT, "203.0.113.12", 80), names_of(nodes));
            assert_eq!(find(&lab, "first", &Desired::default()), Orphans::default());
            assert_eq!(find(&lab, "second", &existing(&lab)), Orphans::default());
            lab.settle(&web);
        }
    }
}

fn names_of(nodes: &[&str]) -> std::collections::BTreeSet<String> {
    nodes.iter().map(|name| (*name).to_owned()).collect()
}

/// Firewall rules bear no text: on an address that a person allocated nothing proves whose they are.
#[test]
fn c062_an_opening_on_a_users_address_is_listed_unless_it_is_tagged() {
    for tags in [false, true] {
        let mut lab = Setup::standard().start();
        lab.policy.ownership_tags = tags;
        of_cluster(&mut lab, "first");
        let web = lab.create("web", |raw| raw.load_balancer_ip = Some(USERS.to_owned()));
        lab.settle(&web);
        destroy(&lab, &[web]);
        let found = find(&lab, "first", &Desired::default());
        let apart: Vec<String> = found.unproven.iter().map(ToString::to_string).collect();
        assert_eq!(apart.len(), usize::from(!tags), "{apart:?}");
        assert!(apart.iter().all(|text| text.contains(USERS) && text.contains("tcp-80")));
        clean(&mut lab, "first", &Desired::default());
        let left = lab.objects();
        assert_eq!(left.rules().len(), 0);
        assert_eq!(left.openings().len(), usize::from(!tags));
        assert!(left.addresses().contains(&USERS.to_owned()));
        assert!(lab.reach(CLIENT, USERS, 80).is_empty());
    }
}

#[test]
fn c062_what_others_have_on_an_address_and_what_people_keep_stays() {
    let mut lab = Setup::standard().start();
    of_cluster(&mut lab, "first");
    let keys = [lab.create("web", |_| ()), lab.create("api", |_| ())];
    for key in &keys {
        lab.settle(key);
    }
    destroy(&lab, &keys);
    let ids = [A, B].map(|address| lab.objects().address(address).id());
    let ssh = [("protocol", "tcp"), ("startport", "22"), ("endport", "22")];
    lab.by_hand("createFirewallRule", &[&[("ipaddressid", ids[0].as_str())][..], &ssh].concat());
    let what = [("resourceids", ids[1].as_str()), ("resourcetype", "PublicIpAddress")];
    lab.by_hand(
        "createTags",
        &[what, [("tags[0].key", "k8s-keep"), ("tags[0].value", "yes")]].concat(),
    );
    let plans = clean(&mut lab, "first", &Desired::default());
    let mut codes: Vec<&str> =
        plans.iter().flat_map(|planned| planned.report.notes.iter().map(Note::code)).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["AddressInUse", "AddressKept"]);
    let left = lab.objects();
    assert_eq!((left.rules().len(), left.openings()), (0, vec!["22 0.0.0.0/0".to_owned()]));
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
}

/// A cluster that was restored under another id goes on with the Services that it had.
#[test]
fn a_service_that_exists_is_left_alone_whatever_cluster_its_objects_name() {
    let mut lab = Setup::standard().start();
    of_cluster(&mut lab, "first");
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    of_cluster(&mut lab, "second");
    lab.edit(&web, two_ports);
    lab.settle(&web);
    // Even where nobody says that it exists: part of it bears the new name.
    let found = find(&lab, "first", &Desired::default());
    assert_eq!(found.services, []);
    let other = ClusterId::parse("second").unwrap();
    let service = ServiceUid::parse(&uid_of("web")).unwrap();
    assert_eq!(found.unproven, [Unproven::OfTwoClusters { service, other }]);
    assert_eq!(find(&lab, "first", &existing(&lab)), Orphans::default());
    assert_eq!(lab.reach(CLIENT, A, 443), all_nodes());
}

/// An address bears the tag of the Service for which it was associated, and goes with the last one.
#[test]
fn an_address_that_a_living_service_took_over_is_not_left_over() {
    let mut lab = Setup::standard().start();
    lab.policy.ownership_tags = true;
    let [web, _] = on_one_address(&mut lab);
    lab.delete(&web);
    lab.settle(&web);
    let cluster = lab.policy.cluster_id.to_string();
    let existing = existing(&lab);
    let plans = clean(&mut lab, &cluster, &existing);
    assert!(plans.iter().all(|planned| planned.plan.is_empty()));
    assert_eq!(lab.reach(CLIENT, SHARED, 443), all_nodes());
}

/// One of two Services on an address was removed by force: its rule goes, and no more.
#[test]
fn a_rule_that_is_left_on_an_address_of_a_living_service_goes() {
    let mut lab = Setup::standard().start();
    let [web, _] = on_one_address(&mut lab);
    destroy(&lab, &[web]);
    let cluster = lab.policy.cluster_id.to_string();
    let existing = existing(&lab);
    let apart = find(&lab, &cluster, &existing).unproven;
    assert!(apart.len() == 1 && apart[0].to_string().contains("tcp-80"), "{apart:?}");
    let plans = clean(&mut lab, &cluster, &existing);
    assert_eq!(plans.iter().flat_map(commands).collect::<Vec<_>>(), ["deleteLoadBalancerRule"]);
    assert!(lab.reach(CLIENT, SHARED, 80).is_empty());
    assert_eq!(lab.reach(CLIENT, SHARED, 443), all_nodes());
    // The port is free again.
    let again = lab.create("web", |raw| {
        raw.load_balancer_ip = Some(SHARED.to_owned());
        raw.uid = Some(uid_of("web again"));
    });
    lab.recover(&again);
    assert_eq!(lab.reach(CLIENT, SHARED, 80), all_nodes());
}

/// The Go controller's rules name no cluster: they are told of.
#[test]
fn c062_rules_of_another_controller_are_listed_and_left_alone() {
    let mut setup = left_by_go(Setup::standard(), "web", allocated("203.0.113.60"));
    setup.world.rules.push(rule("manual", "203.0.113.60", 8080));
    setup.world.firewall_rules.push(opening("203.0.113.60", 8080, &["0.0.0.0/0"]));
    let mut lab = setup.start();
    let before = lab.objects();
    let found = find(&lab, "first", &Desired::default());
    assert_eq!(found.services, []);
    let texts: Vec<String> = found.unproven.iter().map(ToString::to_string).collect();
    assert!(texts.len() == 1 && texts[0].contains(&load_balancer_name("web")), "{texts:?}");
    assert_eq!(clean(&mut lab, "first", &Desired::default()).len(), 0);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    // Nor are they of anybody who is gone while their Service exists.
    let web = lab.create("web", |raw| served_by_go(raw, "203.0.113.60"));
    assert_eq!(find(&lab, "first", &existing(&lab)), Orphans::default());
    lab.settle(&web);
    lab.edit(&web, strip);
    assert_eq!(find(&lab, "first", &existing(&lab)), Orphans::default());
}

#[test]
fn clusters_are_counted_by_what_their_objects_say() {
    let mut lab = Setup::standard().start();
    of_cluster(&mut lab, "first");
    let keys = [lab.create("web", two_ports), lab.create("api", |_| ())];
    for key in &keys {
        lab.settle(key);
    }
    of_cluster(&mut lab, "second");
    let tls = lab.create("tls", |_| ());
    lab.settle(&tls);
    let clusters = orphan::clusters(&observe(&lab, &Desired::default()));
    let found: Vec<String> = clusters.iter().map(|(id, count)| format!("{id} {count}")).collect();
    assert_eq!(found, ["first 2", "second 1"]);
}
