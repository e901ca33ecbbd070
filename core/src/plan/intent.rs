//! Associate calls that may be out: what they left, and which of them stay written on the Service.

use jiff::{Timestamp, ToSpan as _};
use uuid::Uuid;

use crate::ids::JobId;
use crate::model::record::{Intent, Intents};
use crate::model::service::Service;
use crate::plan::action::{Action, DisassociateIpAddress, Edit};
use crate::plan::builder::After;
use crate::plan::draft::Draft;
use crate::plan::reason::Reason;
use crate::plan::report::Note;
use crate::plan::service_patch;
use crate::plan::standing::{IntentState, Standing};

/// A fresh intent. The job id is new for every instant, and for the same instant if an earlier
/// intent stands there: a job id is never sent twice.
pub(super) fn fresh(service: &Service, now: Timestamp) -> Intent {
    let earlier = service.recorded.intents.as_slice().first().map(|intent| intent.job.to_string());
    let name = format!("associate {now} {} {}", service.uid, earlier.unwrap_or_default());
    let whole_seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Intent {
        job: JobId::from(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())),
        at: whole_seconds,
        service: service.uid.clone(),
    }
}

/// `expires` of the associate request: 10 minutes after the intent.
pub(super) fn expiry(intent: &Intent) -> Timestamp {
    intent.at.checked_add(10.minutes()).unwrap_or(Timestamp::MAX)
}

/// Releases what calls left half-made, once `after` is done, and tells of those that nobody can
/// answer any more.
pub(super) fn settle(draft: &mut Draft<'_, '_>, after: &After) -> After {
    let mut steps = After::new();
    for (intent, state) in &draft.standing.intents {
        match state {
            IntentState::Over { leftover: Some(id) } => {
                let address = id.clone();
                draft.builder.work_on([address.clone()]);
                let action = Action::DisassociateIpAddress(DisassociateIpAddress { address });
                let reason = Reason::AssociateUnfinished;
                steps.insert(draft.builder.add_aside("address/leftover", action, after, reason));
            }
            IntentState::Lost => draft.note(Note::AssociateLost { job: intent.job.clone() }),
            IntentState::Over { leftover: None }
            | IntentState::Open
            | IntentState::Unanswered
            | IntentState::Done(_) => {}
        }
    }
    steps
}

/// The calls that may still make an address.
pub(super) fn unanswered<'s>(standing: &'s Standing<'_>) -> impl Iterator<Item = &'s Intent> {
    let unanswered =
        |state: &IntentState| matches!(state, IntentState::Open | IntentState::Unanswered);
    standing.intents.iter().filter(move |(_, state)| unanswered(state)).map(|(intent, _)| intent)
}

/// The intents that stay until another plan: unanswered ones, and those of which something
/// half-made is left.
pub(super) fn unsettled<'s>(standing: &'s Standing<'_>) -> impl Iterator<Item = &'s Intent> {
    let settled = |state: &IntentState| match state {
        IntentState::Open | IntentState::Unanswered => false,
        IntentState::Over { leftover } => leftover.is_none(),
        IntentState::Done(_) | IntentState::Lost => true,
    };
    standing.intents.iter().filter(move |(_, state)| !settled(state)).map(|(intent, _)| intent)
}

/// The change that leaves these intents, the latest first.
pub(super) fn edit<'i>(
    service: &Service,
    wanted: impl IntoIterator<Item = &'i Intent>,
) -> Edit<Intents> {
    let recorded = &service.recorded;
    let wanted: Intents = wanted.into_iter().cloned().collect();
    if wanted.is_empty() {
        service_patch::remove(!recorded.intents.is_empty())
    } else if wanted == recorded.intents {
        Edit::Keep
    } else {
        Edit::Set(wanted)
    }
}
