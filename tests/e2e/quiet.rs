//! A cluster of some size in which nothing is to be done: how little it costs, round after round and
//! after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_simulator::World;
use ccm_simulator::world::{JobDurations, Range};
use ccm_tests::lab::fixture;
use futures_util::future::join_all;
use jiff::SignedDuration;
use serde_json::json;

use crate::harness::controller::Controller;
use crate::harness::eventually::eventually;
use crate::harness::process::Signal;
use crate::harness::scene::Scene;

const SERVICES: usize = 100;
const NODES: usize = 50;
/// In so many rounds the members of every rule are read once.
const TURNS: usize = 6;
const ROUNDS: usize = 10;
/// Longest way to a state of all of them.
const PATIENCE: Duration = Duration::from_mins(5);

/// The standard world with more machines and more addresses.
fn world() -> World {
    let mut world = World::load(&fixture("worlds/standard.yaml")).expect("a world");
    world.cluster_id = None;
    let address = |last: u8| [198, 18, 0, last].into();
    world.public_range = Some(Range { from: address(1), to: address(200) });
    world.jobs =
        JobDurations { default: SignedDuration::from_millis(50), ..JobDurations::default() };
    let pattern = world.virtual_machines.first().expect("a machine").clone();
    for number in 0..NODES {
        let mut machine = pattern.clone();
        machine.name = node(number);
        machine.id = None;
        let last = u8::try_from(100 + number).expect("few");
        machine.nics[0].address = [10, 1, 1, last].into();
        world.virtual_machines.push(machine);
    }
    world
}

fn node(number: usize) -> String {
    format!("many-{number:02}")
}

/// What both systems were asked so far.
struct Asked {
    changes: usize,
    writes: usize,
    lists: BTreeMap<&'static str, usize>,
}

impl Asked {
    fn of(scene: &Scene) -> Self {
        Self {
            changes: scene.changes().len(),
            writes: scene.writes().len(),
            lists: scene.cloud.counts(),
        }
    }

    /// How often each command was asked for since.
    fn lists_since(&self, scene: &Scene) -> BTreeMap<&'static str, usize> {
        let counts = scene.cloud.counts().into_iter();
        let more = counts.map(|(command, count)| {
            (command, count - self.lists.get(command).copied().unwrap_or_default())
        });
        more.filter(|(_, count)| *count > 0).collect()
    }

    /// Fails if anything was changed since.
    fn assert_nothing_changed(&self, scene: &Scene) {
        assert_eq!(scene.changes().split_off(self.changes), Vec::<&str>::new());
        let writes = scene.writes().split_off(self.writes).into_iter();
        let writes: Vec<String> = writes
            .map(|request| format!("{} {} {}", request.verb, request.uri, request.body))
            .collect();
        assert_eq!(writes, Vec::<String>::new());
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_a_hundred_services_and_fifty_nodes_in_a_steady_state_cost_lists_only() {
    let scene = Scene::new(world()).await;
    let nodes: Vec<String> = (0..NODES).map(node).collect();
    join_all(nodes.iter().map(|name| scene.objects.join(name))).await;
    let mut first = scene.controller("first", &["--drift-interval=2s"]);
    let services: BTreeSet<String> = (0..SERVICES).map(|number| format!("web-{number}")).collect();
    join_all(services.iter().map(|name| scene.objects.create_service(name, json!({})))).await;
    until_told(&scene, &mut first, "EnsuredLoadBalancer", &services).await;
    until_told(&scene, &mut first, "Synced", &nodes.into_iter().collect()).await;
    until_programmed(&mut first).await;

    ten_rounds(&scene, &mut first).await;
    first.signal(Signal::TERM);
    assert!(first.end().await.success(), "it was told to stop");
    restart(&scene).await;
}

async fn ten_rounds(scene: &Scene, controller: &mut Controller) {
    // What the last ones of the set-up still wanted is done by then.
    until_round(controller, rounds(controller) + 2).await;
    let (asked, begun) = (Asked::of(scene), rounds(controller));
    // The last one is through when the next has begun.
    until_round(controller, begun + ROUNDS + 1).await;
    asked.assert_nothing_changed(scene);
    let lists = asked.lists_since(scene);
    // The one that was under way, and one that began while this was counted.
    let seen = rounds(controller) - begun + 2;
    for (command, count) in &lists {
        let most = match *command {
            "listLoadBalancerRuleInstances" => seen * SERVICES.div_ceil(TURNS) + SERVICES,
            _ => seen,
        };
        assert!(*count <= most, "{command}: {count} in {seen} rounds; {lists:?}");
    }
    assert!(lists.get("listLoadBalancerRules").is_some_and(|count| *count >= ROUNDS), "{lists:?}");
}

/// A new process has all to verify, and nothing to do.
async fn restart(scene: &Scene) {
    let asked = Asked::of(scene);
    let mut second = scene.controller("second", &[]);
    until_programmed(&mut second).await;
    asked.assert_nothing_changed(scene);
    let lists = asked.lists_since(scene);
    for (command, count) in &lists {
        assert!(*count <= 3, "{command} is no bulk list: {count}; {lists:?}");
    }
}

fn rounds(controller: &Controller) -> usize {
    controller.log().matches("drift round").count()
}

async fn until_round(controller: &mut Controller, round: usize) {
    eventually(&format!("drift round {round}"), PATIENCE, async || {
        controller.assert_lives();
        let begun = rounds(controller);
        if begun >= round { Ok(()) } else { Err(begun.to_string()) }
    })
    .await;
}

async fn until_told(
    scene: &Scene,
    controller: &mut Controller,
    reason: &str,
    wanted: &BTreeSet<String>,
) {
    eventually(&format!("{reason} of all"), PATIENCE, async || {
        controller.assert_lives();
        let told = scene.objects.told_of(reason).await;
        let missing: Vec<&String> = wanted.difference(&told).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
    })
    .await;
}

/// Waits until every Service was found as it should be.
async fn until_programmed(controller: &mut Controller) {
    let all = format!(r#"cloudstack_ccm_services{{state="programmed"}} {SERVICES}.0"#);
    eventually("all Services are programmed", PATIENCE, async || {
        controller.assert_lives();
        let (_, metrics) = controller.get("/metrics", Some("e2e-admin")).await?;
        let states = metrics.lines().filter(|line| line.starts_with("cloudstack_ccm_services"));
        let states: Vec<&str> = states.collect();
        if states.contains(&all.as_str()) { Ok(()) } else { Err(states.join(", ")) }
    })
    .await;
}
