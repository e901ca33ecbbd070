//! Cases 2: a new address, and what becomes of it when we die, fail or hear nothing half way.

use ccm_core::exec::error::Fault;
use ccm_core::ids::{PublicIpId, ServiceKey};
use ccm_core::observe::{AddressState, AssociateJob};
use ccm_core::plan::action::Kind;
use ccm_core::plan::report::Severity;
use ccm_simulator::faults::{Fault as ServerFault, FaultKind, Mishap};
use ccm_tests::lab::{Lab, Setup};
use ccm_tests::trouble::Trouble;

use super::tier_setup;
use crate::support::{
    A, CLIENT, accepted, all_nodes, annotated, assert_nothing_planned, calls_of, codes, commands,
    prefix, report_of_nothing, severity, status, steps, verdict,
};

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

/// Whether objects are to be tagged, and whether the role may.
const TAGGING: [(bool, bool); 3] = [(false, true), (true, true), (true, false)];

#[test]
fn c010_one_address_wherever_we_die() {
    for (tags, permitted) in TAGGING {
        for setup in [Setup::standard(), tier_setup()] {
            die_everywhere(&setup, tags, permitted);
        }
    }
}

fn die_everywhere(setup: &Setup, tags: bool, permitted: bool) {
    let before = setup.clone().start().objects().addresses();
    let new = || {
        let mut lab = setup.clone().start();
        lab.policy.ownership_tags = tags;
        if !permitted {
            let denied = Mishap::Error { code: 432, text: "The API does not exist".to_owned() };
            let fault = ServerFault::on("createTags", FaultKind::Before(denied));
            lab.simulator.with(|simulator| simulator.inject(fault));
        }
        let key = lab.create("web", |_| ());
        (lab, key)
    };
    let length = new().0.plan(&new().1).0.plan.steps.len();
    let again = if tags { vec![length / 2] } else { vec![0, 1, length / 2, length] };
    for first in 0..=length {
        for second in again.iter().copied() {
            let (mut lab, key) = new();
            for died_after in [first, second] {
                let planned = prefix(&lab.plan(&key).0, died_after);
                let outcome = lab.execute(&planned);
                assert!(outcome.is_success() || !permitted, "{outcome:?}");
                lab.restart();
            }
            lab.recover(&key);
            assert_eq!(accepted(&lab, "createTags") > 0, tags && permitted);
            assert_one_address(&mut lab, &key, &before);
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
                assert_eq!(outcome.worst_fault, Some(Fault::Quota));
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
                    // What the server knows nothing of is asked about until it would have forgotten.
                    lab.runtime.pass(12 * 3600);
                    lab.recover(&web);
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
fn c109_an_address_that_a_late_job_gave_is_released() {
    for deleted in [false, true] {
        let before = Setup::standard().start().objects().addresses();
        let (mut lab, web) = unanswered(Trouble::AnswerLost);
        lab.troubles.show(|state| {
            for job in state.jobs.values_mut() {
                *job = AssociateJob::Unknown;
            }
        });
        lab.runtime.pass(16 * 60);
        let (_, outcome) = lab.reconcile(&web);
        assert!(outcome.is_success());
        assert_eq!(accepted(&lab, "associateIpAddress"), 2);
        let intent = annotated(&lab, &web, "ip-intent");
        assert!(intent.is_some(), "the first call is still asked about");
        lab.restart();
        assert_nothing_planned(&lab, &web);
        if deleted {
            lab.delete(&web);
            assert!(lab.reconcile(&web).1.is_success());
            assert!(lab.service(&web).is_some(), "the finalizer stays until the job is answered");
        }
        lab.troubles.end();
        lab.recover(&web);
        assert_eq!(lab.objects().addresses().len(), before.len() + usize::from(!deleted));
        if deleted {
            assert_eq!(lab.service(&web), None);
        } else {
            assert_eq!(annotated(&lab, &web, "ip-intent"), None);
            assert_eq!(accepted(&lab, "createLoadBalancerRule"), 1, "it stays where it is");
        }
    }
}

#[test]
fn c109_a_served_service_adopts_nothing_when_a_job_expires() {
    let (mut lab, web) = unanswered(Trouble::RequestLost);
    let network = "00000000-0000-4000-8000-0000000000a1";
    lab.by_hand("associateIpAddress", &[("networkid", network)]);
    let theirs = lab.objects().addresses();
    lab.runtime.pass(16 * 60);
    assert!(lab.reconcile(&web).1.is_success());
    lab.runtime.pass(13 * 3600);
    let (planned, _) = lab.plan(&web);
    assert_eq!(severity(&planned, "AssociateLost"), Severity::Warning);
    lab.recover(&web);
    assert_eq!(annotated(&lab, &web, "ip-intent"), None);
    lab.delete(&web);
    lab.recover(&web);
    assert_eq!(lab.objects().addresses(), theirs);
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
fn c109_an_address_taken_elsewhere_in_the_same_minute_is_not_adopted() {
    let (mut lab, web) = unanswered(Trouble::RequestLost);
    let elsewhere = "00000000-0000-4000-8000-0000000000a2";
    let taken = lab.by_hand("associateIpAddress", &[("networkid", elsewhere)]);
    let theirs = taken["id"].as_str().expect("an address").to_owned();
    lab.runtime.pass(13 * 3600);
    lab.restart();
    let (planned, _) = lab.plan(&web);
    assert_eq!(severity(&planned, "AssociateLost"), Severity::Warning);
    lab.recover(&web);
    lab.delete(&web);
    lab.recover(&web);
    assert_eq!(lab.service(&web), None);
    let now = lab.now();
    let params = [("id", theirs.as_str()), ("listall", "true")];
    let found = lab.simulator.with(|s| s.call("prod", "listPublicIpAddresses", &params, now));
    assert!(found.body.contains(&theirs), "{}", found.body);
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

/// CloudStack forgets jobs, and a Service may be refused for longer than that.
#[test]
fn c109_an_address_that_came_late_is_recorded_even_while_the_service_is_refused() {
    let (mut lab, web) = unanswered(Trouble::AnswerLost);
    for name in ["node-1", "node-2", "node-3"] {
        lab.cluster.with(|cluster| cluster.remove_node(name));
    }
    lab.settle(&web);
    assert_eq!(annotated(&lab, &web, "ip-intent"), None);
    assert!(annotated(&lab, &web, "record").is_some());
    assert_eq!(verdict(&lab, &web).as_deref(), Some("true"));
    lab.runtime.pass(13 * 3600);
    lab.add_node("node-1");
    lab.settle(&web);
    assert_eq!(accepted(&lab, "associateIpAddress"), 1);
    assert_eq!(status(&lab, &web), [format!("{A} VIP")]);
}

#[test]
fn c109_a_refused_service_forgets_calls_that_are_over() {
    let refused = |trouble| {
        let (lab, web) = unanswered(trouble);
        for name in ["node-1", "node-2", "node-3"] {
            lab.cluster.with(|cluster| cluster.remove_node(name));
        }
        (lab, web)
    };
    // It failed, and left nothing.
    let (mut lab, web) = refused(Trouble::RequestLost);
    lab.troubles.show(|state| {
        for job in state.jobs.values_mut() {
            *job = AssociateJob::Failed(None);
        }
    });
    assert!(lab.reconcile(&web).1.is_success());
    assert_eq!(annotated(&lab, &web, "ip-intent"), None);
    assert_nothing_planned(&lab, &web);

    // Nobody can say any more: a person is told, once.
    let (mut lab, web) = refused(Trouble::RequestLost);
    lab.runtime.pass(13 * 3600);
    let (planned, outcome) = lab.reconcile(&web);
    assert!(outcome.is_success());
    assert_eq!(severity(&planned, "AssociateLost"), Severity::Warning);
    assert_eq!(annotated(&lab, &web, "ip-intent"), None);
    assert!(!codes(&report_of_nothing(&lab, &web)).contains(&"AssociateLost"));

    // It left an address half-made: that goes first.
    let (mut lab, web) = refused(Trouble::AnswerLost);
    let made = lab.objects().address(A).id();
    lab.troubles.show(move |state| {
        let made = PublicIpId::parse(&made).expect("an id");
        for address in state.addresses.iter_mut().filter(|address| address.id == made) {
            address.state = AddressState::Allocating;
        }
        for job in state.jobs.values_mut() {
            *job = AssociateJob::Failed(Some(made.clone()));
        }
    });
    let (planned, _) = lab.reconcile(&web);
    assert_eq!(commands(&planned), ["disassociateIpAddress"]);
    lab.settle(&web);
    assert_eq!(annotated(&lab, &web, "ip-intent"), None);
    let left = lab.objects().addresses();
    assert!(!left.contains(&A.to_owned()), "{left:#?}");
}

/// A list may show the past: the job says what came of it.
#[test]
fn c109_an_address_that_a_list_does_not_show_as_allocated_yet_is_waited_for() {
    let (mut lab, web) = unanswered(Trouble::AnswerLost);
    lab.troubles.show(|state| {
        for address in state.addresses.iter_mut().filter(|row| row.address.to_string() == A) {
            address.state = AddressState::Allocating;
        }
    });
    let planned = report_of_nothing(&lab, &web);
    assert_eq!(codes(&planned), ["AssociateRunning"]);
    lab.troubles.end();
    lab.settle(&web);
    assert_eq!(accepted(&lab, "associateIpAddress"), 1);
}
