//! Asynchronous jobs: a command is accepted, starts at once, and takes effect on the router when
//! its time is over.
//!
//! Jobs overlap freely, as CloudStack's do; on demand those of one network take turns. What does wait is a request about an address whose row
//! a running job has locked: it is answered after the job's end, and time passes until then.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cloud::Cloud;
use crate::commands::{Call, Command, Entity, JobHandler, Kind};
use crate::error::{ApiError, JobFailure};
use crate::faults::JobFault;
use crate::resources::account::Account;
use crate::resources::network::Network;
use crate::resources::public_ip::PublicIp;
use crate::resources::user::User;
use crate::table::{Key, Row, Table};
use crate::versions::Feature;
pub(crate) use crate::work::{Work, success};
use crate::world::JobDurations;

/// All jobs and when the running ones end.
#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    table: Table<Job>,
    running: BTreeSet<(Timestamp, u64)>,
    durations: JobDurations,
    /// What goes wrong with the next job.
    fault: Option<JobFault>,
    /// Whether jobs of one network take turns.
    serial: bool,
}

/// One job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) account: Key<Account>,
    pub(crate) user: Key<User>,
    pub(crate) command: &'static Command,
    pub(crate) created: Timestamp,
    pub(crate) instance: Option<Instance>,
    pub(crate) state: JobState,
    /// The network whose jobs take turns with it, if they do.
    network: Option<Key<Network>>,
    fault: Option<JobFault>,
}

/// Where a job stands.
#[derive(Debug, Clone)]
pub(crate) enum JobState {
    /// It waits for another job of its network.
    Queued(Box<Queued>),
    Running(Work),
    Succeeded {
        at: Timestamp,
        result: Value,
    },
    Failed {
        at: Timestamp,
        failure: JobFailure,
    },
    /// It ran when the management server died.
    Died {
        at: Timestamp,
    },
}

/// How long a job that has ended is remembered (`job.expire.minutes`).
const REMEMBERED: SignedDuration = SignedDuration::from_mins(1440);

/// What it takes to start a job.
#[derive(Debug, Clone)]
pub(crate) struct Queued {
    call: Call,
    handler: &'static JobHandler,
    accepted: Accepted,
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
    /// Virtual machines and their interfaces.
    Vm,
    /// Everything that turns to no router.
    Other,
}

impl Accepted {
    /// For commands that neither check nor create anything before their job.
    #[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
    pub(crate) fn nothing(_: &mut Cloud, _: &Call) -> Result<Self, ApiError> {
        Ok(Self::default())
    }
}

impl Job {
    /// When it ended.
    fn ended(&self) -> Option<Timestamp> {
        match &self.state {
            JobState::Queued(_) | JobState::Running(_) => None,
            JobState::Succeeded { at, .. }
            | JobState::Failed { at, .. }
            | JobState::Died { at } => Some(*at),
        }
    }
}

impl Row for Job {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Jobs {
    pub(crate) fn new(durations: &JobDurations) -> Self {
        Self {
            table: Table::new(),
            running: BTreeSet::new(),
            durations: *durations,
            fault: None,
            serial: false,
        }
    }

    /// Lets jobs of one network take turns from now on, or not.
    pub(crate) fn set_serial(&mut self, serial: bool) {
        self.serial = serial;
    }

    /// Whether a job of a network runs or waits.
    fn is_busy(&self, network: Key<Network>) -> bool {
        let mut jobs = self.table.iter().filter(|(_, job)| job.network == Some(network));
        jobs.any(|(_, job)| matches!(job.state, JobState::Queued(_) | JobState::Running(_)))
    }

    fn is_running(&self, key: Key<Job>) -> bool {
        self.table.get(key).is_some_and(|job| matches!(job.state, JobState::Running(_)))
    }

    /// The job of a network that waits longest.
    fn next_queued(&self, network: Key<Network>) -> Option<Key<Job>> {
        let mut jobs = self.table.iter().filter(|(_, job)| job.network == Some(network));
        jobs.find(|(_, job)| matches!(job.state, JobState::Queued(_))).map(|(key, _)| key)
    }

    /// Sets what goes wrong with the next job.
    pub(crate) fn set_fault(&mut self, fault: Option<JobFault>) {
        self.fault = fault;
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

    /// Forgets jobs whose time is over. Their beginnings are in the order of the table.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        let is_old = |at: Timestamp| now.duration_since(at) >= REMEMBERED;
        let gone: Vec<Key<Job>> = self
            .table
            .iter()
            .take_while(|(_, job)| is_old(job.created))
            .filter(|(_, job)| job.ended().is_some_and(is_old))
            .map(|(key, _)| key)
            .collect();
        for key in gone {
            self.table.remove(key);
        }
    }

