//! A virtual router that does not do what it is told, or is not there. Faults stand in a table by
//! the part of the router that they strike, and hold for every push until they are healed. One that
//! is stopped or destroyed gets no push: jobs succeed, rules go Active (observed), nobody is served,
//! and it starts with what the database says then.
//!
//! What a refused push leaves behind is decided where the push is: each kind of object undoes, or
//! fails to undo, what its command stored.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use crate::cloud::Cloud;
use crate::edits::EditError;
use crate::resources::network::Network;
use crate::resources::vpc::Vpc;
use crate::simulator::Simulator;
use crate::table::Key;
use crate::world::build::network_named;

/// A kind of configuration that CloudStack pushes to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouterPart {
    /// Load-balancer rules and their members.
    LoadBalancer,
    /// Firewall rules.
    Firewall,
    /// Public IP addresses: pushed with the first load-balancer rule, and by a release.
    Address,
    /// ACL items. CloudStack takes no notice if this fails.
    Acl,
}

/// What the router does with a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterFault {
    /// It answers that it failed.
    Fail,
    /// The agent throws. CloudStack treats this as a failure.
    Throw,
    /// It succeeds so much later.
    Wait(SignedDuration),
    /// It never answers: a failure after [`PATIENCE`].
    Silence,
}

/// How long the management server waits for an answer of a router: `wait`, a global setting, in its
/// default of half an hour.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(30);

/// What is wrong with the routers. Faults strike all of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Router {
    faults: BTreeMap<RouterPart, RouterFault>,
    /// Whose router is stopped or destroyed.
    down: BTreeSet<Routed>,
}

/// What one router serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Routed {
    /// A network that is no tier.
    Network(Key<Network>),
    /// All tiers of a VPC.
    Vpc(Key<Vpc>),
}

impl Routed {
    /// Whose router serves a network, if it has one.
    pub(crate) fn with(cloud: &Cloud, network: Key<Network>) -> Self {
        let vpc = cloud.networks.get(network).and_then(Network::vpc);
        vpc.map_or(Self::Network(network), Self::Vpc)
    }
}

impl RouterPart {
    /// Every part with its short name.
    const NAMES: [(&'static str, Self); 4] = [
        ("lb", Self::LoadBalancer),
        ("firewall", Self::Firewall),
        ("ip", Self::Address),
        ("acl", Self::Acl),
    ];

    /// The part of a short name: `lb`, `firewall`, `ip` or `acl`.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, part)| *part)
    }
}

impl Router {
    /// Whether a router runs, if there is one.
    pub(crate) fn is_up(&self, routed: Routed) -> bool {
        !self.down.contains(&routed)
    }

    /// Whether a push would be applied.
    pub(crate) fn accepts(&self, part: RouterPart) -> bool {
        match self.faults.get(&part) {
            None | Some(RouterFault::Wait(_)) => true,
            Some(RouterFault::Fail | RouterFault::Throw | RouterFault::Silence) => false,
        }
    }

    /// How much longer a push takes than a healthy one.
    pub(crate) fn delay(&self, part: RouterPart) -> SignedDuration {
        match self.faults.get(&part) {
            None | Some(RouterFault::Fail | RouterFault::Throw) => SignedDuration::ZERO,
            Some(RouterFault::Wait(delay)) => *delay,
            Some(RouterFault::Silence) => PATIENCE,
        }
    }
}

impl Simulator {
    /// From now on pushes of a kind meet with a fault, also those of jobs that run already.
    pub fn fault_router(&mut self, part: RouterPart, fault: RouterFault) {
        self.cloud.router.faults.insert(part, fault);
    }

    /// From now on pushes of a kind are applied again.
    pub fn heal_router(&mut self, part: RouterPart) {
        self.cloud.router.faults.remove(&part);
    }

    /// Stops or destroys the router of a network, by name or id; the tiers of a VPC share theirs.
    /// The network stays Implemented.
    ///
    /// # Errors
    /// If there is no such network.
    pub fn stop_router(&mut self, network: &str) -> Result<(), EditError> {
        let routed = self.routed(network)?;
        self.cloud.router.down.insert(routed);
        Ok(())
    }

