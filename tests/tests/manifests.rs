//! What an operator applies: `deploy/manifests`, read with the types of Kubernetes.

use std::collections::BTreeSet;

use ccm_cloudstack::{Command, Verb};
use ccm_core::permission::Task;
use ccm_core::permission::cloudstack::COMMANDS;
use ccm_core::permission::kubernetes::{self, Source};
use ccm_tests::deploy::{files, objects};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PodSpec, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const NAME: &str = "cloud-controller-manager";
const DRY_RUN: &str = "cloudstack-ccm-dry-run";
/// What changes nothing.
const READS: [&str; 3] = ["get", "list", "watch"];

/// The objects of a kind, and the file of each.
fn of_kind<T: DeserializeOwned>(kind: &str) -> Vec<(String, T)> {
    let all = files().into_iter().flat_map(|file| {
        let named = objects(&file).into_iter().map(move |object| (file.clone(), object));
        named.collect::<Vec<_>>()
    });
    all.filter(|(_, object)| object["kind"] == kind)
        .map(|(file, object)| {
            let typed = serde_json::from_value(object);
            let typed = typed.unwrap_or_else(|error| panic!("{file}, {kind}: {error}"));
            (file, typed)
        })
        .collect()
}

fn deployments() -> Vec<(String, Deployment)> {
    let found = of_kind("Deployment");
    assert_eq!(found.len(), 2);
    found
}

fn pod(deployment: &Deployment) -> PodSpec {
    let spec = deployment.spec.clone().expect("a spec");
    spec.template.spec.expect("a pod")
}

fn container(pod: &PodSpec) -> &Container {
    let [container] = pod.containers.as_slice() else { panic!("{:?}", pod.containers) };
    container
}

/// The Deployment of the controller itself.
fn controller() -> Deployment {
    let found = deployments().into_iter().find(|(file, _)| file == "deployment.yaml");
    found.expect("the controller").1
}

/// What a service account is granted by the rules in `deploy/manifests`: cluster-wide, and in
/// kube-system.
fn rules(account: &str) -> Vec<PolicyRule> {
    let bound = |subjects: &Option<Vec<Subject>>, role: &RoleRef, kind: &str, name: &str| {
        let subjects = subjects.iter().flatten();
        let mut names = subjects.map(|subject| subject.name.as_str());
        names.any(|subject| subject == account) && role.kind == kind && role.name == name
    };
    let cluster: Vec<(String, ClusterRoleBinding)> = of_kind("ClusterRoleBinding");
    let local: Vec<(String, RoleBinding)> = of_kind("RoleBinding");
    let narrow: Vec<(String, Role)> = of_kind("Role");
    let wide: Vec<(String, ClusterRole)> = of_kind("ClusterRole");
    let wide_rules = wide.into_iter().filter_map(|(_, role)| {
        let name = role.metadata.name.as_deref().expect("a name");
        let is_bound = |binding: &ClusterRoleBinding| {
            bound(&binding.subjects, &binding.role_ref, "ClusterRole", name)
        };
        cluster.iter().any(|(_, binding)| is_bound(binding)).then(|| role.rules.unwrap_or_default())
    });
    let local_rules = narrow.into_iter().filter_map(|(_, role)| {
        let name = role.metadata.name.as_deref().expect("a name");
        let is_bound =
            |binding: &RoleBinding| bound(&binding.subjects, &binding.role_ref, "Role", name);
        local.iter().any(|(_, binding)| is_bound(binding)).then(|| role.rules.unwrap_or_default())
    });
    wide_rules.chain(local_rules).flatten().collect()
}

fn granted(account: &str) -> BTreeSet<(String, String)> {
    let pairs = rules(account).into_iter().flat_map(|rule| {
        let resources = rule.resources.unwrap_or_default();
        let pair = move |verb: &String| {
            let verb = verb.clone();
            resources.clone().into_iter().map(move |resource| (resource, verb.clone()))
        };
        rule.verbs.iter().flat_map(pair).collect::<Vec<_>>()
    });
    pairs.collect()
}

/// Whether a value has no field that its type lost: a misspelt one would.
fn assert_complete<T: DeserializeOwned + Serialize>(kind: &str) {
    for file in files() {
        for object in objects(&file).into_iter().filter(|object| object["kind"] == kind) {
            let typed: T = serde_json::from_value(object.clone()).expect("an object of its kind");
            let kept = serde_json::to_value(&typed).expect("JSON");
            assert_eq!(sorted(&kept), sorted(&object), "{file}, {kind}");
        }
    }
}

