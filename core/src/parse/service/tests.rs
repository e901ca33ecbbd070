//! Cases of the parser, by number where they have one.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::model::record::{FINALIZER, Verdict};
use crate::model::service::{Algorithm, Transport};
use crate::parse::raw::RawServicePort;

const UID: &str = "6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f";

fn context() -> ParseContext {
    ParseContext { cluster_id: ClusterId::parse("prod").unwrap() }
}

fn port(number: i32) -> RawServicePort {
    RawServicePort {
        name: None,
        protocol: Some("TCP".to_owned()),
        port: number,
        node_port: Some(30000 + number),
    }
}

/// `S` of the cases.
fn raw() -> RawService {
    RawService {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: Some(UID.to_owned()),
        service_type: Some("LoadBalancer".to_owned()),
        ports: vec![port(80)],
        ..RawService::default()
    }
}

fn with(key: &str, value: &str) -> RawService {
    let mut raw = raw();
    raw.annotations.insert(key.to_owned(), value.to_owned());
    raw
}

fn spec_of(raw: &RawService) -> LoadBalancerSpec {
    service(raw, &context()).spec.unwrap()
}

fn refusal(raw: &RawService) -> String {
    service(raw, &context()).spec.unwrap_err().to_string()
}

fn codes(raw: &RawService) -> Vec<&'static str> {
    service(raw, &context()).warnings.iter().map(SpecWarning::code).collect()
}

#[test]
fn a_plain_service_has_the_defaults() {
    let read = service(&raw(), &context());
    assert_eq!(read.key.to_string(), "shop/web");
    assert_eq!(read.uid.as_str(), UID);
    assert_eq!(read.lifecycle, Lifecycle::Wanted);
    assert!(read.warnings.is_empty());
    let spec = read.spec.unwrap();
    assert_eq!(spec.algorithm, Algorithm::RoundRobin);
    assert!(!spec.proxy_protocol);
    assert!(spec.rule_sources.is_everybody());
    assert_eq!(spec.ranges, CidrSet::everybody());
    assert_eq!((spec.hostname, read.requested_address), (None, None));
    assert_eq!(spec.ports[0].node_port, 30080);
}

#[test]
fn a_manifest_without_uid_gets_one_from_cluster_and_name() {
    let manifest = RawService { namespace: String::new(), uid: None, ..raw() };
    let read = service(&manifest, &context());
    assert_eq!(read.key.namespace, "default");
    insta::assert_snapshot!(read.uid, @"655dc7c9-9401-560a-bb9e-ad14d807c842");
    let elsewhere = ParseContext { cluster_id: ClusterId::parse("test").unwrap() };
    assert_ne!(service(&manifest, &elsewhere).uid, read.uid);
    for odd in ["", "a b"] {
        let manifest = RawService { uid: Some(odd.to_owned()), ..manifest.clone() };
        assert_eq!(service(&manifest, &context()).uid, read.uid);
    }
}

#[test]
fn a_class_wins_over_deletion_and_deletion_over_type() {
    let lifecycle = |service_type: Option<&str>, class: Option<&str>, deleting| {
        let raw = RawService {
            service_type: service_type.map(str::to_owned),
            load_balancer_class: class.map(str::to_owned),
            deleting,
            ..raw()
        };
        service(&raw, &context()).lifecycle
    };
    let lb = Some("LoadBalancer");
    assert_eq!(lifecycle(lb, None, false), Lifecycle::Wanted);
    assert_eq!(lifecycle(lb, None, true), Lifecycle::Deleting);
    assert_eq!(lifecycle(lb, Some("x/y"), false), Lifecycle::OtherClass);
    assert_eq!(lifecycle(lb, Some("x/y"), true), Lifecycle::OtherClass);
    assert_eq!(lifecycle(Some("ClusterIP"), None, false), Lifecycle::OtherType);
    assert_eq!(lifecycle(Some("NodePort"), None, true), Lifecycle::Deleting);
    assert_eq!(lifecycle(None, None, false), Lifecycle::OtherType);
}

