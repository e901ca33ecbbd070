//! The Node controllers.

use std::time::Duration;

use ccm_core::node::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
use ccm_core::parse::raw::RawNode;
use futures_util::stream;

use crate::stage::Stage;

const U3: &str = "destroyVirtualMachine";
const MINUTE: Duration = Duration::from_mins(1);

async fn with_lifecycle<T>(stage: &Stage, story: impl Future<Output = T>) -> T {
    let controller = stage.lifecycle_controller(stage.client());
    tokio::select! {
        () = controller.run() => unreachable!("it runs for ever"),
        result = story => result,
    }
}

async fn with_metadata<T>(stage: &Stage, story: impl Future<Output = T>) -> T {
    let controller = stage.node_controller(stage.client());
    tokio::select! {
        () = controller.run(stream::pending()) => unreachable!("the watch does not end"),
        result = story => result,
    }
}

fn not_ready(stage: &Stage, name: &str) -> RawNode {
    let mut node = stage.cluster.node(name).expect("a Node");
    node.ready = Some("Unknown".to_owned());
    stage.cluster.with(|cluster| cluster.set_node(node.clone()));
    node
}

fn machine_of(node: &RawNode) -> String {
    let id = node.provider_id.as_deref().expect("a provider id");
    id.trim_start_matches("external-cloudstack://").to_owned()
}

#[tokio::test(start_paused = true)]
async fn c074_the_node_of_a_machine_that_is_gone_is_deleted_once_that_is_certain() {
    let stage = Stage::new();
    stage.pass(Duration::from_hours(1)).await;
    let node = not_ready(&stage, "node-3");
    let id = machine_of(&node);
    stage.cloud.by_hand(U3, &[("id", &id)]).await;
    with_lifecycle(&stage, async {
        stage.pass(Duration::from_secs(20)).await;
        assert!(stage.cluster.node("node-3").is_some(), "not before it is confirmed");
        stage.pass(Duration::from_secs(25)).await;
    })
    .await;
    assert_eq!(stage.cluster.node("node-3"), None);
    assert_eq!(stage.reasons("node-3"), ["DeletingNode"]);
    assert!(stage.cluster.node("node-1").is_some());
}

#[tokio::test(start_paused = true)]
async fn no_answer_of_cloudstack_deletes_a_node() {
    let stage = Stage::new();
    stage.pass(Duration::from_hours(1)).await;
    not_ready(&stage, "node-3");
    stage.cloud.set_down(true);
    with_lifecycle(&stage, stage.pass(Duration::from_hours(1))).await;
    assert!(stage.cluster.node("node-3").is_some());
    assert!(stage.sent("listVirtualMachines") < 100, "an hour of silence is not hammered");
}