    /// The earliest instant at which a running job ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.running.first().map(|(end, _)| *end)
    }

    /// What runs and until when, by its end.
    fn running(&self) -> impl Iterator<Item = (Timestamp, &Work)> {
        self.running.iter().filter_map(|(end, number)| {
            match &self.table.get(Key::of(*number))?.state {
                JobState::Running(work) => Some((*end, work)),
                JobState::Queued(_)
                | JobState::Succeeded { .. }
                | JobState::Failed { .. }
                | JobState::Died { .. } => None,
            }
        })
    }

    fn running_jobs(&self) -> impl Iterator<Item = &Job> {
        self.running.iter().filter_map(|(_, number)| self.table.get(Key::of(*number)))
    }

    /// The id of the running job about an object.
    pub(crate) fn running_on(&self, object: &str) -> Option<&str> {
        self.running_jobs()
            .find(|job| {
                let about = job.instance.as_ref().and_then(|instance| instance.id.as_deref());
                about == Some(object)
            })
            .map(|job| job.id.as_str())
    }

    /// The id of the running release of an address.
    pub(crate) fn releasing(&self, address: Key<PublicIp>) -> Option<&str> {
        let releases = |job: &&Job| {
            matches!(job.state,
                JobState::Running(Work::AddressReleased(key)) if key == address)
        };
        self.running_jobs().find(releases).map(|job| job.id.as_str())
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
            vm,
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
            JobKind::Vm => vm,
            JobKind::Other => &None,
        };
        own.unwrap_or(*default).max(SignedDuration::ZERO)
    }
}

impl Cloud {
    /// Adds a job and starts it, unless it has to wait for its turn; one that fails at once, or takes
    /// no time, is over when this returns.
    pub(crate) fn add_job(
        &mut self,
        id: String,
        call: &Call,
        handler: &'static JobHandler,
        accepted: Accepted,
    ) {
        let fault = self.jobs.fault.take();
        let network = if self.jobs.serial { network_of(self, call) } else { None };
        let waits = network.is_some_and(|network| self.jobs.is_busy(network));
        let key = self.jobs.table.insert(Job {
            id,
            account: call.caller,
            user: call.user,
            command: call.command,
            created: self.now,
            instance: accepted.instance.clone(),
            state: JobState::Queued(Box::new(Queued { call: call.clone(), handler, accepted })),
            network,
            fault,
        });
        if !waits {
            self.start_job(key);
        }
        self.finish_jobs(self.now);
    }

    fn start_job(&mut self, key: Key<Job>) {
        let Some(Job { state: JobState::Queued(queued), fault, .. }) = self.jobs.table.get(key)
        else {
            return;
        };
        let slow = match fault {
            Some(JobFault::Slow(delay)) => *delay,
            None | Some(JobFault::Fails { .. } | JobFault::Vanishes) => SignedDuration::ZERO,
        };
        let Queued { call, handler, accepted } = (**queued).clone();
        let state = match (handler.start)(self, &call, &accepted) {
            Ok(work) => {
                let delay = work.delay(self).saturating_add(slow);
                let time = self.jobs.duration(handler.kind).saturating_add(delay);
                let end = self.now.checked_add(time).unwrap_or(self.now);
                self.jobs.running.insert((end, key.number()));
                JobState::Running(work)
            }
            Err(failure) => JobState::Failed { at: self.now, failure },
        };
        if let Some(job) = self.jobs.table.get_mut(key) {
            job.state = state;
        }
    }

    /// Starts the jobs whose turn it is after one of their network has ended.
    fn start_next(&mut self, network: Key<Network>) {
        while let Some(key) = self.jobs.next_queued(network) {
            self.start_job(key);
            if self.jobs.is_running(key) {
                return;
            }
        }
    }

    /// Lets time pass until no running job has the row of an address locked. Creations of rules and
    /// releases lock it with the request, creations of firewall rules and releases in the job too.
    pub(crate) fn wait_for_lock(&mut self, address: Key<PublicIp>) {
        if !self.version.has(Feature::AddressLock) {
            return;
        }
        let free = self
            .jobs
            .running()
            .filter(|(_, work)| work.locks(self) == Some(address))
            .map(|(end, _)| end)
            .last();
        if let Some(free) = free {
            self.finish_jobs(free);
        }
    }

