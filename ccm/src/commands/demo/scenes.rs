//! The story, scene by scene.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use ccm_core::ids::{LoadBalancerRuleId, ServiceKey};
use ccm_core::parse::annotations::{PROXY_PROTOCOL, SOURCE_CIDRS};
use ccm_core::parse::raw::{RawNode, RawService};
use ccm_core::version::ProtocolChange;

use super::cluster::Cluster;
use super::stage::Stage;

const WEB: &str = include_str!("../../../../fixtures/demo/services/web.yaml");
const API: &str = include_str!("../../../../fixtures/demo/services/api.yaml");
const NODES: &str = include_str!("../../../../fixtures/demo/nodes/isolated.yaml");
const TIER_NODES: &str = include_str!("../../../../fixtures/demo/nodes/tier.yaml");

/// `node-4` of the world file, which is no node yet.
const NODE_4: &str = "4f0c1d52-7a3e-4a1b-9c60-2b1f6e5d0a04";

/// One of those that the Service web is for.
const GUEST: &str = "198.51.100.7";
/// One of those that are let in later.
const NEIGHBOUR: &str = "192.0.2.9";

/// Plays all scenes.
pub(super) async fn play(stage: &Stage) -> Result<()> {
    let mut demo = Cluster::new(stage, "demo", NODES)?;
    let mut second = Cluster::new(stage, "demo-vpc", TIER_NODES)?;
    let before = demo.inventory().await?;
    stage.tell(&format!("In it: {}.", before.summary()))?;

    let (web, address) = new_service(stage, &mut demo).await?;
    in_place(stage, &mut demo, &web, address).await?;
    let api = in_a_vpc(stage, &mut second).await?;

    stage.scene("4. Both Services are deleted")?;
    for (cluster, key) in [(&mut demo, &web), (&mut second, &api)] {
        stage.act(&format!("kubectl -n {} delete service {}", key.namespace, key.name))?;
        cluster.kubernetes.with(|kubernetes| kubernetes.delete(key))?;
        cluster.converge(key).await?;
    }
    let after = demo.inventory().await?;
    let left = after.differences(&before);
    ensure!(left.is_empty(), "not as it was before: {}", left.join(", "));
    stage.found(&format!("left in CloudStack: {}, as before", after.summary()))
}

async fn new_service(stage: &Stage, demo: &mut Cluster<'_>) -> Result<(ServiceKey, Ipv4Addr)> {
    stage.scene("1. A new Service with two ports, for 198.51.100.0/24 only")?;
    stage.act("kubectl apply -f fixtures/demo/services/web.yaml")?;
    let web = demo.create(WEB)?;
    if !stage.features().restricts_rule_sources() {
        demo.refuse(&web).await?;
        stage.found("refused: this release has no such lists, but the firewall does the same")?;
        restrict(stage, demo, &web, &["198.51.100.0/24"])?;
    }
    demo.converge(&web).await?;
    let address = demo.address(&web)?;
    stage.found(&format!("published: {address}"))?;
    let nodes = ["node-1", "node-2", "node-3"];
    stage.connect(GUEST, (address, 80), &nodes)?;
    stage.connect(GUEST, (address, 443), &nodes)?;
    stage.connect(NEIGHBOUR, (address, 443), &[])?;
    Ok((web, address))
}

