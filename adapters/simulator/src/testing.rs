//! What unit tests share: a small world and short ways to ask it.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::auth::signature;
use crate::message::{Method, Request};
use crate::simulator::Simulator;
use crate::traffic::{Protocol, Reach, TrafficQuery};
use crate::world::World;

/// Two owners, admins, a domain below the first, an isolated and an idle network, and a VPC with four kinds of tiers. Jobs take no
/// time.
const WORLD: &str = "
version: 1
release: RELEASE
zone: {name: zone-1}
public-range: {from: 203.0.113.10, to: 203.0.113.19}
accounts:
  - {name: prod, api-key: AKprod, secret-key: SKprod, limits: {public-ips: 6}, projects: [web]}
  - {name: other, api-key: AKother, secret-key: SKother}
  - {name: kubeadmin, role: Project Kubernetes Service Role, api-key: AKkube, secret-key: SKkube, projects: [web]}
  - {name: root, role: Root Admin, api-key: AKroot, secret-key: SKroot}
  - {name: boss, role: Domain Admin, domain: branch, api-key: AKboss, secret-key: SKboss}
  - {name: remote, domain: branch, api-key: AKremote, secret-key: SKremote}
domains: [{name: branch, path: ROOT/branch}]
projects:
  - {name: web}
networks:
  - {name: iso, owner: prod, cidr: 10.1.1.0/24}
  - {name: idle, owner: prod, cidr: 10.1.2.0/24, state: Allocated}
  - {name: foreign, owner: other, cidr: 10.1.1.0/24}
  - {name: shop, owner: web, cidr: 10.1.1.0/24}
vpcs:
  - name: vpc
    owner: prod
    cidr: 10.2.0.0/16
    services: SERVICES
    acl-lists: [{name: custom}]
    tiers:
      - {name: tier, cidr: 10.2.1.0/24, acl: custom}
      - {name: allow, cidr: 10.2.2.0/24, acl: default_allow}
      - {name: bare, cidr: 10.2.3.0/24}
      - {name: nolb, cidr: 10.2.4.0/24, acl: default_deny, services: [Dhcp, NetworkACL]}
virtual-machines:
  - {name: node-1, owner: prod, extra: {vmtype: User, arch: x86_64}, nics: [{network: iso, address: 10.1.1.11}]}
  - {name: node-2, owner: prod, nics: [{network: iso, address: 10.1.1.12, secondary: [10.1.1.112]}]}
  - {name: tnode-1, owner: prod, nics: [{network: tier, address: 10.2.1.11}]}
  - {name: stranger, owner: other, nics: [{network: foreign, address: 10.1.1.99}]}
  - {name: pnode-1, owner: web, nics: [{network: shop, address: 10.1.1.21}]}
  - {name: away, owner: remote}
addresses:
  - {address: 203.0.113.1, owner: prod, network: iso, source-nat: true}
  - {address: 203.0.113.2, owner: prod, network: iso}
  - {address: 203.0.113.3, owner: prod, vpc: vpc}
  - {address: 203.0.113.4, owner: other, network: foreign, source-nat: true}
  - {address: 203.0.113.5, owner: web, network: shop, source-nat: true}
port-forwards:
  - {address: 203.0.113.2, start-port: 2222, end-port: 2230}
";

/// A simulator with a clock.
pub(crate) struct Lab {
    pub(crate) simulator: Simulator,
    pub(crate) now: Timestamp,
    caller: &'static str,
}

/// What a request that fails at once says.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) class: Option<u64>,
    pub(crate) text: String,
    pub(crate) root: String,
}

impl Lab {
    /// The common world on 4.23.
    pub(crate) fn new() -> Self {
        Self::on("4.23.0.0")
    }

    /// The common world on another release.
    pub(crate) fn on(release: &str) -> Self {
        Self::of(&WORLD.replace("RELEASE", release).replace("SERVICES", "default"))
    }

    /// The common world on 4.23 with a firewall in the VPC.
    pub(crate) fn with_vpc_firewall() -> Self {
        Self::of(&WORLD.replace("RELEASE", "4.23.0.0").replace("SERVICES", "with-firewall"))
    }

