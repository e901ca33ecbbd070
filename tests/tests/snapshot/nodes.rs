//! Nodes come, go, are excluded, and run out.

use ccm_tests::lab::{Setup, node_of};

use crate::story::{CLIENT, FIRST, Story, golden};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

fn change_node(story: &Story, name: &str, label: &str) {
    let mut node = node_of(&Setup::standard().world, name);
    node.labels.insert(label.to_owned(), String::new());
    story.lab.cluster.with(|cluster| cluster.set_node(node));
}

#[test]
fn node_is_added_and_removed_with_one_call_each() {
    golden("nodes/changes", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        let node = node_of(&Setup::standard().world, "node-4");
        story.lab.cluster.with(|cluster| cluster.set_node(node));
        story.change("node-4 is added", &web);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-2", "node-3", "node-4"]);
        story.lab.cluster.with(|cluster| cluster.remove_node("node-1"));
        story.change("node-1 is removed", &web);
        story.answers(CLIENT, FIRST, 80, &["node-2", "node-3", "node-4"]);
        story.lab.cluster.with(|cluster| {
            cluster.remove_node("node-2");
            cluster.set_node(node_of(&Setup::standard().world, "node-1"));
        });
        story.change("node-2 is replaced by node-1", &web);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-3", "node-4"]);
    });
}

#[test]
fn excluded_node_is_no_member() {
    golden("nodes/excluded", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        change_node(story, "node-2", "node.kubernetes.io/exclude-from-external-load-balancers");
        story.change("node-2 is labelled", &web);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-3"]);
        let node = node_of(&Setup::standard().world, "node-2");
        story.lab.cluster.with(|cluster| cluster.set_node(node));
        story.change("the label is removed", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn last_node_takes_the_members_and_leaves_the_rest() {
    golden("nodes/zero", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        story.lab.cluster.with(|cluster| NODES.map(|name| cluster.remove_node(name)));
        story.change("all Nodes are removed", &web);
        story.answers(CLIENT, FIRST, 80, &[]);
        let node = node_of(&Setup::standard().world, "node-2");
        story.lab.cluster.with(|cluster| cluster.set_node(node));
        story.change("node-2 is back", &web);
        story.answers(CLIENT, FIRST, 80, &["node-2"]);
        assert_eq!(story.published(&web), [FIRST]);
    });
}

#[test]
fn new_service_without_nodes_waits() {
    golden(
        "nodes/none-yet",
        || Setup::standard().nodes(&[]),
        |story| {
            let web = story.lab.create("web", |_| ());
            story.show("a new Service in a cluster without Nodes", &web);
            story.settle(&web);
            assert_eq!(story.published(&web), Vec::<String>::new());
            let node = node_of(&Setup::standard().world, "node-1");
            story.lab.cluster.with(|cluster| cluster.set_node(node));
            story.change("node-1 is added", &web);
            story.answers(CLIENT, FIRST, 80, &["node-1"]);
            assert_eq!(story.published(&web), [FIRST]);
        },
    );
}

#[test]
fn new_service_without_nodes_on_a_known_address_gets_its_rule() {
    golden(
        "nodes/none-yet-on-an-address",
        || Setup::standard().nodes(&[]),
        |story| {
            const ADDRESS: &str = "203.0.113.50";
            let web =
                story.lab.create("web", |raw| raw.load_balancer_ip = Some(ADDRESS.to_owned()));
            story.change("a new Service with an address, in a cluster without Nodes", &web);

            assert_eq!(story.published(&web), Vec::<String>::new());
            assert_eq!(story.rules(80).len(), 1);
            assert_eq!(story.listed("listFirewallRules", "firewallrule").len(), 0);
            story.lab.add_node("node-1");
            story.change("node-1 is added", &web);
            story.answers(CLIENT, ADDRESS, 80, &["node-1"]);
            assert_eq!(story.published(&web), [ADDRESS]);
        },
    );
}

#[test]
fn members_stay_while_no_node_can_be_matched() {
    golden("nodes/unmatched", Setup::standard, |story| {
        let web = story.lab.create("web", |_| ());
        story.settle(&web);
        for (index, name) in NODES.into_iter().enumerate() {
            let mut node = node_of(&Setup::standard().world, name);
            node.provider_id =
                Some(format!("external-cloudstack://7{index:07}-0000-4000-8000-000000000000"));
            node.name = format!("renamed-{index}");
            story.lab.cluster.with(|cluster| {
                cluster.remove_node(name);
                cluster.set_node(node);
            });
        }
        story.stay("all Nodes name VMs that nobody sees", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn node_without_vm_and_node_in_another_network_are_left_out() {
    let setup = || Setup::standard().nodes(&["node-1", "node-2", "iso2-1"]);
    golden("nodes/outside", setup, |story| {
        let mut ghost = node_of(&Setup::standard().world, "node-3");
        ghost.name = "ghost".to_owned();
        ghost.provider_id = None;
        story.lab.cluster.with(|cluster| cluster.set_node(ghost));
        let web = story.lab.create("web", |_| ());
        story.change("a new Service beside odd Nodes", &web);
        story.answers(CLIENT, FIRST, 80, &["node-1", "node-2"]);
    });
}
