//! Certificates: what is trusted, and what is refused.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, Stream};

use crate::{
    HttpOptions, HttpTransport, Method, Transport, TransportError, TransportErrorKind, WireRequest,
    WireResponse,
};

/// An HTTPS server with a certificate of its own for `localhost`; its URL, and the certificate.
fn server() -> (String, Vec<u8>) {
    let names = vec!["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut tls = Stream::new(&mut connection, &mut stream);
            // A client that does not trust us hangs up.
            if tls.read(&mut [0; 4096]).is_ok() {
                let _ = tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
            }
        }
    });
    (format!("https://localhost:{port}/client/api"), cert.pem().into_bytes())
}

async fn send(options: HttpOptions) -> Result<WireResponse, TransportError> {
    let options =
        HttpOptions { system_proxy: false, request_timeout: Duration::from_secs(5), ..options };
    let request = WireRequest { method: Method::Post, params: Vec::new() };
    HttpTransport::new(&options).unwrap().send(request).await
}

#[tokio::test]
async fn only_known_certificates_are_trusted_unless_told_otherwise() {
    let (url, certificate) = server();
    let unknown = send(HttpOptions::new(url.clone())).await.unwrap_err();
    assert_eq!((unknown.kind, unknown.sent), (TransportErrorKind::Tls, false));
    assert!(unknown.text.contains("ca-file"), "{unknown}");

    let known = HttpOptions {
        extra_certificates: Some(certificate.clone()),
        ..HttpOptions::new(url.clone())
    };
    assert_eq!(send(known).await.unwrap().status, 200);

    let unverified = HttpOptions { verify_certificates: false, ..HttpOptions::new(url.clone()) };
    assert_eq!(send(unverified).await.unwrap().status, 200);

    let other_name = HttpOptions {
        extra_certificates: Some(certificate),
        ..HttpOptions::new(url.replace("localhost", "127.0.0.1"))
    };
    let error = send(other_name).await.unwrap_err();
    assert_eq!((error.kind, error.sent), (TransportErrorKind::Tls, false));
}
