//! Asynchronous jobs: a command is accepted, starts at once, and takes effect on the router when its time is over.
//!
//! Jobs overlap freely, as CloudStack's do. What a running job will still do is plain data (`Work`), so that the whole
//! simulator can be copied in the middle of anything.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::commands::{Call, Command};
use crate::error::{ApiError, JobFailure};
use crate::resources::account::Account;
use crate::resources::change_acl;
use crate::resources::firewall_rule::{self, FirewallRule};
use crate::resources::load_balancer_rule::{self, LoadBalancerRule};
use crate::resources::member;
use crate::resources::network_acl::AclItem;
use crate::resources::public_ip::{self, PublicIp};
use crate::table::{Key, Row, Table};
use crate::world::JobDurations;

/// All jobs and when the running ones end.
#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    table: Table<Job>,
    running: BTreeSet<(Timestamp, u64)>,
    durations: JobDurations,
}

/// One job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) account: Key<Account>,
    pub(crate) command: &'static Command,
    pub(crate) created: Timestamp,
    pub(crate) instance: Option<Instance>,
    pub(crate) state: JobState,
}

/// Where a job stands.
#[derive(Debug, Clone)]
pub(crate) enum JobState {
    Running(Work),
    Succeeded { at: Timestamp, result: Value },
    Failed { at: Timestamp, failure: JobFailure },
}

/// The object a job is about, as `jobinstancetype` and `jobinstanceid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) kind: &'static str,
    pub(crate) id: Option<String>,
}

/// Outcome of the part of an asynchronous command that happens before its job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accepted {
    /// The id that the answer shows, of create commands.
    pub(crate) id: Option<String>,
    /// The database number of what was created, or zero.
    pub(crate) number: u64,
    pub(crate) instance: Option<Instance>,
}

/// Kind of job, which decides how long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobKind {
    Associate,
    Release,
    CreateRule,
    UpdateRule,
    DeleteRule,
    Assign,
    Remove,
    Firewall,
    Acl,
    Tags,
}

/// What a job still has to do when its time is over.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Nothing more: the result is known.
    Done(Value),
    AddressAssociated {
        address: Key<PublicIp>,
        result: Value,
    },
    AddressReleased(Key<PublicIp>),
    RuleCreated {
        firewall: Option<Key<FirewallRule>>,
        result: Value,
    },
    RulePushed {
        rule: Key<LoadBalancerRule>,
        outcome: Result<Value, JobFailure>,
    },
    MembersRemoved(Key<LoadBalancerRule>),
    RuleDeleted(Key<LoadBalancerRule>),
    FirewallCreated(Key<FirewallRule>),
    FirewallDeleted(Key<FirewallRule>),
    AclCreated(Key<AclItem>),
    AclUpdated {
        item: Key<AclItem>,
        result: Value,
    },
    AclDeleted(Key<AclItem>),
}

impl Accepted {
    /// For commands that neither check nor create anything before their job.
    #[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
    pub(crate) fn nothing(_: &mut Cloud, _: &Call) -> Result<Self, ApiError> {
        Ok(Self::default())
    }
}

impl Row for Job {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Jobs {
    pub(crate) fn new(durations: JobDurations) -> Self {
        Self { table: Table::new(), running: BTreeSet::new(), durations }
    }

    pub(crate) fn find(&self, id: &str) -> Option<Key<Job>> {
        self.table.find(id)
    }

    pub(crate) fn get(&self, key: Key<Job>) -> Option<&Job> {
        self.table.get(key)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Key<Job>, &Job)> {
        self.table.iter()
    }

    /// The earliest instant at which a running job ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.running.first().map(|(end, _)| *end)
    }

    /// The id of the running job about an object.
    pub(crate) fn running_on(&self, object: &str) -> Option<&str> {
        self.running
            .iter()
            .filter_map(|(_, number)| self.table.get(Key::of(*number)))
            .find(|job| {
                let about = job.instance.as_ref().and_then(|instance| instance.id.as_deref());
                about == Some(object)
            })
            .map(|job| job.id.as_str())
    }

