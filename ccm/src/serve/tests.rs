use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use ccm_core::controllers::Controller;
use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_kubernetes::live::review::User;
use reqwest::{Certificate as Trusted, Client};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::vouchers::tests::Authority;
use super::*;
use crate::cli::{Beliefs, CertificateFiles, VoucherOptions};

/// An API server that knows one user, who may read metrics.
#[derive(Clone, Default)]
struct Known {
    fault: Option<Fault>,
    vouchers: BTreeMap<String, String>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Known {
    fn note(&self, question: String) -> Result<(), CallError> {
        self.asked.lock().unwrap().push(question);
        let Some(fault) = self.fault else { return Ok(()) };
        Err(CallError {
            command: "create tokenreviews".to_owned(),
            code: None,
            fault,
            effect: Effect::No,
            retry_after: None,
            message: "no".to_owned(),
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Reviews for Known {
    async fn vouchers(&self) -> Result<BTreeMap<String, String>, CallError> {
        Ok(self.vouchers.clone())
    }

    async fn user(&self, token: &str) -> Result<Option<User>, CallError> {
        self.note(format!("whose is {token}"))?;
        let groups = match token {
            "prometheus" => vec!["system:authenticated".to_owned()],
            "root" => vec!["system:masters".to_owned()],
            _ => return Ok(None),
        };
        Ok(Some(User { name: token.to_owned(), groups, ..User::default() }))
    }

    async fn may(&self, user: &User, verb: &str, path: &str) -> Result<bool, CallError> {
        self.note(format!("may {} {verb} {path}", user.name))?;
        Ok(user.name == "prometheus" && verb == "get" && path == "/metrics")
    }
}

struct Served {
    server: Server,
    health: Health,
    client: Client,
}

impl Served {
    async fn start(reviews: Known) -> Self {
        Self::start_with(reviews, None).await
    }

    async fn start_with(reviews: Known, certificate: Option<CertificateFiles>) -> Self {
        Self::start_patiently(reviews, certificate, Duration::from_secs(1)).await
    }

    async fn start_patiently(
        reviews: Known,
        certificate: Option<CertificateFiles>,
        patience: Duration,
    ) -> Self {
        // reqwest and the server share it; another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = ServingOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            certificate,
            only_tls13: false,
            authentication_kubeconfig: None,
            authorization_kubeconfig: None,
            vouchers: VoucherOptions { look_up: true, ..VoucherOptions::default() },
            always_allow: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            beliefs: Beliefs {
                user: Duration::from_secs(10),
                allowed: Duration::from_secs(10),
                denied: Duration::from_secs(10),
            },
        };
        let health = Health::new();
        let site = Site {
            health: health.clone(),
            metrics: Arc::new(Metrics::new("1.2.3")),
            configuration: Box::new(|| "{}".to_owned()),
            plans: None,
        };
        let pace = Pace {
            certificate: Duration::from_millis(20),
            vouchers: Duration::from_millis(20),
            patience,
        };
        let server = Server::start_with(&options, site, reviews, pace).await.unwrap();
        Self { server, health, client: strangers_client() }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.server.address().port())
    }

    async fn get(&self, path: &str, token: Option<&str>) -> (u16, String) {
        let mut request = self.client.get(self.url(path));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

/// Takes any certificate, as kubelets do.
fn strangers_client() -> Client {
    Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build().unwrap()
}

#[tokio::test]
async fn health_is_everybodys_and_says_what_gos_controllers_say() {
    let reviews = Known::default();
    let served = Served::start(reviews.clone()).await;
    let heart = served.health.controller(Controller::Service, Duration::from_mins(10));
    let _work = heart.work();
    let cloud = served.health.readiness("cloudstack");
    assert_eq!(served.get("/healthz", None).await, (200, "ok".to_owned()));
    assert_eq!(
        served.get("/healthz?verbose", None).await,
        (200, "[+]ping ok\n[+]service-lb-controller ok\nhealthz check passed\n".to_owned())
    );
    assert_eq!(served.get("/livez", None).await.0, 200);
    assert_eq!(served.get("/readyz", None).await.0, 500);
    assert_eq!(served.get("/readyz?exclude=cloudstack", None).await.0, 200);
    cloud.holds();
    assert_eq!(served.get("/readyz", None).await, (200, "ok".to_owned()));
    assert_eq!(reviews.asked(), Vec::<String>::new());
    assert_eq!(served.get("/nothing", None).await.0, 404);
}

#[tokio::test]
async fn metrics_are_for_those_who_may_and_the_api_server_is_asked_once() {
    let reviews = Known::default();
    let served = Served::start(reviews.clone()).await;
    for _ in 0..2 {
        let (status, text) = served.get("/metrics", Some("prometheus")).await;
        assert!(status == 200 && text.contains("cloudstack_ccm_build_info"), "{status} {text}");
    }
    assert_eq!(reviews.asked(), ["whose is prometheus", "may prometheus get /metrics"]);
    let (status, text) = served.get("/metrics", None).await;
    assert!(status == 403 && text.contains("system:anonymous"), "{status} {text}");
    assert_eq!(served.get("/configz", Some("prometheus")).await.0, 403);
    assert_eq!(served.get("/healthz/ping", None).await.0, 403);
}

#[tokio::test]
async fn what_probes_were_answered_is_shown_beside_the_metrics() {
    let served = Served::start(Known::default()).await;
    served.health.leader_election().fails("not renewed");
    assert_eq!(served.get("/healthz", None).await.0, 500);
    let (status, text) = served.get("/metrics/slis", Some("root")).await;
    let line = "kubernetes_healthcheck{name=\"leaderElection\",type=\"healthz\"} 0";
    assert!(status == 200 && text.contains(line), "{status} {text}");
    assert_eq!(served.get("/metrics/slis", Some("prometheus")).await.0, 403);
    let reset = served.client.delete(served.url("/metrics/slis")).bearer_auth("root");
    assert_eq!(reset.send().await.unwrap().status(), 200);
    let (_, text) = served.get("/metrics/slis", Some("root")).await;
    assert!(!text.contains("leaderElection"), "{text}");
}

/// Shows a certificate, as an administrator's kubeconfig has it.
async fn get_with(served: &Served, authority: &Authority, path: &str) -> u16 {
    let (certificate, key) = authority.issue("prometheus", "monitoring");
    let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
    let identity = reqwest::Identity::from_pem(pem.as_bytes()).unwrap();
    let client = Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    let client = client.identity(identity).build().unwrap();
    client.get(served.url(path)).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_caller_is_known_by_a_certificate_of_the_clusters_authority() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let vouchers = [("client-ca-file".to_owned(), ours.pem.clone())].into();
    let reviews = Known { vouchers, ..Known::default() };
    let served = Served::start(reviews.clone()).await;
    let known = async {
        while get_with(&served, &ours, "/metrics").await != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), known).await.unwrap();
    assert_eq!(get_with(&served, &ours, "/configz").await, 403);
    for path in ["/metrics", "/healthz"] {
        assert_eq!(get_with(&served, &theirs, path).await, 401, "{path}");
    }
    assert!(!reviews.asked().iter().any(|asked| asked.starts_with("whose")), "no token");
}

#[tokio::test]
async fn a_token_of_nobody_is_refused_on_every_path() {
    let served = Served::start(Known::default()).await;
    for path in ["/healthz", "/metrics"] {
        assert_eq!(served.get(path, Some("bogus")).await.0, 401, "{path}");
    }
}

#[tokio::test]
async fn masters_may_read_everything() {
    let served = Served::start(Known::default()).await;
    let paths = ["/metrics", "/configz", "/healthz/ping"];
    for path in paths {
        assert_eq!(served.get(path, Some("root")).await.0, 200, "{path}");
    }
    let (status, text) = served.get("/plan", Some("root")).await;
    assert!(status == 404 && text.contains("--dry-run"), "{status} {text}");
}

#[tokio::test]
async fn without_permission_to_review_only_health_is_served() {
    let served = Served::start(Known { fault: Some(Fault::Permission), ..Known::default() }).await;
    assert_eq!(served.get("/healthz", None).await.0, 200);
    assert_eq!(served.get("/healthz", Some("prometheus")).await.0, 200);
    assert_eq!(served.get("/metrics", None).await.0, 403);
    assert_eq!(served.get("/metrics", Some("prometheus")).await.0, 401);
}

#[tokio::test]
async fn an_api_server_that_is_away_takes_no_health_with_it() {
    let served = Served::start(Known { fault: Some(Fault::Transient), ..Known::default() }).await;
    assert_eq!(served.get("/healthz", Some("prometheus")).await.0, 200);
    assert_eq!(served.get("/metrics", Some("prometheus")).await.0, 503);
}

/// A directory of one test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ccm-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A new certificate for `localhost`, as it is trusted.
    fn issue(&self) -> (CertificateFiles, Trusted) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files =
            CertificateFiles { certificate: self.0.join("tls.crt"), key: self.0.join("tls.key") };
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        (files, Trusted::from_pem(made.cert.pem().as_bytes()).unwrap())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn is_trusted(served: &Served, certificate: &Trusted) -> bool {
    let client = Client::builder().no_proxy().tls_certs_only([certificate.clone()]);
    client.build().unwrap().get(served.url("/healthz")).send().await.is_ok()
}

#[tokio::test]
async fn a_new_certificate_is_served_without_a_restart() {
    let directory = Directory::new("rotation");
    let (files, first) = directory.issue();
    let served = Served::start_with(Known::default(), Some(files)).await;
    assert!(is_trusted(&served, &first).await);
    let (_, second) = directory.issue();
    let rotated = async {
        while !is_trusted(&served, &second).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), rotated).await.unwrap();
    assert!(!is_trusted(&served, &first).await);
}

#[tokio::test]
async fn what_can_not_be_served_is_said_at_the_start() {
    let directory = Directory::new("broken");
    let (files, _) = directory.issue();
    let broken = |certificate: &str| {
        std::fs::write(&files.certificate, certificate).unwrap();
        served(Some(&files), Duration::from_secs(1)).err().unwrap().to_string()
    };
    assert!(broken("no certificate").contains("tls.crt holds no certificate in PEM"));
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    assert!(broken(&other.cert.pem()).contains("can't be used together"));
}

/// A connection that has shaken hands and asks nothing.
async fn silent(served: &Served, files: &CertificateFiles) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.certificate).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let tcp = TcpStream::connect(served.server.address()).await.unwrap();
    let localhost = "localhost".try_into().unwrap();
    TlsConnector::from(Arc::new(config)).connect(localhost, tcp).await.unwrap()
}

#[tokio::test]
async fn an_end_waits_for_nobody_who_asks_nothing() {
    let directory = Directory::new("end");
    let (files, _) = directory.issue();
    let patience = Duration::from_mins(1);
    let served = Served::start_patiently(Known::default(), Some(files.clone()), patience).await;
    assert_eq!(served.get("/healthz", None).await.0, 200);
    let silent = silent(&served, &files).await;
    let told = tokio::time::Instant::now();
    served.server.stop().await;
    assert!(told.elapsed() < LAST_REQUESTS, "{:?}", told.elapsed());
    drop((silent, served.client));
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let directory = Directory::new("idle");
    let (files, _) = directory.issue();
    let served = Served::start_with(Known::default(), Some(files.clone())).await;
    let mut tls = silent(&served, &files).await;
    let mut read = Vec::new();
    // How a peer ends it does not matter.
    let end = timeout(Duration::from_secs(20), tls.read_to_end(&mut read)).await;
    assert!(end.is_ok() && read.is_empty());
}

#[tokio::test]
async fn a_client_that_never_shakes_hands_holds_up_nobody_and_stop_ends_it() {
    let served = Served::start(Known::default()).await;
    let address = served.server.address();
    let silent = tokio::net::TcpStream::connect(address).await.unwrap();
    assert_eq!(served.get("/healthz", None).await.0, 200);
    drop(served.client);
    served.server.stop().await;
    drop(silent);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
