//! Cases 3 and 8: which virtual machines stand behind a rule.

use std::collections::BTreeSet;

use ccm_core::ids::ServiceKey;
use ccm_core::model::policy::NodeReadiness;
use ccm_core::plan::Planned;
use ccm_core::plan::action::Action;
use ccm_core::plan::report::Severity;
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup};
use ccm_tests::trouble::Trouble;

use crate::support::{
    A, CLIENT, all_nodes, annotate, assert_nothing_planned, codes, commands, edit_node, machine,
    names, nic, node, remove_node, report_of_nothing, says, set_node, severity, status,
};

const U2: &str = "00000000-0000-4000-8000-000000000002";
const U3: &str = "00000000-0000-4000-8000-000000000003";
const U4: &str = "00000000-0000-4000-8000-000000000004";
const U9: &str = "00000000-0000-4000-8000-000000000099";
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

fn converged(setup: Setup) -> (Lab, ServiceKey) {
    let mut lab = setup.start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    (lab, web)
}

fn members(lab: &Lab) -> BTreeSet<String> {
    lab.objects().rule(80).members.iter().cloned().collect()
}

/// VMs that a plan assigns.
fn assigned(planned: &Planned) -> Vec<String> {
    let steps = planned.plan.steps.iter();
    let vms = steps.filter_map(|step| match &step.action {
        Action::AssignToLoadBalancerRule(assign) => Some(assign.vms.iter()),
        _ => None,
    });
    vms.flatten().map(ToString::to_string).collect()
}

#[test]
fn c022_a_rule_that_exists_still_gets_its_members() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.troubles.meet_command(1, Trouble::Fails(530), "assignToLoadBalancerRule");
    let (_, outcome) = lab.reconcile(&web);
    assert_eq!(outcome.failed.len(), 1);
    assert!(status(&lab, &web).is_empty());
    lab.restart();
    lab.settle(&web);
    assert_eq!(members(&lab), all_nodes());
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c022_members_removed_by_hand_come_back() {
    let everybody = [
        "00000000-0000-4000-8000-000000000001",
        "00000000-0000-4000-8000-000000000002",
        "00000000-0000-4000-8000-000000000003",
    ];
    for removed in [&everybody[1..2], &everybody[..]] {
        let (mut lab, web) = converged(Setup::standard());
        let rule = lab.objects().rule(80).id();
        let vms = removed.join(",");
        lab.by_hand("removeFromLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vms)]);
        let (planned, outcome) = lab.drift_round(&web);
        assert!(outcome.is_success());
        assert_eq!(commands(&planned), ["assignToLoadBalancerRule"]);
        assert_eq!(assigned(&planned), removed);
        lab.settle(&web);
        assert_eq!(lab.objects().rule(80).id(), rule);
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    }
}

#[test]
fn c023_one_node_without_a_vm_does_not_stop_the_others() {
    for expunged in [true, false] {
        let (mut lab, web) = converged(Setup::standard());
        lab.simulator.with(|simulator| {
            let gone = if expunged { simulator.expunge_vm(U3) } else { simulator.destroy_vm(U3) };
            gone.expect("a VM to remove");
        });
        let joined = format!("external-cloudstack://{U4}");
        set_node(
            &lab,
            ccm_core::parse::raw::RawNode {
                provider_id: Some(joined),
                ..node("node-4", "10.1.1.14")
            },
        );
        let (planned, outcome) = lab.reconcile(&web);
        assert!(outcome.is_success());
        assert_eq!(assigned(&planned), [U4]);
        assert!(says(&planned, "NodeWithoutMachine").contains("node-3"));
        assert_eq!(severity(&planned, "NodeWithoutMachine"), Severity::Warning);
        assert!(planned.report.look_again().is_some_and(|wait| wait.as_secs() <= 60));
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), names(["node-1", "node-2", "node-4"]));
    }
}

