//! Cases 7 and 14: Services that go.

use ccm_core::exec::error::Fault;
use ccm_core::ids::ServiceKey;
use ccm_core::plan::action::Call;
use ccm_core::plan::report::Severity;
use ccm_tests::lab::{Lab, Setup, annotation, port};
use ccm_tests::trouble::Trouble;

use crate::support::{
    A, CLIENT, USERS, accepted, all_nodes, assert_nothing_planned, commands, prefix,
    report_of_nothing, says, severity, status,
};

fn two_ports(lab: &mut Lab, address: Option<&str>) -> ServiceKey {
    let web = lab.create("web", |raw| {
        raw.ports.push(port("https", "TCP", 443, 30443));
        raw.load_balancer_ip = address.map(str::to_owned);
    });
    lab.settle(&web);
    web
}

#[test]
fn c058_an_opening_that_could_not_be_closed_is_not_forgotten() {
    for address in [Some(USERS), None] {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = two_ports(&mut lab, address);
        let at = address.unwrap_or(A);
        lab.troubles.meet(
            3,
            Trouble::Fails(530),
            |call| matches!(call, Call::DeleteFirewallRule(delete) if delete.port.number == 80),
        );
        lab.delete(&web);
        for _ in 0..3 {
            let (planned, outcome) = lab.reconcile(&web);
            assert_eq!(outcome.failed.len(), 1, "{}", lab.print(&web));
            assert!(commands(&planned).contains(&"deleteFirewallRule"));
            assert_eq!(lab.reach(CLIENT, at, 80), all_nodes(), "open, so it is served");
            assert!(lab.reach(CLIENT, at, 443).is_empty());
            assert_eq!(lab.objects().openings(), ["80 0.0.0.0/0"]);
            assert!(lab.service(&web).is_some(), "the finalizer stays");
        }
        lab.settle(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        let calls = lab.changing_calls();
        let released = calls.last() == Some(&"disassociateIpAddress");
        assert_eq!(released, address.is_none());
    }
}

#[test]
fn c058_killed_after_every_step() {
    let new = || {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = two_ports(&mut lab, None);
        lab.delete(&web);
        (lab, web, before)
    };
    let length = new().0.plan(&new().1).0.plan.steps.len();
    for died_after in 0..=length {
        let (mut lab, web, before) = new();
        assert!(lab.execute(&prefix(&lab.plan(&web).0, died_after)).is_success());
        lab.restart();
        lab.settle(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
    for lost in 0..length {
        let (mut lab, web, before) = new();
        let command = lab.plan(&web).0.plan.steps[lost].action.command();
        lab.troubles.meet_command(1, Trouble::AnswerLost, command);
        lab.recover(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        assert!(accepted(&lab, "disassociateIpAddress") <= 1);
    }
}

/// Removes things by hand before the deletion is planned, or between planning and executing.
fn gone_by_hand(release: &str, late: bool, by_hand: impl Fn(&Lab, &ServiceKey)) {
    let mut lab = Setup::standard().release(release).start();
    let before = lab.objects();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.delete(&web);
    if late {
        let (planned, _) = lab.plan(&web);
        by_hand(&lab, &web);
        let outcome = lab.execute(&planned);
        assert!(outcome.failed.len() <= 1, "{outcome:#?}");
    } else {
        by_hand(&lab, &web);
    }
    lab.recover(&web);
    assert_eq!(lab.service(&web), None);
    let strangers = lab.objects().only(|object| object.text("name") != "somebody-elses");
    let left: Vec<_> = strangers.rules().iter().map(|rule| rule.id()).collect();
    assert_eq!(left, Vec::<String>::new());
    assert!(before.addresses().iter().all(|address| lab.objects().addresses().contains(address)));
}

fn delete_rule(lab: &Lab) {
    let id = lab.objects().rule(80).id();
    lab.by_hand("deleteLoadBalancerRule", &[("id", &id)]);
}

fn delete_opening(lab: &Lab) {
    let id = lab.objects().firewall_rules()[0].id();
    lab.by_hand("deleteFirewallRule", &[("id", &id)]);
}

#[test]
fn c060_what_is_already_gone_counts_as_done() {
    for release in ["4.22.0.0", "4.23.0.0"] {
        for late in [false, true] {
            gone_by_hand(release, late, |lab, _| delete_rule(lab));
            gone_by_hand(release, late, |lab, _| delete_opening(lab));
            gone_by_hand(release, late, |lab, _| {
                delete_rule(lab);
                delete_opening(lab);
            });
            gone_by_hand(release, late, |lab, _| {
                lab.simulator.with(|simulator| simulator.expunge_vm("node-2")).expect("a VM");
            });
            gone_by_hand(release, late, |lab, _| {
                let id = lab.objects().address(A).id();
                lab.by_hand("disassociateIpAddress", &[("id", &id)]);
            });
        }
    }
}

#[test]
fn c060_an_address_that_is_somebody_elses_by_now_stays() {
    for late in [false, true] {
        gone_by_hand("4.22.0.0", late, |lab, _| {
            let id = lab.objects().address(A).id();
            lab.by_hand("disassociateIpAddress", &[("id", &id)]);
            let network = "00000000-0000-4000-8000-0000000000a1";
            lab.by_hand("associateIpAddress", &[("ipaddress", A), ("networkid", network)]);
            let calls = accepted(lab, "disassociateIpAddress");
            assert_eq!(calls, 1);
        });
    }
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.delete(&web);
    let (planned, _) = lab.plan(&web);
    let id = lab.objects().address(A).id();
    lab.by_hand("disassociateIpAddress", &[("id", &id)]);
    let network = "00000000-0000-4000-8000-0000000000a1";
    lab.by_hand("associateIpAddress", &[("ipaddress", A), ("networkid", network)]);
    let _ = lab.execute(&planned);
    lab.recover(&web);
    assert!(lab.objects().addresses().contains(&A.to_owned()));
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 1, "ours was the one by hand");
}

#[test]
fn c060_nothing_was_ever_recorded() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |raw| {
        raw.finalizers.push(ccm_core::model::record::FINALIZER.to_owned());
    });
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.service(&web), None);
    assert_eq!(lab.changing_calls(), Vec::<&str>::new());
}

