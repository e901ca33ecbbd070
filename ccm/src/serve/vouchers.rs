//! Callers that show a certificate: who vouches for it, and whom it names.
//!
//! TLS asks for a certificate, takes whichever comes, and proves that the caller has its key. Whom it
//! names is found out with each request, in the order of Go's API servers:
//!
//! 1. A front proxy, by the certificate authorities for such, names the caller in headers.
//! 2. By the certificate authorities for callers, the common name is the name of the caller, and the
//!    organisations are its groups.
//! 3. A certificate that nobody vouches for is a stranger's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use axum::http::HeaderMap;
use ccm_kubernetes::live::review::User;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use tracing::warn;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::tls::provider;
use crate::cli::{FrontProxy, VoucherOptions};

/// Asks for a certificate and takes whichever comes, if the caller has its key.
#[derive(Debug)]
pub(super) struct AnyCertificate(WebPkiSupportedAlgorithms);

impl AnyCertificate {
    pub(super) fn new() -> Self {
        Self(provider().signature_verification_algorithms)
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// What a certificate comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Vouched {
    /// None is shown, or nobody is known who could vouch.
    Nobody,
    /// It is that caller's.
    For(User),
    /// Nobody vouches for it.
    Stranger,
}

/// Certificate authorities, as far as they are known. See the module.
#[derive(Debug, Default)]
pub(super) struct Vouchers {
    clients: Option<Arc<dyn ClientCertVerifier>>,
    proxies: Option<(Arc<dyn ClientCertVerifier>, FrontProxy)>,
}

impl VoucherOptions {
    /// Whether the cluster must be asked.
    pub(super) fn need_lookup(&self) -> bool {
        self.look_up && (self.client_ca.is_none() || self.proxy_ca.is_none())
    }
}

/// What files and the cluster say of certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sources {
    clients: Pem,
    proxies: Pem,
    proxy: FrontProxy,
}

/// A text that should hold certificates, or why it can't be read; `None` is none.
type Pem = Option<Result<Vec<u8>, String>>;

impl Sources {
    /// Those in files, and what the cluster says in place of those that are not given.
    pub(super) fn read(options: &VoucherOptions, cluster: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| cluster.get(key).map(String::as_str);
        let pem = |file: Option<&Path>, key: &str| match file {
            Some(path) => Some(read(path)),
            None => text(key).map(|text| Ok(text.as_bytes().to_vec())),
        };
        let list = |key| {
            let list = text(key).and_then(|json| serde_json::from_str::<Vec<String>>(json).ok());
            list.unwrap_or_default()
        };
        let proxy = match &options.proxy_ca {
            Some(_) => options.proxy.clone(),
            None => FrontProxy {
                allowed_names: list("requestheader-allowed-names"),
                user_headers: list("requestheader-username-headers"),
                group_headers: list("requestheader-group-headers"),
            },
        };
        Self {
            clients: pem(options.client_ca.as_deref(), "client-ca-file"),
            proxies: pem(options.proxy_ca.as_deref(), "requestheader-client-ca-file"),
            proxy,
        }
    }
}

impl Vouchers {
    /// Those that can be used; warns of the others.
    pub(super) fn new(sources: &Sources) -> Self {
        let Sources { clients, proxies, proxy } = sources;
        let verifier = |pem: &Pem| {
            let built = pem.clone()?.and_then(|pem| verifier(&pem));
            let warn =
                |error: &String| warn!(error, "certificate authorities of callers can't be used");
            built.inspect_err(warn).ok()
        };
        Self {
            clients: verifier(clients),
            proxies: verifier(proxies).map(|verifier| (verifier, proxy.clone())),
        }
    }

    /// Whom a certificate, with those between it and its authority, and headers name.
    pub(super) fn vouch(
        &self,
        certificates: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Vouched {
        let Some((certificate, between)) = certificates.split_first() else {
            return Vouched::Nobody;
        };
        let Self { clients, proxies } = self;
        if clients.is_none() && proxies.is_none() {
            return Vouched::Nobody;
        }
        let is_vouched = |verifier: &Arc<dyn ClientCertVerifier>| {
            verifier.verify_client_cert(certificate, between, UnixTime::now()).is_ok()
        };
        let Some((name, groups)) = subject(certificate) else { return Vouched::Stranger };
        if let Some((verifier, proxy)) = proxies
            && is_vouched(verifier)
            && proxy.allows(&name)
            && let Some(user) = proxy.caller(headers)
        {
            return Vouched::For(user);
        }
        if clients.as_ref().is_some_and(is_vouched) {
            return Vouched::For(authenticated(name, groups));
        }
        Vouched::Stranger
    }
}

impl FrontProxy {
    fn allows(&self, name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|allowed| allowed == name)
    }

