//! Sections 0 and 1 of the observations: where a real server differs from what its source seemed to
//! say, and what it settled. Names end with the row: in section 0 its number, in section 1 the paragraph
//! of the API notes that it settles.

use ccm_simulator::faults::{RouterFault, RouterPart};
use ccm_simulator::http;
use jiff::SignedDuration;
use serde_json::json;

use crate::bench::{Bench, OF_VPC, PUBLIC, rule_params, text};

#[test]
fn a_long_cidrlist_is_cut_at_255_characters_without_a_word_row_0_1() {
    let mut bench = Bench::new();
    let cidrs: Vec<String> = (0..40).map(|at| format!("10.0.{at}.0/24")).collect();
    let long = cidrs.join(",");
    let rule = bench.rule("80", &[("cidrlist", &long)]);
    let listed = text(&bench.listed_rule(&rule)["cidrlist"]);
    assert_eq!(listed, long.replace(',', " ")[..255]);
    let reversed = cidrs.iter().rev().cloned().collect::<Vec<_>>().join(",");
    let result = bench.run("updateLoadBalancerRule", &[("id", &rule), ("cidrlist", &reversed)]);
    assert_eq!(result["loadbalancer"]["cidrlist"], reversed);
    assert_eq!(text(&bench.listed_rule(&rule)["cidrlist"]), reversed[..255]);
}

#[test]
fn releasing_a_free_address_fails_at_once_for_everybody_row_0_3() {
    let mut bench = Bench::new();
    let id = bench.address(PUBLIC);
    bench.run("disassociateIpAddress", &[("id", &id)]);
    for caller in ["prod", "other", "root"] {
        let refused = bench.by(caller).refused("disassociateIpAddress", &[("id", &id)]);
        assert_eq!(refused.code, 530, "{caller}");
    }
}

#[test]
fn changes_of_a_rule_of_others_fail_in_the_job_row_0_5() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let id = ("id", rule.as_str());
    let vm = bench.id("listVirtualMachines", "stranger");
    let with_vm = [id, ("virtualmachineids", vm.as_str())];
    let before = bench.listed_rule(&rule);
    bench.by("other");
    for (command, params) in [
        ("updateLoadBalancerRule", &[id, ("name", "mine")][..]),
        ("assignToLoadBalancerRule", &with_vm),
        ("removeFromLoadBalancerRule", &with_vm),
        ("deleteLoadBalancerRule", &[id]),
        ("createTags", &tags(&rule, "key", "value")),
    ] {
        assert_eq!(bench.fails(command, params).0, 530, "{command}");
    }
    assert_eq!(bench.by("prod").listed_rule(&rule), before);
}

/// A create has made its object before the id is looked at; other commands change nothing.
#[test]
fn what_a_refused_job_id_leaves_behind_row_0_7() {
    const USED: &str = "357affd4-2cb4-4adc-96fc-33dd2a53caae";
    let mut bench = Bench::new();
    let first = bench.rule("79", &[("customjobid", USED)]);
    let [address, network, vm] = [
        bench.address(PUBLIC),
        bench.id("listNetworks", "iso"),
        bench.id("listVirtualMachines", "node-1"),
    ];
    let before = bench.listed_rule(&first);
    for (id, code, port) in [(USED, 530, "80"), ("nonsense", 431, "81")] {
        let job = ("customjobid", id);
        let made = rule_params(&address, port, &[job]);
        assert_eq!(bench.refused("createLoadBalancerRule", &made).code, code);
        let rules = bench.rows("listLoadBalancerRules", &[]);
        let left = rules.last().expect("a rule");
        assert_eq!((&left["publicport"], &left["state"]), (&port.into(), &"Add".into()));

        let params = [("networkid", network.as_str()), job];
        assert_eq!(bench.refused("associateIpAddress", &params).code, code);
        bench.wait(3600);
        let stuck = text(&bench.row("listPublicIpAddresses", &[("state", "Allocating")])["id"]);
        bench.run("disassociateIpAddress", &[("id", &stuck)]);

        let rule = ("id", first.as_str());
        for (command, what) in [
            ("updateLoadBalancerRule", ("name", "new")),
            ("assignToLoadBalancerRule", ("virtualmachineids", vm.as_str())),
        ] {
            assert_eq!(bench.refused(command, &[rule, what, job]).code, code, "{command}");
        }
        assert_eq!(bench.listed_rule(&first), before);
        assert_eq!(bench.rows("listLoadBalancerRuleInstances", &[rule]).len(), 0);
    }
}