fn assert_members_stay(lab: &mut Lab, web: &ServiceKey, code: &str) {
    let before = lab.objects();
    let published = status(lab, web);
    for _ in 0..3 {
        let (planned, _) = lab.drift_round(web);
        assert!(commands(&planned).is_empty(), "{}", lab.print(web));
        assert_eq!(severity(&planned, code), Severity::Warning);
        assert_eq!(severity(&planned, "MembersKept"), Severity::Warning);
        assert!(planned.report.look_again().is_some());
    }
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    assert_eq!(status(lab, web), published);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c024_no_node_can_be_matched() {
    let (mut lab, web) = converged(Setup::standard());
    for name in ["node-1", "node-2", "node-3"] {
        let wrong = format!("external-cloudstack://{U9}");
        edit_node(&lab, name, |node| node.provider_id = Some(wrong));
        lab.simulator.with(|sim| sim.rename_vm(name, &format!("was-{name}"))).expect("a VM");
    }
    let renamed = |lab: &Lab| -> BTreeSet<String> {
        lab.reach(CLIENT, A, 80).iter().map(|name| name.replace("was-", "")).collect()
    };
    assert_eq!(renamed(&lab), all_nodes());
    for name in ["node-1", "node-2", "node-3"] {
        lab.simulator.with(|sim| sim.rename_vm(&format!("was-{name}"), name)).expect("a VM");
        edit_node(&lab, name, |node| node.name = format!("other-{name}"));
        remove_node(&lab, name);
    }
    assert_members_stay(&mut lab, &web, "NodeWithoutMachine");
}

#[test]
fn c024_two_vms_match_and_nothing_tells_them_apart() {
    let mut setup = Setup::standard();
    setup.world.virtual_machines.push(machine("NODE-1", U9, "iso-2", "10.1.2.99"));
    let (mut lab, web) = converged(setup);
    for name in ["node-1", "node-2", "node-3"] {
        remove_node(&lab, name);
    }
    set_node(&lab, node("Node-1", "192.0.2.1"));
    set_node(&lab, node("other", "192.0.2.2"));
    assert_members_stay(&mut lab, &web, "NodeAmbiguous");
}

#[test]
fn c024_a_list_that_fails_gives_no_plan() {
    let (lab, _) = converged(Setup::standard());
    let before = lab.objects();
    lab.troubles.fail_lists();
    assert!(lab.try_read().is_err());
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn c028_a_vm_without_a_nic() {
    type Retouch = fn(&mut ccm_core::observe::VirtualMachine);
    let no_nic: Retouch = |machine| machine.nics.clear();
    let no_address: Retouch = |machine| machine.nics.iter_mut().for_each(|nic| nic.ipv4 = None);
    for retouch in [no_nic, no_address] {
        let mut lab = Setup::standard().start();
        lab.troubles.show(move |state| {
            let mut machines = state.virtual_machines.iter_mut();
            machines.find(|machine| machine.name == "node-2").map(retouch).expect("node-2");
        });
        let web = lab.create("web", |_| ());
        lab.converge(&web);
        let planned = report_of_nothing(&lab, &web);
        assert_eq!(members(&lab), names(["node-1", "node-3"]));
        assert!(says(&planned, "NodeOutsideNetwork").contains("node-2"));
        assert!(planned.report.look_again().is_some_and(|wait| wait.as_secs() <= 60));
        lab.troubles.end();
        let (planned, _) = lab.reconcile(&web);
        assert_eq!(assigned(&planned), [U2]);
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
        // A member that loses its address for a while stays.
        lab.troubles.show(move |state| {
            let mut machines = state.virtual_machines.iter_mut();
            machines.find(|machine| machine.name == "node-2").map(retouch).expect("node-2");
        });
        let (planned, _) = lab.drift_round(&web);
        assert!(commands(&planned).is_empty());
        assert_eq!(members(&lab), all_nodes());
    }
}

#[test]
fn c028_a_nic_in_another_network_only() {
    let mut setup = Setup::standard().nodes(&["node-1", "node-3", "iso2-1"]);
    setup.world.virtual_machines.retain(|machine| machine.name != "node-2");
    let (lab, web) = converged(setup);
    assert_eq!(members(&lab), names(["node-1", "node-3"]));
    assert!(says(&lab.plan(&web).0, "NodeOutsideNetwork").contains("iso2-1"));
}

#[test]
fn c029_the_same_vm_name_twice() {
    let mut setup = Setup::standard();
    setup.world.virtual_machines.push(machine("node-1", U9, "iso-2", "10.9.0.11"));
    let mut lab = setup.start();
    edit_node(&lab, "node-1", |node| node.provider_id = None);
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    assert_eq!(lab.objects().rule(80).text("networkid"), "00000000-0000-4000-8000-0000000000a1");
    let called = lab.simulator.with(|sim| {
        sim.calls().iter().any(|call| call.params.iter().any(|(_, value)| value.contains(U9)))
    });
    assert!(!called);
}

#[test]
fn c029_nothing_tells_them_apart() {
    let mut setup = Setup::standard();
    setup.world.virtual_machines.push(machine("node-1", U9, "iso-2", "10.9.0.11"));
    let mut lab = setup.start();
    edit_node(&lab, "node-1", |node| {
        node.provider_id = None;
        node.addresses.clear();
    });
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), names(["node-2", "node-3"]));
    let planned = report_of_nothing(&lab, &web);
    let text = says(&planned, "NodeAmbiguous");
    assert!(text.contains(U9) && text.contains("00000000-0000-4000-8000-000000000001"), "{text}");
    assert_eq!(severity(&planned, "NodeAmbiguous"), Severity::Warning);
}