    /// The common world with jobs that take some seconds.
    pub(crate) fn slow(seconds: i64) -> Self {
        let text = WORLD.replace("RELEASE", "4.23.0.0").replace("SERVICES", "default");
        Self::of(&format!("{text}jobs: {{default: {seconds}s}}\n"))
    }

    fn of(text: &str) -> Self {
        let world = World::parse(text).unwrap();
        Self {
            simulator: Simulator::new(&world).unwrap(),
            now: "2026-12-01T20:00:00Z".parse().unwrap(),
            caller: "prod",
        }
    }

    /// The same world, asked by another account from now on.
    pub(crate) fn by(&mut self, caller: &'static str) -> &mut Self {
        self.caller = caller;
        self
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.simulator.advance(self.now);
    }

    fn send(&mut self, command: &str, params: &[(&str, &str)]) -> (u16, String, Value) {
        let response = self.simulator.call(self.caller, command, params, self.now);
        let body: Value = serde_json::from_str(&response.body).unwrap();
        let (root, body) = body.as_object().unwrap().iter().next().unwrap();
        (response.status, root.clone(), body.clone())
    }

    /// A signed request without parameters: status and body.
    pub(crate) fn signed(&mut self, api_key: &str, secret: &str, command: &str) -> (u16, Value) {
        self.signed_with(Method::Post, api_key, secret, &[("command", command)])
    }

    /// A signed request of these parameters: status and body.
    pub(crate) fn signed_with(
        &mut self,
        method: Method,
        api_key: &str,
        secret: &str,
        params: &[(&str, &str)],
    ) -> (u16, Value) {
        let common = [("response", "json"), ("apiKey", api_key)];
        let params = params
            .iter()
            .chain(&common)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut request = Request { method, params: params.collect() };
        let signature = signature(&request, secret);
        request.params.push(("signature".to_owned(), signature));
        let response = self.simulator.handle(&request, self.now);
        (response.status, serde_json::from_str(&response.body).unwrap())
    }

    /// A request that succeeds: what stands under the root key.
    pub(crate) fn ask(&mut self, command: &str, params: &[(&str, &str)]) -> Value {
        let (status, _, body) = self.send(command, params);
        assert_eq!(status, 200, "{command} {params:?}: {body}");
        body
    }

    /// The status of an answer, as text.
    pub(crate) fn status(&mut self, command: &str, params: &[(&str, &str)]) -> String {
        self.simulator.call(self.caller, command, params, self.now).status.to_string()
    }

    /// The rows of a list.
    pub(crate) fn rows(&mut self, command: &str, params: &[(&str, &str)]) -> Vec<Value> {
        let body = self.ask(command, params);
        body.as_object()
            .unwrap()
            .values()
            .find_map(|value| value.as_array().cloned())
            .unwrap_or_default()
    }

    /// One field of each row of a list, as text.
    pub(crate) fn column(
        &mut self,
        command: &str,
        params: &[(&str, &str)],
        field: &str,
    ) -> Vec<String> {
        self.rows(command, params).iter().map(|row| text(&row[field])).collect()
    }

    /// A request that fails at once.
    pub(crate) fn refused(&mut self, command: &str, params: &[(&str, &str)]) -> Refusal {
        let (status, root, body) = self.send(command, params);
        assert_ne!(status, 200, "{command} {params:?}: {body}");
        assert_eq!(u64::from(status), body["errorcode"], "{body}");
        Refusal {
            code: status,
            class: body["cserrorcode"].as_u64(),
            text: text(&body["errortext"]),
            root,
        }
    }

    /// A job that succeeds, followed to its end: its result.
    pub(crate) fn run(&mut self, command: &str, params: &[(&str, &str)]) -> Value {
        let job = self.finish(command, params);
        assert_eq!(job["jobstatus"], 1, "{command} {params:?}: {job}");
        job["jobresult"].clone()
    }

