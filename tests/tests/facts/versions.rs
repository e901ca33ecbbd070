//! Section 6.1 of the API notes: what a client must branch on. Each test names the release in which
//! something began.

use serde_json::Value;

use crate::bench::{Bench, LATEST, OF_VPC, PUBLIC, RELEASES, keys, rule_params, text};

#[test]
fn names_are_substrings_before_4_17_and_exact_from_then_on() {
    for (release, rules, vms) in [("4.16.0", 1, 3), ("4.17.0", 0, 1)] {
        let mut bench = Bench::on(release);
        bench.rule("80", &[("name", "web-10")]);
        assert_eq!(bench.rows("listLoadBalancerRules", &[("name", "web-1")]).len(), rules);
        let found = bench.rows("listVirtualMachines", &[("name", "node-1")]);
        assert_eq!(found.len(), vms, "{release}");
    }
}

#[test]
fn an_update_changes_cidrlist_from_4_22_on_and_separates_by_commas() {
    for (release, updated) in [
        ("4.18.0", "10.0.0.0/8 192.0.2.0/24"),
        ("4.21.0", "10.0.0.0/8 192.0.2.0/24"),
        ("4.22.0", "198.51.100.0/24,192.0.2.0/24"),
    ] {
        let mut bench = Bench::on(release);
        let rule = bench.rule("80", &[("cidrlist", "10.0.0.0/8,192.0.2.0/24")]);
        assert_eq!(bench.listed_rule(&rule)["cidrlist"], "10.0.0.0/8 192.0.2.0/24");
        let cidrs = ("cidrlist", "198.51.100.0/24,192.0.2.0/24");
        bench.run("updateLoadBalancerRule", &[("id", &rule), ("name", "new"), cidrs]);
        let listed = bench.listed_rule(&rule);
        assert_eq!((&listed["name"], &listed["cidrlist"]), (&"new".into(), &updated.into()));
        let api = bench.row("listApis", &[("name", "updateLoadBalancerRule")]);
        let params = api["params"].as_array().expect("parameters");
        let knows = params.iter().any(|param| param["name"] == "cidrlist");
        assert_eq!(knows, release == "4.22.0");
    }
}

#[test]
fn an_update_changes_protocol_from_4_17_1_on() {
    for (release, protocol) in [("4.17.0", "tcp"), ("4.17.1", "tcp-proxy"), (LATEST, "tcp-proxy")] {
        let mut bench = Bench::on(release);
        let rule = bench.rule("80", &[]);
        let change = [("id", rule.as_str()), ("name", "new"), ("protocol", "tcp-proxy")];
        bench.run("updateLoadBalancerRule", &change);
        assert_eq!(bench.listed_rule(&rule)["protocol"], protocol, "{release}");
    }
}

/// A push carries a changed member address to the router, which nothing else does. Before 4.22 only
/// another algorithm is pushed, and takes the protocol along.
#[test]
fn an_update_of_the_protocol_is_pushed_from_4_22_on() {
    let new = Some("10.1.1.77");
    for (release, algorithm, address) in [
        ("4.17.1", "roundrobin", None),
        ("4.17.1", "source", new),
        ("4.21.0", "roundrobin", None),
        ("4.21.0", "source", new),
        ("4.22.0", "roundrobin", new),
    ] {
        let mut bench = Bench::on(release);
        let rule = bench.rule("80", &[("openfirewall", "true")]);
        bench.assign(&rule, "node-1");
        bench.simulator.change_vm_address("node-1", "iso", "10.1.1.77").expect("an interface");
        let change = [("id", rule.as_str()), ("protocol", "tcp-proxy"), ("algorithm", algorithm)];
        bench.run("updateLoadBalancerRule", &change);
        assert_eq!(bench.listed_rule(&rule)["protocol"], "tcp-proxy");
        assert_eq!(known_member(&bench, 80).as_deref(), address, "{release} {algorithm}");
    }
}

/// The address at which the router finds the one member behind a port, if it is there.
fn known_member(bench: &Bench, port: u16) -> Option<String> {
    let reach = bench.simulator.reach(&ccm_simulator::TrafficQuery {
        source: "198.51.100.7".parse().expect("an address"),
        address: PUBLIC.parse().expect("an address"),
        protocol: ccm_simulator::Protocol::Tcp,
        port,
    });
    reach.members.into_iter().next().map(|member| member.address)
}

