//! How little a quiet cluster costs.

use std::time::Duration;

use crate::stage::Stage;

#[tokio::test(start_paused = true)]
async fn c085_a_quiet_day_costs_one_reading_per_drift_round_and_changes_nothing() {
    let stage = Stage::new();
    let services = 6;
    stage
        .with_services(async {
            for number in 0..services {
                stage.create(&format!("web-{number}"), |_| ());
            }
            stage.pass(Duration::from_mins(5)).await;
            let (changes, patches) = (stage.changes().len(), stage.cluster.patches());
            let lists = |command| stage.sent(command);
            let (rules, machines) = (lists("listLoadBalancerRules"), lists("listVirtualMachines"));
            let members = lists("listLoadBalancerRuleInstances");
            stage.pass(Duration::from_hours(10)).await;
            assert_eq!((stage.changes().len(), stage.cluster.patches()), (changes, patches));
            // Rounds begin up to a tenth early.
            let rounds = 60..=67;
            for (command, before) in
                [("listLoadBalancerRules", rules), ("listVirtualMachines", machines)]
            {
                let read = lists(command) - before;
                assert!(rounds.contains(&read), "{command}: {read}");
            }
            // Every rule's members once in six rounds, all of them together.
            let read = lists("listLoadBalancerRuleInstances") - members;
            assert!((services * 10..=services * 12).contains(&read), "{read} readings of members");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn many_services_at_once_share_their_readings() {
    let stage = Stage::new();
    stage
        .with_services(async {
            for number in 0..8 {
                stage.create(&format!("web-{number}"), |_| ());
            }
            stage.pass(Duration::from_mins(5)).await;
        })
        .await;
    let read = stage.sent("listLoadBalancerRules");
    assert!(read <= 2, "{read} readings for eight Services");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_nodes_that_leaves_the_set_as_it_was_costs_nothing() {
    let stage = Stage::new();
    let passes = "service_controller_nodesync_latency_seconds_count{} ";
    stage
        .with_services(async {
            for name in ["web", "api"] {
                stage.serve(name).await;
            }
            let told = || ["web", "api"].map(|name| stage.reasons(name));
            let before = (stage.changes(), stage.cluster.patches(), told());
            assert!(!stage.counted(passes));
            let node = stage.cluster.node("node-2").expect("a Node");
            stage.cluster.remove_node("node-2");
            // Within the second that collects changes.
            stage.pass(Duration::from_millis(500)).await;
            stage.cluster.with(|cluster| cluster.set_node(node));
            stage.pass(Duration::from_mins(1)).await;
            assert!(stage.counted(passes), "a pass over all Services");
            assert_eq!((stage.changes(), stage.cluster.patches(), told()), before);
        })
        .await;
}
