//! A real API server with its etcd: certificates of its own making, RBAC, an audit log, and nobody
//! else in it. No controller manager, so a Node's condition stays what a test wrote, and no object
//! but our own changes anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use kube::api::PostParams;
use kube::config::{AuthInfo, Config};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::access::Authority;
use super::audit::{self, Request};
use super::eventually::eventually;
use super::process::{Process, Signal};
use super::{access, ports, settings};

/// The name and password of somebody who may do everything.
const ADMIN_TOKEN: &str = "e2e-admin";
/// Longest start, on a busy machine.
const START: Duration = Duration::from_secs(90);
const STOP: Duration = Duration::from_mins(1);

/// See the module.
pub(crate) struct Cluster {
    // Dropped in this order: without its etcd, an API server takes long to stop.
    api_server: Process,
    _etcd: Process,
    /// Of somebody who may do everything.
    pub(crate) client: Client,
    folder: PathBuf,
    url: String,
    command: ApiServer,
}

/// How the API server is started, also again.
struct ApiServer {
    etcd: String,
    port: u16,
    folder: PathBuf,
}

impl Cluster {
    /// Starts one, and waits until it is ready.
    pub(crate) async fn start() -> Self {
        let folder = folder();
        write_keys(&folder);
        let (etcd, etcd_url) = start_etcd(&folder);
        let command = ApiServer { etcd: etcd_url, port: ports::free(), folder: folder.clone() };
        let url = format!("https://127.0.0.1:{}", command.port);
        let kubeconfig = folder.join("admin.kubeconfig");
        access::write_kubeconfig(&kubeconfig, &url, &authority(&folder), ADMIN_TOKEN);
        let mut api_server = command.start();
        let client = ready(&mut api_server, &kubeconfig).await;
        Self { api_server, _etcd: etcd, client, folder, url, command }
    }

    /// Ends the API server at once: in good order it would wait a minute for watches to end.
    pub(crate) async fn stop_api_server(&mut self) {
        self.api_server.signal(Signal::KILL);
        self.api_server.end(STOP).await;
    }

    /// Starts it again on the same data.
    pub(crate) async fn start_api_server(&mut self) {
        self.api_server = self.command.start();
        ready(&mut self.api_server, &self.folder.join("admin.kubeconfig")).await;
    }

    /// Every request that the API server was asked so far.
    pub(crate) fn audit(&self) -> Vec<Request> {
        audit::read(&self.folder.join("audit.log"))
    }

    /// Puts an object under a key of etcd as it is: with the uid, the times and the status that the
    /// API server would set itself.
    pub(crate) async fn restore(&self, key: &str, object: &Value) {
        let bytes = |text: String| ByteString(text.into_bytes());
        let put = json!({
            "key": bytes(format!("/registry/{key}")),
            "value": bytes(object.to_string()),
        });
        let url = self.command.etcd.parse().expect("the URL of etcd");
        let etcd = Client::try_from(Config::new(url)).expect("a client");
        let request = http::Request::post("/v3/kv/put").body(put.to_string().into_bytes());
        etcd.request_text(request.expect("a request")).await.expect("an etcd that takes it");
    }

    /// A bound token of a service account.
    pub(crate) async fn token_of(&self, namespace: &str, account: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: Vec::new(),
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let answer = accounts.create_token_request(account, &params, &request).await;
        answer.expect("a token").status.expect("a status").token
    }

    /// A kubeconfig with such a token.
    pub(crate) async fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.token_of(namespace, account).await;
        let path = self.folder.join(format!("{account}.kubeconfig"));
        access::write_kubeconfig(&path, &self.url, &authority(&self.folder), &token)
    }

    /// A certificate of a user, by the authority that the API server publishes, and its key.
    pub(crate) fn certificate_of(&self, user: &str) -> AuthInfo {
        let key = fs::read_to_string(self.folder.join("clients.key")).expect("a key");
        let key = rcgen::KeyPair::from_pem(&key).expect("a key in PEM");
        access::certificate_of(user, &Authority::new(key), &self.folder.join(user))
    }

    /// Where the API server listens.
    pub(crate) fn port(&self) -> u16 {
        self.command.port
    }

    /// The file with the authority of its certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        authority(&self.folder)
    }

    /// What kubectl prints for somebody who may do everything.
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        let mut command = Command::new(settings::kubectl());
        command.arg("--kubeconfig").arg(self.folder.join("admin.kubeconfig")).args(args);
        let output = command.output().expect("kubectl runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("a text")
    }

    /// Where its files are; those of the test may be there too.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// What `kube-apiserver --version` says, for example `v1.37.2`.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let output = Command::new(program("kube-apiserver")).arg("--version").output();
        let output = output.expect("kube-apiserver runs").stdout;
        let text = String::from_utf8(output).expect("a version in UTF-8");
        text.trim().trim_start_matches("Kubernetes ").to_owned()
    })
}

