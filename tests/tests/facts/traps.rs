//! Section 8 of the API notes: the traps that no test beside the code of simulator and client pins.
//! Names end with the number of the trap.

use serde_json::json;

use crate::bench::{Bench, NOBODY, OF_VPC, PUBLIC, keys, rule_params, text};

#[test]
fn nothing_found_has_neither_count_nor_rows_trap_1() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask("listLoadBalancerRules", &[]), json!({}));
    let beyond = bench.ask("listNetworks", &[("page", "9"), ("pagesize", "10")]);
    assert_eq!(keys(&beyond), ["count"]);
}

#[test]
fn three_commands_answer_under_odd_roots_trap_3() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let policy = [("lbruleid", rule.as_str()), ("name", "sticky"), ("methodname", "LbCookie")];
    let (_, root, made) = bench.send("createLBStickinessPolicy", &policy);
    assert_eq!(root, "createLBStickinessPolicy");
    let policy = text(&made["id"]);
    let (_, root, _) = bench.send("deleteLBStickinessPolicy", &[("id", &policy)]);
    assert_eq!(root, "deleteLBstickinessrruleresponse");
    let item = bench.acl_item(&[]);
    let (_, root, _) = bench.send("updateNetworkACLItem", &[("id", &item), ("reason", "new")]);
    assert_eq!(root, "createnetworkaclresponse");
    let refused = bench.refused("updateNetworkACLItem", &[]);
    assert_eq!(refused.root, "createnetworkaclresponse");
    assert!(refused.text.contains("createnetworkacl "), "{}", refused.text);
}

/// The limit is that of a default installation.
#[test]
fn more_than_500_rows_are_cut_without_a_word_trap_5() {
    let mut bench = Bench::new();
    let list = bench.id("listNetworkACLLists", "custom");
    for _ in 0..501 {
        bench.acl_item(&[]);
    }
    let of_list = ("aclid", list.as_str());
    let cut = bench.ask("listNetworkACLs", &[of_list]);
    let rows = cut["networkacl"].as_array().expect("rows");
    assert_eq!((&cut["count"], rows.len()), (&501.into(), 500));
    assert_eq!(bench.rows("listNetworkACLs", &[of_list, ("pagesize", "-1")]).len(), 501);
    let large = [of_list, ("page", "1"), ("pagesize", "501")];
    assert_eq!(bench.refused("listNetworkACLs", &large).code, 431);
}

#[test]
fn an_id_is_taken_before_its_job_ends_trap_17() {
    let mut bench = Bench::slow("5");
    let address = bench.address(PUBLIC);
    let params = rule_params(&address, "80", &[("openfirewall", "true")]);
    let accepted = bench.ask("createLoadBalancerRule", &params);
    assert_eq!(bench.job(&text(&accepted["jobid"]))["jobstatus"], 0);
    assert_eq!(bench.refused("createLoadBalancerRule", &params).code, 537);
    let here = bench.row("listLoadBalancerRules", &[("publicipid", &address)]);
    assert_eq!((&here["id"], &here["publicport"]), (&accepted["id"], &"80".into()));
}

#[test]
fn jobs_that_ended_a_day_ago_are_forgotten_trap_19() {
    let mut bench = Bench::new();
    let network = bench.id("listNetworks", "iso");
    let job = bench.start("associateIpAddress", &[("networkid", &network)]);
    bench.wait(24 * 3600 - 1);
    assert_eq!(bench.job(&job)["jobstatus"], 1);
    bench.wait(1);
    let refused = bench.refused("queryAsyncJobResult", &[("jobid", &job)]);
    assert_eq!(refused.code, 431);
    assert!(refused.text.contains("entity does not exist"), "{}", refused.text);
}

#[test]
fn the_id_of_an_address_goes_on_to_its_next_owner_trap_22() {
    let mut bench = Bench::new();
    let id = bench.address(PUBLIC);
    bench.run("disassociateIpAddress", &[("id", &id)]);
    let network = bench.id("listNetworks", "foreign");
    let wanted = [("networkid", network.as_str()), ("ipaddress", PUBLIC)];
    let got = bench.by("other").run("associateIpAddress", &wanted);
    assert_eq!(got["ipaddress"]["id"], id);
    bench.by("prod");
    assert_eq!(bench.rows("listPublicIpAddresses", &[("id", &id)]).len(), 0);
    assert_eq!(bench.fails("disassociateIpAddress", &[("id", &id)]).0, 530);
    let refused = bench.refused("createLoadBalancerRule", &rule_params(&id, "80", &[]));
    assert_eq!(refused.code, 531);
}

