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
use std::path::Path;
use std::sync::Arc;

use axum::http::HeaderMap;
use ccm_kubernetes::live::review::User;
use percent_encoding::percent_decode_str;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tracing::warn;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::tls::provider;
use crate::cli::{FrontProxy, VoucherOptions};
use crate::files;

/// The key of what a caller showed, in what else is known of it.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

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
                extra_prefixes: list("requestheader-extra-headers-prefix"),
                uid_headers: list("requestheader-uid-headers"),
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
        let verifier = |flag: &str, pem: &Pem| {
            let built = pem.clone()?.and_then(|pem| verifier(&pem));
            let warn = |error: &String| {
                warn!(flag, error, "certificate authorities of callers can't be used");
            };
            built.inspect_err(warn).ok()
        };
        Self {
            clients: verifier("client-ca-file", clients),
            proxies: verifier("requestheader-client-ca-file", proxies)
                .map(|verifier| (verifier, proxy.clone())),
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
            let extra =
                BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![fingerprint(certificate)])]);
            return Vouched::For(authenticated(User { name, uid: None, groups, extra }));
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
            let values = values.filter_map(|value| value.to_str().ok());
            values.filter(|value| !value.is_empty()).map(str::to_owned).collect()
        };
        Some(authenticated(User {
            name: all(&self.user_headers).into_iter().next()?,
            uid: all(&self.uid_headers).into_iter().next(),
            groups: all(&self.group_headers),
            extra: self.extra(headers),
        }))
    }

    /// What else is known of a caller: the end of a header's name, with `%` escapes, is the key.
    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for prefix in self.extra_prefixes.iter().map(|prefix| prefix.to_ascii_lowercase()) {
            let named = headers.iter().filter_map(|(name, value)| {
                Some((name.as_str().strip_prefix(&prefix)?, value.to_str().ok()?))
            });
            for (key, value) in named {
                let decoded = percent_decode_str(key).decode_utf8();
                let key = decoded.map_or_else(|_| key.to_owned(), Into::into);
                extra.entry(key).or_default().push(value.to_owned());
            }
        }
        extra
    }
}

fn authenticated(mut user: User) -> User {
    user.groups.push("system:authenticated".to_owned());
    user
}

/// A certificate as Go's API servers tell which one it was.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest: [u8; 32] = Sha256::digest(certificate.as_ref()).into();
    digest.iter().fold("X509SHA256=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
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
    files::bytes(path, files::CERTIFICATES_LIMIT)
        .map_err(|error| format!("{} can't be read: {error}", path.display()))
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

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().chain(&["system:authenticated"]);
        let groups = groups.map(|group| (*group).to_owned()).collect();
        User { name: name.to_owned(), groups, ..User::default() }
    }

    /// The caller that a certificate names itself.
    fn holder(name: &str, certificate: &CertificateDer<'_>) -> Vouched {
        let extra = [(CREDENTIAL_ID.to_owned(), vec![fingerprint(certificate)])].into();
        Vouched::For(User { extra, ..user(name, &["monitoring"]) })
    }

    #[test]
    fn name_and_groups_are_those_of_the_certificate() {
        let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
        let map = map(&[("client-ca-file", &ours.pem)]);
        let vouchers = vouchers(&map);
        let vouch = |chain: &[_]| vouchers.vouch(chain, &HeaderMap::new());
        let prometheus = chain(&ours, "prometheus");
        assert_eq!(vouch(&prometheus), holder("prometheus", &prometheus[0]));
        let id = fingerprint(&CertificateDer::from(b"abc".to_vec()));
        // sha256sum of the same three bytes.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(id, format!("X509SHA256={sum}"));
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
        assert_eq!(vouch(&proxy, &headers), Vouched::For(user("jane", &["admins", "people"])));
        assert_eq!(vouch(&proxy, &HeaderMap::new()), Vouched::Stranger);
        assert_eq!(vouch(&chain(&proxies, "another"), &headers), Vouched::Stranger);
        let client = chain(&clients, "joe");
        assert_eq!(vouch(&client, &headers), holder("joe", &client[0]), "headers mean nothing");
    }

    #[test]
    fn a_front_proxy_passes_on_what_else_is_known_of_a_caller() {
        let proxies = Authority::new("proxies");
        let map = map(&[
            ("requestheader-client-ca-file", &proxies.pem),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ]);
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("X-Remote-User", "jane"),
            ("X-Remote-Uid", ""),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Extra-Scopes", "read"),
            ("x-remote-extra-scopes", "write"),
            ("X-Remote-Extra-Acme.com%2fProject", "shop"),
            ("X-Else", "nothing"),
        ] {
            let name: axum::http::HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        let found = vouchers(&map).vouch(&chain(&proxies, "front-proxy-client"), &headers);
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let extra = [
            ("scopes".to_owned(), texts(&["read", "write"])),
            ("acme.com/project".to_owned(), texts(&["shop"])),
        ];
        let uid = Some("7".to_owned());
        let jane = User { uid, extra: extra.into(), ..user("jane", &[]) };
        assert_eq!(found, Vouched::For(jane));
    }
}
