//! What a person sees who asks kubectl about a Service that is not served: enough to act on.
//!
//! `INSTA_UPDATE=always tests/e2e/run -- kubectl` writes `fixtures/kubectl`.

use ccm_tests::lab::{annotation, fixture};
use serde_json::json;

use crate::harness::scene::Scene;

/// Lines of `describe` of which the value is the cluster's choice.
const CHOSEN: [&str; 3] = ["IP:", "IPs:", "NodePort:"];
const EVENTS: &str = "custom-columns=TYPE:.type,REASON:.reason,FROM:.source.component,\
                      COUNT:.count,MESSAGE:.message";

#[tokio::test]
#[ignore = "needs tests/e2e/run"]
async fn e2e_kubectl_tells_what_is_wrong_with_a_service_and_what_to_do() {
    let scene = Scene::with_nodes(&["node-1"]).await;
    let mut controller = scene.controller("controller", &[]);
    scene.objects.until_initialised("node-1").await;
    // An address that CloudStack does not know.
    scene.objects.create_service("elsewhere", json!({ "loadBalancerIP": "192.0.2.99" })).await;
    // A key that nobody reads, and a value that can't be read.
    scene.objects.create_service("mistyped", json!({ "type": "ClusterIP" })).await;
    let annotations = json!({
        annotation("proxy-protocl"): "true",
        annotation("source-cidrs"): "10.0.0.0/33",
    });
    let mistyped = json!({
        "metadata": { "annotations": annotations }, "spec": { "type": "LoadBalancer" },
    });
    scene.objects.patch_service("mistyped", mistyped).await;
    scene.objects.until_event("mistyped", "UnknownAnnotation").await;
    let mut seen = Vec::new();
    for name in ["elsewhere", "mistyped"] {
        scene.objects.until_event(name, "SyncLoadBalancerFailed").await;
        let selector = format!("involvedObject.name={name}");
        let describe = ["describe", "service", name];
        let events =
            ["get", "events", "--sort-by=.reason", "--field-selector", &selector, "-o", EVENTS];
        for args in [&describe[..], &events[..]] {
            let shown = steady(&scene.cluster.kubectl(args));
            seen.push(format!("$ kubectl {}\n{shown}", args.join(" ")));
        }
    }
    controller.assert_lives();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(fixture("kubectl"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("failing-services", seen.join("\n")));
}

/// Without what differs from run to run: chosen values, ages, the width of columns, and the order of
/// events of one second.
fn steady(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(steady_line).collect();
    let first_event = lines.iter().position(|line| line.starts_with("  ----"));
    if let Some(header) = first_event {
        lines[header + 1..].sort();
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn steady_line(line: &str) -> String {
    let chosen = CHOSEN.iter().find(|key| line.starts_with(*key));
    if let Some(key) = chosen {
        return format!("{key}  (chosen)");
    }
    let cells: Vec<&str> =
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let indent = if line.starts_with("  ") { "  " } else { "" };
    match cells.as_slice() {
        [kind @ ("Normal" | "Warning"), reason, _age, from @ "service-controller", message] => {
            format!("{indent}{kind}  {reason}  (age)  {from}  {message}")
        }
        cells => format!("{indent}{}", cells.join("  ")),
    }
}
