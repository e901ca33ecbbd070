//! Who may come in: the annotation restricts the rule, the field restricts the firewall.

use ccm_core::ids::ServiceKey;
use ccm_core::model::policy::SourceRangesMode;
use ccm_tests::lab::{Setup, annotation};

use crate::story::{CLIENT, FIRST, STRANGER, Story, golden};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
const NARROW: &str = "198.51.100.0/24";

fn annotate(story: &Story, web: &ServiceKey, cidrs: &str) {
    story.lab.edit(web, |raw| {
        raw.annotations.insert(annotation("source-cidrs"), cidrs.to_owned());
    });
}

fn restrict(story: &Story, web: &ServiceKey, ranges: &[&str]) {
    let ranges = ranges.iter().map(|range| (*range).to_owned()).collect();
    story.lab.edit(web, |raw| raw.source_ranges = ranges);
}

/// Sets, changes and empties the annotation; gives whether the rule is the same one afterwards.
fn change_annotation(story: &mut Story) -> bool {
    let web = story.lab.create("web", |raw| {
        raw.annotations.insert(annotation("source-cidrs"), NARROW.to_owned());
    });
    story.change("a new Service with one network", &web);
    story.answers(CLIENT, FIRST, 80, &NODES);
    story.answers(STRANGER, FIRST, 80, &[]);
    let before = story.rule(80);
    annotate(story, &web, "198.51.100.0/24, 192.0.2.0/24");
    story.change("a second network is added", &web);
    story.answers(STRANGER, FIRST, 80, &NODES);
    annotate(story, &web, "192.0.2.0/24");
    story.change("the first network is removed", &web);
    story.answers(CLIENT, FIRST, 80, &[]);
    story.answers(STRANGER, FIRST, 80, &NODES);
    story.rule(80) == before
}

#[test]
fn source_cidrs_are_edited_in_place_from_4_22() {
    golden("sources/cidrs-4.22", Setup::standard, |story| assert!(change_annotation(story)));
}

#[test]
fn source_cidrs_take_another_rule_before_4_22() {
    let setup = || Setup::standard().release("4.21.0.0");
    golden("sources/cidrs-4.21", setup, |story| assert!(!change_annotation(story)));
}

#[test]
fn source_cidrs_are_refused_before_4_18() {
    let setup = || Setup::standard().release("4.17.2.0");
    golden("sources/cidrs-4.17", setup, |story| {
        let web = story.lab.create("web", |raw| {
            raw.annotations.insert(annotation("source-cidrs"), NARROW.to_owned());
        });
        story.stay("a new Service with one network", &web);
        story.answers(CLIENT, FIRST, 80, &[]);
    });
}

#[test]
fn empty_source_cidrs_mean_everybody() {
    golden("sources/cidrs-emptied", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.annotations.insert(annotation("source-cidrs"), NARROW.to_owned());
        });
        story.settle(&web);
        annotate(story, &web, "");
        story.change("the annotation is emptied", &web);
        story.answers(STRANGER, FIRST, 80, &NODES);
        annotate(story, &web, NARROW);
        story.change("the annotation is set again", &web);
        story.answers(STRANGER, FIRST, 80, &[]);
        story.lab.edit(&web, |raw| drop(raw.annotations.remove(&annotation("source-cidrs"))));
        story.change("the annotation is removed", &web);
        story.answers(STRANGER, FIRST, 80, &NODES);
    });
}

#[test]
fn invalid_source_cidrs_refuse_the_service_and_leave_it_working() {
    golden("sources/cidrs-invalid", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.annotations.insert(annotation("source-cidrs"), NARROW.to_owned());
        });
        story.settle(&web);
        annotate(story, &web, "198.51.100.0/24,10.0.0.0/33,everywhere");
        let text = story.stay("two entries are no networks", &web);
        assert!(text.contains("invalid CIDR"), "{text}");
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.answers(STRANGER, FIRST, 80, &[]);
    });
}

