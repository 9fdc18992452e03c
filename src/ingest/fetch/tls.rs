//! Which certificates outbound connections trust.

use std::sync::Arc;

use anyhow::Context;
use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// TLS that trusts the system's roots, so that an operator's own authority is trusted where the system trusts it
/// (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others), and Mozilla's where the system has none, as in a small container.
///
/// # Errors
/// None in practice: the provider has the versions that are asked for.
pub fn client_config() -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::debug!(error = %error, "a root certificate cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("choosing the versions of TLS")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
