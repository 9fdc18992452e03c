//! What a handler needs of every request: the application, the caller, the query, and the format of the response.

use axum::{
    extract::FromRequestParts,
    http::{Uri, request::Parts},
};
use facescan_audit::AuditEvent;
use facescan_pipeline::context::RequestContext;
use facescan_store::NewAuditEntry;
use serde::{Serialize, de::DeserializeOwned};
use utoipa::IntoParams;
use uuid::Uuid;

use super::options::read_query;
use crate::http::{
    AppState,
    error::ApiError,
    middleware::context,
    respond::{Accepted, negotiated::Negotiated},
};

/// A request whose response is JSON or msgpack.
pub struct ApiRequest {
    /// The application.
    pub state: AppState,
    /// The context of the request.
    pub context: RequestContext,
    /// The format that the caller accepts.
    pub(in crate::http) accepted: Accepted,
    uri: Uri,
}

impl ApiRequest {
    /// Returns the tenant of the caller.
    pub fn tenant(&self) -> &str {
        &self.context.principal.tenant
    }

    /// Reads the options of the query.
    ///
    /// # Errors
    /// An error with every invalid option.
    pub fn query<O: DeserializeOwned + IntoParams + 'static>(&self) -> Result<O, ApiError> {
        read_query(self.uri.query().unwrap_or_default())
    }

    /// Returns the entry of an event in the audit trail, for a call of the store that writes it together with the change.
    pub fn audit_entry(&self, event: AuditEvent) -> Option<NewAuditEntry> {
        self.state.audit.entry(&self.context, event)
    }

    /// Records an event in the audit trail.
    ///
    /// # Errors
    /// Returns an error if the audit trail cannot be written.
    pub async fn record(&self, event: AuditEvent) -> Result<(), ApiError> {
        Ok(self.state.audit.record(&self.context, event).await?)
    }

    /// Answers with a body of a few kilobytes: see `Negotiated::small`.
    ///
    /// # Errors
    /// As for `Negotiated::small`.
    pub fn small<T: Serialize>(&self, body: &T) -> Result<Negotiated<T>, ApiError> {
        Negotiated::small(self.accepted, body)
    }

    /// Answers with a large body: see `Negotiated::large`.
    ///
    /// # Errors
    /// As for `Negotiated::large`.
    pub async fn large<T>(&self, body: T) -> Result<Negotiated<T>, ApiError>
    where
        T: Serialize + Send + 'static,
    {
        Negotiated::large(&self.context, self.accepted, body).await
    }
}

impl FromRequestParts<AppState> for ApiRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        Ok(Self {
            state: AppState::clone(state),
            context: context::from_extensions(&parts.extensions)?,
            accepted: Accepted::structured(&parts.headers),
            uri: parts.uri.clone(),
        })
    }
}

/// Reads an id of a path. A malformed one cannot belong to anything stored, so its response is also 404.
pub(super) fn id(text: &str) -> Result<Uuid, ApiError> {
    let id = text.parse();
    id.map_err(|_| ApiError::NotFound(format!("`{text}` is not an id; ids are UUIDs")))
}
