//! Whatever is wrong: exit code 1, what is wrong on stderr, nothing on stdout.

use crate::harness::{Directory, Ran, Served, command, fixture, run};

#[test]
fn a_wrong_flag_is_an_error_and_not_a_plan_with_changes() {
    run(&["plan", "--servicse", "x"]).fails_with(&["--servicse", "--service"]);
    run(&["plam"]).fails_with(&["plam", "plan"]);
    run(&["simulate", "--world", "w", "--latency", "50"]).fails_with(&["for example `50ms`"]);
    run(&["plan", "--service", "web"]).fails_with(&["NAMESPACE/NAME"]);
}

#[test]
fn a_world_without_a_user_gives_no_cloud_config() {
    let directory = Directory::new();
    let world =
        "version: 1\nrelease: 4.22.0.0\nzone: {name: z}\naccounts: [{name: a, role: Root Admin}]\n";
    let world = directory.write("world.yaml", world);
    let config = directory.path("cloud.conf");
    run(&["simulate", "--listen", "127.0.0.1:0", "--world", &world, "--cloud-config-out", &config])
        .fails_with(&["world.yaml", "no account of role User", "accounts"]);
}

#[test]
fn a_world_without_a_cluster_id_gives_a_cloud_config_that_can_be_used() {
    let without = |world: &str| {
        let id = world.lines().find(|line| line.starts_with("cluster-id:")).unwrap();
        world.replace(id, "")
    };
    let served = Served::start_in(without, &[]);
    assert!(std::fs::read_to_string(&served.config).unwrap().contains("cluster-id = simulated\n"));
    served.plan(&[]).exits(2);
}

#[test]
fn without_a_command_the_help_is_shown() {
    run(&[]).fails_with(&["Usage: cloudstack-ccm", "demo"]);
    let help = run(&["--help"]).exits(0);
    assert!(help.stdout.contains("plan") && help.stderr.is_empty());
    assert!(run(&["--version"]).exits(0).stdout.starts_with("cloudstack-ccm 0."));
}

#[test]
fn flags_without_a_command_are_the_controllers() {
    run(&["--leader-elekt"]).fails_with(&["--leader-elekt", "--leader-elect"]);
    run(&["--secure-port=70000"]).fails_with(&["--secure-port"]);
    run(&["--dry-run", "plan"]).fails_with(&["`--dry-run`", "write it after `plan`"]);
}

#[test]
fn every_mistake_in_the_configuration_is_in_one_message() {
    let directory = Directory::new();
    let config = directory.write(
        "cloud.conf",
        "[Global]\napi-url = http://127.0.0.1:1/client/api\napi_key = AKtest-0123\nssl-no-verify = maybe\n",
    );
    let services = fixture("demo/services");
    let nodes = fixture("demo/nodes");
    let sources = ["--services", &services, "--nodes", &nodes];
    run(&[&["plan", "--cloud-config", &config], &sources[..]].concat()).fails_with(&[
        "error: the configuration can't be used",
        "api_key",
        "`api-key`",
        "secret-key",
        "maybe",
    ]);
    run(&[&["plan", "--cloud-config", "/no/such/file"], &sources[..]].concat())
        .fails_with(&["/no/such/file", "No such file"]);
}

