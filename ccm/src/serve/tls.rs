//! TLS: the certificate, and connections that have shaken hands.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

use super::vouchers::AnyCertificate;
use crate::cli::CertificateFiles;
use crate::files;

/// How long a client may take to shake hands, and how many may do so at the same time.
const HANDSHAKE: Duration = Duration::from_secs(10);
const HANDSHAKES: usize = 100;

/// A certificate can't be used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file can't be read.
    #[error("{} can't be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A file holds something else.
    #[error("{} holds no {what} in PEM", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// Why.
        #[source]
        cause: pem::Error,
    },
    /// The key is of another kind, or of another certificate.
    #[error("the certificate and its key can't be used together")]
    Mismatch(#[source] rustls::Error),
    /// No certificate could be made.
    #[error("a self-signed certificate can't be made")]
    SelfSigned(#[source] rcgen::Error),
}

/// The certificate that is served now.
#[derive(Debug)]
pub(super) struct Certificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Certificate {
    /// One for this start alone: for `localhost` and `127.0.0.1`, vouched for by nobody.
    pub(super) fn self_signed() -> Result<Self, CertificateError> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made =
            rcgen::generate_simple_self_signed(names).map_err(CertificateError::SelfSigned)?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let key = key
            .map_err(|text| CertificateError::Mismatch(rustls::Error::General(text.to_owned())))?;
        certified(vec![made.cert.der().clone()], key).map(Self::new)
    }

    /// The one in files.
    pub(super) fn load(pair: &Pair) -> Result<Self, CertificateError> {
        pair.certified().map(Self::new)
    }

    fn new(certified: CertifiedKey) -> Self {
        Self(RwLock::new(Arc::new(certified)))
    }

    /// Looks after the files, without end.
    pub(super) async fn follow(&self, files: &CertificateFiles, mut known: Pair, every: Duration) {
        loop {
            sleep(every).await;
            self.renew(files, &mut known);
        }
    }

    /// Serves what is in the files now, if it is something else and can be used.
    fn renew(&self, files: &CertificateFiles, known: &mut Pair) {
        let pair = match Pair::read(files) {
            Ok(pair) if pair.bytes == known.bytes => return,
            Ok(pair) => pair,
            Err(error) => {
                debug!(%error, "certificate files");
                return;
            }
        };
        match pair.certified() {
            Ok(certified) => {
                *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
                info!("a new certificate is served");
            }
            Err(error) => warn!(%error, "the new certificate can't be used"),
        }
        *known = pair;
    }
}

/// Both files as they were read.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    files: CertificateFiles,
    bytes: (Vec<u8>, Vec<u8>),
}

impl Pair {
    pub(super) fn read(files: &CertificateFiles) -> Result<Self, CertificateError> {
        let read = |path: &PathBuf| {
            files::bytes(path, files::CERTIFICATES_LIMIT)
                .map_err(|cause| CertificateError::Unreadable { path: path.clone(), cause })
        };
        let bytes = (read(&files.certificate)?, read(&files.key)?);
        Ok(Self { files: files.clone(), bytes })
    }

    fn certified(&self) -> Result<CertifiedKey, CertificateError> {
        let Self { files, bytes: (chain, key) } = self;
        let not_pem = |path: &PathBuf, what| {
            let path = path.clone();
            move |cause| CertificateError::NotPem { path, what, cause }
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.and_then(|chain| {
            if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) }
        });
        let chain = chain.map_err(not_pem(&files.certificate, "certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(not_pem(&files.key, "private key"))?;
        certified(chain, key)
    }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, CertificateError> {
    CertifiedKey::from_der(chain, key, &provider()).map_err(CertificateError::Mismatch)
}

pub(super) fn provider() -> CryptoProvider {
    ring::default_provider()
}

/// Accepts connections over TLS.
pub(super) struct TlsListener {
    tcp: TcpListener,
    tls: TlsAcceptor,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    /// # Errors
    /// If the crypto library has none of the versions.
    pub(super) fn new(
        tcp: TcpListener,
        certificate: Arc<Certificate>,
        only_tls13: bool,
    ) -> Result<Self, rustls::Error> {
        let versions: &[_] = if only_tls13 {
            &[&rustls::version::TLS13]
        } else {
            &[&rustls::version::TLS13, &rustls::version::TLS12]
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(Arc::new(AnyCertificate::new()))
            .with_cert_resolver(certificate);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tcp, tls: TlsAcceptor::from(Arc::new(config)), handshakes: JoinSet::new() })
    }

    fn shake_hands(&mut self, stream: TcpStream, peer: SocketAddr) {
        let tls = self.tls.clone();
        self.handshakes.spawn(async move {
            match timeout(HANDSHAKE, tls.accept(stream)).await {
                Ok(Ok(stream)) => Some((stream, peer)),
                Ok(Err(error)) => {
                    debug!(%peer, %error, "TLS handshake failed");
                    None
                }
                Err(_) => {
                    debug!(%peer, "TLS handshake took too long");
                    None
                }
            }
        });
    }

    /// The next connection. Shaking hands takes a client's time: nobody else waits for it.
    pub(super) async fn accept(&mut self) -> (TlsStream<TcpStream>, SocketAddr) {
        loop {
            let has_room = self.handshakes.len() < HANDSHAKES;
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
                accepted = self.tcp.accept(), if has_room => match accepted {
                    Ok((stream, peer)) => self.shake_hands(stream, peer),
                    Err(error) => {
                        // Too many open files, most likely: trying again at once would not help.
                        debug!(%error, "no connection accepted");
                        sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_certificate_that_can_not_be_used_replaces_none() {
        let directory = std::env::temp_dir().join(format!("ccm-{}-renew", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let files = CertificateFiles {
            certificate: directory.join("tls.crt"),
            key: directory.join("tls.key"),
        };
        let issue = || {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            fs::write(&files.certificate, made.cert.pem()).unwrap();
            made.signing_key.serialize_pem()
        };
        fs::write(&files.key, issue()).unwrap();
        let mut known = Pair::read(&files).unwrap();
        let certificate = Certificate::load(&known).unwrap();
        let served = || certificate.0.read().unwrap().cert.clone();
        let first = served();
        // The key of the next one is not there yet.
        let key = issue();
        certificate.renew(&files, &mut known);
        assert_eq!(served(), first);
        fs::write(&files.key, key).unwrap();
        certificate.renew(&files, &mut known);
        assert_ne!(served(), first);
        fs::remove_dir_all(&directory).unwrap();
    }
}
