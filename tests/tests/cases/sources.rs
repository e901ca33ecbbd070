//! Cases 4: who may come in through the rules themselves, and how settings are read.

use ccm_core::ids::ServiceKey;
use ccm_core::plan::reason::Disruption;
use ccm_core::plan::report::Severity;
use ccm_tests::lab::{Lab, Setup, port};
use jiff::SignedDuration;

use crate::support::{
    A, CLIENT, all_nodes, allocated, annotate, assert_nothing_planned, assert_refused, calls_of,
    commands, left_by_go, names, param, prefix, says, served_by_go, severity, status, unset,
};

/// Not in 198.51.100.0/24.
const STRANGER: &str = "192.0.2.99";

fn restricted(lab: &mut Lab, list: &str) -> ServiceKey {
    let web = lab.create("web", |raw| annotate(raw, "source-cidrs", list));
    lab.settle(&web);
    web
}

#[test]
fn c043_the_list_changes_in_place() {
    let mut lab = Setup::standard().start();
    let web = restricted(&mut lab, "198.51.100.0/24");
    let before = lab.objects();
    assert!(lab.reach(STRANGER, A, 80).is_empty());
    lab.edit(&web, |raw| annotate(raw, "source-cidrs", "198.51.100.0/24, 192.0.2.0/24"));
    let (planned, _) = lab.plan(&web);
    assert_eq!(commands(&planned), ["updateLoadBalancerRule"]);
    lab.settle(&web);
    assert_eq!(lab.objects().rule(80).id(), before.rule(80).id());
    let others = |objects: &ccm_tests::objects::Objects| {
        objects.only(|object| object.list != "listLoadBalancerRules")
    };
    assert_eq!(others(&lab.objects()), others(&before));
    assert_eq!(lab.reach(STRANGER, A, 80), all_nodes());
    assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
}

#[test]
fn c043_an_old_server_gets_another_rule_port_by_port() {
    let new = || {
        let mut lab = Setup::standard().release("4.21.0.0").start();
        let web = lab.create("web", |raw| {
            annotate(raw, "source-cidrs", "198.51.100.0/24");
            raw.ports.push(port("https", "TCP", 443, 30443));
        });
        lab.settle(&web);
        lab.edit(&web, |raw| annotate(raw, "source-cidrs", "198.51.100.0/24,192.0.2.0/24"));
        (lab, web)
    };
    let (lab, web) = new();
    let (planned, _) = lab.plan(&web);
    let one = ["deleteLoadBalancerRule", "createLoadBalancerRule", "assignToLoadBalancerRule"];
    assert_eq!(commands(&planned), [one, one].concat());
    let cut = planned.plan.steps.iter().filter(|step| step.disruption == Disruption::Cut);
    assert!(cut.clone().count() >= 2);
    assert!(cut.clone().all(|step| step.reason.code() == "SourcesCannotBeEdited"));
    let length = planned.plan.steps.len();
    for died_after in 0..=length {
        let (mut lab, web) = new();
        let openings = lab.objects().only(|object| object.list != "listLoadBalancerRules");
        let published = status(&lab, &web);
        assert!(lab.execute(&prefix(&lab.plan(&web).0, died_after)).is_success());
        // Nobody else comes in at any moment, and one port at a time is down at most.
        assert!(lab.reach("203.0.113.99", A, 80).is_empty());
        let up = [80, 443].iter().filter(|n| !lab.reach(CLIENT, A, **n).is_empty()).count();
        assert!(up >= 1, "after {died_after} steps");
        assert_eq!(lab.objects().only(|o| o.list != "listLoadBalancerRules"), openings);
        assert_eq!(status(&lab, &web), published);
        lab.restart();
        lab.settle(&web);
        for number in [80, 443] {
            assert_eq!(lab.reach(STRANGER, A, number), all_nodes());
            assert_eq!(lab.reach(CLIENT, A, number), all_nodes());
        }
    }
}

