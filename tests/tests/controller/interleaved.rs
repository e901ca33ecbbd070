//! Two things at once, with ever other distances in time between them.

use std::time::Duration;

use ccm_core::parse::raw::RawService;
use ccm_tests::lab::port;

use crate::stage::Stage;

const MINUTE: Duration = Duration::from_mins(1);
/// As long as anything of this takes: changes of nodes are collected for up to 5 s, jobs take as
/// many.
const DISTANCES: std::ops::Range<u32> = 0..100;
const STEP: Duration = Duration::from_millis(150);

fn stick(raw: &mut RawService) {
    raw.session_affinity = Some("ClientIP".to_owned());
}

#[tokio::test(start_paused = true)]
async fn c059_nothing_comes_back_after_a_deletion_beside_a_change_of_nodes() {
    for distance in DISTANCES {
        let stage = Stage::new();
        stage.cluster.remove_node("node-3");
        let before = stage.cloud.everything();
        stage
            .with_services(async {
                let web = stage.serve("web").await;
                stage.add_node("node-3");
                stage.pass(STEP * distance).await;
                stage.cluster.delete(&web);
                stage.pass(15 * MINUTE).await;
                assert_eq!(stage.cluster.service(&web), None, "{distance} steps apart");
            })
            .await;
        assert_eq!(stage.cloud.everything(), before, "{distance} steps apart");
    }
}

#[tokio::test(start_paused = true)]
async fn c059_two_services_with_one_acl_list_are_changed_and_deleted_at_once() {
    for distance in DISTANCES.step_by(4) {
        let stage = Stage::new();
        for name in ["node-1", "node-2", "node-3"] {
            stage.cluster.remove_node(name);
        }
        for name in ["tier1-1", "tier1-2"] {
            stage.add_node(name);
        }
        let before = stage.cloud.everything();
        stage
            .with_services(async {
                let web = stage.create("web", |_| ());
                let api = stage.create("api", |_| ());
                stage.pass(2 * MINUTE).await;
                stage.cluster.edit(&api, |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
                stage.pass(STEP * distance).await;
                stage.cluster.delete(&web);
                stage.pass(5 * MINUTE).await;
                let rules = stage.cloud.rules();
                assert_eq!(rules.len(), 2, "the other is complete, {distance} steps apart");
                let items = stage.cloud.acl_items().len();
                assert_eq!(items, before[3].len() + 2, "{distance} steps apart");
                stage.cluster.delete(&api);
                stage.pass(5 * MINUTE).await;
            })
            .await;
        assert_eq!(stage.cloud.everything(), before, "{distance} steps apart");
    }
}

#[tokio::test(start_paused = true)]
async fn c086_an_edit_and_a_new_node_meet_at_one_rule() {
    for distance in DISTANCES.step_by(2) {
        let stage = Stage::new();
        stage.cluster.remove_node("node-3");
        stage
            .with_services(async {
                let web = stage.serve("web").await;
                stage.add_node("node-3");
                stage.pass(STEP * distance).await;
                stage.cluster.edit(&web, stick);
                stage.pass(5 * MINUTE).await;
                let rule = stage.cloud.rules().remove(0);
                assert_eq!(stage.cloud.members(&rule), 3, "{distance} steps apart");
                let updates = stage.sent("updateLoadBalancerRule");
                let assigns = stage.sent("assignToLoadBalancerRule");
                assert_eq!((updates, assigns), (1, 2), "{distance} steps apart");
            })
            .await;
        let warnings = stage.messages("SyncLoadBalancerFailed");
        assert_eq!(warnings, Vec::<String>::new(), "{distance} steps apart");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_in_the_middle_of_the_first_sync_is_not_lost_and_not_done_beside_it() {
    for distance in DISTANCES.step_by(2) {
        let stage = Stage::new();
        stage
            .with_services(async {
                let web = stage.create("web", |_| ());
                stage.pass(STEP * distance).await;
                stage.cluster.edit(&web, |raw| raw.ports[0].port = 81);
                stage.pass(5 * MINUTE).await;
                assert!(stage.published(&web).is_some(), "{distance} steps apart");
                let rules = stage.cloud.rules();
                assert_eq!(rules.len(), 1, "{distance} steps apart");
                let openings = stage.cloud.openings();
                assert_eq!(openings.len(), 1, "{distance} steps apart");
            })
            .await;
        assert_eq!(stage.sent("associateIpAddress"), 1, "{distance} steps apart");
    }
}