/// The same with empty lists left out: some types write them always.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !matches!(value, Value::Array(list) if list.is_empty()))
            .map(|(key, value)| (key.clone(), sorted(value)))
            .collect(),
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_field_is_one_that_kubernetes_knows() {
    assert_complete::<Deployment>("Deployment");
    assert_complete::<ClusterRole>("ClusterRole");
    assert_complete::<ClusterRoleBinding>("ClusterRoleBinding");
    assert_complete::<Role>("Role");
    assert_complete::<RoleBinding>("RoleBinding");
    assert_complete::<ServiceAccount>("ServiceAccount");
    let kinds: BTreeSet<String> = files()
        .iter()
        .flat_map(|file| objects(file))
        .map(|object| object["kind"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(kinds.len(), 6, "a kind that is not looked at: {kinds:?}");
}

#[test]
fn containers_have_no_privileges() {
    for (file, deployment) in deployments() {
        let pod = pod(&deployment);
        let container = container(&pod);
        let of_pod = pod.security_context.as_ref().expect("a security context");
        let context = container.security_context.as_ref().expect("a security context");
        assert_eq!(of_pod.run_as_non_root, Some(true), "{file}");
        assert!(of_pod.run_as_user.is_some_and(|user| user > 0), "{file}");
        let profile = of_pod.seccomp_profile.as_ref().map(|profile| profile.type_.as_str());
        assert_eq!(profile, Some("RuntimeDefault"), "{file}");
        assert_eq!(context.allow_privilege_escalation, Some(false), "{file}");
        assert_eq!(context.read_only_root_filesystem, Some(true), "{file}");
        assert_eq!(context.privileged, None, "{file}");
        let capabilities = context.capabilities.as_ref().expect("capabilities");
        assert_eq!(capabilities.drop.as_deref(), Some(&["ALL".to_owned()][..]), "{file}");
        assert_eq!(capabilities.add, None, "{file}");
        assert_eq!((pod.host_pid, pod.host_ipc), (None, None), "{file}");
    }
}

#[test]
fn the_secret_is_mounted_read_only_and_nothing_else_is() {
    for (file, deployment) in deployments() {
        let pod = pod(&deployment);
        let [volume] = pod.volumes.as_deref().unwrap_or_default() else { panic!("{file}") };
        let secret = volume.secret.as_ref().expect("a Secret");
        assert_eq!(secret.secret_name.as_deref(), Some("cloudstack-secret"), "{file}");
        assert_eq!(secret.default_mode, Some(0o440), "{file}");
        let mounts = container(&pod).volume_mounts.clone().unwrap_or_default();
        let [mount] = mounts.as_slice() else { panic!("{file}: {mounts:?}") };
        assert_eq!((mount.mount_path.as_str(), mount.read_only), ("/config", Some(true)), "{file}");
        assert!(container(&pod).env.is_none(), "{file}: secrets come as a file");
    }
}

/// A changed selector would make `kubectl apply` fail beside the Go controller's Deployment.
#[test]
fn the_controller_replaces_the_go_one_in_place() {
    let deployment = controller();
    assert_eq!(deployment.metadata.name.as_deref(), Some(NAME));
    assert_eq!(deployment.metadata.namespace.as_deref(), Some("kube-system"));
    let selector = deployment.spec.as_ref().expect("a spec").selector.clone();
    let labels = selector.match_labels.expect("labels");
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), [("k8s-app".into(), NAME.into())]);
    let pod = pod(&deployment);
    assert_eq!(pod.service_account_name.as_deref(), Some(NAME));
    assert_eq!(container(&pod).command, None, "the image's entry point, as with the Go one");
    let args = container(&pod).args.clone().unwrap_or_default();
    assert!(args.contains(&"--cloud-provider=external-cloudstack".to_owned()), "{args:?}");
    assert!(args.contains(&"--cloud-config=/config/cloud-config".to_owned()), "{args:?}");
}

