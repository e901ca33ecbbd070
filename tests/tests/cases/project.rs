//! Cases 1: what the key may do and see.

use ccm_core::ids::ServiceKey;
use ccm_simulator::world::{self, VpcServices};
use ccm_tests::lab::{Lab, Setup, port};

use crate::support::{
    CLIENT, accepted, allocated, assert_nothing_planned, assert_refused, machine, names, status,
};

const WEB: &str = "00000000-0000-4000-8000-0000000000f0";

/// The project's isolated network, with the restricted role.
fn isolated_setup() -> Setup {
    Setup::standard().project("kubeadmin-web", "web").nodes(&["web-1", "web-2"])
}

/// A VPC tier of the project, with the restricted role.
pub fn tier_setup() -> Setup {
    let mut setup = isolated_setup().nodes(&["vpc-web-1"]);
    let tier = world::Network {
        name: "tier-web".to_owned(),
        acl: Some("acl-web".to_owned()),
        ..setup.world.vpcs[0].tiers[0].clone()
    };
    let tier = world::Network {
        id: Some("00000000-0000-4000-8000-0000000000e1".to_owned()),
        cidr: "10.3.1.0/24".parse().expect("a network"),
        ..tier
    };
    let list = world::AclList {
        name: "acl-web".to_owned(),
        id: Some("00000000-0000-4000-8000-0000000000e2".to_owned()),
        ..setup.world.vpcs[0].acl_lists[0].clone()
    };
    setup.world.vpcs.push(world::Vpc {
        name: "vpc-web".to_owned(),
        owner: "web".to_owned(),
        cidr: "10.3.0.0/16".parse().expect("a network"),
        services: VpcServices::Default,
        acl_lists: vec![list],
        tiers: vec![tier],
        id: Some("00000000-0000-4000-8000-0000000000e3".to_owned()),
        ..setup.world.vpcs[0].clone()
    });
    setup.world.addresses.push(world::Address {
        owner: Some("web".to_owned()),
        network: None,
        vpc: Some("vpc-web".to_owned()),
        source_nat: true,
        ..allocated("203.0.113.5")
    });
    let id = "00000000-0000-4000-8000-000000000033";
    setup.world.virtual_machines.push(world::VirtualMachine {
        owner: "web".to_owned(),
        ..machine("vpc-web-1", id, "tier-web", "10.3.1.11")
    });
    setup
}

fn reaches(lab: &Lab, key: &ServiceKey, number: u16) -> std::collections::BTreeSet<String> {
    let published = status(lab, key).remove(0);
    lab.reach(CLIENT, published.split(' ').next().expect("an address"), number)
}

#[test]
fn c003_the_restricted_role_is_enough() {
    // Up to 4.17 what the role denies is answered as a wrong key is.
    for release in ["4.16.1.0", "4.17.2.0", "4.18.0.0", "4.21.0.0", "4.22.0.0", "4.23.0.0"] {
        for (setup, members) in
            [(isolated_setup(), vec!["web-1", "web-2"]), (tier_setup(), vec!["vpc-web-1"])]
        {
            let members = members.into_iter().map(str::to_owned).collect();
            let mut lab = setup.release(release).start();
            let before = lab.objects();
            let web = lab.create("web", |_| ());
            lab.recover(&web);
            assert_eq!(reaches(&lab, &web, 80), members, "{release}");
            lab.edit(&web, |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
            lab.settle(&web);
            assert_eq!(reaches(&lab, &web, 443), members, "{release}");
            lab.restart();
            assert_nothing_planned(&lab, &web);
            lab.delete(&web);
            lab.settle(&web);
            assert_eq!(lab.service(&web), None);
            let none = Vec::<String>::new();
            assert_eq!(lab.objects().changes_since(&before), none, "{release}");
        }
    }
}

#[test]
fn c004_every_read_carries_the_same_scope() {
    let mut lab = isolated_setup().start();
    let web = lab.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
    lab.settle(&web);
    let calls = lab.changing_calls().len();
    for _ in 0..2 {
        lab.settle(&web);
    }
    assert_eq!(lab.changing_calls().len(), calls);
    lab.edit(&web, |raw| _ = raw.ports.pop());
    lab.settle(&web);
    assert_eq!(lab.changing_calls()[calls..], ["deleteFirewallRule", "deleteLoadBalancerRule"]);
    let scoped = [
        "listVirtualMachines",
        "listNetworks",
        "listPublicIpAddresses",
        "listLoadBalancerRules",
        "listFirewallRules",
        "listNetworkACLs",
        "listNetworkACLLists",
        "listVPCs",
        "listTags",
    ];
    lab.simulator.with(|simulator| {
        let lists = simulator.calls().iter().filter(|call| scoped.contains(&call.command));
        let mut count = 0;
        for call in lists {
            let carries = |name: &str, value: &str| {
                call.params.iter().any(|(found, given)| found == name && given == value)
            };
            assert!(carries("listall", "true") && carries("projectid", WEB), "{call:?}");
            count += 1;
        }
        assert!(count > 10);
    });
}

#[test]
fn c008_the_vm_is_visible_and_its_network_is_not() {
    for project in [false, true] {
        let setup = if project { isolated_setup() } else { Setup::standard() };
        let mut lab = setup.start();
        lab.troubles.show(|state| state.networks.clear());
        let web = lab.create("web", |_| ());
        let text = assert_refused(&mut lab, &web, "NetworkNotFound");
        let (node, network, scope) = if project {
            ("web-1", "00000000-0000-4000-8000-0000000000a3", WEB)
        } else {
            ("node-1", "00000000-0000-4000-8000-0000000000a1", "no project")
        };
        for word in ["could not find network", node, network, scope, "project-id", "account"] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert_eq!(accepted(&lab, "associateIpAddress"), 0);
    }
}

#[test]
fn c108_lists_that_lie_by_omission() {
    let mut setup = Setup::standard();
    for number in 0..510 {
        let rule =
            crate::support::rule(&format!("r{number}"), crate::support::USERS, 1000 + number);
        setup.world.rules.push(rule);
    }
    let mut lab = setup.start();
    assert_eq!(lab.read().observed.rules.len(), 510);
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    assert_eq!(lab.reach(CLIENT, crate::support::A, 80), names(["node-1", "node-2", "node-3"]));
    let empty_ids = lab.simulator.with(|simulator| {
        let mut params = simulator.calls().iter().flat_map(|call| &call.params);
        params.any(|(name, value)| name == "ids" && value.is_empty())
    });
    assert!(!empty_ids);
}