async fn in_place(
    stage: &Stage,
    demo: &mut Cluster<'_>,
    web: &ServiceKey,
    address: Ipv4Addr,
) -> Result<()> {
    stage.scene("2. It changes while it serves")?;
    let features = stage.features();
    let first = demo.rules(address).await?;
    annotate(stage, demo, web, (PROXY_PROTOCOL, "true"))?;
    demo.converge(web).await?;
    let second = demo.rules(address).await?;
    let in_place = features.protocol_change() != ProtocolChange::Recreate;
    compare(stage, &first, &second, in_place, "protocols")?;

    restrict(stage, demo, web, &["198.51.100.0/24", "192.0.2.0/24"])?;
    demo.converge(web).await?;
    let third = demo.rules(address).await?;
    let in_place = features.edits_rule_sources() || !features.restricts_rule_sources();
    compare(stage, &second, &third, in_place, "source lists")?;
    stage.connect(GUEST, (address, 443), &["node-1", "node-2", "node-3"])?;
    stage.connect(NEIGHBOUR, (address, 443), &["node-1", "node-2", "node-3"])?;

    stage.act("kubectl delete node node-3; kubeadm join ... on node-4")?;
    demo.kubernetes.with(|cluster| {
        cluster.remove_node("node-3");
        cluster.set_node(node_4());
    });
    demo.converge(web).await?;
    stage.connect(GUEST, (address, 443), &["node-1", "node-2", "node-4"])
}

/// Makes sure that rules were edited, or made anew where this release can't edit.
fn compare(
    stage: &Stage,
    before: &BTreeMap<u16, LoadBalancerRuleId>,
    after: &BTreeMap<u16, LoadBalancerRuleId>,
    in_place: bool,
    what: &str,
) -> Result<()> {
    ensure!((before == after) == in_place, "made anew or edited: {before:?}, {after:?}");
    if in_place {
        return stage.found("the same rules as before");
    }
    stage.found(&format!(
        "the rules were made anew, port by port: this CloudStack can't edit {what}"
    ))
}

/// Lets only these networks in: on the rules, or on the firewall where rules have no lists.
fn restrict(stage: &Stage, demo: &Cluster<'_>, web: &ServiceKey, networks: &[&str]) -> Result<()> {
    if stage.features().restricts_rule_sources() {
        return annotate(stage, demo, web, (SOURCE_CIDRS, &networks.join(",")));
    }
    stage.act(&format!("kubectl -n shop annotate service web \\\n    {SOURCE_CIDRS}-"))?;
    let ranges =
        networks.iter().map(|network| format!("{network:?}")).collect::<Vec<_>>().join(",");
    stage.act(&format!(
        "kubectl -n shop patch service web --patch \\\n    \
         '{{\"spec\":{{\"loadBalancerSourceRanges\":[{ranges}]}}}}'"
    ))?;
    edit(demo, web, |service| {
        service.annotations.remove(SOURCE_CIDRS);
        service.source_ranges = networks.iter().map(|network| (*network).to_owned()).collect();
    })
}

fn annotate(
    stage: &Stage,
    demo: &Cluster<'_>,
    web: &ServiceKey,
    (key, value): (&str, &str),
) -> Result<()> {
    stage
        .act(&format!("kubectl -n shop annotate --overwrite service web \\\n    {key}={value}"))?;
    edit(demo, web, |service| drop(service.annotations.insert(key.to_owned(), value.to_owned())))
}

fn edit(demo: &Cluster<'_>, web: &ServiceKey, change: impl FnOnce(&mut RawService)) -> Result<()> {
    demo.kubernetes.with(|cluster| cluster.edit(web, change)).map_err(anyhow::Error::from)
}

async fn in_a_vpc(stage: &Stage, second: &mut Cluster<'_>) -> Result<ServiceKey> {
    stage.scene("3. Another cluster of the same account, in a VPC tier with an ACL list")?;
    stage.act("kubectl apply -f fixtures/demo/services/api.yaml")?;
    let api = second.create(API)?;
    second.converge(&api).await?;
    let address = second.address(&api)?;
    stage.found(&format!("published: {address}, which somebody had acquired for it"))?;
    stage.connect(NEIGHBOUR, (address, 8443), &["tier-node-1", "tier-node-2"])?;
    Ok(api)
}

fn node_4() -> RawNode {
    RawNode {
        name: "node-4".to_owned(),
        provider_id: Some(format!("external-cloudstack://{NODE_4}")),
        addresses: vec![("InternalIP".to_owned(), "10.1.1.14".to_owned())],
        ..RawNode::default()
    }
}
