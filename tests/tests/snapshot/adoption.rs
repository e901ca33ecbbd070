//! What other controllers left on a real CloudStack is taken over without a call to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ccm_core::event::Event;
use ccm_core::event::sync::Cause;
use ccm_core::ids::ServiceKey;
use ccm_core::model::policy::AdoptUnrecorded;
use ccm_core::model::record::Verdict;
use ccm_core::parse::raw::{RawService, RawServicePort};
use ccm_core::plan::action::{Action, Edit, FinalizerChange, PlannedPatch};
use ccm_core::plan::planner::Depth;
use ccm_core::plan::report::{Note, Severity};
use ccm_core::plan::{Plan, Planned};
use ccm_core::render::human::{self, Colour};
use ccm_tests::lab::annotation;
use ccm_tests::recorded::Recorded;
use jiff::Timestamp;

use crate::story::{compact, compare};
use crate::told::{Told, lifecycle, lines, objects};

/// Makes the rules of the Go controller those of the provider that was part of Kubernetes.
fn in_tree() -> Recorded {
    let recorded = Recorded::load("go-1.2.0");
    recorded.edit_rows("listLoadBalancerRules", |rule| {
        let name = rule["name"].as_str().unwrap();
        let (load_balancer, _) = name.split_once('-').unwrap();
        let port = rule["publicport"].as_str().unwrap();
        rule["name"] = format!("{load_balancer}-{port}").into();
    });
    recorded
}

struct State {
    name: &'static str,
    load: fn() -> Recorded,
    /// The Services of which the address is the user's; the others' is ours.
    of_user: &'static [&'static str],
    /// The Services of which the status is written.
    published: &'static [&'static str],
}

const STATES: [State; 5] = [
    State {
        name: "go-1.2.0",
        load: || Recorded::load("go-1.2.0"),
        of_user: &[],
        published: &["proxy"],
    },
    State {
        name: "fork-1.8.1",
        load: || Recorded::load("fork-1.8.1"),
        of_user: &["pinned"],
        published: &[],
    },
    State {
        name: "go-1.2.0-vpc",
        load: || Recorded::load("go-1.2.0-vpc"),
        of_user: &[],
        published: &[],
    },
    State {
        name: "go-1.2.0-vpc-default-allow",
        load: || Recorded::load("go-1.2.0-vpc-default-allow"),
        of_user: &[],
        published: &[],
    },
    State { name: "in-tree", load: in_tree, of_user: &[], published: &["proxy"] },
];

#[test]
fn first_plan_makes_no_call_and_writes_records_only() {
    for state in &STATES {
        let recorded = (state.load)();
        let keys = recorded.services();
        let (plans, document) = recorded.plan_some(&keys, Depth::Quick);
        let mut text = human::print(&document, Colour::Never);
        let mut json = compact(&document);
        for planned in &plans {
            let (service, events) = (&planned.plan.service, told(&recorded, planned));
            let _ = write!(text, "\n{service} {}", lines(&events));
            let _ = write!(json, "\n\n{service} events\n{}", compact(&objects(&events)));
        }
        compare(&format!("adoption/{}", state.name), &text, Some(&json));
        for planned in &plans {
            let patch = only_patch(&planned.plan);
            let name = planned.plan.service.name.as_str();
            assert!(matches!(&patch.record, Edit::Set(_)), "{patch:#?}");
            assert_eq!(patch.finalizer, None, "{name} has it already");
            assert_eq!(patch.ingress.is_some(), state.published.contains(&name), "{name}");
            assert!(recorded.write(&planned.plan).is_success());
            let verdict = if state.of_user.contains(&name) { Verdict::User } else { Verdict::Ours };
            assert_eq!(written_verdict(&recorded.service(name)), Some(verdict), "{name}");
        }
        for depth in [Depth::Quick, Depth::Thorough] {
            for Planned { plan, report } in recorded.plan_some(&keys, depth).0 {
                assert!(plan.is_empty(), "{}: {plan:#?}", state.name);
                let blocked = report.notes.iter().find(|n| n.severity() >= Severity::Waiting);
                assert_eq!(blocked, None, "{}", state.name);
            }
        }
    }
}

#[test]
fn first_plan_of_a_role_that_lacks_lists_makes_no_call_either() {
    for state in &STATES {
        for denied in ["listVPCs", "listNetworkACLLists", "listNetworkACLs"] {
            let recorded = (state.load)();
            recorded.deny(denied);
            let keys = recorded.services();
            for Planned { plan, report: _ } in recorded.plan_some(&keys, Depth::Quick).0 {
                assert!(!plan.touches_cloud(), "{} without {denied}: {plan:#?}", state.name);
                assert!(recorded.write(&plan).is_success());
            }
            for Planned { plan, report: _ } in recorded.plan_some(&keys, Depth::Thorough).0 {
                assert!(plan.is_empty(), "{} without {denied}: {plan:#?}", state.name);
            }
        }
    }
}

