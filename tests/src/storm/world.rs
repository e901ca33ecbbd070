//! The world in which a storm is told: what CloudStack holds, and the clusters in it.

use std::sync::{Arc, Mutex};

use ccm_cloudstack::Credentials;
use ccm_core::ids::{ClusterId, ProjectId};
use ccm_core::model::policy::Policy;
use ccm_simulator::Simulator;
use ccm_simulator::world::{Account, JobDurations, Nic, Role, VirtualMachine, World};
use jiff::SignedDuration;

use super::api_client::{ApiClient, Troubles};
use super::api_server::ApiServer;
use super::clock::{Clock, Dice};
use super::cloud::{CloudStack, Wire};
use super::process::{Configuration, Process};
use super::run::{Cluster, Storm};
use super::script::{NODES, Script, Site};
use super::watcher::{ALL_SEEING, Watcher};
use crate::lab::fixture;

impl Site {
    fn network(self, restricted: bool) -> &'static str {
        match self {
            Self::Isolated if restricted => "iso-web",
            Self::Isolated => "iso-1",
            Self::TierWithList => "tier-1",
            Self::SecondTier => "tier-2",
            Self::TierAllow => "tier-allow",
            Self::TierDeny => "tier-deny",
            Self::TierWithoutList => "tier-none",
        }
    }

    /// The first three bytes of its addresses.
    fn prefix(self, restricted: bool) -> [u8; 3] {
        match self {
            Self::Isolated if restricted => [10, 1, 3],
            Self::Isolated => [10, 1, 1],
            Self::TierWithList => [10, 2, 1],
            Self::SecondTier => [10, 2, 2],
            Self::TierAllow => [10, 2, 3],
            Self::TierDeny => [10, 2, 4],
            Self::TierWithoutList => [10, 2, 5],
        }
    }
}

/// The name of a Node and of its machine.
pub(super) fn node_name(cluster: usize, node: usize) -> String {
    format!("k{cluster}-node-{node}")
}

fn machine_id(cluster: usize, node: usize) -> String {
    format!("00000000-0000-4000-8001-{:012x}", cluster * 100 + node)
}

fn world(script: &Script) -> World {
    let mut world = World::load(&fixture("worlds/standard.yaml")).expect("the standard world");
    world.release.clone_from(&script.release);
    world.seed = script.seed;
    let second = |n| Some(SignedDuration::from_secs(n));
    world.jobs = JobDurations {
        default: SignedDuration::from_secs(2),
        associate: second(3),
        release: second(4),
        ..JobDurations::default()
    };
    let watcher = Account {
        name: ALL_SEEING.to_owned(),
        role: Role::RootAdmin,
        api_key: format!("{ALL_SEEING}-key"),
        secret_key: format!("{ALL_SEEING}-secret"),
        ..world.accounts[0].clone()
    };
    world.accounts.push(watcher);
    let owner = if script.restricted { "web" } else { "prod" };
    for (cluster, site) in script.clusters.iter().enumerate() {
        for node in 0..NODES {
            let [a, b, c] = site.prefix(script.restricted);
            let host = u8::try_from(100 + cluster * 10 + node).expect("a byte");
            let nic = Nic {
                network: site.network(script.restricted).to_owned(),
                address: [a, b, c, host].into(),
                ..world.virtual_machines[0].nics[0].clone()
            };
            world.virtual_machines.push(VirtualMachine {
                name: node_name(cluster, node),
                owner: owner.to_owned(),
                id: Some(machine_id(cluster, node)),
                nics: vec![nic],
                ..world.virtual_machines[0].clone()
            });
        }
    }
    world
}

impl Storm {
    /// A calm world, and a process in each cluster of it.
    pub(super) fn new(script: &Script) -> Self {
        let world = world(script);
        let dice = Dice::new(script.seed, 0);
        let clock = Clock::new(world.started, dice.clone());
        let simulator = Simulator::new(&world).expect("a world that makes sense");
        let simulator = Arc::new(Mutex::new(simulator));
        let servers: Vec<Arc<ApiServer>> = script.clusters.iter().map(|_| Arc::default()).collect();
        let firewalls = script.clusters.iter().map(|site| *site == Site::Isolated).collect();
        let watcher = Arc::new(Watcher::new(
            Arc::clone(&simulator),
            servers.clone(),
            firewalls,
            script.restricted,
            clock.clone(),
        ));
        let (hands, keys) =
            if script.restricted { ("member", "kubeadmin-web") } else { ("prod", "prod") };
        let cloud = Arc::new(CloudStack::new(
            simulator,
            Arc::clone(&watcher),
            clock.clone(),
            hands,
            script.strike.clone(),
        ));
        let keys = world.accounts.iter().find(|account| account.name == keys).expect("the account");
        let project = world.projects[0].id.as_deref().expect("an id");
        let project = script.restricted.then(|| ProjectId::parse(project).expect("an id"));
        let clusters =
            script.clusters.iter().zip(servers).enumerate().map(|(number, (site, server))| {
                let dice = Dice::new(script.seed, 1 + number as u64);
                let cluster_id = ClusterId::parse(&format!("k{number}")).expect("a cluster id");
                let troubles = Troubles::default();
                let configuration = Configuration {
                    policy: Policy {
                        project: project.clone(),
                        ownership_tags: script.tags,
                        ..Policy::new(cluster_id)
                    },
                    credentials: Credentials::new(&keys.api_key, &keys.secret_key),
                    wire: Wire { cloud: Arc::clone(&cloud), cluster: number, dice: dice.clone() },
                    api: ApiClient {
                        server: Arc::clone(&server),
                        watcher: Arc::clone(&watcher),
                        cluster: number,
                        troubles: troubles.clone(),
                        dice: dice.clone(),
                    },
                    clock: clock.of(dice),
                };
                let machines = (0..NODES).map(|node| (node_name(number, node), true)).collect();
                let process = Process::start(&configuration);
                Cluster { server, site: *site, troubles, configuration, process, machines }
            });
        let clusters: Vec<Cluster> = clusters.collect();
        let storm = Self {
            clusters,
            cloud,
            watcher,
            clock,
            dice,
            ends: Vec::new(),
            old: Vec::new(),
            release: script.release.clone(),
        };
        for cluster in 0..storm.clusters.len() {
            (0..NODES).for_each(|node| storm.join(cluster, node));
        }
        storm
    }
}
