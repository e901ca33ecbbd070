//! Ports of a Service.

use ccm_core::model::policy::UdpOnRouter;
use ccm_tests::lab::{Setup, port};

use crate::story::{CLIENT, FIRST, golden};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

#[test]
fn service_with_two_ports_gets_two_rules_on_one_address() {
    golden("ports/two", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
        story.change("a new Service with two ports", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.answers(CLIENT, FIRST, 443, &NODES);
        assert_eq!(story.published(&web), [FIRST]);
    });
}

#[test]
fn udp_port_is_refused_on_a_router_and_the_others_work() {
    golden("ports/udp", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.ports.push(port("dns", "UDP", 5353, 30053)));
        story.change("a new Service with a TCP and a UDP port", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        assert_eq!(story.rules(5353).len(), 0);
        let only = story.lab.create("dns", |raw| raw.ports = vec![port("dns", "UDP", 5353, 30054)]);
        let calls = story.lab.changing_calls().len();
        story.stay("a new Service with a UDP port only", &only);
        assert_eq!(story.lab.changing_calls().len(), calls);
    });
}

/// A simulated router refuses UDP, as a real one does: these plans are not carried out.
#[test]
fn udp_port_is_planned_where_a_router_is_to_try_it() {
    golden("ports/udp-try", Setup::standard, |story| {
        story.lab.policy.udp_on_router = UdpOnRouter::Try;
        let web = story.lab.create("web", |raw| raw.ports.push(port("dns", "UDP", 5353, 30053)));
        story.show("a new Service with a TCP and a UDP port", &web);
    });
}

#[test]
fn udp_port_is_planned_where_no_router_balances() {
    golden("ports/udp-other-provider", Setup::standard, |story| {
        story.lab.troubles.show(|state| {
            let balancers = state.networks.iter_mut().filter_map(|n| n.services.get_mut("Lb"));
            balancers.for_each(|lb| lb.providers = ["Netscaler".to_owned()].into());
        });
        let web = story.lab.create("web", |raw| raw.ports = vec![port("dns", "UDP", 53, 30053)]);
        story.show("a new Service with a UDP port", &web);
    });
}

#[test]
fn same_port_as_tcp_and_udp_is_served_as_the_first() {
    golden("ports/tcp-and-udp", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.ports.push(port("quic", "UDP", 80, 30081)));
        story.change("port 80 as TCP and as UDP", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn port_is_added_removed_and_renumbered_without_touching_others() {
    golden("ports/changes", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        let first = story.rule(80);
        story.lab.edit(&web, |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
        story.change("port 443 is added", &web);
        story.answers(CLIENT, FIRST, 443, &NODES);
        story.lab.edit(&web, |raw| raw.ports[1].port = 8443);
        story.change("port 443 becomes 8443", &web);
        story.answers(CLIENT, FIRST, 443, &[]);
        story.answers(CLIENT, FIRST, 8443, &NODES);
        story.lab.edit(&web, |raw| drop(raw.ports.pop()));
        story.change("port 8443 is removed", &web);
        story.answers(CLIENT, FIRST, 8443, &[]);
        assert_eq!(story.rule(80), first);
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 1);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn changed_node_port_recreates_the_rule_and_keeps_the_opening() {
    golden("ports/node-port", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
        story.settle(&web);
        let (changed, other) = (story.rule(80), story.rule(443));
        story.lab.edit(&web, |raw| raw.ports[0].node_port = Some(31080));
        story.change("the node port of port 80 changes", &web);
        assert_ne!(story.rule(80), changed);
        assert_eq!(story.rule(443), other);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn ports_that_the_router_needs_are_refused() {
    golden("ports/reserved", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.ports.push(port("stats", "TCP", 8081, 30881)));
        story.change("a new Service with port 8081", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.answers(CLIENT, FIRST, 8081, &[]);
    });
}

#[test]
fn changes_made_by_hand_are_repaired() {
    golden("ports/drift", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        let opening = story.listed("listFirewallRules", "firewallrule");
        let id = opening[0]["id"].as_str().unwrap();
        story.lab.by_hand("deleteFirewallRule", &[("id", id)]);
        story.answers(CLIENT, FIRST, 80, &[]);
        story.repair("somebody deleted the firewall rule", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        let rule = story.rule(80);
        story.lab.by_hand("deleteLoadBalancerRule", &[("id", &rule)]);
        story.repair("somebody deleted the rule", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        let rule = story.rule(80);
        story.lab.by_hand("updateLoadBalancerRule", &[("id", &rule), ("algorithm", "source")]);
        story.repair("somebody changed the algorithm", &web);
        assert_eq!(story.rule(80), rule);
        let address = story.address_id(FIRST);
        story.lab.by_hand("disassociateIpAddress", &[("id", &address)]);
        story.repair("somebody released the address", &web);
        let address = story.published(&web).remove(0);
        story.answers(CLIENT, &address, 80, &NODES);
    });
}

#[test]
fn protocol_that_nobody_balances_is_refused_and_the_others_work() {
    golden("ports/sctp", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.ports.push(port("sig", "SCTP", 3868, 30386)));
        story.change("a new Service with an SCTP port", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn port_without_node_port_refuses_the_service() {
    golden("ports/no-node-port", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.ports[0].node_port = Some(0));
        story.stay("a new Service without node ports", &web);
        assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
    });
}
