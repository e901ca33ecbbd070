//! Commands without a kubeconfig, in a pod: with the files that a kubelet lays down, in the place where
//! it does, and the two variables that it sets. A mount namespace makes that place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::harness::command::{Ran, command, text};
use crate::harness::scene::{ACCOUNT, Scene};
use crate::harness::settings;

/// Puts a folder where pods have their service account, and runs the rest there.
const IN_POD: &str = "mount -t tmpfs tmpfs /var/run/ && mkdir -p /var/run/secrets/kubernetes.io && \
    cp -a \"$1\" /var/run/secrets/kubernetes.io/serviceaccount && shift && exec \"$@\"";

/// Whether this machine lets its user make a mount namespace.
fn has_namespaces() -> bool {
    let tried = Command::new("unshare")
        .args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/var/run/"])
        .status();
    tried.is_ok_and(|status| status.success())
}

impl Scene {
    /// As a kubelet does: files are links into a folder that a link names, so that all change at once.
    async fn service_account(&self) -> PathBuf {
        let folder = self.cluster.folder().join("serviceaccount");
        let data = folder.join("..2026_12_01_10_00_00.0123456789");
        fs::create_dir_all(&data).expect("a folder");
        let token = self.cluster.token_of("kube-system", ACCOUNT).await;
        fs::write(data.join("token"), token).expect("a token");
        fs::write(data.join("namespace"), "kube-system").expect("a namespace");
        fs::copy(self.cluster.authority(), data.join("ca.crt")).expect("an authority");
        symlink(data.file_name().expect("a name"), folder.join("..data")).expect("a link");
        for name in ["token", "namespace", "ca.crt"] {
            symlink(Path::new("..data").join(name), folder.join(name)).expect("a link");
        }
        folder
    }

    fn run_in_pod(&self, account: &Path, verb: &[&str]) -> Ran {
        let inner = command(&[verb, &["--cloud-config", text(&self.cloud_config)]].concat());
        let mut outer = Command::new("unshare");
        outer.args(["--map-root-user", "--mount", "sh", "-c", IN_POD, "sh", text(account)]);
        outer.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        outer.env("KUBERNETES_SERVICE_PORT", self.cluster.port().to_string());
        outer.output().expect("unshare runs").into()
    }
}

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_in_a_pod_commands_use_its_service_account() {
    if !has_namespaces() {
        return settings::not_tested(
            "commands in a pod: this machine gives its user no mount namespace",
        );
    }
    let scene = Scene::with_nodes(&["node-1"]).await;
    scene.objects.create_service("web", json!({})).await;
    let account = scene.service_account().await;

    let plan = scene.run_in_pod(&account, &["plan", "--detailed-exitcode"]).exits(2);
    assert!(plan.stdout.contains("associateIpAddress"), "{plan:#?}");
    let file = scene.cluster.folder().join("snapshot.json");
    scene.run_in_pod(&account, &["snapshot", "--out", text(&file)]).exits(0);
    let snapshot = fs::read_to_string(&file).expect("a snapshot");
    assert!(snapshot.contains("\"web\""), "{snapshot}");
    let check = scene.run_in_pod(&account, &["check-permissions"]).exits(0);
    assert!(
        check.stdout.contains("\nKubernetes") && check.stdout.contains("\nCloudStack"),
        "{check:#?}"
    );

    let token = account.join("..data/token");
    fs::write(&token, "nobodys").expect("a token");
    scene.run_in_pod(&account, &["plan"]).exits(1);
}