    fn caller(&self, headers: &HeaderMap) -> Option<User> {
        let all = |names: &[String]| -> Vec<String> {
            let values = names.iter().flat_map(|name| headers.get_all(name.as_str()));
            values.filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect()
        };
        let name = all(&self.user_headers).into_iter().find(|name| !name.is_empty())?;
        Some(authenticated(name, all(&self.group_headers)))
    }
}

fn authenticated(name: String, mut groups: Vec<String>) -> User {
    groups.push("system:authenticated".to_owned());
    User { name, uid: None, groups }
}

/// Common name and organisations of a certificate. One without a name is nobody's.
fn subject(certificate: &CertificateDer<'_>) -> Option<(String, Vec<String>)> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    let groups = groups.map(str::to_owned).collect();
    (!name.is_empty()).then(|| (name.to_owned(), groups))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{} can't be read: {error}", path.display()))
}

/// One by the certificates in a PEM text.
fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider()));
    builder.build().map_err(|error| error.to_string())
}

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa};
    use rcgen::{Issuer, KeyPair};

    use super::*;

    /// A certificate authority.
    pub(in crate::serve) struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pub(in crate::serve) pem: String,
    }

    impl Authority {
        pub(in crate::serve) fn new(name: &str) -> Self {
            let mut params = CertificateParams::new([]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            Self { issuer: Issuer::new(params, key), pem }
        }

        /// A certificate of a caller with its key.
        pub(in crate::serve) fn issue(
            &self,
            name: &str,
            group: &str,
        ) -> (rcgen::Certificate, KeyPair) {
            let mut params = CertificateParams::new([]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.distinguished_name.push(DnType::OrganizationName, group);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            (params.signed_by(&key, &self.issuer).unwrap(), key)
        }
    }

    fn vouchers(cluster: &BTreeMap<String, String>) -> Vouchers {
        Vouchers::new(&Sources::read(&VoucherOptions::default(), cluster))
    }

    fn chain(authority: &Authority, name: &str) -> Vec<CertificateDer<'static>> {
        vec![authority.issue(name, "monitoring").0.der().clone()]
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    fn user(name: &str, groups: &[&str]) -> Vouched {
        let groups = groups.iter().chain(&["system:authenticated"]);
        let groups = groups.map(|group| (*group).to_owned()).collect();
        Vouched::For(User { name: name.to_owned(), uid: None, groups })
    }

    #[test]
    fn name_and_groups_are_those_of_the_certificate() {
        let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
        let map = map(&[("client-ca-file", &ours.pem)]);
        let vouchers = vouchers(&map);
        let vouch = |chain: &[_]| vouchers.vouch(chain, &HeaderMap::new());
        assert_eq!(vouch(&chain(&ours, "prometheus")), user("prometheus", &["monitoring"]));
        assert_eq!(vouch(&chain(&theirs, "prometheus")), Vouched::Stranger);
        assert_eq!(vouch(&chain(&ours, "")), Vouched::Stranger);
        assert_eq!(vouch(&[CertificateDer::from(vec![1, 2, 3])]), Vouched::Stranger);
        assert_eq!(vouch(&[]), Vouched::Nobody);
    }

    #[test]
    fn without_authorities_certificates_mean_nothing() {
        let vouchers = vouchers(&BTreeMap::new());
        let found = vouchers.vouch(&chain(&Authority::new("x"), "prometheus"), &HeaderMap::new());
        assert_eq!(found, Vouched::Nobody);
    }

    #[test]
    fn only_a_front_proxy_that_is_allowed_names_others() {
        let (clients, proxies) = (Authority::new("clients"), Authority::new("proxies"));
        let map = map(&[
            ("client-ca-file", &clients.pem),
            ("requestheader-client-ca-file", &proxies.pem),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        ]);
        let vouchers = vouchers(&map);
        let mut headers = HeaderMap::new();
        headers.append("x-remote-user", "jane".parse().unwrap());
        headers.append("x-remote-group", "admins".parse().unwrap());
        headers.append("x-remote-group", "people".parse().unwrap());
        let vouch = |chain: &[_], headers: &HeaderMap| vouchers.vouch(chain, headers);
        let proxy = chain(&proxies, "front-proxy-client");
        assert_eq!(vouch(&proxy, &headers), user("jane", &["admins", "people"]));
        assert_eq!(vouch(&proxy, &HeaderMap::new()), Vouched::Stranger);
        assert_eq!(vouch(&chain(&proxies, "another"), &headers), Vouched::Stranger);
        let client = chain(&clients, "joe");
        assert_eq!(vouch(&client, &headers), user("joe", &["monitoring"]), "headers mean nothing");
    }
}
