//! Cases 2: whose an address is, with records that are missing, copied or out of date.

use ccm_core::plan::Planned;
use ccm_core::plan::report::Severity;
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup, port};
use jiff::ToSpan as _;

use crate::support::{
    A, B, CLIENT, USERS, accepted, all_nodes, allocated, annotate, assert_nothing_planned,
    commands, left_by_go, load_balancer_name, prefix, rule, says, served_by_go, set_node, severity,
    status, strip,
};

fn last_change(planned: &Planned) -> Option<&'static str> {
    commands(planned).last().copied()
}

#[test]
fn c012_a_recorded_address_is_released_last() {
    let mut lab = Setup::standard().start();
    let before = lab.objects().addresses();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.delete(&web);
    let (planned, _) = lab.plan(&web);
    assert_eq!(last_change(&planned), Some("disassociateIpAddress"));
    lab.settle(&web);
    assert_eq!(lab.objects().addresses(), before);
}

/// The state that the Go controller leaves, with its annotation as given, is deleted.
fn delete_what_go_left(
    allocated_before: i64,
    tags: &[(&str, &str)],
    verdict: Option<&str>,
) -> (Lab, Planned) {
    let setup = Setup::standard();
    let at = setup.world.started.checked_sub(allocated_before.seconds()).unwrap();
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let address =
        world::Address { allocated: Some(at), tags: tags.collect(), ..allocated("203.0.113.60") };
    let mut lab = left_by_go(setup, "web", address).start();
    let key = lab.create("web", |raw| {
        served_by_go(raw, "203.0.113.60");
        if let Some(verdict) = verdict {
            annotate(raw, "ip-associated-by-controller", verdict);
        }
    });
    lab.delete(&key);
    let (planned, _) = lab.plan(&key);
    lab.settle(&key);
    assert_eq!(lab.service(&key), None);
    let objects = lab.objects();
    assert!(objects.rules().is_empty() && objects.firewall_rules().is_empty());
    (lab, planned)
}

fn is_kept(lab: &Lab) -> bool {
    lab.objects().addresses().contains(&"203.0.113.60".to_owned())
}

const DAY: i64 = 86_400;

#[test]
fn c012_a_dropped_annotation_is_replaced_by_a_tag() {
    let uid = ccm_tests::lab::uid_of("web");
    let tags = [("k8s-cluster", "prod"), ("k8s-service", &uid)];
    let (lab, planned) = delete_what_go_left(DAY, &tags, None);
    assert!(!is_kept(&lab));
    assert_eq!(last_change(&planned), Some("disassociateIpAddress"));
}

#[test]
fn c012_without_any_proof_the_address_stays() {
    let (lab, planned) = delete_what_go_left(DAY, &[], None);
    assert!(is_kept(&lab));
    let text = says(&planned, "AddressUnproven");
    assert!(text.contains("203.0.113.60") && text.contains("release it by hand"), "{text}");
    assert_eq!(severity(&planned, "AddressUnproven"), Severity::Warning);
    let (lab, _) = delete_what_go_left(DAY, &[], Some("false"));
    assert!(is_kept(&lab));
    let (lab, _) = delete_what_go_left(-120, &[], None);
    assert!(!is_kept(&lab), "allocated two minutes after the Service was created");
}

