//! A small CloudStack, and short ways to ask it.

use ccm_cloudstack::sign::signature;
use ccm_simulator::{Method, Request, Simulator, World};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Releases in which something began, and the first and the last.
pub const RELEASES: [&str; 15] = [
    "4.15.0", "4.16.0", "4.17.0", "4.17.1", "4.18.0", "4.18.1", "4.19.0", "4.19.2", "4.20.0",
    "4.20.1", "4.21.0", "4.22.0", "4.22.1", "4.22.2", "4.23.0",
];

pub const LATEST: &str = "4.23.0";

/// A UUID that names nothing.
pub const NOBODY: &str = "11111111-2222-3333-4444-555555555555";

/// An address of `prod` in network `iso` that is no source-NAT address.
pub const PUBLIC: &str = "203.0.113.2";
/// An address of `prod` in its VPC, bound to no tier.
pub const OF_VPC: &str = "203.0.113.3";

/// What the world is made with where a test does not say otherwise.
const DEFAULTS: [(&str, &str); 4] =
    [("RELEASE", LATEST), ("SERVICES", "default"), ("CONSERVE", "false"), ("SECONDS", "0")];

/// Two accounts, a project, admins of all and of a domain below, a router that serves `iso` and one
/// that does not serve `idle` yet, a network without conserve mode, and a VPC.
const WORLD: &str = "
version: 1
release: RELEASE
zone: {name: zone-1}
public-range: {from: 203.0.113.10, to: 203.0.113.19}
accounts:
  - {name: prod, api-key: AKprod, secret-key: SKprod, projects: [web]}
  - {name: other, api-key: AKother, secret-key: SKother}
  - {name: root, role: Root Admin, api-key: AKroot, secret-key: SKroot}
  - {name: kubeadmin, role: Project Kubernetes Service Role, projects: [web]}
  - {name: boss, role: Domain Admin, domain: branch}
  - {name: remote, domain: branch}
domains: [{name: branch, path: ROOT/branch}]
projects: [{name: web}]
networks:
  - {name: iso, owner: prod, cidr: 10.1.1.0/24}
  - {name: idle, owner: prod, cidr: 10.1.2.0/24, state: Allocated}
  - {name: strict, owner: prod, cidr: 10.1.4.0/24, offering: {name: strict, conserve-mode: false}}
  - {name: foreign, owner: other, cidr: 10.1.1.0/24}
  - {name: shop, owner: web, cidr: 10.1.1.0/24}
  - {name: far, owner: remote, cidr: 10.1.1.0/24}
vpcs:
  - name: vpc
    owner: prod
    cidr: 10.2.0.0/16
    services: SERVICES
    conserve-mode: CONSERVE
    acl-lists: [{name: custom}]
    tiers:
      - {name: tier, cidr: 10.2.1.0/24, acl: custom}
      - {name: second, cidr: 10.2.2.0/24, acl: custom}
      - {name: fresh, cidr: 10.2.3.0/24, acl: custom, state: Allocated}
virtual-machines:
  - {name: node-1, owner: prod, nics: [{network: iso, address: 10.1.1.11}]}
  - {name: node-10, owner: prod, nics: [{network: iso, address: 10.1.1.12, secondary: [10.1.1.112]}]}
  - {name: tnode-1, owner: prod, nics: [{network: tier, address: 10.2.1.11}]}
  - name: many
    owner: prod
    extra: {vmtype: User, arch: x86_64}
    nics:
      - {network: iso, address: 10.1.1.21}
      - {network: tier, address: 10.2.1.21}
      - {network: second, address: 10.2.2.21}
  - {name: stranger, owner: other, nics: [{network: foreign, address: 10.1.1.99}]}
  - {name: pnode-1, owner: web, nics: [{network: shop, address: 10.1.1.21}]}
  - {name: away, owner: remote, nics: [{network: far, address: 10.1.1.22}]}