    /// Starts the router of a network again, or a new one in the place of a destroyed one.
    ///
    /// # Errors
    /// If there is no such network.
    pub fn start_router(&mut self, network: &str) -> Result<(), EditError> {
        let routed = self.routed(network)?;
        self.cloud.router.down.remove(&routed);
        Ok(())
    }

    fn routed(&self, network: &str) -> Result<Routed, EditError> {
        let key = network_named(&self.cloud, "router", network)?;
        Ok(Routed::with(&self.cloud, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, rule_params, text};
    use crate::traffic::Layer;

    const UDP: [(&str, &str); 1] = [("protocol", "udp")];

    /// A rule with two members, pushed.
    fn published() -> (Lab, String) {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[("name", "f-main"), ("cidrlist", "10.0.0.0/8")]);
        lab.assign(&rule, &["node-1", "node-2"]);
        (lab, rule)
    }

    fn members(lab: &mut Lab, rule: &str) -> Vec<String> {
        lab.column("listLoadBalancerRuleInstances", &[("id", rule)], "name")
    }

    fn firewall_states(lab: &mut Lab) -> Vec<String> {
        lab.column("listFirewallRules", &[], "state")
    }

    #[test]
    fn a_refused_removal_keeps_members_and_state() {
        for fault in [RouterFault::Fail, RouterFault::Throw] {
            let (mut lab, rule) = published();
            let vm = lab.id("listVirtualMachines", "node-1");
            lab.simulator.fault_router(RouterPart::LoadBalancer, fault);
            let params = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
            let (code, cause) = lab.fails("removeFromLoadBalancerRule", &params);
            assert_eq!(code, 530);
            assert_eq!(cause, "Failed to remove specified load balancer rule ID for Instances [1]");
            assert_eq!(members(&mut lab, &rule), ["node-1", "node-2"]);
            assert_eq!(lab.listed_rule(&rule)["state"], "Active");
            lab.simulator.heal_router(RouterPart::LoadBalancer);
            lab.run("removeFromLoadBalancerRule", &params);
            assert_eq!(members(&mut lab, &rule), ["node-2"]);
        }
    }

    #[test]
    fn a_refused_assign_is_undone_as_a_whole() {
        let (mut lab, _) = published();
        let rule = lab.rule("81", &[]);
        lab.simulator.fault_router(RouterPart::LoadBalancer, RouterFault::Fail);
        let ids = ["node-2", "node-1"].map(|name| lab.id("listVirtualMachines", name)).join(",");
        let params = [("id", rule.as_str()), ("virtualmachineids", ids.as_str())];
        let (_, cause) = lab.fails("assignToLoadBalancerRule", &params);
        assert_eq!(
            cause,
            "Failed to assign load balancer rule due to: Failed to add specified loadbalancerruleid for Instances [1, 2]"
        );
        assert_eq!(members(&mut lab, &rule), [""; 0]);
        assert_eq!(lab.listed_rule(&rule)["state"], "Add");
    }

    #[test]
    fn a_refused_update_keeps_protocol_and_description_only() {
        let (mut lab, rule) = published();
        lab.simulator.fault_router(RouterPart::LoadBalancer, RouterFault::Fail);
        let update = [
            ("id", rule.as_str()),
            ("name", "new"),
            ("description", "why"),
            ("algorithm", "source"),
            ("cidrlist", "192.0.2.0/24"),
            ("protocol", "tcp-proxy"),
        ];
        let (code, cause) = lab.fails("updateLoadBalancerRule", &update);
        assert_eq!(code, 530);
        let start = r#"Failed to update load balancer rule: LoadBalancer {"name":"f-main","id":"#;
        assert!(cause.starts_with(start) && cause.contains(r#""state":"Active""#), "{cause}");
        let listed = lab.listed_rule(&rule);
        let field = |name: &str| text(&listed[name]);
        let kept = ["name", "algorithm", "cidrlist", "state", "protocol", "description"].map(field);
        assert_eq!(kept, ["f-main", "roundrobin", "10.0.0.0/8", "Active", "tcp-proxy", "why"]);
    }

    #[test]
    fn a_refused_delete_brings_the_rule_back_without_its_firewall_rule() {
        let (mut lab, _) = published();
        let rule = lab.rule("81", &[("name", "auto"), ("openfirewall", "true")]);
        lab.simulator.fault_router(RouterPart::LoadBalancer, RouterFault::Fail);
        let (_, cause) = lab.fails("deleteLoadBalancerRule", &[("id", &rule)]);
        let start = r#"Unable to remove load balancer rule LoadBalancer {"name":"auto","#;
        assert!(cause.starts_with(start) && cause.contains(r#""state":"Add""#), "{cause}");
        assert_eq!(lab.listed_rule(&rule)["state"], "Add");
        assert_eq!(firewall_states(&mut lab), [""; 0]);
    }

    #[test]
    fn a_delete_whose_firewall_push_is_refused_leaves_that_rule_dying() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[("openfirewall", "true")]);
        lab.simulator.fault_router(RouterPart::Firewall, RouterFault::Fail);
        let failure = lab.fails("deleteLoadBalancerRule", &[("id", &rule)]);
        assert_eq!(failure, (530, "Failed to delete load balancer".to_owned()));
        assert_eq!(lab.listed_rule(&rule)["state"], "Add");
        assert_eq!(firewall_states(&mut lab), ["Deleting"]);
        lab.simulator.heal_router(RouterPart::Firewall);
        lab.run("deleteLoadBalancerRule", &[("id", &rule)]);
        assert_eq!(firewall_states(&mut lab), [""; 0]);
    }

    #[test]
    fn a_create_whose_firewall_push_is_refused_leaves_both_dying() {
        let mut lab = Lab::new();
        lab.simulator.fault_router(RouterPart::Firewall, RouterFault::Fail);
        let address = lab.address("203.0.113.2");
        let params = rule_params(&address, "80", &[("openfirewall", "true")]);
        let (code, cause) = lab.fails("createLoadBalancerRule", &params);
        assert_eq!(code, 530);
        assert!(cause.starts_with("Unable to remove load balancer rule LoadBalancer"), "{cause}");
        assert_eq!(lab.column("listLoadBalancerRules", &[], "state"), ["Deleting"]);
        assert_eq!(firewall_states(&mut lab), ["Deleting"]);
        let rule = lab.column("listLoadBalancerRules", &[], "id").remove(0);
        lab.simulator.heal_router(RouterPart::Firewall);
        lab.run("deleteLoadBalancerRule", &[("id", &rule)]);
        assert_eq!(lab.rows("listLoadBalancerRules", &[]).len(), 0);
    }

    #[test]
    fn one_good_firewall_push_sweeps_what_was_left_dying_on_the_address() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        let rule = lab.open(&address, "300", "10.0.0.0/8");
        let open = [
            ("ipaddressid", address.as_str()),
            ("protocol", "tcp"),
            ("startport", "400"),
            ("cidrlist", "10.0.0.0/8"),
        ];
        lab.simulator.fault_router(RouterPart::Firewall, RouterFault::Fail);
        for _ in 0..2 {
            let failure = lab.fails("createFirewallRule", &open);
            assert_eq!(failure, (530, "Failed to create firewall rule".to_owned()));
        }
        let failure = lab.fails("deleteFirewallRule", &[("id", &rule)]);
        assert_eq!(failure, (530, "Failed to delete firewall rule".to_owned()));
        assert_eq!(firewall_states(&mut lab), ["Deleting"; 3]);
        lab.simulator.heal_router(RouterPart::Firewall);
        lab.run("deleteFirewallRule", &[("id", &rule)]);
        assert_eq!(firewall_states(&mut lab), [""; 0]);
    }

    #[test]
    fn a_release_that_fails_leaves_the_address_hidden_in_releasing() {
        let (mut lab, rule) = published();
        let id = lab.address("203.0.113.2");
        lab.simulator.fault_router(RouterPart::Address, RouterFault::Fail);
        for _ in 0..2 {
            let failure = lab.fails("disassociateIpAddress", &[("id", &id)]);
            assert_eq!(failure, (530, "Failed to disassociate IP address".to_owned()));
        }
        assert_eq!(lab.rows("listPublicIpAddresses", &[("id", &id)]).len(), 0);
        let hidden = lab.rows("listPublicIpAddresses", &[("id", &id), ("state", "Releasing")]);
        assert_eq!(hidden[0]["hasrules"], true);
        assert_eq!(lab.listed_rule(&rule)["state"], "Deleting");
        let refused = lab.refused("createLoadBalancerRule", &rule_params(&id, "90", &[]));
        assert_eq!((refused.code, refused.class), (431, Some(4350)));
        assert!(refused.text.contains("invalid IP address ID"), "{}", refused.text);
        lab.simulator.heal_router(RouterPart::Address);
        lab.run("disassociateIpAddress", &[("id", &id)]);
        let free =
            lab.rows("listPublicIpAddresses", &[("id", &id), ("allocatedonly", "false")]).remove(0);
        assert_eq!((&free["state"], &free["hasrules"]), (&"Free".into(), &false.into()));
    }

    #[test]
    fn the_first_rule_of_an_address_needs_the_address_on_the_router() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        lab.simulator.fault_router(RouterPart::Address, RouterFault::Fail);
        let made = lab.run("associateIpAddress", &[("networkid", &network)]);
        let address = text(&made["ipaddress"]["id"]);
        lab.open(&address, "80", "10.0.0.0/8");
        let rule = lab.rule_on(&address, "80", &[]);
        let vm = lab.id("listVirtualMachines", "node-1");
        let params = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        let (code, cause) = lab.fails("assignToLoadBalancerRule", &params);
        assert_eq!(code, 530);
        assert!(cause.ends_with("for Instances [1]"), "{cause}");
    }

    #[test]
    fn dying_firewall_rules_survive_a_release_and_mark_the_free_address() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        let made = lab.run("associateIpAddress", &[("networkid", &network)]);
        let id = text(&made["ipaddress"]["id"]);
        lab.open(&id, "1", "10.0.0.0/8");
        lab.simulator.fault_router(RouterPart::Firewall, RouterFault::Fail);
        lab.run("disassociateIpAddress", &[("id", &id)]);
        let all = [("id", id.as_str()), ("allocatedonly", "false")];
        let free = lab.rows("listPublicIpAddresses", &all).remove(0);
        assert_eq!((&free["state"], &free["hasrules"]), (&"Free".into(), &true.into()));
        lab.simulator.heal_router(RouterPart::Firewall);
        lab.run("associateIpAddress", &[("networkid", &network)]);
        assert_eq!(lab.rows("listPublicIpAddresses", &all)[0]["hasrules"], true);
        let rule = lab.open(&id, "2", "10.0.0.0/8");
        lab.run("deleteFirewallRule", &[("id", &rule)]);
        assert_eq!(lab.rows("listPublicIpAddresses", &all)[0]["hasrules"], false);
    }

