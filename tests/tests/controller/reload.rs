//! Credentials and CA files that change while the controllers work.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::event::correlate::ObjectRef;
use ccm_simulator::world::{State, World};
use ccm_tests::rotation::{MountedSecret, SECOND, add_second_user, pair, with_keys};
use cloudstack_ccm::config::{Config, Overrides};
use cloudstack_ccm::controller::monitored::MonitoredCloud;
use cloudstack_ccm::controller::reload::{Prints, Reading, Reloader, Source};
use cloudstack_ccm::metrics::Metrics;
use cloudstack_ccm::serve::Health;
use tokio::sync::watch;

use crate::stage::{Cloud, PausedClock, Stage};

/// The Lease, which events of the process are about.
const LEASE: &str = "cloud-controller-manager";

/// A process whose cloud-config is a mounted Secret.
struct Process {
    secret: MountedSecret,
    cloud: Arc<MonitoredCloud<Cloud, PausedClock>>,
    reloader: Reloader<Cloud, PausedClock>,
    in_use: watch::Receiver<Config>,
    prints: Prints,
    metrics: Arc<Metrics>,
}

impl Process {
    fn new(stage: &Stage, test: &str) -> Self {
        Self::with_lines(stage, test, "")
    }

    /// With further lines in the cloud-config.
    fn with_lines(stage: &Stage, test: &str, lines: &str) -> Self {
        let config = format!(
            "[Global]\napi-url = https://cloud.example.com/client/api\n\
             api-key = standard-api-key\nsecret-key = standard-secret-key\n{lines}"
        );
        let secret = MountedSecret::new(folder(test), "cloud-config", &config);
        let source = Source {
            path: Some(secret.path()),
            environment: BTreeMap::new(),
            flags: Overrides::default(),
        };
        let Reading { config, warnings: _, prints } = source.read().expect("a cloud-config");
        let metrics = Arc::new(Metrics::new("test"));
        let cloud = MonitoredCloud::new(stage.client(), Arc::clone(&metrics), &Health::new());
        let cloud = Arc::new(cloud);
        let (in_use_of_reloader, in_use) = watch::channel(config);
        let (transport, clock) = (stage.cloud.clone(), stage.clock.clone());
        let connect = move |config: &Config| {
            let keys = &config.credentials;
            let credentials = ccm_cloudstack::Credentials::new(keys.api_key(), keys.secret_key());
            let options = ccm_cloudstack::Options::default();
            Ok(ccm_cloudstack::Client::new(transport.clone(), clock.clone(), credentials, options))
        };
        let reloader = Reloader {
            source,
            connect: Box::new(connect),
            cloud: Arc::clone(&cloud),
            in_use: in_use_of_reloader,
            runtime: stage.clock.clone(),
            teller: stage.teller(),
            about: lease(),
            metrics: Arc::clone(&metrics),
        };
        Self { secret, cloud, reloader, in_use, prints, metrics }
    }

    /// Follows its files as long as a story is told.
    async fn during<T>(&self, story: impl Future<Output = T>) -> T {
        tokio::select! {
            never = self.reloader.run(self.prints) => match never {},
            result = story => result,
        }
    }

    fn replace_keys(&mut self, api_key: &str, secret_key: &str) {
        let config = with_keys(&self.secret.content(), api_key, secret_key);
        self.secret.replace(&config);
    }

    fn counted(&self, outcome: &str) -> bool {
        let line = format!("cloudstack_ccm_credentials_reloads_total{{outcome=\"{outcome}\"}}");
        self.metrics.text().contains(&line)
    }
}

fn folder(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ccm-{}-{test}", std::process::id()))
}

fn lease() -> ObjectRef {
    ObjectRef {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        namespace: "kube-system".to_owned(),
        name: LEASE.to_owned(),
        uid: String::new(),
    }
}

/// A second user of the account, and jobs that take long.
fn slow_world_with_a_second_user(world: &mut World) {
    add_second_user(world);
    world.jobs.assign = Some(Duration::from_mins(1).try_into().expect("a duration"));
}

const SOON: Duration = Duration::from_secs(11);

