//! Errors of access control.

use std::time::Duration;

use facescan_config::scope::Scope;
use facescan_pipeline::core::error::InvalidOption;
use facescan_store::StoreError;
use thiserror::Error;

use super::openid::JwksError;

/// Why a request is refused.
#[derive(Debug, Error)]
pub enum AccessError {
    /// The request has no credential.
    #[error("this server needs a key: send `authorization: Bearer fsk_…` or `x-api-key: fsk_…`")]
    NoCredential,
    /// The credential is malformed, unknown, expired or revoked. Callers do not learn which.
    #[error("the key or token is not valid; it is wrong, expired or revoked")]
    InvalidCredential,
    /// The credential does not open this route.
    #[error("the key does not have the scope `{}`; use a key that has it", .0.name())]
    MissingScope(Scope),
    /// The server needs no key because only its own machine can reach it, and the request comes from elsewhere.
    #[error(
        "this server needs no key, so it answers only programs of this machine and its own pages, and nothing that a proxy passes \
         on; set access.mode to `required`, or to `off` if something in front of it decides who may use it"
    )]
    NotLocal,
    /// Keys are managed over HTTP only by a caller with a key. Otherwise anyone could keep a key for later.
    #[error("this server needs no key, so it manages none over HTTP; use `facescan keys`")]
    NoKeysHere,
    /// The key or its tenant has sent too much.
    #[error("the limit `{limit}` is used up; try again after the time in retry-after")]
    RateLimited {
        /// The name of the limit in the headers.
        limit: &'static str,
        /// When a request of this size is admitted.
        retry_after: Duration,
    },
    /// Only who reads the metrics of all tenants may let others do so.
    #[error(
        "a key with the scope `metrics` reads the metrics of all tenants, so only a key that has it creates one; use \
         `facescan keys create`"
    )]
    NotOperator,
    /// The database with the keys cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys of the OpenID issuer cannot be read.
    #[error(transparent)]
    Issuer(#[from] JwksError),
}

/// Why a key is not created.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A field of the new key is not valid.
    #[error(transparent)]
    Invalid(#[from] InvalidOption),
    /// The operating system gives no random bytes.
    #[error("no random bytes: {0}")]
    Randomness(#[from] getrandom::Error),
    /// The database with the keys cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}
