//! Takes changes of the cloud-config and of the CA file while the process works. When to try, and
//! what of a change holds, is the core's word; here files are read and CloudStack is asked.
//!
//! Files are compared by content every few seconds: a mounted Secret changes by a symbolic link.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloudstack::{Client, Runtime, Transport};
use ccm_core::event::Occasion;
use ccm_core::event::correlate::ObjectRef;
use ccm_core::reload::{Changes, Look, Reload};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tracing::{info, warn};

use super::monitored::MonitoredCloud;
use super::ports::Tell;
use super::{chain, jitter};
use crate::config::{Config, ConfigErrors, Overrides, Setting, Tls, Warning};
use crate::files;
use crate::metrics::{self, Metrics};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// Where settings come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The cloud-config, if there is one.
    pub path: Option<PathBuf>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// Flags.
    pub flags: Overrides,
}

/// A configuration as it was read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What is set.
    pub config: Config,
    /// What is risky about it.
    pub warnings: Vec<Warning>,
    /// What the files hold, or held a moment before.
    pub prints: Prints,
}

/// What files hold; `None` of one that is not there or can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prints {
    cloud_config: Option<[u8; 32]>,
    ca_file: Option<[u8; 32]>,
}

impl Source {
    /// Reads everything.
    ///
    /// # Errors
    /// [`ConfigErrors`] with every mistake.
    pub fn read(&self) -> Result<Reading, ConfigErrors> {
        // Before the content: what changes in between is seen at the next look.
        let cloud_config = self.path.as_deref().and_then(print_of_cloud_config);
        let (config, warnings) =
            Config::load(self.path.as_deref(), &self.environment, &self.flags)?;
        let prints = Prints { cloud_config, ca_file: print_of_ca(&config) };
        Ok(Reading { config, warnings, prints })
    }
}

/// Makes a client of a configuration.
pub type Connect<T, R> = Box<dyn Fn(&Config) -> anyhow::Result<Client<T, R>> + Send + Sync>;

/// See the module.
pub struct Reloader<T, R> {
    /// Where settings come from.
    pub source: Source,
    /// Makes the client that a change is proven with.
    pub connect: Connect<T, R>,
    /// Takes what is proven.
    pub cloud: Arc<MonitoredCloud<T, R>>,
    /// What holds now.
    pub in_use: watch::Sender<Config>,
    /// Time.
    pub runtime: R,
    /// Hears of what happens, as of `about`.
    pub teller: Arc<dyn Tell>,
    /// The object that events are about.
    pub about: ObjectRef,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

impl<T: Transport, R: Runtime> Reloader<T, R> {
    /// Works for ever, from when the files held what is in use.
    pub async fn run(&self, prints: Prints) -> Infallible {
        let mut reload = Reload::new(prints);
        loop {
            tokio::time::sleep(EVERY).await;
            self.look(&mut reload).await;
        }
    }

    async fn look(&self, reload: &mut Reload<Prints>) {
        let found = Prints {
            cloud_config: self.source.path.as_deref().and_then(print_of_cloud_config),
            ca_file: print_of_ca(&self.in_use.borrow()),
        };
        let look = reload.look(&found, self.runtime.now());
        if look == Look::Rest {
            return;
        }
        match self.source.read() {
            Ok(reading) => self.handle_read(reading, look, found, reload).await,
            Err(error) => {
                reload.handle_unreadable(found);
                self.tell_kept(&error);
            }
        }
    }

    async fn handle_read(
        &self,
        Reading { config, warnings, prints }: Reading,
        look: Look,
        found: Prints,
        reload: &mut Reload<Prints>,
    ) {
        let changes = self.changes(&config, found.ca_file != reload.in_use().ca_file);
        if look == Look::New {
            for warning in &warnings {
                warn!("{warning}");
            }
            tell_restart(&changes.at_restart);
        }
        let proposed = self.in_use.borrow().with_live_settings_of(&config);
        let prints = Prints { ca_file: print_of_ca(&proposed), ..prints };
        if !reload.handle_read(prints, &changes) {
            return;
        }
        match self.take(proposed, &changes.at_once).await {
            Ok(()) => reload.handle_taken(prints),
            Err(error) => {
                let jitter = jitter(&self.runtime.fresh_uuid());
                reload.handle_unproven(found, self.runtime.now(), jitter);
                self.tell_kept(error.as_ref());
            }
        }
    }

    fn changes(&self, proposed: &Config, ca_differs: bool) -> Changes<Setting> {
        let mut differ = self.in_use.borrow().differing(proposed);
        if ca_differs {
            differ.insert(Setting::CaFile);
        }
        Changes::new(differ, |setting| setting.is_live())
    }

    /// Proves what changed, and goes on with it.
    async fn take(&self, proposed: Config, changed: &BTreeSet<Setting>) -> anyhow::Result<()> {
        self.cloud.renew(&(self.connect)(&proposed)?).await?;
        self.in_use.send_replace(proposed);
        let what = names(changed);
        info!(settings = what, "what changed in the cloud-config works and is in use");
        self.metrics.reloaded(metrics::Reload::Taken);
        self.teller.tell(&self.about, &Occasion::CredentialsReplaced { what }.event());
        Ok(())
    }

    fn tell_kept(&self, error: &(dyn Error + 'static)) {
        let error = chain(error);
        warn!(error, "what changed in the cloud-config is not used");
        self.metrics.reloaded(metrics::Reload::KeptOld);
        self.teller.tell(&self.about, &Occasion::CredentialsKept { error }.event());
    }
}

fn print_of_ca(config: &Config) -> Option<[u8; 32]> {
    match &config.tls {
        Tls::CaFile(path) => print(path, files::CERTIFICATES_LIMIT),
        Tls::System | Tls::NoVerification => None,
    }
}

fn print_of_cloud_config(path: &Path) -> Option<[u8; 32]> {
    print(path, files::CLOUD_CONFIG_LIMIT)
}

/// `None` for a file that can't be read, or is longer than it may be.
fn print(path: &Path, limit: usize) -> Option<[u8; 32]> {
    files::bytes(path, limit).ok().map(|content| Sha256::digest(content).into())
}

fn tell_restart(settings: &BTreeSet<Setting>) {
    if !settings.is_empty() {
        let settings = names(settings);
        warn!(settings, "changed in the cloud-config, and a restart is needed for it to hold");
    }
}

fn names(settings: &BTreeSet<Setting>) -> String {
    settings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
