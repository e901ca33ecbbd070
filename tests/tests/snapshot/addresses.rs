//! A specific address, and addresses of several Services.

use ccm_core::ids::ServiceKey;
use ccm_tests::lab::{Setup, annotation, port};

use crate::story::{CLIENT, FIRST, Story, golden};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
const FREE: &str = "203.0.113.30";
/// Allocated to the account in the network of the Nodes.
const ALLOCATED: &str = "203.0.113.50";

fn pinned(story: &Story, address: &str) -> ServiceKey {
    story.lab.create("web", |raw| raw.load_balancer_ip = Some(address.to_owned()))
}

fn verdict(story: &Story, key: &ServiceKey) -> Option<String> {
    let service = story.lab.service(key).expect("the Service");
    service.annotations.get(&annotation("ip-associated-by-controller")).cloned()
}

#[test]
fn free_address_is_associated_and_released() {
    golden("addresses/free", Setup::standard, |story| {
        let web = pinned(story, FREE);
        story.change("a new Service asks for a free address", &web);
        story.answers(CLIENT, FREE, 80, &NODES);
        assert_eq!(verdict(story, &web).as_deref(), Some("true"));
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert!(!story.holds(FREE));
    });
}

#[test]
fn free_address_is_associated_with_the_vpc() {
    let setup = || Setup::standard().nodes(&["tier1-1", "tier1-2"]);
    golden("addresses/free-in-vpc", setup, |story| {
        let web = pinned(story, FREE);
        story.change("a new Service asks for a free address", &web);
        story.answers(CLIENT, FREE, 80, &["tier1-1", "tier1-2"]);
    });
}

#[test]
fn allocated_address_is_used_and_left_in_place() {
    golden("addresses/allocated", Setup::standard, |story| {
        let web = pinned(story, ALLOCATED);
        story.change("a new Service asks for an allocated address", &web);
        story.answers(CLIENT, ALLOCATED, 80, &NODES);
        assert_eq!(verdict(story, &web).as_deref(), Some("false"));
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        story.answers(CLIENT, ALLOCATED, 80, &[]);
        assert!(story.holds(ALLOCATED));
    });
}

#[test]
fn address_that_is_not_there_is_refused() {
    golden("addresses/not-found", Setup::standard, |story| {
        let web = pinned(story, "192.0.2.200");
        let text = story.stay("a new Service asks for an address of nobody", &web);
        assert!(text.contains("could not find IP address"), "{text}");
    });
}

#[test]
fn address_of_another_account_is_refused() {
    golden("addresses/foreign", Setup::standard, |story| {
        let web = pinned(story, "203.0.113.53");
        story.stay("a new Service asks for an address of another account", &web);
        assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
        story.answers(CLIENT, "203.0.113.53", 80, &[]);
    });
}

#[test]
fn address_of_a_network_without_nodes_is_refused() {
    golden("addresses/other-network", Setup::standard, |story| {
        let web = pinned(story, "203.0.113.51");
        story.stay("a new Service asks for an address of another network", &web);
        story.answers(CLIENT, "203.0.113.51", 80, &[]);
    });
}

#[test]
fn static_nat_address_is_refused() {
    golden("addresses/static-nat", Setup::standard, |story| {
        let web = pinned(story, "203.0.113.52");
        story.stay("a new Service asks for a static NAT address", &web);
        story.answers(CLIENT, "203.0.113.52", 80, &[]);
    });
}

#[test]
fn source_nat_address_is_used_when_asked_for_and_never_released() {
    golden("addresses/source-nat", Setup::standard, |story| {
        let web = pinned(story, "203.0.113.1");
        story.change("a new Service asks for the source NAT address", &web);
        story.answers(CLIENT, "203.0.113.1", 80, &NODES);
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert!(story.holds("203.0.113.1"));
        story.answers(CLIENT, "203.0.113.1", 80, &[]);
    });
}

#[test]
fn malformed_address_is_refused() {
    golden("addresses/malformed", Setup::standard, |story| {
        let web = pinned(story, "somewhere.example.com");
        story.stay("a new Service asks for a name", &web);
    });
}