#[test]
fn c044_what_cloudstack_reads_back_is_the_same_list() {
    for listed in [
        "198.51.100.0/24 192.0.2.7/32",
        "192.0.2.7/32,198.51.100.0/24",
        "198.51.100.0/24, 192.0.2.7/32",
        "198.51.100.0/24 192.0.2.7/32 192.0.2.7/32",
        "198.51.100.0/24 192.0.2.7",
    ] {
        let mut setup = left_by_go(Setup::standard(), "web", allocated("203.0.113.60"));
        let entries = listed.split(' ').map(str::to_owned).collect();
        setup.world.rules[0].cidrs = Some(entries);
        let mut lab = setup.start();
        let web = lab.create("web", |raw| {
            served_by_go(raw, "203.0.113.60");
            annotate(raw, "source-cidrs", "198.51.100.0/24, 192.0.2.7/32");
        });
        lab.settle(&web);
        for _ in 0..10 {
            assert!(commands(&lab.drift_round(&web).0).is_empty(), "{listed:?}");
        }
        assert_eq!(lab.changing_calls(), Vec::<&str>::new(), "{listed:?}");
    }
    for listed in [None, Some(""), Some("0.0.0.0/0")] {
        let mut setup = left_by_go(Setup::standard(), "web", allocated("203.0.113.60"));
        setup.world.rules[0].cidrs = listed.map(|text| vec![text.to_owned()]);
        let mut lab = setup.start();
        let web = lab.create("web", |raw| served_by_go(raw, "203.0.113.60"));
        lab.settle(&web);
        assert_eq!(lab.changing_calls(), Vec::<&str>::new(), "{listed:?}");
    }
}

#[test]
fn c045_which_setting_restricts_which_layer() {
    for (ranges, annotated) in [(true, false), (false, true), (true, true)] {
        let mut lab = Setup::standard().start();
        let web = lab.create("web", |raw| {
            if ranges {
                raw.source_ranges = vec!["198.51.100.0/24".to_owned()];
            }
            if annotated {
                annotate(raw, "source-cidrs", "198.51.100.0/25");
            }
        });
        lab.settle(&web);
        let objects = lab.objects();
        let opening = if ranges { "80 198.51.100.0/24" } else { "80 0.0.0.0/0" };
        assert_eq!(objects.openings(), [opening]);
        let list = objects.rule(80).text("cidrlist");
        assert_eq!(list, if annotated { "198.51.100.0/25" } else { "" });
        let create = calls_of(&lab, "createLoadBalancerRule").remove(0);
        assert_eq!(param(&create, "cidrlist"), annotated.then_some("198.51.100.0/25"));
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
        assert!(lab.reach(STRANGER, A, 80).is_empty());
        // A change of one layer never touches the other.
        lab.edit(&web, |raw| raw.source_ranges = vec!["198.51.100.7/32".to_owned()]);
        assert!(commands(&lab.plan(&web).0).iter().all(|command| command.contains("Firewall")));
        lab.settle(&web);
        lab.edit(&web, |raw| annotate(raw, "source-cidrs", "198.51.100.0/26"));
        assert_eq!(commands(&lab.plan(&web).0), ["updateLoadBalancerRule"]);
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    }
}

