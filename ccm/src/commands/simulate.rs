//! `simulate`: a CloudStack model on a port.

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, bail};
use ccm_cloudstack::{Runtime as _, TokioRuntime};
use ccm_simulator::{Simulator, World, http};
use tokio::net::TcpListener;
use tracing::warn;

use super::Exit;
use crate::cli::SimulateArgs;
use crate::console::Console;
use crate::saved::{Access, write_text};
use crate::signal::stop_signal;

/// Serves until somebody stops it.
pub(super) async fn run(args: SimulateArgs, console: Console) -> Result<Exit> {
    let SimulateArgs { listen, world, version, latency, cloud_config_out } = args;
    let path = world;
    let unusable = || format!("world file {} can't be used", path.display());
    let mut world = World::load(&path).with_context(unusable)?;
    if let Some(version) = version {
        world.release = version.to_string();
    }
    let simulator = Arc::new(Mutex::new(Simulator::new(&world).with_context(unusable)?));
    if cloud_config_out.is_some() {
        if world.user().is_none_or(|account| account.api_key.is_empty()) {
            bail!(
                "{} has no account of role User with keys, so no cloud-config can be written: add one to \
                 `accounts`, or leave --cloud-config-out out",
                path.display()
            );
        }
        // Manifests can't tell one.
        world.cluster_id.get_or_insert_with(|| "simulated".to_owned());
    }
    if !listen.ip().is_loopback() {
        warn!(%listen, "everybody who can reach this address can use the simulator; its keys stand in the world file");
    }
    let stopped = stop_signal()?;
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("can't listen on {listen}"))?;
    let url = format!("http://{}/client/api", listener.local_addr()?);
    if let Some(path) = &cloud_config_out {
        write_text(path, &world.cloud_config(&url), Access::OwnerOnly)?;
        console.say(&format!("cloud-config: {}", path.display()));
    }
    console.say(&format!("CloudStack {} (simulated) at {url}; ctrl-C stops it", world.release));
    http::serve(listener, simulator, || TokioRuntime.now(), latency, stopped).await?;
    Ok(Exit::Done)
}
