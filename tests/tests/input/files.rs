//! Manifests, snapshots, saved plans, worlds and kubeconfigs.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use ccm_core::model::Learned;
use ccm_core::observe::index::Observed;
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::render::document::Document;
use ccm_core::render::human::{self, Colour};
use ccm_kubernetes::live::connect::{Unmetered, Whom, api_server};
use ccm_kubernetes::manifests::{Assume, read_text};
use ccm_simulator::{Simulator, World};
use ccm_tests::garble::{garble, garbles};
use ccm_tests::lab::{Setup, annotation, block_on, fixture, port};
use cloudstack_ccm::ports::Cluster as _;
use cloudstack_ccm::saved::{SavedPlan, Snapshot};
use cloudstack_ccm::{driver, pseudonym};
use proptest::prelude::*;
use serde_json::Value;

use crate::{File, cases, chain, changed, changes};

/// A Service that is served, one that waits, one that is wrong, and a tier.
static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |service| {
        service.source_ranges = vec!["198.51.100.0/24".to_owned()];
        service.annotations.insert(annotation("hostname"), "web.example".to_owned());
    });
    lab.converge(&web);
    lab.edit(&web, |service| service.ports.push(port("https", "TCP", 443, 30443)));
    lab.create("new", |service| service.load_balancer_ip = Some("203.0.113.52".to_owned()));
    lab.create("wrong", |service| {
        service.annotations.insert(annotation("proxy-protocol"), "yes".to_owned());
    });
    let objects = block_on(lab.cluster.read()).expect("objects");
    let desired = driver::desire(&objects, &lab.policy, Learned::default());
    let state = driver::observe_state(&lab.client, &desired, &lab.policy, Depth::Thorough);
    Snapshot::new(lab.policy.clone(), objects, block_on(state).expect("a state"))
});

static SNAPSHOT_JSON: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(&*SNAPSHOT).expect("JSON"));

static PLAN_JSON: LazyLock<Value> = LazyLock::new(|| {
    let Snapshot { policy, objects, .. } = SNAPSHOT.clone();
    serde_json::to_value(SavedPlan::new(policy, objects, plan(&SNAPSHOT))).expect("JSON")
});

fn plan(snapshot: &Snapshot) -> Document {
    let Snapshot { policy, objects, cloud, .. } = snapshot;
    let desired = driver::desire(objects, policy, Learned::default());
    let observed = Observed::new(cloud.clone());
    let planner = Planner::new(&desired, &observed, policy, cloud.at);
    // What contradicts itself may be called a bug of ours; it must not end the process.
    let plans = driver::plan_all(&planner).unwrap_or_default();
    Document::new(&planner, &plans, "test")
}

fn judge_snapshot(path: &Path) -> Result<(), TestCaseError> {
    match Snapshot::read(path) {
        Ok(snapshot) => {
            let document = plan(&snapshot);
            let _ = human::print(&document, Colour::Never);
            let _ = pseudonym::replace(&snapshot);
        }
        Err(error) => placed(path, &chain(&error))?,
    }
    Ok(())
}

fn judge_plan(path: &Path) -> Result<(), TestCaseError> {
    match SavedPlan::read(path) {
        Ok(saved) => {
            let _ = human::print(&saved.document, Colour::Never);
        }
        Err(error) => placed(path, &chain(&error))?,
    }
    Ok(())
}

/// An error names the file, and the line or what was expected.
fn placed(path: &Path, told: &str) -> Result<(), TestCaseError> {
    prop_assert!(told.contains(&path.display().to_string()), "{told}");
    let cause =
        ["line ", "was expected", "format", "UTF-16"].iter().any(|word| told.contains(word));
    prop_assert!(cause, "neither place nor cause: {told}");
    prop_assert!(told.len() < 2_000, "{told}");
    Ok(())
}

const MANIFEST: &str = "apiVersion: v1\nkind: List\nitems:\n- kind: Service\n  metadata:\n    name: web\n    \
    annotations: {a: \"b\"}\n  spec:\n    type: LoadBalancer\n    ports:\n    - {port: 80, nodePort: 30080}\n---\n\
    kind: Node\nmetadata: {name: node-1}\nspec: {providerID: \"cloudstack:///a\", taints: [{key: k, effect: e}]}\n\
    status:\n  addresses: [{type: InternalIP, address: 10.1.1.1}]\n";

const JSON_MANIFEST: &str = r#"{"apiVersion":"v1","kind":"ServiceList","items":[{"metadata":{"name":"a","annotations":
    {"b":"c"},"creationTimestamp":"2026-12-01T20:41:36Z"},"spec":{"ports":[{"port":80,"nodePort":30080}]}}]}
    {"kind":"Node","metadata":{"name":"n"},"status":{"addresses":[{"type":"InternalIP","address":"10.1.1.1"}]}}"#;

fn judge_manifest(name: &str, bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(text) = ccm_core::text::decode(bytes.to_vec(), 1 << 20) else { return Ok(()) };
    let Err(errors) = read_text(Path::new(name), &text, Assume::Service) else { return Ok(()) };
    for error in errors.iter().map(ToString::to_string) {
        let placed =
            error.starts_with(&format!("{name}, document ")) || error.contains(" stands in ");
        prop_assert!(placed, "{error}");
    }
    prop_assert!(errors.to_string().len() < 60_000, "{errors}");
    Ok(())
}

const TOKEN: &str = "kube-token-0123-4567";
const PASSWORD: &str = "kube-pass-89ab-cdef";
const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster:\n    \
    server: https://127.0.0.1:9\n    certificate-authority-data: AAAA\nusers:\n- name: u\n  user:\n    \
    token: kube-token-0123-4567\n    username: jane\n    password: \"kube-pass-89ab-cdef\"\ncontexts:\n- name: c\n  \
    context: {cluster: c, user: u}\n";