/// The rules of both tiers are told apart by their port; the address shows the first tier.
#[test]
fn a_vpc_in_conserve_mode_serves_tiers_from_one_address() {
    for (release, mode, status) in
        [("4.22.2", "true", 431), (LATEST, "false", 431), (LATEST, "true", 200)]
    {
        let mut bench = Bench::with(&[("RELEASE", release), ("CONSERVE", mode)]);
        let address = bench.address(OF_VPC);
        let [tier, second] = ["tier", "second"].map(|name| bench.id("listNetworks", name));
        let rule = |port, network| rule_params(&address, port, &[("networkid", network)]);
        let made = bench.run("createLoadBalancerRule", &rule("80", tier.as_str()));
        let more = bench.send("createLoadBalancerRule", &rule("81", second.as_str()));
        assert_eq!(more.0, status, "{release} {mode}");
        let bound = bench.row("listPublicIpAddresses", &[("id", &address)]);
        assert_eq!(bound["associatednetworkid"], tier);
        let id = text(&made["loadbalancer"]["id"]);
        let elsewhere = bench.id("listVirtualMachines", "many");
        let member = [
            ("id", id.as_str()),
            ("vmidipmap[0].vmid", elsewhere.as_str()),
            ("vmidipmap[0].vmip", "10.2.2.21"),
            ("vmidipmap[0].vmnetworkid", second.as_str()),
        ];
        let job = bench.finish("assignToLoadBalancerRule", &member);
        assert_eq!(job["jobstatus"] == 1, status == 200, "{release} {mode}: {job}");
    }
}

#[test]
fn firewall_rules_tell_their_network_but_for_those_of_a_vpc() {
    for release in ["4.15.0", "4.22.2", LATEST] {
        let mut bench = Bench::on(release);
        let [network, address] = [bench.id("listNetworks", "iso"), bench.address(PUBLIC)];
        bench.open(&address, "80", "10.0.0.0/8");
        let listed = bench.row("listFirewallRules", &[("ipaddressid", &address)]);
        assert_eq!(listed["networkid"], network, "{release}");
    }
    let mut bench = Bench::with(&[("SERVICES", "with-firewall")]);
    let [vpc, address] = [bench.id("listVPCs", "vpc"), bench.address(OF_VPC)];
    bench.open(&address, "80", "10.0.0.0/8");
    let listed = bench.row("listFirewallRules", &[("ipaddressid", &address)]);
    assert_eq!((listed.get("networkid"), &listed["vpcid"]), (None, &vpc.into()));
}

/// The codes of older releases are not established; here all are as 4.23 was observed to be.
#[test]
fn every_release_refuses_an_address_beyond_the_limit_at_once() {
    for release in RELEASES {
        let mut bench = Bench::on(release);
        bench.simulator.limit_public_ips("prod", Some(1)).expect("an account");
        let network = bench.id("listNetworks", "iso");
        let refused = bench.refused("associateIpAddress", &[("networkid", &network)]);
        assert_eq!(refused.code, 532, "{release}");
    }
}

#[test]
fn an_acl_item_without_cidrlist_covers_ipv6_from_4_17_on() {
    for (release, cidrs) in [("4.16.0", "0.0.0.0/0"), ("4.17.0", "0.0.0.0/0,::/0")] {
        let mut bench = Bench::on(release);
        let item = bench.acl_item(&[]);
        let listed = bench.row("listNetworkACLs", &[("id", &item)]);
        assert_eq!(listed["cidrlist"], cidrs, "{release}");
    }
}

#[test]
fn an_address_is_released_by_its_text_from_4_19_on() {
    let by_text = [("ipaddress", PUBLIC)];
    assert_eq!(Bench::on("4.18.1").refused("disassociateIpAddress", &by_text).code, 431);
    let mut bench = Bench::on("4.19.0");
    bench.run("disassociateIpAddress", &by_text);
    assert_eq!(bench.rows("listPublicIpAddresses", &by_text).len(), 0);
}

