//! From a kubeconfig, or from inside of a cluster, to a client.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ccm_core::parse::nearest::nearest;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response, Uri};
use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;
use tower_layer::layer_fn;
use tower_service::Service;

use super::failure::{discreet, without_values};
use super::proxy;

/// What Go's cloud controller managers call themselves.
const AGENT: &str = concat!("cloud-controller-manager/", env!("CARGO_PKG_VERSION"));
/// Longest wait for a connection to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which API server, and as whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whom<'a> {
    /// `--kubeconfig`; without it $KUBECONFIG, ~/.kube/config, or the cluster around this process.
    pub kubeconfig: Option<&'a Path>,
    /// `--context`; without it the current one of the kubeconfig.
    pub context: Option<&'a str>,
    /// `--master`: another URL than the one of the kubeconfig.
    pub master: Option<&'a str>,
}

/// An API server that was not asked anything yet.
pub struct ApiServer {
    /// A client of it.
    pub client: Client,
    /// Its URL.
    pub url: String,
}

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
    /// The kubeconfig is no kubeconfig. Nothing of what it holds is repeated: it may be a token.
    #[error("kubeconfig {path} can't be used: {cause}")]
    Malformed {
        /// Its path.
        path: String,
        /// Where, and what is wrong.
        cause: String,
    },
    /// A proxy that can't be used. Its URL may hold a password: only host and port are named.
    #[error(
        "the API server would be reached through the proxy {0}, which is none: its URL begins with \
         neither http:// nor https://; correct `proxy-url` in the kubeconfig, or HTTPS_PROXY in the \
         environment"
    )]
    Proxy(String),
    /// The kubeconfig has no such context.
    #[error(
        "kubeconfig {path} has no context {context:?}{}",
        nearest.as_ref().map_or(": it has none at all".to_owned(), |name| {
            format!("; did you mean {name:?}?")
        })
    )]
    Context {
        /// Its path.
        path: String,
        /// The context that was asked for.
        context: String,
        /// The one that it most resembles.
        nearest: Option<String>,
    },
    /// No context is asked for, and the kubeconfig says none.
    #[error("kubeconfig {path} has no current context; give --context, one of: {}", known.join(", "))]
    NoContext {
        /// Its path.
        path: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// `--master` is no URL.
    #[error("--master {0:?} is no URL; write for example https://10.0.0.1:6443")]
    Master(String),
    /// Neither a kubeconfig nor a cluster around this process.
    #[error(
        "no API server is known: give --kubeconfig, or run inside of a cluster with a service account"
    )]
    Nowhere(#[source] Box<InClusterError>),
    /// The client could not be set up.
    #[error("the Kubernetes client can't be set up: {0}")]
    Client(String),
}

/// Hears of requests to the API server. It must not block.
pub trait RequestMeter: Send + Sync {
    /// A request of a method (`GET`) to a host (`10.0.0.1:6443`) was answered with a status, or with
    /// none, after so long.
    fn request_answered(&self, method: &str, host: &str, status: Option<u16>, took: Duration);
}

/// Nobody listens.
#[derive(Clone, Copy, Debug)]
pub struct Unmetered;

