//! TLS for requests of ours. reqwest is built without a provider of its own, so every client of it has to be given one of
//! these, also where its addresses are plain.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Trusts nobody: for clients whose addresses are plain.
///
/// # Errors
/// None in practice: the provider has the usual versions.
pub fn for_plain_addresses() -> Result<ClientConfig, rustls::Error> {
    with_roots(RootCertStore::empty())
}

/// Trusts whom the system trusts, so that a certificate authority of one's own is added there.
///
/// # Errors
/// When the system has no certificates.
pub fn for_system_roots() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(rustls::Error::General(format!(
            "the system has no certificates to trust: install ca-certificates, or set SSL_CERT_FILE{}{}",
            if reasons.is_empty() { "" } else { ": " },
            reasons.join("; ")
        )));
    }
    with_roots(roots)
}

fn with_roots(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
