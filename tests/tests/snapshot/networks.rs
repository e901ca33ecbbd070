//! A new Service on every kind of network.

use ccm_simulator::world::VpcServices;
use ccm_tests::lab::Setup;

use crate::story::{CLIENT, FIRST, STRANGER, golden};

fn on_tier(nodes: &'static [&'static str]) -> impl Fn() -> Setup {
    move || Setup::standard().nodes(nodes)
}

#[test]
fn new_service_on_an_isolated_network_gets_address_rule_members_and_firewall() {
    golden("networks/isolated", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.change("a new Service", &web);
        assert_eq!(story.published(&web), [FIRST]);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-2", "node-3"]);
        story.answers(CLIENT, FIRST, 81, &[]);
        assert_eq!(story.param("createLoadBalancerRule", "openfirewall"), "false");
        story.stay("nothing changed", &web);
    });
}

#[test]
fn new_service_on_a_tier_with_a_custom_list_gets_an_acl_item() {
    golden("networks/vpc-custom-acl", on_tier(&["tier1-1", "tier1-2"]), |story| {
        story.lab.simulator.with(|simulator| simulator.set_acl_gates_traffic(true));
        let web = story.lab.create("web", |_| ());
        story.change("a new Service", &web);
        story.answers(CLIENT, FIRST, 80, &["tier1-1", "tier1-2"]);
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 0);
    });
}

#[test]
fn new_service_on_a_tier_with_default_allow_needs_no_item() {
    golden("networks/vpc-default-allow", on_tier(&["allow-1"]), |story| {
        story.lab.simulator.with(|simulator| simulator.set_acl_gates_traffic(true));
        let web = story.lab.create("web", |_| ());
        story.change("a new Service", &web);
        story.answers(CLIENT, FIRST, 80, &["allow-1"]);
    });
}

#[test]
fn new_service_on_a_tier_with_default_deny_is_made_and_warned_about() {
    golden("networks/vpc-default-deny", on_tier(&["deny-1"]), |story| {
        let web = story.lab.create("web", |_| ());
        story.change("a new Service", &web);
        story.answers(CLIENT, FIRST, 80, &["deny-1"]);
        story.lab.simulator.with(|simulator| simulator.set_acl_gates_traffic(true));
        story.answers(CLIENT, FIRST, 80, &[]);
    });
}

#[test]
fn new_service_on_a_tier_without_list_gets_one_with_its_items() {
    golden("networks/vpc-without-list", on_tier(&["none-1"]), |story| {
        story.lab.simulator.with(|simulator| simulator.set_acl_gates_traffic(true));
        let web = story.lab.create("web", |raw| {
            raw.ports.push(ccm_tests::lab::port("https", "TCP", 443, 30443));
        });
        story.change("a new Service with two ports", &web);
        story.answers(CLIENT, FIRST, 80, &["none-1"]);
        story.answers(CLIENT, FIRST, 443, &["none-1"]);
    });
}

#[test]
fn new_service_in_a_vpc_with_firewall_gets_a_firewall_rule() {
    let setup = || {
        let mut setup = Setup::standard().release("4.23.0.0").nodes(&["tier1-1", "tier1-2"]);
        setup.world.vpcs[0].services = VpcServices::WithFirewall;
        setup
    };
    golden("networks/vpc-firewall", setup, |story| {
        let web = story.lab.create("web", |raw| raw.source_ranges = vec!["198.51.100.0/24".into()]);
        story.change("a new Service with a range", &web);
        story.answers(CLIENT, FIRST, 80, &["tier1-1", "tier1-2"]);
        story.answers(STRANGER, FIRST, 80, &[]);
        assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 1);
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        assert!(!story.holds(FIRST));
    });
}

#[test]
fn new_service_in_a_project_is_made_for_the_project() {
    let setup = || Setup::standard().project("member", "web").nodes(&["web-1", "web-2"]);
    golden("networks/project", setup, |story| {
        let web = story.lab.create("web", |_| ());
        story.change("a new Service", &web);
        story.answers(CLIENT, FIRST, 80, &["web-1", "web-2"]);
        story.lab.delete(&web);
        story.change("the Service is deleted", &web);
        story.answers(CLIENT, FIRST, 80, &[]);
    });
}

#[test]
fn restricted_project_role_serves_without_the_lists_that_it_lacks() {
    let setup = || Setup::standard().project("kubeadmin-web", "web").nodes(&["web-1", "web-2"]);
    golden("networks/project-kubernetes-role", setup, |story| {
        let web = story.lab.create("web", |_| ());
        story.change("a new Service", &web);
        story.answers(CLIENT, FIRST, 80, &["web-1", "web-2"]);
    });
}

#[test]
fn network_that_the_account_cannot_see_refuses_the_service() {
    // The Nodes are in a project, and no project is configured.
    let setup = || {
        let mut setup = Setup::standard().nodes(&["web-1", "web-2"]);
        setup.account = "member".to_owned();
        setup
    };
    golden("networks/not-visible", setup, |story| {
        let web = story.lab.create("web", |_| ());
        let text = story.stay("a new Service with Nodes in a project", &web);
        assert!(text.contains("could not find network"), "{text}");
        assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
    });
}

#[test]
fn network_without_balancer_refuses_the_service() {
    let setup = || {
        let mut setup = Setup::standard();
        let services = ["Dhcp", "Dns", "SourceNat", "Firewall"].map(str::to_owned);
        setup.world.networks[0].services = Some(services.to_vec());
        setup
    };
    golden("networks/without-balancer", setup, |story| {
        let web = story.lab.create("web", |_| ());
        story.stay("a new Service", &web);
        assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
    });
}

#[test]
fn nodes_in_two_networks_are_served_in_the_one_of_most() {
    let setup = || Setup::standard().nodes(&["iso2-1", "node-1", "node-2"]);
    golden("networks/most-nodes", setup, |story| {
        let web = story.lab.create("web", |_| ());
        story.change("a new Service", &web);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-2"]);
        story.lab.cluster.with(|cluster| cluster.remove_node("node-1"));
        story.lab.cluster.with(|cluster| cluster.remove_node("node-2"));
        story.stay("the Nodes of its network are removed, the last members stay", &web);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-2"]);
    });
}
