//! Cases 2: the addresses of a Service.

use ccm_core::exec::error::Fault;
use ccm_core::ids::ServiceKey;
use ccm_core::observe::AssociateJob;
use ccm_core::plan::Planned;
use ccm_core::plan::action::Kind;
use ccm_core::plan::reason::Disruption;
use ccm_core::plan::report::Severity;
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup, port};
use ccm_tests::trouble::Trouble;
use jiff::ToSpan as _;

use crate::support::{
    A, B, CLIENT, USERS, accepted, all_nodes, allocated, annotate, annotated,
    assert_nothing_planned, assert_refused, calls_of, codes, commands, left_by_go,
    load_balancer_name, names, nic, opening, param, prefix, report_of_nothing, rule, says,
    served_by_go, set_node, severity, status, steps, strip, verdict,
};

fn asks_for(lab: &Lab, name: &str, address: &str) -> ServiceKey {
    lab.create(name, |raw| raw.load_balancer_ip = Some(address.to_owned()))
}

fn tier_setup() -> Setup {
    Setup::standard().nodes(&["tier1-1", "tier1-2"])
}

/// Served on one address of its own, which nothing shares, and afterwards gone without a trace.
fn assert_one_address(lab: &mut Lab, key: &ServiceKey, before: &[String]) {
    assert_eq!(accepted(lab, "associateIpAddress"), 1);
    let objects = lab.objects();
    assert_eq!(objects.addresses().len(), before.len() + 1);
    assert_eq!(objects.rules().len(), 1);
    assert!(objects.firewall_rules().len() + objects.acl_items().len() == 1, "{objects:#?}");
    assert_eq!(status(lab, key), [format!("{A} VIP")]);
    assert_eq!(verdict(lab, key).as_deref(), Some("true"));
    lab.delete(key);
    lab.recover(key);
    let objects = lab.objects();
    assert_eq!(objects.addresses(), before);
    assert!(objects.rules().is_empty() && objects.firewall_rules().is_empty());
    assert!(objects.acl_items().is_empty());
}

#[test]
fn c010_one_address_wherever_we_die() {
    for setup in [Setup::standard(), tier_setup()] {
        let before = setup.clone().start().objects().addresses();
        let new = || {
            let lab = setup.clone().start();
            let key = lab.create("web", |_| ());
            (lab, key)
        };
        let length = new().0.plan(&new().1).0.plan.steps.len();
        for first in 0..=length {
            for second in [0, 1, length / 2, length] {
                let (mut lab, key) = new();
                for died_after in [first, second] {
                    let planned = prefix(&lab.plan(&key).0, died_after);
                    assert!(lab.execute(&planned).is_success());
                    lab.restart();
                }
                lab.recover(&key);
                assert_one_address(&mut lab, &key, &before);
            }
        }
    }
}

#[test]
fn c010_one_address_whichever_answer_is_lost() {
    let before = Setup::standard().start().objects().addresses();
    let lab = Setup::standard().start();
    let planned = lab.plan(&lab.create("web", |_| ())).0;
    for command in commands(&planned) {
        for dies in [false, true] {
            let mut lab = Setup::standard().start();
            let key = lab.create("web", |_| ());
            lab.troubles.meet_command(1, Trouble::AnswerLost, command);
            let (_, outcome) = lab.reconcile(&key);
            assert_eq!(outcome.failed.len(), 1);
            if dies {
                lab.restart();
            }
            lab.recover(&key);
            assert_one_address(&mut lab, &key, &before);
        }
    }
}