#[test]
fn a_firewall_rule_of_a_vpc_keeps_the_address_bound_row_0_11() {
    let mut bench = Bench::with(&[("SERVICES", "with-firewall")]);
    let address = bench.address(OF_VPC);
    let tier = bench.id("listNetworks", "tier");
    let params = rule_params(&address, "80", &[("networkid", &tier)]);
    let rule = text(&bench.run("createLoadBalancerRule", &params)["loadbalancer"]["id"]);
    let firewall = bench.open(&address, "80", "10.0.0.0/8");
    let bound = |bench: &mut Bench| {
        text(&bench.row("listPublicIpAddresses", &[("id", &address)])["associatednetworkid"])
    };
    bench.run("deleteLoadBalancerRule", &[("id", &rule)]);
    assert_eq!(bound(&mut bench), tier);
    bench.run("deleteFirewallRule", &[("id", &firewall)]);
    assert_eq!(bound(&mut bench), tier);
}

#[test]
fn udp_passes_where_no_router_serves_the_tier_row_0_12() {
    let mut bench = Bench::new();
    let address = bench.address(OF_VPC);
    let [tier, fresh] = ["tier", "fresh"].map(|name| bench.id("listNetworks", name));
    for (network, status) in [(&tier, 431), (&fresh, 200)] {
        let params = rule_params(&address, "53", &[("protocol", "udp"), ("networkid", network)]);
        assert_eq!(bench.send("createLoadBalancerRule", &params).0, status);
    }
}

#[test]
fn list_apis_counts_like_any_other_call_row_0_13() {
    let mut bench = Bench::new();
    bench.simulator.set("api.throttling.enabled", "true").expect("a setting");
    let issued = |bench: &mut Bench| {
        bench.ask("getApiLimit", &[])["apilimit"]["apiIssued"].as_u64().expect("a number")
    };
    let before = issued(&mut bench);
    assert!(bench.rows("listApis", &[]).len() > 25);
    assert_eq!(issued(&mut bench), before + 2);
}

fn tags<'a>(id: &'a str, key: &'a str, value: &'a str) -> [(&'a str, &'a str); 4] {
    [
        ("resourcetype", "LoadBalancer"),
        ("resourceids", id),
        ("tags[0].key", key),
        ("tags[0].value", value),
    ]
}

#[test]
fn tags_are_cut_and_may_have_an_empty_key_row_0_15() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let long = "x".repeat(300);
    bench.run("createTags", &tags(&rule, "long", &long));
    assert_eq!(
        bench.listed_rule(&rule)["tags"],
        json!([{"key": "long", "value": "x".repeat(255)}])
    );
    bench.run("createTags", &tags(&rule, "", "keyless"));
    assert_eq!(bench.row("listTags", &[("value", "keyless")])["key"], "");
    assert_eq!(bench.fails("createTags", &tags(&rule, "valueless", "")).0, 431);
}

#[test]
fn http_methods_are_get_post_head_and_a_dummy_options_row_0_16() {
    let mut bench = Bench::new();
    let target = "/client/api?command=listZones&response=json";
    let status = |bench: &mut Bench, method: &str| {
        let answer = http::exchange(&mut bench.simulator, method, target, &[], bench.now);
        answer.expect("an answer").status
    };
    let expected = [("GET", 401), ("HEAD", 401), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 200)];
    for (method, code) in expected {
        assert_eq!(status(&mut bench, method), code, "{method}");
    }
}

#[test]
fn ids_that_are_none_are_ignored_one_by_one_row_0_17() {
    let mut bench = Bench::new();
    let vm = bench.id("listVirtualMachines", "node-1");
    assert_eq!(bench.rows("listVirtualMachines", &[("ids", "foo")]).len(), 0);
    let mixed = format!("{vm},foo");
    assert_eq!(bench.row("listVirtualMachines", &[("ids", &mixed)])["id"], vm);
}

#[test]
fn an_empty_assign_succeeds_and_an_absent_one_fails_row_0_18() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    bench.run("assignToLoadBalancerRule", &[("id", &rule), ("virtualmachineids", "")]);
    let (code, cause) = bench.fails("assignToLoadBalancerRule", &[("id", &rule)]);
    assert!(code == 530 && cause.contains("can't be null"), "{cause}");
    assert_eq!(bench.rows("listLoadBalancerRuleInstances", &[("id", &rule)]).len(), 0);
}

#[test]
fn texts_compare_in_any_letter_case_row_1_7() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    bench.run("createTags", &tags(&rule, "Cluster", "Blue"));
    for (list, params) in [
        ("listLoadBalancerRules", &[("name", "WEB")][..]),
        ("listLoadBalancerRules", &[("keyword", "WE")]),
        ("listLoadBalancerRules", &[("tags[0].key", "cluster"), ("tags[0].value", "BLUE")]),
        ("listTags", &[("key", "CLUSTER")]),
        ("listTags", &[("value", "blue")]),
    ] {
        bench.row(list, params);
    }
}

