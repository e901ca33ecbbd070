//! What the scenes play on: the CloudStack model behind HTTP, clusters, a clock, and words.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ccm_cloudstack::{Runtime, TokioRuntime};
use ccm_core::version::{Features, Version};
use ccm_kubernetes::manifests::{Assume, Manifests, read_text};
use ccm_simulator::{Layer, Protocol, Simulator, TrafficQuery, World, http};
use jiff::Timestamp;
use tokio::net::TcpListener;

use crate::config::{Config, Overrides};
use crate::console::{Console, styled};

const WORLD: &str = include_str!("../../../../fixtures/demo/world.yaml");

/// Time that can pass faster than it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Timestamp,
    since: Instant,
    speed: u32,
}

impl Runtime for Clock {
    fn now(&self) -> Timestamp {
        let passed = self.since.elapsed().saturating_mul(self.speed);
        self.began.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    async fn sleep_until(&self, at: Timestamp) {
        let left = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(left / self.speed.max(1)).await;
    }

    fn fresh_uuid(&self) -> String {
        TokioRuntime.fresh_uuid()
    }
}

/// See the module.
pub(super) struct Stage {
    console: Console,
    clock: Clock,
    config: Config,
    release: String,
    simulator: Arc<Mutex<Simulator>>,
}

impl Stage {
    /// Starts the CloudStack model and its server.
    pub(super) async fn open(
        release: &ccm_simulator::Version,
        speed: u32,
        console: Console,
    ) -> Result<Self> {
        let mut world = World::parse(WORLD)?;
        world.release = release.to_string();
        let simulator = Arc::new(Mutex::new(Simulator::new(&world)?));
        let clock = Clock { began: TokioRuntime.now(), since: Instant::now(), speed };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("the CloudStack model can't listen on loopback")?;
        let url = format!("http://{}/client/api", listener.local_addr()?);
        let served = Arc::clone(&simulator);
        let forever = std::future::pending();
        tokio::spawn(http::serve(listener, served, move || clock.now(), Duration::ZERO, forever));
        let (config, _) =
            Config::read(&world.cloud_config(&url), &BTreeMap::new(), &Overrides::default())?;
        let stage = Self { console, clock, config, release: world.release.clone(), simulator };
        stage.tell(&format!(
            "CloudStack {} (a model in this process) answers at {url}.",
            world.release
        ))?;
        Ok(stage)
    }

    /// The clock of everything.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Stdout and stderr.
    pub(super) fn console(&self) -> Console {
        self.console
    }

    /// How CloudStack is reached.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// What this release can do.
    pub(super) fn features(&self) -> Features {
        Features(Version::parse(&self.release))
    }

    /// Works on the CloudStack model, as another person or system would.
    pub(super) fn cloudstack(&self) -> MutexGuard<'_, Simulator> {
        let mut simulator = self.simulator.lock().unwrap_or_else(PoisonError::into_inner);
        simulator.advance(self.clock.now());
        simulator
    }

    /// Begins a scene.
    pub(super) fn scene(&self, title: &str) -> Result<()> {
        let line = format!("== {title} {}", "=".repeat(95_usize.saturating_sub(title.len())));
        self.say(&format!("\n{}", styled(&line, "1", self.console.colour)))
    }

    /// Says what happens.
    pub(super) fn tell(&self, text: &str) -> Result<()> {
        self.say(&styled(text, "1", self.console.colour))
    }

    /// Shows what somebody types or edits.
    pub(super) fn act(&self, text: &str) -> Result<()> {
        self.say(&styled(&format!("\n$ {text}"), "36", self.console.colour))
    }

    /// Says what was found.
    pub(super) fn found(&self, text: &str) -> Result<()> {
        self.say(&format!("{} {text}", styled("=>", "1;32", self.console.colour)))
    }

    /// The last word.
    pub(super) fn close(&self, text: &str) -> Result<()> {
        self.say(&format!("\n{}", styled(text, "1;32", self.console.colour)))
    }

    /// Says it plainly.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        Ok(self.console.print(&format!("{text}\n"))?)
    }

    /// Tries a connection, tells who answers, and makes sure that it is as expected: the machines
    /// that must answer, none for a refusal.
    pub(super) fn connect(
        &self,
        source: &str,
        (address, port): (Ipv4Addr, u16),
        expected: &[&str],
    ) -> Result<()> {
        let query = TrafficQuery {
            source: source.parse()?,
            address: address.into(),
            protocol: Protocol::Tcp,
            port,
        };
        let reach = self.cloudstack().reach(&query);
        let names: BTreeSet<&str> =
            reach.members.iter().map(|member| member.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let outcome = match reach.refused_by {
            None => format!("answered by {}", names.join(", ")),
            Some(layer) => format!("no answer: {}", refusal(layer)),
        };
        self.found(&format!("{source:<13} to {address} port {port:<5} {outcome}"))?;
        ensure!(names == expected, "expected to be answered by {expected:?}, not by {names:?}");
        Ok(())
    }
}

fn refusal(layer: Layer) -> &'static str {
    match layer {
        Layer::NoRule => "no load balancer rule serves the port",
        Layer::Firewall => "the firewall of the address denies it",
        Layer::RuleCidrs => "the rule's source list does not hold it",
        Layer::NoMembers => "no machine is behind the rule",
        Layer::Acl => "the network ACL list denies it",
        Layer::Router => "the virtual router is stopped",
    }
}

/// Reads manifests.
pub(super) fn manifests(text: &str, assume: Assume) -> Result<Manifests> {
    Ok(read_text(Path::new("demo.yaml"), text, assume)?)
}
