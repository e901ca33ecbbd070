//! The plan of a Service that wants no load balancer any more: in deletion, of another type, or of
//! another class after it was ours.

use crate::model::service::{Lifecycle, Service};
use crate::plan::Planned;
use crate::plan::action::{Action, Edit, PlannedPatch};
use crate::plan::builder::After;
use crate::plan::draft::Draft;
use crate::plan::planner::Planner;
use crate::plan::reason::Reason;
use crate::plan::report::Note;
use crate::plan::service_patch;
use crate::plan::standing::{Basis, Standing, has_unrecorded_address};
use crate::plan::writes;
use crate::plan::{intent, release};

/// Plans the removal of everything that is the Service's.
pub(super) fn plan<'a>(
    planner: &Planner<'a>,
    service: &Service,
    standing: &Standing<'a>,
) -> Planned {
    let mut draft = Draft::new(planner, service, standing);
    if standing.is_blank() && !service.recorded.finalizer && standing.rules.is_empty() {
        return Planned::nothing(service.key.clone());
    }
    let reason = match service.lifecycle {
        Lifecycle::Deleting => Reason::ServiceDeleted,
        Lifecycle::OtherType | Lifecycle::OtherClass | Lifecycle::Wanted => Reason::TypeChanged,
    };
    let mut through = After::new();
    for holding in &standing.addresses {
        through.extend(release::leave_address(&mut draft, holding, &After::new(), &reason));
    }
    through.extend(release::close_items_without_rule(&mut draft, |_| false, |_| reason.clone()));
    through.extend(intent::settle(&mut draft, &After::new()));
    if may_finish(&mut draft) {
        let mut patch = service_patch::farewell(service);
        if writes_proof(&draft) {
            patch.record = Edit::Remove;
        }
        writes::add(&mut draft, "service/finish", patch, &through, Reason::NothingLeft);
    }
    keep_proof(&mut draft);
    draft.finish()
}

/// The finalizer stays while an associate may be running, and until the verdict on a shared
/// address was handed to a Service that goes on using it.
fn may_finish(draft: &mut Draft<'_, '_>) -> bool {
    let running: Vec<_> = intent::unanswered(draft.standing).map(|intent| &intent.job).collect();
    if !running.is_empty() {
        for job in running {
            draft.note(Note::AssociateRunning { job: job.clone() });
        }
        return false;
    }
    for holding in &draft.standing.addresses {
        if let Some(note) = release::hand_over_pending(draft.planner, draft.service, holding) {
            draft.note(note);
            return false;
        }
    }
    true
}

/// What proves the Service's addresses goes with its rules, where there is no record: it is
/// recorded before they go.
fn keep_proof(draft: &mut Draft<'_, '_>) {
    if !writes_proof(draft) {
        return;
    }
    let record = writes::record_of_standing(draft);
    let patch = PlannedPatch { record: Edit::Set(record), ..service_patch::empty(draft.service) };
    let reason = Reason::RecordBeforeUse;
    draft.builder.begin_with("service/record", Action::PatchService(patch), reason);
}

/// Once all other steps stand: whether there is something to prove, and no record that does.
fn writes_proof(draft: &Draft<'_, '_>) -> bool {
    let from_traces = matches!(draft.standing.basis, Basis::Marks | Basis::Adoption);
    let observed = draft.planner.observed;
    let associated = has_unrecorded_address(draft.service, draft.standing, observed);
    (from_traces || associated) && draft.keeps_records() && draft.builder.touches_cloud()
}
