//! Death and rebirth of the management server.
//!
//! Jobs are steps of one process: when it dies they stop where they are. What they stored with the
//! request and at their start stays, what they would have pushed is never pushed, and nobody undoes
//! anything. After the restart they count as failed, with 530 and without a result (observed).

use crate::simulator::Simulator;
use crate::throttle::Throttle;
use crate::versions::{NotAVersion, Version};

impl Simulator {
    /// Kills the management server. Until [`Simulator::restart`] nobody answers. It counted the
    /// calls of accounts in its memory.
    pub fn kill(&mut self) {
        self.cloud.kill_jobs();
        self.cloud.throttle = Throttle::default();
        self.up = false;
    }

    /// Starts the management server again. One that was not killed stops in good order: its jobs
    /// end with it.
    pub fn restart(&mut self) {
        if self.up {
            self.kill();
        }
        self.up = true;
    }

    /// Puts another release on the management server, which restarts for it.
    ///
    /// # Errors
    /// If `release` is no version.
    pub fn upgrade(&mut self, release: &str) -> Result<(), NotAVersion> {
        let version: Version = release.parse()?;
        self.kill();
        self.cloud.version = version;
        self.restart();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use crate::faults::{RouterFault, RouterPart};
    use crate::testing::{Lab, rule_params, text};

    #[test]
    fn after_an_upgrade_another_release_answers() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        lab.simulator.upgrade("4.23.0.0").unwrap();
        assert_eq!(lab.column("listLoadBalancerRules", &[], "id"), [rule]);
        let body = lab.simulator.call("prod", "listCapabilities", &[], lab.now).body;
        assert!(body.contains(r#""cloudstackversion":"4.23.0.0""#), "{body}");
        assert!(lab.simulator.upgrade("next").is_err());
    }

    /// A world in which every job takes far longer than the server lives.
    fn slow(lab: &mut Lab) {
        let wait = RouterFault::Wait(SignedDuration::from_secs(90));
        for part in [RouterPart::LoadBalancer, RouterPart::Firewall] {
            lab.simulator.fault_router(part, wait);
        }
    }

    fn kill(lab: &mut Lab) {
        lab.wait(2);
        lab.simulator.kill();
        lab.simulator.restart();
        for part in [RouterPart::LoadBalancer, RouterPart::Firewall] {
            lab.simulator.heal_router(part);
        }
    }

    fn members(lab: &mut Lab, rule: &str) -> Vec<String> {
        lab.column("listLoadBalancerRuleInstances", &[("id", rule)], "name")
    }

    #[test]
    fn a_new_server_has_counted_no_calls() {
        let mut lab = Lab::new();
        lab.simulator.set("api.throttling.enabled", "true").unwrap();
        for _ in 0..20 {
            lab.ask("listZones", &[]);
        }
        lab.simulator.restart();
        assert_eq!(lab.ask("getApiLimit", &[])["apilimit"]["apiIssued"], 1);
    }

    #[test]
    fn jobs_of_a_killed_server_failed_and_left_what_they_had_stored() {
        let mut lab = Lab::new();
        let ports = ["1", "2", "3", "4"];
        let [assign, remove, delete, update] = ports.map(|port| lab.rule(port, &[]));
        for rule in [&remove, &delete, &update] {
            lab.assign(rule, &["node-1"]);
        }
        let vm = lab.id("listVirtualMachines", "node-1");
        let address = lab.address("203.0.113.2");
        slow(&mut lab);
        let with_vm = |rule| [("id", rule), ("virtualmachineids", vm.as_str())];
        let new = [("id", update.as_str()), ("name", "r-new"), ("algorithm", "source")];
        let create = rule_params(&address, "5", &[("openfirewall", "true")]);
        let calls: [(&str, &[(&str, &str)]); 5] = [
            ("assignToLoadBalancerRule", &with_vm(assign.as_str())),
            ("removeFromLoadBalancerRule", &with_vm(remove.as_str())),
            ("deleteLoadBalancerRule", &[("id", &delete)]),
            ("updateLoadBalancerRule", &new),
            ("createLoadBalancerRule", &create),
        ];
        let jobs = calls.map(|(command, params)| text(&lab.ask(command, params)["jobid"]));
        kill(&mut lab);
        for job in jobs {
            let died = lab.ask("queryAsyncJobResult", &[("jobid", &job)]);
            assert_eq!((&died["jobstatus"], &died["jobresultcode"]), (&2.into(), &530.into()));
            assert!(died.get("jobresult").is_none() && died.get("jobresulttype").is_none());
            assert!(died.get("managementserverid").is_some() && died.get("completed").is_some());
        }
        let created = lab.column("listLoadBalancerRules", &[], "id").pop().unwrap();
        let states = [&assign, &remove, &delete, &update, &created]
            .map(|rule| text(&lab.listed_rule(rule)["state"]));
        assert_eq!(states, ["Add", "Add", "Deleting", "Add", "Add"]);
        for rule in [&assign, &remove, &delete, &update] {
            assert_eq!(members(&mut lab, rule), ["node-1"]);
        }
        assert_eq!(lab.listed_rule(&update)["name"], "r-new");
        assert_eq!(lab.column("listFirewallRules", &[], "state"), ["Add"]);

        let (code, cause) = lab.fails("assignToLoadBalancerRule", &with_vm(assign.as_str()));
        assert!(code == 530 && cause.contains("is already mapped"), "{cause}");
        lab.run("updateLoadBalancerRule", &[("id", &assign), ("name", "pushed")]);
        assert_eq!(lab.listed_rule(&assign)["state"], "Active");
        lab.run("removeFromLoadBalancerRule", &with_vm(remove.as_str()));
        assert_eq!(members(&mut lab, &remove), [""; 0]);
        lab.run("updateLoadBalancerRule", &new);
        assert_eq!(lab.listed_rule(&update)["state"], "Active");
        for rule in [&delete, &created] {
            lab.run("deleteLoadBalancerRule", &[("id", rule)]);
        }
        assert_eq!(lab.rows("listFirewallRules", &[]).len(), 0);
    }

    #[test]
    fn an_address_on_its_way_when_the_server_dies_is_stuck_until_released() {
        let mut lab = Lab::slow(5);
        let network = lab.id("listNetworks", "iso");
        let id = text(&lab.ask("associateIpAddress", &[("networkid", &network)])["id"]);
        kill(&mut lab);
        lab.wait(60);
        let stuck = [("id", id.as_str()), ("state", "Allocating")];
        assert_eq!(lab.rows("listPublicIpAddresses", &stuck).len(), 1);
        lab.run("disassociateIpAddress", &[("id", &id)]);
        assert_eq!(lab.rows("listPublicIpAddresses", &stuck).len(), 0);
    }
}
