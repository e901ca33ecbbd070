//! CloudStack: the simulator in this process, behind its HTTP façade and by the clock of the wall.
//! Tests look into it, count what it was asked, and change it from outside.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener as BoundPort};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{fs, io};

use ccm_simulator::{LoggedCall, Simulator, World};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::ports;

/// See the module.
pub(crate) struct Cloud {
    simulator: Arc<Mutex<Simulator>>,
    world: World,
    port: u16,
    server: Option<Server>,
}

struct Server {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<io::Result<()>>,
}

impl Cloud {
    /// Starts one with a world in it.
    pub(crate) fn start(world: World) -> Self {
        let simulator = Simulator::new(&world).expect("a world that makes sense");
        let simulator = Arc::new(Mutex::new(simulator));
        let mut cloud = Self { simulator, world, port: ports::free(), server: None };
        cloud.up();
        cloud
    }

    /// Lets it answer.
    pub(crate) fn up(&mut self) {
        let bound = BoundPort::bind((Ipv4Addr::LOCALHOST, self.port)).expect("the port is free");
        bound.set_nonblocking(true).expect("a listener that does not block");
        let (stop, stopped) = oneshot::channel::<()>();
        let simulator = Arc::clone(&self.simulator);
        let ended = thread().spawn(async move {
            let listener = TcpListener::from_std(bound)?;
            let stopped = async { drop(stopped.await) };
            let clock = Timestamp::now;
            ccm_simulator::http::serve(listener, simulator, clock, Duration::ZERO, stopped).await
        });
        self.server = Some(Server { stop, ended });
    }

    /// Ends it as a server that is stopped: its port refuses connections. What is in it stays.
    pub(crate) async fn down(&mut self) {
        let Server { stop, ended } = self.server.take().expect("a server that runs");
        drop(stop);
        ended.await.expect("no panic").expect("a listener that works");
    }

    /// Works on what is in it, as of now.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Simulator) -> T) -> T {
        let mut simulator = self.simulator.lock().unwrap_or_else(PoisonError::into_inner);
        simulator.advance(Timestamp::now());
        work(&mut simulator)
    }

    /// The cloud-config of the controller's account, as a file.
    pub(crate) fn config(&self, folder: &Path) -> PathBuf {
        let path = folder.join("cloud-config");
        let url = format!("http://127.0.0.1:{}/client/api", self.port);
        fs::write(&path, self.world.cloud_config(&url)).expect("a cloud-config");
        path
    }

    /// Everything that it was asked, in order.
    pub(crate) fn calls(&self) -> Vec<LoggedCall> {
        self.with(|simulator| simulator.calls().to_vec())
    }

    /// How often each command was asked for.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for call in self.calls() {
            *counts.entry(call.command).or_default() += 1;
        }
        counts
    }
}

/// One thread for all façades: one of a test that waits must go on answering.
fn thread() -> Handle {
    static THREAD: OnceLock<Runtime> = OnceLock::new();
    let runtime = THREAD.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("a runtime")
    });
    runtime.handle().clone()
}
