//! Cases 2: an address that people keep, by annotation `keep-ip` or by tag.

use ccm_core::ids::ServiceKey;
use ccm_core::parse::raw::RawService;
use ccm_core::plan::report::Severity;
use ccm_tests::lab::{Lab, Setup};

use super::asks_for;
use crate::support::{
    A, CLIENT, USERS, accepted, all_nodes, allocated, annotate, asks_with_port,
    assert_nothing_planned, assert_refused, codes, commands, prefix, says, severity, status, unset,
    verdict,
};

type Edit = fn(&mut RawService);

fn keeping(lab: &Lab, name: &str, edit: impl FnOnce(&mut RawService)) -> ServiceKey {
    lab.create(name, |raw| {
        annotate(raw, "keep-ip", "true");
        edit(raw);
    })
}

fn tag(lab: &Lab, address: &str, key: &str, value: &str) {
    let id = lab.objects().address(address).id();
    let what = [("resourceids", id.as_str()), ("resourcetype", "PublicIpAddress")];
    lab.by_hand("createTags", &[what, [("tags[0].key", key), ("tags[0].value", value)]].concat());
}

/// Everything of the Service is gone but its address, which nobody records any more.
fn assert_left(lab: &Lab, address: &str) {
    let objects = lab.objects();
    assert!(objects.addresses().contains(&address.to_owned()));
    assert_eq!(accepted(lab, "disassociateIpAddress"), 0);
    assert_eq!((objects.rules().len(), objects.openings().len()), (0, 0));
    assert!(lab.reach(CLIENT, address, 80).is_empty());
}

#[test]
fn a_kept_address_outlives_its_service_and_serves_the_next() {
    let mut lab = Setup::standard().start();
    let web = keeping(&lab, "web", |_| ());
    lab.settle(&web);
    assert_eq!(verdict(&lab, &web).as_deref(), Some("true"), "we associated it");
    lab.delete(&web);
    let (planned, _) = lab.plan(&web);
    let text = says(&planned, "AddressKept");
    assert!(text.contains(A) && text.contains("keep-ip") && text.contains("shop/web"), "{text}");
    assert_eq!(severity(&planned, "AddressKept"), Severity::LeftAlone);
    lab.settle(&web);
    assert_eq!(lab.service(&web), None);
    assert_left(&lab, A);

    let next = asks_for(&lab, "next", A);
    lab.settle(&next);
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    assert_eq!(verdict(&lab, &next).as_deref(), Some("false"));
    lab.delete(&next);
    lab.settle(&next);
    assert_left(&lab, A);
}

#[test]
fn a_kept_address_stays_whichever_way_its_service_leaves_it() {
    let ways: [(&str, Edit); 3] = [
        ("another address", |raw| raw.load_balancer_ip = Some(USERS.to_owned())),
        ("another type", |raw| raw.service_type = Some("ClusterIP".to_owned())),
        ("another class", |raw| raw.load_balancer_class = Some("example.test/other".to_owned())),
    ];
    for (way, leave) in ways {
        let mut lab = Setup::standard().start();
        let web = keeping(&lab, "web", |_| ());
        lab.settle(&web);
        lab.edit(&web, leave);
        let length = lab.plan(&web).0.plan.steps.len();
        for died_after in 0..=length {
            let mut lab = Setup::standard().start();
            let web = keeping(&lab, "web", |_| ());
            lab.settle(&web);
            lab.edit(&web, leave);
            assert!(lab.execute(&prefix(&lab.plan(&web).0, died_after)).is_success());
            lab.restart();
            lab.recover(&web);
            assert_eq!(accepted(&lab, "disassociateIpAddress"), 0, "{way}, {died_after}");
            assert!(lab.reach(CLIENT, A, 80).is_empty(), "{way}, {died_after}");
            assert!(lab.objects().addresses().contains(&A.to_owned()), "{way}, {died_after}");
        }
    }
}

#[test]
fn an_address_that_is_kept_no_more_is_released() {
    let withdrawn: [Edit; 2] =
        [|raw| unset(raw, "keep-ip"), |raw| annotate(raw, "keep-ip", "false")];
    for withdraw in withdrawn {
        let mut lab = Setup::standard().start();
        let before = lab.objects();
        let web = keeping(&lab, "web", |_| ());
        lab.settle(&web);
        lab.edit(&web, withdraw);
        assert_nothing_planned(&lab, &web);
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
    }
}

