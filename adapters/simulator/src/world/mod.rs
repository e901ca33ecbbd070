//! `world.yaml`: what the simulated CloudStack holds at first, written by hand. Objects refer to
//! each other by name, or by id where the file fixes one; every id may be left out and then comes
//! from the seed.
//!
//! The same file starts the demo, the tests and the replay of recordings. Its JSON schema is
//! `deploy/world.schema.json`.

mod accounts;
pub(crate) mod build;
mod error;
mod machines;
mod objects;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

pub use self::accounts::{
    Account, Domain, KeyPair, KeyRule, Limits, Permission, Project, Role, State, User,
};
pub use self::error::WorldError;
use self::error::without_values;
pub use self::machines::{Nic, ServiceOffering, VirtualMachine, VmState};
pub use self::objects::{
    AclAction, AclItem, AclList, Address, FirewallRule, JobDurations, LbScheme, Network,
    NetworkKind, NetworkOffering, NetworkState, PortForward, Range, Rule, TrafficType, Vpc,
    VpcServices, Zone,
};

#[cfg(test)]
use schemars::JsonSchema;

/// Fields of an answer that have no meaning for the simulator, shown as they are.
pub type Extra = BTreeMap<String, Value>;

/// A world file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct World {
    /// Version of this format: 1.
    pub version: u32,
    /// CloudStack release, such as `4.22.0.0`; 4.15 to 4.23.
    pub release: String,
    /// Where ids come from: the same seed and requests give the same ids.
    #[serde(default)]
    pub seed: u64,
    /// When the objects of the file were made.
    #[serde(default = "defaults::started")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub started: Timestamp,
    /// The one zone.
    pub zone: Zone,
    /// The domain of everybody who names no other.
    #[serde(default)]
    pub domain: Domain,
    /// Further domains.
    #[serde(default)]
    pub domains: Vec<Domain>,
    /// Global settings by their names in CloudStack, where they differ from its defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Addresses that can be acquired; those under `addresses` may lie in it or not.
    #[serde(default)]
    pub public_range: Option<Range>,
    /// Rows of a list without page parameters, and the largest page.
    #[serde(default = "defaults::page_limit")]
    pub page_limit: usize,
    /// `cluster-id` of the cloud-config that is made for the world.
    #[serde(default)]
    pub cluster_id: Option<String>,
    /// How long jobs take.
    #[serde(default)]
    pub jobs: JobDurations,
    /// Accounts with their users.
    #[serde(default)]
    pub accounts: Vec<Account>,
    /// Projects, which own objects for several accounts.
    #[serde(default)]
    pub projects: Vec<Project>,
    /// Guest networks that are no tiers.
    #[serde(default)]
    pub networks: Vec<Network>,
    /// VPCs with their tiers and ACL lists.
    #[serde(default)]
    pub vpcs: Vec<Vpc>,
    /// Ids of the two lists `default_allow` and `default_deny`, by name.
    #[serde(default)]
    pub default_acl_lists: BTreeMap<String, String>,
    /// Ids of the two items of each of them, ingress first, by the name of the list.
    #[serde(default)]
    pub default_acl_items: BTreeMap<String, [String; 2]>,
    /// Sizes of virtual machines.
    #[serde(default)]
    pub service_offerings: Vec<ServiceOffering>,
    /// Virtual machines.
    #[serde(default)]
    pub virtual_machines: Vec<VirtualMachine>,
    /// Public IP addresses that are in use, or whose id matters.
    #[serde(default)]
    pub addresses: Vec<Address>,
    /// Load-balancer rules, pushed to the router.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Firewall rules, pushed to the router.
    #[serde(default)]
    pub firewall_rules: Vec<FirewallRule>,
    /// Port-forwarding rules: they keep ports taken.
    #[serde(default)]
    pub port_forwards: Vec<PortForward>,
}

/// Largest world file, in bytes.
pub const FILE_LIMIT: u64 = 64 << 20;

