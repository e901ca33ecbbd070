//! Faults by command: how often, how likely, and what happens.
//!
//! They strike between the connection and the command, so that what a client sees is all there is:
//! an answer, half an answer, or none.

use jiff::SignedDuration;

use crate::cloud::Cloud;
use crate::commands::{Command, Handler};
use crate::error::{ApiError, ErrorRoot};
use crate::faults::PageFault;
use crate::ids::IdSource;
use crate::message::{NoAnswer, Request, Response};
use crate::simulator::Simulator;

/// A fault and when it strikes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Exact name of the command that it strikes; `None` strikes all.
    pub command: Option<String>,
    /// What happens.
    pub kind: FaultKind,
    /// How many requests it strikes; `None` strikes until the faults are cleared.
    pub times: Option<u32>,
    /// How many of a hundred requests it strikes, by the world's seed.
    pub percent: u8,
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// It is not carried out.
    Before(Mishap),
    /// It is carried out, but its answer does not arrive.
    After(Mishap),
    /// Its list shows something else than is there.
    Page(PageFault),
    /// The job that it starts goes wrong.
    Job(JobFault),
}

/// What comes in place of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mishap {
    /// The connection ends without a byte.
    Closed,
    /// Nothing, for longer than anybody waits.
    Silence,
    /// An error in CloudStack's form.
    Error {
        /// HTTP status and `errorcode`.
        code: u16,
        /// `errortext`.
        text: String,
    },
    /// Anything else, as something between client and server would send it.
    Body {
        /// HTTP status.
        status: u16,
        /// The body.
        body: String,
    },
}

/// What is wrong with a job. One that fails with its request's start is not struck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobFault {
    /// It takes so much longer.
    Slow(SignedDuration),
    /// It fails at its end. What it stored at its start stays, nothing is pushed or undone.
    Fails {
        /// `jobresultcode`.
        code: u16,
        /// `errortext`.
        text: String,
    },
    /// It is carried out, and at its end the server knows nothing of it any more.
    Vanishes,
}

impl Fault {
    /// A fault that strikes every request of a command.
    pub fn on(command: impl Into<String>, kind: FaultKind) -> Self {
        Self { command: Some(command.into()), ..Self::on_all(kind) }
    }

    /// A fault that strikes every request.
    pub fn on_all(kind: FaultKind) -> Self {
        Self { command: None, kind, times: None, percent: 100 }
    }

    /// The same, so many times.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// The same, with so many of a hundred requests.
    #[must_use]
    pub fn percent(self, percent: u8) -> Self {
        Self { percent, ..self }
    }

    /// Whether it strikes a request of that name, which may be no command. Only lists have pages,
    /// and only asynchronous commands have jobs.
    fn strikes(&self, name: &str, command: Option<&Command>) -> bool {
        let handler = command.map(|command| &command.handler);
        let fits = match self.kind {
            FaultKind::Before(_) | FaultKind::After(_) => true,
            FaultKind::Page(_) => matches!(handler, Some(Handler::Read(_))),
            FaultKind::Job(_) => matches!(handler, Some(Handler::Job(_))),
        };
        fits && self.times != Some(0) && self.command.as_deref().is_none_or(|own| own == name)
    }
}

/// The faults that are still to come, in the order in which they were injected.
#[derive(Debug, Clone)]
pub(crate) struct FaultPlan {
    pending: Vec<Pending>,
    /// What struck the last request.
    struck: Option<FaultKind>,
    /// Its own, so that faults change no id.
    chance: IdSource,
}

#[derive(Debug, Clone)]
struct Pending {
    fault: Fault,
    /// The world of [`PageFault::Stale`].
    past: Option<Box<Cloud>>,
}

impl FaultPlan {
    pub(crate) fn new(seed: u64) -> Self {
        Self { pending: Vec::new(), struck: None, chance: IdSource::new(!seed) }
    }

    /// The first fault that strikes a request.
    fn draw(&mut self, name: &str, command: Option<&Command>) -> Option<Pending> {
        let Self { pending, struck, chance } = self;
        let found = pending.iter_mut().find(|pending| {
            pending.fault.strikes(name, command) && chance.next_percent() < pending.fault.percent
        })?;
        found.fault.times = found.fault.times.map(|times| times.saturating_sub(1));
        *struck = Some(found.fault.kind.clone());
        Some(found.clone())
    }
}

impl Simulator {
    /// Lets requests meet with a fault from now on. Of several that could strike one request the
    /// first does.
    pub fn inject(&mut self, fault: Fault) {
        let past = matches!(fault.kind, FaultKind::Page(PageFault::Stale))
            .then(|| Box::new(self.cloud.clone()));
        self.faults.pending.push(Pending { fault, past });
    }

    /// The fault that struck the last request that was received, if one did.
    pub fn struck(&self) -> Option<&FaultKind> {
        self.faults.struck.as_ref()
    }

    /// Takes back all faults of commands. Those of the router stay.
    pub fn clear_faults(&mut self) {
        self.faults.pending.clear();
    }