#[test]
fn c012_a_tag_that_names_others_outweighs_the_annotation() {
    let uid = ccm_tests::lab::uid_of("web");
    let another = "11111111-5b7e-4c11-9d02-1a2b3c4d5e6f";
    // A Service of this cluster may have handed its address over: then our own record counts.
    for (tags, own_record_counts) in [
        ([("k8s-cluster", "other"), ("k8s-service", uid.as_str())], false),
        ([("k8s-cluster", "prod"), ("k8s-service", another)], true),
    ] {
        let (lab, planned) = delete_what_go_left(0, &tags, Some("true"));
        assert!(is_kept(&lab));
        let warned = planned.report.notes.iter().any(|note| {
            note.severity() == Severity::Warning && note.to_string().contains("203.0.113.60")
        });
        assert!(warned, "{:?}", planned.report.notes);
        // The same for an address that our own record calls ours.
        let mut lab = Setup::standard().start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        let id = lab.objects().address(A).id();
        for (key, value) in tags {
            lab.by_hand(
                "createTags",
                &[
                    ("resourceids", &id),
                    ("resourcetype", "PublicIpAddress"),
                    ("tags[0].key", key),
                    ("tags[0].value", value),
                ],
            );
        }
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.objects().addresses().contains(&A.to_owned()), !own_record_counts);
        assert!(lab.objects().rules().is_empty());
    }
}

#[test]
fn c102_the_same_address_id_in_another_allocation() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let id = lab.objects().address(A).id();
    lab.by_hand("disassociateIpAddress", &[("id", &id)]);
    let iso_2 = "00000000-0000-4000-8000-0000000000a2";
    lab.by_hand("associateIpAddress", &[("ipaddress", A), ("networkid", iso_2)]);
    lab.by_hand(
        "createLoadBalancerRule",
        &[
            ("publicipid", &id),
            ("name", "theirs"),
            ("algorithm", "source"),
            ("publicport", "80"),
            ("privateport", "8080"),
            ("protocol", "tcp"),
        ],
    );
    let theirs = lab.objects();
    assert_eq!(theirs.address(A).id(), id);
    let (planned, _) = lab.plan(&web);
    assert!(says(&planned, "AddressGone").contains(&id));
    lab.settle(&web);
    assert_eq!(status(&lab, &web), [format!("{B} VIP")]);
    assert_eq!(lab.reach(CLIENT, B, 80), all_nodes());
    let untouched = |lab: &Lab| {
        let all = lab.objects();
        all.only(|object| theirs.iter().any(|found| found.id() == object.id()))
    };
    assert_eq!(untouched(&lab), theirs);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&theirs), Vec::<String>::new());
}

#[test]
fn c102_deleted_before_anybody_noticed() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let id = lab.objects().address(A).id();
    lab.by_hand("disassociateIpAddress", &[("id", &id)]);
    let iso_1 = "00000000-0000-4000-8000-0000000000a1";
    lab.by_hand("associateIpAddress", &[("ipaddress", A), ("networkid", iso_1)]);
    let theirs = lab.objects();
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.service(&web), None);
    assert_eq!(lab.objects().changes_since(&theirs), Vec::<String>::new());
}

#[test]
fn c103_a_copied_manifest() {
    for restored in [false, true] {
        let mut lab = Setup::standard().start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        let original = lab.service(&web).unwrap();
        let before = lab.objects();
        if restored {
            // In another cluster of the same account: the original is not there.
            lab.cluster.with(|cluster| *cluster = ccm_kubernetes::memory::MemoryCluster::default());
            for (name, ip) in [("node-1", "10.1.1.11"), ("node-2", "10.1.1.12")] {
                set_node(&lab, crate::support::node(name, ip));
            }
            lab.policy.cluster_id = ccm_core::ids::ClusterId::parse("second").unwrap();
        }
        let copy = lab.create("copy", |raw| {
            raw.annotations.clone_from(&original.annotations);
            raw.ports[0].node_port = Some(30081);
        });
        let (planned, _) = lab.plan(&copy);
        assert_eq!(severity(&planned, "RecordOfAnotherService"), Severity::Warning);
        lab.settle(&copy);
        assert_eq!(status(&lab, &copy), [format!("{B} VIP")]);
        let untouched = |lab: &Lab| {
            let all = lab.objects();
            all.only(|object| before.iter().any(|found| found.id() == object.id()))
        };
        assert_eq!(untouched(&lab), before);
        lab.delete(&copy);
        lab.settle(&copy);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        if !restored {
            assert_nothing_planned(&lab, &web);
        }
    }
}

