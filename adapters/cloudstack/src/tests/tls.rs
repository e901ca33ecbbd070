//! Certificates: what is trusted, and what is refused.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, Stream};

use crate::{
    HttpOptions, HttpTransport, Method, Transport, TransportError, TransportErrorKind, WireRequest,
    WireResponse,
};

/// An HTTPS server with a certificate of its own for `localhost`; its URL, and the certificate.
fn server() -> (String, Vec<u8>) {
    server_valid(2000, 4000)
}

/// As [`server`]; the certificate is valid from the beginning of one year to that of another.
fn server_valid(from: i32, to: i32) -> (String, Vec<u8>) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
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
    told(&unknown, &["authority that is not trusted", "ca-file"]);

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
    told(&error, &["127.0.0.1", "localhost", "set api-url to a name that the certificate holds"]);
}

fn told(error: &TransportError, words: &[&str]) {
    for word in words {
        assert!(error.text.contains(word), "{word:?} is not in: {error}");
    }
    assert!(error.text.starts_with("TLS with "), "{error}");
}

#[tokio::test]
async fn a_certificate_out_of_its_time_is_told_with_that_time() {
    for (from, to, words) in [
        (2000, 2001, ["expired", "renew the certificate"]),
        (3000, 3001, ["not valid yet", "set the clock"]),
    ] {
        let (url, certificate) = server_valid(from, to);
        let options =
            HttpOptions { extra_certificates: Some(certificate), ..HttpOptions::new(url) };
        let error = send(options).await.unwrap_err();
        assert_eq!((error.kind, error.sent), (TransportErrorKind::Tls, false));
        told(&error, &words);
    }
}

/// A server that says one thing to whoever connects, and its host and port.
fn saying(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(bytes);
        }
    });
    address.to_string()
}

#[tokio::test]
async fn http_and_https_on_each_others_ports_are_told_apart() {
    let http = saying(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let error = send(HttpOptions::new(format!("https://{http}/client/api"))).await.unwrap_err();
    assert_eq!((error.kind, error.sent), (TransportErrorKind::Tls, false));
    told(&error, &["does not speak TLS", "it may be a port for http"]);

    // The alert `unexpected_message`.
    let https = saying(&[0x15, 3, 3, 0, 2, 2, 10]);
    let error = send(HttpOptions::new(format!("http://{https}/client/api"))).await.unwrap_err();
    assert_eq!((error.kind, error.sent), (TransportErrorKind::Broken, true));
    assert!(error.text.contains("not HTTP") && error.text.contains("port for https"), "{error}");
}

#[tokio::test]
async fn a_server_that_breaks_the_handshake_is_told() {
    for (bytes, words) in [
        (&[0x15, 3, 3, 0, 2, 2, 70][..], "ProtocolVersion"),
        (&[0x16, 3, 3, 0, 4, 2, 0, 0, 0], "TLS"),
        (&[0xff; 64], "TLS"),
    ] {
        let peer = saying(bytes);
        let error = send(HttpOptions::new(format!("https://{peer}/client/api"))).await.unwrap_err();
        assert_eq!((error.kind, error.sent), (TransportErrorKind::Tls, false), "{error}");
        told(&error, &[words]);
    }
}

#[test]
fn a_ca_file_of_any_content_is_read_or_refused() {
    let (_, certificate) = server();
    let pem = String::from_utf8(certificate).unwrap();
    let half = pem.len() / 2;
    for text in [
        String::new(),
        "no certificate".to_owned(),
        pem[..half].to_owned(),
        format!("{}{}", &pem[..half], &pem[half + 20..]),
        pem.replace("CERTIFICATE", "PRIVATE KEY"),
        pem.replace('M', "\u{0}"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
    ] {
        let options = HttpOptions {
            extra_certificates: Some(text.clone().into_bytes()),
            ..HttpOptions::new("https://cloud.example/client/api")
        };
        let error = HttpTransport::new(&options).expect_err(&text);
        assert!(error.to_string().contains("certificate"), "{text}: {error}");
    }
}