#[test]
fn c027_an_unknown_annotation_is_told_with_the_nearest_known_one() {
    let read = service(&with(&format!("{}algorythm", annotations::PREFIX), "x"), &context());
    assert!(read.spec.is_ok());
    assert_eq!(read.warnings.len(), 1);
    insta::assert_snapshot!(read.warnings[0], @r#"annotation "service.beta.kubernetes.io/cloudstack-load-balancer-algorythm" is unknown and has no effect; the nearest known one is `service.beta.kubernetes.io/cloudstack-load-balancer-address`"#);
    assert_eq!(codes(&with("example.com/other", "x")), [""; 0]);
    let standard = with(annotations::STANDARD_SOURCE_RANGES, "10.0.0.0/8");
    assert_eq!(codes(&standard), ["StandardSourceRanges"]);
}

#[test]
fn c033_a_port_without_node_port_is_refused() {
    for missing in [None, Some(0)] {
        let mut raw = raw();
        raw.ports.push(RawServicePort { node_port: missing, ..port(443) });
        insta::allow_duplicates! {
            insta::assert_snapshot!(refusal(&raw), @"port 443 has no node port, through which CloudStack reaches the nodes; set `spec.allocateLoadBalancerNodePorts` to true or give it a `nodePort`");
        }
    }
}

#[test]
fn c035_another_protocol_is_left_to_the_planner() {
    let mut raw = raw();
    raw.ports[0].protocol = Some("SCTP".to_owned());
    assert_eq!(spec_of(&raw).ports[0].transport, Err("SCTP".to_owned()));
    raw.ports[0].protocol = Some("UDP".to_owned());
    assert_eq!(spec_of(&raw).ports[0].transport, Ok(Transport::Udp));
    raw.ports[0].protocol = None;
    assert_eq!(spec_of(&raw).ports[0].transport, Ok(Transport::Tcp));
}

#[test]
fn port_numbers_are_checked_and_doubles_refused() {
    let mut odd = raw();
    odd.ports = vec![port(0), port(70000), port(80), port(80)];
    odd.ports[1].node_port = Some(-1);
    insta::assert_snapshot!(refusal(&odd), @"`spec.ports[0].port` is 0, which is no port number; write one from 1 to 65535; `spec.ports[1].port` is 70000, which is no port number; write one from 1 to 65535; `spec.ports[1].nodePort` is -1, which is no port number; write one from 1 to 65535; port 80/TCP stands in `spec.ports` twice; remove one");
    odd.ports.clear();
    insta::assert_snapshot!(refusal(&odd), @"the Service has no ports; add one to `spec.ports`");
    // The same number as TCP and UDP is legal: the planner serves the first.
    let mut both = raw();
    both.ports.push(RawServicePort { protocol: Some("UDP".to_owned()), ..port(80) });
    assert_eq!(spec_of(&both).ports.len(), 2);
}

#[test]
fn c048_a_boolean_that_is_none_is_refused() {
    for value in ["enabled", "yes", "1", "True ", "", "TRUE"] {
        let text = refusal(&with(annotations::PROXY_PROTOCOL, value));
        assert!(text.contains(annotations::PROXY_PROTOCOL), "{text}");
        assert!(text.contains(&format!("{value:?}")), "{text}");
        assert!(text.contains(r#"write "true" or "false""#), "{text}");
    }
    assert!(spec_of(&with(annotations::PROXY_PROTOCOL, "true")).proxy_protocol);
    assert!(!spec_of(&with(annotations::PROXY_PROTOCOL, "false")).proxy_protocol);
}

#[test]
fn c049_an_empty_list_is_everybody_and_says_so() {
    let raw = with(annotations::SOURCE_CIDRS, "");
    assert!(spec_of(&raw).rule_sources.is_everybody());
    assert_eq!(codes(&raw), ["EmptySourceList"]);
    let warning = service(&raw, &context()).warnings[0].to_string();
    assert!(warning.contains("everybody, not nobody"), "{warning}");
}

#[test]
fn c049_blanks_are_trimmed_and_host_bits_kept() {
    let list = " 198.51.100.0/24 ,192.0.2.0/24 ";
    let sources = spec_of(&with(annotations::SOURCE_CIDRS, list)).rule_sources;
    assert_eq!(sources.to_string(), "192.0.2.0/24,198.51.100.0/24");
    let sources =
        spec_of(&with(annotations::SOURCE_CIDRS, "10.1.2.3/8,2001:db8::/32")).rule_sources;
    assert_eq!(sources.to_string(), "10.1.2.3/8,2001:db8::/32");
}

#[test]
fn c049_a_broken_list_is_refused_with_the_entry() {
    for (list, entry) in [
        ("198.51.100.0/24,", ""),
        (" , ", ""),
        ("  ", ""),
        ("198.51.100.0", "198.51.100.0"),
        ("198.51.100.0/33", "198.51.100.0/33"),
        ("192.0.2.0/24,*", "*"),
    ] {
        let text = refusal(&with(annotations::SOURCE_CIDRS, list));
        assert!(text.contains(&format!("invalid CIDR {entry:?}")), "{list:?}: {text}");
        assert!(text.contains(annotations::SOURCE_CIDRS), "{text}");
    }
    insta::assert_snapshot!(refusal(&with(annotations::SOURCE_CIDRS, "198.51.100.0")), @r#"invalid CIDR "198.51.100.0" in annotation `service.beta.kubernetes.io/cloudstack-load-balancer-source-cidrs`; write `198.51.100.0/32` for this address alone"#);
}

#[test]
fn c099_a_list_that_does_not_fit_is_refused_with_numbers_and_remedy() {
    let list: Vec<String> = (10..30).map(|n| format!("198.51.1{n}.0/24")).collect();
    let text = refusal(&with(annotations::SOURCE_CIDRS, &list.join(",")));
    insta::assert_snapshot!(text, @"annotation `service.beta.kubernetes.io/cloudstack-load-balancer-source-cidrs` lists 20 networks in 319 characters, over the limit of 255, into which 16 of them fit; aggregate them, or use `spec.loadBalancerSourceRanges`, which takes a thousand");
    // A list of exactly 255 characters fits, and one that everybody is in is not sent at all.
    let exact: Vec<String> = (10..26).map(|n| format!("198.51.1{n}.0/2{}", n % 10)).collect();
    assert_eq!(exact.join(",").len(), 255);
    assert!(
        !spec_of(&with(annotations::SOURCE_CIDRS, &exact.join(","))).rule_sources.is_everybody()
    );
    let open = format!("{},0.0.0.0/0", list.join(","));
    assert!(spec_of(&with(annotations::SOURCE_CIDRS, &open)).rule_sources.is_everybody());
}

#[test]
fn source_ranges_are_trimmed_and_checked() {
    let ranges = |entries: &[&str]| RawService {
        source_ranges: entries.iter().map(|entry| (*entry).to_owned()).collect(),
        ..raw()
    };
    assert_eq!(spec_of(&ranges(&[" 10.0.0.0/8 ", "192.0.2.0/24"])).ranges.len(), 2);
    assert_eq!(spec_of(&ranges(&[])).ranges, CidrSet::everybody());
    let text = refusal(&ranges(&["10.0.0.0/8", "ten", ""]));
    assert!(text.contains(r#"invalid CIDR "ten" in `spec.loadBalancerSourceRanges`"#), "{text}");
    assert!(text.contains(r#"invalid CIDR """#), "{text}");
}

#[test]
fn affinity_chooses_the_algorithm() {
    let affine = |value: &str| RawService { session_affinity: Some(value.to_owned()), ..raw() };
    assert_eq!(spec_of(&affine("None")).algorithm, Algorithm::RoundRobin);
    assert_eq!(spec_of(&affine("ClientIP")).algorithm, Algorithm::Source);
    assert!(refusal(&affine("Cookie")).contains(r#"unsupported load balancer affinity "Cookie""#));
}

#[test]
fn an_address_is_asked_for_by_annotation_or_field() {
    let pinned = |ip: &str| RawService { load_balancer_ip: Some(ip.to_owned()), ..raw() };
    let address =
        |raw: &RawService| service(raw, &context()).requested_address.map(|ip| ip.to_string());
    assert_eq!(address(&pinned("203.0.113.10")).as_deref(), Some("203.0.113.10"));
    assert_eq!(address(&pinned("")), None);
    let mut both = pinned("203.0.113.10");
    both.annotations.insert(annotations::ADDRESS.to_owned(), "203.0.113.20".to_owned());
    assert_eq!(address(&both).as_deref(), Some("203.0.113.20"));
    assert_eq!(codes(&both), ["AddressFieldIgnored"]);
    // With an id it is the fork's record: the field counts.
    both.annotations.insert(annotations::FORK_ID.to_owned(), "80da8120".to_owned());
    assert_eq!(address(&both).as_deref(), Some("203.0.113.10"));
    assert_eq!(codes(&both), [""; 0]);
    let fork = service(&both, &context()).recorded.fork.unwrap();
    assert_eq!(fork.address.as_str(), "80da8120");
    insta::assert_snapshot!(refusal(&pinned("2001:db8::1")), @r#"`spec.loadBalancerIP` is "2001:db8::1", which is an IPv6 address, and load balancers of CloudStack have IPv4 addresses; name an IPv4 address, for example `203.0.113.10`"#);
    assert!(refusal(&pinned("lb-1")).contains("no IP address"));
    assert!(refusal(&with(annotations::ADDRESS, "")).contains(annotations::ADDRESS));
}

#[test]
fn a_hostname_must_be_one_that_the_status_can_hold() {
    let named = |name: &str| with(annotations::HOSTNAME, name);
    assert_eq!(spec_of(&named("lb.example.test")).hostname.as_deref(), Some("lb.example.test"));
    assert_eq!(spec_of(&named("")).hostname, None);
    assert_eq!(codes(&named("")), ["EmptyHostname"]);
    let long = ["a".repeat(63).as_str(); 4].join(".");
    for bad in [
        "*.example.test",
        "203.0.113.10",
        "a..b",
        "a.",
        "-a.b",
        "a_b",
        "Lb.example.test",
        "ä.b",
        " a",
        &"a".repeat(64),
        &long,
    ] {
        assert!(refusal(&named(bad)).contains("no DNS name"), "{bad}");
    }
}

#[test]
fn a_service_of_ipv6_only_is_refused() {
    let families = |list: &[&str]| RawService {
        ip_families: list.iter().map(|family| (*family).to_owned()).collect(),
        ..raw()
    };
    assert!(refusal(&families(&["IPv6"])).contains("IPv6 only"));
    assert!(service(&families(&["IPv6", "IPv4"]), &context()).spec.is_ok());
}

#[test]
fn all_mistakes_are_told_and_records_are_read_all_the_same() {
    let mut bad = with(annotations::PROXY_PROTOCOL, "on");
    bad.annotations.insert(annotations::SOURCE_CIDRS.to_owned(), "*".to_owned());
    bad.annotations.insert(annotations::VERDICT.to_owned(), "false".to_owned());
    bad.finalizers = vec![FINALIZER.to_owned()];
    bad.session_affinity = Some("Cookie".to_owned());
    bad.ports.clear();
    let read = service(&bad, &context());
    let errors = read.spec.unwrap_err();
    let codes: Vec<_> = errors.iter().map(ParseError::code).collect();
    assert_eq!(codes, ["NoPorts", "UnsupportedAffinity", "NotABoolean", "InvalidCidr"]);
    assert_eq!(errors.to_string().matches("; ").count(), 8 - 1);
    assert!(read.recorded.finalizer);
    assert_eq!(read.recorded.verdict, Some(Verdict::User));
}

fn raw_port() -> impl Strategy<Value = RawServicePort> {
    (any::<Option<String>>(), any::<Option<String>>(), any::<i32>(), any::<Option<i32>>()).prop_map(
        |(name, protocol, port, node_port)| RawServicePort { name, protocol, port, node_port },
    )
}

fn any_annotations() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    let known: Vec<String> = annotations::ALL.iter().map(|known| known.key.to_owned()).collect();
    let key = prop_oneof![
        proptest::sample::select(known),
        any::<String>().prop_map(|suffix| format!("{}{suffix}", annotations::PREFIX)),
        any::<String>(),
    ];
    let value = prop_oneof![any::<String>(), "[0-9a-f:./, *]{0,40}", "\\{\"v\":1.{0,20}\\}"];
    btree_map(key, value, 0..6)
}

proptest! {
    #[test]
    fn no_service_panics_and_a_good_spec_keeps_its_promises(
        annotations in any_annotations(),
        ports in vec(raw_port(), 0..4),
        texts in vec(option::of(any::<String>()), 4),
        lists in vec(vec("[0-9a-f:./, *]{0,20}", 0..3), 2),
        deleting in any::<bool>(),
    ) {
        let raw = RawService {
            annotations,
            ports,
            uid: texts[0].clone(),
            load_balancer_ip: texts[1].clone(),
            session_affinity: texts[2].clone(),
            load_balancer_class: texts[3].clone(),
            source_ranges: lists[0].clone(),
            ip_families: lists[1].clone(),
            deleting,
            ..raw()
        };
        let read = service(&raw, &context());
        let _: Vec<String> = read.warnings.iter().map(SpecWarning::to_string).collect();
        match read.spec {
            Ok(spec) => {
                prop_assert!(!spec.ports.is_empty() && !spec.ranges.is_empty());
                prop_assert!(spec.ports.iter().all(|port| port.number > 0 && port.node_port > 0));
            }
            Err(errors) => prop_assert!(!errors.to_string().is_empty()),
        }
    }
}