#[test]
fn nics_tell_their_device_from_4_16_on() {
    for (release, device) in [("4.15.0", ""), ("4.16.0", "0")] {
        let vm = Bench::on(release).row("listVirtualMachines", &[("keyword", "node-10")]);
        assert_eq!(text(&vm["nic"][0]["deviceid"]), device, "{release}");
    }
}

#[test]
fn metrics_of_management_servers_exist_from_4_17_on_and_not_for_users() {
    for (release, code, root) in
        [("4.16.0", 401, "errorresponse"), ("4.17.0", 432, "errorresponse")]
    {
        let refused = Bench::on(release).refused("listManagementServersMetrics", &[]);
        assert_eq!((refused.code, refused.root.as_str()), (code, root), "{release}");
    }
}

#[test]
fn a_router_takes_ssl_from_4_22_on() {
    for (release, status) in [("4.21.0", 431), ("4.22.0", 200)] {
        let mut bench = Bench::on(release);
        let address = bench.address(PUBLIC);
        let params = rule_params(&address, "443", &[("protocol", "ssl")]);
        assert_eq!(bench.send("createLoadBalancerRule", &params).0, status, "{release}");
    }
}

/// What 4.23 knows and an older release does not goes unnoticed: only reading tells.
#[test]
fn newer_parameters_are_ignored_by_older_releases() {
    let mut bench = Bench::on("4.15.0");
    let rule = bench.rule("80", &[]);
    let before = bench.listed_rule(&rule);
    let newer = [("id", rule.as_str()), ("name", "web"), ("cidrlist", "10.0.0.0/8")];
    bench.run("updateLoadBalancerRule", &newer);
    assert_eq!(bench.listed_rule(&rule), before);
    let networks = bench.rows("listNetworks", &[]);
    assert_eq!(bench.rows("listNetworks", &[("name", "nothing")]), networks);
}

#[test]
fn keys_of_answers_are_the_same_in_every_release() {
    let mut shapes: Vec<Vec<String>> = RELEASES.map(shape).to_vec();
    shapes.dedup();
    assert_eq!(shapes.len(), 1, "{shapes:?}");
    assert_eq!(
        shapes.concat(),
        [
            "associateipaddressresponse",
            "ipaddress",
            "createloadbalancerruleresponse",
            "loadbalancer",
            "assigntoloadbalancerruleresponse",
            "success",
            "createfirewallruleresponse",
            "firewallrule",
            "createnetworkaclresponse",
            "networkacl",
            "listpublicipaddressesresponse",
            "publicipaddress",
            "listloadbalancerrulesresponse",
            "loadbalancerrule",
            "listloadbalancerruleinstancesresponse",
            "lbrulevmidip",
            "listfirewallrulesresponse",
            "firewallrule",
            "listnetworkaclsresponse",
            "networkacl",
            "listvirtualmachinesresponse",
            "virtualmachine",
            "listnetworksresponse",
            "network",
            "listvpcsresponse",
            "vpc",
            "listzonesresponse",
            "zone",
        ]
    );
}

/// Root keys of jobs with the key of their result, and of lists with the key of their rows.
fn shape(release: &str) -> Vec<String> {
    let mut bench = Bench::on(release);
    let network = bench.id("listNetworks", "iso");
    let address = bench.address(PUBLIC);
    let vm = bench.id("listVirtualMachines", "node-1");
    let list = bench.id("listNetworkACLLists", "custom");
    let mut shape = Vec::new();
    let mut job = |bench: &mut Bench, command: &str, params: &[(&str, &str)]| {
        let (_, root, body) = bench.send(command, params);
        let done = bench.job(&text(&body["jobid"]));
        assert_eq!(done["jobstatus"], 1, "{command}: {done}");
        shape.extend([root, keys(&done["jobresult"])[0].to_owned()]);
        text(&body["id"])
    };
    job(&mut bench, "associateIpAddress", &[("networkid", &network)]);
    let rule = job(&mut bench, "createLoadBalancerRule", &rule_params(&address, "80", &[]));
    let members = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
    job(&mut bench, "assignToLoadBalancerRule", &members);
    let open = [("ipaddressid", address.as_str()), ("protocol", "tcp"), ("startport", "80")];
    job(&mut bench, "createFirewallRule", &open);
    job(&mut bench, "createNetworkACL", &[("aclid", &list), ("protocol", "tcp")]);
    for (command, params) in [
        ("listPublicIpAddresses", &[][..]),
        ("listLoadBalancerRules", &[]),
        ("listLoadBalancerRuleInstances", &[("id", rule.as_str()), ("lbvmips", "true")]),
        ("listFirewallRules", &[]),
        ("listNetworkACLs", &[]),
        ("listVirtualMachines", &[]),
        ("listNetworks", &[]),
        ("listVPCs", &[]),
        ("listZones", &[]),
    ] {
        let (_, root, body) = bench.send(command, params);
        let rows = keys(&body).into_iter().find(|key| body[key].is_array());
        shape.extend([root, rows.expect(command).to_owned()]);
    }
    shape
}

