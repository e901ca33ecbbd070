//! What the largest inputs cost in memory, as the system counts it: each in a process of its own.
#![cfg(target_os = "linux")]

use std::process::Command;

use ccm_cloudstack::{Client, Credentials, Options};
use ccm_cloudstack::{HttpOptions, Transport, TransportError, WireRequest, WireResponse};
use ccm_tests::lab::{VirtualRuntime, block_on};
use cloudstack_ccm::config::{Config, Overrides};

/// Names the input that a process is to read.
const WHICH: &str = "CCM_TEST_INPUT";
/// What a pod of the manifests may have, in MiB.
const POD: u64 = 512;
/// What small files may take, in MiB: a process alone has some 10.
const LITTLE: u64 = 50;

/// Answers everything with one body.
struct Same(String);

impl Transport for Same {
    async fn send(&self, _: WireRequest) -> Result<WireResponse, TransportError> {
        Ok(WireResponse { status: 200, content_type: None, body: self.0.clone() })
    }
}

fn observe(body: String) {
    let runtime = VirtualRuntime::new("2026-12-01T21:30:00Z".parse().expect("an instant"));
    let credentials = Credentials::new("AKtest-0123-4567", "SKsecret-4242-4343");
    let client = Client::new(Same(body), runtime, credentials, Options::default());
    block_on(client.discover()).expect_err("no capabilities");
}

/// As long as a body may be.
fn filled(unit: &str, before: &str, after: &str) -> String {
    let room = HttpOptions::new("").max_body - before.len() - after.len();
    format!("{before}{}{after}", unit.repeat(room / unit.len()))
}

fn read(which: &str) {
    match which {
        "numbers" => observe(filled("0,", "{\"x\":{\"capability\":[", "0]}}")),
        "objects" => observe(filled("{},", "{\"x\":{\"capability\":[", "{}]}}")),
        "texts" => observe(filled("\"\",", "{\"x\":{\"capability\":[", "\"\"]}}")),
        "nesting" => observe(filled("[", "{\"x\":", "")),
        "garbage" => observe(filled("\u{fffd}", "", "")),
        "markup" => observe(filled("<a>", "", "")),
        "sections" => {
            let text = format!("[{}]\n{}", "s".repeat(30_000), "a=1\n".repeat(8_000));
            let _ = Config::read(&text, &std::collections::BTreeMap::new(), &Overrides::default());
        }
        "nothing" => {}
        other => panic!("{other} is no input"),
    }
}

/// Most memory that this process had, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a size") / 1024
}

/// The other side of the next test; alone it does nothing.
#[test]
fn reads_what_it_is_told() {
    if let Ok(which) = std::env::var(WHICH) {
        read(&which);
        println!("peak {}", peak());
    }
}

#[test]
fn no_input_takes_the_memory_of_a_pod() {
    for (which, most) in [
        ("nothing", LITTLE),
        ("sections", LITTLE),
        ("numbers", POD),
        ("objects", POD),
        ("texts", POD),
        ("nesting", POD),
        ("garbage", POD),
        ("markup", POD),
    ] {
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "size::reads_what_it_is_told", "--nocapture"])
            .env(WHICH, which)
            .output()
            .expect("a process");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let peak = text.split("peak ").nth(1).and_then(|rest| rest.lines().next());
        let peak: u64 =
            peak.unwrap_or_else(|| panic!("{which}: {text}")).parse().expect("a number");
        eprintln!("{which}: {peak} MiB");
        assert!(peak < most, "{which} takes {peak} MiB");
    }
}