/// A value that nobody can read refuses a live Service, and keeps the address of one that goes.
#[test]
fn a_value_that_can_not_be_read_costs_no_address() {
    for value in ["yes", "True", ""] {
        let mut lab = Setup::standard().start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        lab.edit(&web, |raw| annotate(raw, "keep-ip", value));
        let text = assert_refused(&mut lab, &web, "InvalidSpec");
        assert!(text.contains("keep-ip") && text.contains(value), "{text}");
        lab.delete(&web);
        lab.settle(&web);
        assert_eq!(lab.service(&web), None);
        assert_left(&lab, A);
    }
}

#[test]
fn a_tag_keeps_an_address_unless_it_says_false() {
    for (key, value, stays) in
        [("k8s-keep", "true", true), ("K8S-Keep", "backup", true), ("k8s-keep", "false", false)]
    {
        let mut lab = Setup::standard().start();
        let web = lab.create("web", |_| ());
        lab.settle(&web);
        tag(&lab, A, key, value);
        assert_nothing_planned(&lab, &web);
        lab.delete(&web);
        if stays {
            assert!(says(&lab.plan(&web).0, "AddressKept").contains("k8s-keep"));
        }
        lab.settle(&web);
        assert_eq!(lab.objects().addresses().contains(&A.to_owned()), stays, "{key}={value}");
        assert_eq!(accepted(&lab, "disassociateIpAddress"), usize::from(!stays));
    }
}

/// The fresh read before a release looks at the tags too.
#[test]
fn a_tag_that_comes_after_the_plan_keeps_an_address() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.delete(&web);
    let (planned, _) = lab.plan(&web);
    assert!(commands(&planned).contains(&"disassociateIpAddress"));
    tag(&lab, A, "k8s-keep", "true");
    let outcome = lab.execute(&planned);
    let errors: Vec<String> = outcome.failed.values().map(ToString::to_string).collect();
    assert!(errors.iter().any(|error| error.contains("k8s-keep")), "{errors:?}");
    lab.settle(&web);
    assert_eq!(lab.service(&web), None);
    assert_left(&lab, A);
}

/// A Service that keeps an address keeps it for all that are on it: whoever goes last.
#[test]
fn a_shared_address_that_one_service_keeps() {
    for order in [["web", "tls"], ["tls", "web"]] {
        for at_once in [false, true] {
            let mut lab = Setup::standard().start();
            let web = keeping(&lab, "web", |raw| raw.load_balancer_ip = Some(A.to_owned()));
            lab.settle(&web);
            let tls = asks_with_port(&lab, "tls", A, 443);
            lab.settle(&tls);
            let keys = order.map(|name| if name == "web" { &web } else { &tls });
            for key in keys {
                lab.delete(key);
                if !at_once {
                    settle_all(&mut lab, [&web, &tls]);
                }
            }
            settle_all(&mut lab, keys);
            assert_eq!((lab.service(&web), lab.service(&tls)), (None, None));
            assert_left(&lab, A);
        }
    }
}

fn settle_all(lab: &mut Lab, keys: [&ServiceKey; 2]) {
    for key in [keys, keys].concat() {
        if lab.service(key).is_some() {
            let _ = lab.reconcile(key);
        }
    }
    for key in keys {
        if lab.service(key).is_some() {
            lab.recover(key);
        }
    }
}

#[test]
fn a_kept_address_stays_when_two_others_go_on_using_it() {
    let mut lab = Setup::standard().start();
    let mut keys = Vec::new();
    for (name, number) in [("web", 80), ("api", 8080), ("tls", 443)] {
        let key = asks_with_port(&lab, name, A, number);
        lab.settle(&key);
        keys.push(key);
    }
    lab.edit(&keys[0], |raw| annotate(raw, "keep-ip", "true"));
    lab.delete(&keys[0]);
    for _ in 0..3 {
        for key in &keys {
            if lab.service(key).is_some() {
                let _ = lab.reconcile(key);
            }
        }
    }
    assert_eq!(lab.service(&keys[0]), None);
    for key in &keys[1..] {
        assert_eq!(verdict(&lab, key).as_deref(), Some("false"));
        lab.delete(key);
        lab.settle(key);
    }
    assert_left(&lab, A);
}

