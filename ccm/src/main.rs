//! The `cloudstack-ccm` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    cloudstack_ccm::commands::run(std::env::args_os())
}