addresses:
  - {address: 203.0.113.1, owner: prod, network: iso, source-nat: true}
  - {address: 203.0.113.2, owner: prod, network: iso}
  - {address: 203.0.113.3, owner: prod, vpc: vpc}
  - {address: 203.0.113.4, owner: other, network: foreign}
  - {address: 203.0.113.5, owner: web, network: shop}
  - {address: 203.0.113.6, owner: remote, network: far}
  - {address: 203.0.113.7, owner: prod, network: strict, source-nat: true}
  - {address: 203.0.113.8, owner: prod, network: strict}
  - {address: 203.0.113.9, owner: prod, network: strict}
port-forwards:
  - {address: 203.0.113.8, start-port: 2222}
jobs: {default: SECONDSs}
";

/// Parameters of a request.
pub type Params<'a> = &'a [(&'a str, &'a str)];

/// A simulator with a clock, asked by one user at a time.
pub struct Bench {
    pub simulator: Simulator,
    pub now: Timestamp,
    caller: &'static str,
}

/// A request that failed at once.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    /// The class of the Java exception.
    pub class: Option<u64>,
    pub text: String,
    /// The one key of the body.
    pub root: String,
}

impl Bench {
    /// On the latest release, with jobs that take no time.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// On another release.
    pub fn on(release: &str) -> Self {
        Self::with(&[("RELEASE", release)])
    }

    /// With jobs of this length.
    pub fn slow(seconds: &str) -> Self {
        Self::with(&[("SECONDS", seconds)])
    }

    /// With other words in the world than by default.
    pub fn with(words: &[(&str, &str)]) -> Self {
        let text = words
            .iter()
            .chain(&DEFAULTS)
            .fold(WORLD.to_owned(), |text, (word, value)| text.replace(word, value));
        let world = World::parse(&text).expect("a world");
        Self {
            simulator: Simulator::new(&world).expect("a simulator"),
            now: "2026-12-01T20:00:00Z".parse().expect("a time"),
            caller: "prod",
        }
    }

    /// The same, asked by another user from now on.
    pub fn by(&mut self, caller: &'static str) -> &mut Self {
        self.caller = caller;
        self
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.simulator.advance(self.now);
    }

    /// Status, root key and what stands under it.
    pub fn send(&mut self, command: &str, params: Params) -> (u16, String, Value) {
        let response = self.simulator.call(self.caller, command, params, self.now);
        let body: Value = serde_json::from_str(&response.body).expect("JSON");
        let (root, body) = body.as_object().and_then(|body| body.iter().next()).expect("a root");
        (response.status, root.clone(), body.clone())
    }

    /// Status of a signed request of `prod`, with the root key of its answer.
    pub fn signed(&mut self, secret: &str, params: Params) -> (u16, String) {
        let common = [("response", "json"), ("apiKey", "AKprod")];
        let mut params: Vec<(String, String)> = params
            .iter()
            .chain(&common)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        params.push(("signature".to_owned(), signature(&params, secret)));
        let response = self.simulator.handle(&Request { method: Method::Post, params }, self.now);
        let body: Value = serde_json::from_str(&response.body).expect("JSON");
        let root = body.as_object().and_then(|body| body.keys().next().cloned());
        (response.status, root.expect("a root"))
    }

    /// A request that succeeds: what stands under the root key.
    pub fn ask(&mut self, command: &str, params: Params) -> Value {
        let (status, _, body) = self.send(command, params);
        assert_eq!(status, 200, "{command} {params:?}: {body}");
        body
    }

    /// The rows of a list.
    pub fn rows(&mut self, command: &str, params: Params) -> Vec<Value> {
        let body = self.ask(command, params);
        let fields = body.as_object().expect("an object");
        fields.values().find_map(|value| value.as_array().cloned()).unwrap_or_default()
    }

    /// The one row of a list.
    pub fn row(&mut self, command: &str, params: Params) -> Value {
        let mut rows = self.rows(command, params);
        assert_eq!(rows.len(), 1, "{command} {params:?}: {rows:?}");
        rows.remove(0)
    }

    /// A request that fails at once.
    pub fn refused(&mut self, command: &str, params: Params) -> Refusal {
        let (status, root, body) = self.send(command, params);
        assert_ne!(status, 200, "{command} {params:?}: {body}");
        assert_eq!(body["errorcode"], status);
        let class = body["cserrorcode"].as_u64();
        Refusal { code: status, class, text: text(&body["errortext"]), root }
    }