#[test]
fn c030_only_vms_that_back_nodes_count() {
    let mut setup = Setup::standard();
    for (number, name) in ["node-99", "node-1-clone"].iter().enumerate() {
        let id = format!("00000000-0000-4000-8000-0000000001{number:02}");
        let address = format!("10.1.1.{}", 50 + number);
        setup.world.virtual_machines.push(machine(name, &id, "iso-1", &address));
    }
    let (mut lab, web) = converged(setup);
    let said = |planned: &Planned| {
        planned.report.notes.iter().any(|note| {
            let text = note.to_string();
            text.contains("node-99") || text.contains("clone")
        })
    };
    remove_node(&lab, "node-2");
    let (planned, _) = lab.reconcile(&web);
    assert!(!said(&planned));
    set_node(&lab, node("node-4", "10.1.1.14"));
    let (planned, _) = lab.reconcile(&web);
    assert!(!said(&planned));
    lab.settle(&web);
    assert_eq!(members(&lab), names(["node-1", "node-3", "node-4"]));
}

#[test]
fn c031_no_nodes_at_all() {
    for expunged in [false, true] {
        let (mut lab, web) = converged(Setup::standard());
        let before = lab.objects().only(|object| object.list != "listLoadBalancerRules");
        let rule = lab.objects().rule(80).id();
        let published = status(&lab, &web);
        for name in ["node-1", "node-2", "node-3"] {
            remove_node(&lab, name);
            if expunged {
                lab.simulator.with(|simulator| simulator.expunge_vm(name)).expect("a VM");
            }
        }
        lab.settle(&web);
        let planned = report_of_nothing(&lab, &web);
        let text = says(&planned, "NoEligibleNodes");
        assert_eq!(text, "There are no available nodes for LoadBalancer");
        assert!(members(&lab).is_empty());
        assert_eq!(lab.objects().only(|object| object.list != "listLoadBalancerRules"), before);
        assert_eq!(lab.objects().rule(80).id(), rule);
        assert_eq!(status(&lab, &web), published);
        set_node(&lab, node("node-4", "10.1.1.14"));
        let (planned, _) = lab.reconcile(&web);
        assert_eq!(commands(&planned), ["assignToLoadBalancerRule"]);
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), names(["node-4"]));
    }
}

#[test]
fn c031_a_new_service_without_nodes_waits_for_the_first() {
    let mut lab = Setup::standard().nodes(&[]).start();
    let web = lab.create("web", |_| ());
    lab.converge(&web);
    assert_eq!(codes(&report_of_nothing(&lab, &web)), ["NoEligibleNodes"]);
    assert_eq!(lab.changing_calls(), Vec::<&str>::new());
    set_node(&lab, node("node-4", "10.1.1.14"));
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 80), names(["node-4"]));
}