/// A node waits for the controller before it has a pod network, and may be the only one.
#[test]
fn the_controller_runs_where_nothing_else_does_yet() {
    let pod = pod(&controller());
    assert_eq!(pod.host_network, Some(true));
    assert_eq!(pod.dns_policy.as_deref(), Some("Default"));
    assert_eq!(pod.priority_class_name.as_deref(), Some("system-cluster-critical"));
    let tolerations = pod.tolerations.clone().unwrap_or_default();
    let tolerates = |key: &str, effect: &str| {
        tolerations.iter().find(|toleration| {
            toleration.key.as_deref() == Some(key)
                && toleration.operator.as_deref() == Some("Exists")
                && toleration.effect.as_deref().is_none_or(|found| found == effect)
        })
    };
    for (key, effect) in [
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        ("node-role.kubernetes.io/control-plane", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
    ] {
        let found = tolerates(key, effect).unwrap_or_else(|| panic!("{key}:{effect}"));
        assert_eq!(found.toleration_seconds, None, "{key}");
    }
    let unreachable = tolerates("node.kubernetes.io/unreachable", "NoExecute");
    let limit = unreachable.expect("a toleration").toleration_seconds;
    assert!(limit.is_some_and(|seconds| seconds < 300), "longer than the default: {limit:?}");
    let affinity = pod.affinity.expect("an affinity").node_affinity.expect("to nodes");
    assert!(affinity.required_during_scheduling_ignored_during_execution.is_none());
    assert!(affinity.preferred_during_scheduling_ignored_during_execution.is_some());
}

#[test]
fn two_replicas_never_want_one_port_of_a_host() {
    let deployment = controller();
    let spec = deployment.spec.clone().expect("a spec");
    assert_eq!(spec.replicas, Some(2));
    let strategy = spec.strategy.expect("a strategy").rolling_update.expect("a rolling update");
    assert_eq!(serde_json::to_value(strategy.max_surge).expect("JSON"), 0);
    let pod = pod(&deployment);
    let ports = container(&pod).ports.clone().unwrap_or_default();
    let [port] = ports.as_slice() else { panic!("{ports:?}") };
    assert_eq!((port.container_port, port.host_port), (10258, Some(10258)));
    let args = container(&pod).args.clone().unwrap_or_default();
    assert!(args.contains(&"--leader-elect=true".to_owned()), "{args:?}");
}

#[test]
fn a_dead_controller_is_restarted_and_a_slow_one_is_not_held_back() {
    for (file, deployment) in deployments() {
        let pod = pod(&deployment);
        let container = container(&pod);
        for (probe, path) in
            [(&container.liveness_probe, "/livez"), (&container.readiness_probe, "/readyz")]
        {
            let get = probe.as_ref().and_then(|probe| probe.http_get.as_ref()).expect("a probe");
            assert_eq!(get.path.as_deref(), Some(path), "{file}");
            assert_eq!(get.scheme.as_deref(), Some("HTTPS"), "{file}");
        }
        let resources = container.resources.as_ref().expect("resources");
        assert!(resources.requests.as_ref().is_some_and(|of| of.contains_key("cpu")), "{file}");
        assert!(!resources.limits.as_ref().is_some_and(|of| of.contains_key("cpu")), "{file}");
    }
}

#[test]
fn the_image_is_of_this_version() {
    for (file, deployment) in deployments() {
        let image = container(&pod(&deployment)).image.clone().unwrap_or_default();
        assert_eq!(image, format!("cloudstack-ccm:{}", env!("CARGO_PKG_VERSION")), "{file}");
    }
}

#[test]
fn no_rule_is_open() {
    for account in [NAME, DRY_RUN] {
        let rules = rules(account);
        assert!(!rules.is_empty());
        for rule in rules {
            let texts = rule.verbs.iter().chain(rule.resources.iter().flatten());
            let texts = texts.chain(rule.api_groups.iter().flatten());
            assert!(texts.into_iter().all(|text| text != "*"), "{rule:?}");
            assert!(rule.non_resource_urls.is_none(), "{rule:?}");
        }
    }
}

/// A rule of RBAC, taken apart: group, resource, verb, and the names that it is for.
type Part = (String, String, String, Vec<String>);

fn parts(rule: &PolicyRule) -> Vec<Part> {
    let PolicyRule { api_groups, resources, verbs, resource_names, .. } = rule;
    let names = resource_names.clone().unwrap_or_default();
    let mut parts = Vec::new();
    for group in api_groups.iter().flatten() {
        for resource in resources.iter().flatten() {
            let part =
                |verb: &String| (group.clone(), resource.clone(), verb.clone(), names.clone());
            parts.extend(verbs.iter().map(part));
        }
    }
    parts
}

#[test]
fn the_rules_are_those_of_the_table_of_permissions() {
    for (account, task) in [(NAME, Task::Controller), (DRY_RUN, Task::DryRun)] {
        let granted: BTreeSet<Part> = rules(account).iter().flat_map(parts).collect();
        let ours = kubernetes::of(task).filter(|grant| grant.source == Source::Manifest);
        let used: BTreeSet<Part> = ours
            .map(|grant| {
                let names = grant.place.name().map(str::to_owned).into_iter().collect();
                let text = str::to_owned;
                (text(grant.group), text(grant.resource), text(grant.verb), names)
            })
            .collect();
        assert_eq!(granted, used, "{account}");
    }
}

/// Whoever may be the controller may `apply`, and whoever may be the dry run may `plan`.
#[test]
fn commands_need_nothing_that_the_role_named_for_them_lacks() {
    for (task, role_of) in [(Task::Apply, Task::Controller), (Task::Plan, Task::DryRun)] {
        assert_eq!(task.granted_by(), role_of.granted_by());
        let lacking = kubernetes::of(task).filter(|grant| !grant.tasks.contains(&role_of));
        assert_eq!(lacking.map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    }
    for task in Task::ALL {
        let (file, role) = task.granted_by();
        let roles: Vec<(String, ClusterRole)> = of_kind("ClusterRole");
        let found = roles.iter().find(|(_, found)| found.metadata.name.as_deref() == Some(role));
        let (name, _) = found.expect("the role");
        assert_eq!(format!("deploy/manifests/{name}"), file);
    }
}

/// Every command that the client can send is in the table, and says there whether it changes
/// anything.
#[test]
fn the_table_of_permissions_has_every_command() {
    let table: BTreeSet<(&str, bool)> =
        COMMANDS.iter().map(|used| (used.command, used.changes)).collect();
    let commands = Command::ALL.iter();
    let sent = commands.map(|command| (command.name(), command.verb() != Verb::Read)).collect();
    assert_eq!(table, sent);
}

#[test]
fn the_controller_writes_little_and_reads_no_secrets() {
    let granted = granted(NAME);
    let writes: BTreeSet<(&str, &str)> = granted
        .iter()
        .filter(|(_, verb)| !READS.contains(&verb.as_str()))
        .map(|(resource, verb)| (resource.as_str(), verb.as_str()))
        .collect();
    let expected = BTreeSet::from([
        ("services/status", "patch"),
        ("nodes", "patch"),
        ("nodes", "delete"),
        ("nodes/status", "patch"),
        ("events", "create"),
        ("events", "patch"),
        ("leases", "create"),
        ("leases", "update"),
    ]);
    assert_eq!(writes, expected);
    assert!(granted.iter().all(|(resource, _)| resource != "secrets"), "{granted:?}");
}

#[test]
fn dry_run_writes_only_events_and_its_own_lease() {
    for rule in rules(DRY_RUN) {
        let writes = rule.verbs.iter().filter(|verb| !READS.contains(&verb.as_str()));
        let writes: Vec<&str> = writes.map(String::as_str).collect();
        let resources = rule.resources.clone().unwrap_or_default();
        match resources.as_slice() {
            [events] if events == "events" => assert_eq!(writes, ["create", "patch"]),
            // A create can't be granted by name.
            [leases] if leases == "leases" && rule.resource_names.is_none() => {
                assert_eq!(rule.verbs, ["create"]);
            }
            [leases] if leases == "leases" => {
                assert_eq!(rule.resource_names.as_deref(), Some(&[DRY_RUN.to_owned()][..]));
            }
            _ => assert!(writes.is_empty(), "{rule:?}"),
        }
    }
    let subjects = |account: &str| {
        let bindings: Vec<(String, ClusterRoleBinding)> = of_kind("ClusterRoleBinding");
        let of_account = |subjects: &Option<Vec<Subject>>| {
            subjects.iter().flatten().any(|subject| subject.name == account)
        };
        let bindings = bindings.into_iter().filter(|(_, found)| of_account(&found.subjects));
        bindings.map(|(_, found)| found.role_ref.name).collect::<BTreeSet<_>>()
    };
    let expected = ["system:auth-delegator", "system:cloudstack-ccm-dry-run"];
    assert_eq!(subjects(DRY_RUN), expected.map(str::to_owned).into());
}
