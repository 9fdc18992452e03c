//! The built binary fetches images over HTTPS. It reads its trusted certificates from the environment.

use std::{io, net::SocketAddr};

use axum::{Router, routing::get, serve::Listener};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::support::{app::image_file, certificate::acceptor, cli::facescan};

/// A server of one image on the loopback interface, with a self-signed certificate.
struct Server {
    url: String,
    certificate: String,
}

impl Server {
    /// Starts a server whose certificate names `host`.
    async fn start(host: &str) -> Self {
        let (acceptor, certificate) = acceptor(host);
        let listener = Encrypted {
            listener: TcpListener::bind(("127.0.0.1", 0)).await.unwrap(),
            acceptor,
        };
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/t1.jpg", get(|| async { image_file("t1.jpg") }));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self {
            url: format!("https://{address}/t1.jpg"),
            certificate,
        }
    }
}

struct Encrypted {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.unwrap();
            // A client that does not trust the certificate closes the connection during the handshake.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_hosts_with_a_trusted_and_matching_certificate_are_fetched_from() {
    let trusted = Server::start("127.0.0.1").await;
    let unknown = Server::start("127.0.0.1").await;
    let elsewhere = Server::start("pictures.test").await;
    let roots = tempfile::NamedTempFile::new().unwrap();
    let certificates = [&*trusted.certificate, &elsewhere.certificate].concat();
    std::fs::write(&roots, certificates).unwrap();
    let urls = [trusted.url, unknown.url, elsewhere.url];
    let asked = urls.clone();
    let scanned = tokio::task::spawn_blocking(move || {
        facescan(["scan"])
            .args(asked)
            .env("FACESCAN__URLS__ENABLED", "true")
            .env("FACESCAN__URLS__ALLOW_PRIVATE", "true")
            .env("SSL_CERT_FILE", roots.path())
            .output()
            .unwrap()
    });
    let output = scanned.await.unwrap();
    let lines: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let told = urls.map(|url| lines.iter().find(|line| line["path"] == url).unwrap());
    assert_eq!(told[0]["faces"].as_array().unwrap().len(), 6, "{told:?}");
    for told in &told[1..] {
        assert_eq!(told["error"]["code"], "url_failed", "{told}");
        let detail = told["error"]["detail"].as_str().unwrap();
        assert!(detail.contains("certificate"), "{told}");
    }
    assert_eq!(output.status.code(), Some(1));
}
