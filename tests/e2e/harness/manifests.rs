//! Manifests, those of `deploy/manifests` before all, and how they get into a cluster: as `kubectl apply`
//! brings them there.

use ccm_tests::deploy;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::{Api, Client, discovery};
use serde_json::Value;

/// Applies every object of a file of `deploy/manifests`.
pub(crate) async fn apply(client: &Client, file: &str) {
    apply_all(client, &deploy::objects(file)).await;
}

/// Applies objects. A field that the API server does not know is an error.
pub(crate) async fn apply_all(client: &Client, objects: &[Value]) {
    for object in objects {
        apply_object(client, object).await.unwrap_or_else(|error| panic!("{object}: {error}"));
    }
}

/// Applies the objects of a file that are of a kind.
pub(crate) async fn apply_kind(client: &Client, file: &str, kind: &str) {
    for object in deploy::objects(file).iter().filter(|object| object["kind"] == kind) {
        apply_object(client, object).await.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

async fn apply_object(client: &Client, object: &Value) -> kube::Result<()> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("kind"));
    let (resource, _) = discovery::pinned_kind(client, &kind).await?;
    let metadata = &object["metadata"];
    let api: Api<DynamicObject> = match metadata["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("kubectl").force()
    };
    let name = metadata["name"].as_str().expect("a name");
    api.patch(name, &params, &Patch::Apply(object)).await.map(drop)
}