#[tokio::test(start_paused = true)]
async fn a_new_pair_is_taken_in_the_middle_of_jobs() {
    let stage = Stage::with_world(slow_world_with_a_second_user);
    let mut process = Process::new(&stage, "rotation");
    let (_, api_key, secret_key) = SECOND;
    let cloud = Arc::clone(&process.cloud);
    let key = stage.create("web", |_| {});
    let story = async {
        stage.pass(Duration::from_secs(20)).await;
        assert_eq!(stage.changes().last(), Some(&"assignToLoadBalancerRule"), "under way");
        process.replace_keys(api_key, secret_key);
        process
            .during(async {
                stage.pass(SOON).await;
                assert_eq!(stage.reasons(LEASE), ["CredentialsReplaced"]);
                let disabled = |simulator: &mut ccm_simulator::Simulator| {
                    simulator.set_user_state("prod", State::Disabled)
                };
                stage.cloud.with(disabled).expect("a user of that name");
                stage.pass(Duration::from_mins(2)).await;
            })
            .await;
    };
    Box::pin(stage.with_services_of(cloud, story)).await;
    assert!(stage.published(&key).is_some());
    assert_eq!(stage.reasons("web"), ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]);
    assert_eq!(
        stage.messages("CredentialsReplaced"),
        ["What changed in the cloud-config works and is in use: api-key, secret-key"]
    );
    assert_eq!(process.in_use.borrow().credentials.api_key(), api_key);
    assert!(process.counted("taken") && !process.counted("kept-old"));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_pair_is_kept_out_and_tried_again_until_it_works() {
    let stage = Stage::new();
    let mut process = Process::new(&stage, "wrong");
    process.replace_keys("early-api-key", "early-secret-key");
    process
        .during(async {
            stage.pass(SOON).await;
            assert_eq!(stage.reasons(LEASE).first(), Some(&"CredentialsKept"));
            stage.pass(Duration::from_mins(10)).await;
            let tries = stage.reasons(LEASE).len();
            assert!((5..=8).contains(&tries), "{tries} in ten minutes");
            process.cloud.discover().await.expect("the old pair works");
            let add = |simulator: &mut ccm_simulator::Simulator| {
                simulator.add_key_pair("prod", &pair("early-api-key", "early-secret-key"))
            };
            stage.cloud.with(add).expect("a user of that name");
            stage.pass(Duration::from_mins(6)).await;
        })
        .await;
    assert_eq!(stage.reasons(LEASE).last(), Some(&"CredentialsReplaced"));
    let kept = stage.messages("CredentialsKept");
    assert!(kept[0].contains("unable to verify user credentials"), "{kept:?}");
    assert!(!kept[0].contains("early"), "{kept:?}");
    assert!(process.counted("taken") && process.counted("kept-old"));
}

#[tokio::test(start_paused = true)]
async fn a_pair_of_another_account_is_kept_out_though_it_works() {
    let stage = Stage::new();
    let mut process = Process::new(&stage, "stranger");
    process.replace_keys("other-api-key", "other-secret-key");
    process.during(stage.pass(SOON)).await;
    assert_eq!(process.in_use.borrow().credentials.api_key(), "standard-api-key");
    let kept = stage.messages("CredentialsKept");
    assert!(kept[0].contains("none of the virtual machines"), "{kept:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_with_a_mistake_is_told_once_with_its_place() {
    let stage = Stage::new();
    let mut process = Process::new(&stage, "mistake");
    let config = process.secret.content();
    process.secret.replace(&format!("{config}api-kee = x\n"));
    process.during(stage.pass(Duration::from_hours(1))).await;
    let kept = stage.messages("CredentialsKept");
    assert_eq!(kept.len(), 1, "{kept:?}");
    let path = process.secret.path().display().to_string();
    for part in [path.as_str(), "line 5", "api-kee"] {
        assert!(kept[0].contains(part), "{part}: {kept:?}");
    }
    assert!(process.counted("kept-old"));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_has_grown_too_long_is_told_once_and_not_used() {
    let stage = Stage::new();
    let mut process = Process::new(&stage, "long");
    let (_, api_key, secret_key) = SECOND;
    let config = with_keys(&process.secret.content(), api_key, secret_key);
    process.secret.replace(&format!("{config}{}", "# more\n".repeat(10_000)));
    process.during(stage.pass(Duration::from_hours(1))).await;
    let kept = stage.messages("CredentialsKept");
    assert!(kept.len() == 1 && kept[0].contains("more than 65536 bytes"), "{kept:?}");
    assert_eq!(process.in_use.borrow().credentials.api_key(), "standard-api-key");
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_restart_waits_for_it_and_keeps_nothing_else_back() {
    let stage = Stage::with_world(add_second_user);
    let mut process = Process::new(&stage, "restart");
    let (_, api_key, secret_key) = SECOND;
    let config = with_keys(&process.secret.content(), api_key, secret_key);
    process.secret.replace(&format!("{config}page-size = 7\n"));
    process.during(stage.pass(SOON)).await;
    let in_use = process.in_use.borrow();
    assert_eq!((in_use.credentials.api_key(), in_use.page_size), (api_key, 500));
    assert_eq!(stage.reasons(LEASE), ["CredentialsReplaced"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_says_the_same_asks_nobody() {
    let stage = Stage::new();
    let mut process = Process::new(&stage, "same");
    let config = process.secret.content();
    process.secret.replace(&format!("# of the next quarter\n{config}page-size = 7\n"));
    process.during(stage.pass(Duration::from_hours(1))).await;
    assert_eq!(stage.sent("listCapabilities"), 0);
    assert_eq!(stage.reasons(LEASE), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_ca_file_is_followed_by_its_content() {
    let stage = Stage::new();
    let ca = folder("ca.pem");
    fs::write(&ca, "first").expect("a file");
    let process = Process::with_lines(&stage, "ca", &format!("ca-file = {}\n", ca.display()));
    process
        .during(async {
            stage.pass(SOON).await;
            assert_eq!(stage.sent("listCapabilities"), 0, "nothing changed");
            fs::write(&ca, "second").expect("a file");
            stage.pass(SOON).await;
        })
        .await;
    fs::remove_file(&ca).expect("a file");
    let told = stage.messages("CredentialsReplaced");
    assert_eq!(told, ["What changed in the cloud-config works and is in use: ca-file"]);
}
