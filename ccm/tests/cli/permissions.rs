//! `check-permissions`, by accounts of every role.

use std::fs;

use serde_json::Value;

use crate::harness::{Ran, Served, run};

const PROJECT: &str = "00000000-0000-4000-8000-0000000000f0";

/// Accounts after the one of the demo.
const ACCOUNTS: &str =
    "  - {name: dom, role: Domain Admin, api-key: dom-api-key, secret-key: dom-secret-key}
  - {name: boss, role: Root Admin, api-key: boss-api-key, secret-key: boss-secret-key}
  - {name: kube, role: Project Kubernetes Service Role, api-key: kube-api-key,
     secret-key: kube-secret-key, projects: [web]}
  - name: narrow
    key-pairs:
      - {api-key: some-api-key, secret-key: some-secret-key,
         rules: [{rule: listVPCs, permission: deny}, {rule: '*', permission: allow}]}
      - {api-key: few-api-key, secret-key: few-secret-key,
         rules: [{rule: listFirewallRules, permission: deny}, {rule: '*', permission: allow}]}
      - {api-key: mute-api-key, secret-key: mute-secret-key,
         rules: [{rule: listApis, permission: deny}, {rule: 'list*', permission: allow},
                 {rule: queryAsyncJobResult, permission: allow}, {rule: '*', permission: deny}]}
";

struct Accounts {
    served: Served,
}

impl Accounts {
    fn start(release: &str) -> Self {
        let more = format!("{ACCOUNTS}\nprojects:\n  - {{name: web, id: {PROJECT}}}\n");
        let adapt =
            |world: &str| world.replace("\nservice-offerings:", &(more + "\nservice-offerings:"));
        Self { served: Served::start_in(adapt, &["--version", release]) }
    }

    /// Checks with the keys `<name>-api-key` and `<name>-secret-key`.
    fn check(&self, name: &str, more: &[&str]) -> Ran {
        let config = fs::read_to_string(&self.served.config).unwrap();
        let config = config.replace("demo-api-key", &format!("{name}-api-key"));
        let config = config.replace("demo-secret-key", &format!("{name}-secret-key"));
        let config = self.served.directory.write(&format!("{name}.conf"), &config);
        run(&[&["check-permissions", "--cloud-config", &config], more].concat())
    }
}

/// The state of a command in the JSON form.
fn state(report: &str, command: &str) -> String {
    let report: Value = serde_json::from_str(report).unwrap();
    let schema = include_str!("../../../deploy/permissions.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    let mistakes = jsonschema::validator_for(&schema).unwrap();
    let mistakes: Vec<_> = mistakes.iter_errors(&report).map(|error| error.to_string()).collect();
    assert_eq!(mistakes, [""; 0]);
    assert_eq!((&report["kind"], &report["formatVersion"]), (&"Permissions".into(), &"1.0".into()));
    assert!(report.get("kubernetes").is_none(), "nobody asked for a cluster");
    let all = report["cloudstack"]["permissions"].as_array().unwrap().clone();
    let found = all.iter().find(|row| row["name"] == command);
    assert!(found.is_some(), "{command} is not in {all:?}");
    found.unwrap()["state"].as_str().unwrap().to_owned()
}

#[test]
fn default_roles_may_use_everything() {
    for release in ["4.15", "4.22", "4.23"] {
        let accounts = Accounts::start(release);
        let before = accounts.served.state();
        for name in ["demo", "dom", "boss"] {
            let ran = accounts.check(name, &[]).exits(0);
            let line = "\nPermissions: all that is needed is there.\n";
            assert!(ran.stdout.ends_with(line), "{name} on {release}: {}", ran.stdout);
            assert!(!ran.stdout.contains("missing") && !ran.stdout.contains("unknown"));
        }
        let after = accounts.served.state();
        assert_eq!((before.addresses, before.rules), (after.addresses, after.rules));
        assert_eq!(before.firewall_rules, after.firewall_rules);
    }
}

#[test]
fn the_restricted_role_lacks_what_is_optional() {
    for release in ["4.19", "4.22", "4.23"] {
        let accounts = Accounts::start(release);
        let project = ["--project-id", PROJECT];
        let ran = accounts.check("kube", &project).exits(0);
        assert!(ran.stdout.contains("missing  listVPCs "), "{}", ran.stdout);
        assert!(ran.stdout.contains("is found out by trying"), "{}", ran.stdout);
        assert!(ran.stdout.ends_with(
            "\nPermissions: nothing that is needed is known to be missing, 5 optional missing, \
             12 commands unknown until used.\n"
        ));
        let json = accounts.check("kube", &[&project[..], &["--output", "json"]].concat()).exits(0);
        assert_eq!(state(&json.stdout, "listNetworks"), "allowed");
        assert_eq!(state(&json.stdout, "queryAsyncJobResult"), "allowed");
        assert_eq!(state(&json.stdout, "listLoadBalancerRuleInstances"), "allowed");
        assert_eq!(state(&json.stdout, "listApis"), "missing");
        assert_eq!(state(&json.stdout, "createTags"), "unknown");
    }
}

#[test]
fn a_key_with_rules_of_its_own_may_have_less_than_its_role() {
    let accounts = Accounts::start("4.23");
    let json = ["--output", "json"];
    // What the list says of the role is not believed for the key any more.
    let some = accounts.check("some", &json).exits(0);
    assert_eq!(state(&some.stdout, "listVPCs"), "missing");
    assert_eq!(state(&some.stdout, "createLoadBalancerRule"), "unknown");
    let few = accounts.check("few", &[]).exits(2);
    assert!(few.stdout.contains("missing  listFirewallRules"), "{}", few.stdout);
    assert!(few.stdout.contains("needed; without it: nothing is planned"), "{}", few.stdout);
    assert!(few.stdout.contains("\nPermissions: 1 that is needed is missing"), "{}", few.stdout);
    let mute = accounts.check("mute", &json).exits(0);
    assert_eq!(state(&mute.stdout, "associateIpAddress"), "unknown");
}

#[test]
fn who_only_plans_needs_no_command_that_changes_anything() {
    let accounts = Accounts::start("4.22");
    for task in ["plan", "dry-run"] {
        let ran = accounts.check("demo", &["--for", task]).exits(0);
        assert!(ran.stdout.starts_with(&format!("permissions for {task}\n")), "{}", ran.stdout);
        assert!(ran.stdout.contains("listNetworks") && !ran.stdout.contains("associateIpAddress"));
    }
    accounts.check("demo", &["--for", "fun"]).fails_with(&["fun", "controller", "dry-run"]);
}

#[test]
fn wrong_keys_and_servers_that_are_not_there_are_errors() {
    let mut accounts = Accounts::start("4.22");
    accounts.check("nobody", &[]).fails_with(&["listApis", "401"]);
    accounts.served.stop();
    accounts.check("demo", &[]).fails_with(&["listApis"]);
    run(&["check-permissions"]).fails_with(&["--cloud-config", "--kubeconfig"]);
}
