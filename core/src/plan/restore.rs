//! What somebody stripped from a Service is written back before anything else happens. The plan
//! itself is made from what was last written (`Triggers::recall`), as if it were still there.

use crate::plan::action::{Action, Edit, FinalizerChange, PlannedPatch};
use crate::plan::draft::Draft;
use crate::plan::reason::Reason;
use crate::plan::service_patch::{self, PlannedRecord};
use crate::plan::writes;

/// Puts the write that restores the Service before all other steps.
pub(super) fn begin(draft: &mut Draft<'_, '_>) {
    if !draft.service.recorded.stripped {
        return;
    }
    let patch = patch(draft);
    if !service_patch::is_empty(&patch) {
        let action = Action::PatchService(patch);
        draft.builder.begin_with("service/restore", action, Reason::WrittenBack);
    }
}

fn patch(draft: &Draft<'_, '_>) -> PlannedPatch {
    let recorded = &draft.service.recorded;
    PlannedPatch {
        finalizer: recorded.finalizer.then_some(FinalizerChange::Add),
        verdict: set(recorded.verdict),
        intents: set((!recorded.intents.is_empty()).then(|| recorded.intents.clone())),
        record: set(record(draft)),
        ..service_patch::empty(draft.service)
    }
}

fn set<T>(value: Option<T>) -> Edit<T> {
    value.map_or(Edit::Keep, Edit::Set)
}

/// The record as it was, if all of its addresses are seen: none of them is left out.
fn record(draft: &Draft<'_, '_>) -> Option<PlannedRecord> {
    let record = draft.service.recorded.record.as_ref()?;
    let seen = &draft.planner.observed.addresses;
    let is_whole = record.addresses.iter().all(|recorded| seen.contains_key(&recorded.id));
    is_whole.then(|| writes::record_as_it_stands(draft, record))
}
