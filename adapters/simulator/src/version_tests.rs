//! What differs between releases, one row each: the last release before, the first one after, and
//! what a client sees in both.

use jiff::SignedDuration;
use serde_json::Value;

use crate::faults::{RouterFault, RouterPart};
use crate::message::{Method, Request};
use crate::testing::{Lab, rule_params, text};
use crate::versions::FIELDS;

/// A difference that a client can see.
struct Difference {
    name: &'static str,
    /// Release and what is seen.
    before: (&'static str, &'static str),
    after: (&'static str, &'static str),
    see: fn(&mut Lab) -> String,
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "names of rules and machines are matched as a whole",
        before: ("4.16.1", "1 2"),
        after: ("4.17.0", "0 0"),
        see: |lab| {
            lab.rule("80", &[]);
            let rules = lab.rows("listLoadBalancerRules", &[("name", "eb")]).len();
            let machines = lab.rows("listVirtualMachines", &[("name", "node-")]).len();
            format!("{rules} {}", machines.min(2))
        },
    },
    Difference {
        name: "devices of interfaces are told and ordered",
        before: ("4.15.2", "null 10.1.2.2"),
        after: ("4.16.0", "0 10.1.1.11"),
        see: |lab| {
            let vm = lab.id("listVirtualMachines", "node-1");
            let network = lab.id("listNetworks", "idle");
            let add = [("virtualmachineid", vm.as_str()), ("networkid", network.as_str())];
            lab.run("addNicToVirtualMachine", &add);
            let shown = lab.rows("listVirtualMachines", &[("id", &vm)]).remove(0);
            format!("{} {}", text(&shown["nic"][0]["deviceid"]), text(&shown["ipaddress"]))
        },
    },
    Difference {
        name: "an ACL item without CIDRs is for both families",
        before: ("4.16.1", "0.0.0.0/0"),
        after: ("4.17.0", "0.0.0.0/0,::/0"),
        see: |lab| {
            let list = lab.id("listNetworkACLLists", "custom");
            let made = lab.run("createNetworkACL", &[("aclid", &list), ("protocol", "all")]);
            text(&made["networkacl"]["cidrlist"])
        },
    },
    Difference {
        name: "reserveIpAddress exists",
        before: ("4.16.1", "401"),
        after: ("4.17.0", "431"),
        see: |lab| lab.status("reserveIpAddress", &[]),
    },
    Difference {
        name: "listManagementServersMetrics exists, for root",
        before: ("4.16.1", "401"),
        after: ("4.17.0", "200"),
        see: |lab| lab.by("root").status("listManagementServersMetrics", &[]),
    },
    Difference {
        name: "another protocol of a rule is stored",
        before: ("4.17.0", "tcp"),
        after: ("4.17.1", "tcp-proxy"),
        see: |lab| {
            let rule = lab.rule("80", &[]);
            let update = [("id", &*rule), ("protocol", "tcp-proxy"), ("name", "n")];
            lab.run("updateLoadBalancerRule", &update);
            text(&lab.listed_rule(&rule)["protocol"])
        },
    },
    Difference {
        name: "another protocol of a rule is pushed",
        before: ("4.21.0", "Active"),
        after: ("4.22.0", "Add"),
        see: |lab| {
            let (rule, vm) = (lab.rule("80", &[]), lab.id("listVirtualMachines", "node-1"));
            lab.run("assignToLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
            let update = [("id", rule.as_str()), ("protocol", "tcp-proxy")];
            // The result was read before the push, and nothing was to be pushed before 4.22.
            let shown = lab.run("updateLoadBalancerRule", &update);
            text(&shown["loadbalancer"]["state"])
        },
    },
    Difference {
        name: "a command that a role denies is 432",
        before: ("4.17.2", "401"),
        after: ("4.18.0", "432"),
        see: |lab| lab.by("kubeadmin").status("listZones", &[]),
    },
    Difference {
        name: "a rule is made with CIDRs, separated by blanks",
        before: ("4.17.2", "431"),
        after: ("4.18.0", "10.0.0.0/8 192.0.2.1"),
        see: |lab| {
            let address = lab.address("203.0.113.2");
            let more = [("cidrlist", "10.0.0.0/8,192.0.2.1")];
            let params = rule_params(&address, "80", &more);
            match lab.status("createLoadBalancerRule", &params).as_str() {
                "200" => lab.column("listLoadBalancerRules", &[], "cidrlist").concat(),
                refused => refused.to_owned(),
            }
        },
    },
    Difference {
        name: "an address is released by its text",
        before: ("4.18.2", "431"),
        after: ("4.19.0", "200"),
        see: |lab| lab.status("disassociateIpAddress", &[("ipaddress", "203.0.113.2")]),
    },
    Difference {
        name: "addresses tell whether they have rules",
        before: ("4.18.2", "null"),
        after: ("4.19.0", "true"),
        see: |lab| {
            let shown = lab.rows("listPublicIpAddresses", &[("ipaddress", "203.0.113.2")]);
            text(&shown[0]["hasrules"])
        },
    },
    Difference {
        name: "global ACL lists exist, for root",
        before: ("4.18.2", "431"),
        after: ("4.19.0", "200"),
        see: |lab| lab.by("root").status("createNetworkACLList", &[("name", "global")]),
    },
    Difference {
        name: "a released address is kept for its last owner",
        before: ("4.18.2", "200"),
        after: ("4.19.0", "533"),
        see: |lab| {
            lab.simulator.set("public.ip.address.quarantine.duration", "10").unwrap();
            let [id, foreign] = [lab.address("203.0.113.2"), lab.id("listNetworks", "foreign")];
            lab.run("disassociateIpAddress", &[("id", &id)]);
            let wanted = [("networkid", foreign.as_str()), ("ipaddress", "203.0.113.2")];
            lab.by("other").status("associateIpAddress", &wanted)
        },
    },
    Difference {
        name: "a request waits for a job that has locked its address",
        before: ("4.19.0", "0"),
        after: ("4.19.1", "1"),
        see: |lab| {
            let slow = RouterFault::Wait(SignedDuration::from_secs(9));
            lab.simulator.fault_router(RouterPart::Firewall, slow);
            let address = lab.address("203.0.113.2");
            let open = [("ipaddressid", address.as_str()), ("protocol", "tcp")];
            let job = text(&lab.ask("createFirewallRule", &open)["jobid"]);
            lab.ask("createLoadBalancerRule", &rule_params(&address, "80", &[]));
            text(&lab.ask("queryAsyncJobResult", &[("jobid", &job)])["jobstatus"])
        },
    },
    Difference {
        name: "blank CIDRs of a firewall rule are everywhere",
        before: ("4.19.1", "431"),
        after: ("4.19.2", "200"),
        see: |lab| {
            let address = lab.address("203.0.113.2");
            let params =
                [("ipaddressid", address.as_str()), ("protocol", "tcp"), ("cidrlist", " ")];
            lab.status("createFirewallRule", &params)
        },
    },
    Difference {
        name: "objects tell the path of their domain",
        before: ("4.19.1", "null"),
        after: ("4.19.2", "ROOT"),
        see: |lab| text(&lab.rows("listPublicIpAddresses", &[])[0]["domainpath"]),
    },
    Difference {
        name: "a keyword finds ACL items by their reason",
        before: ("4.19.3", "5"),
        after: ("4.20.0", "1"),
        see: |lab| {
            let list = lab.id("listNetworkACLLists", "custom");
            let item = [("aclid", list.as_str()), ("protocol", "tcp"), ("reason", "mine")];
            lab.run("createNetworkACL", &item);
            lab.rows("listNetworkACLs", &[("keyword", "mine")]).len().to_string()
        },
    },
    Difference {
        name: "an address of a network without conserve mode refuses a second use as 431",
        before: ("4.19.3", "530"),
        after: ("4.20.0", "431"),
        see: |lab| {
            lab.simulator.cloud.networks.iter_mut().for_each(|(_, row)| {
                row.offering.conserve_mode = false;
            });
            let address = lab.address("203.0.113.2");
            lab.status("createLoadBalancerRule", &rule_params(&address, "80", &[]))
        },
    },
    Difference {
        name: "API keys can be turned off",
        before: ("4.20.0", "200"),
        after: ("4.20.1", "401"),
        see: |lab| {
            lab.simulator.set("api.key.access", "false").unwrap();
            lab.signed("AKprod", "SKprod", "listZones").0.to_string()
        },
    },
    Difference {
        name: "POST-only mode exists",
        before: ("4.20.3", "431"),
        after: ("4.21.0", "400"),
        see: |lab| {
            lab.simulator.set("enforce.post.requests.and.timestamps", "true").unwrap();
            let params = [("command", "createTags")];
            lab.signed_with(Method::Get, "AKprod", "SKprod", &params).0.to_string()
        },
    },
    Difference {
        name: "XML errors hide the release",
        before: ("4.20.3", "true"),
        after: ("4.21.0", "false"),
        see: |lab| {
            let params = vec![("command".to_owned(), "listNetworks".to_owned())];
            let unsigned = Request { method: Method::Get, params };
            let error = lab.simulator.handle(&unsigned, lab.now);
            error.body.contains("cloud-stack-version").to_string()
        },
    },
    Difference {
        name: "the CIDRs of a rule change in place, separated by commas",
        before: ("4.21.0", "10.0.0.0/8"),
        after: ("4.22.0", "10.1.0.0/16,10.2.0.0/16"),
        see: |lab| {
            let rule = lab.rule("80", &[("cidrlist", "10.0.0.0/8")]);
            let cidrs =
                [("id", rule.as_str()), ("cidrlist", "10.1.0.0/16,10.2.0.0/16"), ("name", "n")];
            lab.run("updateLoadBalancerRule", &cidrs);
            text(&lab.listed_rule(&rule)["cidrlist"])
        },
    },
    Difference {
        name: "an update of a rule that was made without protocol is told as failed",
        before: ("4.21.0", "1"),
        after: ("4.22.0", "2"),
        see: |lab| {
            let rule = lab.rule("80", &[("protocol", "ABSENT")]);
            let job = lab.ask("updateLoadBalancerRule", &[("id", &rule), ("name", "n")]);
            let job = text(&job["jobid"]);
            text(&lab.ask("queryAsyncJobResult", &[("jobid", &job)])["jobstatus"])
        },
    },
    Difference {
        name: "a router takes ssl",
        before: ("4.21.0", "431"),
        after: ("4.22.0", "200"),
        see: |lab| {
            let address = lab.address("203.0.113.2");
            let params = rule_params(&address, "443", &[("protocol", "ssl")]);
            lab.status("createLoadBalancerRule", &params)
        },
    },
    Difference {
        name: "networks are found by name",
        before: ("4.21.0", "6"),
        after: ("4.22.0", "1"),
        see: |lab| lab.rows("listNetworks", &[("name", "iso")]).len().to_string(),
    },
    Difference {
        name: "a network other than the address's is refused",
        before: ("4.22.0", "200"),
        after: ("4.22.1", "431"),
        see: |lab| {
            let address = lab.address("203.0.113.2");
            let idle = lab.id("listNetworks", "idle");
            let more = [("networkid", idle.as_str())];
            lab.status("createLoadBalancerRule", &rule_params(&address, "80", &more))
        },
    },
    Difference {
        name: "states of addresses are a list, and checked",
        before: ("4.22.0", "200 0"),
        after: ("4.22.1", "431 13"),
        see: |lab| {
            let bogus = lab.status("listPublicIpAddresses", &[("state", "bogus")]);
            let two = lab.rows("listPublicIpAddresses", &[("state", "Allocated,Free")]).len();
            format!("{bogus} {two}")
        },
    },
    Difference {
        name: "a job is found by its object",
        before: ("4.22.0", "431"),
        after: ("4.22.1", "200"),
        see: |lab| {
            let rule = lab.rule("80", &[]);
            let params = [("resourceid", rule.as_str()), ("resourcetype", "FirewallRule")];
            lab.status("queryAsyncJobResult", &params)
        },
    },
    Difference {
        name: "a failed assign gives its reason",
        before: ("4.22.2", "Failed to assign load balancer rule"),
        after: (
            "4.23.0",
            "Failed to assign load balancer rule due to: VM with id specified cannot be added because it doesn't belong in the same network.",
        ),
        see: |lab| {
            let (rule, vm) = (lab.rule("80", &[]), lab.id("listVirtualMachines", "tnode-1"));
            lab.fails("assignToLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]).1
        },
    },
    Difference {
        name: "a rule is deleted twice in a job",
        before: ("4.22.2", "431"),
        after: ("4.23.0", "200"),
        see: |lab| {
            let rule = lab.rule("80", &[]);
            lab.run("deleteLoadBalancerRule", &[("id", &rule)]);
            lab.status("deleteLoadBalancerRule", &[("id", &rule)])
        },
    },
    Difference {
        name: "the firewall of a VPC by its offering",
        before: ("4.22.2", "431"),
        after: ("4.23.0", "200"),
        see: |lab| {
            for (_, vpc) in lab.simulator.cloud.vpcs.iter_mut() {
                vpc.services.push("Firewall".to_owned());
            }
            let address = lab.address("203.0.113.3");
            let params = [("ipaddressid", address.as_str()), ("protocol", "tcp")];
            lab.status("createFirewallRule", &params)
        },
    },
    Difference {
        name: "an address of a VPC in conserve mode serves two tiers",
        before: ("4.22.2", "null 431"),
        after: ("4.23.0", "true 200"),
        see: |lab| {
            lab.simulator.cloud.vpcs.iter_mut().for_each(|(_, vpc)| vpc.conserve_mode = true);
            let address = lab.address("203.0.113.3");
            let [tier, allow] = ["tier", "allow"].map(|name| lab.id("listNetworks", name));
            let in_tier = |tier| [("networkid", tier), ("openfirewall", "ABSENT")];
            lab.rule_on(&address, "80", &in_tier(&tier));
            let shown = text(&lab.rows("listVPCs", &[])[0]["vpcofferingconservemode"]);
            let second = rule_params(&address, "81", &in_tier(&allow));
            format!("{shown} {}", lab.status("createLoadBalancerRule", &second))
        },
    },
    Difference {
        name: "signed calls count twice",
        before: ("4.22.2", "1"),
        after: ("4.23.0", "2"),
        see: |lab| {
            lab.simulator.set("api.throttling.enabled", "true").unwrap();
            let limit = lab.signed("AKprod", "SKprod", "getApiLimit").1;
            text(&limit["getapilimitresponse"]["apilimit"]["apiIssued"])
        },
    },
    Difference {
        name: "a user has several key pairs",
        before: ("4.22.2", "401"),
        after: ("4.23.0", "200"),
        see: |lab| lab.status("listUserKeys", &[]),
    },
    Difference {
        name: "interfaces tell whether they are enabled",
        before: ("4.22.2", "null"),
        after: ("4.23.0", "true"),
        see: |lab| {
            let vm = lab.rows("listVirtualMachines", &[("name", "node-1")]).remove(0);
            text(&vm["nic"][0]["enabled"])
        },
    },
    Difference {
        name: "listApis of a name out of reach lists all",
        before: ("4.22.2", "530"),
        after: ("4.23.0", "200"),
        see: |lab| lab.status("listApis", &[("name", "listHosts")]),
    },
    Difference {
        name: "networks tell when they were made",
        before: ("4.15.2", "null"),
        after: ("4.16.0", "2026-01-01T00:00:00+0000"),
        see: |lab| text(&lab.rows("listNetworks", &[("keyword", "iso")])[0]["created"]),
    },
    Difference {
        name: "firewall rules tell their direction",
        before: ("4.16.1", "null"),
        after: ("4.17.0", "Ingress"),
        see: |lab| {
            let address = lab.address("203.0.113.2");
            lab.open(&address, "80", "0.0.0.0/0");
            text(&lab.rows("listFirewallRules", &[])[0]["traffictype"])
        },
    },
];

#[test]
fn each_difference_begins_with_its_release() {
    for Difference { name, before, after, see } in DIFFERENCES {
        for (release, expected) in [before, after] {
            assert_eq!(see(&mut Lab::on(release)), *expected, "{name}: {release}");
        }
    }
}

/// The last release before the one of these numbers; which patches there were does not matter.
fn before([major, minor, patch]: [u16; 3]) -> String {
    match patch {
        0 => format!("{major}.{}.99", minor - 1),
        _ => format!("{major}.{minor}.{}", patch - 1),
    }
}

/// An object of a kind, with every field that it may have.
fn shown(lab: &mut Lab, kind: &str) -> Value {
    let list = match kind {
        "asyncjobs" => {
            let slow = RouterFault::Wait(SignedDuration::from_secs(9));
            lab.simulator.fault_router(RouterPart::Firewall, slow);
            let address = lab.address("203.0.113.2");
            lab.ask("createFirewallRule", &[("ipaddressid", &address), ("protocol", "tcp")]);
            "listAsyncJobs"
        }
        "firewallrule" => {
            let address = lab.address("203.0.113.2");
            lab.open(&address, "80", "0.0.0.0/0");
            "listFirewallRules"
        }
        "ipaddress" => "listPublicIpAddresses",
        "network" => "listNetworks",
        "virtualmachine" => {
            let vm = lab.id("listVirtualMachines", "node-1");
            lab.run("stopVirtualMachine", &[("id", &vm)]);
            return lab.rows("listVirtualMachines", &[("id", &vm)]).remove(0);
        }
        "vpc" => "listVPCs",
        "zone" => "listZones",
        other => panic!("nothing lists a {other}"),
    };
    lab.rows(list, &[]).remove(0)
}

#[test]
fn fields_of_the_table_begin_with_their_release() {
    for (kind, field, since) in FIELDS {
        let [major, minor, patch] = since;
        let first = format!("{major}.{minor}.{patch}");
        for (release, is_told) in [(before(*since), false), (first, true)] {
            let object = shown(&mut Lab::on(&release), kind);
            assert_eq!(object.get(field).is_some(), is_told, "{kind} {field} on {release}");
        }
    }
}

#[test]
fn a_list_of_cidrs_is_cut_at_255_characters_in_every_release() {
    let many: Vec<String> = (0..40).map(|net| format!("10.0.{net}.0/24")).collect();
    for release in ["4.18.0", "4.22.0", "4.23.0"] {
        let mut lab = Lab::on(release);
        let rule = lab.rule("80", &[("cidrlist", &many.join(","))]);
        assert_eq!(text(&lab.listed_rule(&rule)["cidrlist"]).len(), 255, "{release}");
    }
}