    #[test]
    fn acl_pushes_fail_without_a_word_and_without_a_router_nothing_fails() {
        let mut lab = Lab::new();
        let parts =
            [RouterPart::LoadBalancer, RouterPart::Firewall, RouterPart::Address, RouterPart::Acl];
        for part in parts {
            lab.simulator.fault_router(part, RouterFault::Fail);
        }
        let list = lab.id("listNetworkACLLists", "custom");
        let item = lab.run("createNetworkACL", &[("aclid", &list), ("protocol", "tcp")]);
        assert_eq!(item["networkacl"]["state"], "Active");
        let network = lab.id("listNetworks", "idle");
        lab.run("associateIpAddress", &[("networkid", &network)]);
        let made = lab.run("associateIpAddress", &[("networkid", &network)]);
        let id = text(&made["ipaddress"]["id"]);
        let rule = lab.rule_on(&id, "80", &[("openfirewall", "true")]);
        lab.run("deleteLoadBalancerRule", &[("id", &rule)]);
        lab.run("disassociateIpAddress", &[("id", &id)]);
    }

    #[test]
    fn a_slow_router_delays_its_jobs_and_a_silent_one_fails_them_in_the_end() {
        let (mut lab, rule) = published();
        let wait = SignedDuration::from_secs(5);
        lab.simulator.fault_router(RouterPart::LoadBalancer, RouterFault::Wait(wait));
        let update = [("id", rule.as_str()), ("algorithm", "source")];
        let job = text(&lab.ask("updateLoadBalancerRule", &update)["jobid"]);
        let status =
            |lab: &mut Lab| lab.ask("queryAsyncJobResult", &[("jobid", &job)])["jobstatus"].clone();
        lab.wait(4);
        assert_eq!(status(&mut lab), 0);
        lab.wait(1);
        assert_eq!(status(&mut lab), 1);
        lab.simulator.fault_router(RouterPart::LoadBalancer, RouterFault::Silence);
        let job = text(&lab.ask("updateLoadBalancerRule", &update)["jobid"]);
        lab.wait(PATIENCE.as_secs());
        let failed = lab.ask("queryAsyncJobResult", &[("jobid", &job)]);
        assert_eq!((&failed["jobstatus"], &failed["jobresultcode"]), (&2.into(), &530.into()));
    }

