//! Runs the real binary, against a CloudStack model that it serves itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ccm_cloudstack::{Client, Credentials, HttpOptions, HttpTransport, Options, TokioRuntime};
use ccm_core::observe::CloudState;
use ccm_core::observe::scope::Scope;
use ccm_core::plan::action::Call;
use cloudstack_ccm::config::{Config, Overrides};

/// A directory of one test, removed at its end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let read = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        };
        fs::read_dir(&self.0).unwrap().map(|entry| read(entry.unwrap())).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The path of a fixture.
pub(crate) fn fixture(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(path);
    path.to_str().unwrap().to_owned()
}

/// The binary, with an environment that says nothing.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloudstack-ccm"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) fn run(arguments: &[&str]) -> Ran {
    command(arguments).output().unwrap().into()
}

impl Ran {
    /// Checks the exit code.
    pub(crate) fn exits(self, code: i32) -> Self {
        let Self { code: found, stdout, stderr } = &self;
        assert_eq!(*found, Some(code), "\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
        self
    }

    /// Checks that it is an error that says this, on stderr alone.
    pub(crate) fn fails_with(self, words: &[&str]) {
        let ran = self.exits(1);
        assert_eq!(ran.stdout, "");
        for word in words {
            assert!(ran.stderr.contains(word), "{word:?} is not in:\n{}", ran.stderr);
        }
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}

/// A running `simulate`.
pub(crate) struct Served {
    child: Child,
    pub(crate) directory: Directory,
    pub(crate) config: String,
}

impl Served {
    /// The world of the demo, with jobs that take no time.
    pub(crate) fn start() -> Self {
        Self::start_with("{default: 0s}", &[])
    }

    pub(crate) fn start_with(jobs: &str, more: &[&str]) -> Self {
        Self::start_in(
            |world| {
                let line = world.lines().find(|line| line.starts_with("jobs:")).unwrap();
                world.replace(line, &format!("jobs: {jobs}"))
            },
            more,
        )
    }

    /// The world of the demo, adapted.
    pub(crate) fn start_in(adapt: impl FnOnce(&str) -> String, more: &[&str]) -> Self {
        let directory = Directory::new();
        let world = fs::read_to_string(fixture("demo/world.yaml")).unwrap();
        let world = directory.write("world.yaml", &adapt(&world));
        let config = directory.path("cloud.conf");
        let listen = ["simulate", "--listen", "127.0.0.1:0", "--world", &world];
        let arguments = [&listen[..], &["--cloud-config-out", &config], more].concat();
        let log = fs::File::create(directory.path("simulate.log")).unwrap();
        let child = command(&arguments).stderr(log).spawn().unwrap();
        let since = Instant::now();
        while !Path::new(&config).exists() {
            assert!(since.elapsed() < Duration::from_secs(20), "simulate does not get ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, directory, config }
    }

    /// `plan` of the demo's manifests.
    pub(crate) fn plan(&self, more: &[&str]) -> Ran {
        self.plan_of(&fixture("demo/services"), more)
    }

    /// `plan` of other Services.
    pub(crate) fn plan_of(&self, services: &str, more: &[&str]) -> Ran {
        let nodes = fixture("demo/nodes");
        let fixed = ["plan", "--cloud-config", &self.config, "--services", services];
        run(&[&fixed[..], &["--nodes", &nodes, "--detailed-exitcode"], more].concat())
    }

    pub(crate) fn apply(&self, plan: &str, more: &[&str]) -> Ran {
        run(&[&["apply", plan, "--cloud-config", &self.config], more].concat())
    }

    /// The account's client, as another person would use it.
    fn client(&self) -> Client<HttpTransport, TokioRuntime> {
        let path = Path::new(&self.config);
        let (config, _) =
            Config::load(Some(path), &BTreeMap::new(), &Overrides::default()).unwrap();
        let transport = HttpTransport::new(&HttpOptions::new(config.api_url.as_str())).unwrap();
        let keys = config.credentials;
        let credentials = Credentials::new(keys.api_key(), keys.secret_key());
        Client::new(transport, TokioRuntime, credentials, Options::default())
    }

    pub(crate) fn state(&self) -> CloudState {
        block_on(self.client().observe(&Scope::default())).unwrap()
    }

    pub(crate) fn by_hand(&self, call: &Call) {
        block_on(self.client().call(call)).unwrap();
    }

    /// Ends it as a service manager would; gives its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        interrupt(&self.child, "TERM");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have been stopped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal.
pub(crate) fn interrupt(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