impl World {
    /// Reads a file.
    ///
    /// # Errors
    /// If it can not be read, or as `parse`.
    pub fn load(path: &Path) -> Result<Self, WorldError> {
        let text = text_of_file(path)
            .map_err(|source| WorldError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads the text of a file. Whether names lead somewhere is found out when a simulator is made
    /// of it.
    ///
    /// # Errors
    /// If it is no YAML, has unknown fields or lacks some, or is of another version of the format.
    pub fn parse(text: &str) -> Result<Self, WorldError> {
        let world: Self = serde_saphyr::from_str(text)
            .map_err(|error| WorldError::Form { cause: without_values(&error) })?;
        match world.version {
            1 => Ok(world),
            found => Err(WorldError::Format { found }),
        }
    }

    /// The cloud-config for the first account of the role User, as the controller reads it. It
    /// names a project if all that the account can see is in one.
    ///
    /// Empty keys and no account at all give a file that a controller refuses, as it should.
    pub fn cloud_config(&self, api_url: &str) -> String {
        let account = self.user();
        let (api_key, secret_key) = account
            .map_or(("", ""), |account| (account.api_key.as_str(), account.secret_key.as_str()));
        let project = account.and_then(|account| self.only_project(account));
        let settings = [
            ("api-url", Some(api_url)),
            ("api-key", Some(api_key)),
            ("secret-key", Some(secret_key)),
            ("project-id", project.as_deref()),
            ("zone", Some(self.zone.name.as_str())),
            ("cluster-id", self.cluster_id.as_deref()),
        ];
        let lines: Vec<String> = settings
            .iter()
            .filter_map(|(name, value)| Some(format!("{name} = {}\n", (*value)?)))
            .collect();
        format!("[Global]\n{}", lines.concat())
    }

    /// The first account of the role User, whom the cloud-config is for.
    pub fn user(&self) -> Option<&Account> {
        self.accounts.iter().find(|account| account.role == Role::User)
    }

    /// The id of the project in which an account has its virtual machines, if it has none of its
    /// own.
    fn only_project(&self, account: &Account) -> Option<String> {
        let owns = |name: &str| self.virtual_machines.iter().any(|vm| vm.owner == name);
        if owns(&account.name) {
            return None;
        }
        let name = account.projects.iter().find(|name| owns(name))?;
        // An id that the file leaves out is the one that every simulator of this world draws.
        let cloud = build::cloud(self).ok()?;
        let (_, project) = cloud.projects.iter().find(|(_, project)| project.name == *name)?;
        Some(project.id.clone())
    }
}

mod defaults {
    use jiff::Timestamp;

    pub(super) fn started() -> Timestamp {
        // 2026-01-01T00:00:00Z.
        Timestamp::from_second(1_767_225_600).unwrap_or_default()
    }

    pub(super) fn page_limit() -> usize {
        500
    }
}

fn text_of_file(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_LIMIT) {
        return Err(invalid(format!("it has more than {FILE_LIMIT} bytes")));
    }
    String::from_utf8(bytes)
        .map_err(|error| invalid(format!("it is no UTF-8: {}", error.utf8_error())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::Simulator;

    const SCHEMA: &str = "../../deploy/world.schema.json";
    const DEMO: &str = "../../fixtures/demo/world.yaml";

    fn error(text: &str) -> String {
        let text = format!("version: 1\nrelease: 4.22.0.0\nzone: {{name: z}}\n{text}");
        let world = match World::parse(&text) {
            Ok(world) => world,
            Err(error) => return error.to_string(),
        };
        Simulator::new(&world).unwrap_err().to_string()
    }

    #[test]
    fn the_schema_is_that_of_the_types() {
        let schema = serde_json::to_string_pretty(&schemars::schema_for!(World)).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(SCHEMA, &schema).unwrap();
        }
        let stored = std::fs::read_to_string(SCHEMA).unwrap();
        assert!(stored == schema, "run this test with UPDATE_SCHEMA=1 and commit {SCHEMA}");
    }

    #[test]
    fn the_demo_validates_and_starts() {
        let text = std::fs::read_to_string(DEMO).unwrap();
        let schema: Value =
            serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
        let instance: Value = serde_saphyr::from_str(&text).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&instance).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
        let world = World::load(Path::new(DEMO)).unwrap();
        Simulator::new(&world).unwrap();
        assert_eq!(
            world.cloud_config("http://localhost:8080/client/api"),
            "[Global]\napi-url = http://localhost:8080/client/api\napi-key = demo-api-key\n\
             secret-key = demo-secret-key\nzone = zone-1\ncluster-id = demo\n"
        );
    }

    #[test]
    fn the_cloud_config_names_a_project_if_all_machines_are_in_it() {
        let text = "version: 1\nrelease: 4.22.0.0\nzone: {name: z}\nprojects: [{name: web}]\n\
                    accounts: [{name: a, projects: [web]}]\nvirtual-machines: [{name: n, owner: web}]\n";
        let world = World::parse(text).unwrap();
        let mut simulator = Simulator::new(&world).unwrap();
        let response = simulator.call("a", "listProjects", &[], Timestamp::UNIX_EPOCH);
        let body: Value = serde_json::from_str(&response.body).unwrap();
        let id = body["listprojectsresponse"]["project"][0]["id"].as_str().unwrap();
        assert!(world.cloud_config("u").contains(&format!("project-id = {id}\n")));
    }

    #[test]
    fn of_a_long_name_errors_show_the_beginning() {
        let long = "x".repeat(5000);
        let unknown = error(&format!("networks: [{{name: n, owner: {long}, cidr: 10.0.0.0/8}}]\n"));
        assert!(unknown.contains("owner") && unknown.len() < 400, "{unknown}");
        let setting = error(&format!("settings: {{{long}: \"1\"}}\n"));
        assert!(setting.len() < 400, "{setting}");
        let world = World::parse(&format!("version: 1\nrelease: {long}\nzone: {{name: z}}\n"));
        let Err(WorldError::Release { source }) = Simulator::new(&world.unwrap()) else {
            panic!("a release")
        };
        assert!(source.to_string().len() < 200, "{source}");
    }

    #[test]
    fn errors_name_place_and_cause() {
        assert!(
            error("colour: blue\n").contains("line 4, column 1: unknown field; expected one of ")
        );
        assert!(error("vpcs: [{}]\n").contains("line 4, column 8: `name` is missing"));
        assert_eq!(
            error("networks: [{name: n, owner: nobody, cidr: 10.0.0.0/8}]\n"),
            "networks[0].owner: there is no account or project \"nobody\""
        );
        let account = "accounts: [{name: a}]\n";
        assert_eq!(
            error(&format!(
                "{account}networks: [{{name: n, owner: a, cidr: 10.0.0.0/8, acl: x}}]\n"
            )),
            "networks[0].acl: an isolated network has no ACL list; only a tier of a VPC has"
        );
        assert_eq!(
            error(&format!("{account}addresses: [{{address: 192.0.2.1, owner: a, network: x}}]\n")),
            "addresses[0].network: there is no network \"x\""
        );
        assert_eq!(
            error("rules: [{name: r, address: 192.0.2.1, port: 80, private-port: 80}]\n"),
            "rules[0].address: there is no public IP address \"192.0.2.1\""
        );
        let odd = World::parse("version: 2\nrelease: 4.22.0.0\nzone: {name: z}\n").unwrap_err();
        assert_eq!(odd.to_string(), "`version` is 2, and only 1 is known");
        let world = World::parse("version: 1\nrelease: latest\nzone: {name: z}\n").unwrap();
        assert!(matches!(Simulator::new(&world), Err(WorldError::Release { .. })));
    }
}
