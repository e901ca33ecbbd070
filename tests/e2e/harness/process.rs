//! A process that ends with its test, whatever becomes of the test.
//!
//! Each one leads a process group of its own. Its pid stands in a file as long as it lives, so that
//! `tests/e2e/run` can end what a killed test run left.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, kill_process_group};

pub(crate) use rustix::process::Signal;

use super::eventually::eventually;
use super::settings;

/// Lines of the log that a failed test shows.
const SHOWN: usize = 40;

/// See the module.
pub(crate) struct Process {
    name: String,
    child: Child,
    pid: Pid,
    log: PathBuf,
    pid_file: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a command. What it says goes to `<name>.log` in the folder, after what is there.
    pub(crate) fn start(name: &str, folder: &Path, mut command: Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).expect("a log file");
        let copy = file.try_clone().expect("a second handle");
        command.stdin(Stdio::null()).stdout(file).stderr(copy).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pid = Pid::from_child(&child);
        let pid_file = settings::work().join("pids").join(child.id().to_string());
        fs::create_dir_all(pid_file.parent().expect("a folder")).expect("a folder for pids");
        fs::write(&pid_file, name).expect("a pid file");
        Self { name: name.to_owned(), child, pid, log, pid_file, ended: None }
    }

    /// How it ended; `None` while it lives.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child to ask for");
        }
        self.ended
    }

    /// Fails if it has ended, before a look that another process might answer.
    pub(crate) fn assert_lives(&mut self) {
        if let Some(status) = self.ended() {
            panic!("{} ended with {status}\n{}", self.name, self.last_lines());
        }
    }

    /// Sends a signal to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(self.pid, signal).expect("a process group to signal");
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self, within: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        eventually(&what, within, async || self.ended().ok_or("it lives".to_owned())).await
    }

    /// Everything that it said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// Largest memory that it had at once, in KiB; `None` if it has ended.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }

    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let skipped = lines.len().saturating_sub(SHOWN);
        format!("{}, its last lines:\n{}", self.log.display(), lines[skipped..].join("\n"))
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, pid, log, .. } = self;
        write!(f, "{name} (pid {pid:?}, log {})", log.display())
    }
}

/// Nothing that these processes hold is needed any more, so there is no reason to wait for a good
/// end.
impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = self.child.wait();
        }
        let _ = fs::remove_file(&self.pid_file);
        if std::thread::panicking() {
            eprintln!("== {}: {}", self.name, self.last_lines());
        }
    }
}
