//! Tags, where `ownership-tags` is on.

use ccm_core::ids::ServiceKey;
use ccm_core::plan::report::Severity;
use ccm_tests::lab::{Lab, Setup, uid_of};
use ccm_tests::objects::Object;
use ccm_tests::trouble::Trouble;

use crate::adoption::tier_left_by_go;
use crate::support::{
    A, CLIENT, accepted, all_nodes, allocated, assert_nothing_planned, commands, edit_node,
    left_by_go, served_by_go, severity, status, strip,
};

/// A laboratory in which everything is tagged.
fn tagging(setup: Setup) -> Lab {
    let mut lab = setup.start();
    lab.policy.ownership_tags = true;
    lab
}

/// The value of `k8s-service` on an object.
fn tagged_service(object: &Object) -> Option<String> {
    let tags = object.fields["tags"].as_array()?;
    let tag = tags.iter().find(|tag| tag["key"] == "k8s-service")?;
    Some(tag["value"].as_str()?.to_owned())
}

fn ask_for(lab: &Lab, name: &str, address: &str) -> ServiceKey {
    lab.create(name, |raw| raw.load_balancer_ip = Some(address.to_owned()))
}

#[test]
fn everything_that_is_made_is_tagged_with_one_call_for_each_type() {
    for nodes in [&["node-1", "node-2", "node-3"][..], &["tier1-1", "tier1-2"]] {
        let mut lab = tagging(Setup::standard().nodes(nodes));
        let web = lab.create("web", |raw| {
            raw.ports.push(ccm_tests::lab::port("https", "TCP", 443, 30443));
        });
        lab.settle(&web);
        assert_eq!(accepted(&lab, "createTags"), 3);
        let objects = lab.objects();
        assert_eq!(tagged_service(objects.address(A)), Some(uid_of("web")));
        let openings = [objects.firewall_rules(), objects.acl_items()].concat();
        assert_eq!((objects.rules().len(), openings.len()), (2, 2));
        for object in objects.rules().into_iter().chain(openings) {
            assert_eq!(tagged_service(object), Some(uid_of("web")), "{object:?}");
        }
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(accepted(&lab, "createTags"), 3);
    }
}

#[test]
fn what_is_there_is_tagged_when_tags_are_turned_on() {
    let setup = left_by_go(Setup::standard(), "web", allocated("203.0.113.60"));
    let mut lab = setup.start();
    let web = lab.create("web", |raw| served_by_go(raw, "203.0.113.60"));
    lab.settle(&web);
    lab.policy.ownership_tags = true;
    let (planned, _) = lab.plan(&web);
    assert!(commands(&planned).iter().all(|command| *command == "createTags"));
    lab.settle(&web);
    assert_eq!(tagged_service(lab.objects().rule(80)), Some(uid_of("web")));
    assert_eq!(lab.reach(CLIENT, "203.0.113.60", 80), all_nodes());
}

#[test]
fn an_adopted_item_that_the_whole_tier_shares_is_not_tagged() {
    let mut lab = tier_left_by_go(false);
    lab.policy.ownership_tags = true;
    let web = lab.create("web", |raw| served_by_go(raw, "203.0.113.60"));
    lab.settle(&web);
    let objects = lab.objects();
    assert_eq!(tagged_service(objects.rule(80)), Some(uid_of("web")));
    assert_eq!(tagged_service(objects.address("203.0.113.60")), Some(uid_of("web")));
    assert_eq!(objects.acl_items().into_iter().find_map(tagged_service), None);
}

/// Types of objects that a Service in an isolated network has: address, rule, firewall rule.
const TAGGED: usize = 3;

#[test]
fn c021_a_failed_tag_never_costs_an_address() {
    for (trouble, times) in [
        (Trouble::Fails(530), 1),
        (Trouble::Fails(530), usize::MAX),
        (Trouble::Fails(432), usize::MAX),
        (Trouble::AnswerLost, 1),
    ] {
        let before = Setup::standard().start().objects().addresses();
        let mut lab = tagging(Setup::standard());
        lab.troubles.meet_command(times, trouble, "createTags");
        let web = lab.create("web", |_| ());
        let (_, outcome) = lab.reconcile(&web);
        assert!(!outcome.is_success());
        assert_eq!(status(&lab, &web), [format!("{A} VIP")], "served all the same");
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
        assert_eq!(lab.objects().addresses().len(), before.len() + 1);
        if trouble == Trouble::Fails(530) {
            for _ in 1..TAGGED {
                let (planned, _) = lab.reconcile(&web);
                assert_eq!(commands(&planned), vec!["createTags"; planned.plan.steps.len()]);
            }
            assert_nothing_planned(&lab, &web);
            lab.runtime.pass(16 * 60);
            let (planned, _) = lab.plan(&web);
            assert!(commands(&planned).contains(&"createTags"), "tried again after a while");
        }
        lab.delete(&web);
        lab.recover(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.objects().addresses(), before);
    }
}

#[test]
fn c021_a_role_that_may_not_tag_is_told_once() {
    let project = Setup::standard().project("kubeadmin-web", "web").nodes(&["web-1", "web-2"]);
    let mut lab = tagging(project);
    let web = lab.create("web", |_| ());
    let (_, outcome) = lab.reconcile(&web);
    assert!(!outcome.is_success());
    let sent = lab.simulator.times_sent("createTags");
    assert_eq!(sent, 1, "for all types of object");
    let (planned, _) = lab.plan(&web);
    assert!(planned.plan.is_empty());
    assert_eq!(severity(&planned, "TagsDenied"), Severity::Warning);
    lab.settle(&web);
    assert_eq!(lab.simulator.times_sent("createTags"), sent);
}

#[test]
fn an_address_that_was_handed_over_goes_with_the_last_service() {
    let before = Setup::standard().start().objects().addresses();
    for stripped in [false, true] {
        let mut lab = tagging(Setup::standard());
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        let api = ask_for(&lab, "api", A);
        lab.edit(&api, |raw| raw.ports[0].port = 8080);
        lab.settle(&api);
        assert_eq!(tagged_service(lab.objects().address(A)), Some(uid_of("web")));
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.service(&web), None);
        if stripped {
            lab.edit(&api, strip);
        }
        edit_node(&lab, "node-1", |_| ());
        lab.settle(&api);
        lab.delete(&api);
        lab.settle(&api);
        assert_eq!(lab.objects().addresses(), before);
    }
}
