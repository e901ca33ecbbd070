//! From a kubeconfig, or from inside of a cluster, to a client.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;
use tower_layer::layer_fn;
use tower_service::Service;

/// What Go's cloud controller managers call themselves.
const AGENT: &str = concat!("cloud-controller-manager/", env!("CARGO_PKG_VERSION"));
/// Longest wait for a connection to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// No client could be made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig can't be used.
    #[error("kubeconfig {path} can't be used")]
    Kubeconfig {
        /// Its path.
        path: String,
        /// Why.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// `--master` is no URL.
    #[error("--master {0:?} is no URL; write for example https://10.0.0.1:6443")]
    Master(String),
    /// Neither a kubeconfig nor a cluster around this process.
    #[error(
        "no API server is known: give --kubeconfig, or run inside of a cluster with a service account"
    )]
    Nowhere(#[source] Box<kube::config::InferConfigError>),
    /// The client could not be set up.
    #[error("the Kubernetes client can't be set up")]
    Client(#[source] Box<kube::Error>),
}

/// Hears of requests to the API server. It must not block.
pub trait RequestMeter: Send + Sync {
    /// A request of a method (`GET`) to a host (`10.0.0.1:6443`) was answered with a status, or with
    /// none, after so long.
    fn request_answered(&self, method: &str, host: &str, status: Option<u16>, took: Duration);
}

/// Tells a meter of what a service is asked.
struct Metered<S> {
    inner: S,
    meter: Arc<dyn RequestMeter>,
    host: Arc<str>,
}

impl<S, B, A> Service<Request<B>> for Metered<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.method().to_string();
        let (meter, host) = (Arc::clone(&self.meter), Arc::clone(&self.host));
        let began = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let status = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            meter.request_answered(&method, &host, status, began.elapsed());
            answer
        })
    }
}

/// A client of the API server that `kubeconfig` names, or the one of the cluster around this
/// process, or the one of the usual places ($KUBECONFIG, ~/.kube/config). `master` overrides its
/// URL; `meter` hears of requests.
///
/// # Errors
/// [`ConnectError`] if there is no usable configuration. Whether the API server answers shows later.
pub async fn client(
    kubeconfig: Option<&Path>,
    master: Option<&str>,
    meter: Arc<dyn RequestMeter>,
) -> Result<Client, ConnectError> {
    let mut config = configuration(kubeconfig).await?;
    if let Some(master) = master {
        config.cluster_url = master.parse().map_err(|_| ConnectError::Master(master.to_owned()))?;
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // The field manager of what is written, and the name in audit logs.
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    // Writes are planned anew after a failure, never repeated blindly.
    config.default_retry = false;
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let builder =
        ClientBuilder::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))?;
    let host = Arc::<str>::from(host);
    let metered =
        layer_fn(|inner| Metered { inner, meter: Arc::clone(&meter), host: Arc::clone(&host) });
    Ok(builder.with_layer(&metered).build())
}

async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let Some(path) = kubeconfig else {
        return Config::infer().await.map_err(|error| ConnectError::Nowhere(Box::new(error)));
    };
    let unusable = |source| ConnectError::Kubeconfig {
        path: path.display().to_string(),
        source: Box::new(source),
    };
    let file = Kubeconfig::read_from(path).map_err(unusable)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(unusable)
}