/// Fields of answers that began with a release: list, filter, path of the field, release before,
/// release from which it is there.
#[test]
fn fields_of_answers_begin_with_their_release() {
    type Filter = &'static [(&'static str, &'static str)];
    let many: Filter = &[("keyword", "many")];
    let public: Filter = &[("ipaddress", PUBLIC)];
    let of_vpc: Filter = &[("ipaddress", OF_VPC)];
    let iso: Filter = &[("keyword", "iso")];
    let table: &[(&str, Filter, &str, &str, &str)] = &[
        ("listLoadBalancerRules", &[], "domainpath", "4.19.0", "4.19.2"),
        ("listPublicIpAddresses", public, "domainpath", "4.19.0", "4.19.2"),
        ("listPublicIpAddresses", public, "forprovider", "4.20.1", "4.21.0"),
        ("listPublicIpAddresses", public, "hasrules", "4.18.1", "4.19.0"),
        ("listFirewallRules", &[], "traffictype", "4.16.0", "4.17.0"),
        ("listNetworks", iso, "created", "4.15.0", "4.16.0"),
        ("listNetworks", iso, "supportsvmautoscaling", "4.17.1", "4.18.0"),
        ("listVPCs", &[], "vpcofferingconservemode", "4.22.2", "4.23.0"),
        ("listVirtualMachines", many, "vmtype", "4.19.2", "4.20.0"),
        ("listVirtualMachines", many, "arch", "4.20.0", "4.20.1"),
    ];
    let field = |release: &str, list: &str, filter: Filter, field: &str| {
        let mut bench = Bench::on(release);
        bench.rule("80", &[("openfirewall", "true")]);
        bench.row(list, filter).get(field).cloned()
    };
    for (list, filter, name, before, since) in table {
        assert_eq!(field(before, list, filter, name), None, "{list} {name} on {before}");
        assert_ne!(field(since, list, filter, name), None, "{list} {name} on {since}");
    }
    let always: &[(&str, Filter, &str)] = &[
        ("listLoadBalancerRules", &[], "zonename"),
        ("listPublicIpAddresses", of_vpc, "vpcname"),
        ("listNetworks", &[("keyword", "second")], "vpcname"),
    ];
    for (list, filter, name) in always {
        assert_ne!(field("4.15.0", list, filter, name), None, "{list} {name}");
    }
}

#[test]
fn machines_tell_their_last_change_from_4_16_on() {
    for (release, is_told) in [("4.15.0", false), ("4.16.0", true)] {
        let mut bench = Bench::on(release);
        let vm = bench.id("listVirtualMachines", "node-10");
        bench.run("stopVirtualMachine", &[("id", &vm)]);
        let listed = bench.row("listVirtualMachines", &[("id", &vm)]);
        assert_eq!(listed.get("lastupdated").is_some_and(Value::is_string), is_told, "{release}");
    }
}

/// An ACL item shows its reason in every release here; it began with 4.12.
#[test]
fn reasons_of_acl_items_are_shown_in_every_release() {
    let mut bench = Bench::on("4.15.0");
    let item = bench.acl_item(&[("reason", "for the cluster")]);
    let listed = bench.row("listNetworkACLs", &[("id", &item)]);
    assert_eq!(listed["reason"], "for the cluster");
}