#[test]
fn c010_addresses_owned_are_services_alive_whatever_fails() {
    let mut lab = Setup::standard().start();
    let before = lab.objects().addresses();
    let troubles = [Trouble::Fails(530), Trouble::AnswerLost, Trouble::RequestLost];
    let mut alive = Vec::new();
    for number in 0..20 {
        let trouble = troubles[number % 3];
        // One call of seven meets with trouble, another one for every Service.
        let mut left = number % 7;
        let counter = std::sync::Mutex::new(move || {
            left = (left + 1) % 7;
            left == 0
        });
        lab.troubles.meet(3, trouble, move |_| (counter.lock().unwrap())());
        let key = lab.create(&format!("s{number}"), |_| ());
        lab.recover(&key);
        alive.push(key);
        if number % 3 == 1 {
            let gone = alive.remove(number % alive.len());
            lab.delete(&gone);
            lab.recover(&gone);
        }
        lab.troubles.end();
    }
    assert_eq!(lab.objects().addresses().len(), before.len() + alive.len());
    assert_eq!(lab.objects().rules().len(), alive.len());
    for key in alive {
        lab.delete(&key);
        lab.recover(&key);
    }
    assert_eq!(lab.objects().addresses(), before);
}

#[test]
fn c011_deletion_without_a_rule_gives_the_address_back() {
    let length = {
        let lab = Setup::standard().start();
        let planned = lab.plan(&lab.create("web", |_| ())).0;
        assert_eq!(steps(&planned)[..3], ["service/intent", "address", "service/record"]);
        planned.plan.steps.len()
    };
    // Known by the intent only, by the record, and with everything.
    for made in 2..=length {
        let new = || {
            let mut lab = Setup::standard().start();
            let before = lab.objects().addresses();
            let key = lab.create("web", |_| ());
            let planned = prefix(&lab.plan(&key).0, made);
            assert!(lab.execute(&planned).is_success());
            for rule in lab.objects().rules() {
                lab.by_hand("deleteLoadBalancerRule", &[("id", &rule.id())]);
            }
            lab.restart();
            (lab, key, before)
        };
        let (mut lab, key, _) = new();
        lab.recover(&key);
        assert_eq!(accepted(&lab, "associateIpAddress"), 1);
        assert_eq!(status(&lab, &key), [format!("{A} VIP")]);
        for died_after in 0..6 {
            let (mut lab, key, before) = new();
            lab.delete(&key);
            let planned = prefix(&lab.plan(&key).0, died_after);
            assert!(lab.execute(&planned).is_success());
            lab.restart();
            lab.recover(&key);
            assert_eq!(lab.service(&key), None);
            assert_eq!(lab.objects().addresses(), before, "made {made}, died {died_after}");
            assert_eq!(accepted(&lab, "disassociateIpAddress"), 1);
        }
    }
}

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
    for tags in [
        [("k8s-cluster", "other"), ("k8s-service", uid.as_str())],
        [("k8s-cluster", "prod"), ("k8s-service", "11111111-5b7e-4c11-9d02-1a2b3c4d5e6f")],
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
        for (index, (key, value)) in tags.iter().enumerate() {
            let (key_name, value_name) =
                (format!("tags[{index}].key"), format!("tags[{index}].value"));
            lab.by_hand(
                "createTags",
                &[
                    ("resourceids", &id),
                    ("resourcetype", "PublicIpAddress"),
                    (&key_name.replace(&index.to_string(), "0"), key),
                    (&value_name.replace(&index.to_string(), "0"), value),
                ],
            );
        }
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.service(&web), None);
        assert!(lab.objects().addresses().contains(&A.to_owned()));
        assert!(lab.objects().rules().is_empty());
    }
}

/// `shop/web` with port 80 and `shop/tls` with port 443 on one address.
fn two_on_one_address(lab: &mut Lab, address: &str) -> (ServiceKey, ServiceKey) {
    let web = asks_for(lab, "web", address);
    let tls = lab.create("tls", |raw| {
        raw.load_balancer_ip = Some(address.to_owned());
        raw.ports = vec![port("https", "TCP", 443, 30443)];
    });
    lab.settle(&web);
    lab.settle(&tls);
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, address, 80), all_nodes());
    assert_eq!(lab.reach(CLIENT, address, 443), all_nodes());
    (web, tls)
}