#[test]
fn node_that_goes_after_the_adoption_is_removed_from_every_rule() {
    for state in &STATES {
        let recorded = (state.load)();
        adopt(&recorded);
        let gone = recorded.cluster.with(|cluster| {
            let name = cluster.nodes().next().unwrap().name.clone();
            cluster.remove_node(&name)
        });
        assert!(gone);
        let (plans, _) = recorded.plan_some(&recorded.services(), Depth::Quick);
        for planned in plans {
            let removals = calls(&planned.plan, "removeFromLoadBalancerRule");
            let ports = recorded.service(&planned.plan.service.name).ports.len();
            assert_eq!(removals, ports, "{}: {:#?}", state.name, planned.plan);
        }
    }
}

/// Killed after its first write, the controller knows as much as before.
fn expect_same_after_first_write(recorded: &Recorded, planned: &Planned) {
    let Some(first) = planned.plan.steps.first().filter(|_| planned.plan.touches_cloud()) else {
        return;
    };
    if !matches!(first.action, Action::PatchService(_)) {
        return;
    }
    let service = planned.plan.service.clone();
    let beginning = Plan { steps: vec![first.clone()], ..Plan::new(service) };
    assert!(recorded.write(&beginning).is_success());
    let (again, _) = recorded.plan(&planned.plan.service);
    assert_eq!(changes(&again.plan), changes(&planned.plan), "{:#?}", planned.plan);
}

/// The events of the first sync of a Service.
fn told(recorded: &Recorded, planned: &Planned) -> Vec<Event> {
    let lifecycle = lifecycle(&recorded.cluster, &recorded.policy, &planned.plan.service);
    Told::default().of(planned, lifecycle, Cause::Wanted, Timestamp::UNIX_EPOCH)
}

/// A change in the same roll-out as the adoption, and the same change after it.
fn change_all(case: &str, edit: impl Fn(&mut RawService), judge: impl Fn(&State, &Planned)) {
    for state in &STATES {
        let mut text = String::new();
        let found = (state.load)();
        let adopted = found.branch();
        adopt(&adopted);
        for key in found.services() {
            let recorded = found.branch();
            recorded.edit(&key.name, &edit);
            let (together, document) = recorded.plan(&key);
            let (plan, events) =
                (human::print(&document, Colour::Never), told(&recorded, &together));
            let _ = write!(text, "{plan}\n{}\n", lines(&events));
            judge(state, &together);
            expect_same_after_first_write(&recorded, &together);
            let recorded = adopted.branch();
            recorded.edit(&key.name, &edit);
            let (after, _) = recorded.plan(&key);
            judge(state, &after);
            assert_eq!(changes(&together.plan), changes(&after.plan), "{}: {key}", state.name);
        }
        compare(&format!("adoption/{}-{case}", state.name), &text, None);
    }
}

#[test]
fn port_added_in_the_same_roll_out_is_made_beside_the_adopted_ones() {
    let add = |raw: &mut RawService| {
        raw.ports.push(RawServicePort {
            name: Some("more".to_owned()),
            protocol: Some("TCP".to_owned()),
            port: 10_443,
            node_port: Some(32_767),
        });
    };
    change_all("port-added", add, |state, planned| {
        let mut expected =
            BTreeMap::from([("createLoadBalancerRule", 1), ("assignToLoadBalancerRule", 1)]);
        match state.name {
            "go-1.2.0-vpc" => drop(expected.insert("createNetworkACL", 1)),
            "go-1.2.0-vpc-default-allow" => {}
            // The two ranges of one Service get a rule each.
            _ => {
                let openings = 1 + usize::from(planned.plan.service.name == "ranges");
                expected.insert("createFirewallRule", openings);
            }
        }
        assert_eq!(changes(&planned.plan), expected, "{}: {:#?}", state.name, planned.plan);
    });
}

