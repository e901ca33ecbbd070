//! The simulator: one request at a time, with the time of the request.
//!
//! Every call first brings the world to `now`: jobs that end until then end, in the order of their
//! ends. Then it is decided who may call (`access.rs`), whether the parameters are good
//! (`params.rs`), and the command runs.

use std::net::IpAddr;

use jiff::Timestamp;

use crate::answer::Answer;
use crate::cloud::Cloud;
use crate::commands::{Call, Command, Handler, JobHandler};
use crate::error::{ApiError, ErrorRoot};
use crate::faults::FaultPlan;
use crate::ids::is_uuid;
use crate::message::{Format, Request, Response};
use crate::object::Object;
use crate::params::Params;
use crate::resources::user::User;
use crate::table::Key;
use crate::traffic::{self, Reach, TrafficQuery};
use crate::world::{World, WorldError, build};

/// An in-memory CloudStack. Synchronous, without I/O and without a clock of its own.
#[derive(Debug, Clone)]
pub struct Simulator {
    pub(crate) cloud: Cloud,
    pub(crate) faults: FaultPlan,
    /// Whether the management server runs.
    pub(crate) up: bool,
    calls: Vec<LoggedCall>,
    acl_gates_traffic: bool,
}

/// A command that passed the role check and, if signed, the signature check. It may have failed
/// afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCall {
    /// When it came.
    pub at: Timestamp,
    /// Name of the account that sent it.
    pub account: String,
    /// Name of the command.
    pub command: &'static str,
    /// Its parameters without those of signing and formatting.
    pub params: Vec<(String, String)>,
    /// Whether the command can change something: asynchronous commands do, and a few that answer
    /// at once.
    pub mutates: bool,
    /// HTTP status of the answer; 200 of a mutating command means that its job was accepted.
    pub status: u16,
}

/// Parameters that the log leaves out, in lower case.
const UNLOGGED: &[&str] =
    &["apikey", "signature", "signatureversion", "expires", "response", "command"];

impl Simulator {
    /// A simulator that holds what a world file describes.
    ///
    /// # Errors
    /// If a name in it leads nowhere or it contradicts itself.
    pub fn new(world: &World) -> Result<Self, WorldError> {
        Ok(Self {
            cloud: build::cloud(world)?,
            faults: FaultPlan::new(world.seed),
            up: true,
            calls: Vec::new(),
            acl_gates_traffic: false,
        })
    }

    /// Answers a request as the server does over HTTP; faults of the way to it do not strike
    /// ([`Simulator::receive`]). `now` never goes back: an earlier one counts as the last. Time
    /// passes while the request waits for a lock.
    pub fn handle(&mut self, request: &Request, now: Timestamp) -> Response {
        self.advance(now);
        self.answer(request)
    }

    /// Answers a request at the time that it is.
    pub(crate) fn answer(&mut self, request: &Request) -> Response {
        let format = request.format();
        let version = &self.cloud.version;
        let command = request.exact("command").and_then(|name| Command::find(name, version));
        let outcome = self
            .cloud
            .authorize(request, command)
            .and_then(|(user, command)| self.run(user, command, &request.params));
        self.respond(command, outcome, format)
    }

    /// Runs a command as a user, by its name, without key and signature; the first user of an
    /// account has the account's name. The answer is JSON. A user that does not exist or may not
    /// log in gets the answer to an unknown key.
    pub fn call(
        &mut self,
        caller: &str,
        command: &str,
        params: &[(&str, &str)],
        now: Timestamp,
    ) -> Response {
        self.advance(now);
        let known = Command::find(command, &self.cloud.version);
        let params: Vec<(String, String)> =
            params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let outcome = match (self.user_named(caller), known) {
            (Some(user), Some(command)) => self.run_unsigned(user, command, &params),
            (_, None) => Err(ApiError::unauthorized(ErrorRoot::Error)),
            (None, Some(_)) => Err(ApiError::unauthorized(ErrorRoot::Command)),
        };
        self.respond(known, outcome, Format::Json)
    }

    fn user_named(&self, name: &str) -> Option<Key<User>> {
        let mut users = self.cloud.users.iter();
        let (key, _) = users.find(|(_, user)| user.name == name)?;
        self.cloud.may_log_in(key).then_some(key)
    }

