//! Section 11 of the observations: jobs.

use crate::bench::{Bench, PUBLIC, keys, rule_params, text};

/// Of the account and user that sent the command.
const OF_CALLER: [&str; 5] = ["account", "accountid", "domainid", "domainpath", "userid"];
const OF_SERVER: [&str; 2] = ["managementserverid", "managementservername"];

fn sorted(parts: &[&[&'static str]]) -> Vec<&'static str> {
    let mut all = parts.concat();
    all.sort_unstable();
    all
}

#[test]
fn a_pending_job_names_its_server_and_a_finished_one_its_result() {
    let mut bench = Bench::slow("5");
    let rule = bench.rule("80", &[]);
    let job = bench.start("updateLoadBalancerRule", &[("id", &rule), ("name", "new")]);
    let always = ["cmd", "created", "jobid", "jobprocstatus", "jobresultcode", "jobstatus"];
    let pending = bench.job(&job);
    assert_eq!(keys(&pending), sorted(&[&OF_CALLER, &OF_SERVER, &always]));
    assert_eq!(
        (&pending["jobstatus"], &pending["jobprocstatus"], &pending["jobresultcode"]),
        (&0.into(), &0.into(), &0.into())
    );
    bench.wait(5);
    let of_end = ["completed", "jobresult", "jobresulttype"];
    assert_eq!(keys(&bench.job(&job)), sorted(&[&OF_CALLER, &always, &of_end]));
}

#[test]
fn jobs_name_their_object_on_creation_and_release_alone() {
    let mut bench = Bench::new();
    let network = bench.id("listNetworks", "iso");
    let address = bench.address(PUBLIC);
    let vm = bench.id("listVirtualMachines", "node-1");
    let list = bench.id("listNetworkACLLists", "custom");
    let about = |bench: &mut Bench, command: &str, params: &[(&str, &str)]| {
        let job = bench.finish(command, params);
        (text(&job["jobinstancetype"]), text(&job["jobinstanceid"]))
    };
    let of = |kind: &str, id: &str| (kind.to_owned(), id.to_owned());
    let job = bench.finish("createLoadBalancerRule", &rule_params(&address, "80", &[]));
    let rule = text(&job["jobresult"]["loadbalancer"]["id"]);
    assert_eq!(
        (text(&job["jobinstancetype"]), text(&job["jobinstanceid"])),
        of("FirewallRule", &rule)
    );
    let with_vm = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
    for (command, params) in [
        ("assignToLoadBalancerRule", &with_vm[..]),
        ("removeFromLoadBalancerRule", &with_vm),
        ("updateLoadBalancerRule", &[("id", &rule), ("name", "new")]),
        ("deleteLoadBalancerRule", &[("id", &rule)]),
    ] {
        assert_eq!(about(&mut bench, command, params), of("", ""), "{command}");
    }
    let item = about(&mut bench, "createNetworkACL", &[("aclid", &list), ("protocol", "tcp")]);
    assert_eq!(item, of("NetworkAclItem", ""));
    let job = bench.finish("associateIpAddress", &[("networkid", &network)]);
    let made = text(&job["jobresult"]["ipaddress"]["id"]);
    assert_eq!(
        (text(&job["jobinstancetype"]), text(&job["jobinstanceid"])),
        of("IpAddress", &made)
    );
    let released = about(&mut bench, "disassociateIpAddress", &[("id", &made)]);
    assert_eq!(released, of("IpAddress", &made));
}

#[test]
fn a_job_is_looked_up_by_what_it_names_and_may_be_somebody_elses() {
    let mut bench = Bench::new();
    let rule = bench.rule("80", &[]);
    let by = |id, kind| [("resourceid", id), ("resourcetype", kind)];
    let refused = bench.refused("queryAsyncJobResult", &by(rule.as_str(), "LoadBalancer"));
    assert_eq!(refused.code, 431);
    let found = bench.ask("queryAsyncJobResult", &by(rule.as_str(), "FirewallRule"));
    assert!(text(&found["cmd"]).ends_with("CreateLoadBalancerRuleCmd"), "{found}");

    let address = bench.address(PUBLIC);
    bench.run("disassociateIpAddress", &[("id", &address)]);
    let network = bench.id("listNetworks", "foreign");
    let again = [("networkid", network.as_str()), ("ipaddress", PUBLIC)];
    bench.by("other").run("associateIpAddress", &again);
    let refused =
        bench.by("prod").refused("queryAsyncJobResult", &by(address.as_str(), "IpAddress"));
    assert_eq!(refused.code, 531);
}

#[test]
fn only_jobs_in_progress_are_listed() {
    let mut bench = Bench::slow("5");
    let network = bench.id("listNetworks", "iso");
    let job = bench.start("associateIpAddress", &[("networkid", &network)]);
    assert_eq!(bench.row("listAsyncJobs", &[])["jobid"], job);
    bench.wait(5);
    assert_eq!(bench.rows("listAsyncJobs", &[]).len(), 0);
}

#[test]
fn a_domain_admin_reads_jobs_of_its_users_and_other_users_do_not() {
    let mut bench = Bench::new();
    let network = bench.id("listNetworks", "far");
    let job = bench.by("remote").start("associateIpAddress", &[("networkid", &network)]);
    assert_eq!(bench.by("boss").job(&job)["jobstatus"], 1);
    assert_eq!(bench.by("prod").refused("queryAsyncJobResult", &[("jobid", &job)]).code, 531);
}
