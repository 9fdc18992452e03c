//! The server over TLS, on a real connection.

use std::{net::SocketAddr, sync::Arc};

use facescan::http::{
    self,
    server::tls::{Tls, TlsFiles},
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::app::TestApp;

/// Connects with a protocol, and trusts only `certificate`.
async fn connect(
    address: SocketAddr,
    certificate: &rcgen::Certificate,
    protocol: &[u8],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let name = "localhost".try_into().unwrap();
    connector.connect(name, stream).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_over_tls_and_not_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    std::fs::write(&files.certificate, cert.pem()).unwrap();
    std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();

    let app = TestApp::with(&[("FACESCAN__SERVER__HEADER_TIMEOUT_MS", "500")]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Tls::open(files).unwrap();
    let serving = tokio::spawn(http::serve(
        listener,
        Some(tls),
        Arc::clone(&app.app),
        std::future::pending(),
    ));

    let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut stream = connect(address, &cert, b"http/1.1").await;
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"),
        "{answer}"
    );

    let stream = connect(address, &cert, b"h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));

    // A client that is silent after the handshake does not keep its connection.
    let mut silent = connect(address, &cert, b"http/1.1").await;
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);

    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).await.ok();
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    serving.abort();
}
