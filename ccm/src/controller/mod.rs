//! The controller.

use anyhow::{Result, bail};

use crate::cli::ControllerArgs;
use crate::commands::Exit;

/// Watches a cluster and serves it until it is stopped.
#[expect(clippy::unused_async, reason = "what waits is not built yet")]
pub(crate) async fn run(_: &ControllerArgs) -> Result<Exit> {
    bail!("not built yet")
}