/// The verdict goes over before the finalizer goes, also to a Service that is refused, or that does
/// not ask for the address any more.
#[test]
fn the_one_that_stays_records_a_kept_address_as_the_users() {
    let stays: [Edit; 3] = [
        |_| (),
        |raw| annotate(raw, "proxy-protocol", "perhaps"),
        |raw| raw.load_balancer_ip = None,
    ];
    for edit in stays {
        let mut lab = Setup::standard().start();
        let web = keeping(&lab, "web", |raw| raw.load_balancer_ip = Some(A.to_owned()));
        lab.settle(&web);
        let tls = asks_with_port(&lab, "tls", A, 443);
        lab.settle(&tls);
        assert_eq!(verdict(&lab, &tls).as_deref(), Some("true"));
        lab.edit(&tls, edit);
        lab.delete(&web);
        let _ = lab.reconcile(&web);
        assert!(lab.service(&web).is_some(), "the verdict has not been handed over");
        assert!(codes(&lab.plan(&web).0).contains(&"VerdictNotHandedOver"));
        lab.recover(&tls);
        assert_eq!(verdict(&lab, &tls).as_deref(), Some("false"));
        lab.recover(&web);
        assert_eq!(lab.service(&web), None);
        assert_eq!(lab.reach(CLIENT, A, 443), all_nodes());
        assert_eq!(status(&lab, &tls), [format!("{A} VIP")]);
        lab.delete(&tls);
        lab.settle(&tls);
        assert_left(&lab, A);
    }
}

/// The Go controller gives `true` to the Service that took the address and `false` to the others.
#[test]
fn a_service_that_asks_no_more_takes_over_what_another_one_associated() {
    let mut lab = Setup::standard().start();
    let web = asks_for(&lab, "web", A);
    lab.settle(&web);
    let tls = asks_with_port(&lab, "tls", A, 443);
    lab.settle(&tls);
    lab.edit(&tls, |raw| {
        raw.load_balancer_ip = None;
        annotate(raw, "ip-associated-by-controller", "false");
        let record = raw.annotations.get_mut(&ccm_tests::lab::annotation("record"));
        let record = record.expect("a record");
        *record = record.replace("\"ours\":true", "\"ours\":false");
    });
    lab.delete(&web);
    settle_all(&mut lab, [&web, &tls]);
    assert_eq!(lab.service(&web), None);
    assert_eq!(verdict(&lab, &tls).as_deref(), Some("true"));
    lab.delete(&tls);
    lab.settle(&tls);
    assert!(!lab.objects().addresses().contains(&A.to_owned()));
}

/// Nobody was ever told of an address of which only an intent speaks.
#[test]
fn an_address_that_never_served_is_not_kept() {
    let mut lab = Setup::standard().start();
    let before = lab.objects();
    let web = keeping(&lab, "web", |_| ());
    let (planned, _) = lab.plan(&web);
    let associate =
        planned.plan.steps.iter().position(|step| step.action.command() == "associateIpAddress");
    let made = prefix(&planned, associate.expect("a step") + 1);
    assert!(lab.execute(&made).is_success());
    assert!(lab.objects().addresses().contains(&A.to_owned()));
    lab.delete(&web);
    lab.restart();
    lab.recover(&web);
    assert_eq!(lab.service(&web), None);
    assert_eq!(lab.objects().changes_since(&before), Vec::<String>::new());
}

/// An address of the user stays in any case, and says why.
#[test]
fn an_address_of_the_user_is_the_users_not_a_kept_one() {
    let mut setup = Setup::standard();
    setup.world.addresses.push(allocated("203.0.113.60"));
    let mut lab = setup.start();
    let web = keeping(&lab, "web", |raw| raw.load_balancer_ip = Some("203.0.113.60".to_owned()));
    lab.settle(&web);
    lab.delete(&web);
    assert_eq!(codes(&lab.plan(&web).0), ["AddressOfUser"]);
    lab.settle(&web);
    assert_left(&lab, "203.0.113.60");
}