#[tokio::test(start_paused = true)]
async fn c076_a_stopped_machine_taints_its_node_until_it_is_ready() {
    let stage = Stage::new();
    let node = not_ready(&stage, "node-2");
    let tainted = |stage: &Stage| {
        let node = stage.cluster.node("node-2").expect("the Node stays");
        node.taints.iter().any(|key| key == SHUTDOWN_TAINT)
    };
    with_lifecycle(&stage, async {
        stage.pass(Duration::from_secs(30)).await;
        assert!(!tainted(&stage), "its machine runs");
        stage.cloud.by_hand("stopVirtualMachine", &[("id", &machine_of(&node))]).await;
        stage.pass(Duration::from_mins(2)).await;
        assert!(tainted(&stage));
        stage.cloud.by_hand("startVirtualMachine", &[("id", &machine_of(&node))]).await;
        stage.pass(Duration::from_mins(10)).await;
        assert!(tainted(&stage), "its machine runs, but the Node is not ready");
        let mut ready = stage.cluster.node("node-2").expect("the Node stays");
        ready.ready = Some("True".to_owned());
        stage.cluster.with(|cluster| cluster.set_node(ready));
        stage.pass(Duration::from_secs(10)).await;
        assert!(!tainted(&stage));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_node_is_initialised_as_soon_as_its_machine_is_there() {
    let stage = Stage::new();
    stage.cloud.set_down(true);
    let node = RawNode {
        provider_id: None,
        addresses: Vec::new(),
        taints: vec![UNINITIALIZED_TAINT.to_owned(), "other/taint".to_owned()],
        ..stage.cluster.node("node-1").expect("a Node")
    };
    let machine = machine_of(&stage.cluster.node("node-1").expect("a Node"));
    stage.cluster.with(|cluster| cluster.set_node(node));
    with_metadata(&stage, async {
        stage.pass(MINUTE).await;
        let waiting = stage.cluster.node("node-1").expect("the Node");
        assert!(waiting.taints.iter().any(|key| key == UNINITIALIZED_TAINT));
        stage.cloud.set_down(false);
        stage.pass(2 * MINUTE).await;
        let done = stage.cluster.node("node-1").expect("the Node");
        assert_eq!(done.taints, ["other/taint"]);
        assert_eq!(done.provider_id, Some(format!("external-cloudstack://{machine}")));
        assert!(!done.addresses.is_empty());
        assert_eq!(stage.reasons("node-1"), ["Synced"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_has_its_addresses_before_its_taint_goes() {
    let stage = Stage::new();
    let node = RawNode {
        addresses: Vec::new(),
        taints: vec![UNINITIALIZED_TAINT.to_owned()],
        ..stage.cluster.node("node-1").expect("a Node")
    };
    with_metadata(&stage, async {
        stage.pass(MINUTE).await;
        let before = stage.cluster.node_writes().len();
        stage.cluster.with(|cluster| cluster.set_node(node));
        stage.pass(6 * MINUTE).await;
        assert_eq!(stage.cluster.node_writes()[before..], ["addresses", "node"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_before_its_machine_is_found_is_forgotten() {
    let stage = Stage::new();
    let node = RawNode {
        name: "nobody".to_owned(),
        provider_id: None,
        taints: vec![UNINITIALIZED_TAINT.to_owned()],
        ..RawNode::default()
    };
    stage.cluster.with(|cluster| cluster.set_node(node));
    with_metadata(&stage, async {
        stage.pass(MINUTE).await;
        stage.cluster.remove_node("nobody");
        stage.pass(MINUTE).await;
        let asked = stage.sent("listVirtualMachines");
        stage.pass(30 * MINUTE).await;
        let refreshes = stage.sent("listVirtualMachines") - asked;
        assert!((6..=7).contains(&refreshes), "{refreshes} readings in half an hour");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn addresses_that_change_are_written_at_the_next_refresh_and_nothing_before() {
    let stage = Stage::new();
    with_metadata(&stage, async {
        stage.pass(MINUTE).await;
        let right = stage.cluster.node("node-1").expect("a Node").addresses;
        let written = stage.cluster.node_writes().len();
        stage.pass(30 * MINUTE).await;
        assert_eq!(stage.cluster.node_writes().len(), written, "nothing changed");
        let mut node = stage.cluster.node("node-1").expect("a Node");
        node.addresses = vec![("InternalIP".to_owned(), "192.0.2.1".to_owned())];
        stage.cluster.with(|cluster| cluster.set_node(node));
        stage.pass(5 * MINUTE).await;
        assert_eq!(stage.cluster.node("node-1").expect("a Node").addresses, right);
        assert_eq!(stage.cluster.node_writes()[written..], ["addresses"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_api_server_refuses_is_told_and_tried_again() {
    let stage = Stage::new();
    stage.pass(Duration::from_hours(1)).await;
    let node = not_ready(&stage, "node-3");
    stage.cloud.by_hand(U3, &[("id", &machine_of(&node))]).await;
    stage.cluster.refuse_node_writes(true);
    with_lifecycle(&stage, async {
        stage.pass(2 * MINUTE).await;
        assert!(stage.cluster.node("node-3").is_some());
        assert_eq!(stage.reasons("node-3")[..2], ["DeletingNode", "DeletingNodeFailed"]);
        stage.cluster.refuse_node_writes(false);
        stage.pass(MINUTE).await;
    })
    .await;
    assert_eq!(stage.cluster.node("node-3"), None);
}

#[tokio::test(start_paused = true)]
async fn c074_a_node_that_was_made_anew_before_its_deletion_arrives_lives() {
    let stage = Stage::new();
    stage.pass(Duration::from_hours(1)).await;
    let node = not_ready(&stage, "node-3");
    stage.cloud.by_hand(U3, &[("id", &machine_of(&node))]).await;
    let anew = RawNode { uid: Some("another".to_owned()), ready: Some("True".to_owned()), ..node };
    stage.cluster.replace_before_deletion(anew.clone());
    with_lifecycle(&stage, stage.pass(10 * MINUTE)).await;
    assert_eq!(stage.cluster.node("node-3"), Some(anew));
    assert_eq!(stage.cluster.node_writes(), Vec::<&str>::new(), "its uid was a precondition");
    assert_eq!(stage.reasons("node-3"), ["DeletingNode", "DeletingNodeFailed"]);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_looked_at_every_five_seconds() {
    let stage = Stage::new();
    let taint = || {
        let mut node = stage.cluster.node("node-1").expect("a Node");
        node.taints.push(SHUTDOWN_TAINT.to_owned());
        stage.cluster.with(|cluster| cluster.set_node(node));
    };
    with_lifecycle(&stage, async {
        stage.pass(Duration::from_millis(100)).await;
        for round in 1..=3 {
            taint();
            stage.pass(Duration::from_millis(4800)).await;
            assert_eq!(stage.cluster.node_writes().len(), round - 1, "not yet");
            stage.pass(Duration::from_millis(200)).await;
            assert_eq!(stage.cluster.node_writes().len(), round, "a ready Node loses it");
        }
    })
    .await;
}
