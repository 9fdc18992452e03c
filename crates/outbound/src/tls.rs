//! TLS for requests of ours. reqwest is built without a provider of its own, so that there is one TLS in the binary, sqlx's:
//! every client has to be given this, also where its addresses are plain.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Trusts the system's roots, so that an operator's own authority is trusted where the system trusts it
/// (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others), and Mozilla's where the system has none, as in a small container.
///
/// # Errors
/// When one of these variables is set and has no certificate: whoever names authorities trusts no others.
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
            "SSL_CERT_FILE or SSL_CERT_DIR is set, and no certificate is found there".to_owned(),
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
