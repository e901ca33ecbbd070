//! The life of the process: wait for both sides, wait for the Lease, work, stop in order.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ccm_cloudstack::{HttpTransport, Runtime as _, TokioRuntime};
use ccm_core::controllers::Controller;
use ccm_core::event::correlate::ObjectRef;
use ccm_core::event::{Occasion, Turn};
use ccm_core::exec::error::{CallError, Fault};
use ccm_kubernetes::live::connect::{Whom, api_server};
use ccm_kubernetes::live::events::EventWriter;
use ccm_kubernetes::live::lease::LeaseLock;
use ccm_kubernetes::live::review::Reviewer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::election::{Leadership, Standing};
use super::monitored::MonitoredCloud;
use super::plans::LatestPlans;
use super::ports::{Fence, Tell};
use super::recorder::Recorder;
use super::reload::{Prints, Reading, Reloader, Source};
use super::work::Work;
use crate::cli::{ControllerArgs, ControllerOptions, ElectionOptions, ServingOptions};
use crate::commands::{Exit, VERSION};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::serve::{Delegated, Health, Page, Server, Site, configz};
use crate::signal::stop_signal;
use crate::traces::Traces;

/// How long running calls may take to end after SIGTERM. Kubernetes kills after 30 s by default.
const GRACE: Duration = Duration::from_secs(24);
/// How long giving up the Lease, and writing the last events, may take each.
const FAREWELL: Duration = Duration::from_secs(2);
/// First and longest pause before something that does not answer is asked again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Runs until it is told to stop, or loses the Lease.
pub(crate) async fn run(args: &ControllerArgs, traces: Option<Traces>) -> Result<Exit> {
    info!(version = VERSION, "cloudstack-ccm");
    for warning in args.warnings() {
        warn!("{warning}");
    }
    let options = args.options()?;
    let source = crate::connect::source(&args.connect);
    let reading = crate::connect::read(&source)?;
    for setting in &reading.config.effective {
        info!("configured: {setting}");
    }
    if !options.controllers.runs(Controller::Service) {
        info!("the Service controller is disabled by --controllers: no load balancer is touched");
    }
    let stop = stop_on_signal()?;
    let process = Process::new(options, source, reading, traces, stop).await?;
    Box::pin(process.live()).await
}

/// Cancelled by ctrl-C and SIGTERM.
fn stop_on_signal() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (signal, stopping) = (stop_signal()?, stop.clone());
    tokio::spawn(async move {
        signal.await;
        info!("stopping: running calls are finished, no new one is started");
        stopping.cancel();
    });
    Ok(stop)
}

struct Process {
    options: ControllerOptions,
    /// As it was at the start: what may change since is the reloader's.
    config: Config,
    prints: Prints,
    reloader: Reloader<HttpTransport, TokioRuntime>,
    kubernetes: kube::Client,
    cloud: Arc<MonitoredCloud>,
    metrics: Arc<Metrics>,
    health: Health,
    plans: Arc<LatestPlans>,
    server: Option<Server>,
    identity: String,
    recorder: Arc<Recorder>,
    recording: tokio::task::JoinHandle<()>,
    traces: Option<Traces>,
    stop: CancellationToken,
}

impl Process {
    async fn new(
        options: ControllerOptions,
        source: Source,
        reading: Reading,
        traces: Option<Traces>,
        stop: CancellationToken,
    ) -> Result<Self> {
        let Reading { config, warnings: _, prints } = reading;
        let (in_use, shown_config) = watch::channel(config.clone());
        let metrics = Arc::new(Metrics::new(VERSION).tracing(traces.clone()));
        let kubernetes = kubernetes(&options, options.kubeconfig.as_deref(), &metrics).await?;
        metrics.dry_run(options.dry_run);
        let health = Health::new();
        let plans = Arc::<LatestPlans>::default();
        let site = Site {
            health: health.clone(),
            metrics: Arc::clone(&metrics),
            configuration: configuration(&options, shown_config),
            plans: shown(&options, &plans),
        };
        let server = match &options.serving {
            Some(serving) => Some(serve(&options, serving, site).await?),
            None => None,
        };
        let meter = Arc::clone(&metrics);
        let connect = move |config: &Config| {
            let client = crate::connect::client(config, config.project.as_ref(), TokioRuntime)?;
            Ok(client.metered(Arc::<Metrics>::clone(&meter)))
        };
        let cloud = MonitoredCloud::new(connect(&config)?, Arc::clone(&metrics), &health);
        let cloud = Arc::new(cloud);
        let host = hostname();
        let writer = EventWriter::new(kubernetes.clone(), host.clone());
        let (recorder, record) = Recorder::new(writer, || TokioRuntime.now(), Arc::clone(&metrics));
        let recorder = Arc::new(recorder);
        let reloader = Reloader {
            source,
            connect: Box::new(connect),
            cloud: Arc::clone(&cloud),
            in_use,
            runtime: TokioRuntime,
            teller: Arc::<Recorder>::clone(&recorder),
            about: lease(options.election.as_ref()),
            metrics: Arc::clone(&metrics),
        };
        Ok(Self {
            options,
            config,
            prints,
            reloader,
            kubernetes,
            cloud,
            metrics,
            health,
            plans,
            server,
            identity: format!("{host}_{}", TokioRuntime.fresh_uuid()),
            recorder,
            recording: tokio::spawn(record),
            traces,
            stop,
        })
    }

