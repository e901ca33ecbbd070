//! What queryAsyncJobResult says of a job, and following one with the core's [`JobWait`]. Pure.

use std::time::Duration;

use ccm_core::exec::job::{JobStatus, JobStep, JobWait};
use ccm_core::ids::ResourceId;
use jiff::Timestamp;
use serde_json::Value;

use crate::envelope::{Object, ServerError, job_error};
use crate::fields::{DecodeError, Fields};
use crate::wire::later;

/// The answer of queryAsyncJobResult.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobAnswer {
    /// How it stands.
    pub(crate) outcome: JobOutcome,
    /// `jobinstanceid`: on create jobs the object, where the server tells (observed: not on assign,
    /// remove, update and delete of load balancer rules).
    pub(crate) instance: Option<String>,
    result: Option<Value>,
}

/// `jobstatus`, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    /// 0.
    Pending,
    /// 1.
    Succeeded,
    /// 2, or 3 (cancelled).
    Failed {
        /// `jobresultcode`; if there is none, 530, that of errors without a name.
        code: u16,
        /// Of `jobresult`; absent after a restart of the management server.
        error: Option<ServerError>,
    },
}

impl JobAnswer {
    /// Reads the inside of `queryasyncjobresultresponse`.
    pub(crate) fn read(object: &Object) -> Result<Self, DecodeError> {
        let fields = Fields::inside("async job", object);
        let result = object.get("jobresult").filter(|value| value.is_object());
        let outcome = match fields.number::<u64>("jobstatus")? {
            0 => JobOutcome::Pending,
            1 if says_failure(result)? => {
                JobOutcome::Failed { code: 530, error: Some(job_error(&Object::new(), 530)) }
            }
            1 => JobOutcome::Succeeded,
            2 | 3 => {
                let code = fields.optional_number("jobresultcode")?.unwrap_or(530);
                let result = result.and_then(Value::as_object);
                JobOutcome::Failed { code, error: result.map(|result| job_error(result, code)) }
            }
            _ => return Err(fields.error("jobstatus", "0, 1 or 2")),
        };
        Ok(Self {
            outcome,
            instance: fields
                .optional_id("jobinstanceid", |text| ResourceId::parse(text).ok())?
                .map(String::from),
            result: result.cloned(),
        })
    }

    /// As the core's state machine takes it.
    pub(crate) fn status(&self) -> JobStatus {
        match self.outcome {
            JobOutcome::Pending => JobStatus::Pending,
            JobOutcome::Succeeded => JobStatus::Succeeded,
            JobOutcome::Failed { .. } => JobStatus::Failed,
        }
    }

    /// The object in `jobresult` under `name`.
    pub(crate) fn result_object(
        &self,
        kind: &'static str,
        name: &'static str,
    ) -> Option<Fields<'_>> {
        let result = self.result.as_ref()?.as_object()?;
        Fields::inside(kind, result).object(kind, name)
    }

    /// The id of what a create made: in its result, or `jobinstanceid`.
    pub(crate) fn created(&self, name: &'static str) -> Option<&str> {
        let named =
            self.result_object("job result", name).and_then(|fields| fields.text("id").ok());
        named.or(self.instance.as_deref())
    }

    /// A job succeeded and does not say what it made.
    pub(crate) fn without_result(&self, name: &'static str) -> DecodeError {
        let empty = Object::new();
        let result = self.result.as_ref().and_then(Value::as_object);
        Fields::inside("job result", result.unwrap_or(&empty)).error(name, "an object with an id")
    }
}

/// `{"success":false}`: no server seen says so, and it is not taken for a success.
fn says_failure(result: Option<&Value>) -> Result<bool, DecodeError> {
    let result = result.and_then(Value::as_object);
    let success = result
        .map(|result| Fields::inside("job result", result).optional_flag("success"))
        .transpose()?;
    Ok(success.flatten() == Some(false))
}

/// Following one job: how long it may take, and how long it may stay unknown.
///
/// A job that the server does not know proves nothing while its request may be under way
/// (observed): an answer can be lost on its way back before the job is made. So a lost request is
/// asked for until `lost_patience` is over, a job that was seen until `patience` is.
#[derive(Debug)]
pub(crate) struct Following {
    wait: JobWait,
    seen: bool,
    lost_until: Timestamp,
}

impl Following {
    /// Starts at `now`; `accepted` if the server's answer named the job.
    pub(crate) fn new(
        now: Timestamp,
        accepted: bool,
        patience: Duration,
        lost_patience: Duration,
    ) -> Self {
        Self {
            wait: JobWait::new(now, patience),
            seen: accepted,
            lost_until: later(now, lost_patience),
        }
    }

