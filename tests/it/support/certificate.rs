//! A server's side of TLS, with a certificate of its own.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Returns an acceptor whose self-signed certificate names `host`, and that certificate as PEM.
pub fn acceptor(host: &str) -> (TlsAcceptor, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([host.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (Arc::new(config).into(), cert.pem())
}