    /// What comes back on a connection: the answer to a request, or what a fault makes of it.
    ///
    /// # Errors
    /// If nothing comes back.
    pub fn receive(
        &mut self,
        request: &Request,
        now: jiff::Timestamp,
    ) -> Result<Response, NoAnswer> {
        self.advance(now);
        self.faults.struck = None;
        if !self.up {
            return Err(NoAnswer::Refused);
        }
        let name = request.exact("command").unwrap_or_default();
        let command = Command::find(name, &self.cloud.version);
        let Some(Pending { fault, past }) = self.faults.draw(name, command) else {
            return Ok(self.handle(request, now));
        };
        match fault.kind {
            FaultKind::Before(mishap) => self.come_to(mishap, command, request),
            FaultKind::After(mishap) => {
                self.handle(request, now);
                self.come_to(mishap, command, request)
            }
            FaultKind::Page(page) => Ok(self.spoil_page(page, past, request)),
            FaultKind::Job(job) => {
                self.cloud.jobs.set_fault(Some(job));
                let response = self.handle(request, now);
                self.cloud.jobs.set_fault(None);
                Ok(response)
            }
        }
    }

    fn come_to(
        &self,
        mishap: Mishap,
        command: Option<&Command>,
        request: &Request,
    ) -> Result<Response, NoAnswer> {
        match mishap {
            Mishap::Closed => Err(NoAnswer::Closed),
            Mishap::Silence => Err(NoAnswer::Silence),
            Mishap::Error { code, text } => {
                let root = if code == 432 { ErrorRoot::Error } else { ErrorRoot::Command };
                let class = (code != 401).then_some(9999);
                let error = ApiError { code, class, text, root, about: Vec::new() };
                Ok(self.respond(command, Err(error), request.format()))
            }
            Mishap::Body { status, body } => {
                let headers = vec![("Content-Type".to_owned(), "text/html".to_owned())];
                Ok(Response { status, headers, body })
            }
        }
    }

