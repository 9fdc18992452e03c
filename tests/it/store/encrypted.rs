//! TLS to Postgres: whom the store believes to be the database.
//!
//! The PostgreSQL of the tests is built without TLS, so a front before it speaks the database's request for TLS and rustls.

use std::{net::SocketAddr, path::Path};

use facescan_store::StoreError;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use crate::support::{
    certificate::acceptor,
    database::{on_postgres, store_at},
};

/// The first message of a client that asks for TLS: its length, and the code of the request.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Starts a front with a certificate for `host`, which is written to `certificate`.
async fn front(upstream: (String, u16), host: &str, certificate: &Path) -> SocketAddr {
    let (acceptor, pem) = acceptor(host);
    std::fs::write(certificate, pem).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (acceptor, upstream) = (acceptor.clone(), upstream.clone());
            tokio::spawn(async move {
                let mut request = [0; 8];
                client.read_exact(&mut request).await.ok()?;
                assert_eq!(request, TLS_REQUEST, "a connection without TLS");
                client.write_all(b"S").await.ok()?;
                let mut client = acceptor.accept(client).await.ok()?;
                let mut database = TcpStream::connect(upstream).await.ok()?;
                copy_bidirectional(&mut client, &mut database).await.ok()
            });
        }
    });
    address
}

async fn ping(url: &str) -> Result<(), StoreError> {
    store_at(url).await.ping().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_has_to_show_a_trusted_certificate_of_its_name() {
    on_postgres(|database| async move {
        database.open().await.migrate().await.unwrap();
        let upstream = database.address();
        let folder = tempfile::tempdir().unwrap();
        let [right, wrong] = ["right.crt", "wrong.crt"].map(|name| folder.path().join(name));
        let of_name = front(upstream.clone(), "127.0.0.1", &right).await;
        let of_another = front(upstream, "db.example.org", &wrong).await;
        let url = |address, mode: &str, root: &Path| {
            let url = database.url_through(address);
            let separator = if url.contains('?') { '&' } else { '?' };
            format!(
                "{url}{separator}sslmode={mode}&sslrootcert={}",
                root.display()
            )
        };
        ping(&url(of_name, "verify-full", &right)).await.unwrap();
        ping(&url(of_another, "verify-ca", &wrong)).await.unwrap();
        for (address, root) in [
            (of_another, &wrong),
            (of_name, &wrong),
            (of_another, &right),
        ] {
            let error = ping(&url(address, "verify-full", root)).await.unwrap_err();
            assert!(error.is_unavailable(), "{error}");
            assert!(error.to_string().contains("sslmode=verify-full"), "{error}");
        }
    })
    .await;
}