#[test]
fn c032_which_nodes_are_members() {
    for (label, taint, member) in [
        (Some("true"), None, false),
        (Some(""), None, false),
        (Some("false"), None, true),
        (None, Some("ToBeDeletedByClusterAutoscaler"), false),
        (None, Some("node.kubernetes.io/not-ready"), true),
    ] {
        let mut lab = Setup::standard().start();
        edit_node(&lab, "node-1", |node| {
            node.taints.push("node.kubernetes.io/unschedulable".to_owned());
        });
        edit_node(&lab, "node-2", |node| {
            node.labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
            node.taints.push("node-role.kubernetes.io/control-plane".to_owned());
        });
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        edit_node(&lab, "node-3", |node| {
            if let Some(value) = label {
                node.labels.insert(EXCLUDE.to_owned(), value.to_owned());
            }
            node.taints.extend(taint.map(str::to_owned));
        });
        lab.settle(&web);
        let expected = if member { all_nodes() } else { names(["node-1", "node-2"]) };
        assert_eq!(members(&lab), expected, "{label:?} {taint:?}");
    }
    let mut lab = Setup::standard().nodes(&["node-1"]).start();
    edit_node(&lab, "node-1", |node| {
        node.labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
    });
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(members(&lab), names(["node-1"]));
}

fn set_ready(lab: &Lab, ready: [Option<&str>; 3]) {
    for (name, ready) in ["node-1", "node-2", "node-3"].into_iter().zip(ready) {
        edit_node(lab, name, |node| node.ready = ready.map(str::to_owned));
    }
}

/// Row 9 of the contract's appendix, and the option beside it.
#[test]
fn c032_readiness_counts_only_where_it_is_asked_for() {
    const YES: Option<&str> = Some("True");
    for (ready, expected) in [
        ([YES, YES, Some("False")], names(["node-1", "node-2"])),
        ([YES, Some("Unknown"), Some("False")], names(["node-1"])),
        ([YES, YES, None], names(["node-1", "node-2"])),
        ([Some("False"), Some("Unknown"), Some("False")], all_nodes()),
        ([YES, YES, YES], all_nodes()),
    ] {
        for (readiness, expected) in
            [(NodeReadiness::Ignore, all_nodes()), (NodeReadiness::Ready, expected)]
        {
            let mut lab = Setup::standard().start();
            lab.policy.node_readiness = readiness;
            set_ready(&lab, [YES; 3]);
            let web = lab.create("web", |_| ());
            lab.settle(&web);
            assert_eq!(members(&lab), all_nodes());
            set_ready(&lab, ready);
            lab.settle(&web);
            assert_eq!(members(&lab), expected, "{readiness:?} {ready:?}");
            assert_eq!(lab.reach(CLIENT, A, 80), expected);
            assert_nothing_planned(&lab, &web);
        }
    }
}

/// The floor is one of each rule's network, not of the cluster.
#[test]
fn c032_readiness_leaves_no_network_without_members() {
    let mut lab = Setup::standard().nodes(&["node-1"]).start();
    lab.policy.node_readiness = NodeReadiness::Ready;
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let ready = Some("True".to_owned());
    set_node(&lab, ccm_core::parse::raw::RawNode { ready, ..node("iso2-1", "10.1.2.11") });
    edit_node(&lab, "node-1", |node| node.ready = Some("False".to_owned()));
    lab.settle(&web);
    assert_eq!(members(&lab), names(["node-1"]));
}

#[test]
fn c064_identity_is_the_provider_id() {
    let mut setup = Setup::standard().nodes(&["node-1"]);
    setup.world.virtual_machines.push(machine("called-otherwise", U9, "iso-1", "10.1.1.77"));
    let mut lab = setup.start();
    let mut md = node("md-0-x", "10.1.1.77");
    md.provider_id = Some(format!("cloudstack:///{U9}"));
    set_node(&lab, md);
    set_node(&lab, node("just-born", "10.1.1.78"));
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(members(&lab), names(["node-1", "called-otherwise"]));
    assert!(says(&lab.plan(&web).0, "NodeWithoutMachine").contains("just-born"));
}

