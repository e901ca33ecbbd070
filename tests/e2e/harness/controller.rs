//! The real binary, as a controller.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use kube::config::{AuthInfo, Config};
use tokio::net::TcpStream;

use super::eventually::eventually;
use super::process::{Process, Signal};
use super::{ports, settings};

/// Longest way to its first answer.
const START: Duration = Duration::from_mins(1);

/// See the module.
pub(crate) struct Controller {
    process: Process,
    port: u16,
}

/// Where a controller finds what it works on.
pub(crate) struct Surroundings<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) kubeconfig: &'a Path,
    pub(crate) cloud_config: &'a Path,
}

impl Controller {
    /// Starts it, with flags beside those that name its surroundings. Its log goes to a file of that
    /// name.
    pub(crate) fn start(name: &str, around: &Surroundings<'_>, flags: &[&str]) -> Self {
        let Surroundings { folder, kubeconfig, cloud_config } = around;
        let port = ports::free();
        let mut command = Command::new(settings::binary());
        command
            .arg("--cloud-provider=external-cloudstack")
            .arg(format!("--cloud-config={}", cloud_config.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--secure-port={port}"))
            .args(flags);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("CLOUDSTACK_")) {
                command.env_remove(name);
            }
        }
        Self { process: Process::start(name, folder, command), port }
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        self.note_peak();
        self.process.end(START).await
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.note_peak();
        self.process.signal(signal);
    }

    /// Fails if it has ended.
    pub(crate) fn assert_lives(&mut self) {
        self.process.assert_lives();
    }

    /// Everything that it said.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until its log holds a text.
    pub(crate) async fn until_says(&mut self, text: &str) {
        eventually(&format!("{text:?} in the log"), START, async || {
            self.process.assert_lives();
            let log = self.log();
            log.contains(text).then_some(()).ok_or(log)
        })
        .await;
    }

    /// What it answers to a GET: the status code, and the body.
    pub(crate) async fn get(
        &self,
        path: &str,
        token: Option<&str>,
    ) -> Result<(u16, String), String> {
        let token = token.map(|token| token.to_owned().into());
        self.get_as(AuthInfo { token, ..AuthInfo::default() }, path).await
    }

    /// The same for somebody who shows something else.
    pub(crate) async fn get_as(
        &self,
        caller: AuthInfo,
        path: &str,
    ) -> Result<(u16, String), String> {
        let url = format!("https://127.0.0.1:{}", self.port).parse().expect("a URL");
        let mut config = Config::new(url);
        // The certificate is one that nobody vouches for, as that of the Go controller.
        config.accept_invalid_certs = true;
        config.auth_info = caller;
        let client = Client::try_from(config).expect("a client");
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        let bytes = body.collect_bytes().await.map_err(|error| error.to_string())?;
        Ok((head.status.as_u16(), String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// A connection over which nothing is sent.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.expect("a connection")
    }

    /// Waits until a path is answered with 200; gives the body.
    pub(crate) async fn until_ok(&mut self, path: &str) -> String {
        eventually(&format!("{path} is fine"), START, async || {
            self.process.assert_lives();
            match self.get(path, None).await? {
                (200, body) => Ok(body),
                (code, body) => Err(format!("{code}: {body}")),
            }
        })
        .await
    }

    /// Notes its memory for the summary of the run.
    fn note_peak(&self) {
        let Some(peak) = self.process.peak_memory() else { return };
        let folder = settings::work().join("peaks");
        fs::create_dir_all(&folder).expect("a folder for peaks");
        let file = folder.join(self.port.to_string());
        fs::write(file, format!("{peak}\n")).expect("a note");
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.note_peak();
    }
}
