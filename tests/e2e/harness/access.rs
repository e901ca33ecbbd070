//! Kubeconfigs, and clients from them.

use std::fs;
use std::path::{Path, PathBuf};

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;

/// Writes a kubeconfig for a bearer token. The certificate of the server is read when it is used.
pub(crate) fn write_kubeconfig(path: &Path, url: &str, authority: &Path, token: &str) -> PathBuf {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "e2e",
            "cluster": { "server": url, "certificate-authority": authority },
        }],
        "users": [{ "name": "e2e", "user": { "token": token } }],
        "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
        "current-context": "e2e",
    });
    fs::write(path, config.to_string()).expect("a kubeconfig");
    path.to_owned()
}

/// A client for a kubeconfig; an error text if the certificate of the server is not there yet.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client, String> {
    let file = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}
