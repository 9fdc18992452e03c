//! TLS configuration of the HTTP clients.
//!
//! reqwest is built without a TLS provider of its own, so that the binary contains only the TLS library that sqlx uses.
//! Every client needs this configuration, even if all its addresses are plain HTTP.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Returns a client configuration that trusts the root certificates of the system.
///
/// `SSL_CERT_FILE` and `SSL_CERT_DIR` name certificates that replace those of the system. If the system has none, as in
/// a small container, the configuration trusts Mozilla's.
///
/// # Errors
/// Returns an error if `SSL_CERT_FILE` or `SSL_CERT_DIR` is set but no certificate is found. Mozilla's certificates do
/// not replace certificates that an operator names.
pub fn client_config() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::warn!(error = %error, "a root certificate cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
    if roots.is_empty() && named.iter().any(|name| std::env::var_os(name).is_some()) {
        return Err(rustls::Error::General(
            "SSL_CERT_FILE or SSL_CERT_DIR is set, but no certificate was found there".to_owned(),
        ));
    }
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
