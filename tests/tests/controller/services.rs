//! The Service controller: what brings up a Service, and what happens then.

use std::time::Duration;

use ccm_core::model::policy::NodeReadiness;
use ccm_core::parse::raw::RawService;
use ccm_tests::lab::{annotation, port};

use crate::stage::Stage;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_new_service_is_served_and_a_deleted_one_leaves_nothing() {
    let stage = Stage::new();
    let before = stage.cloud.everything();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            assert_eq!(stage.reasons("web"), ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]);
            stage.cluster.delete(&web);
            stage.pass(MINUTE).await;
            assert_eq!(stage.cluster.service(&web), None);
            let told = stage.reasons("web");
            assert_eq!(told[2..], ["DeletingLoadBalancer", "DeletedLoadBalancer"]);
        })
        .await;
    assert_eq!(stage.cloud.everything(), before);
}

/// Row 9 of the contract's appendix, and the option beside it.
#[tokio::test(start_paused = true)]
async fn c084_readiness_of_a_node_is_followed_where_it_is_asked_for() {
    for (readiness, without) in [(NodeReadiness::Ignore, 3), (NodeReadiness::Ready, 2)] {
        let mut stage = Stage::new();
        stage.policy.node_readiness = readiness;
        let set_ready = |ready: &str| {
            let mut node = stage.cluster.node("node-3").expect("a Node");
            node.ready = Some(ready.to_owned());
            stage.cluster.with(|cluster| cluster.set_node(node));
        };
        stage
            .with_services(async {
                stage.serve("web").await;
                let rule = stage.cloud.rules().remove(0);
                let lists = stage.sent("listLoadBalancerRules");
                set_ready("Unknown");
                stage.pass(Duration::from_secs(30)).await;
                assert_eq!(stage.cloud.members(&rule), without, "{readiness:?}");
                set_ready("True");
                stage.pass(Duration::from_secs(30)).await;
                assert_eq!(stage.cloud.members(&rule), 3, "{readiness:?}");
                let is_quiet = stage.sent("listLoadBalancerRules") == lists;
                assert_eq!(is_quiet, readiness == NodeReadiness::Ignore);
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn c079_a_restart_changes_nothing_and_says_nothing() {
    let stage = Stage::new();
    stage
        .with_services(async {
            for name in ["web", "api", "shop"] {
                stage.create(name, |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
            }
            stage.pass(2 * MINUTE).await;
        })
        .await;
    let (changes, patches) = (stage.changes().len(), stage.cluster.patches());
    let told = stage.reasons("web").len();
    let members = stage.sent("listLoadBalancerRuleInstances");
    let lists = stage.sent("listLoadBalancerRules");
    stage.with_services(stage.pass(5 * MINUTE)).await;
    assert_eq!((stage.changes().len(), stage.cluster.patches()), (changes, patches));
    assert_eq!(stage.reasons("web").len(), told);
    assert_eq!(stage.sent("listLoadBalancerRuleInstances"), members, "records vouch for members");
    assert_eq!(stage.sent("listLoadBalancerRules"), lists + 1, "one reading for all");
}

#[tokio::test(start_paused = true)]
async fn c082_what_somebody_changes_in_cloudstack_is_put_back_within_a_drift_round() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve_and_delete_rule("web").await;
            let address = stage.published(&web);
            stage.pass(12 * MINUTE).await;
            assert_eq!(stage.cloud.rules().len(), 1);
            assert_eq!(stage.published(&web), address);
            let told = stage.messages("DriftRepaired");
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains("rule/tcp-80"), "{told:?}");
            for line in [
                "cloudstack_ccm_drift_repaired_total{kind=\"rule\"} 1.0",
                "cloudstack_ccm_router_reloads_total{network=\"00000000-0000-4000-8000-0000000000a1\"} ",
                "cloudstack_ccm_addresses{state=\"owned\"} 1.0",
                "cloudstack_ccm_addresses{state=\"kept\"} 0.0",
            ] {
                assert!(stage.counted(line), "{line} is not in:\n{}", stage.metrics.text());
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn c082_a_member_that_somebody_removes_is_back_within_an_hour() {
    let stage = Stage::new();
    stage
        .with_services(async {
            stage.serve("web").await;
            let rule = stage.cloud.rules().remove(0);
            let machines = stage.cloud.ids("listVirtualMachines", "virtualmachine");
            let members = stage.cloud.members(&rule);
            for machine in machines.iter().take(4) {
                let now = ccm_cloudstack::Runtime::now(&stage.clock);
                let params = [("id", rule.as_str()), ("virtualmachineids", machine.as_str())];
                // Not every machine is a member.
                stage
                    .cloud
                    .with(|sim| sim.call("prod", "removeFromLoadBalancerRule", &params, now));
                stage.pass(MINUTE).await;
            }
            assert!(stage.cloud.members(&rule) < members);
            stage.pass(Duration::from_mins(62)).await;
            assert_eq!(stage.cloud.members(&rule), members);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn c084_members_follow_the_nodes_with_one_call_per_rule_and_direction() {
    let stage = Stage::new();
    stage
        .with_services(async {
            stage.create("web", |raw| raw.ports.push(port("https", "TCP", 443, 30443)));
            stage.pass(MINUTE).await;
            let before = stage.changes().len();
            stage.cluster.remove_node("node-1");
            stage.pass(Duration::from_millis(300)).await;
            stage.cluster.remove_node("node-2");
            stage.pass(MINUTE).await;
            let changes = stage.changes();
            let removed = "removeFromLoadBalancerRule";
            assert_eq!(changes[before..], [removed; 2], "one call per rule");
            stage.add_node("node-1");
            stage.pass(Duration::from_secs(2)).await;
            assert_eq!(stage.changes().len(), before + 2, "more may come within five seconds");
            stage.add_node("node-2");
            stage.pass(MINUTE).await;
            assert_eq!(stage.changes()[before + 2..], ["assignToLoadBalancerRule"; 2]);
            let told = stage.reasons("web");
            assert_eq!(told[2..], ["UpdatedLoadBalancer"; 2]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn c077_a_service_of_another_class_is_never_touched() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let other = stage.create("other", |raw| {
                raw.load_balancer_class = Some("example.test/other".to_owned());
                raw.finalizers = vec!["service.kubernetes.io/load-balancer-cleanup".to_owned()];
            });
            stage.pass(MINUTE).await;
            stage.cluster.delete(&other);
            stage.pass(30 * MINUTE).await;
            assert!(stage.cluster.service(&other).is_some(), "the finalizer is somebody else's");
        })
        .await;
    assert_eq!(stage.cluster.patches(), 0);
    assert_eq!(stage.changes(), Vec::<&str>::new());
    assert_eq!(stage.reasons("other"), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_no_load_balancer_any_more_is_let_go() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            stage.cluster.with(|cluster| cluster.set_type(&web, "ClusterIP")).expect("a Service");
            stage.pass(MINUTE).await;
            let left = stage.cluster.service(&web).expect("the Service stays");
            assert_eq!(left.finalizers, Vec::<String>::new());
            assert!(!left.annotations.contains_key(&annotation("record")));
        })
        .await;
    assert_eq!(stage.cloud.rules(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn while_cloudstack_is_down_it_is_tried_less_and_less_often_and_then_all_is_well() {
    let stage = Stage::new();
    stage.cloud.set_down(true);
    stage
        .with_services(async {
            let web = stage.create("web", |_| ());
            let mut tried = Vec::new();
            for _ in 0..4 {
                stage.pass(MINUTE).await;
                tried.push(stage.messages("SyncLoadBalancerFailed").len());
            }
            // At once, then after 5, 10, 20, 40 and 80 s, each up to a tenth more.
            assert_eq!(tried, [4, 5, 6, 6]);
            stage.cloud.set_down(false);
            stage.pass(Duration::from_mins(6)).await;
            assert!(stage.published(&web).is_some());
        })
        .await;
}

/// After how many seconds each of the next failures is told.
async fn failures_told_in(stage: &Stage, seconds: usize) -> Vec<usize> {
    let mut told = Vec::new();
    let mut known = stage.messages("SyncLoadBalancerFailed").len();
    for second in 1..=seconds {
        stage.pass(Duration::from_secs(1)).await;
        let now = stage.messages("SyncLoadBalancerFailed").len();
        told.extend(std::iter::repeat_n(second, now - known));
        known = now;
    }
    told
}

fn assert_backs_off(told: &[usize]) {
    for (between, wait) in told.windows(2).zip([5, 10, 20]) {
        // Up to a tenth more, and looked at once a second.
        let found = between[1] - between[0];
        assert!((wait..=wait + wait / 10 + 1).contains(&found), "{told:?}");
    }
    assert!(told.len() >= 4, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_success_forgets_the_back_off_without_an_edit() {
    let stage = Stage::new();
    stage
        .with_services(async {
            stage.cloud.set_down(true);
            let web = stage.create("web", |_| ());
            assert_backs_off(&failures_told_in(&stage, 60).await);
            stage.cloud.set_down(false);
            stage.pass(2 * MINUTE).await;
            assert!(stage.published(&web).is_some());
            // The next drift round fails.
            stage.cloud.set_down(true);
            assert_backs_off(&failures_told_in(&stage, 12 * 60).await);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_published_stays_while_a_sync_fails() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            let ingress = |stage: &Stage| stage.cluster.service(&web).expect("a Service").ingress;
            let before = ingress(&stage);
            stage.cloud.set_down(true);
            stage.cluster.edit(&web, |raw| raw.ports[0].port = 81);
            stage.pass(30 * MINUTE).await;
            assert!(!stage.messages("SyncLoadBalancerFailed").is_empty());
            assert_eq!(ingress(&stage), before);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_does_not_wait_for_the_back_off() {
    let stage = Stage::new();
    stage.cloud.set_down(true);
    stage
        .with_services(async {
            let web = stage.create("web", |_| ());
            stage.pass(10 * MINUTE).await;
            stage.cloud.set_down(false);
            stage.cluster.edit(&web, |raw| raw.ports[0].port = 81);
            stage.pass(Duration::from_secs(30)).await;
            assert!(stage.published(&web).is_some());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn c104_stripped_annotations_are_written_back_but_not_without_end() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            let changes = stage.changes().len();
            let mut written = 0;
            for _ in 0..20 {
                stage.cluster.edit(&web, |raw| raw.annotations.clear());
                stage.pass(Duration::from_mins(3)).await;
                let raw = stage.cluster.service(&web).expect("a Service");
                written += usize::from(raw.annotations.contains_key(&annotation("record")));
            }
            assert!((3..=10).contains(&written), "{written} times in an hour");
            assert!(!stage.messages("AnnotationsStripped").is_empty());
            assert_eq!(stage.changes().len(), changes, "nothing happens in CloudStack");
        })
        .await;
}

/// Takes from a Service all that we wrote on it but the status.
fn strip(raw: &mut RawService) {
    raw.annotations.clear();
    raw.finalizers.clear();
}

/// Its record alone tells whose the address is, once no rule is left.
#[tokio::test(start_paused = true)]
async fn c104_a_stripped_service_keeps_an_address_that_nothing_else_proves() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve_and_delete_rule("web").await;
            let (addresses, address) = (stage.cloud.addresses(), stage.published(&web));
            stage.cluster.edit(&web, |raw| {
                strip(raw);
                raw.ingress.clear();
            });
            stage.pass(Duration::from_mins(15)).await;
            assert_eq!(stage.cloud.addresses(), addresses);
            assert_eq!(stage.published(&web), address);
            let raw = stage.cluster.service(&web).expect("a Service");
            assert!(raw.annotations.contains_key(&annotation("record")));
            assert!(!raw.finalizers.is_empty());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn c104_what_is_stripped_as_it_is_turned_away_is_removed() {
    let class = |raw: &mut RawService| raw.load_balancer_class = Some("example.test/other".into());
    let other_type = |raw: &mut RawService| raw.service_type = Some("ClusterIP".into());
    for turn_away in [&class as &dyn Fn(&mut RawService), &other_type] {
        let stage = Stage::new();
        let before = stage.cloud.everything();
        stage
            .with_services(async {
                let web = stage.serve_and_delete_rule("web").await;
                stage.cluster.edit(&web, |raw| {
                    strip(raw);
                    turn_away(raw);
                });
                stage.pass(Duration::from_mins(15)).await;
                let raw = stage.cluster.service(&web).expect("a Service");
                assert_eq!((raw.annotations.len(), raw.finalizers.len()), (0, 0));
            })
            .await;
        assert_eq!(stage.cloud.everything(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_tells_what_it_would_do_and_does_nothing() {
    let stage = Stage::new();
    stage
        .with_dry_run(async {
            stage.create("web", |_| ());
            stage.pass(Duration::from_mins(25)).await;
        })
        .await;
    assert_eq!(stage.changes(), Vec::<&str>::new());
    assert_eq!(stage.cluster.patches(), 0);
    assert_eq!(stage.reasons("web"), ["PlannedChanges"]);
    assert!(stage.plans.json().contains("createLoadBalancerRule"));
}