fn judge_kubeconfig(bytes: &[u8]) -> Result<(), TestCaseError> {
    let file = File::new("kubeconfig");
    let path = file.write(bytes);
    let whom = Whom { kubeconfig: Some(path), context: None, master: None };
    if let Err(error) = block_on(api_server(whom, Arc::new(Unmetered))) {
        let told = chain(&error);
        prop_assert!(!told.contains(TOKEN) && !told.contains(PASSWORD), "{told}");
        let named = told.contains(&path.display().to_string());
        prop_assert!(named || told.contains("client can't be set up: "), "{told}");
    }
    Ok(())
}

#[test]
fn a_broken_kubeconfig_is_told_by_line_without_what_it_holds() {
    for (text, line) in [
        (KUBECONFIG.replace("username: jane", "username: [1"), "line "),
        (KUBECONFIG.replace("    token: ", "    "), "line "),
        (KUBECONFIG.replace("user:\n    token: ", "user: \"").replace("username", "\" #"), "line "),
        (KUBECONFIG.replace("users:\n- name", "users:\n  name"), "line "),
    ] {
        let file = File::new("broken");
        let path = file.write(text.as_bytes());
        let whom = Whom { kubeconfig: Some(path), context: None, master: None };
        let error = block_on(api_server(whom, Arc::new(Unmetered))).err().expect(&text);
        let told = chain(&error);
        assert!(told.contains(&path.display().to_string()) && told.contains(line), "{told}");
        assert!(!told.contains("kube-token") && !told.contains("kube-pass"), "{told}");
    }
}

#[test]
fn files_without_end_and_of_other_encodings_are_told() {
    let endless = |error: String| assert!(error.contains("more than"), "{error}");
    if cfg!(target_os = "linux") {
        endless(chain(&Snapshot::read(Path::new("/dev/zero")).unwrap_err()));
        endless(chain(&World::load(Path::new("/dev/zero")).unwrap_err()));
        let source =
            ccm_kubernetes::manifests::Source { path: "/dev/zero".into(), assume: Assume::Service };
        endless(ccm_kubernetes::manifests::read(&[source]).unwrap_err().to_string());
    }
    let text = SNAPSHOT_JSON.to_string();
    let file = File::new("bom.json");
    let read = Snapshot::read(file.write(format!("\u{feff}{text}").as_bytes())).unwrap();
    assert_eq!(read, *SNAPSHOT);
    let utf16: Vec<u8> =
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let told = chain(&Snapshot::read(file.write(&utf16)).unwrap_err());
    assert!(told.contains("UTF-16"), "{told}");
}

#[test]
fn a_world_that_is_none_is_told_by_line_without_its_keys() {
    let text = std::fs::read_to_string(fixture("demo/world.yaml")).unwrap();
    for (good, bad) in [
        ("secret-key: ", "secret-key: ["),
        ("secret-key: ", "secret-key: {"),
        ("secret-key: ", "seecret-key: "),
        ("secret-key: ", ""),
        ("secret-key: ", "secret-key: \""),
        ("role: User", "role: demo-secret-key"),
        ("seed: ", "seed: demo-secret-key #"),
        ("release: ", "release: [demo-secret-key] #"),
    ] {
        let broken = text.replacen(good, bad, 1);
        assert_ne!(text, broken, "{good}");
        let told = chain(&World::parse(&broken).expect_err(bad));
        assert!(told.contains("line ") && !told.contains("demo-"), "{bad}: {told}");
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_garbled_snapshot_is_read_or_refused(changes in garbles(), pretty in any::<bool>()) {
        let text = if pretty { format!("{:#}", *SNAPSHOT_JSON) } else { SNAPSHOT_JSON.to_string() };
        let file = File::new("garbled.json");
        judge_snapshot(file.write(&garble(text.as_bytes(), &changes)))?;
    }

    #[test]
    fn a_changed_snapshot_is_planned_or_refused(changes in changes()) {
        let file = File::new("changed.json");
        judge_snapshot(file.write(changed(&SNAPSHOT_JSON, &changes).to_string().as_bytes()))?;
    }

    #[test]
    fn a_changed_or_garbled_saved_plan_is_read_or_refused(changes in changes(), bytes in garbles()) {
        let text = changed(&PLAN_JSON, &changes).to_string();
        let file = File::new("plan.json");
        judge_plan(file.write(text.as_bytes()))?;
        judge_plan(file.write(&garble(text.as_bytes(), &bytes)))?;
    }

    #[test]
    fn a_garbled_world_is_a_world_or_none(changes in garbles()) {
        let text = std::fs::read(fixture("demo/world.yaml")).unwrap();
        let bytes = garble(&text, &changes);
        if let Err(error) = World::parse(&String::from_utf8_lossy(&bytes)).and_then(|world| Simulator::new(&world)) {
            let told = chain(&error);
            prop_assert!(!told.is_empty() && told.len() < 2_000, "{told}");
        }
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn a_garbled_manifest_is_read_or_refused(changes in garbles()) {
        judge_manifest("a.yaml", &garble(MANIFEST.as_bytes(), &changes))?;
        judge_manifest("a.json", &garble(JSON_MANIFEST.as_bytes(), &changes))?;
    }

    #[test]
    fn a_garbled_kubeconfig_is_read_or_refused(changes in garbles()) {
        judge_kubeconfig(&garble(KUBECONFIG.as_bytes(), &changes))?;
    }
}