#[test]
fn networkid_of_an_address_is_the_public_network_trap_24() {
    let mut bench = Bench::new();
    let guest = bench.id("listNetworks", "iso");
    let listed = bench.row("listPublicIpAddresses", &[("ipaddress", PUBLIC)]);
    assert_eq!(listed["associatednetworkid"], guest);
    assert_ne!(listed["networkid"], guest);
    let public = text(&listed["networkid"]);
    assert_eq!(bench.rows("listPublicIpAddresses", &[("networkid", &guest)]).len(), 0);
    let all = bench.rows("listPublicIpAddresses", &[]);
    assert_eq!(bench.rows("listPublicIpAddresses", &[("networkid", &public)]), all);
    let idle = bench.row("listPublicIpAddresses", &[("ipaddress", OF_VPC)]);
    assert_eq!(idle.get("associatednetworkid"), None);
}

#[test]
fn a_source_nat_address_in_use_can_not_be_released_trap_25() {
    let mut bench = Bench::new();
    let network = bench.id("listNetworks", "idle");
    let got = bench.run("associateIpAddress", &[("networkid", &network)]);
    let address = &got["ipaddress"];
    assert_eq!(address["issourcenat"], true);
    bench.simulator.implement_network("idle").expect("a network");
    let id = text(&address["id"]);
    let (code, cause) = bench.fails("disassociateIpAddress", &[("id", &id)]);
    assert!(code == 530 && cause.contains("source nat"), "{cause}");
}

#[test]
fn tcp_and_udp_exclude_each_other_and_routers_refuse_udp_trap_26() {
    let mut bench = Bench::new();
    let address = bench.address(PUBLIC);
    let udp = ("protocol", "udp");
    assert_eq!(
        bench.refused("createLoadBalancerRule", &rule_params(&address, "5353", &[udp])).code,
        431
    );
    // Without a router nothing refuses udp, and the port is taken for tcp.
    let network = bench.id("listNetworks", "idle");
    let got = bench.run("associateIpAddress", &[("networkid", &network)]);
    let idle = text(&got["ipaddress"]["id"]);
    bench.run("createLoadBalancerRule", &rule_params(&idle, "5353", &[udp]));
    assert_eq!(bench.refused("createLoadBalancerRule", &rule_params(&idle, "5353", &[])).code, 537);
}

#[test]
fn names_of_rules_are_not_unique_trap_29() {
    let mut bench = Bench::new();
    let rules = [bench.rule("80", &[]), bench.rule("81", &[])];
    let named = bench.rows("listLoadBalancerRules", &[("name", "web")]);
    assert_eq!(named.iter().map(|row| text(&row["id"])).collect::<Vec<_>>(), rules);
}

#[test]
fn hidden_members_are_removed_by_id_trap_33() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    for name in ["node-1", "node-10"] {
        bench.assign(&rule, name);
    }
    let [destroyed, expunged] =
        ["node-1", "node-10"].map(|name| bench.id("listVirtualMachines", name));
    bench.simulator.destroy_vm("node-1").expect("a machine");
    bench.simulator.expunge_vm("node-10").expect("a machine");
    assert_eq!(bench.rows("listLoadBalancerRuleInstances", &[("id", &rule)]).len(), 0);
    let of = |vm| [("virtualmachineid", vm)];
    assert_eq!(bench.row("listLoadBalancerRules", &of(destroyed.as_str()))["id"], rule);
    for vm in [&destroyed, &expunged] {
        bench.run("removeFromLoadBalancerRule", &[("id", &rule), ("virtualmachineids", vm)]);
    }
    assert_eq!(bench.listed_rule(&rule)["state"], "Add");
}

#[test]
fn the_statistics_port_is_reserved_trap_34() {
    let mut bench = Bench::new();
    let address = bench.address(PUBLIC);
    let refused = bench.refused("createLoadBalancerRule", &rule_params(&address, "8081", &[]));
    assert_eq!(refused.code, 431);
}

#[test]
fn openfirewall_is_the_default_and_opens_tcp_to_the_world_trap_35() {
    let mut bench = Bench::new();
    let address = bench.address(PUBLIC);
    let mut params = rule_params(&address, "80", &[]);
    params.retain(|(name, _)| *name != "openfirewall");
    bench.run("createLoadBalancerRule", &params);
    let opened = bench.row("listFirewallRules", &[("ipaddressid", &address)]);
    assert_eq!(
        (&opened["protocol"], &opened["startport"], &opened["endport"], &opened["cidrlist"]),
        (&"tcp".into(), &80.into(), &80.into(), &"0.0.0.0/0".into())
    );
}

