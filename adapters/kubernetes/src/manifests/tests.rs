//! Manifests as people and kubectl write them.

use proptest::prelude::*;

use super::*;

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
  creationTimestamp: null
  annotations:
    service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol: \"true\"
spec:
  type: LoadBalancer
  ports:
  - {port: 80, nodePort: 30080}
";

fn yaml(text: &str) -> Result<Manifests, ManifestErrors> {
    read_text(Path::new("a.yaml"), text, Assume::Service)
}

fn json(text: &str, assume: Assume) -> Result<Manifests, ManifestErrors> {
    read_text(Path::new("a.json"), text, assume)
}

fn names(manifests: &Manifests) -> Vec<String> {
    let services =
        manifests.services.iter().map(|service| format!("{}/{}", service.namespace, service.name));
    let nodes = manifests.nodes.iter().map(|node| node.name.clone());
    services.chain(nodes).collect()
}

#[test]
fn documents_of_every_form_are_read_and_other_kinds_counted() {
    let text = format!(
        "# a comment\n---\n{SERVICE}\n---\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\n---\n\
         apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {{name: node-1}}\n\
         - apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: c}}\n- {{metadata: {{name: bare}}}}\n---\n\
         apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {{name: other}}\n"
    );
    let read = yaml(&text).unwrap();
    assert_eq!(names(&read), ["shop/web", "default/bare", "node-1"]);
    let skipped: Vec<_> =
        read.skipped.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    assert_eq!(
        skipped,
        ["ConfigMap 1", "Deployment.apps/v1 1", "Service.serving.knative.dev/v1 1"]
    );
    assert_eq!(read.services[0].ports[0].node_port, Some(30080));
    assert_eq!(read.services[0].annotations.len(), 1);
}

#[test]
fn bare_arrays_and_typed_lists_have_items_without_a_kind() {
    let array = r#"[{"metadata":{"name":"a"}},{"metadata":{"name":"b","namespace":"x"}}]"#;
    assert_eq!(names(&json(array, Assume::Service).unwrap()), ["default/a", "x/b"]);
    let nodes = r#"[{"metadata":{"name":"a"},"status":{"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}]"#;
    assert_eq!(names(&json(nodes, Assume::Node).unwrap()), ["a"]);
    let list = r#"{"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"n"}}]}"#;
    assert_eq!(names(&json(list, Assume::Service).unwrap()), ["n"]);
    let two = r#"{"kind":"Service","metadata":{"name":"a"}} {"kind":"Service","metadata":{"name":"\ud83d\ude00"}}"#;
    assert_eq!(json(two, Assume::Node).unwrap().services.len(), 2);
}

#[test]
fn an_error_names_file_document_object_and_cause() {
    let unquoted = SERVICE.replace("\"true\"", "true");
    let text =
        format!("kind: ConfigMap\n---\n{unquoted}\n---\nkind: Service\nmetadata: {{}}\n---\n7\n");
    insta::assert_snapshot!(yaml(&text).unwrap_err(), @"
    a.yaml, document 2: Service web: metadata.annotations.service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol: invalid type: boolean `true`, expected a string
    a.yaml, document 3: Service: `metadata.name` is missing
    a.yaml, document 4: 7: not a Kubernetes object
    ");
}

#[test]
fn what_is_no_yaml_or_json_is_told_with_its_place() {
    let text = format!("{SERVICE}\n---\na: [1\nb: 2\n");
    let told = yaml(&text).unwrap_err().to_string();
    assert!(told.starts_with("a.yaml, document 2: "), "{told}");
    assert!(told.contains("line"), "{told}");
    let told = json(r#"{"kind":"Service""#, Assume::Service).unwrap_err().to_string();
    assert!(told.starts_with("a.json, document 1: EOF"), "{told}");
}

#[test]
fn deep_nesting_and_alias_bombs_are_refused() {
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    assert!(yaml(&deep).is_err());
    assert!(json(&deep, Assume::Service).is_err());
    let level = |level: usize| {
        let below = format!("*a{}", level.saturating_sub(1));
        format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", "))
    };
    let levels: String = (1..12).map(level).collect();
    let bomb = format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{levels}");
    assert!(yaml(&bomb).is_err());
}

#[test]
fn files_are_read_by_name_and_doubles_name_both() {
    let directory = std::env::temp_dir().join(format!("ccm-manifests-{}", std::process::id()));
    let below = directory.join("below");
    fs::create_dir_all(&below).unwrap();
    let write = |path: &Path, name: &str| {
        let text = format!("kind: Service\nmetadata: {{name: {name}}}\n");
        fs::write(path, text).unwrap();
    };
    write(&directory.join("2.yml"), "second");
    write(&directory.join("1.yaml"), "first");
    write(&directory.join("readme.txt"), "ignored");
    write(&below.join("3.yaml"), "ignored");
    let source = |path: &Path| Source { path: path.to_owned(), assume: Assume::Service };
    let read_all = read(&[source(&directory)]).unwrap();
    assert_eq!(names(&read_all), ["default/first", "default/second"]);
    let twice = read(&[source(&directory), source(&directory.join("2.yml"))]).unwrap_err();
    assert!(twice.to_string().starts_with("Service default/second stands in "), "{twice}");
    let missing = read(&[source(&directory.join("none.yaml")), source(&below.join("none"))]);
    assert_eq!(missing.unwrap_err().iter().count(), 2);
    fs::remove_file(below.join("3.yaml")).unwrap();
    assert!(read(&[source(&below)]).unwrap_err().to_string().contains("holds no *.yaml"));
    fs::remove_dir_all(&directory).unwrap();
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>(), object in "[a-z:\\[\\]{}&*\"' \n-]{0,60}") {
        for text in [text, format!("{SERVICE}---\n{object}")] {
            let _ = yaml(&text);
            let _ = json(&text, Assume::Node);
        }
    }
}
