//! A cluster of the demo, and the controller's view of CloudStack from it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, bail, ensure};
use ccm_cloudstack::{Client, HttpTransport, Runtime as _};
use ccm_core::ids::{ClusterId, LoadBalancerRuleId, ServiceKey};
use ccm_core::model::Learned;
use ccm_core::model::policy::Policy;
use ccm_core::observe::{AddressState, CloudState};
use ccm_core::plan::Planned;
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::render::document::Document;
use ccm_core::render::human;
use ccm_kubernetes::manifests::Assume;
use ccm_kubernetes::memory::MemoryCluster;

use super::stage::{Clock, Stage, manifests};
use crate::commands::VERSION;
use crate::connect;
use crate::driver::{self, SharedLanes, World};
use crate::ports::InMemory;
use crate::progress::{Steps, Writes, shortfall};

/// Plans in which a Service must have converged.
const ROUNDS: usize = 4;

/// See the module.
pub(super) struct Cluster<'a> {
    stage: &'a Stage,
    client: Client<HttpTransport, Clock>,
    policy: Policy,
    learned: Learned,
    /// Kubernetes, as a person with kubectl has it.
    pub(super) kubernetes: InMemory,
}

impl<'a> Cluster<'a> {
    /// A cluster with the Nodes of a manifest.
    pub(super) fn new(stage: &'a Stage, id: &str, nodes: &str) -> Result<Self> {
        let cluster_id = ClusterId::parse(id)?;
        let nodes = MemoryCluster::from_manifests(manifests(nodes, Assume::Node)?)?;
        Ok(Self {
            stage,
            client: connect::client(stage.config(), None, stage.clock())?,
            policy: stage.config().policy(cluster_id.clone()),
            learned: Learned::default(),
            kubernetes: InMemory::new(nodes, cluster_id),
        })
    }

    /// `kubectl apply` of a Service; its age is now.
    pub(super) fn create(&self, manifest: &str) -> Result<ServiceKey> {
        let mut services = manifests(manifest, Assume::Service)?.services;
        let Some(mut service) = services.pop() else { bail!("the manifest holds no Service") };
        service.creation_timestamp = Some(self.stage.clock().now());
        Ok(self.kubernetes.with(|cluster| cluster.create(service))?)
    }

    /// What CloudStack holds for anybody in the account.
    pub(super) async fn inventory(&self) -> Result<Inventory> {
        let World { desired, observed: _ } = self.read().await?;
        Ok(Inventory::of(
            &driver::observe_state(&self.client, &desired, &self.policy, Depth::Quick).await?,
        ))
    }

    async fn read(&self) -> Result<World> {
        let learned = self.learned.clone();
        Ok(driver::read(&self.client, &self.kubernetes, &self.policy, learned, Depth::Thorough)
            .await?)
    }

    /// The address that the Service publishes.
    pub(super) fn address(&self, key: &ServiceKey) -> Result<Ipv4Addr> {
        let service = self.kubernetes.with(|cluster| cluster.service(key).cloned());
        let mut published = service.iter().flat_map(|service| &service.ingress);
        let address = published.find_map(|entry| entry.ip.as_deref());
        Ok(address.with_context(|| format!("{key} publishes no address"))?.parse()?)
    }

    /// The rules on an address, by public port.
    pub(super) async fn rules(
        &self,
        address: Ipv4Addr,
    ) -> Result<BTreeMap<u16, LoadBalancerRuleId>> {
        let World { desired: _, observed } = self.read().await?;
        let id = observed.address_by_ip(address).map(|found| found.id.clone());
        let here = observed.rules.values().filter(|rule| Some(&rule.address) == id.as_ref());
        Ok(here.map(|rule| (rule.public_port, rule.id.clone())).collect())
    }

    /// A fresh plan and its text, or nothing if the Service is gone.
    async fn plan(&self, key: &ServiceKey) -> Result<Option<(Planned, String)>> {
        let world = self.read().await?;
        if !world.desired.services.contains_key(key) {
            return Ok(None);
        }
        let now = self.stage.clock().now();
        let planner = Planner::new(&world.desired, &world.observed, &self.policy, now);
        let fresh = planner.plan(key)?;
        let document = Document::new(&planner, std::slice::from_ref(&fresh), VERSION);
        let text = human::print(&document, self.stage.console().colour);
        Ok(Some((fresh, text.trim_end().to_owned())))
    }

    /// Plans, prints why a Service is refused, and makes sure that it is.
    pub(super) async fn refuse(&self, key: &ServiceKey) -> Result<()> {
        let Some((planned, text)) = self.plan(key).await? else { bail!("{key} is gone") };
        self.stage.say(&format!("\n{text}"))?;
        ensure!(planned.report.is_blocked() && planned.plan.is_empty(), "{key} is not refused");
        Ok(())
    }

    /// Plans, prints and carries out, until there is nothing to do.
    pub(super) async fn converge(&mut self, key: &ServiceKey) -> Result<()> {
        for round in 0..ROUNDS {
            let Some((planned, text)) = self.plan(key).await? else {
                return self.stage.found(&format!("{key} is gone from the cluster"));
            };
            let Planned { plan, report } = &planned;
            if plan.is_empty() {
                ensure!(!report.is_blocked(), "{key} is refused\n{text}");
                return self.stage.found("planned again: no changes");
            }
            ensure!(round + 1 < ROUNDS, "{key} did not converge in {ROUNDS} plans");
            self.stage.say(&format!("\n{text}\n"))?;
            let steps = Steps::new(self.stage.console(), Writes::Shown, &|| true);
            let lanes = SharedLanes::default();
            let outcome =
                driver::execute(&self.client, &self.kubernetes, plan, &lanes, &steps).await?;
            ensure!(outcome.is_success(), "{}", shortfall(plan, &outcome).join("\n"));
            self.learned.absorb(outcome.lessons, self.stage.clock().now());
        }
        Ok(())
    }
}

/// What must be the same before the first scene and after the last one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inventory(BTreeSet<String>);

impl Inventory {
    fn of(state: &CloudState) -> Self {
        let addresses = state.addresses.iter().filter(|found| found.state != AddressState::Free);
        let acl_items = state.acl_items.listed().into_iter().flatten();
        let all = addresses
            .map(|found| format!("address {}", found.address))
            .chain(state.rules.iter().map(|rule| format!("load balancer rule {}", rule.id)))
            .chain(state.firewall_rules.iter().map(|rule| format!("firewall rule {}", rule.id)))
            .chain(acl_items.map(|item| format!("ACL item {}", item.id)));
        Self(all.collect())
    }

    /// What is only in one of the two.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        self.0.symmetric_difference(&other.0).cloned().collect()
    }

    /// How much there is, in words.
    pub(super) fn summary(&self) -> String {
        let count = |kind: &str| self.0.iter().filter(|found| found.starts_with(kind)).count();
        format!(
            "{} addresses, {} load balancer rules, {} firewall rules, {} ACL items",
            count("address"),
            count("load balancer rule"),
            count("firewall rule"),
            count("ACL item")
        )
    }
}
