//! `demo`: the main job end to end, as a story in a terminal.
//!
//! A CloudStack model is served on loopback; two clusters with real manifests live in it, one in an
//! isolated network, one in a VPC tier. Everything goes through the same driver, planner and client
//! as in production. Each scene ends with a plan that must be empty; what is claimed about traffic
//! and ids is asked for, and the demo fails where it does not hold.

mod cluster;
mod scenes;
mod stage;

use std::time::Instant;

use anyhow::Result;

use super::Exit;
use crate::cli::DemoArgs;
use crate::console::Console;
use stage::Stage;

/// Tells the story.
pub(super) async fn run(args: &DemoArgs, console: Console) -> Result<Exit> {
    let DemoArgs { cloudstack_version, speed } = args;
    let begun = Instant::now();
    let stage = Stage::open(cloudstack_version, *speed, console).await?;
    tokio::select! {
        played = scenes::play(&stage) => played?,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            console.say(
                "demo: interrupted before its end; the CloudStack model is gone with all that was made in it",
            );
            return Ok(Exit::Failed);
        }
    }
    let seconds = begun.elapsed().as_secs();
    stage.close(&format!(
        "demo: converged in {seconds} s: every plan ended in \"no changes\", nothing was left behind."
    ))?;
    Ok(Exit::Done)
}