#[test]
fn c013_the_last_one_out_closes_the_door() {
    for web_goes_first in [true, false] {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let (web, tls) = two_on_one_address(&mut lab, A);
        let (first, last) = if web_goes_first { (&web, &tls) } else { (&tls, &web) };
        let last_port = if web_goes_first { 443 } else { 80 };
        let kept = lab.objects().only(|object| {
            let of_last = |field: &str| object.text(field) == last_port.to_string();
            let is_address = object.list == "listPublicIpAddresses";
            of_last("publicport")
                || of_last("startport")
                || is_address && object.text("ipaddress") == A
        });
        assert_eq!(kept.iter().count(), 3);
        lab.delete(first);
        lab.settle(first);
        assert_eq!(lab.service(first), None);
        assert_eq!(lab.objects().only(|o| kept.iter().any(|k| k.id() == o.id())), kept);
        assert_nothing_planned(&lab, last);
        assert_eq!(lab.reach(CLIENT, A, last_port), all_nodes());
        lab.delete(last);
        lab.settle(last);
        assert_eq!(lab.objects().addresses(), before);
    }
}

#[test]
fn c013_two_leave_at_once() {
    for web_is_planned_first in [true, false] {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let (web, tls) = two_on_one_address(&mut lab, A);
        lab.delete(&web);
        lab.delete(&tls);
        let order = if web_is_planned_first { [&web, &tls] } else { [&tls, &web] };
        // Both plans are made from the same observation.
        let plans = order.map(|key| lab.plan(key).0);
        for planned in &plans {
            let _ = lab.execute(planned);
        }
        for key in order {
            lab.recover(key);
            assert_eq!(lab.service(key), None);
        }
        assert_eq!(lab.objects().addresses(), before);
        assert!(lab.objects().rules().is_empty());
    }
}

#[test]
fn c013_a_users_address_outlives_both() {
    let mut lab = Setup::standard().start();
    let before = lab.objects().addresses();
    let (web, tls) = two_on_one_address(&mut lab, USERS);
    for key in [&web, &tls] {
        assert_eq!(verdict(&lab, key).as_deref(), Some("false"));
    }
    for key in [&web, &tls] {
        lab.delete(key);
        lab.settle(key);
    }
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
    assert_eq!(lab.objects().addresses(), before);
    assert!(lab.objects().rules().is_empty() && lab.objects().firewall_rules().is_empty());
}

#[test]
fn c014_somebody_of_ours_has_that_port() {
    let mut lab = Setup::standard().start();
    let (web, _) = two_on_one_address(&mut lab, A);
    lab.runtime.pass(60);
    let late = asks_for(&lab, "late", A);
    let before = lab.objects();
    lab.converge(&late);
    let (planned, _) = lab.plan(&late);
    let text = says(&planned, "PortTaken");
    for word in ["shop/web", "80", A] {
        assert!(text.contains(word), "{text}");
    }
    assert!(planned.report.look_again().is_some());
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    assert!(status(&lab, &late).is_empty());
    lab.delete(&web);
    lab.settle(&web);
    lab.recover(&late);
    assert_eq!(status(&lab, &late), [format!("{A} VIP")]);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c014_the_refused_one_goes_without_touching_the_other() {
    for users in [false, true] {
        let address = if users { USERS } else { A };
        let mut lab = Setup::standard().start();
        let (web, tls) = two_on_one_address(&mut lab, address);
        lab.runtime.pass(60);
        let late = lab.create("late", |raw| {
            raw.load_balancer_ip = Some(address.to_owned());
            raw.ports.push(port("alt", "TCP", 8080, 30088));
        });
        lab.recover(&late);
        assert_eq!(lab.reach(CLIENT, address, 8080), all_nodes());
        let kept = lab.objects().only(|object| {
            object.text("publicport") != "8080" && object.text("startport") != "8080"
        });
        lab.delete(&late);
        lab.recover(&late);
        assert_eq!(lab.service(&late), None);
        assert_eq!(lab.objects().changes_since(&kept), Vec::<String>::new());
        assert_nothing_planned(&lab, &web);
        assert_nothing_planned(&lab, &tls);
    }
}

#[test]
fn c015_a_free_address_is_associated_and_released() {
    let mut lab = Setup::standard().start();
    let before = lab.objects().addresses();
    let web = asks_for(&lab, "web", "203.0.113.20");
    lab.settle(&web);
    let call = calls_of(&lab, "associateIpAddress").remove(0);
    assert_eq!(param(&call, "ipaddress"), Some("203.0.113.20"));
    assert_eq!(param(&call, "networkid"), Some("00000000-0000-4000-8000-0000000000a1"));
    assert_eq!(param(&call, "vpcid"), None);
    assert_eq!(verdict(&lab, &web).as_deref(), Some("true"));
    assert_eq!(status(&lab, &web), ["203.0.113.20 VIP"]);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().addresses(), before);

    let mut lab = tier_setup().start();
    let web = asks_for(&lab, "web", "203.0.113.20");
    lab.settle(&web);
    let call = calls_of(&lab, "associateIpAddress").remove(0);
    assert_eq!(param(&call, "vpcid"), Some("00000000-0000-4000-8000-0000000000c1"));
    assert_eq!(param(&call, "networkid"), None);
    assert_eq!(status(&lab, &web), ["203.0.113.20 VIP"]);
}

