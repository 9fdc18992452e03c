//! A request for a stored image or face, by the id in its path.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path},
    http::{StatusCode, request::Parts},
    response::Response,
};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    context::RequestContext,
    http::{
        AppState,
        error::ApiError,
        respond::{Accepted, respond},
    },
};

/// A request for a stored image or face.
pub struct StoredRequest {
    /// The application.
    pub state: AppState,
    /// The tenant that owns the rows.
    pub tenant: Arc<str>,
    /// The id in the path.
    pub id: Uuid,
    accepted: Accepted,
}

impl StoredRequest {
    /// Returns the format that the caller accepts.
    pub fn accepted(&self) -> Accepted {
        self.accepted
    }

    /// Answers a read of `kind`, such as `image`.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] if `stored` is `None`.
    pub async fn respond<A: Serialize + Send + 'static>(
        &self,
        kind: &str,
        stored: Option<impl Into<A>>,
    ) -> Result<Response, ApiError> {
        let stored = stored.ok_or_else(|| not_found(kind, self.id))?;
        let answer: A = stored.into();
        respond(self.accepted, &self.state.pipeline.pool, answer).await
    }

    /// Answers an erasure of `kind`.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] if nothing was erased.
    pub fn erasure_status(&self, kind: &str, is_erased: bool) -> Result<StatusCode, ApiError> {
        if is_erased {
            Ok(StatusCode::NO_CONTENT)
        } else {
            Err(not_found(kind, self.id))
        }
    }
}

/// Returns the error of a stored image or face that does not exist.
pub(in crate::http) fn not_found(kind: &str, id: Uuid) -> ApiError {
    ApiError::NotFound(format!("there is no {kind} {id}, or it was erased"))
}

impl FromRequestParts<AppState> for StoredRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let context = RequestContext::from_request_parts(parts, state).await?;
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
            tenant: context.principal.tenant,
            id,
            accepted: Accepted::structured(&parts.headers),
        })
    }
}