#[test]
fn c103_a_copy_with_the_finalizer_is_deleted_at_once() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let original = lab.service(&web).unwrap();
    let before = lab.objects();
    let copy = lab.create("copy", |raw| {
        raw.annotations.clone_from(&original.annotations);
        raw.finalizers.clone_from(&original.finalizers);
        raw.ingress.clone_from(&original.ingress);
    });
    lab.delete(&copy);
    lab.settle(&copy);
    assert_eq!(lab.service(&copy), None);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn c104_stripped_annotations_are_written_back() {
    for (request, stays) in [(None, false), (Some(USERS), true)] {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let web = lab.create("web", |raw| raw.load_balancer_ip = request.map(str::to_owned));
        lab.settle(&web);
        let calls = lab.changing_calls().len();
        let written = lab.service(&web).unwrap();
        for round in 0..5 {
            lab.edit(&web, strip);
            if round == 2 {
                lab.restart();
            }
            let (planned, outcome) = lab.reconcile(&web);
            assert!(outcome.is_success() && commands(&planned).is_empty());
            assert_eq!(lab.service(&web).as_ref(), Some(&written));
            assert_nothing_planned(&lab, &web);
        }
        assert_eq!(lab.changing_calls().len(), calls);
        lab.edit(&web, strip);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.objects().addresses(), before);
        assert!(lab.objects().rules().is_empty() && lab.objects().firewall_rules().is_empty());
        assert_eq!(accepted(&lab, "disassociateIpAddress"), usize::from(!stays));
    }
}

#[test]
fn c104_a_stripped_service_dies_half_way_through_its_deletion() {
    for died_after in 0..8 {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        lab.edit(&web, strip);
        lab.delete(&web);
        let planned = prefix(&lab.plan(&web).0, died_after);
        assert!(lab.execute(&planned).is_success());
        lab.restart();
        lab.recover(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.objects().addresses(), before, "died after {died_after}");
    }
}

#[test]
fn c104_a_stripped_service_takes_no_rule_by_its_name_elsewhere() {
    for deleted in [false, true] {
        let mut setup = Setup::standard();
        let name = format!("{}-tcp-8080", load_balancer_name("web"));
        setup.world.rules.push(rule(&name, USERS, 8080));
        let mut lab = setup.start();
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        let calls = lab.changing_calls().len();
        lab.edit(&web, strip);
        lab.restart();
        if deleted {
            lab.delete(&web);
            lab.settle(&web);
            assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        } else {
            lab.settle(&web);
            assert_eq!(lab.changing_calls().len(), calls);
        }
    }
}

#[test]
fn c104_a_stripped_service_keeps_the_rules_that_it_adopted() {
    for synced in [false, true] {
        let mut setup = left_by_go(Setup::standard(), "web", allocated("203.0.113.60"));
        let name = format!("{}-tcp-443", load_balancer_name("web"));
        setup.world.rules.push(rule(&name, "203.0.113.60", 443));
        let mut lab = setup.start();
        let web = lab.create("web", |raw| {
            served_by_go(raw, "203.0.113.60");
            annotate(raw, "ip-associated-by-controller", "true");
            raw.ports.push(port("https", "TCP", 443, 30443));
        });
        lab.settle(&web);
        lab.edit(&web, |raw| raw.ports[1].node_port = Some(31443));
        lab.settle(&web);
        let described = |port| !lab.objects().rule(port).text("description").is_empty();
        assert_eq!([80, 443].map(described), [false, true]);
        let calls = lab.changing_calls().len();
        lab.edit(&web, strip);
        lab.restart();
        if synced {
            lab.settle(&web);
            assert_eq!(lab.changing_calls().len(), calls);
        }
        lab.delete(&web);
        lab.settle(&web);
        let left = lab.objects();
        assert!(left.rules().is_empty() && left.firewall_rules().is_empty(), "{left:#?}");
        assert!(!left.addresses().contains(&"203.0.113.60".to_owned()));
    }
}
