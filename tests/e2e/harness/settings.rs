//! What `tests/e2e/run` says in the environment.

use std::env;
use std::path::PathBuf;

/// The folder that holds kube-apiserver and etcd.
pub(crate) fn servers() -> PathBuf {
    path("CCM_E2E_SERVERS")
}

/// kubectl.
pub(crate) fn kubectl() -> PathBuf {
    path("CCM_E2E_KUBECTL")
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    path("CCM_E2E_BINARY")
}

/// Where data, logs and pid files of this run go.
pub(crate) fn work() -> PathBuf {
    path("CCM_E2E_WORK")
}

fn path(name: &str) -> PathBuf {
    let value = env::var_os(name);
    value.unwrap_or_else(|| panic!("{name} is not set: start with tests/e2e/run")).into()
}