#[test]
fn changed_address_is_made_before_the_old_one_goes() {
    golden("addresses/changed", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        story.lab.edit(&web, |raw| raw.load_balancer_ip = Some(FREE.to_owned()));
        story.change("the Service asks for another address", &web);
        assert_eq!(story.published(&web), [FREE]);
        story.answers(CLIENT, FREE, 80, &NODES);
        story.answers(CLIENT, FIRST, 80, &[]);
        assert!(!story.holds(FIRST));
        story.lab.edit(&web, |raw| raw.load_balancer_ip = Some(ALLOCATED.to_owned()));
        story.change("the Service asks for an allocated address", &web);
        story.answers(CLIENT, ALLOCATED, 80, &NODES);
        assert!(!story.holds(FREE));
    });
}

#[test]
fn services_share_an_address_and_the_last_one_releases_it() {
    golden("addresses/shared", Setup::standard, |story| {
        let web = pinned(story, FREE);
        story.settle(&web);
        let api = story.lab.create("api", |raw| {
            raw.load_balancer_ip = Some(FREE.to_owned());
            raw.ports = vec![port("api", "TCP", 8080, 30088)];
        });
        story.change("a second Service asks for the address of the first", &api);
        story.answers(CLIENT, FREE, 80, &NODES);
        story.answers(CLIENT, FREE, 8080, &NODES);
        let late = story.lab.create("late", |raw| raw.load_balancer_ip = Some(FREE.to_owned()));
        story.stay("a third Service wants a port that is taken", &late);
        story.lab.delete(&late);
        assert_eq!(story.lab.service(&late), None, "it has nothing, so it goes at once");
        story.stay("the third Service is gone", &web);
        story.answers(CLIENT, FREE, 80, &NODES);
        story.lab.delete(&web);
        story.change("the first Service is deleted", &web);
        story.answers(CLIENT, FREE, 80, &[]);
        story.answers(CLIENT, FREE, 8080, &NODES);
        assert!(story.holds(FREE));
        story.lab.delete(&api);
        story.change("the second Service is deleted", &api);
        assert!(!story.holds(FREE));
        story.answers(CLIENT, FREE, 8080, &[]);
    });
}

#[test]
fn foreign_objects_on_the_same_address_are_left_alone() {
    golden("addresses/foreign-objects", Setup::standard, |story| {
        let id = story.address_id(ALLOCATED);
        story.lab.by_hand(
            "createLoadBalancerRule",
            &[
                ("publicipid", &id),
                ("name", "by-hand"),
                ("algorithm", "roundrobin"),
                ("publicport", "9000"),
                ("privateport", "9000"),
                ("openfirewall", "false"),
            ],
        );
        let port = [("startport", "9000"), ("endport", "9000")];
        let rule = [("ipaddressid", id.as_str()), ("protocol", "tcp")];
        story.lab.by_hand("createFirewallRule", &[rule, port].concat());
        let web = pinned(story, ALLOCATED);
        story.change("a new Service on an address with a rule made by hand", &web);
        story.answers(CLIENT, ALLOCATED, 80, &NODES);
        story.lab.edit(&web, |raw| raw.ports[0].port = 9000);
        story.show("the Service wants the port of that rule", &web);
        story.lab.edit(&web, |raw| raw.ports[0].port = 80);
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert_eq!(story.rules(9000).len(), 1);
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 1);
    });
}

#[test]
fn port_that_others_opened_is_not_opened_again_nor_closed() {
    golden("addresses/foreign-opening", Setup::standard, |story| {
        let id = story.address_id(ALLOCATED);
        let rule = [("ipaddressid", id.as_str()), ("protocol", "tcp"), ("startport", "1")];
        let rest = [("endport", "1024"), ("cidrlist", "0.0.0.0/0")];
        story.lab.by_hand("createFirewallRule", &[&rule[..], &rest[..]].concat());
        let web = pinned(story, ALLOCATED);
        story.change("a new Service on an address that somebody opened", &web);
        story.answers(CLIENT, ALLOCATED, 80, &NODES);
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 1);
    });
}

#[test]
fn free_address_that_two_services_ask_for_is_associated_once() {
    golden("addresses/free-asked-twice", Setup::standard, |story| {
        let web = pinned(story, FREE);
        story.lab.runtime.pass(10);
        let api = story.lab.create("api", |raw| {
            raw.load_balancer_ip = Some(FREE.to_owned());
            raw.ports = vec![port("api", "TCP", 8080, 30088)];
        });
        story.stay("the younger Service waits", &api);
        story.change("the older Service takes the address", &web);
        story.change("the younger Service joins", &api);
        story.answers(CLIENT, FREE, 80, &NODES);
        story.answers(CLIENT, FREE, 8080, &NODES);
    });
}