#[test]
fn port_renumbered_in_the_same_roll_out_closes_the_adopted_one() {
    let renumber = |raw: &mut RawService| {
        let last = raw.ports.last_mut().unwrap();
        last.port = 10_443;
    };
    change_all("port-renumbered", renumber, |state, planned| {
        let plan = &planned.plan;
        let name = plan.service.name.as_str();
        assert_eq!(calls(plan, "deleteLoadBalancerRule"), 1, "{}: {name}", state.name);
        assert_eq!(calls(plan, "createLoadBalancerRule"), 1, "{}: {name}", state.name);
        let firewall = usize::from(!state.name.contains("vpc"));
        assert_eq!(calls(plan, "deleteFirewallRule"), firewall, "{}: {name}", state.name);
        // Port 80 is used by other Services of the tier; 443, 8443 and 9000 are not.
        let own_item = ["plain", "cidrs", "pinned"].contains(&name);
        let items = usize::from(own_item && state.name == "go-1.2.0-vpc");
        assert_eq!(calls(plan, "deleteNetworkACL"), items, "{}: {name}", state.name);
    });
}

#[test]
fn ranges_changed_in_the_same_roll_out_close_what_was_open() {
    let restrict = |raw: &mut RawService| raw.source_ranges = vec!["192.0.2.0/24".to_owned()];
    change_all("ranges-changed", restrict, |state, planned| {
        let ports = 1 + usize::from(planned.plan.service.name == "plain");
        let vpc = state.name.contains("vpc");
        let expected = if vpc {
            BTreeMap::new()
        } else {
            BTreeMap::from([("createFirewallRule", ports), ("deleteFirewallRule", ports)])
        };
        assert_eq!(changes(&planned.plan), expected, "{}: {:#?}", state.name, planned.plan);
        let told = planned.report.notes.iter().any(|note| note.code() == "RangesWithoutEffect");
        assert_eq!(told, vpc, "{}: {:#?}", state.name, planned.report);
    });
}

#[test]
fn proxy_protocol_toggled_in_the_same_roll_out_updates_the_adopted_rules() {
    let key = annotation("proxy-protocol");
    let toggle = |raw: &mut RawService| match raw.annotations.remove(&key) {
        Some(_) => {}
        None => drop(raw.annotations.insert(key.clone(), "true".to_owned())),
    };
    change_all("proxy-toggled", toggle, |state, planned| {
        let two = ["plain", "cidrs"].contains(&planned.plan.service.name.as_str());
        let expected = BTreeMap::from([("updateLoadBalancerRule", 1 + usize::from(two))]);
        assert_eq!(changes(&planned.plan), expected, "{}: {:#?}", state.name, planned.plan);
    });
}

#[test]
fn deletion_in_the_same_roll_out_takes_everything_and_only_what_is_proven() {
    let delete = |raw: &mut RawService| raw.deleting = true;
    change_all("deleted", delete, |state, planned| {
        let name = planned.plan.service.name.as_str();
        let ports = 1 + usize::from(["plain", "cidrs"].contains(&name));
        assert_eq!(calls(&planned.plan, "deleteLoadBalancerRule"), ports, "{name}");
        let vpc = state.name.contains("vpc");
        let firewall = if vpc { 0 } else { ports };
        assert_eq!(calls(&planned.plan, "deleteFirewallRule"), firewall, "{name}");
        let released = calls(&planned.plan, "disassociateIpAddress") == 1;
        assert_eq!(released, !state.of_user.contains(&name), "{}: {name}", state.name);
        assert!(leaves(&planned.plan), "{name} goes: {:#?}", planned.plan);
        // One item for port 80 serves four Services; 443, 8443 and 9000 are one Service's.
        let own_items = usize::from(["plain", "cidrs", "pinned"].contains(&name));
        let expected = if state.name == "go-1.2.0-vpc" { own_items } else { 0 };
        assert_eq!(calls(&planned.plan, "deleteNetworkACL"), expected, "{}: {name}", state.name);
        let kept = |note: &&Note| matches!(note, Note::AclItemKept { .. });
        let kept = planned.report.notes.iter().filter(kept).count();
        let shared = usize::from(name != "pinned");
        assert_eq!(kept, if state.name == "go-1.2.0-vpc" { shared } else { 0 }, "{name}");
    });
}

#[test]
fn change_of_type_in_the_same_roll_out_takes_everything() {
    let change = |raw: &mut RawService| {
        raw.service_type = Some("ClusterIP".to_owned());
        raw.ingress.clear();
    };
    change_all("type-changed", change, |state, planned| {
        let name = planned.plan.service.name.as_str();
        let released = calls(&planned.plan, "disassociateIpAddress") == 1;
        assert_eq!(released, !state.of_user.contains(&name), "{}: {name}", state.name);
        assert!(leaves(&planned.plan), "{name} goes: {:#?}", planned.plan);
    });
}