    /// Answers with a spoilt page. Time does not pass in a world of the past.
    fn spoil_page(
        &mut self,
        fault: PageFault,
        past: Option<Box<Cloud>>,
        request: &Request,
    ) -> Response {
        let present = past.map(|past| std::mem::replace(&mut self.cloud, *past));
        self.cloud.page_fault = Some(fault);
        let response = self.answer(request);
        self.cloud.page_fault = None;
        if let Some(present) = present {
            self.cloud = present;
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::signature;
    use crate::message::Method;
    use crate::testing::{Lab, rule_params, text};

    /// A request of `prod`, signed.
    fn request(command: &str, params: &[(&str, &str)]) -> Request {
        let own = [("command", command), ("response", "json"), ("apiKey", "AKprod")];
        let all = own.iter().chain(params);
        let params = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut request = Request { method: Method::Post, params };
        let signature = signature(&request, "SKprod");
        request.params.push(("signature".to_owned(), signature));
        request
    }

    fn receive(
        lab: &mut Lab,
        command: &str,
        params: &[(&str, &str)],
    ) -> Result<(u16, String), NoAnswer> {
        let answer = lab.simulator.receive(&request(command, params), lab.now);
        answer.map(|response| (response.status, response.body))
    }

    fn ports(body: &str) -> Vec<String> {
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let rows = body["listloadbalancerrulesresponse"]["loadbalancerrule"].as_array().cloned();
        rows.unwrap_or_default().iter().map(|row| text(&row["publicport"])).collect()
    }

    #[test]
    fn a_fault_strikes_its_command_as_often_as_it_says() {
        let mut lab = Lab::new();
        let text = "out of order".to_owned();
        let error = FaultKind::Before(Mishap::Error { code: 530, text });
        lab.simulator.inject(Fault::on("listZones", error).times(2));
        assert_eq!(receive(&mut lab, "listNetworks", &[]).unwrap().0, 200);
        assert_eq!(lab.simulator.struck(), None);
        let mut status = |command| receive(&mut lab, command, &[]).unwrap().0;
        assert_eq!(
            [status("listZones"), status("listZones"), status("listZones")],
            [530, 530, 200]
        );
    }

    #[test]
    fn faults_of_pages_strike_reads_and_faults_of_jobs_strike_jobs() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let vanishes = FaultKind::Job(JobFault::Vanishes);
        for kind in [FaultKind::Page(PageFault::Short), vanishes] {
            lab.simulator.inject(Fault::on_all(kind).times(1));
        }
        let deletion = receive(&mut lab, "deleteLoadBalancerRule", &[("id", &rule)]).unwrap().1;
        let deletion: serde_json::Value = serde_json::from_str(&deletion).unwrap();
        let job = text(&deletion["deleteloadbalancerruleresponse"]["jobid"]);
        let zones = receive(&mut lab, "listZones", &[]).unwrap().1;
        assert!(!zones.contains("zone-1"), "{zones}");
        assert_eq!(receive(&mut lab, "queryAsyncJobResult", &[("jobid", &job)]).unwrap().0, 431);
    }

    #[test]
    fn chance_comes_from_the_seed() {
        let pattern = || {
            let mut lab = Lab::new();
            lab.simulator.inject(Fault::on_all(FaultKind::Before(Mishap::Closed)).percent(30));
            let mut struck = |_| receive(&mut lab, "listZones", &[]).is_err();
            (0..200).map(&mut struck).collect::<Vec<bool>>()
        };
        let struck = pattern().into_iter().filter(|struck| *struck).count();
        assert!((35..=85).contains(&struck), "{struck}");
        assert_eq!(pattern(), pattern());
    }

    #[test]
    fn what_is_lost_before_is_not_carried_out_and_what_is_lost_after_is() {
        for (kind, rules) in
            [(FaultKind::Before(Mishap::Closed), 0), (FaultKind::After(Mishap::Closed), 1)]
        {
            let mut lab = Lab::new();
            let address = lab.address("203.0.113.2");
            lab.simulator.inject(Fault::on("createLoadBalancerRule", kind));
            let params = rule_params(&address, "80", &[]);
            let answer = receive(&mut lab, "createLoadBalancerRule", &params);
            assert_eq!(answer, Err(NoAnswer::Closed));
            assert_eq!(lab.rows("listLoadBalancerRules", &[]).len(), rules);
        }
    }

    #[test]
    fn pages_are_spoilt_as_asked() {
        let mut lab = Lab::new();
        for port in ["1", "2", "3", "4"] {
            lab.rule(port, &[]);
        }
        let mut shown = |fault, page: &str| {
            lab.simulator.clear_faults();
            lab.simulator.inject(Fault::on("listLoadBalancerRules", FaultKind::Page(fault)));
            let params = [("page", page), ("pagesize", "2")];
            ports(&receive(&mut lab, "listLoadBalancerRules", &params).unwrap().1).join(" ")
        };
        assert_eq!(shown(PageFault::Short, "1"), "1");
        assert_eq!(shown(PageFault::Duplicated, "2"), "3 4 4");
        assert_eq!(shown(PageFault::Reordered, "1"), "2 1");
        assert_eq!(shown(PageFault::Shifted, "1"), "1 2");
        assert_eq!(shown(PageFault::Shifted, "2"), "2 3");
    }

    #[test]
    fn a_stale_list_shows_the_world_of_before() {
        let mut lab = Lab::new();
        lab.rule("1", &[]);
        let stale = FaultKind::Page(PageFault::Stale);
        lab.simulator.inject(Fault::on("listLoadBalancerRules", stale).times(1));
        lab.rule("2", &[]);
        let mut shown = || ports(&receive(&mut lab, "listLoadBalancerRules", &[]).unwrap().1);
        assert_eq!(shown(), ["1"]);
        assert_eq!(shown(), ["1", "2"]);
    }

    #[test]
    fn jobs_are_slow_fail_late_or_vanish() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        let vm = lab.id("listVirtualMachines", "node-1");
        let params = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        let mut struck = |fault, command: &str| {
            lab.simulator.inject(Fault::on(command, FaultKind::Job(fault)).times(1));
            let answer = receive(&mut lab, command, &params).unwrap().1;
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            let root = answer.as_object().unwrap().values().next().unwrap();
            let job = text(&root["jobid"]);
            let query = |lab: &mut Lab| receive(lab, "queryAsyncJobResult", &[("jobid", &job)]);
            let first = query(&mut lab).unwrap();
            lab.wait(9);
            (first, query(&mut lab).unwrap())
        };
        let slow = JobFault::Slow(SignedDuration::from_secs(9));
        let (first, last) = struck(slow, "assignToLoadBalancerRule");
        assert!(first.1.contains(r#""jobstatus":0"#) && last.1.contains(r#""jobstatus":1"#));
        let late = JobFault::Fails { code: 530, text: "late".to_owned() };
        let (_, last) = struck(late, "removeFromLoadBalancerRule");
        assert!(last.1.contains(r#""errortext":"late""#), "{}", last.1);
        let (_, last) = struck(JobFault::Vanishes, "deleteLoadBalancerRule");
        assert_eq!(last.0, 431);
        assert_eq!(lab.rows("listLoadBalancerRules", &[]).len(), 0);
    }

    #[test]
    fn a_release_that_fails_late_leaves_an_address_that_takes_firewall_rules() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let late = JobFault::Fails { code: 530, text: "late".to_owned() };
        lab.simulator.inject(Fault::on("disassociateIpAddress", FaultKind::Job(late)));
        receive(&mut lab, "disassociateIpAddress", &[("id", &address)]).unwrap();
        lab.open(&address, "80", "10.0.0.0/8");
        assert_eq!(lab.column("listFirewallRules", &[], "startport"), ["80"]);
    }

    #[test]
    fn a_dead_server_answers_nobody() {
        let mut lab = Lab::new();
        lab.simulator.kill();
        assert_eq!(receive(&mut lab, "listZones", &[]), Err(NoAnswer::Refused));
        lab.simulator.restart();
        assert_eq!(receive(&mut lab, "listZones", &[]).unwrap().0, 200);
    }
}