#[test]
fn c015_a_users_address_is_used_and_stays() {
    let mut lab = Setup::standard().start();
    let before = lab.objects();
    let web = asks_for(&lab, "web", USERS);
    lab.settle(&web);
    assert_eq!(verdict(&lab, &web).as_deref(), Some("false"));
    assert_eq!(lab.reach(CLIENT, USERS, 80), all_nodes());
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(accepted(&lab, "associateIpAddress"), 0);
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn c015_a_foreign_rule_on_the_port_refuses() {
    let mut setup = Setup::standard();
    setup.world.rules.push(rule("manual", USERS, 80));
    let mut lab = setup.start();
    let web = asks_for(&lab, "web", USERS);
    let id = lab.objects().rule(80).id();
    let text = assert_refused(&mut lab, &web, "PortTaken");
    assert!(text.contains("\"manual\"") && text.contains(&id), "{text}");
}

#[test]
fn c015_addresses_that_can_not_serve_are_refused() {
    for (address, code, words) in [
        ("203.0.113.51", "AddressInOtherNetwork", "iso-2"),
        ("203.0.113.53", "AddressNotFound", "could not find IP address"),
        ("192.0.2.1", "AddressNotFound", "could not find IP address"),
        ("203.0.113.52", "AddressIsStaticNat", "node-4"),
    ] {
        let mut lab = Setup::standard().start();
        let web = asks_for(&lab, "web", address);
        let text = assert_refused(&mut lab, &web, code);
        assert!(text.contains(words) && text.contains(address), "{text}");
        lab.delete(&web);
        lab.recover(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.changing_calls(), Vec::<&str>::new());
    }
}

#[test]
fn c016_a_requested_address_changes_make_before_break() {
    for users in [false, true] {
        let old = if users { USERS } else { A };
        let mut lab = Setup::standard().start();
        let web = if users { asks_for(&lab, "web", USERS) } else { lab.create("web", |_| ()) };
        lab.settle(&web);
        let new = "203.0.113.20";
        lab.edit(&web, |raw| raw.load_balancer_ip = Some(new.to_owned()));
        let (planned, _) = lab.plan(&web);
        let mut expected = vec![
            "associateIpAddress",
            "createLoadBalancerRule",
            "assignToLoadBalancerRule",
            "createFirewallRule",
            "deleteFirewallRule",
            "deleteLoadBalancerRule",
        ];
        expected.extend((!users).then_some("disassociateIpAddress"));
        assert_eq!(commands(&planned), expected);
        let classes: Vec<_> = planned.plan.steps.iter().map(|step| step.disruption).collect();
        assert!(classes.contains(&Disruption::AddressChange), "{}", lab.print(&web));
        let length = planned.plan.steps.len();
        for died_after in 0..=length {
            let mut lab = Setup::standard().start();
            let web = if users { asks_for(&lab, "web", USERS) } else { lab.create("web", |_| ()) };
            lab.settle(&web);
            lab.edit(&web, |raw| raw.load_balancer_ip = Some(new.to_owned()));
            let planned = prefix(&lab.plan(&web).0, died_after);
            assert!(lab.execute(&planned).is_success());
            let published = status(&lab, &web).remove(0);
            let (ip, _) = published.split_once(' ').unwrap();
            assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes(), "after {died_after} steps");
            lab.restart();
            lab.recover(&web);
            assert_eq!(status(&lab, &web), [format!("{new} VIP")]);
            assert_eq!(lab.reach(CLIENT, new, 80), all_nodes());
            assert!(lab.reach(CLIENT, old, 80).is_empty());
            assert_eq!(lab.objects().addresses().contains(&old.to_owned()), users);
            assert_eq!(lab.objects().rules().len(), 1);
            assert_eq!(lab.objects().openings(), ["80 0.0.0.0/0"]);
            assert_eq!(accepted(&lab, "associateIpAddress"), if users { 1 } else { 2 });
        }
    }
}