    async fn live(self) -> Result<Exit> {
        let exit = tokio::select! {
            exit = self.wait_and_work() => exit,
            never = self.reloader.run(self.prints) => match never {},
        };
        let Self { recorder, reloader, recording, server, traces, .. } = self;
        drop((recorder, reloader));
        if let Some(server) = server {
            server.stop().await;
        }
        // What was told last is written before the process ends, if that is quick.
        let _ = tokio::time::timeout(FAREWELL, recording).await;
        if let Some(traces) = traces {
            traces.end().await;
        }
        exit
    }

    async fn wait_and_work(&self) -> Result<Exit> {
        let ready = async {
            self.wait_for("the API server", async || self.api_server().await).await;
            self.wait_for("CloudStack", async || self.cloud.discover().await).await;
        };
        tokio::select! {
            () = ready => {}
            () = self.stop.cancelled() => return Ok(Exit::Done),
        }
        match &self.options.election {
            Some(election) => self.work_while_leading(election).await,
            None => {
                info!("no leader election: nothing may run beside this process");
                let fence = Arc::new(UntilStopped(self.stop.clone()));
                self.work(fence).await.map(|()| Exit::Done)
            }
        }
    }

    async fn api_server(&self) -> Result<(), CallError> {
        let version = self.kubernetes.apiserver_version().await;
        let version =
            version.map_err(|error| ccm_kubernetes::live::call_error("version", &error))?;
        info!(version = version.git_version, "the API server answers");
        Ok(())
    }

