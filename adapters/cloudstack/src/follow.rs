//! Following jobs: to the end, or until patience is over.
//!
//! A job that outlives the patience is remembered with the object that it changes. Until it has
//! ended nothing else is sent for that object: two jobs on one rule can wedge it for good
//! (observed). The call after its end is refused once more, so that the world is read again.

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::job::JobStep;
use ccm_core::ids::JobId;
use tracing::{debug, warn};

use crate::calls::Change;
use crate::client::Client;
use crate::command::Command;
use crate::error::{Failure, call_error, decode_error};
use crate::jobs::{Following, JobAnswer, JobOutcome};
use crate::wire::{Runtime, Transport, between};

const QUERY: Command = Command::QueryAsyncJobResult;

impl<T: Transport, R: Runtime> Client<T, R> {
    /// Asks for a job until it is over; the answer says how it ended.
    pub(crate) async fn follow(
        &self,
        change: &Change,
        job: &JobId,
        lost: Option<Failure>,
    ) -> Result<JobAnswer, CallError> {
        let began = self.runtime.now();
        self.meter.job_began(change.command);
        let answer = self.follow_to_its_end(change, job, lost).await;
        self.meter.job_ended(change.command, between(began, self.runtime.now()));
        answer
    }

    async fn follow_to_its_end(
        &self,
        change: &Change,
        job: &JobId,
        lost: Option<Failure>,
    ) -> Result<JobAnswer, CallError> {
        let command = change.command;
        let now = self.runtime.now();
        let (patience, lost_patience) = (self.options.job_patience, self.options.lost_patience);
        let mut following = Following::new(now, lost.is_none(), patience, lost_patience);
        let mut at = following.first_poll(now);
        loop {
            self.runtime.sleep_until(at).await;
            let answer = match self.query(job).await {
                Ok(answer) => Some(answer),
                Err(error) if error.fault == Fault::Permission => {
                    let message = format!(
                        "its job {job} can't be followed, its outcome is unknown: {}",
                        error.message
                    );
                    let fault = Fault::Permission;
                    return Err(call_error(command, fault, Effect::Unknown, message));
                }
                Err(error) => {
                    debug!(%error, "job unclear");
                    None
                }
            };
            match (following.handle(self.runtime.now(), answer.as_ref()), answer) {
                (JobStep::Succeeded | JobStep::Failed, Some(answer)) => return Ok(answer),
                (JobStep::PollAt(next), _) => at = next,
                (JobStep::TimedOut | JobStep::Succeeded | JobStep::Failed, _) => {
                    let seen = following.was_seen();
                    if seen {
                        self.note_unfinished(change, job);
                    }
                    return Err(self.never_ended(command, job, lost, seen));
                }
            }
        }
    }

    fn never_ended(
        &self,
        command: Command,
        job: &JobId,
        lost: Option<Failure>,
        seen: bool,
    ) -> CallError {
        let unknown = |fault, message| call_error(command, fault, Effect::Unknown, message);
        match lost {
            Some(failure) if !seen => {
                let cause = failure.into_error(command).message;
                let seconds = self.options.lost_patience.as_secs();
                let message = format!(
                    "{cause}; the server did not know its job {job} for {seconds} s, \
                     so nobody knows whether it was carried out"
                );
                unknown(Fault::Transient, message)
            }
            Some(_) | None => {
                let seconds = self.options.job_patience.as_secs();
                let message =
                    format!("its job {job} did not end within {seconds} s, its outcome is unknown");
                unknown(Fault::Cloud, message)
            }
        }
    }

    /// Asks for a job once.
    pub(crate) async fn query(&self, job: &JobId) -> Result<JobAnswer, CallError> {
        let params = vec![("jobid", job.to_string())];
        let answer = self.ask(QUERY, &params).await;
        let object = answer.map_err(|failure| failure.into_error(QUERY))?;
        JobAnswer::read(&object).map_err(|error| decode_error(QUERY, &error))
    }

    /// Remembers a job that outlives our patience.
    fn note_unfinished(&self, change: &Change, job: &JobId) {
        let Some(object) = change.target() else {
            return;
        };
        warn!(command = change.command.name(), object, %job, "the job goes on, nothing else is sent");
        let mut learned = self.learned();
        learned.unfinished.insert(object.to_owned(), job.clone());
    }

    /// Refuses a call for an object that an earlier job may be changing still.
    pub(crate) async fn refuse_while_unfinished(&self, change: &Change) -> Result<(), CallError> {
        let Some(object) = change.target() else {
            return Ok(());
        };
        let unfinished = self.learned().unfinished.get(object).cloned();
        let Some(job) = unfinished else {
            return Ok(());
        };
        let refused = |effect, what: &str| {
            let message = format!("an earlier job {job} on {object} {what}");
            Err(call_error(change.command, Fault::Transient, effect, message))
        };
        let ended = match self.query(&job).await {
            Ok(answer) => answer.outcome != JobOutcome::Pending,
            // Not known any more: the server forgets jobs a day after their end.
            Err(error) => error.code == Some(431),
        };
        if !ended {
            return refused(Effect::No, "has not ended, so nothing is sent beside it");
        }
        self.learned().unfinished.remove(object);
        refused(Effect::Unknown, "has ended meanwhile, so the object must be read again")
    }
}