#[test]
fn c017_a_new_address_that_can_not_be_used() {
    let mut setup = Setup::standard();
    setup.world.rules.push(rule("manual", USERS, 80));
    for (address, code, word) in [
        (USERS, "PortTaken", "manual"),
        ("203.0.113.51", "AddressInOtherNetwork", "iso-2"),
        ("203.0.113.53", "AddressNotFound", "could not find IP address"),
        ("203.0.113.52", "AddressIsStaticNat", "node-4"),
    ] {
        let mut lab = setup.clone().start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        lab.edit(&web, |raw| raw.load_balancer_ip = Some(address.to_owned()));
        let text = assert_refused(&mut lab, &web, code);
        assert!(text.contains(word) && text.contains(address), "{text}");
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
        lab.edit(&web, |raw| raw.load_balancer_ip = None);
        assert_nothing_planned(&lab, &web);
    }
}

#[test]
fn c017_one_blocked_port_of_two_on_a_new_address() {
    let mut setup = Setup::standard();
    setup.world.rules.push(rule("manual", USERS, 80));
    let mut lab = setup.start();
    let web = lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
    lab.settle(&web);
    lab.edit(&web, |raw| raw.load_balancer_ip = Some(USERS.to_owned()));
    lab.recover(&web);
    let published = status(&lab, &web).remove(0);
    let (ip, _) = published.split_once(' ').unwrap();
    assert_eq!(lab.reach(CLIENT, ip, 80), all_nodes(), "port 80 went down: {published}");
}

#[test]
fn c018_the_quota_is_reached() {
    for in_job in [false, true] {
        let mut setup = Setup::standard();
        let owned = setup.world.addresses.iter().filter(|a| a.owner.as_deref() == Some("prod"));
        let limit = owned.count();
        if !in_job {
            setup.world.accounts[0].limits.public_ips = Some(limit);
        }
        let mut lab = setup.start();
        if in_job {
            lab.troubles.meet_command(3, Trouble::Fails(530), "associateIpAddress");
            lab.troubles.show(|state| {
                for job in state.jobs.values_mut() {
                    *job = AssociateJob::Failed(None);
                }
            });
        }
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        for attempt in 1..=3 {
            let (planned, outcome) = lab.reconcile(&web);
            assert!(commands(&planned).contains(&"associateIpAddress"), "attempt {attempt}");
            assert_eq!(outcome.failed.len(), 1);
            if !in_job {
                assert_eq!(outcome.worst_fault(), Some(Fault::Quota));
            }
            assert!(status(&lab, &web).is_empty());
            lab.runtime.pass(600);
        }
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        let calls = calls_of(&lab, "associateIpAddress").len();
        lab.delete(&web);
        let (planned, outcome) = lab.reconcile(&web);
        assert!(outcome.is_success() && commands(&planned).is_empty(), "{}", lab.print(&web));
        assert_eq!(lab.service(&web), None);
        assert_eq!(calls_of(&lab, "associateIpAddress").len(), calls);
        assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
    }
}