#[test]
fn jobs_on_one_network_and_on_one_rule_overlap_row_1_10() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let [address, vm] = [bench.address(PUBLIC), bench.id("listVirtualMachines", "node-1")];
    let wait = RouterFault::Wait(SignedDuration::from_secs(5));
    for part in [RouterPart::LoadBalancer, RouterPart::Firewall] {
        bench.simulator.fault_router(part, wait);
    }
    let jobs = [
        ("assignToLoadBalancerRule", [("id", rule.as_str()), ("virtualmachineids", vm.as_str())]),
        ("updateLoadBalancerRule", [("id", rule.as_str()), ("algorithm", "source")]),
        ("createFirewallRule", [("ipaddressid", address.as_str()), ("protocol", "tcp")]),
    ]
    .map(|(command, params)| bench.start(command, &params));
    assert_eq!(bench.rows("listAsyncJobs", &[]).len(), 3);
    bench.wait(5);
    for job in jobs {
        assert_eq!(bench.job(&job)["jobstatus"], 1);
    }
    let listed = bench.listed_rule(&rule);
    assert_eq!((&listed["state"], &listed["algorithm"]), (&"Active".into(), &"source".into()));
}

#[test]
fn new_key_pairs_come_from_a_job_row_1_2_2() {
    let mut bench = Bench::new();
    let keys_of = bench.rows("listUserKeys", &[]);
    let user = text(&keys_of[0]["userid"]);
    let made = bench.ask("registerUserKeys", &[("id", &user)]);
    assert!(made.get("jobid").is_some(), "{made}");
    assert_eq!(bench.rows("listUserKeys", &[]).len(), keys_of.len() + 1);
}

#[test]
fn app_cookies_are_accepted_row_1_2_3() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let policy = [
        ("lbruleid", rule.as_str()),
        ("name", "sticky"),
        ("methodname", "AppCookie"),
        ("param[0].name", "cookie-name"),
        ("param[0].value", "SESSION"),
    ];
    bench.run("createLBStickinessPolicy", &policy);
    let listed = bench.row("listLBStickinessPolicies", &[("lbruleid", &rule)]);
    assert_eq!(listed["stickinesspolicy"][0]["methodname"], "AppCookie");
}

#[test]
fn forloadbalancing_remembers_rules_of_the_past_row_1_2_4() {
    let mut bench = Bench::new();
    let for_rules = [("forloadbalancing", "true")];
    assert_eq!(bench.rows("listPublicIpAddresses", &for_rules).len(), 0);
    let rule = bench.rule("80", &[]);
    bench.run("deleteLoadBalancerRule", &[("id", &rule)]);
    assert_eq!(bench.row("listPublicIpAddresses", &for_rules)["ipaddress"], PUBLIC);
}

#[test]
fn details_min_shows_nics_of_later_rows_only_row_1_2_7a() {
    let mut bench = Bench::new();
    let addresses = |bench: &mut Bench, details: &str| -> Vec<String> {
        let vm = bench.row("listVirtualMachines", &[("name", "many"), ("details", details)]);
        let nics = vm["nic"].as_array().expect("interfaces");
        nics.iter().map(|nic| text(&nic["ipaddress"])).collect()
    };
    assert_eq!(addresses(&mut bench, "min"), ["10.2.1.21", "10.2.2.21"]);
    assert_eq!(addresses(&mut bench, "min,nics"), ["10.1.1.21", "10.2.1.21", "10.2.2.21"]);
}

/// Every tag is a row of the machine in CloudStack's database, and so is every interface.
#[test]
fn two_tags_make_details_min_show_the_only_nic_row_1_2_7a() {
    let mut bench = Bench::new();
    let vm = bench.id("listVirtualMachines", "node-1");
    for (key, nics) in [("one", 0), ("two", 1)] {
        let mut params = tags(&vm, key, "value");
        params[0].1 = "UserVm";
        bench.run("createTags", &params);
        let shown = bench.row("listVirtualMachines", &[("id", &vm), ("details", "min")]);
        assert_eq!(shown["nic"].as_array().map(Vec::len), Some(nics), "{key}");
    }
}

#[test]
fn later_nics_do_not_tell_their_vpc_row_1_2_7b() {
    let mut bench = Bench::new();
    let vpc = |bench: &mut Bench, name: &str, nic: usize| {
        text(&bench.row("listVirtualMachines", &[("name", name)])["nic"][nic]["vpcid"])
    };
    assert_eq!(vpc(&mut bench, "many", 2), "");
    assert_eq!(vpc(&mut bench, "tnode-1", 0), bench.id("listVPCs", "vpc"));
}