    /// Stops all jobs where they are: what they stored stays, what they had yet to do is never
    /// done.
    pub(crate) fn kill_jobs(&mut self) {
        self.jobs.running.clear();
        for (_, job) in self.jobs.table.iter_mut() {
            if matches!(job.state, JobState::Queued(_) | JobState::Running(_)) {
                job.state = JobState::Died { at: self.now };
            }
        }
    }

    /// Ends all jobs due until then, in the order of their ends.
    pub(crate) fn finish_jobs(&mut self, until: Timestamp) {
        while let Some((end, number)) = self.jobs.running.first().copied() {
            if end > until {
                return;
            }
            self.now = self.now.max(end);
            let key = Key::of(number);
            let Some(Job { state: JobState::Running(work), fault, network, .. }) =
                self.jobs.table.get(key)
            else {
                self.jobs.running.remove(&(end, number));
                continue;
            };
            let (work, fault, network) = (work.clone(), fault.clone(), *network);
            let outcome = match &fault {
                Some(JobFault::Fails { code, text }) => {
                    Err(JobFailure { code: *code, text: text.clone() })
                }
                // Results show their object with the job still running.
                None | Some(JobFault::Slow(_) | JobFault::Vanishes) => work.finish(self),
            };
            self.jobs.running.remove(&(end, number));
            if fault == Some(JobFault::Vanishes) {
                self.jobs.table.remove(key);
            }
            if let Some(job) = self.jobs.table.get_mut(key) {
                job.state = match outcome {
                    Ok(result) => JobState::Succeeded { at: end, result },
                    Err(failure) => JobState::Failed { at: end, failure },
                };
            }
            if let Some(network) = network {
                self.start_next(network);
            }
        }
    }
}