    /// Sends an asynchronous command: the id of its job.
    pub fn start(&mut self, command: &str, params: Params) -> String {
        text(&self.ask(command, params)["jobid"])
    }

    /// What queryAsyncJobResult says of a job.
    pub fn job(&mut self, id: &str) -> Value {
        self.ask("queryAsyncJobResult", &[("jobid", id)])
    }

    /// A job, followed to its end.
    pub fn finish(&mut self, command: &str, params: Params) -> Value {
        let id = self.start(command, params);
        self.wait(60);
        let job = self.job(&id);
        assert_ne!(job["jobstatus"], 0, "{command} does not end");
        job
    }

    /// A job that succeeds: its result.
    pub fn run(&mut self, command: &str, params: Params) -> Value {
        let job = self.finish(command, params);
        assert_eq!(job["jobstatus"], 1, "{command} {params:?}: {job}");
        job["jobresult"].clone()
    }

    /// A job that fails: its code and text.
    pub fn fails(&mut self, command: &str, params: Params) -> (u64, String) {
        let job = self.finish(command, params);
        assert_eq!(job["jobstatus"], 2, "{command} {params:?}: {job}");
        let code = job["jobresultcode"].as_u64().expect("a code");
        (code, text(&job["jobresult"]["errortext"]))
    }

    /// The id of an object that an account or its project owns, by name.
    pub fn id(&mut self, command: &str, name: &str) -> String {
        self.find(command, "name", name)
    }

    /// The id of a public IP address.
    pub fn address(&mut self, address: &str) -> String {
        self.find("listPublicIpAddresses", "ipaddress", address)
    }

    fn find(&mut self, command: &str, field: &str, value: &str) -> String {
        let before = self.caller;
        let mut found = None;
        for caller in ["prod", "other", "remote"] {
            self.caller = caller;
            for params in [&[][..], &[("projectid", "-1")]] {
                let mut rows = self.rows(command, params).into_iter();
                found = found.or_else(|| rows.find(|row| row[field] == value));
            }
        }
        self.caller = before;
        text(&found.unwrap_or_else(|| panic!("{command} shows no {field} {value}"))["id"])
    }

    /// Makes a rule on an address of `iso`, without opening the firewall, and returns its id.
    pub fn rule(&mut self, port: &str, more: Params) -> String {
        let address = self.address(PUBLIC);
        let params = rule_params(&address, port, more);
        text(&self.run("createLoadBalancerRule", &params)["loadbalancer"]["id"])
    }

    /// A rule as lists show it.
    pub fn listed_rule(&mut self, id: &str) -> Value {
        self.row("listLoadBalancerRules", &[("id", id)])
    }

    /// Makes a virtual machine a member of a rule.
    pub fn assign(&mut self, rule: &str, vm: &str) {
        let vm = self.id("listVirtualMachines", vm);
        self.run("assignToLoadBalancerRule", &[("id", rule), ("virtualmachineids", &vm)]);
    }

    /// Opens a port of an address for sources.
    pub fn open(&mut self, address: &str, port: &str, cidrs: &str) -> String {
        let params = [
            ("ipaddressid", address),
            ("protocol", "tcp"),
            ("startport", port),
            ("cidrlist", cidrs),
        ];
        text(&self.run("createFirewallRule", &params)["firewallrule"]["id"])
    }

    /// Adds an item to the list of the VPC and returns its id.
    pub fn acl_item(&mut self, more: Params) -> String {
        let list = self.id("listNetworkACLLists", "custom");
        let mut params = vec![("aclid", list.as_str()), ("protocol", "tcp")];
        params.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        params.extend(more);
        text(&self.run("createNetworkACL", &params)["networkacl"]["id"])
    }
}

/// Parameters of createLoadBalancerRule; those of `more` win.
pub fn rule_params<'a>(
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
    params.extend(more);
    params
}

/// A JSON value as plain text; absent is empty.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The keys of a JSON object, sorted.
pub fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}