#[test]
fn source_cidrs_that_cloudstack_would_cut_are_refused() {
    golden("sources/cidrs-too-long", Setup::standard, |story| {
        let many: Vec<String> = (0..20).map(|n| format!("198.51.100.{}/32", n * 2)).collect();
        let web = story.lab.create("web", |raw| {
            raw.annotations.insert(annotation("source-cidrs"), many.join(","));
        });
        story.stay("a list of more than 255 characters", &web);
        assert_eq!(story.lab.changing_calls(), Vec::<&str>::new());
    });
}

#[test]
fn source_ranges_restrict_the_firewall() {
    golden("sources/ranges", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.source_ranges = vec![NARROW.into()]);
        story.change("a new Service with one range", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.answers(STRANGER, FIRST, 80, &[]);
        let rule = story.rule(80);
        restrict(story, &web, &[NARROW, "192.0.2.0/24"]);
        story.change("a second range is added", &web);
        story.answers(STRANGER, FIRST, 80, &NODES);
        restrict(story, &web, &["192.0.2.0/24"]);
        story.change("the first range is removed", &web);
        story.answers(CLIENT, FIRST, 80, &[]);
        story.answers(STRANGER, FIRST, 80, &NODES);
        restrict(story, &web, &[]);
        story.change("all ranges are removed", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        restrict(story, &web, &[NARROW]);
        story.change("a range is set again", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.answers(STRANGER, FIRST, 80, &[]);
        assert_eq!(story.rule(80), rule);
    });
}

#[test]
fn range_that_somebody_added_on_an_own_address_is_closed() {
    golden("sources/opened-by-hand", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| raw.source_ranges = vec![NARROW.into()]);
        story.settle(&web);
        let id = story.address_id(FIRST);
        let rule = [("ipaddressid", id.as_str()), ("protocol", "tcp"), ("startport", "80")];
        let rest = [("endport", "80"), ("cidrlist", "192.0.2.0/24")];
        story.lab.by_hand("createFirewallRule", &[&rule[..], &rest[..]].concat());
        story.answers(STRANGER, FIRST, 80, &NODES);
        story.change("somebody let others in", &web);
        story.answers(STRANGER, FIRST, 80, &[]);
        story.answers(CLIENT, FIRST, 80, &NODES);
    });
}

#[test]
fn both_layers_must_let_a_client_in() {
    golden("sources/both-layers", Setup::standard, |story| {
        let web = story.lab.create("web", |raw| {
            raw.annotations.insert(annotation("source-cidrs"), "198.51.0.0/16".to_owned());
            raw.source_ranges = vec!["198.51.100.0/24".into(), "192.0.2.0/24".into()];
        });
        story.change("a new Service with both settings", &web);
        story.answers(CLIENT, FIRST, 80, &NODES);
        story.answers(STRANGER, FIRST, 80, &[]);
        story.answers("198.51.99.1", FIRST, 80, &[]);
    });
}

#[test]
fn source_ranges_have_no_effect_on_acl_networks_and_say_so() {
    let setup = || Setup::standard().nodes(&["tier1-1"]);
    golden("sources/ranges-on-vpc", setup, |story| {
        let web = story.lab.create("web", |raw| raw.source_ranges = vec![NARROW.into()]);
        story.change("a new Service with one range", &web);
        story.answers(STRANGER, FIRST, 80, &["tier1-1"]);
        annotate(story, &web, NARROW);
        story.change("the annotation is set", &web);
        story.answers(CLIENT, FIRST, 80, &["tier1-1"]);
        story.answers(STRANGER, FIRST, 80, &[]);
    });
}

#[test]
fn strict_mode_restricts_the_rule_on_every_network() {
    let setup = || Setup::standard().nodes(&["tier1-1"]);
    golden("sources/strict", setup, |story| {
        story.lab.policy.source_ranges_mode = SourceRangesMode::Strict;
        let web = story.lab.create("web", |raw| raw.source_ranges = vec![NARROW.into()]);
        story.change("a new Service with one range", &web);
        story.answers(CLIENT, FIRST, 80, &["tier1-1"]);
        story.answers(STRANGER, FIRST, 80, &[]);
        annotate(story, &web, "192.0.2.0/24");
        story.stay("the annotation says something else", &web);
        story.answers(STRANGER, FIRST, 80, &[]);
    });
}