#[test]
fn c064_a_machine_of_another_project_proves_nothing() {
    let mut lab = Setup::standard().nodes(&["node-1", "web-1"]).start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(members(&lab), names(["node-1"]));
    let nodes =
        |lab: &Lab| lab.cluster.with(|cluster| cluster.nodes().cloned().collect::<Vec<_>>());
    let before = nodes(&lab);
    for _ in 0..3 {
        lab.runtime.pass(600);
        let (planned, _) = lab.drift_round(&web);
        assert!(planned.plan.is_empty());
        let text = says(&planned, "NodeWithoutMachine");
        let machine = "00000000-0000-4000-8000-000000000031";
        for word in ["web-1", machine, "no project", "project-id"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
    assert_eq!(nodes(&lab), before);
}

#[test]
fn c065_every_spelling_of_a_provider_id() {
    for (id, member) in [
        (format!("external-cloudstack://{U9}"), true),
        (format!("external-cloudstack:///{U9}"), true),
        (format!("cloudstack:///{U9}"), true),
        (format!("cloudstack://{U9}"), true),
        (format!("cloudstack://region-1/{U9}"), true),
        (U9.to_owned(), true),
        (U9.to_uppercase(), true),
        ("external-cloudstack://".to_owned(), false),
        (String::new(), false),
        ("kind://x/y".to_owned(), false),
        ("aws:///zone/i-1".to_owned(), false),
    ] {
        let mut setup = Setup::standard().nodes(&["node-1"]);
        let unlike = world::VirtualMachine {
            nics: vec![nic("iso-1", "10.1.1.77")],
            ..machine("unlike", U9, "iso-1", "10.1.1.77")
        };
        setup.world.virtual_machines.push(unlike);
        let mut lab = setup.start();
        let mut md = node("md-0-x", "10.1.1.77");
        md.provider_id = Some(id.clone());
        set_node(&lab, md);
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        assert_eq!(members(&lab).contains("unlike"), member, "{id:?}");
        // What another cloud runs is nobody's business here.
        let foreign = id.starts_with("kind") || id.starts_with("aws");
        let silent = codes(&lab.plan(&web).0).is_empty();
        assert_eq!(silent, member || foreign, "{id:?}");
    }
}

#[test]
fn c066_capital_letters() {
    let mut setup = Setup::standard().nodes(&["node-1"]);
    setup.world.virtual_machines.push(machine("Prod-Node-1", U9, "iso-1", "10.1.1.77"));
    let mut lab = setup.clone().start();
    set_node(&lab, node("prod-node-1", "192.0.2.1"));
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(members(&lab), names(["node-1", "Prod-Node-1"]));

    let other = "00000000-0000-4000-8000-000000000098";
    setup.world.virtual_machines.push(machine("PROD-node-1", other, "iso-2", "10.1.2.78"));
    let mut lab = setup.start();
    set_node(&lab, node("prod-node-1", "192.0.2.1"));
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(members(&lab), names(["node-1"]));
    let text = says(&lab.plan(&web).0, "NodeAmbiguous");
    assert!(text.contains(U9) && text.contains(other), "{text}");
}

#[test]
fn c067_node_and_vm_have_different_names() {
    for provided in [true, false] {
        let mut setup = Setup::standard().nodes(&["node-1"]);
        setup.world.virtual_machines.push(machine("vm-5", U9, "iso-1", "10.1.1.15"));
        let mut lab = setup.start();
        let mut w_a = node("w-a", "10.1.1.15");
        w_a.provider_id = provided.then(|| format!("external-cloudstack://{U9}"));
        set_node(&lab, w_a);
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        assert_eq!(members(&lab).contains("vm-5"), provided);
        if !provided {
            let text = says(&lab.plan(&web).0, "NodeWithoutMachine");
            assert!(text.contains("w-a") && text.contains("providerID"), "{text}");
        }
    }
}

#[test]
fn c074_a_vm_that_is_gone_leaves_without_a_failing_call() {
    let (mut lab, web) = converged(Setup::standard());
    lab.simulator.with(|simulator| simulator.expunge_vm(U3)).expect("a VM");
    let calls = lab.changing_calls().len();
    lab.settle(&web);
    assert_eq!(lab.changing_calls().len(), calls, "the mapping ended with the VM");
    remove_node(&lab, "node-3");
    lab.settle(&web);
    assert_eq!(members(&lab), names(["node-1", "node-2"]));
}

#[test]
fn c076_a_stopped_vm_stays_a_member() {
    let (mut lab, web) = converged(Setup::standard());
    lab.simulator.with(|simulator| simulator.stop_vm(U2)).expect("a VM");
    assert!(commands(&lab.drift_round(&web).0).is_empty());
    assert_eq!(members(&lab), all_nodes());
    lab.simulator.with(|simulator| simulator.start_vm(U2)).expect("a VM");
    assert_nothing_planned(&lab, &web);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c084_one_call_per_rule_and_direction() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |raw| {
        raw.ports = (0..10)
            .map(|n| ccm_tests::lab::port(&format!("p{n}"), "TCP", 80 + n, 30080 + n))
            .collect();
    });
    lab.settle(&web);
    for name in ["node-1", "node-2"] {
        remove_node(&lab, name);
    }
    set_node(&lab, node("node-4", "10.1.1.14"));
    let (planned, outcome) = lab.reconcile(&web);
    assert!(outcome.is_success());
    let count = |command| commands(&planned).iter().filter(|found| **found == command).count();
    assert_eq!(count("assignToLoadBalancerRule"), 10);
    assert_eq!(count("removeFromLoadBalancerRule"), 10);
    assert_eq!(commands(&planned).len(), 20);
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, A, 85), names(["node-3", "node-4"]));
}

