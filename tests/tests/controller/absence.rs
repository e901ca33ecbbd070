//! Recorded addresses that CloudStack's lists don't show: left out of an answer, or gone.

use std::time::Duration;

use ccm_simulator::faults::{Fault, FaultKind, Mishap};

use crate::stage::Stage;

const MINUTE: Duration = Duration::from_mins(1);

/// The lists of addresses and of what is on them.
const LISTS: [(&str, &str); 3] = [
    ("listPublicIpAddresses", "listpublicipaddressesresponse"),
    ("listLoadBalancerRules", "listloadbalancerrulesresponse"),
    ("listFirewallRules", "listfirewallrulesresponse"),
];

/// These lists are empty from now on.
fn hide(stage: &Stage, lists: &[(&str, &str)]) {
    for (command, root) in lists {
        let body = format!("{{\"{root}\":{{}}}}");
        let mishap = Mishap::Body { status: 200, body };
        let kind = FaultKind::Before(mishap);
        let command = Some((*command).to_owned());
        let fault = Fault { command, kind, times: None, percent: 100 };
        stage.cloud.with(|simulator| simulator.inject(fault));
    }
}

fn show(stage: &Stage) {
    stage.cloud.with(ccm_simulator::Simulator::clear_faults);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_the_lists_leave_out_for_a_minute_is_not_replaced() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            let (address, changes) = (stage.published(&web), stage.changes().len());
            hide(&stage, &LISTS);
            stage.cluster.edit(&web, |raw| raw.ports[0].port = 81);
            stage.pass(MINUTE).await;
            assert_eq!(stage.messages("AddressNotSeen").len(), 1);
            assert_eq!(stage.changes().len(), changes, "nothing is done meanwhile");
            show(&stage);
            stage.pass(5 * MINUTE).await;
            assert!(stage.changes().len() > changes, "the edit is carried out");
            assert_eq!(stage.published(&web), address);
        })
        .await;
    assert_eq!(stage.sent("associateIpAddress"), 1);
    assert_eq!(stage.messages("AddressGone"), Vec::<String>::new());
}

/// Rules go with their address: where they are, it is.
#[tokio::test(start_paused = true)]
async fn an_address_with_rules_is_never_taken_for_gone() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            let (address, changes) = (stage.published(&web), stage.changes().len());
            hide(&stage, &LISTS[..1]);
            stage.cluster.edit(&web, |raw| raw.ports[0].port = 81);
            stage.pass(60 * MINUTE).await;
            assert_eq!(stage.changes().len(), changes);
            show(&stage);
            stage.pass(15 * MINUTE).await;
            assert!(stage.changes().len() > changes, "the edit is carried out");
            assert_eq!(stage.published(&web), address);
        })
        .await;
    assert_eq!(stage.sent("associateIpAddress"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_somebody_released_is_replaced_after_a_drift_round_and_two_minutes() {
    let stage = Stage::new();
    let before = stage.cloud.addresses();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            let addresses = stage.cloud.addresses().into_iter();
            let ours: Vec<String> = addresses.filter(|id| !before.contains(id)).collect();
            let changes = stage.changes().len();
            stage.cloud.by_hand("disassociateIpAddress", &[("id", &ours[0])]).await;
            stage.pass(13 * MINUTE).await;
            assert!(stage.changes().len() > changes);
            assert_eq!(stage.messages("AddressGone").len(), 1);
            assert_eq!(stage.cloud.rules().len(), 1);
            assert!(stage.published(&web).is_some());
        })
        .await;
    assert_eq!(stage.sent("associateIpAddress"), 2);
    assert_eq!(stage.cloud.addresses().len(), before.len() + 1);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_for_an_address_that_the_lists_leave_out() {
    let stage = Stage::new();
    let before = stage.cloud.everything();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            hide(&stage, &LISTS);
            stage.cluster.delete(&web);
            stage.pass(MINUTE).await;
            assert!(stage.cluster.service(&web).is_some(), "it holds an address");
            show(&stage);
            stage.pass(5 * MINUTE).await;
            assert_eq!(stage.cluster.service(&web), None);
        })
        .await;
    assert_eq!(stage.cloud.everything(), before);
}