/// Waits until the server answers: this child, on this port, in this version. It makes its own
/// Service `kubernetes` a moment after it is ready, and some tests count Services.
async fn ready(api_server: &mut Process, kubeconfig: &Path) -> Client {
    eventually("an API server that is ready", START, async || {
        api_server.assert_lives();
        let client = access::client(kubeconfig).await?;
        let readyz = http::Request::get("/readyz").body(Vec::new()).expect("a request");
        client.request_text(readyz).await.map_err(|error| error.to_string())?;
        let found = client.apiserver_version().await.map_err(|error| error.to_string())?;
        assert_eq!(found.git_version, version(), "another server answers on this port");
        let services: Api<Service> = Api::namespaced(client.clone(), "default");
        services.get("kubernetes").await.map_err(|error| error.to_string())?;
        Ok(client)
    })
    .await
}

fn start_etcd(folder: &Path) -> (Process, String) {
    let url = || format!("http://127.0.0.1:{}", ports::free());
    let (clients, peers) = (url(), url());
    let mut command = Command::new(program("etcd"));
    command
        .arg("--name=e2e")
        .arg(format!("--data-dir={}", folder.join("etcd").display()))
        .arg(format!("--listen-client-urls={clients}"))
        .arg(format!("--advertise-client-urls={clients}"))
        .arg(format!("--listen-peer-urls={peers}"))
        .arg(format!("--initial-advertise-peer-urls={peers}"))
        .arg(format!("--initial-cluster=e2e={peers}"))
        .args(["--unsafe-no-fsync", "--log-level=warn"]);
    (Process::start("etcd", folder, command), clients)
}

impl ApiServer {
    fn start(&self) -> Process {
        let Self { etcd, port, folder } = self;
        let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
        let mut command = Command::new(program("kube-apiserver"));
        command
            .arg(format!("--etcd-servers={etcd}"))
            .arg(format!("--secure-port={port}"))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .arg(file("cert-dir", ""))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(file("service-account-signing-key-file", "sa.key"))
            .arg(file("service-account-key-file", "sa.pub"))
            .args(["--service-cluster-ip-range=10.96.0.0/12", "--authorization-mode=RBAC"])
            .arg(file("token-auth-file", "tokens.csv"))
            .arg(file("client-ca-file", "clients.crt"))
            .args(["--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"])
            .arg(file("audit-policy-file", "audit-policy.yaml"))
            .arg(file("audit-log-path", "audit.log"))
            .args(["--audit-log-mode=blocking", "--audit-log-maxsize=1000"]);
        Process::start("kube-apiserver", folder, command)
    }
}

/// The server's certificate and its authority: the server makes both when it starts first.
fn authority(folder: &Path) -> PathBuf {
    folder.join("apiserver.crt")
}

fn write_keys(folder: &Path) {
    let key = rcgen::KeyPair::generate().expect("a P-256 key");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
    write("sa.key", &key.serialize_pem());
    write("sa.pub", &key.public_key_pem());
    write("clients.key", &key.serialize_pem());
    write("clients.crt", &Authority::new(key).pem());
    write("tokens.csv", &format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n"));
    write("audit-policy.yaml", audit::POLICY);
}

fn program(name: &str) -> PathBuf {
    settings::servers().join(name)
}

/// A folder named after the test that runs.
fn folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test").replace("::", "-");
    let folder = settings::work().join(format!("{test}-{count}"));
    fs::create_dir_all(&folder).expect("a folder of the test");
    folder
}