/// The network that a call is about, by the first of its parameters that leads to one: what
/// CloudStack names as the job's sync object.
fn network_of(cloud: &Cloud, call: &Call) -> Option<Key<Network>> {
    call.command.params.iter().find_map(|param| {
        let Kind::Id(entity) = param.kind else {
            return None;
        };
        let number = call.params.key::<()>(param.name)?.number();
        match entity {
            Entity::Network => Some(Key::of(number)),
            Entity::Address => cloud.addresses.get(Key::of(number))?.network,
            Entity::LoadBalancerRule => Some(cloud.rules.get(Key::of(number))?.network),
            Entity::FirewallRule => cloud.firewall_rules.get(Key::of(number))?.network,
            Entity::Account
            | Entity::AclItem
            | Entity::AclList
            | Entity::Domain
            | Entity::Job
            | Entity::PortForward
            | Entity::Project
            | Entity::Stickiness
            | Entity::User
            | Entity::VirtualMachine
            | Entity::Vpc
            | Entity::VpcOffering
            | Entity::Zone => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, rule_params, text};

    #[test]
    fn a_job_is_pending_until_its_time_is_over() {
        let mut lab = Lab::slow(3);
        let address = lab.address("203.0.113.2");
        let params = rule_params(&address, "80", &[]);
        let accepted = lab.ask("createLoadBalancerRule", &params);
        let job = text(&accepted["jobid"]);
        let pending = lab.ask("queryAsyncJobResult", &[("jobid", &job)]);
        assert_eq!(pending["jobstatus"], 0);
        assert_eq!(pending["managementservername"], "ms1");
        assert!(pending.get("jobresult").is_none() && pending.get("completed").is_none());
        assert_eq!(lab.rows("listAsyncJobs", &[]).len(), 1);
        assert!(lab.simulator.next_event().is_some());
        lab.wait(3);
        let done = lab.ask("queryAsyncJobResult", &[("jobid", &job)]);
        assert_eq!(done["jobstatus"], 1);
        assert_eq!(done["jobinstancetype"], "FirewallRule");
        assert_eq!(done["jobinstanceid"], accepted["id"]);
        assert_eq!(done["completed"], "2026-12-01T20:00:03+0000");
        assert!(done.get("managementserverid").is_none());
        assert_eq!(lab.rows("listAsyncJobs", &[]).len(), 0);
    }

    #[test]
    fn jobs_are_visible_to_their_account_only() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let accepted = lab.ask("createLoadBalancerRule", &rule_params(&address, "80", &[]));
        let job = text(&accepted["jobid"]);
        let refused = lab.by("other").refused("queryAsyncJobResult", &[("jobid", &job)]);
        assert_eq!((refused.code, refused.class), (531, Some(4365)));
    }

    #[test]
    fn jobs_are_found_by_their_object_from_4_22_1_on() {
        let by_object = |release: &str| {
            let mut lab = Lab::on(release);
            let rule = lab.rule("80", &[]);
            let params = [("resourceid", rule.as_str()), ("resourcetype", "FirewallRule")];
            let response = lab.simulator.call("prod", "queryAsyncJobResult", &params, lab.now);
            response.status
        };
        assert_eq!(by_object("4.22.1"), 200);
        assert_eq!(by_object("4.22.0"), 431);
    }

    #[test]
    fn a_job_id_of_the_caller_is_used_once_and_objects_are_made_before_it_is_checked() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let id = "357affd4-2cb4-4adc-96fc-33dd2a53caae";
        let with =
            |port: &'static str, id: &'static str| [("publicport", port), ("customjobid", id)];
        let first = rule_params(&address, "80", &with("80", id));
        assert_eq!(lab.ask("createLoadBalancerRule", &first)["jobid"], id);
        let again = rule_params(&address, "81", &with("81", id));
        assert_eq!(lab.refused("createLoadBalancerRule", &again).code, 530);
        let upper =
            rule_params(&address, "82", &with("82", "357AFFD4-2CB4-4ADC-96FC-33DD2A53CAAE"));
        assert_eq!(lab.refused("createLoadBalancerRule", &upper).code, 431);
        assert_eq!(lab.column("listLoadBalancerRules", &[], "publicport"), ["80", "81", "82"]);
        // A request that was refused before leaves the id free.
        let other = "457affd4-2cb4-4adc-96fc-33dd2a53caae";
        let taken = rule_params(&address, "80", &with("80", other));
        assert_eq!(lab.refused("createLoadBalancerRule", &taken).code, 537);
        assert_eq!(lab.refused("queryAsyncJobResult", &[("jobid", other)]).code, 431);
        let good = rule_params(&address, "90", &with("90", other));
        assert_eq!(lab.ask("createLoadBalancerRule", &good)["jobid"], other);
    }

    #[test]
    fn jobs_overlap_and_end_in_the_order_of_their_ends() {
        let mut lab = Lab::slow(5);
        let one = lab.rule("80", &[]);
        let two = lab.rule("81", &[]);
        lab.wait(10);
        let vm = lab.id("listVirtualMachines", "node-1");
        for rule in [&one, &two] {
            let params = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
            lab.ask("assignToLoadBalancerRule", &params);
            lab.wait(1);
        }
        assert_eq!(lab.rows("listAsyncJobs", &[]).len(), 2);
        lab.wait(3);
        assert_eq!(lab.listed_rule(&one)["state"], "Active");
        assert_eq!(lab.listed_rule(&two)["state"], "Add");
        lab.wait(1);
        assert_eq!(lab.listed_rule(&two)["state"], "Active");
    }

    #[test]
    fn jobs_of_one_network_take_turns_on_demand() {
        let mut lab = Lab::slow(5);
        let rule = lab.rule("80", &[]);
        let other = lab.rule("81", &[]);
        let item = lab.id("listNetworkACLLists", "custom");
        lab.simulator.serialise_jobs(true);
        let vm = lab.id("listVirtualMachines", "node-1");
        let assign = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        let bad = [("id", rule.as_str()), ("cidrlist", "here")];
        let update = [("id", other.as_str()), ("algorithm", "source")];
        let elsewhere = [("aclid", item.as_str()), ("protocol", "tcp")];
        let jobs = [
            ("assignToLoadBalancerRule", &assign),
            ("updateLoadBalancerRule", &bad),
            ("updateLoadBalancerRule", &update),
            ("createNetworkACL", &elsewhere),
        ]
        .map(|(command, params)| text(&lab.ask(command, params)["jobid"]));
        let statuses = |lab: &mut Lab| {
            jobs.each_ref().map(|job| {
                let answer = lab.ask("queryAsyncJobResult", &[("jobid", job)]);
                answer["jobstatus"].as_u64().unwrap()
            })
        };
        assert_eq!(lab.rows("listAsyncJobs", &[]).len(), 4);
        assert_eq!(lab.listed_rule(&other)["algorithm"], "roundrobin");
        lab.wait(5);
        assert_eq!(statuses(&mut lab), [1, 2, 0, 1]);
        assert_eq!(lab.listed_rule(&other)["algorithm"], "source");
        lab.wait(5);
        assert_eq!(statuses(&mut lab), [1, 2, 1, 1]);
    }

    #[test]
    fn time_never_goes_back() {
        let mut lab = Lab::slow(5);
        lab.wait(60);
        let rule = lab.rule("80", &[]);
        lab.now = "2020-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(lab.listed_rule(&rule)["publicport"], "80");
        assert!(lab.simulator.next_event().is_none());
    }
}