    #[test]
    fn a_removal_and_an_assign_of_one_vm_at_a_time_wedge_the_rule() {
        let (mut lab, rule) = published();
        let id = lab.address("203.0.113.2");
        let vm = lab.id("listVirtualMachines", "node-1");
        let wait = RouterFault::Wait(SignedDuration::from_secs(5));
        lab.simulator.fault_router(RouterPart::LoadBalancer, wait);
        let params = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        let removal = text(&lab.ask("removeFromLoadBalancerRule", &params)["jobid"]);
        lab.wait(1);
        let assign = text(&lab.ask("assignToLoadBalancerRule", &params)["jobid"]);
        lab.wait(5);
        for job in [removal, assign] {
            let failed = lab.ask("queryAsyncJobResult", &[("jobid", &job)]);
            assert_eq!(failed["jobresult"]["errortext"], "Entity already exists ");
        }
        let shown = [("id", rule.as_str()), ("lbvmips", "true")];
        let rows = lab.rows("listLoadBalancerRuleInstances", &shown);
        let twice = serde_json::json!(["10.1.1.11", "10.1.1.11"]);
        assert_eq!(rows[0]["lbvmipaddresses"], twice);
        lab.simulator.heal_router(RouterPart::LoadBalancer);
        for (command, params) in [
            ("removeFromLoadBalancerRule", &params[..]),
            ("deleteLoadBalancerRule", &params[..1]),
            ("disassociateIpAddress", &[("id", id.as_str())]),
        ] {
            assert_eq!(lab.fails(command, params), (530, "Entity already exists ".to_owned()));
        }
        lab.simulator.repair_rule(&rule).unwrap();
        lab.run("deleteLoadBalancerRule", &params[..1]);
    }

