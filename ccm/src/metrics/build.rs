//! What `kubernetes_build_info` says, in the order of its labels.

use std::env::consts::{ARCH, OS};

/// This program, as Go's components describe themselves.
pub(super) struct Build {
    git_version: String,
    major: String,
    minor: String,
    platform: String,
}

impl Build {
    /// Of a version such as `1.2.3`.
    pub(super) fn of(version: &str) -> Self {
        let mut numbers = version.split('.').map(str::to_owned);
        Self {
            git_version: format!("v{version}"),
            major: numbers.next().unwrap_or_default(),
            minor: numbers.next().unwrap_or_default(),
            platform: format!("{OS}/{}", architecture()),
        }
    }

    /// Neither date nor commit is built in: the same source gives the same binary.
    pub(super) fn labels(&self) -> [&str; 9] {
        let Self { git_version, major, minor, platform } = self;
        ["", "rustc", "", "", git_version, "", major, minor, platform]
    }
}

/// As Go names it.
fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
