//! The key of a stream, which can lose its validity before the stream ends.

use std::sync::Arc;

use axum::http::HeaderMap;
use facescan_config::scope::Scope;
use secrecy::{ExposeSecret, SecretString};

use crate::{
    access::{authenticator::require, error::AccessError},
    http::{AppState, extract::stored_request::StoredRequest, middleware::access::credential},
};

/// What the caller of a stream sent to be authenticated, and what the stream needs.
pub(super) struct StreamKey {
    state: AppState,
    credential: Option<SecretString>,
    tenant: Arc<str>,
    scopes: Vec<Scope>,
}

impl StreamKey {
    /// Returns the key of a request, whose stream needs `scopes`.
    pub(super) fn new(request: &StoredRequest, headers: &HeaderMap, scopes: &[Scope]) -> Self {
        Self {
            state: AppState::clone(&request.state),
            credential: credential(headers).map(SecretString::from),
            tenant: Arc::clone(&request.context.principal.tenant),
            scopes: scopes.to_vec(),
        }
    }

    /// Returns whether the caller may still have the stream. If this cannot be found out now, the stream goes on.
    pub(super) async fn is_allowed(&self) -> bool {
        let credential = self.credential.as_ref().map(ExposeSecret::expose_secret);
        match self.state.access.authenticate(credential).await {
            Ok(principal) => {
                let mut scopes = self.scopes.iter();
                principal.tenant == self.tenant
                    && scopes.all(|scope| require(&principal, *scope).is_ok())
            }
            Err(AccessError::Store(_) | AccessError::Issuer(_)) => true,
            Err(_) => false,
        }
    }
}