    /// When to ask first.
    pub(crate) fn first_poll(&self, now: Timestamp) -> Timestamp {
        self.wait.first_poll(now)
    }

    /// Takes an answer; `None` if the question failed or the job is not known.
    pub(crate) fn handle(&mut self, now: Timestamp, answer: Option<&JobAnswer>) -> JobStep {
        self.seen |= answer.is_some();
        let status = answer.map_or(JobStatus::Unclear, JobAnswer::status);
        if !self.seen && now >= self.lost_until {
            return JobStep::TimedOut;
        }
        match self.wait.handle_status(now, status) {
            JobStep::PollAt(at) if !self.seen => JobStep::PollAt(at.min(self.lost_until)),
            step @ (JobStep::PollAt(_)
            | JobStep::Succeeded
            | JobStep::Failed
            | JobStep::TimedOut) => step,
        }
    }

    /// Whether the server ever knew the job.
    pub(crate) fn was_seen(&self) -> bool {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Result<JobAnswer, DecodeError> {
        JobAnswer::read(value.as_object().unwrap())
    }

    #[test]
    fn pending_succeeded_failed_as_recorded() {
        let pending = json!({"cmd": "x", "jobprocstatus": 0, "jobresultcode": 0, "jobid": "j1",
            "jobstatus": 0, "managementserverid": "m"});
        assert_eq!(read(&pending).unwrap().outcome, JobOutcome::Pending);

        let created = json!({"jobstatus": 1, "jobresultcode": 0, "jobresulttype": "object",
            "jobresult": {"loadbalancer": {"id": "r1", "state": "Add"}},
            "jobinstancetype": "FirewallRule", "jobinstanceid": "r1"});
        let created = read(&created).unwrap();
        assert_eq!(created.status(), JobStatus::Succeeded);
        assert_eq!(created.created("loadbalancer"), Some("r1"));
        assert_eq!(created.created("firewallrule"), Some("r1"));

        let failed = json!({"jobstatus": 2, "jobresultcode": 530, "jobresulttype": "object",
            "jobresult": {"errorcode": 530, "errortext": "Failed to delete load balancer"}});
        let JobOutcome::Failed { code, error } = read(&failed).unwrap().outcome else {
            panic!("not failed");
        };
        assert_eq!((code, error.unwrap().text.as_str()), (530, "Failed to delete load balancer"));
    }

    #[test]
    fn a_job_that_died_with_its_server_has_no_result() {
        let value = json!({"jobstatus": 2, "jobresultcode": 530, "managementserverid": "m",
            "completed": "2026-12-01T19:57:03+0000", "jobid": "j1"});
        let outcome = read(&value).unwrap().outcome;
        assert_eq!(outcome, JobOutcome::Failed { code: 530, error: None });
    }

    #[test]
    fn odd_job_answers() {
        assert!(read(&json!({})).is_err());
        assert!(read(&json!({"jobstatus": 9})).is_err());
        let no_success = json!({"jobstatus": 1, "jobresult": {"success": false}});
        assert_eq!(read(&no_success).unwrap().status(), JobStatus::Failed);
        assert_eq!(read(&json!({"jobstatus": "1"})).unwrap().status(), JobStatus::Succeeded);
        let text = json!({"jobstatus": 2, "jobresult": "gone"});
        let outcome = read(&text).unwrap().outcome;
        assert_eq!(outcome, JobOutcome::Failed { code: 530, error: None });
        let empty = read(&json!({"jobstatus": 1})).unwrap();
        assert_eq!(empty.created("loadbalancer"), None);
        assert!(empty.without_result("loadbalancer").to_string().contains("loadbalancer"));
    }

    #[test]
    fn an_unknown_job_is_given_up_sooner_than_a_seen_one() {
        let start = Timestamp::UNIX_EPOCH;
        let ends_after = |accepted: bool, seen_at: Option<u64>| {
            let mut following =
                Following::new(start, accepted, Duration::from_mins(10), Duration::from_mins(2));
            let mut now = following.first_poll(start);
            let pending = read(&json!({"jobstatus": 0})).unwrap();
            loop {
                let seconds = crate::wire::between(start, now).as_secs();
                let seen = seen_at.is_some_and(|from| seconds >= from);
                match following.handle(now, seen.then_some(&pending)) {
                    JobStep::PollAt(at) => now = at,
                    JobStep::TimedOut => return seconds,
                    over @ (JobStep::Succeeded | JobStep::Failed) => panic!("{over:?}"),
                }
            }
        };
        assert_eq!(ends_after(false, None), 120);
        assert_eq!(ends_after(true, None), 600);
        assert_eq!(ends_after(false, Some(60)), 600);
    }
}
