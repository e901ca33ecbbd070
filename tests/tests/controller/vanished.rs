//! Services that go although our finalizer should have held them, and others of their names.

use std::time::Duration;

use ccm_core::ids::ServiceKey;
use ccm_core::parse::raw::RawService;
use ccm_tests::lab::{uid_of, web};

use crate::stage::Stage;

const MINUTE: Duration = Duration::from_mins(1);

/// A person takes the finalizer off and deletes the Service, before anybody looks.
fn tear_out(stage: &Stage, key: &ServiceKey, successor: Option<RawService>) {
    stage.cluster.with(|cluster| {
        cluster.edit(key, |raw| raw.finalizers.clear()).expect("a Service");
        cluster.delete(key).expect("a Service");
        if let Some(successor) = successor {
            cluster.create(successor).expect("the name is free");
        }
    });
}

fn successor() -> RawService {
    RawService { uid: Some(uid_of("successor")), ..web("web") }
}

#[tokio::test(start_paused = true)]
async fn what_a_vanished_service_left_is_removed() {
    let stage = Stage::new();
    let before = stage.cloud.everything();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            tear_out(&stage, &web, None);
            stage.pass(MINUTE).await;
            let told = stage.reasons("web");
            assert_eq!(told[2..], ["DeletingLoadBalancer", "DeletedLoadBalancer"]);
            let changes = stage.changes().len();
            stage.pass(30 * MINUTE).await;
            assert_eq!(stage.changes().len(), changes, "and that is all");
        })
        .await;
    assert_eq!(stage.cloud.everything(), before);
}

#[tokio::test(start_paused = true)]
async fn what_a_vanished_service_left_is_removed_once_cloudstack_is_back() {
    let stage = Stage::new();
    let before = stage.cloud.everything();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            stage.cloud.set_down(true);
            tear_out(&stage, &web, None);
            stage.pass(10 * MINUTE).await;
            assert!(!stage.cloud.rules().is_empty());
            stage.cloud.set_down(false);
            stage.pass(6 * MINUTE).await;
        })
        .await;
    assert_eq!(stage.cloud.everything(), before);
}

#[tokio::test(start_paused = true)]
async fn another_service_of_the_same_name_is_served_and_the_first_leaves_nothing() {
    // While the first is being made, and after.
    for seconds in (0..30).chain([60]) {
        let stage = Stage::new();
        let before = stage.cloud.everything();
        stage
            .with_services(async {
                let web = stage.create("web", |_| ());
                stage.pass(Duration::from_millis(500) * seconds).await;
                tear_out(&stage, &web, Some(successor()));
                stage.pass(5 * MINUTE).await;
                assert!(stage.published(&web).is_some(), "after {seconds} half seconds");
                assert_eq!(stage.cloud.rules().len(), 1, "after {seconds} half seconds");
                assert_eq!(stage.cloud.addresses().len(), before[0].len() + 1);
                stage.cluster.delete(&web);
                stage.pass(MINUTE).await;
            })
            .await;
        assert_eq!(stage.cloud.everything(), before, "{seconds} half seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_asks_for_the_address_gets_it_without_a_release() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            let address = stage.published(&web);
            let asks = RawService { load_balancer_ip: address.clone(), ..successor() };
            tear_out(&stage, &web, Some(asks));
            stage.pass(5 * MINUTE).await;
            assert_eq!(stage.published(&web), address);
            assert_eq!(stage.cloud.rules().len(), 1);
        })
        .await;
    assert_eq!(stage.sent("disassociateIpAddress"), 0, "somebody else could have taken it");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_comes_back_is_not_torn_down() {
    let stage = Stage::new();
    stage
        .with_services(async {
            let web = stage.serve("web").await;
            let (address, changes) = (stage.published(&web), stage.changes().len());
            let raw = stage.cluster.service(&web).expect("a Service");
            stage.cloud.set_down(true);
            tear_out(&stage, &web, None);
            stage.pass(MINUTE).await;
            // As after the restore of a backup.
            stage.cluster.with(|cluster| cluster.create(raw)).expect("the name is free");
            stage.cloud.set_down(false);
            stage.pass(20 * MINUTE).await;
            assert_eq!(stage.published(&web), address);
            assert_eq!(stage.changes().len(), changes);
        })
        .await;
    assert_eq!(stage.cloud.rules().len(), 1);
}
