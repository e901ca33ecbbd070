//! Kubeconfigs and certificates, and clients from them.

use std::fs;
use std::path::{Path, PathBuf};

use kube::Client;
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa};
use rcgen::{Issuer, KeyPair};
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

/// An authority for certificates of callers.
pub(crate) struct Authority {
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    /// With a key that there is already: the same key makes the same authority.
    pub(crate) fn new(key: KeyPair) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "e2e callers");
        Self { params, key }
    }

    /// Its own certificate.
    pub(crate) fn pem(&self) -> String {
        self.params.self_signed(&self.key).expect("an authority").pem()
    }
}

/// Lays a certificate of a user down in files that begin so, with its key.
pub(crate) fn certificate_of(user: &str, authority: &Authority, files: &Path) -> AuthInfo {
    let Authority { params, key: theirs } = authority;
    let issuer = Issuer::from_params(params, theirs);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("a P-256 key");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let write = |ending: &str, text: &str| {
        let path = files.with_extension(ending);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("a path in UTF-8").to_owned()
    };
    AuthInfo {
        client_certificate: Some(write("crt", &certificate.pem())),
        client_key: Some(write("key", &key.serialize_pem())),
        ..AuthInfo::default()
    }
}
