//! Fresh reads of one address, before it is released.

use std::collections::BTreeMap;

use ccm_core::exec::error::Fault;
use ccm_core::exec::output::{AddressUse, Output};
use ccm_core::plan::action::{Call, CheckAddressUnused};
use serde_json::json;

use super::changes::{address, run, willing};
use super::support::{body, client, of, ok, refused, unknown};

#[tokio::test(start_paused = true)]
async fn a_fresh_read_says_what_is_on_an_address() {
    let check = Call::CheckAddressUnused(CheckAddressUnused {
        address: address(),
        allocated: "2026-12-01T20:00:00+0000".to_owned(),
    });
    let rule = |id: &str, state: &str| {
        json!({"id": id, "name": "n", "publicipid": "a1", "publicport": "80", "privateport": "30080",
            "algorithm": "source", "networkid": "n1", "state": state})
    };
    let rules =
        json!({"count": 2, "loadbalancerrule": [rule("r1", "Deleting"), rule("r2", "Add")]});
    let forward = |id: &str, state: &str| {
        json!({"id": id, "protocol": "tcp", "publicport": "22", "publicendport": "22",
            "ipaddressid": "a1", "state": state})
    };
    let forwards = json!({"count": 3, "portforwardingrule": [
        forward("f3", "Deleting"), forward("f2", "Active"), forward("f1", "Add")]});
    let (result, server) = run(&check, move |request| match of(request, "command") {
        "listLoadBalancerRules" => ok(&rules),
        "listFirewallRules" => refused(431, "Ip address id=12 not ready for firewall rules yet"),
        "listPortForwardingRules" => ok(&forwards),
        _ => willing(request),
    })
    .await;
    assert_eq!(
        result,
        Ok(Output::AddressUse(AddressUse {
            allocated: Some("2026-12-01T20:00:00+0000".to_owned()),
            held: true,
            nat: false,
            tags: BTreeMap::new(),
            load_balancer_rules: vec!["r2".to_owned()],
            firewall_rules: Vec::new(),
            port_forwards: vec!["f1".to_owned(), "f2".to_owned()],
            has_rules: Some(true),
        }))
    );
    assert!(server.asked().iter().all(|(_, request)| of(request, "listall") == "true"));
    for (_, request) in server.asked() {
        if of(&request, "command") == "listPortForwardingRules" {
            assert_eq!(of(&request, "ipaddressid"), "a1");
        }
    }
    assert_eq!(server.count("listPortForwardingRules"), 1);

    let (result, _) = run(&check, |request| unknown("id", of(request, "id"))).await;
    assert_eq!(result, Ok(Output::AddressUse(AddressUse::default())));
}

#[tokio::test(start_paused = true)]
async fn port_forwards_that_nobody_may_list_count_as_none() {
    let check = Call::CheckAddressUnused(CheckAddressUnused {
        address: address(),
        allocated: "2026-12-01T20:00:00+0000".to_owned(),
    });
    let no_such_api = "The given command 'listPortForwardingRules' either does not exist";
    let refusals = [
        (432, "listportforwardingrulesresponse", "not available for the account", 1),
        (401, "errorresponse", no_such_api, 1),
        // It may be asked, but the address is on its way out: nothing to remember.
        (431, "listportforwardingrulesresponse", "not ready for port forwarding rules yet", 2),
    ];
    for (code, root, text, asked) in refusals {
        let (client, server) = client(move |request| match of(request, "command") {
            "listPortForwardingRules" => {
                let error = json!({root: {"errorcode": code, "errortext": text}});
                body(code, &error.to_string())
            }
            "listLoadBalancerRules" | "listFirewallRules" => ok(&json!({})),
            _ => willing(request),
        });
        for _ in 0..2 {
            let Ok(Output::AddressUse(found)) = client.call(&check).await else {
                panic!("{code} is no failure");
            };
            assert_eq!(found.port_forwards, Vec::<String>::new());
        }
        assert_eq!(server.count("listPortForwardingRules"), asked, "{code}");
    }
    let (result, _) = run(&check, |request| match of(request, "command") {
        "listPortForwardingRules" => refused(530, "Internal error"),
        "listLoadBalancerRules" | "listFirewallRules" => ok(&json!({})),
        _ => willing(request),
    })
    .await;
    assert_eq!(result.unwrap_err().fault, Fault::Cloud);
}