    fn run_unsigned(
        &mut self,
        user: Key<User>,
        command: &'static Command,
        params: &[(String, String)],
    ) -> Result<Answer, ApiError> {
        let project = params.iter().find(|(name, _)| name.eq_ignore_ascii_case("projectid"));
        self.cloud.check_call(user, command, project.map(|(_, id)| id.as_str()))?;
        self.run(user, command, params)
    }

    /// The earliest instant at which a running job ends.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.cloud.jobs.next_end()
    }

    /// Brings the world to an instant without a request.
    pub fn advance(&mut self, now: Timestamp) {
        let now = self.cloud.now.max(now);
        self.cloud.finish_jobs(now);
        self.cloud.jobs.expire(now);
        self.cloud.now = now;
    }

    /// What would become of a connection, by what the router was told so far.
    pub fn reach(&self, query: &TrafficQuery) -> Reach {
        traffic::reach(&self.cloud, query, self.acl_gates_traffic)
    }

    /// The sources that may connect to a TCP port of a public IP address, as few disjoint networks,
    /// sorted: what the firewall, the rule's CIDR list and, if they gate traffic, ACLs let in
    /// together. Empty if no rule serves the port. Whether a member lives does not matter. An
    /// address that is none has no open port.
    pub fn open_cidrs(&self, address: &str, port: u16) -> Vec<String> {
        let Ok(address) = address.parse::<IpAddr>() else {
            return Vec::new();
        };
        traffic::open_sources(&self.cloud, address, port, self.acl_gates_traffic)
            .into_iter()
            .map(|net| net.to_string())
            .collect()
    }

    /// Whether ACL lists of tiers gate traffic that a router balances. In CloudStack they do not,
    /// as far as its code tells; the switch is for tests that want to hold either way.
    pub fn set_acl_gates_traffic(&mut self, gates: bool) {
        self.acl_gates_traffic = gates;
    }

    /// Whether jobs of one network take turns instead of overlapping. CloudStack's overlap; the
    /// switch is for tests that want to hold either way.
    pub fn serialise_jobs(&mut self, serial: bool) {
        self.cloud.jobs.set_serial(serial);
    }

    /// Every command that passed the checks of key and role, in order.
    pub fn calls(&self) -> &[LoggedCall] {
        &self.calls
    }

    /// Parameters, and the command itself.
    fn run(
        &mut self,
        user: Key<User>,
        command: &'static Command,
        given: &[(String, String)],
    ) -> Result<Answer, ApiError> {
        let outcome = self.run_unlogged(user, command, given);
        let params = given
            .iter()
            .filter(|(name, _)| !UNLOGGED.contains(&name.to_lowercase().as_str()))
            .cloned()
            .collect();
        let account =
            self.cloud.users.get(user).and_then(|row| self.cloud.accounts.get(row.account));
        self.calls.push(LoggedCall {
            at: self.cloud.now,
            account: account.map(|account| account.name.clone()).unwrap_or_default(),
            command: command.name,
            params,
            mutates: command.mutates(),
            status: outcome.as_ref().map_or_else(|error| error.code, |_| 200),
        });
        outcome
    }

    fn run_unlogged(
        &mut self,
        user: Key<User>,
        command: &'static Command,
        given: &[(String, String)],
    ) -> Result<Answer, ApiError> {
        let params = Params::read(given, command, &self.cloud)?;
        let caller = self.cloud.users.get(user).map(|row| row.account);
        let caller = caller.ok_or_else(|| ApiError::unauthorized(ErrorRoot::Command))?;
        let call = Call { command, caller, user, params };
        match &command.handler {
            Handler::Read(read) => read(&self.cloud, &call),
            Handler::Change(change) => change(&mut self.cloud, &call),
            Handler::Job(handler) => self.accept(handler, &call),
            Handler::Missing => Err(ApiError::internal(9999)),
        }
    }

    /// Accepts an asynchronous command. A job id of the caller's own is looked at only after a
    /// create command has made its object, which then stays.
    fn accept(&mut self, handler: &'static JobHandler, call: &Call) -> Result<Answer, ApiError> {
        let accepted = (handler.accept)(&mut self.cloud, call)?;
        let job = self.job_id(call)?;
        let id = accepted.id.clone();
        self.cloud.add_job(job.clone(), call, handler, accepted);
        Ok(Object::new().maybe("id", id).with("jobid", job).into())
    }

    fn job_id(&mut self, call: &Call) -> Result<String, ApiError> {
        let Some(asked) = call.params.filled("customjobid") else {
            return Ok(self.cloud.ids.next_id());
        };
        if !is_uuid(asked) || asked.to_lowercase() != asked {
            return Err(ApiError::invalid(format!("UUID: {asked} doesn't follow the UUID format")));
        }
        if self.cloud.jobs.find(asked).is_some() {
            return Err(ApiError::internal(9999));
        }
        Ok(asked.to_owned())
    }

    pub(crate) fn respond(
        &self,
        command: Option<&Command>,
        outcome: Result<Answer, ApiError>,
        format: Format,
    ) -> Response {
        let root = command.map_or_else(|| "errorresponse".to_owned(), Command::root);
        match outcome {
            Ok(answer) => Response::success(&root, answer, format, &self.cloud.version),
            Err(error) => Response::failure(&error, &root, format, &self.cloud.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::message::{Method, Request};
    use crate::testing::{Lab, text};

    #[test]
    fn whole_life_of_a_published_port() {
        let mut lab = Lab::slow(2);
        let network = lab.id("listNetworks", "iso");
        let address = text(
            &lab.run("associateIpAddress", &[("networkid", &network)])["ipaddress"]["ipaddress"],
        );
        assert_eq!(address, "203.0.113.10");
        let id = lab.address(&address);
        let rule = lab.rule_on(&id, "80", &[]);
        lab.assign(&rule, &["node-1", "node-2"]);
        assert!(!lab.reach("198.51.100.7", &address, 80).accepted);
        let firewall = lab.open(&id, "80", "198.51.100.0/24");
        let reach = lab.reach("198.51.100.7", &address, 80);
        assert!(reach.accepted);
        assert_eq!(reach.members.len(), 2);
        lab.run("deleteLoadBalancerRule", &[("id", &rule)]);
        lab.run("deleteFirewallRule", &[("id", &firewall)]);
        lab.run("disassociateIpAddress", &[("id", &id)]);
        assert_eq!(lab.rows("listPublicIpAddresses", &[("id", &id)]).len(), 0);
        assert_eq!(lab.simulator.calls().iter().filter(|call| call.mutates).count(), 7);
        assert_eq!(lab.simulator.next_event(), None);
    }

    #[test]
    fn the_same_seed_and_requests_give_the_same_bytes() {
        let transcript = || {
            let mut lab = Lab::slow(1);
            let rule = lab.rule("80", &[]);
            lab.assign(&rule, &["node-1"]);
            let list = lab.simulator.call("prod", "listLoadBalancerRules", &[], lab.now);
            (rule, list.body)
        };
        assert_eq!(transcript(), transcript());
    }

    #[test]
    fn checks_run_in_cloudstacks_order() {
        let mut lab = Lab::new();
        let mut ask = |params: &[(&str, &str)]| {
            let params =
                params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let request = Request { method: Method::Get, params: params.collect() };
            let response = lab.simulator.handle(&request, lab.now);
            let body: Value = serde_json::from_str(&response.body).unwrap();
            let root = body.as_object().unwrap().keys().next().unwrap().clone();
            (response.status, root)
        };
        let json = ("response", "json");
        let key = ("apiKey", "AKprod");
        let wrong = ("signature", "d3Jvbmc=");
        assert_eq!(ask(&[json]), (401, "null".to_owned()));
        assert_eq!(ask(&[json, ("command", "")]), (401, "errorresponse".to_owned()));
        assert_eq!(
            ask(&[json, ("command", "listzones"), key, wrong]),
            (401, "errorresponse".to_owned())
        );
        assert_eq!(ask(&[json, ("command", "listZones")]), (401, "listzonesresponse".to_owned()));
        assert_eq!(
            ask(&[json, ("command", "listZones"), key, wrong]),
            (401, "listzonesresponse".to_owned())
        );
        // The role is looked at before the signature.
        assert_eq!(
            ask(&[json, ("command", "listHosts"), key, wrong]),
            (432, "errorresponse".to_owned())
        );
        let good = ("signature", "kqw4XCw1MNb8tfQKTvw8f1JmKyM=");
        assert_eq!(ask(&[json, ("command", "listZones"), key, good]).0, 200);
    }

    #[test]
    fn forbidden_commands_are_refused_before_their_parameters() {
        let mut lab = Lab::new();
        for command in
            ["listManagementServers", "listManagementServersMetrics", "addResourceDetail"]
        {
            let refused = lab.refused(command, &[]);
            assert_eq!((refused.code, refused.class), (432, Some(9999)));
            assert_eq!(
                refused.text,
                format!(
                    "The API [{command}] does not exist or is not available for the account prod."
                )
            );
        }
        let refused = lab.refused("listNothings", &[]);
        assert_eq!(
            (refused.code, refused.class, refused.root.as_str()),
            (401, None, "errorresponse")
        );
    }

    #[test]
    fn the_project_role_allows_what_a_cluster_in_a_project_needs() {
        let mut lab = Lab::new();
        let project = lab.id("listProjects", "web");
        let params = [("projectid", project.as_str())];
        lab.by("kubeadmin");
        for command in [
            "listVirtualMachines",
            "listNetworks",
            "listPublicIpAddresses",
            "listLoadBalancerRules",
            "listNetworkACLs",
        ] {
            lab.ask(command, &params);
        }
        assert_eq!(lab.rows("listVirtualMachines", &[]).len(), 0);
        for command in [
            "listZones",
            "listCapabilities",
            "listVPCs",
            "listNetworkACLLists",
            "updateNetworkACLItem",
            "createTags",
            "deleteTags",
            "listTags",
            "listApis",
            "listProjects",
            "listAsyncJobs",
        ] {
            assert_eq!(lab.refused(command, &[]).code, 432, "{command}");
        }
    }

    #[test]
    fn the_project_role_publishes_a_port_of_its_project() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.5");
        let vm = lab.id("listVirtualMachines", "pnode-1");
        lab.by("kubeadmin");
        let rule = lab.rule_on(&address, "443", &[]);
        let assign = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        lab.run("assignToLoadBalancerRule", &assign);
        lab.open(&address, "443", "0.0.0.0/0");
        assert!(lab.reach("192.0.2.1", "203.0.113.5", 443).accepted);
        assert_eq!(lab.rows("listLoadBalancerRules", &[]).len(), 0);
        let listed = lab.rows("listLoadBalancerRules", &[("projectid", "-1")]);
        assert_eq!(listed[0]["project"], "web");
    }

    #[test]
    fn xml_carries_the_version_for_everybody_but_in_errors() {
        let mut lab = Lab::on("4.22.0.0");
        let request = |command: &str| Request {
            method: Method::Get,
            params: vec![("command".to_owned(), command.to_owned())],
        };
        let error = lab.simulator.handle(&request("listNetworks"), lab.now);
        assert_eq!(error.header("content-type"), Some("text/xml;charset=utf-8"));
        assert!(error.body.contains("<errorcode>401</errorcode>"), "{}", error.body);
        assert!(!error.body.contains("cloud-stack-version"));
        let old = Lab::on("4.20.0.0").simulator.handle(&request("listNetworks"), lab.now);
        assert!(old.body.contains("<listnetworksresponse cloud-stack-version=\"4.20.0.0\">"));
    }

    #[test]
    fn errors_repeat_their_text_in_a_header() {
        let mut lab = Lab::new();
        let response = lab.simulator.call("prod", "createTags", &[], lab.now);
        let text = response.header("X-Description").unwrap();
        assert!(response.body.contains(text));
        assert_eq!(response.header("Content-Type"), Some("application/json;charset=utf-8"));
    }

    #[test]
    fn the_log_names_accepted_calls_without_secrets() {
        let mut lab = Lab::new();
        let params =
            [("apiKey", "AKprod"), ("signature", "x"), ("response", "json"), ("page", "1")];
        lab.simulator.call("prod", "listZones", &params, lab.now);
        lab.simulator.call("prod", "listHosts", &[], lab.now);
        lab.rule("80", &[]);
        let calls = lab.simulator.calls();
        assert_eq!(calls[0].params, [("page".to_owned(), "1".to_owned())]);
        assert_eq!((calls[0].status, calls[0].mutates), (431, false));
        assert!(calls.iter().all(|call| call.command != "listHosts"));
        let changes: Vec<&str> =
            calls.iter().filter(|call| call.mutates).map(|call| call.command).collect();
        assert_eq!(changes, ["createLoadBalancerRule"]);
    }
}