#[test]
fn acl_item_goes_with_the_last_service_that_needs_its_port() {
    let recorded = Recorded::load("go-1.2.0-vpc");
    adopt(&recorded);
    // The others are gone, and their rules with them.
    let last = recorded.service("affine");
    let name: String = last.uid.unwrap().replace('-', "").chars().take(31).collect();
    let others = ["cidrs", "pinned", "plain", "ranges"];
    recorded.retain_rows("listLoadBalancerRules", |rule| {
        rule["name"].as_str().unwrap().starts_with(&format!("a{name}"))
    });
    for other in others {
        recorded.edit(other, |raw| raw.finalizers.clear());
        recorded.delete(other);
    }
    recorded.delete("affine");
    let (planned, _) = recorded.plan(&ServiceKey::new("default", "affine"));
    assert_eq!(calls(&planned.plan, "deleteNetworkACL"), 1, "{:#?}", planned.plan);
}

#[test]
fn item_of_a_person_on_the_same_port_is_never_touched() {
    let recorded = Recorded::load("go-1.2.0-vpc");
    recorded.edit_rows("listNetworkACLs", |item| {
        if item["startport"] == "443" {
            item["reason"] = "by hand: the shop".into();
        }
    });
    recorded.delete("plain");
    let (planned, _) = recorded.plan(&ServiceKey::new("default", "plain"));
    assert_eq!(calls(&planned.plan, "deleteNetworkACL"), 0, "{:#?}", planned.plan);
}

#[test]
fn address_that_was_allocated_long_before_the_service_is_kept() {
    for (allocated, ours) in [
        ("2026-12-01T20:39:35+0000", false),
        ("2026-12-01T20:39:37+0000", true),
        ("2026-12-01T20:51:35+0000", true),
        ("2026-12-01T20:51:37+0000", false),
    ] {
        let recorded = Recorded::load("go-1.2.0");
        recorded.edit_rows("listPublicIpAddresses", |address| {
            if address["ipaddress"] == "203.0.113.25" {
                address["allocated"] = allocated.into();
            }
        });
        let plain = ServiceKey::new("default", "plain");
        let unproven = |note: &Note| note.code() == "AddressUnproven";
        let adoption = recorded.plan(&plain).0;
        assert_eq!(adoption.report.notes.iter().any(unproven), !ours, "{allocated}");
        recorded.delete("plain");
        let (planned, _) = recorded.plan(&plain);
        let released = calls(&planned.plan, "disassociateIpAddress") == 1;
        assert_eq!(released, ours, "{allocated}");
        let told = planned.report.notes.iter().any(unproven);
        assert_eq!(told, !ours, "{allocated}: {:#?}", planned.report);
        assert!(leaves(&planned.plan));
    }
}

fn adopt(recorded: &Recorded) {
    for planned in recorded.plan_some(&recorded.services(), Depth::Quick).0 {
        assert!(recorded.write(&planned.plan).is_success());
    }
}

fn only_patch(plan: &Plan) -> &PlannedPatch {
    let [step] = plan.steps.as_slice() else { panic!("one write is enough: {plan:#?}") };
    let Action::PatchService(patch) = &step.action else { panic!("no write: {plan:#?}") };
    patch
}

fn written_verdict(service: &RawService) -> Option<Verdict> {
    let text = service.annotations.get(&annotation("ip-associated-by-controller"))?;
    match text.as_str() {
        "true" => Some(Verdict::Ours),
        "false" => Some(Verdict::User),
        _ => None,
    }
}

/// CloudStack commands that change something, with their number.
fn changes(plan: &Plan) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for step in &plan.steps {
        if step.action.kind() == ccm_core::plan::action::Kind::Change {
            *counts.entry(step.action.command()).or_default() += 1;
        }
    }
    counts
}

fn calls(plan: &Plan, command: &str) -> usize {
    changes(plan).get(command).copied().unwrap_or_default()
}

/// Whether the last step lets the Service go.
fn leaves(plan: &Plan) -> bool {
    let last = plan.steps.last().map(|step| &step.action);
    matches!(last, Some(Action::PatchService(patch)) if patch.finalizer == Some(FinalizerChange::Remove))
}

#[test]
fn policy_may_keep_or_release_what_nothing_proves() {
    for (choice, released) in [(AdoptUnrecorded::Keep, false), (AdoptUnrecorded::Release, true)] {
        let mut recorded = Recorded::load("go-1.2.0");
        recorded.policy.adopt_unrecorded_addresses = choice;
        // Long before any of the Services was created.
        recorded.edit_rows("listPublicIpAddresses", |address| {
            address["allocated"] = "2026-11-01T00:00:00+0000".into();
        });
        for key in recorded.services() {
            let recorded = recorded.branch();
            recorded.delete(&key.name);
            let (planned, _) = recorded.plan(&key);
            let released = released || key.name == "pinned";
            assert_eq!(calls(&planned.plan, "disassociateIpAddress") == 1, released, "{key}");
        }
    }
}
