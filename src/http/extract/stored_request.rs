//! A request for a stored image or face, by the id in its path.

use std::{fmt::Display, ops::Deref};

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use facescan_pipeline::admission::priority_semaphore::DecodePermit;
use uuid::Uuid;

use super::api_request::{ApiRequest, id};
use crate::http::{AppState, error::ApiError};

/// A request for a stored image or face.
pub struct StoredRequest {
    request: ApiRequest,
    /// The id in the path.
    pub id: Uuid,
}

impl Deref for StoredRequest {
    type Target = ApiRequest;

    fn deref(&self) -> &ApiRequest {
        &self.request
    }
}

impl StoredRequest {
    /// Waits until stored results of the tenant may be loaded and written. Drop the permit afterwards.
    pub async fn large_response(&self) -> DecodePermit {
        let tenant = &self.context.principal.tenant;
        self.state.admission.large_response(tenant).await
    }
}

/// Returns the error of a stored image or face that does not exist.
pub(in crate::http) fn not_found(kind: &str, id: impl Display) -> ApiError {
    ApiError::NotFound(format!("there is no {kind} {id}, or it was erased"))
}

impl FromRequestParts<AppState> for StoredRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let request = ApiRequest::from_request_parts(parts, state).await?;
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|_| {
            ApiError::NotFound("the id in the path is not valid text; ids are UUIDs".to_owned())
        })?;
        let id = id(&text)?;
        Ok(Self { request, id })
    }
}
