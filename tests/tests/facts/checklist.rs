//! Section 9 of the API notes: what a faithful simulator must do, where no other test names it, and
//! the shapes of exchanges.

use serde_json::json;

use crate::bench::{Bench, PUBLIC, keys, rule_params, text};

#[test]
fn the_order_of_checks_decides_the_error() {
    let mut bench = Bench::new();
    bench.simulator.set("api.throttling.enabled", "true").expect("a setting");
    let unknown = bench.signed("wrong", &[("command", "listNothings")]);
    assert_eq!(unknown, (401, "errorresponse".to_owned()));
    // The role comes before the signature, the signature before parameters.
    let forbidden = bench.signed("wrong", &[("command", "listManagementServers")]);
    assert_eq!(forbidden, (432, "errorresponse".to_owned()));
    let unsigned = bench.signed("wrong", &[("command", "createTags")]);
    assert_eq!(unsigned, (401, "createtagsresponse".to_owned()));
    let incomplete = bench.signed("SKprod", &[("command", "createTags")]);
    assert_eq!(incomplete, (431, "createtagsresponse".to_owned()));
    // The limit of calls comes before the signature too.
    for _ in 0..25 {
        bench.signed("wrong", &[("command", "listZones")]);
    }
    let limited = bench.signed("wrong", &[("command", "listZones")]);
    assert_eq!(limited, (429, "listzonesresponse".to_owned()));
}

/// A number of the database names an object as its UUID does, if the caller may see it.
#[test]
fn numbers_of_the_database_name_ones_own_objects() {
    let mut bench = Bench::new();
    assert_eq!(bench.row("listZones", &[("id", "1")])["name"], "zone-1");
    assert_eq!(bench.row("listNetworks", &[("id", "1")])["name"], "iso");
    let unseen = bench.by("other").ask("listNetworks", &[("id", "1")]);
    assert_eq!(unseen, json!({}));
    let missing = bench.by("prod").refused("listLoadBalancerRuleInstances", &[("id", "99")]);
    assert_eq!(missing.code, 530);
}

#[test]
fn an_address_goes_from_free_to_allocated_and_back_under_one_id() {
    let mut bench = Bench::slow("2");
    let network = bench.id("listNetworks", "iso");
    let free = bench
        .row("listPublicIpAddresses", &[("ipaddress", "203.0.113.10"), ("allocatedonly", "false")]);
    let id = text(&free["id"]);
    let state = |bench: &mut Bench| {
        let listed = [("id", id.as_str()), ("allocatedonly", "false")];
        text(&bench.row("listPublicIpAddresses", &listed)["state"])
    };
    assert_eq!(state(&mut bench), "Free");
    bench.start("associateIpAddress", &[("networkid", &network), ("ipaddress", "203.0.113.10")]);
    assert_eq!(state(&mut bench), "Allocating");
    bench.wait(2);
    assert_eq!(state(&mut bench), "Allocated");
    bench.run("disassociateIpAddress", &[("id", &id)]);
    assert_eq!(state(&mut bench), "Free");
}

#[test]
fn a_rule_is_active_while_it_has_members_and_add_else() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let state = |bench: &mut Bench| text(&bench.listed_rule(&rule)["state"]);
    assert_eq!(state(&mut bench), "Add");
    bench.assign(&rule, "node-1");
    assert_eq!(state(&mut bench), "Active");
    bench.assign(&rule, "node-10");
    let vm = bench.id("listVirtualMachines", "node-1");
    bench.run("removeFromLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
    assert_eq!(state(&mut bench), "Active");
    let vm = bench.id("listVirtualMachines", "node-10");
    bench.run("removeFromLoadBalancerRule", &[("id", &rule), ("virtualmachineids", &vm)]);
    assert_eq!(state(&mut bench), "Add");
}

#[test]
fn capabilities_tell_the_release() {
    for release in ["4.15.0", "4.19.0", "4.23.0"] {
        let told = Bench::on(release).ask("listCapabilities", &[]);
        assert_eq!(told["capability"]["cloudstackversion"], format!("{release}.0"));
    }
}

#[test]
fn accepted_creates_have_an_id_and_a_job_and_other_commands_a_job_alone() {
    let mut bench = Bench::new();
    let address = bench.address(PUBLIC);
    let (status, root, body) =
        bench.send("createLoadBalancerRule", &rule_params(&address, "80", &[]));
    assert_eq!((status, root.as_str()), (200, "createloadbalancerruleresponse"));
    assert_eq!(keys(&body), ["id", "jobid"]);
    let rule = text(&body["id"]);
    let (_, _, body) = bench.send("deleteLoadBalancerRule", &[("id", &rule)]);
    assert_eq!(keys(&body), ["jobid"]);
}

#[test]
fn a_finished_job_shows_the_object_under_its_name() {
    let mut bench = Bench::new();
    let address = bench.address(PUBLIC);
    let job = bench.finish("createLoadBalancerRule", &rule_params(&address, "80", &[]));
    let rule = &job["jobresult"]["loadbalancer"];
    assert_eq!(
        (&rule["publicport"], &rule["privateport"], &rule["state"], &rule["tags"]),
        (&"80".into(), &"30080".into(), &"Add".into(), &json!([]))
    );
    assert_eq!((&job["jobresultcode"], &job["jobresulttype"]), (&0.into(), &"object".into()));
    assert_eq!(job["jobinstanceid"], rule["id"]);
}

#[test]
fn a_failed_job_has_code_and_text_and_no_class() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let job = bench.finish("updateLoadBalancerRule", &[("id", &rule)]);
    assert_eq!((&job["jobstatus"], &job["jobresultcode"]), (&2.into(), &530.into()));
    assert_eq!(keys(&job["jobresult"]), ["errorcode", "errortext"]);
}

#[test]
fn an_error_has_a_list_of_ids_a_code_a_class_and_a_text() {
    let mut bench = Bench::new();
    let address = bench.address(PUBLIC);
    bench.rule("80", &[]);
    let (status, _, body) = bench.send("createLoadBalancerRule", &rule_params(&address, "80", &[]));
    assert_eq!(status, 537);
    assert_eq!(keys(&body), ["cserrorcode", "errorcode", "errortext", "uuidList"]);
    assert_eq!((&body["uuidList"], &body["cserrorcode"]), (&json!([]), &9999.into()));
    bench.open(&address, "80", "10.0.0.0/8");
    let same = [
        ("ipaddressid", address.as_str()),
        ("protocol", "tcp"),
        ("startport", "80"),
        ("cidrlist", "10.0.0.0/8"),
    ];
    let refused = bench.refused("createFirewallRule", &same);
    assert_eq!((refused.code, refused.class), (537, Some(4360)));
}

#[test]
fn members_with_addresses_have_a_shape_of_their_own() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    bench.assign(&rule, "node-1");
    let listed = bench.ask("listLoadBalancerRuleInstances", &[("id", &rule), ("lbvmips", "true")]);
    assert_eq!(keys(&listed), ["count", "lbrulevmidip"]);
    let member = &listed["lbrulevmidip"][0];
    assert_eq!(keys(member), ["lbvmipaddresses", "loadbalancerruleinstance"]);
    assert_eq!(member["lbvmipaddresses"], json!(["10.1.1.11"]));
    assert_eq!(member["loadbalancerruleinstance"]["name"], "node-1");
    let plain = bench.row("listLoadBalancerRuleInstances", &[("id", &rule)]);
    assert_eq!(plain["name"], "node-1");
}