#[test]
fn c046_the_same_on_a_tier_with_an_acl_list() {
    for node in ["tier1-1", "allow-1"] {
        let mut lab = Setup::standard().nodes(&[node]).start();
        let ranged =
            lab.create("ranged", |raw| raw.source_ranges = vec!["198.51.100.0/24".to_owned()]);
        lab.settle(&ranged);
        let text = says(&lab.plan(&ranged).0, "RangesWithoutEffect");
        assert!(text.contains("source-cidrs"), "{text}");
        assert_eq!(severity(&lab.plan(&ranged).0, "RangesWithoutEffect"), Severity::Warning);
        let items =
            lab.objects().acl_items().iter().map(|i| i.text("cidrlist")).collect::<Vec<_>>();
        let expected: &[&str] = if node == "tier1-1" { &["0.0.0.0/0"] } else { &[] };
        assert_eq!(items, expected);
        assert_eq!(lab.objects().rule(80).text("cidrlist"), "");
        assert_eq!(lab.reach(STRANGER, A, 80), names([node]));
        lab.delete(&ranged);
        lab.settle(&ranged);

        let listed = lab.create("listed", |raw| annotate(raw, "source-cidrs", "198.51.100.0/24"));
        lab.settle(&listed);
        assert!(lab.plan(&listed).0.report.is_empty());
        let create = calls_of(&lab, "createLoadBalancerRule").pop().expect("a call");
        assert_eq!(param(&create, "cidrlist"), Some("198.51.100.0/24"));
        let published = status(&lab, &listed).remove(0);
        let (ip, _) = published.split_once(' ').expect("an address");
        assert!(lab.reach(STRANGER, ip, 80).is_empty());
        assert_eq!(lab.reach(CLIENT, ip, 80), names([node]));
    }
}

#[test]
fn c048_a_boolean_that_is_none() {
    for value in ["enabled", "yes", "1", "True ", ""] {
        let mut lab = Setup::standard().start();
        let new = lab.create("new", |raw| annotate(raw, "proxy-protocol", value));
        let text = assert_refused(&mut lab, &new, "InvalidSpec");
        for word in ["proxy-protocol", &format!("{value:?}"), "\"true\"", "\"false\""] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert_eq!(lab.changing_calls(), Vec::<&str>::new());
        let web = lab.create("web", |raw| annotate(raw, "proxy-protocol", "true"));
        lab.settle(&web);
        lab.edit(&web, |raw| annotate(raw, "proxy-protocol", value));
        assert_refused(&mut lab, &web, "InvalidSpec");
        assert_eq!(lab.objects().rule(80).text("protocol"), "tcp-proxy");
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes());
    }
}

#[test]
fn c049_empty_and_broken_source_lists() {
    let mut lab = Setup::standard().start();
    let new = lab.create("new", |raw| annotate(raw, "source-cidrs", ""));
    lab.settle(&new);
    assert_eq!(lab.reach(STRANGER, A, 80), all_nodes());
    let text = says(&lab.plan(&new).0, "OddSpec");
    assert!(text.contains("everybody, not nobody"), "{text}");

    let mut lab = Setup::standard().start();
    let web = restricted(&mut lab, "198.51.100.0/24");
    let id = lab.objects().rule(80).id();
    for (value, entry) in [
        ("198.51.100.0/24,", "\"\""),
        (" , ", "\"\""),
        ("198.51.100.0", "198.51.100.0"),
        ("198.51.100.0/33", "198.51.100.0/33"),
        ("*", "*"),
    ] {
        lab.edit(&web, |raw| annotate(raw, "source-cidrs", value));
        let text = assert_refused(&mut lab, &web, "InvalidSpec");
        assert!(text.contains("invalid CIDR") && text.contains(entry), "{text}");
        assert!(lab.reach(STRANGER, A, 80).is_empty());
        let mut fresh = Setup::standard().start();
        let new = fresh.create("new", |raw| annotate(raw, "source-cidrs", value));
        assert_refused(&mut fresh, &new, "InvalidSpec");
        assert_eq!(fresh.changing_calls(), Vec::<&str>::new());
    }
    lab.edit(&web, |raw| annotate(raw, "source-cidrs", " 198.51.100.0/24 ,192.0.2.0/24 "));
    lab.settle(&web);
    assert_eq!(lab.reach(STRANGER, A, 80), all_nodes());
    lab.edit(&web, |raw| annotate(raw, "source-cidrs", ""));
    assert_eq!(commands(&lab.plan(&web).0), ["updateLoadBalancerRule"]);
    lab.settle(&web);
    assert_eq!(lab.reach("203.0.113.99", A, 80), all_nodes());
    assert_eq!(lab.objects().rule(80).id(), id);
    lab.edit(&web, |raw| unset(raw, "source-cidrs"));
    assert_nothing_planned(&lab, &web);
}