#[test]
fn c061_a_service_in_deletion_that_never_had_our_finalizer() {
    let lab = Setup::standard().start();
    let web = lab.create("web", |raw| raw.finalizers.push("foreign/finalizer".to_owned()));
    lab.delete(&web);
    let planned = report_of_nothing(&lab, &web);
    assert!(planned.report.is_empty());
    assert!(lab.service(&web).is_some());
}

#[test]
fn c063_the_type_changes_while_we_run() {
    let new = || {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        lab.cluster.with(|cluster| cluster.set_type(&web, "ClusterIP")).expect("a Service");
        (lab, web, before)
    };
    let length = new().0.plan(&new().1).0.plan.steps.len();
    for died_after in 0..=length {
        let (mut lab, web, before) = new();
        assert!(lab.execute(&prefix(&lab.plan(&web).0, died_after)).is_success());
        lab.restart();
        lab.settle(&web);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
        let service = lab.service(&web).expect("the Service");
        assert!(service.ingress.is_empty() && service.finalizers.is_empty());
        let ours = service.annotations.keys().filter(|key| key.starts_with(&annotation("")));
        assert_eq!(ours.count(), 0, "{:?}", service.annotations);
        lab.cluster.with(|cluster| cluster.set_type(&web, "LoadBalancer")).expect("a Service");
        lab.settle(&web);
        assert!(lab.plan(&web).0.report.is_empty());
        let published = status(&lab, &web).remove(0);
        assert_eq!(lab.reach(CLIENT, published.split(' ').next().unwrap(), 80), all_nodes());
    }
}

#[test]
fn c063_back_before_we_noticed_keeps_the_address() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    let before = lab.objects();
    lab.cluster.with(|cluster| cluster.set_type(&web, "NodePort")).expect("a Service");
    lab.cluster.with(|cluster| cluster.set_type(&web, "LoadBalancer")).expect("a Service");
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    assert_eq!(status(&lab, &web), [format!("{A} VIP")]);
}

#[test]
fn c077_services_of_another_class() {
    let lab = Setup::standard().start();
    let class = Some("example.test/other".to_owned());
    let new = lab.create("new", |raw| raw.load_balancer_class.clone_from(&class));
    let leaving = lab.create("leaving", |raw| {
        raw.load_balancer_class.clone_from(&class);
        raw.finalizers.push(ccm_core::model::record::FINALIZER.to_owned());
    });
    lab.delete(&leaving);
    for key in [&new, &leaving] {
        assert!(report_of_nothing(&lab, key).report.is_empty());
    }
    assert!(lab.service(&leaving).is_some());
}