    #[test]
    fn the_router_of_one_network_is_stopped_or_destroyed_and_comes_back() {
        const ADDRESS: &str = "203.0.113.2";
        const TIER_ADDRESS: &str = "203.0.113.3";
        let (mut lab, rule) = published();
        let (id, tier_id) = (lab.address(ADDRESS), lab.address(TIER_ADDRESS));
        lab.open(&id, "80", "0.0.0.0/0");
        let tier = lab.id("listNetworks", "tier");
        let tier_rule = lab.rule_on(&tier_id, "80", &[("networkid", &tier)]);
        lab.assign(&tier_rule, &["tnode-1"]);
        let accepted = |lab: &Lab, address| lab.reach("10.1.2.3", address, 80).accepted;
        lab.simulator.stop_router("iso").unwrap();
        assert!(!accepted(&lab, ADDRESS) && accepted(&lab, TIER_ADDRESS));
        let refused = lab.reach("10.1.2.3", ADDRESS, 80).refused_by;
        assert_eq!(refused, Some(Layer::Router));
        assert!(lab.simulator.open_cidrs(ADDRESS, 80).is_empty());
        // Nobody is there to refuse a push.
        for part in [RouterPart::LoadBalancer, RouterPart::Firewall, RouterPart::Address] {
            lab.simulator.fault_router(part, RouterFault::Fail);
        }
        let other = lab.rule("81", &[]);
        lab.assign(&other, &["node-1"]);
        lab.open(&id, "81", "0.0.0.0/0");
        assert_eq!(lab.listed_rule(&other)["state"], "Active");
        let vm = lab.id("listVirtualMachines", "node-1");
        let params = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        lab.run("removeFromLoadBalancerRule", &params);
        assert_eq!(lab.refused("createLoadBalancerRule", &rule_params(&id, "82", &UDP)).code, 431);
        let params = [("id", tier_rule.as_str()), ("algorithm", "source")];
        assert_eq!(lab.fails("updateLoadBalancerRule", &params).0, 530);
        lab.simulator.start_router("iso").unwrap();
        assert_eq!(lab.reach("10.1.2.3", ADDRESS, 80).members.len(), 1);
        assert!(lab.reach("10.1.2.3", ADDRESS, 81).accepted);
        let params = [("id", rule.as_str()), ("algorithm", "source")];
        assert_eq!(lab.fails("updateLoadBalancerRule", &params).0, 530);
    }

