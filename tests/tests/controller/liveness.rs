//! What `/livez` says of controllers, and what `/metrics` counts of them.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_core::controllers::Controller;
use ccm_core::exec::error::CallError;
use ccm_core::exec::output::Output;
use ccm_core::ids::{LoadBalancerRuleId, VirtualMachineId};
use ccm_core::node::lifecycle::Answer;
use ccm_core::observe::scope::Scope;
use ccm_core::observe::{CloudState, VirtualMachine};
use ccm_core::plan::action::Call;
use cloudstack_ccm::controller::ports::Inventory;
use cloudstack_ccm::ports::{Cloud, Members};
use futures_util::stream;

use crate::stage::Stage;

/// A CloudStack of which no answer ever comes, not even that there is none.
struct Hanging;

impl Cloud for Hanging {
    async fn observe(&self, _: &Scope) -> Result<CloudState, CallError> {
        std::future::pending().await
    }

    async fn members(&self, _: &BTreeSet<LoadBalancerRuleId>) -> Result<Members, CallError> {
        std::future::pending().await
    }

    async fn call(&self, _: &Call) -> Result<Output, CallError> {
        std::future::pending().await
    }
}

impl Inventory for Hanging {
    async fn machines(&self) -> Result<Vec<VirtualMachine>, CallError> {
        std::future::pending().await
    }

    async fn machine(&self, _: &VirtualMachineId) -> Answer {
        std::future::pending().await
    }
}

/// Lets time pass while a controller runs, and looks at it every minute; gives the minute in which it
/// was no longer found to live.
async fn minute_of_death(stage: &Stage, controller: Controller, minutes: u32) -> Option<u32> {
    for minute in 1..=minutes {
        stage.pass(Duration::from_mins(1)).await;
        if !stage.lives(controller) {
            return Some(minute);
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_service_controller_that_hangs_is_found() {
    let stage = Stage::new();
    stage.create("web", |_| {});
    let died = tokio::select! {
        () = stage.with_services_of(Hanging, std::future::pending()) => unreachable!("it hangs"),
        died = minute_of_death(&stage, Controller::Service, 60) => died,
    };
    assert_eq!(died, Some(21), "after the longest step that there is");
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_a_long_job_lives() {
    let stage = Stage::with_world(|world| {
        world.jobs.assign = Some(Duration::from_mins(9).try_into().expect("a duration"));
        world.jobs.firewall = Some(Duration::from_mins(9).try_into().expect("a duration"));
    });
    let key = stage.create("web", |_| {});
    let died = stage.with_services(minute_of_death(&stage, Controller::Service, 60)).await;
    assert_eq!(died, None);
    assert!(stage.published(&key).is_some(), "the jobs were waited for");
}

#[tokio::test(start_paused = true)]
async fn one_that_has_nothing_to_do_lives() {
    let stage = Stage::new();
    let died = stage.with_services(minute_of_death(&stage, Controller::Service, 600)).await;
    assert_eq!(died, None);
}

#[tokio::test(start_paused = true)]
async fn c005_an_outage_of_cloudstack_is_no_reason_to_restart() {
    let stage = Stage::new();
    stage.create("web", |_| {});
    let story = async {
        stage.pass(Duration::from_mins(1)).await;
        stage.cloud.set_down(true);
        stage.create("new", |_| {});
        minute_of_death(&stage, Controller::Service, 120).await
    };
    assert_eq!(stage.with_services(story).await, None);
}

#[tokio::test(start_paused = true)]
async fn node_controllers_that_hang_are_found() {
    let stage = Stage::new();
    let mut node = stage.cluster.node("node-3").expect("a Node");
    node.ready = Some("Unknown".to_owned());
    stage.cluster.with(|cluster| cluster.set_node(node));
    let lifecycle = stage.lifecycle_controller(Hanging);
    let nodes = stage.node_controller(Hanging);
    let both = async { tokio::join!(lifecycle.run(), nodes.run(stream::pending())) };
    let found = async {
        stage.pass(Duration::from_mins(21)).await;
        [Controller::CloudNodeLifecycle, Controller::CloudNode].map(|found| stage.lives(found))
    };
    tokio::select! {
        _ = both => unreachable!("they hang"),
        lives = found => assert_eq!(lives, [false, false]),
    }
}

#[tokio::test(start_paused = true)]
async fn syncs_are_counted_under_the_names_of_gos_controllers() {
    let stage = Stage::new();
    stage.create("web", |_| {});
    let story = async {
        stage.pass(Duration::from_mins(1)).await;
        assert!(!stage.counted("service_controller_nodesync_latency_seconds_count{} 1"));
        stage.add_node("node-4");
        stage.pass(Duration::from_mins(1)).await;
    };
    stage.with_services(story).await;
    for line in [
        "service_controller_loadbalancer_sync_total{} 1",
        "service_controller_nodesync_error_total{} 0",
        "service_controller_nodesync_latency_seconds_count{} 1",
        "service_controller_update_loadbalancer_host_latency_seconds_count{} 1",
        "workqueue_depth{name=\"service\"} 0",
        "workqueue_adds_total{name=\"service\"} ",
        "workqueue_queue_duration_seconds_count{name=\"service\"} ",
        "workqueue_work_duration_seconds_count{name=\"service\"} ",
    ] {
        assert!(stage.counted(line), "{line:?} is not in:\n{}", stage.metrics.text());
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_counted_as_such() {
    let stage = Stage::new();
    stage.create("web", |_| {});
    let story = async {
        stage.pass(Duration::from_mins(1)).await;
        stage.cloud.set_down(true);
        stage.add_node("node-4");
        stage.pass(Duration::from_mins(1)).await;
    };
    stage.with_services(story).await;
    for line in [
        "service_controller_nodesync_error_total{} 1",
        "workqueue_retries_total{name=\"service\"} ",
    ] {
        assert!(stage.counted(line), "{line:?} is not in:\n{}", stage.metrics.text());
    }
}
