//! A request for a stored image or face, by the id in its path.

use std::fmt::Display;

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use facescan_audit::AuditEvent;
use facescan_pipeline::{admission::priority_semaphore::DecodePermit, context::RequestContext};
use uuid::Uuid;

use crate::http::{AppState, error::ApiError, middleware::context::Context, respond::Accepted};

/// A request for a stored image or face.
pub struct StoredRequest {
    /// The application.
    pub state: AppState,
    /// The context of the request.
    pub context: RequestContext,
    /// The id in the path.
    pub id: Uuid,
    accepted: Accepted,
}

impl StoredRequest {
    /// Returns the tenant that owns the rows.
    pub fn tenant(&self) -> &str {
        &self.context.principal.tenant
    }

    /// Records what the request does with what its path names.
    ///
    /// # Errors
    /// Returns an error if the audit trail cannot be written.
    pub async fn record(&self, event: AuditEvent) -> Result<(), ApiError> {
        Ok(self.state.audit.record(&self.context, event).await?)
    }

    /// Waits until stored results of the tenant may be loaded and written. Drop the permit afterwards.
    pub async fn large_answer(&self) -> DecodePermit {
        let tenant = &self.context.principal.tenant;
        self.state.admission.large_answer(tenant).await
    }

    /// Returns the format that the caller accepts.
    pub fn accepted(&self) -> Accepted {
        self.accepted
    }
}

/// Returns the error of a stored image or face that does not exist.
pub(in crate::http) fn not_found(kind: &str, id: impl Display) -> ApiError {
    ApiError::NotFound(format!("there is no {kind} {id}, or it was erased"))
}

impl FromRequestParts<AppState> for StoredRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let Context(context) = Context::from_request_parts(parts, state).await?;
        // A malformed id cannot belong to anything stored, so the answer is also 404.
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| {
                ApiError::NotFound("the id in the path is not valid text; ids are UUIDs".to_owned())
            })?;
        let id = text
            .parse()
            .map_err(|_| ApiError::NotFound(format!("`{text}` is not an id; ids are UUIDs")))?;
        Ok(Self {
            state: AppState::clone(state),
            context,
            id,
            accepted: Accepted::structured(&parts.headers),
        })
    }
}