    #[test]
    fn the_tiers_of_a_vpc_lose_their_router_together() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.3");
        let tier = lab.id("listNetworks", "tier");
        let rule = lab.rule_on(&address, "80", &[("networkid", &tier)]);
        lab.assign(&rule, &["tnode-1"]);
        lab.simulator.stop_router("allow").unwrap();
        assert!(!lab.reach("10.1.2.3", "203.0.113.3", 80).accepted);
        lab.simulator.start_router("bare").unwrap();
        assert!(lab.reach("10.1.2.3", "203.0.113.3", 80).accepted);
        assert!(lab.simulator.stop_router("nowhere").is_err());
    }

    #[test]
    fn firewall_rules_of_a_vpc_are_not_pushed_to_a_router_that_is_stopped() {
        const ADDRESS: &str = "203.0.113.3";
        let mut lab = Lab::with_vpc_firewall();
        let (address, tier) = (lab.address(ADDRESS), lab.id("listNetworks", "tier"));
        let rule = lab.rule_on(&address, "80", &[("networkid", &tier)]);
        lab.assign(&rule, &["tnode-1"]);
        lab.simulator.stop_router("tier").unwrap();
        // Nobody is there to refuse a push.
        lab.simulator.fault_router(RouterPart::Firewall, RouterFault::Fail);
        let opening = lab.open(&address, "80", "0.0.0.0/0");
        assert_eq!(firewall_states(&mut lab), ["Active"]);
        lab.simulator.start_router("tier").unwrap();
        assert!(lab.reach("10.1.2.3", ADDRESS, 80).accepted, "it starts with what is stored");
        assert_eq!(lab.fails("deleteFirewallRule", &[("id", &opening)]).0, 530);
        lab.simulator.stop_router("allow").unwrap();
        lab.run("deleteFirewallRule", &[("id", &opening)]);
        assert_eq!(firewall_states(&mut lab), [""; 0]);
    }

    #[test]
    fn an_update_of_a_wedged_rule_stays_stored_and_an_equal_one_pushes_nothing() {
        // Never observed: both follow from what an update pushes and from what only a refusal undoes.
        let (mut lab, rule) = published();
        let vm = lab.id("listVirtualMachines", "node-1");
        let params = [("id", rule.as_str()), ("virtualmachineids", vm.as_str())];
        lab.simulator.fault_router(
            RouterPart::LoadBalancer,
            RouterFault::Wait(SignedDuration::from_secs(5)),
        );
        lab.ask("removeFromLoadBalancerRule", &params);
        lab.wait(1);
        lab.ask("assignToLoadBalancerRule", &params);
        lab.wait(5);
        lab.simulator.heal_router(RouterPart::LoadBalancer);
        let update = [("id", rule.as_str()), ("algorithm", "source"), ("protocol", "tcp")];
        let wedged = (530, "Entity already exists ".to_owned());
        assert_eq!(lab.fails("updateLoadBalancerRule", &update), wedged);
        let listed = lab.listed_rule(&rule);
        assert_eq!((&listed["algorithm"], &listed["state"]), (&"source".into(), &"Add".into()));
        lab.run("updateLoadBalancerRule", &update);
        let other = [("id", rule.as_str()), ("algorithm", "leastconn"), ("protocol", "tcp")];
        assert_eq!(lab.fails("updateLoadBalancerRule", &other), wedged);
    }

    #[test]
    fn parts_have_the_names_of_the_recordings() {
        let parts = ["lb", "firewall", "ip", "acl"].map(RouterPart::named);
        assert_eq!(
            parts,
            [
                Some(RouterPart::LoadBalancer),
                Some(RouterPart::Firewall),
                Some(RouterPart::Address),
                Some(RouterPart::Acl)
            ]
        );
        assert_eq!(RouterPart::named("dns"), None);
    }
}