#[test]
fn c107_the_vm_is_replaced_under_the_same_name() {
    let (mut lab, web) = converged(Setup::standard());
    let rule = lab.objects().rule(80).id();
    lab.simulator.with(|simulator| {
        simulator.expunge_vm(U2).expect("a VM");
        simulator.add_vm(&machine("node-2", U9, "iso-1", "10.1.1.12")).expect("a network");
    });
    let (planned, outcome) = lab.reconcile(&web);
    assert!(outcome.is_success());
    assert_eq!(assigned(&planned), [U9]);
    let text = says(&planned, "ProviderIDStale");
    for word in ["node-2", U2, U9] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(severity(&planned, "ProviderIDStale"), Severity::Warning);
    lab.settle(&web);
    assert_eq!(lab.objects().rule(80).id(), rule);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    lab.cluster.with(|cluster| {
        let node = cluster.nodes().find(|node| node.name == "node-2").expect("node-2");
        assert_eq!(node.provider_id, Some(format!("external-cloudstack://{U2}")));
    });
}

#[test]
fn c107_another_vm_of_that_name_is_not_taken_for_it() {
    let (mut lab, web) = converged(Setup::standard());
    lab.simulator.with(|simulator| {
        simulator.expunge_vm(U2).expect("a VM");
        simulator.add_vm(&machine("node-2", U9, "iso-1", "10.1.1.200")).expect("a network");
    });
    lab.converge(&web);
    assert_eq!(members(&lab), names(["node-1", "node-3"]));
    assert!(says(&lab.plan(&web).0, "NodeWithoutMachine").contains("node-2"));
}

#[test]
fn a_refused_service_still_follows_the_nodes() {
    type Mistake = fn(&mut ccm_core::parse::raw::RawService);
    let mistakes: [Mistake; 3] = [
        |raw| annotate(raw, "proxy-protocol", "maybe"),
        |raw| raw.load_balancer_ip = Some("203.0.113.53".to_owned()),
        |raw| raw.load_balancer_ip = Some("203.0.113.52".to_owned()),
    ];
    for mistake in mistakes {
        let (mut lab, web) = converged(Setup::standard());
        let before = lab.objects().only(|object| object.list != "listLoadBalancerRules");
        lab.edit(&web, mistake);
        assert_nothing_planned(&lab, &web);
        remove_node(&lab, "node-1");
        set_node(&lab, node("node-4", "10.1.1.14"));
        let (planned, _) = lab.plan(&web);
        let expected = ["assignToLoadBalancerRule", "removeFromLoadBalancerRule"];
        assert_eq!(commands(&planned), expected);
        assert!(planned.report.is_blocked());
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), names(["node-2", "node-3", "node-4"]));
        // And back to the nodes whose digest was once recorded.
        remove_node(&lab, "node-4");
        set_node(&lab, node("node-1", "10.1.1.11"));
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
        assert_eq!(lab.objects().only(|object| object.list != "listLoadBalancerRules"), before);
        assert_eq!(status(&lab, &web), [format!("{A} VIP")]);
    }
}
