//! Trouble between the controller and CloudStack: calls that fail, answers that get lost, and lists
//! that show another world than the simulator's.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::output::Output;
use ccm_core::ids::LoadBalancerRuleId;
use ccm_core::observe::CloudState;
use ccm_core::observe::scope::Scope;
use ccm_core::plan::action::Call;
use cloudstack_ccm::ports::{Cloud, Members};

use crate::lab::lock;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// CloudStack refuses it with this code, or its job fails with it; nothing is changed.
    Fails(u16),
    /// It never arrives, and nobody can tell.
    RequestLost,
    /// It is carried out, and nobody hears of it.
    AnswerLost,
}

type Hits = Box<dyn Fn(&Call) -> bool + Send>;
type Retouch = Box<dyn Fn(&mut CloudState) + Send>;

struct Mishap {
    hits: Hits,
    trouble: Trouble,
    times: usize,
}

/// The troubles that are still to come.
#[derive(Clone, Default)]
pub struct Troubles {
    mishaps: Arc<Mutex<Vec<Mishap>>>,
    retouch: Arc<Mutex<Option<Retouch>>>,
    lists_fail: Arc<Mutex<bool>>,
}

impl Troubles {
    /// The next `times` calls that `hits` accepts meet with trouble.
    pub fn meet(
        &self,
        times: usize,
        trouble: Trouble,
        hits: impl Fn(&Call) -> bool + Send + 'static,
    ) {
        lock(&self.mishaps).push(Mishap { hits: Box::new(hits), trouble, times });
    }

    /// As [`Troubles::meet`], for every call of a command.
    pub fn meet_command(&self, times: usize, trouble: Trouble, command: &'static str) {
        self.meet(times, trouble, move |call| call.command() == command);
    }

    /// From now on lists show what `retouch` makes of them.
    pub fn show(&self, retouch: impl Fn(&mut CloudState) + Send + 'static) {
        *lock(&self.retouch) = Some(Box::new(retouch));
    }

    /// From now on every list fails.
    pub fn fail_lists(&self) {
        *lock(&self.lists_fail) = true;
    }

    /// All is well again.
    pub fn end(&self) {
        lock(&self.mishaps).clear();
        *lock(&self.retouch) = None;
        *lock(&self.lists_fail) = false;
    }

    fn next(&self, call: &Call) -> Option<Trouble> {
        let mut mishaps = lock(&self.mishaps);
        let hit = mishaps.iter_mut().find(|mishap| mishap.times > 0 && (mishap.hits)(call))?;
        hit.times -= 1;
        Some(hit.trouble)
    }
}

/// A cloud behind troubles.
pub struct TroubledCloud<'a, C> {
    /// The cloud.
    pub cloud: &'a C,
    /// What happens on the way to it.
    pub troubles: &'a Troubles,
}

impl<C: Cloud> Cloud for TroubledCloud<'_, C> {
    async fn observe(&self, scope: &Scope) -> Result<CloudState, CallError> {
        if *lock(&self.troubles.lists_fail) {
            let message = "the connection was reset".to_owned();
            return Err(error("listVirtualMachines", None, Effect::No, message));
        }
        let mut state = self.cloud.observe(scope).await?;
        if let Some(retouch) = &*lock(&self.troubles.retouch) {
            retouch(&mut state);
        }
        Ok(state)
    }

    async fn members(&self, rules: &BTreeSet<LoadBalancerRuleId>) -> Result<Members, CallError> {
        self.cloud.members(rules).await
    }

    async fn call(&self, call: &Call) -> Result<Output, CallError> {
        let command = call.command();
        match self.troubles.next(call) {
            None => self.cloud.call(call).await,
            Some(Trouble::Fails(code)) => {
                // Refusals change nothing; what a failed job leaves nobody knows.
                let effect = if code == 530 { Effect::Unknown } else { Effect::No };
                Err(error(command, Some(code), effect, format!("it failed with {code}")))
            }
            Some(Trouble::RequestLost) => Err(error(command, None, Effect::Unknown, lost())),
            Some(Trouble::AnswerLost) => {
                self.cloud.call(call).await?;
                Err(error(command, None, Effect::Unknown, lost()))
            }
        }
    }
}

fn lost() -> String {
    "the connection was reset after the request".to_owned()
}

fn error(command: &str, code: Option<u16>, effect: Effect, message: String) -> CallError {
    let fault = match code {
        None => Fault::Transient,
        Some(530) => Fault::Cloud,
        Some(532 | 533 | 535) => Fault::Quota,
        Some(401 | 432 | 531) => Fault::Permission,
        Some(_) => Fault::Refused,
    };
    CallError { command: command.to_owned(), code, fault, effect, retry_after: None, message }
}