#[test]
fn c098_half_made_then_deleted() {
    for address in [None, Some("203.0.113.20")] {
        let mut lab = Setup::standard().nodes(&["tier1-1", "tier1-2"]).start();
        let before = lab.objects();
        lab.troubles.meet(usize::MAX, Trouble::Fails(431), |call| {
            matches!(call, Call::CreateLoadBalancerRule(create) if create.public_port == 443)
        });
        let web = lab.create("web", |raw| {
            raw.ports.push(port("https", "TCP", 443, 30443));
            raw.load_balancer_ip = address.map(str::to_owned);
        });
        for _ in 0..3 {
            let (_, outcome) = lab.reconcile(&web);
            assert_eq!(outcome.failed.len(), 1);
        }
        assert_eq!(lab.objects().rules().len(), 1);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
}

#[test]
fn c098_nothing_worked_then_deleted() {
    let mut lab = Setup::standard().start();
    let before = lab.objects();
    lab.troubles.meet_command(usize::MAX, Trouble::Fails(530), "createLoadBalancerRule");
    let web = lab.create("web", |_| ());
    for _ in 0..2 {
        let _ = lab.reconcile(&web);
    }
    assert_eq!(lab.objects().addresses().len(), before.addresses().len() + 1);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

#[test]
fn an_invalid_service_is_deleted_like_any_other() {
    let mut lab = Setup::standard().start();
    let before = lab.objects();
    let web = two_ports(&mut lab, None);
    lab.edit(&web, |raw| {
        crate::support::annotate(raw, "proxy-protocol", "maybe");
        raw.ports.remove(0);
    });
    assert_nothing_planned(&lab, &web);
    lab.delete(&web);
    lab.settle(&web);
    assert_eq!(lab.service(&web), None);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

/// 4.18 does not tell whether an address has rules: there only the list shows the forward.
#[test]
fn a_users_port_forward_keeps_the_address() {
    for release in ["4.18.0.0", "4.22.0.0"] {
        let mut lab = Setup::standard().release(release).start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        let forward = ccm_simulator::world::PortForward {
            address: A.parse().unwrap(),
            start_port: 2222,
            end_port: None,
            id: None,
        };
        let added = lab.simulator.with(|simulator| simulator.add_port_forward(&forward));
        let id = added.expect("an address to forward from");
        lab.delete(&web);
        let (_, outcome) = lab.reconcile(&web);
        assert_eq!(outcome.failed.len(), 1, "{outcome:#?}");
        let why = outcome.failed.values().next().map(ToString::to_string).unwrap();
        assert!(why.contains(&format!("port forwarding rule {id} is on it")), "{why}");
        assert_eq!(outcome.worst_fault, Some(Fault::Refused));
        lab.runtime.pass(330);
        let (planned, outcome) = lab.reconcile(&web);
        assert!(outcome.is_success(), "{outcome:#?}");
        assert!(planned.report.notes.iter().any(|note| note.to_string().contains(&id)));
        assert_eq!(lab.service(&web), None, "what stays is said, and the Service goes");
        assert!(lab.objects().addresses().contains(&A.to_owned()));
        assert!(lab.objects().rules().is_empty() && lab.objects().openings().is_empty());
        assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
    }
}

#[test]
fn a_stranger_came_to_the_address_meanwhile() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.delete(&web);
    let (planned, _) = lab.plan(&web);
    let id = lab.objects().address(A).id();
    lab.by_hand(
        "createFirewallRule",
        &[("ipaddressid", &id), ("protocol", "tcp"), ("startport", "22"), ("endport", "22")],
    );
    let outcome = lab.execute(&planned);
    assert_eq!(outcome.failed.len(), 1, "the fresh read stops the release");
    let (planned, _) = lab.plan(&web);
    assert!(says(&planned, "AddressInUse").contains(A));
    assert_eq!(severity(&planned, "AddressInUse"), Severity::Warning);
    lab.settle(&web);
    assert_eq!(lab.objects().openings(), ["22 0.0.0.0/0"]);
    assert_eq!(accepted(&lab, "disassociateIpAddress"), 0);
}
