//! queryAsyncJobResult and listAsyncJobs.

use serde_json::json;

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner};
use crate::commands::Handler;
use crate::commands::{Call, Entity, Kind, Param, may, since};
use crate::error::ApiError;
use crate::jobs::{Job, JobState};
use crate::lists::{answer, equal};
use crate::object::{Object, date};
use crate::resources::account::account_text;
use crate::table::Key;
use crate::versions::Feature;

pub(crate) const QUERY_PARAMS: &[Param] = &[
    may("jobid", Kind::Id(Entity::Job)),
    since("resourceid", Kind::Text, "4.22.1"),
    since("resourcetype", Kind::Text, "4.22.1"),
];

/// Kinds of objects by which a job can be looked up.
const INSTANCE_KINDS: &[&str] =
    &["FirewallRule", "IpAddress", "NetworkAclItem", "VirtualMachine", "Vpc", "Network"];

/// queryAsyncJobResult: jobs of one's own account, and of those that an admin administers.
pub(crate) fn query(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let key = match call.params.key::<Job>("jobid") {
        Some(key) => key,
        None => by_resource(cloud, call)?,
    };
    let job =
        cloud.jobs.get(key).filter(|job| cloud.may_use(call.caller, Owner::Account(job.account)));
    match job {
        Some(job) => Ok(json(cloud, job).into()),
        None => Err(ApiError::new(
            531,
            4365,
            format!(
                "Account {} is not authorized to see job id={}",
                account_text(cloud, call.caller),
                key.number()
            ),
        )),
    }
}

/// The newest job about an object.
fn by_resource(cloud: &Cloud, call: &Call) -> Result<Key<Job>, ApiError> {
    if !cloud.version.has(Feature::JobByResource) {
        return Err(ApiError::parameter(
            "Unable to execute API command queryasyncjobresult due to missing parameter jobid",
        ));
    }
    let (Some(id), Some(kind)) =
        (call.params.filled("resourceid"), call.params.filled("resourcetype"))
    else {
        return Err(ApiError::invalid(
            "Expected parameter job id or parameters resource type and resource id",
        ));
    };
    if !INSTANCE_KINDS.iter().any(|known| equal(known, kind)) {
        return Err(ApiError::invalid("Invalid resourcetype"));
    }
    cloud
        .jobs
        .iter()
        .rev()
        .find(|(_, job)| {
            job.instance.as_ref().is_some_and(|instance| {
                equal(instance.kind, kind)
                    && instance.id.as_ref().is_some_and(|about| about.eq_ignore_ascii_case(id))
            })
        })
        .map(|(key, _)| key)
        .ok_or_else(|| ApiError::invalid("Unable to find a job for the resource"))
}

/// listAsyncJobs: jobs in progress only.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let rows: Vec<_> = cloud
        .jobs
        .iter()
        .filter(|(_, job)| {
            job.account == call.caller
                && matches!(job.state, JobState::Queued(_) | JobState::Running(_))
        })
        .collect();
    answer(cloud, call, "asyncjobs", rows, |(_, job)| json(cloud, job))
}

fn json<'a>(cloud: &'a Cloud, job: &'a Job) -> Object<'a> {
    let class = match &job.command.handler {
        Handler::Job(handler) => handler.class,
        Handler::Read(_) | Handler::Change(_) | Handler::Missing => "",
    };
    let account = cloud.accounts.get(job.account);
    let instance = job.instance.as_ref();
    let owner = cloud.owner_fields(Owner::Account(job.account)).without(&["domain"]);
    let object = Object::new()
        .merge(owner)
        .maybe("accountid", account.map(|account| account.id.as_str()))
        .maybe("userid", cloud.users.get(job.user).map(|user| user.id.as_str()))
        .with("cmd", format!("org.apache.cloudstack.api.command.{class}"))
        .with("jobid", job.id.as_str())
        .with("jobprocstatus", 0)
        .maybe("jobinstancetype", instance.map(|instance| instance.kind))
        .maybe("jobinstanceid", instance.and_then(|instance| instance.id.as_deref()))
        .with("created", date(job.created));
    let shown = match &job.state {
        JobState::Queued(_) | JobState::Running(_) => {
            object.with("jobstatus", 0).with("jobresultcode", 0).merge(server(cloud))
        }
        JobState::Succeeded { at, result } => object
            .with("jobstatus", 1)
            .with("jobresultcode", 0)
            .with("jobresulttype", "object")
            .with("jobresult", result)
            .with("completed", date(*at)),
        JobState::Failed { at, failure } => object
            .with("jobstatus", 2)
            .with("jobresultcode", failure.code)
            .with("jobresulttype", "object")
            .with("jobresult", json!({"errorcode": failure.code, "errortext": failure.text}))
            .with("completed", date(*at)),
        JobState::Died { at } => object
            .with("jobstatus", 2)
            .with("jobresultcode", 530)
            .merge(server(cloud))
            .with("completed", date(*at)),
    };
    shown.of_release("asyncjobs", &cloud.version)
}

/// The management server that runs a job, or died with it.
fn server(cloud: &Cloud) -> Object<'_> {
    Object::new()
        .with("managementserverid", cloud.server_id.as_str())
        .with("managementservername", "ms1")
}