const SOURCE_NAT: &str = "203.0.113.1";

/// The source-NAT address as a cluster uses it: its API server and forwards to its nodes.
fn cluster_setup() -> Setup {
    let mut setup = Setup::standard();
    let members = vec!["node-1".to_owned()];
    setup.world.rules.push(world::Rule { members, ..rule("api-lb", SOURCE_NAT, 6443) });
    setup.world.firewall_rules.push(opening(SOURCE_NAT, 6443, &["0.0.0.0/0"]));
    setup.world.firewall_rules.push(world::FirewallRule {
        end_port: Some(2224),
        ..opening(SOURCE_NAT, 2222, &["0.0.0.0/0"])
    });
    setup.world.port_forwards.push(world::PortForward {
        address: SOURCE_NAT.parse().unwrap(),
        start_port: 2222,
        end_port: Some(2224),
        id: None,
    });
    setup
}

#[test]
fn c019_the_clusters_own_address_is_not_ours() {
    let mut lab = cluster_setup().start();
    let before = lab.objects();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(status(&lab, &web), [format!("{A} VIP")]);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());

    let at = |lab: &Lab, number: i32| {
        lab.create("web", |raw| {
            raw.load_balancer_ip = Some(SOURCE_NAT.to_owned());
            raw.ports = vec![port("api", "TCP", number, 30443)];
        })
    };
    let web = at(&lab, 6443);
    let text = assert_refused(&mut lab, &web, "PortTaken");
    assert!(text.contains("api-lb"), "{text}");
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());

    let mut lab = cluster_setup().start();
    let web = at(&lab, 443);
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, SOURCE_NAT, 443), all_nodes());
    let ours = |object: &ccm_tests::objects::Object| {
        object.text("publicport") == "443" || object.text("startport") == "443"
    };
    assert_eq!(lab.objects().only(|object| !ours(object)), before);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
}

#[test]
fn c020_the_requested_address_decides_the_network() {
    let mut lab = Setup::standard().nodes(&["node-1", "iso2-1"]).start();
    let web = asks_for(&lab, "web", "203.0.113.51");
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, "203.0.113.51", 80), names(["iso2-1"]));
    let objects = lab.objects();
    assert_eq!(objects.rule(80).text("networkid"), "00000000-0000-4000-8000-0000000000a2");
    assert_eq!(objects.rule(80).members, ["iso2-1"]);
    let text = says(&lab.plan(&web).0, "NodeOutsideNetwork");
    assert!(text.contains("node-1") && text.contains("iso-2"), "{text}");
    assert_eq!(status(&lab, &web), ["203.0.113.51 VIP"]);
}

