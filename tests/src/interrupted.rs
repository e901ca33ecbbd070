//! Both sides behind a wire that breaks: a process killed between two effects, calls refused,
//! answers lost. A watcher sees the world after every effect.

use std::cell::Cell;
use std::collections::BTreeSet;

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::output::Output;
use ccm_core::ids::LoadBalancerRuleId;
use ccm_core::observe::CloudState;
use ccm_core::observe::scope::Scope;
use ccm_core::plan::action::{Call, ResolvedPatch};
use cloudstack_ccm::ports::{Cloud, Cluster, Members, Objects};

/// What happens to the calls and writes of one execution; the number counts them from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// Nothing.
    Never,
    /// The process dies before this one: neither it nor anything after it happens.
    KilledBefore(usize),
    /// This one is refused and changes nothing.
    Refused(usize),
    /// This one takes effect, but its answer is lost.
    AnswerLost(usize),
}

/// Both sides, one execution long.
pub struct Interrupted<'a, C, K> {
    cloud: &'a C,
    cluster: &'a K,
    what: Interruption,
    count: Cell<usize>,
    watch: &'a dyn Fn(&str),
}

enum Fate {
    Happens,
    NeverSent,
    Refused,
    AnswerLost,
}

impl<'a, C, K> Interrupted<'a, C, K> {
    /// Wraps both sides. `watch` is called after every effect, with its command.
    pub fn new(cloud: &'a C, cluster: &'a K, what: Interruption, watch: &'a dyn Fn(&str)) -> Self {
        Self { cloud, cluster, what, count: Cell::new(0), watch }
    }

    fn next(&self) -> Fate {
        let number = self.count.get();
        self.count.set(number + 1);
        match self.what {
            Interruption::KilledBefore(at) if number >= at => Fate::NeverSent,
            Interruption::Refused(at) if number == at => Fate::Refused,
            Interruption::AnswerLost(at) if number == at => Fate::AnswerLost,
            _ => Fate::Happens,
        }
    }
}

fn error(command: &str, fault: Fault, effect: Effect) -> CallError {
    CallError {
        command: command.to_owned(),
        code: (effect == Effect::No).then_some(530),
        fault,
        effect,
        retry_after: None,
        message: "interrupted by the test".to_owned(),
    }
}

impl<C: Cloud, K> Cloud for Interrupted<'_, C, K> {
    async fn observe(&self, scope: &Scope) -> Result<CloudState, CallError> {
        self.cloud.observe(scope).await
    }

    async fn members(&self, rules: &BTreeSet<LoadBalancerRuleId>) -> Result<Members, CallError> {
        self.cloud.members(rules).await
    }

    async fn call(&self, call: &Call) -> Result<Output, CallError> {
        let command = call.command();
        let result = match self.next() {
            Fate::NeverSent => return Err(error(command, Fault::Transient, Effect::Unknown)),
            Fate::Refused => Err(error(command, Fault::Cloud, Effect::No)),
            Fate::Happens => self.cloud.call(call).await,
            Fate::AnswerLost => {
                let _ = self.cloud.call(call).await;
                Err(error(command, Fault::Transient, Effect::Unknown))
            }
        };
        (self.watch)(command);
        result
    }
}

impl<C, K: Cluster> Cluster for Interrupted<'_, C, K> {
    async fn read(&self) -> Result<Objects, CallError> {
        self.cluster.read().await
    }

    async fn patch(&self, patch: &ResolvedPatch) -> Result<(), CallError> {
        const WRITE: &str = "patch services/status";
        let result = match self.next() {
            Fate::NeverSent => return Err(error(WRITE, Fault::Transient, Effect::Unknown)),
            Fate::Refused => Err(error(WRITE, Fault::Transient, Effect::No)),
            Fate::Happens => self.cluster.patch(patch).await,
            Fate::AnswerLost => {
                let _ = self.cluster.patch(patch).await;
                Err(error(WRITE, Fault::Transient, Effect::Unknown))
            }
        };
        (self.watch)(WRITE);
        result
    }
}