    /// A job that fails, followed to its end: its code and text.
    pub(crate) fn fails(&mut self, command: &str, params: &[(&str, &str)]) -> (u64, String) {
        let job = self.finish(command, params);
        assert_eq!(job["jobstatus"], 2, "{command} {params:?}: {job}");
        assert_eq!(job["jobresultcode"], job["jobresult"]["errorcode"]);
        (job["jobresultcode"].as_u64().unwrap(), text(&job["jobresult"]["errortext"]))
    }

    fn finish(&mut self, command: &str, params: &[(&str, &str)]) -> Value {
        let id = text(&self.ask(command, params)["jobid"]);
        for _ in 0..100 {
            let job = self.ask("queryAsyncJobResult", &[("jobid", &id)]);
            if job["jobstatus"] != 0 {
                return job;
            }
            self.wait(1);
        }
        panic!("{command} does not end");
    }

    /// The id of an object by name, as the list of its kind shows it.
    pub(crate) fn id(&mut self, command: &str, name: &str) -> String {
        let found = self.find(command, "name", name);
        text(&found["id"])
    }

    /// The id of a public IP address.
    pub(crate) fn address(&mut self, address: &str) -> String {
        let found = self.find("listPublicIpAddresses", "ipaddress", address);
        text(&found["id"])
    }

    fn find(&mut self, command: &str, field: &str, value: &str) -> Value {
        let before = self.caller;
        let mut found = None;
        for caller in ["prod", "other"] {
            self.caller = caller;
            for projects in [&[][..], &[("projectid", "-1")][..]] {
                if found.is_none() {
                    found =
                        self.rows(command, projects).into_iter().find(|row| row[field] == value);
                }
            }
        }
        self.caller = before;
        found.unwrap_or_else(|| panic!("{command} shows no {field} {value}"))
    }

    /// Makes a rule on 203.0.113.2 and returns its id.
    pub(crate) fn rule(&mut self, port: &str, more: &[(&str, &str)]) -> String {
        let address = self.address("203.0.113.2");
        self.rule_on(&address, port, more)
    }

    /// Makes a rule on an address and returns its id.
    pub(crate) fn rule_on(&mut self, address: &str, port: &str, more: &[(&str, &str)]) -> String {
        let params = rule_params(address, port, more);
        text(&self.run("createLoadBalancerRule", &params)["loadbalancer"]["id"])
    }

    /// Assigns virtual machines to a rule.
    pub(crate) fn assign(&mut self, rule: &str, vms: &[&str]) {
        let ids: Vec<String> = vms.iter().map(|vm| self.id("listVirtualMachines", vm)).collect();
        let ids = ids.join(",");
        self.run("assignToLoadBalancerRule", &[("id", rule), ("virtualmachineids", &ids)]);
    }

    /// Opens a port of an address.
    pub(crate) fn open(&mut self, address: &str, port: &str, cidrs: &str) -> String {
        let params = [
            ("ipaddressid", address),
            ("protocol", "tcp"),
            ("startport", port),
            ("cidrlist", cidrs),
        ];
        text(&self.run("createFirewallRule", &params)["firewallrule"]["id"])
    }

    /// One rule as lists show it.
    pub(crate) fn listed_rule(&mut self, id: &str) -> Value {
        self.rows("listLoadBalancerRules", &[("id", id)]).pop().unwrap_or_default()
    }

    /// What becomes of a TCP connection.
    pub(crate) fn reach(&self, source: &str, address: &str, port: u16) -> Reach {
        self.simulator.reach(&TrafficQuery {
            source: source.parse().unwrap(),
            address: address.parse().unwrap(),
            protocol: Protocol::Tcp,
            port,
        })
    }
}

/// Parameters of createLoadBalancerRule; later ones win.
pub(crate) fn rule_params<'a>(
    address: &'a str,
    port: &'a str,
    more: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let mut params = vec![
        ("publicipid", address),
        ("name", "web"),
        ("algorithm", "roundrobin"),
        ("publicport", port),
        ("privateport", "30080"),
        ("protocol", "tcp"),
        ("openfirewall", "false"),
    ];
    params.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
    params.extend(more.iter().filter(|(_, value)| *value != "ABSENT"));
    params
}

/// A JSON value as plain text.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