#[test]
fn c097_the_request_is_cleared_on_a_live_service() {
    for (address, stays) in [(USERS, true), ("203.0.113.20", false)] {
        let mut lab = Setup::standard().start();
        let before = lab.objects().addresses();
        let web = asks_for(&lab, "web", address);
        lab.settle(&web);
        lab.edit(&web, |raw| raw.load_balancer_ip = None);
        assert_nothing_planned(&lab, &web);
        lab.restart();
        assert_nothing_planned(&lab, &web);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.objects().addresses(), before);
        assert_eq!(accepted(&lab, "disassociateIpAddress"), usize::from(!stays));
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

/// A new Service whose associate call met with trouble.
fn unanswered(trouble: Trouble) -> (Lab, ServiceKey) {
    let mut lab = Setup::standard().start();
    lab.runtime.pass(3600);
    lab.troubles.meet_command(1, trouble, "associateIpAddress");
    let web = lab.create("web", |_| ());
    let (_, outcome) = lab.reconcile(&web);
    assert_eq!(outcome.failed.len(), 1);
    assert!(annotated(&lab, &web, "ip-intent").is_some());
    (lab, web)
}

#[test]
fn c109_an_associate_that_nobody_answered() {
    for trouble in [Trouble::RequestLost, Trouble::AnswerLost, Trouble::Fails(533)] {
        for dies in [false, true] {
            for deleted in [false, true] {
                let before = Setup::standard().start().objects().addresses();
                let (mut lab, web) = unanswered(trouble);
                if dies {
                    lab.restart();
                }
                if deleted {
                    lab.delete(&web);
                }
                lab.recover(&web);
                let addresses = lab.objects().addresses().len();
                assert_eq!(addresses, before.len() + usize::from(!deleted));
                if !deleted {
                    assert_eq!(accepted(&lab, "associateIpAddress"), 1);
                    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
                    assert_eq!(annotated(&lab, &web, "ip-intent"), None);
                }
            }
        }
    }
}

#[test]
fn c109_no_second_associate_while_the_first_may_run() {
    // The server does not know the job, since the request is still on its way.
    let (lab, web) = unanswered(Trouble::RequestLost);
    for _ in 0..7 {
        let planned = report_of_nothing(&lab, &web);
        assert_eq!(codes(&planned), ["AssociateRunning"]);
        lab.runtime.pass(120);
    }
    // Or it works on it.
    lab.troubles.show(|state| {
        for job in state.jobs.values_mut() {
            *job = AssociateJob::Pending;
        }
    });
    lab.runtime.pass(3600);
    let planned = report_of_nothing(&lab, &web);
    assert_eq!(codes(&planned), ["AssociateRunning"]);
    lab.delete(&web);
    assert_nothing_planned(&lab, &web);
    assert!(lab.service(&web).is_some(), "the finalizer stays until the job is answered");
}

#[test]
fn c109_the_job_has_expired_from_memory() {
    // Nothing was made: a person is told, and a new address is associated.
    let (mut lab, web) = unanswered(Trouble::RequestLost);
    lab.runtime.pass(13 * 3600);
    lab.restart();
    let (planned, _) = lab.plan(&web);
    assert_eq!(severity(&planned, "AssociateLost"), Severity::Warning);
    lab.recover(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());

    // It was made: exactly one address answers the description, so it is that one.
    let (mut lab, web) = unanswered(Trouble::AnswerLost);
    lab.troubles.show(|state| {
        for job in state.jobs.values_mut() {
            *job = AssociateJob::Unknown;
        }
    });
    lab.runtime.pass(13 * 3600);
    lab.restart();
    lab.recover(&web);
    assert_eq!(status(&lab, &web), [format!("{A} VIP")]);
    assert_eq!(accepted(&lab, "associateIpAddress"), 1);
}

#[test]
fn c109_a_failed_associate_leaves_nothing() {
    let (mut lab, web) = unanswered(Trouble::RequestLost);
    lab.troubles.show(|state| {
        for job in state.jobs.values_mut() {
            *job = AssociateJob::Failed(None);
        }
    });
    let (planned, _) = lab.plan(&web);
    assert!(commands(&planned).contains(&"associateIpAddress"));
    let jobs: Vec<_> =
        planned.plan.steps.iter().filter(|s| s.action.kind() == Kind::Write).collect();
    assert!(!jobs.is_empty());
    lab.troubles.end();
    lab.recover(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn a_node_with_two_nics_serves_in_the_network_of_the_address() {
    let mut setup = Setup::standard();
    let machine = setup.world.virtual_machines.iter_mut().find(|m| m.name == "node-2").unwrap();
    machine.nics.push(nic("iso-2", "10.1.2.12"));
    let mut lab = setup.start();
    let web = asks_for(&lab, "web", "203.0.113.51");
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, "203.0.113.51", 80), names(["node-2"]));
    assert_eq!(
        lab.objects().rule(80).text("name"),
        format!("{}-tcp-80", load_balancer_name("web"))
    );
}
