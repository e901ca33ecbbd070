//! What `tests/e2e/run` says in the environment.

use std::env;
use std::fs::File;
use std::io::Write as _;
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

/// Notes what this machine can't test, and why, for the summary: a test that can't run passes, and
/// what it prints is not shown.
pub(crate) fn not_tested(what: &str) {
    let notes = File::options().create(true).append(true).open(work().join("not-tested"));
    let line = format!("{what}\n");
    notes.expect("a file").write_all(line.as_bytes()).expect("a note");
}

fn path(name: &str) -> PathBuf {
    let value = env::var_os(name);
    value.unwrap_or_else(|| panic!("{name} is not set: start with tests/e2e/run")).into()
}