#[test]
fn tags_go_with_all_objects_but_rules_row_1_2_9() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let address = bench.address(PUBLIC);
    let firewall = bench.open(&address, "80", "10.0.0.0/8");
    let item = bench.acl_item(&[]);
    for (kind, id) in [
        ("LoadBalancer", &rule),
        ("FirewallRule", &firewall),
        ("NetworkACL", &item),
        ("PublicIpAddress", &address),
    ] {
        let mut params = tags(id, "of", kind);
        params[0].1 = kind;
        bench.run("createTags", &params);
    }
    assert_eq!(bench.rows("listTags", &[("key", "of")]).len(), 4);
    for (command, id) in [
        ("deleteLoadBalancerRule", &rule),
        ("deleteFirewallRule", &firewall),
        ("deleteNetworkACL", &item),
        ("disassociateIpAddress", &address),
    ] {
        bench.run(command, &[("id", id)]);
    }
    let left = bench.row("listTags", &[("key", "of")]);
    assert_eq!((&left["value"], &left["resourceid"]), (&"LoadBalancer".into(), &rule.into()));
}

#[test]
fn without_conserve_mode_an_address_serves_one_purpose_row_1_3_1() {
    let mut bench = Bench::new();
    for (address, purpose) in [("203.0.113.7", "SourceNat"), ("203.0.113.8", "PortForwarding")] {
        let id = bench.address(address);
        let refused = bench.refused("createLoadBalancerRule", &rule_params(&id, "80", &[]));
        assert_eq!(refused.code, 431, "{address}");
        let text = format!("already used as {purpose} rather than Lb");
        assert!(refused.text.contains(&text), "{}", refused.text);
        bench.open(&id, "80", "10.0.0.0/8");
    }
    let id = bench.address("203.0.113.9");
    bench.run("createLoadBalancerRule", &rule_params(&id, "80", &[]));
}

#[test]
fn a_vm_is_found_once_for_every_time_it_was_a_member_row_1_3_7() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let vm = bench.id("listVirtualMachines", "node-1");
    for _ in 0..8 {
        bench.assign(&rule, "node-1");
        bench.run("removeFromLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
    }
    assert_eq!(bench.rows("listLoadBalancerRules", &[("virtualmachineid", &vm)]).len(), 8);
}

#[test]
fn one_port_alone_trips_an_update_of_an_acl_item_row_1_5a() {
    let mut bench = Bench::new();
    let item = bench.acl_item(&[]);
    let before = bench.row("listNetworkACLs", &[("id", &item)]);
    for port in ["startport", "endport"] {
        let (code, cause) = bench.fails("updateNetworkACLItem", &[("id", &item), (port, "80")]);
        assert!(code == 530 && cause.contains("is null"), "{cause}");
        assert_eq!(bench.row("listNetworkACLs", &[("id", &item)]), before);
    }
}

#[test]
fn a_damaged_acl_item_breaks_every_list_that_has_it_row_1_5b() {
    let mut bench = Bench::new();
    let list = bench.id("listNetworkACLLists", "custom");
    let item = bench.acl_item(&[]);
    let other = bench.acl_item(&[]);
    let whole = [("id", item.as_str()), ("partialupgrade", "false"), ("protocol", "tcp")];
    assert_eq!(bench.fails("updateNetworkACLItem", &whole).0, 530);
    for broken in [&[][..], &[("id", item.as_str())], &[("aclid", &list)], &[("listall", "true")]] {
        assert_eq!(bench.refused("listNetworkACLs", broken).code, 530);
    }
    bench.row("listNetworkACLs", &[("id", &other)]);
    bench.run("updateNetworkACLItem", &[("id", &item), ("traffictype", "ingress")]);
    assert_eq!(bench.rows("listNetworkACLs", &[("aclid", &list)]).len(), 2);
}

#[test]
fn acl_jobs_succeed_though_their_push_fails_row_1_5c() {
    for fault in [RouterFault::Fail, RouterFault::Throw] {
        let mut bench = Bench::new();
        bench.simulator.fault_router(RouterPart::Acl, fault);
        let item = bench.acl_item(&[]);
        let id = [("id", item.as_str())];
        assert_eq!(bench.row("listNetworkACLs", &id)["state"], "Active");
        bench.run("updateNetworkACLItem", &[id[0], ("cidrlist", "10.0.0.0/8")]);
        assert_eq!(bench.row("listNetworkACLs", &id)["state"], "Active");
        bench.run("deleteNetworkACL", &id);
        assert_eq!(bench.refused("listNetworkACLs", &id).code, 431);
    }
}
