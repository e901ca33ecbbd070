//! Certificates and keys in files: of CloudStack's authority, of our own server, of callers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ccm_cloudstack::{HttpOptions, HttpTransport};
use ccm_core::exec::error::CallError;
use ccm_kubernetes::live::review::User;
use ccm_tests::garble::{garble, garbles};
use cloudstack_ccm::cli::{Beliefs, CertificateFiles, ServingOptions, VoucherOptions};
use cloudstack_ccm::metrics::Metrics;
use cloudstack_ccm::serve::{Health, Reviews, ServeError, Server, Site};
use proptest::prelude::*;

use crate::{File, cases, chain};

/// A certificate and its key.
static PAIR: LazyLock<(String, String)> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    (made.cert.pem(), made.signing_key.serialize_pem())
});

/// An API server that knows nobody.
struct Nobody;

impl Reviews for Nobody {
    async fn vouchers(&self) -> Result<BTreeMap<String, String>, CallError> {
        Ok(BTreeMap::new())
    }

    async fn user(&self, _: &str) -> Result<Option<User>, CallError> {
        Ok(None)
    }

    async fn may(&self, _: &User, _: &str, _: &str) -> Result<bool, CallError> {
        Ok(false)
    }
}

/// Starts our server with these files and stops it.
fn serve(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<(), ServeError> {
    let options = ServingOptions {
        address: "127.0.0.1:0".parse().expect("an address"),
        certificate: Some(CertificateFiles { certificate: certificate.into(), key: key.into() }),
        only_tls13: false,
        authentication_kubeconfig: None,
        authorization_kubeconfig: None,
        vouchers: VoucherOptions {
            client_ca: client_ca.map(Into::into),
            ..VoucherOptions::default()
        },
        always_allow: Vec::new(),
        beliefs: Beliefs {
            user: Duration::from_secs(10),
            allowed: Duration::from_secs(10),
            denied: Duration::from_secs(10),
        },
    };
    let site = Site {
        health: Health::new(),
        metrics: Arc::new(Metrics::new("1.2.3")),
        configuration: Box::new(String::new),
        plans: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(Server::start(&options, site, Nobody)).map(drop)
}

fn judge_served(certificate: &[u8], key: &[u8]) -> Result<(), TestCaseError> {
    let (certificate_file, key_file) = (File::new("tls.crt"), File::new("tls.key"));
    let (certificate, key) = (certificate_file.write(certificate), key_file.write(key));
    let Err(error) = serve(certificate, key, None) else { return Ok(()) };
    let told = chain(&error);
    let named = [certificate, key].iter().any(|path| told.contains(&path.display().to_string()));
    prop_assert!(named || told.contains("can't be used together"), "{told}");
    prop_assert!(told.contains("--tls-cert-file") && !told.contains(&PAIR.1[60..90]), "{told}");
    Ok(())
}

#[test]
fn the_example_is_good() {
    let (certificate, key) = (File::new("good.crt"), File::new("good.key"));
    let certificate = certificate.write(PAIR.0.as_bytes());
    serve(certificate, key.write(PAIR.1.as_bytes()), Some(certificate)).expect("a server");
}

#[cfg(target_os = "linux")]
#[test]
fn files_without_end_are_not_read_to_it() {
    let endless = Path::new("/dev/zero");
    let told = chain(&serve(endless, endless, None).unwrap_err());
    assert!(told.contains("/dev/zero") && told.contains("more than 4194304 bytes"), "{told}");
    let (certificate, key) = (File::new("some.crt"), File::new("some.key"));
    let certificate = certificate.write(PAIR.0.as_bytes());
    // Who vouches for callers may be mended while it runs: it is warned of.
    serve(certificate, key.write(PAIR.1.as_bytes()), Some(endless)).expect("a server");
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_garbled_certificate_is_served_or_refused(changes in garbles(), of_key in any::<bool>()) {
        let (certificate, key) = (PAIR.0.as_bytes(), PAIR.1.as_bytes());
        if of_key {
            judge_served(certificate, &garble(key, &changes))?;
        } else {
            judge_served(&garble(certificate, &changes), key)?;
        }
    }

    #[test]
    fn garbled_authorities_are_trusted_or_refused(changes in garbles()) {
        let bytes = garble(PAIR.0.as_bytes(), &changes);
        let (certificate, key) = (File::new("ok.crt"), File::new("ok.key"));
        let authorities = File::new("callers.crt");
        let (certificate, key) = (certificate.write(PAIR.0.as_bytes()), key.write(PAIR.1.as_bytes()));
        serve(certificate, key, Some(authorities.write(&bytes))).expect("a server");

        let options = HttpOptions {
            extra_certificates: Some(bytes),
            ..HttpOptions::new("https://cloud.example/client/api")
        };
        if let Err(error) = HttpTransport::new(&options) {
            prop_assert!(error.to_string().contains("certificate"), "{error}");
        }
    }
}
