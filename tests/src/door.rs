//! The way from the client to the simulator: a function call, or HTTP over the loopback device.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ccm_cloudstack::{
    HttpOptions, HttpTransport, Runtime as _, Transport, TransportError, WireRequest, WireResponse,
};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::lab::SharedSimulator;

/// See the module.
#[derive(Clone)]
pub enum Door {
    /// A function call.
    Direct(SharedSimulator),
    /// The real transport and the simulator's façade.
    Http(HttpDoor),
}

impl Door {
    /// Serves the simulator on a free port of the loopback device, until the last clone is dropped.
    pub fn http(simulator: &SharedSimulator) -> Self {
        Self::Http(HttpDoor::open(simulator))
    }
}

impl Transport for Door {
    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        match self {
            Self::Direct(simulator) => simulator.send(request).await,
            Self::Http(door) => door.send(request).await,
        }
    }
}

/// The real transport to a façade of its own. Both run on a thread of their own, so that tests may
/// wait for it in any runtime, also in one without drivers.
#[derive(Clone, Debug)]
pub struct HttpDoor {
    transport: HttpTransport,
    thread: Handle,
    _open: Arc<oneshot::Sender<()>>,
}

impl HttpDoor {
    fn open(simulator: &SharedSimulator) -> Self {
        let thread = thread();
        let bound = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        bound.set_nonblocking(true).expect("a listener that does not block");
        let port = bound.local_addr().expect("an address").port();
        let (open, closed) = oneshot::channel::<()>();
        let (shared, clock) = (simulator.shared(), simulator.clock());
        thread.spawn(async move {
            let listener = TcpListener::from_std(bound).expect("a listener");
            let shutdown = async move { drop(closed.await) };
            ccm_simulator::http::serve(
                listener,
                shared,
                move || clock.now(),
                Duration::ZERO,
                shutdown,
            )
            .await
        });
        let options = HttpOptions::new(format!("http://127.0.0.1:{port}/client/api"));
        let transport = HttpTransport::new(&options).expect("a transport");
        Self { transport, thread, _open: Arc::new(open) }
    }

    async fn send(&self, request: WireRequest) -> Result<WireResponse, TransportError> {
        let transport = self.transport.clone();
        let sent = self.thread.spawn(async move { transport.send(request).await });
        sent.await.expect("a request that ends")
    }
}

/// One thread for all doors of a test binary.
fn thread() -> Handle {
    static THREAD: OnceLock<Runtime> = OnceLock::new();
    let runtime = THREAD.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("a runtime")
    });
    runtime.handle().clone()
}