    /// Asks until there is an answer.
    async fn wait_for(&self, whom: &str, ask: impl AsyncFn() -> Result<(), CallError>) {
        let (mut pause, longest) = PAUSES;
        while let Err(found) = ask().await {
            if found.fault == Fault::Permission {
                error!(error = %found, "{whom} refuses the credentials; trying again in {pause:?}");
            } else {
                warn!(error = %found, "waiting for {whom}; trying again in {pause:?}");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    async fn work_while_leading(&self, options: &ElectionOptions) -> Result<Exit> {
        let ElectionOptions { timing, namespace, name } = options;
        let elected = self.health.leader_election();
        self.metrics.leads(name, false);
        let lock =
            LeaseLock::new(self.kubernetes.clone(), namespace, name, timing.request_timeout());
        let (leadership, campaign) = Leadership::seek(lock, &self.identity, *timing);
        let mut standing = leadership.standing();
        info!(
            identity = self.identity,
            lease = format!("{namespace}/{name}"),
            "waiting for the Lease"
        );
        let turn = standing.wait_for(|standing| *standing != Standing::Candidate);
        tokio::select! {
            standing = turn => drop(standing),
            () = self.stop.cancelled() => {}
        }
        let leads = *leadership.standing().borrow() == Standing::Leader;
        let mut worked = Ok(());
        if leads {
            worked = match self.lead(options, &leadership).await {
                Some(worked) => worked,
                None => {
                    elected.fails("the Lease is lost");
                    return Ok(Exit::Failed);
                }
            };
        }
        leadership.release();
        if tokio::time::timeout(FAREWELL, campaign).await.is_err() {
            warn!(
                "the Lease could not be given up in time: the next leader waits until it expires"
            );
        }
        worked.map(|()| Exit::Done)
    }

    /// Works as the leader; `None` if the Lease is lost meanwhile.
    async fn lead(
        &self,
        options: &ElectionOptions,
        leadership: &Arc<Leadership>,
    ) -> Option<Result<()>> {
        info!("leading");
        self.metrics.leads(&options.name, true);
        self.tell_election(options, Turn::Became);
        let mut standing = leadership.standing();
        let fence: Arc<dyn Fence> =
            Arc::new(WhileLeading { leadership: Arc::clone(leadership), stop: self.stop.clone() });
        let worked = tokio::select! {
            worked = self.work(fence) => Some(worked),
            _ = standing.wait_for(|standing| *standing == Standing::Lost) => {
                error!("leader election lost");
                self.metrics.leads(&options.name, false);
                None
            }
        };
        self.tell_election(options, Turn::Stopped);
        worked
    }

    /// Works until told to stop, and then until what has begun is over or the grace period is.
    async fn work(&self, fence: Arc<dyn Fence>) -> Result<()> {
        let teller: Arc<dyn Tell> = Arc::<Recorder>::clone(&self.recorder);
        let work = Work {
            options: &self.options,
            config: &self.config,
            kubernetes: &self.kubernetes,
            cloud: &self.cloud,
            metrics: &self.metrics,
            health: &self.health,
            plans: &self.plans,
            traces: self.traces.as_ref(),
            teller,
            fence,
            stop: self.stop.clone(),
        };
        let grace = async {
            self.stop.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            worked = work.run() => worked,
            () = grace => {
                warn!("calls still run after {GRACE:?}: what they do is found by the next leader");
                Ok(())
            }
        }
    }

    fn tell_election(&self, options: &ElectionOptions, turn: Turn) {
        let identity = self.identity.clone();
        self.recorder
            .tell(&lease(Some(options)), &Occasion::LeaderElection { identity, turn }.event());
    }
}

async fn kubernetes(
    options: &ControllerOptions,
    kubeconfig: Option<&std::path::Path>,
    metrics: &Arc<Metrics>,
) -> Result<kube::Client> {
    let whom = Whom { kubeconfig, context: None, master: options.master.as_deref() };
    let meter = Arc::<Metrics>::clone(metrics);
    Ok(api_server(whom, meter).await?.client)
}

/// The Lease, as events of the process name it. Without leader election they name the one that
/// people look at.
fn lease(election: Option<&ElectionOptions>) -> ObjectRef {
    let (namespace, name) = match election {
        Some(ElectionOptions { timing: _, namespace, name }) => (namespace.as_str(), name.as_str()),
        None => ("kube-system", "cloud-controller-manager"),
    };
    ObjectRef {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    }
}

/// What holds now.
fn configuration(options: &ControllerOptions, in_use: watch::Receiver<Config>) -> Page {
    let options = options.clone();
    Box::new(move || configz(&options, &in_use.borrow()))
}

/// The latest plans, in a dry run.
fn shown(options: &ControllerOptions, plans: &Arc<LatestPlans>) -> Option<Page> {
    let plans = Arc::clone(plans);
    options.dry_run.then(|| -> Page { Box::new(move || plans.json()) })
}

/// Starts the HTTPS server, so that probes are answered from the beginning.
async fn serve(
    options: &ControllerOptions,
    serving: &ServingOptions,
    site: Site,
) -> Result<Server> {
    let metrics = Arc::clone(&site.metrics);
    let reviewer = async |own: &Option<std::path::PathBuf>| {
        let kubeconfig = own.as_ref().or(options.kubeconfig.as_ref());
        let kubeconfig = kubeconfig.map(AsRef::as_ref);
        let client = kubernetes(options, kubeconfig, &metrics).await?;
        anyhow::Ok(Reviewer::new(client))
    };
    let reviews = Delegated {
        authentication: reviewer(&serving.authentication_kubeconfig).await?,
        authorization: reviewer(&serving.authorization_kubeconfig).await?,
    };
    Ok(Server::start(serving, site, reviews).await?)
}

/// Without leader election: everything is allowed until the end.
struct UntilStopped(CancellationToken);

impl Fence for UntilStopped {
    fn may_change(&self) -> bool {
        let Self(stop) = self;
        !stop.is_cancelled()
    }
}

struct WhileLeading {
    leadership: Arc<Leadership>,
    stop: CancellationToken,
}

impl Fence for WhileLeading {
    fn may_change(&self) -> bool {
        !self.stop.is_cancelled() && self.leadership.may_change()
    }
}

/// The name of this machine.
pub(super) fn hostname() -> String {
    let name = hostname::get().ok().and_then(|name| name.into_string().ok());
    name.unwrap_or_else(|| "cloudstack-ccm".to_owned())
}
