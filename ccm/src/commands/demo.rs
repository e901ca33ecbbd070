//! stub
use super::Exit;
use crate::cli::DemoArgs;
use crate::console::Console;
pub(super) async fn run(_args: &DemoArgs, _console: Console) -> anyhow::Result<Exit> {
    Ok(Exit::Failed)
}