#[test]
fn c094_a_source_list_on_every_release() {
    for release in ["4.15.0.0", "4.18.0.0", "4.21.0.0", "4.22.0.0", "4.23.0.0"] {
        let mut lab = Setup::standard().release(release).start();
        let web = lab.create("web", |raw| annotate(raw, "source-cidrs", "198.51.100.0/24"));
        if release == "4.15.0.0" {
            let text = assert_refused(&mut lab, &web, "SourcesNotServed");
            assert!(text.contains("4.18"), "{text}");
            assert_eq!(lab.changing_calls(), Vec::<&str>::new());
            continue;
        }
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), all_nodes(), "{release}");
        assert!(lab.reach(STRANGER, A, 80).is_empty());
        lab.edit(&web, |raw| annotate(raw, "source-cidrs", "192.0.2.0/24"));
        lab.settle(&web);
        assert_eq!(lab.reach(STRANGER, A, 80), all_nodes(), "{release}");
        assert!(lab.reach(CLIENT, A, 80).is_empty());
        lab.delete(&web);
        lab.settle(&web);
        assert!(lab.objects().rules().is_empty());
    }
}

#[test]
fn c099_a_source_list_that_does_not_fit() {
    let long: Vec<String> = (0..20).map(|n| format!("198.51.100.{}/32", 100 + n)).collect();
    let long = long.join(",");
    assert!(long.len() > 255);
    let mut lab = Setup::standard().start();
    let new = lab.create("new", |raw| annotate(raw, "source-cidrs", &long));
    let text = assert_refused(&mut lab, &new, "InvalidSpec");
    for word in [&long.len().to_string(), "255", "loadBalancerSourceRanges"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert_eq!(lab.changing_calls(), Vec::<&str>::new());
    let web = restricted(&mut lab, "198.51.100.0/24");
    lab.edit(&web, |raw| annotate(raw, "source-cidrs", &long));
    assert_refused(&mut lab, &web, "InvalidSpec");
    assert_eq!(lab.objects().rule(80).text("cidrlist"), "198.51.100.0/24");
    // The firewall takes as many.
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |raw| {
        raw.source_ranges = long.split(',').map(str::to_owned).collect();
    });
    lab.settle(&web);
    assert_eq!(lab.reach("198.51.100.119", A, 80), all_nodes());
    assert!(lab.reach("198.51.100.120", A, 80).is_empty());
}

/// The death of a management server leaves rows that were never pushed: they let nobody in.
#[test]
fn an_opening_that_was_never_pushed_is_made_again() {
    for (nodes, command) in
        [(["node-1", "node-2"], "createFirewallRule"), (["tier1-1", "tier1-2"], "createNetworkACL")]
    {
        let mut setup = Setup::standard().nodes(&nodes);
        setup.world.jobs.firewall = Some(SignedDuration::from_secs(30));
        setup.world.jobs.acl = Some(SignedDuration::from_secs(30));
        let mut lab = setup.start();
        lab.simulator.with(|simulator| simulator.set_acl_gates_traffic(true));
        let mut sent = false;
        let mut died = false;
        lab.simulator.interrupt(move |simulator, asked| {
            if asked == "queryAsyncJobResult" && sent && !died {
                simulator.kill();
                simulator.restart();
                died = true;
            }
            sent |= asked == command;
        });
        let web = lab.create("web", |_| ());
        lab.recover(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), names(nodes), "{command}");
        assert_eq!(lab.simulator.times_sent(command), 2);
        assert_nothing_planned(&lab, &web);
    }
}