impl RequestMeter for Unmetered {
    fn request_answered(&self, _: &str, _: &str, _: Option<u16>, _: Duration) {}
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

/// A client of the API server that is meant; `meter` hears of its requests.
///
/// # Errors
/// [`ConnectError`] if there is no usable configuration. Whether the API server answers shows later.
pub async fn api_server(
    whom: Whom<'_>,
    meter: Arc<dyn RequestMeter>,
) -> Result<ApiServer, ConnectError> {
    let file = kubeconfig(whom)?;
    let mut config = configuration(whom, file.as_ref()).await?;
    if let Some(master) = whom.master {
        config.cluster_url = master.parse().map_err(|_| ConnectError::Master(master.to_owned()))?;
    }
    config.proxy_url = proxy(whom, file.as_ref(), &config)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // The field manager of what is written, and the name in audit logs.
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    // Writes are planned anew after a failure, never repeated blindly.
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let builder =
        ClientBuilder::try_from(config).map_err(|error| ConnectError::Client(discreet(&error)))?;
    let host = Arc::<str>::from(host);
    let metered =
        layer_fn(|inner| Metered { inner, meter: Arc::clone(&meter), host: Arc::clone(&host) });
    Ok(ApiServer { client: builder.with_layer(&metered).build(), url })
}

/// A kubeconfig, and how to name it.
type Named = (String, Kubeconfig);

async fn configuration(whom: Whom<'_>, file: Option<&Named>) -> Result<Config, ConnectError> {
    let Some((path, file)) = file else {
        return Config::incluster().map_err(|error| ConnectError::Nowhere(Box::new(error)));
    };
    check_context(path, file, whom.context)?;
    let options =
        KubeConfigOptions { context: whom.context.map(ToOwned::to_owned), ..Default::default() };
    let config = Config::from_custom_kubeconfig(file.clone(), &options).await;
    config.map_err(|source| unusable(path, source))
}

/// Within a cluster the way is direct.
fn proxy(
    whom: Whom<'_>,
    file: Option<&Named>,
    config: &Config,
) -> Result<Option<Uri>, ConnectError> {
    let Some((_, file)) = file else { return Ok(None) };
    let own = proxy::of_kubeconfig(file, whom.context);
    let variable = |name: &str| std::env::var(name).ok();
    proxy::on_the_way_to(&config.cluster_url, own, variable).map_err(ConnectError::Proxy)
}

/// The kubeconfig that is meant, and how to name it. `None`: nothing says which one.
fn kubeconfig(whom: Whom<'_>) -> Result<Option<Named>, ConnectError> {
    if let Some(path) = whom.kubeconfig {
        let named = path.display().to_string();
        let file = Kubeconfig::read_from(path).map_err(|source| unusable(&named, source))?;
        return Ok(Some((named, file)));
    }
    let named = "$KUBECONFIG";
    let of_environment = Kubeconfig::from_env().map_err(|source| unusable(named, source))?;
    if let Some(file) = of_environment {
        return Ok(Some((named.to_owned(), file)));
    }
    let named = "~/.kube/config";
    match Kubeconfig::read() {
        Ok(file) => Ok(Some((named.to_owned(), file))),
        // In a pod there is none, or the home of another user.
        Err(KubeconfigError::FindPath | KubeconfigError::ReadConfig(..))
            if whom.context.is_none() =>
        {
            Ok(None)
        }
        Err(error) => Err(unusable(named, error)),
    }
}

fn check_context(path: &str, file: &Kubeconfig, wanted: Option<&str>) -> Result<(), ConnectError> {
    let known = || file.contexts.iter().map(|context| context.name.as_str());
    let path = path.to_owned();
    match wanted.or(file.current_context.as_deref()).filter(|name| !name.is_empty()) {
        None => Err(ConnectError::NoContext { path, known: known().map(str::to_owned).collect() }),
        Some(name) if known().any(|other| other == name) => Ok(()),
        Some(name) => Err(ConnectError::Context {
            path,
            context: name.to_owned(),
            nearest: nearest(name, known()).map(str::to_owned),
        }),
    }
}

fn unusable(path: &str, source: KubeconfigError) -> ConnectError {
    let path = path.to_owned();
    if let KubeconfigError::Parse(error) = source {
        return ConnectError::Malformed { path, cause: without_values(&error) };
    }
    ConnectError::Kubeconfig { path, source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str, wanted: Option<&str>) -> Result<(), String> {
        let file = serde_json::from_str(text).unwrap();
        check_context("k", &file, wanted).map_err(|error| error.to_string())
    }

    #[test]
    fn a_context_that_is_not_there_is_named_with_the_nearest_one() {
        let text = r#"{"contexts": [{"name": "prod-eu"}, {"name": "test"}]}"#;
        assert_eq!(checked(text, Some("test")), Ok(()));
        let error = checked(text, Some("prod_eu")).unwrap_err();
        assert_eq!(error, r#"kubeconfig k has no context "prod_eu"; did you mean "prod-eu"?"#);
        let error = checked(text, None).unwrap_err();
        assert_eq!(
            error,
            "kubeconfig k has no current context; give --context, one of: prod-eu, test"
        );
        let error = checked(r#"{"current-context": "gone"}"#, None).unwrap_err();
        assert_eq!(error, r#"kubeconfig k has no context "gone": it has none at all"#);
    }

    #[test]
    fn a_kubeconfig_that_is_none_is_not_repeated() {
        for (text, cause) in [
            (
                "users: [{name: me, user: {token: tok3n}\ncontexts: tok3n\n",
                "line 1, column 9: what stands there is not valid",
            ),
            (r#"users: "a\"tok3n""#, "line 1, column 8: expected sequence start"),
            ("tok3n: 1\ntok3n: 2\n", "line 2, column 1: what stands there is not valid"),
            (
                "users: [{name: me, user: {username: [tok3n]}}]",
                "line 1, column 37: expected string scalar",
            ),
        ] {
            let error = unusable("k", Kubeconfig::from_yaml(text).unwrap_err()).to_string();
            assert_eq!(error, format!("kubeconfig k can't be used: {cause}"));
        }
    }
}