#[test]
fn an_address_is_removed_by_vmip_and_not_by_ip_trap_36() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let vm = bench.id("listVirtualMachines", "node-10");
    let by =
        |field| [("id", rule.as_str()), ("vmidipmap[0].vmid", vm.as_str()), (field, "10.1.1.112")];
    let left_without = |bench: &mut Bench, field| {
        bench.assign(&rule, "node-10");
        bench.run("assignToLoadBalancerRule", &by("vmidipmap[0].vmip"));
        bench.run("removeFromLoadBalancerRule", &by(field));
        let listed = [("id", rule.as_str()), ("lbvmips", "true")];
        let members = bench.rows("listLoadBalancerRuleInstances", &listed);
        members.first().map(|member| member["lbvmipaddresses"].clone())
    };
    // An address that is not read leaves the machine alone, which means all its addresses.
    assert_eq!(left_without(&mut bench, "vmidipmap[0].ip"), None);
    assert_eq!(left_without(&mut bench, "vmidipmap[0].vmip"), Some(json!(["10.1.1.12"])));
}

#[test]
fn an_update_wants_its_protocol_in_lower_case_trap_39() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[("protocol", "TCP")]);
    assert_eq!(bench.listed_rule(&rule)["protocol"], "tcp");
    let upper = [("id", rule.as_str()), ("protocol", "TCP-PROXY")];
    assert_eq!(bench.fails("updateLoadBalancerRule", &upper).0, 431);
    bench.run("updateLoadBalancerRule", &[("id", &rule), ("protocol", "tcp-proxy")]);
    assert_eq!(bench.listed_rule(&rule)["protocol"], "tcp-proxy");
}

#[test]
fn acl_items_are_deleted_by_their_own_id_trap_46() {
    let mut bench = Bench::new();
    let list = bench.id("listNetworkACLLists", "custom");
    let item = bench.acl_item(&[]);
    assert_eq!(bench.refused("deleteNetworkACL", &[("id", &list)]).code, 431);
    bench.run("deleteNetworkACL", &[("id", &item)]);
    assert_eq!(bench.rows("listNetworkACLs", &[("aclid", &list)]).len(), 0);
}

#[test]
fn machines_are_known_by_name_and_hypervisors_are_hidden_from_users_trap_47() {
    let mut bench = Bench::new();
    let vm = bench.row("listVirtualMachines", &[("name", "node-1")]);
    assert_eq!((&vm["name"], &vm["displayname"]), (&"node-1".into(), &"node-1".into()));
    for hidden in ["hostname", "hostid", "instancename"] {
        assert_eq!(vm.get(hidden), None, "{hidden}");
    }
}

#[test]
fn ipaddress_is_that_of_the_first_device_trap_48() {
    let mut bench = Bench::new();
    let vm = bench.row("listVirtualMachines", &[("name", "many")]);
    let nics = vm["nic"].as_array().expect("interfaces");
    let devices: Vec<_> = nics.iter().map(|nic| text(&nic["deviceid"])).collect();
    assert_eq!(devices, ["0", "1", "2"]);
    assert_eq!(
        (&vm["ipaddress"], &nics[0]["ipaddress"]),
        (&"10.1.1.21".into(), &"10.1.1.21".into())
    );
}

#[test]
fn an_id_that_finds_nothing_may_mean_four_things_trap_51() {
    let mut bench = Bench::new();
    let [gone, expunged, of_project, foreign] = ["node-1", "node-10", "pnode-1", "stranger"]
        .map(|name| bench.id("listVirtualMachines", name));
    bench.simulator.destroy_vm("node-1").expect("a machine");
    bench.simulator.expunge_vm("node-10").expect("a machine");
    for id in [&gone, &expunged, &of_project, &foreign] {
        assert_eq!(bench.ask("listVirtualMachines", &[("id", id)]), json!({}));
    }
    bench.row("listVirtualMachines", &[("id", &of_project), ("projectid", "-1")]);
    assert_eq!(bench.refused("listVirtualMachines", &[("id", NOBODY)]).code, 431);
}

#[test]
fn a_destroyed_machine_can_be_recovered_until_it_is_expunged_trap_52() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    bench.assign(&rule, "node-1");
    let vm = bench.id("listVirtualMachines", "node-1");
    let members = |bench: &mut Bench| bench.rows("listLoadBalancerRuleInstances", &[("id", &rule)]);
    bench.simulator.stop_vm("node-1").expect("a machine");
    assert_eq!(members(&mut bench)[0]["state"], "Stopped");
    bench.simulator.destroy_vm("node-1").expect("a machine");
    assert_eq!(members(&mut bench).len(), 0);
    bench.by("root").ask("recoverVirtualMachine", &[("id", &vm)]);
    assert_eq!(members(bench.by("prod"))[0]["id"], vm);
    bench.simulator.expunge_vm("node-1").expect("a machine");
    bench.by("root").refused("recoverVirtualMachine", &[("id", &vm)]);
    assert_eq!(members(bench.by("prod")).len(), 0);
}