    /// How long jobs of a kind take.
    fn duration(&self, kind: JobKind) -> SignedDuration {
        let JobDurations {
            default,
            associate,
            release,
            create,
            update,
            delete,
            assign,
            remove,
            firewall,
            acl,
            tags,
        } = &self.durations;
        let own = match kind {
            JobKind::Associate => associate,
            JobKind::Release => release,
            JobKind::CreateRule => create,
            JobKind::UpdateRule => update,
            JobKind::DeleteRule => delete,
            JobKind::Assign => assign,
            JobKind::Remove => remove,
            JobKind::Firewall => firewall,
            JobKind::Acl => acl,
            JobKind::Tags => tags,
        };
        own.unwrap_or(*default).max(SignedDuration::ZERO)
    }
}

impl Cloud {
    /// Starts a job; one that fails at once, or takes no time, is over when this returns.
    pub(crate) fn run_job(
        &mut self,
        id: String,
        call: &Call,
        kind: JobKind,
        instance: Option<Instance>,
        started: Result<Work, JobFailure>,
    ) {
        let now = self.now;
        let (state, end) = match started {
            Ok(work) => {
                let end = now.checked_add(self.jobs.duration(kind)).unwrap_or(now);
                (JobState::Running(work), Some(end))
            }
            Err(failure) => (JobState::Failed { at: now, failure }, None),
        };
        let key = self.jobs.table.insert(Job {
            id,
            account: call.caller,
            command: call.command,
            created: now,
            instance,
            state,
        });
        if let Some(end) = end {
            self.jobs.running.insert((end, key.number()));
        }
        self.finish_jobs(now);
    }

    /// Ends all jobs due until then, in the order of their ends.
    pub(crate) fn finish_jobs(&mut self, until: Timestamp) {
        while let Some((end, number)) = self.jobs.running.first().copied() {
            if end > until {
                return;
            }
            self.jobs.running.remove(&(end, number));
            self.now = self.now.max(end);
            let key = Key::of(number);
            let Some(Job { state: JobState::Running(work), .. }) = self.jobs.table.get(key) else {
                continue;
            };
            let outcome = work.clone().finish(self);
            if let Some(job) = self.jobs.table.get_mut(key) {
                job.state = match outcome {
                    Ok(result) => JobState::Succeeded { at: end, result },
                    Err(failure) => JobState::Failed { at: end, failure },
                };
            }
        }
    }
}

impl Work {
    /// The effects of a job's end, and its result.
    fn finish(self, cloud: &mut Cloud) -> Result<Value, JobFailure> {
        match self {
            Self::Done(result) => return Ok(result),
            Self::AddressAssociated { address, result } => {
                public_ip::finish_associate(cloud, address);
                return Ok(result);
            }
            Self::AddressReleased(address) => public_ip::finish_disassociate(cloud, address),
            Self::RuleCreated { firewall, result } => {
                if let Some(firewall) = firewall {
                    firewall_rule::finish_create(cloud, firewall);
                }
                return Ok(result);
            }
            Self::RulePushed { rule, outcome } => {
                load_balancer_rule::push(cloud, rule);
                return outcome;
            }
            Self::MembersRemoved(rule) => member::finish_remove(cloud, rule),
            Self::RuleDeleted(rule) => load_balancer_rule::finish_delete(cloud, rule),
            Self::FirewallCreated(rule) => {
                firewall_rule::finish_create(cloud, rule);
                return firewall_rule::result(cloud, rule);
            }
            Self::FirewallDeleted(rule) => firewall_rule::finish_delete(cloud, rule),
            Self::AclCreated(item) => return change_acl::finish_create(cloud, item),
            Self::AclUpdated { item, result } => {
                change_acl::finish_update(cloud, item);
                return Ok(result);
            }
            Self::AclDeleted(item) => change_acl::finish_delete(cloud, item),
        }
        Ok(success())
    }
}

/// The result of a job that makes or changes no object.
pub(crate) fn success() -> Value {
    json!({"success": true})
}
