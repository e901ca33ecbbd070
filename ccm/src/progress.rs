//! What people see of a plan under way: a line on stderr when a call goes out, and one when it
//! comes back.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ccm_core::exec::error::CallError;
use ccm_core::exec::execution::Outcome;
use ccm_core::exec::output::Output;
use ccm_core::plan::action::Call;
use ccm_core::plan::{Plan, StepId};

use crate::console::{Console, styled};
use crate::driver::Progress;

/// Whether writes to Kubernetes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// They happen.
    Shown,
    /// Nothing keeps them.
    Hidden,
}

/// Tells of steps on stderr.
pub(crate) struct Steps<'a> {
    console: Console,
    writes: Writes,
    may_go_on: &'a (dyn Fn() -> bool + Sync),
    running: Mutex<BTreeMap<StepId, Instant>>,
}

impl<'a> Steps<'a> {
    /// `may_go_on` is asked before each call whether it may go out.
    pub(crate) fn new(
        console: Console,
        writes: Writes,
        may_go_on: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        Self { console, writes, may_go_on, running: Mutex::default() }
    }

    fn line(&self, mark: &str, style: &str, step: &StepId, rest: &str) {
        let mark = styled(&format!("{mark:<6}"), style, self.console.colour_aside);
        self.console.say(format!("  {mark} {:<22} {rest}", step.as_str()).trim_end());
    }
}

impl Progress for Steps<'_> {
    fn started(&self, step: &StepId, call: &Call) {
        if self.writes == Writes::Hidden && matches!(call, Call::PatchService(_)) {
            return;
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(step.clone(), Instant::now());
        self.line("...", "2", step, call.command());
    }

    fn finished(&self, step: &StepId, result: &Result<Output, CallError>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(since) = running.remove(step) else {
            return;
        };
        let seconds = since.elapsed().as_secs_f32();
        match result {
            Ok(_) => self.line("done", "32", step, &format!("{seconds:.1} s")),
            Err(error) => self.line("failed", "1;31", step, &format!("{seconds:.1} s  {error}")),
        }
    }

    fn goes_on(&self) -> bool {
        (self.may_go_on)()
    }
}

/// What became of a plan that was not carried out whole, for people.
pub(crate) fn shortfall(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for (step, error) in &outcome.failed {
        let command = plan.step(step).map_or("", |step| step.action.command());
        lines.push(format!("{}: {step} failed ({command}): {error}", plan.service));
    }
    let list = |steps: &std::collections::BTreeSet<StepId>| {
        let in_order = plan.steps.iter().filter(|step| steps.contains(&step.id));
        in_order.map(|step| step.id.as_str()).collect::<Vec<_>>().join(", ")
    };
    if !outcome.done.is_empty() {
        lines.push(format!("{}: done: {}", plan.service, list(&outcome.done)));
    }
    if !outcome.skipped.is_empty() {
        lines.push(format!("{}: not tried: {}", plan.service, list(&outcome.skipped)));
    }
    lines
}
