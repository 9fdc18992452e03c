//! Errors of the issuer.

use thiserror::Error;

/// Why the keys of the issuer cannot be read.
#[derive(Debug, Error)]
#[error("the keys of the issuer cannot be read: {0}")]
pub struct JwksError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