#[cfg(target_os = "linux")]
#[test]
fn certificates_of_a_collector_that_are_none_are_told() {
    for (path, cause) in [("/dev/null", "it has none"), ("/dev/zero", "more than 4194304 bytes")] {
        let mut command = command(&["--otlp-endpoint=http://127.0.0.1:9"]);
        command.env("OTEL_EXPORTER_OTLP_CERTIFICATE", path);
        Ran::from(command.output().unwrap()).fails_with(&[path, "no certificates in PEM", cause]);
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let directory = Directory::new();
    let config = "[Global]\napi-url = http://127.0.0.1:9/client/api\napi-key = AKtest-0123\n\
                  secret-key = SKsecret-4242\ncluster-id = demo\n";
    let config = directory.write("cloud.conf", config);
    let services = fixture("demo/services");
    let nodes = fixture("demo/nodes");
    let plan = ["plan", "--cloud-config", &config, "--services", &services, "--nodes", &nodes];
    run(&plan).fails_with(&[
        "error: could not read the current state",
        "caused by: listCapabilities",
        "127.0.0.1:9",
    ]);
}

#[test]
fn files_that_are_missing_or_something_else_are_named() {
    let directory = Directory::new();
    run(&["plan", "--from", "/no/such.json"]).fails_with(&["/no/such.json", "No such file"]);
    let other = directory.write("plan.json", r#"{"kind": "SavedPlan", "formatVersion": "1.0"}"#);
    run(&["plan", "--from", &other]).fails_with(&["a SavedPlan", "Snapshot was expected"]);
    let later = directory.write("later.json", r#"{"kind": "Snapshot", "formatVersion": "2.0"}"#);
    run(&["plan", "--from", &later]).fails_with(&["format 2.0"]);
    let cut = directory.write("cut.json", r#"{"kind": "Snapshot", "formatVersion": "1.0"}"#);
    run(&["plan", "--from", &cut]).fails_with(&["cut.json", "missing field"]);
    run(&["simulate", "--world", "/no/world.yaml"]).fails_with(&["/no/world.yaml"]);
}

#[test]
fn manifests_need_a_cluster_id_services_and_nodes() {
    let directory = Directory::new();
    let config = "[Global]\napi-url = http://127.0.0.1:9/client/api\napi-key = AKtest-0123\n\
                  secret-key = SKsecret-4242\n";
    let config = directory.write("cloud.conf", config);
    let services = fixture("demo/services");
    let fixed = ["plan", "--cloud-config", &config];
    run(&[&fixed[..], &["--services", &services, "--nodes", &services]].concat())
        .fails_with(&["cluster-id"]);
    let named = [&fixed[..], &["--cluster-id", "demo"]].concat();
    // Without files a live cluster is meant, and there is none around.
    run(&named).fails_with(&["--services", "no API server is known", "--kubeconfig"]);
    run(&[&named[..], &["--nodes", &services]].concat()).fails_with(&["--nodes without"]);
    run(&[&named[..], &["--services", &services]].concat()).fails_with(&["--nodes"]);
    run(&[&named[..], &["--services", "/no/such/dir"]].concat()).fails_with(&["/no/such/dir"]);
}

/// A kubeconfig for a port where nobody listens.
const KUBECONFIG: &str = r#"{
  "apiVersion": "v1", "kind": "Config", "current-context": "prod-eu",
  "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
  "users": [{"name": "u", "user": {"token": "kube-token-0123"}}],
  "contexts": [{"name": "prod-eu", "context": {"cluster": "c", "user": "u"}}]
}"#;

#[test]
fn a_cluster_that_can_not_be_used_is_named_with_what_to_do() {
    let directory = Directory::new();
    let config = "[Global]\napi-url = http://127.0.0.1:9/client/api\napi-key = AKtest-0123\n\
                  secret-key = SKsecret-4242\n";
    let config = directory.write("cloud.conf", config);
    let kubeconfig = directory.write("kubeconfig", KUBECONFIG);
    let services = fixture("demo/services");
    let out = directory.path("snapshot.json");
    for verb in [&["plan"][..], &["snapshot", "--out", &out]] {
        let with = |more: &[&str]| run(&[verb, &["--cloud-config", &config], more].concat());
        with(&["--kubeconfig", "/no/such/file"]).fails_with(&["/no/such/file", "No such file"]);
        with(&["--kubeconfig", &config]).fails_with(&["cloud.conf can't be used"]);
        with(&["--kubeconfig", &kubeconfig, "--context", "prod_eu"])
            .fails_with(&["no context \"prod_eu\"", "did you mean \"prod-eu\""]);
        with(&["--kubeconfig", &kubeconfig])
            .fails_with(&["the API server https://127.0.0.1:9/ can't be reached", "list services"]);
        with(&["--kubeconfig", &kubeconfig, "--services", &services]).fails_with(&[
            "--services",
            "cannot be used with",
            "--kubeconfig",
        ]);
    }
    run(&["plan", "--from", &out, "--kubeconfig", &kubeconfig])
        .fails_with(&["cannot be used with"]);
}

#[test]
fn the_cluster_of_the_environment_is_meant_where_no_flag_names_one() {
    let directory = Directory::new();
    let config = "[Global]\napi-url = http://127.0.0.1:9/client/api\napi-key = AKtest-0123\n\
                  secret-key = SKsecret-4242\n";
    let config = directory.write("cloud.conf", config);
    let kubeconfig = directory.write("kubeconfig", KUBECONFIG);
    let of = |kubeconfig: &str| -> Ran {
        let mut plan = command(&["plan", "--cloud-config", &config]);
        plan.env("KUBECONFIG", kubeconfig).output().unwrap().into()
    };
    of(&kubeconfig).fails_with(&["https://127.0.0.1:9/ can't be reached"]);
    of("/no/such/file").fails_with(&["$KUBECONFIG can't be used", "/no/such/file"]);
}

#[test]
fn a_plan_of_files_is_applied_to_no_cluster() {
    let served = Served::start();
    let file = served.directory.path("plan.json");
    served.plan(&["--out", &file]).exits(2);
    let kubeconfig = served.directory.write("kubeconfig", KUBECONFIG);
    served.apply(&file, &["--kubeconfig", &kubeconfig]).fails_with(&["made from files"]);
    let text = std::fs::read_to_string(&file).unwrap();
    let live = served.directory.write("live.json", &text.replace("\"manifests\"", "\"cluster\""));
    served
        .apply(&live, &["--kubeconfig", &kubeconfig])
        .fails_with(&["https://127.0.0.1:9/ can't be reached", "list services"]);
}

#[test]
fn a_log_filter_that_is_none_is_an_error() {
    run(&["plan", "--from", "x", "--log-level", "a=b=c"]).fails_with(&["a=b=c"]);
}
