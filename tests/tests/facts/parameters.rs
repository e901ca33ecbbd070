//! Section 6.2 of the API notes: in which release commands and parameters began. An older release
//! does not know the command, and does not notice the parameter.

use crate::bench::{Bench, LATEST, NOBODY, PUBLIC, Params, RELEASES, text};

/// Commands and the release that brought them; those without one are older than 4.15.
#[rustfmt::skip]
const COMMANDS: &[(&str, Option<&str>)] = &[
    ("listLoadBalancerRules", None),
    ("createLoadBalancerRule", None),
    ("updateLoadBalancerRule", None),
    ("deleteLoadBalancerRule", None),
    ("assignToLoadBalancerRule", None),
    ("removeFromLoadBalancerRule", None),
    ("listLoadBalancerRuleInstances", None),
    ("createLBStickinessPolicy", None),
    ("deleteLBStickinessPolicy", None),
    ("listLBStickinessPolicies", None),
    ("listPublicIpAddresses", None),
    ("associateIpAddress", None),
    ("disassociateIpAddress", None),
    ("reserveIpAddress", Some("4.17.0")),
    ("releaseIpAddress", Some("4.17.0")),
    ("createFirewallRule", None),
    ("updateFirewallRule", None),
    ("deleteFirewallRule", None),
    ("listFirewallRules", None),
    ("createNetworkACL", None),
    ("updateNetworkACLItem", None),
    ("deleteNetworkACL", None),
    ("replaceNetworkACLList", None),
    ("listNetworkACLs", None),
    ("listNetworkACLLists", None),
    ("createNetworkACLList", None),
    ("listNetworks", None),
    ("listVPCs", None),
    ("listVirtualMachines", None),
    ("listZones", None),
    ("listCapabilities", None),
    ("listManagementServers", None),
    ("listManagementServersMetrics", Some("4.17.0")),
    ("listProjects", None),
    ("listTags", None),
    ("createTags", None),
    ("deleteTags", None),
    ("listApis", None),
    ("addResourceDetail", None),
    ("listResourceDetails", None),
    ("queryAsyncJobResult", None),
    ("listAsyncJobs", None),
];

#[test]
fn commands_begin_with_their_release() {
    for release in RELEASES {
        let mut bench = Bench::on(release);
        for (command, since) in COMMANDS {
            let known = since.is_none_or(|since| reaches(release, since));
            let (status, root, _) = bench.by("root").send(command, &[]);
            let unknown = (status, root.as_str()) == (401, "errorresponse");
            assert_eq!(unknown, !known, "{command} on {release}");
        }
    }
}

/// Whether a release is that of `since` or later; both stand in the list of releases.
fn reaches(release: &str, since: &str) -> bool {
    let place = |text: &str| RELEASES.iter().position(|known| *known == text).expect("a release");
    place(release) >= place(since)
}

/// Filters of lists that change the answer as soon as they are known: list, filter, a value that
/// finds nothing or is refused, and the release that brought the filter.
const FILTERS: &[(&str, &str, &str, Option<&str>)] = &[
    ("listNetworks", "name", "nothing", Some("4.22.0")),
    ("listZones", "ids", NOBODY, Some("4.19.0")),
    ("listVirtualMachines", "ids", NOBODY, None),
    ("listFirewallRules", "networkid", NOBODY, None),
    ("listPublicIpAddresses", "networkid", NOBODY, None),
    ("listZones", "tags[0].key", "nothing", None),
];

#[test]
fn filters_are_not_noticed_before_their_release() {
    for release in RELEASES {
        let mut bench = Bench::on(release);
        let address = bench.address(PUBLIC);
        bench.open(&address, "80", "10.0.0.0/8");
        for (list, filter, value, since) in FILTERS {
            let known = since.is_none_or(|since| reaches(release, since));
            let plain = bench.send(list, &[]);
            let filtered = bench.send(list, &[(filter, value)]);
            assert_eq!(filtered != plain, known, "{list} {filter} on {release}");
        }
    }
}

#[test]
fn members_are_given_by_address_in_every_release() {
    for release in ["4.15.0", LATEST] {
        let mut bench = Bench::on(release);
        let rule = bench.rule("80", &[]);
        let vm = bench.id("listVirtualMachines", "node-10");
        let pair = [
            ("id", rule.as_str()),
            ("vmidipmap[0].vmid", vm.as_str()),
            ("vmidipmap[0].vmip", "10.1.1.112"),
        ];
        bench.run("assignToLoadBalancerRule", &pair);
        let listed = [("id", rule.as_str()), ("lbvmips", "true")];
        let member = bench.row("listLoadBalancerRuleInstances", &listed);
        assert_eq!(member["lbvmipaddresses"], serde_json::json!(["10.1.1.112"]));
        let others = [("id", rule.as_str()), ("applied", "false")];
        assert_eq!(bench.rows("listLoadBalancerRuleInstances", &others).len(), 0);
        bench.run("removeFromLoadBalancerRule", &pair);
        assert_eq!(bench.rows("listLoadBalancerRuleInstances", &listed).len(), 0);
    }
}

/// `fordisplay` and `customid` are for root admins: a user's change nothing.
#[test]
fn parameters_of_root_admins_are_ignored_for_users() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[("fordisplay", "false"), ("openfirewall", "true")]);
    bench.acl_item(&[("fordisplay", "false")]);
    for list in [
        "listLoadBalancerRules",
        "listPublicIpAddresses",
        "listFirewallRules",
        "listNetworkACLs",
        "listNetworkACLLists",
        "listNetworks",
        "listVPCs",
        "listVirtualMachines",
    ] {
        let all = bench.rows(list, &[]);
        assert!(!all.is_empty(), "{list}");
        for hidden in [("fordisplay", "false"), ("displaynetwork", "false"), ("displayvm", "false")]
        {
            assert_eq!(bench.rows(list, &[hidden]), all, "{list}");
        }
    }
    let update = [("id", rule.as_str()), ("name", "web"), ("customid", NOBODY)];
    bench.run("updateLoadBalancerRule", &update);
    assert_eq!(bench.listed_rule(&rule)["id"], rule);
}

/// It counts all rows and shows none.
#[test]
fn a_count_alone_can_be_asked_for() {
    let mut bench = Bench::new();
    let only: Params = &[("retrieveonlyresourcecount", "true")];
    for list in ["listNetworks", "listPublicIpAddresses"] {
        let rows = bench.rows(list, &[]).len();
        assert_eq!(bench.ask(list, only), serde_json::json!({ "count": rows }));
    }
}

#[test]
fn the_newest_job_of_an_object_is_found_from_4_22_1_on() {
    for (release, found) in [("4.22.0", false), ("4.22.1", true)] {
        let mut bench = Bench::on(release);
        let network = bench.id("listNetworks", "iso");
        let accepted = bench.ask("associateIpAddress", &[("networkid", &network)]);
        let id = text(&accepted["id"]);
        let by_object = [("resourceid", id.as_str()), ("resourcetype", "IpAddress")];
        let (status, _, body) = bench.send("queryAsyncJobResult", &by_object);
        assert_eq!(
            (status == 200, body["jobid"] == accepted["jobid"]),
            (found, found),
            "{release}"
        );
    }
}
