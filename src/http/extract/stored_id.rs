//! The id in a path.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use uuid::Uuid;

use crate::{http::AppState, http::error::ApiError};

/// The id that a path names. What is no id names nothing that is stored, and so is not found.
pub struct StoredId(pub Uuid);

impl FromRequestParts<AppState> for StoredId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| {
                ApiError::NotFound("the path's id is no text; ids are UUIDs".to_owned())
            })?;
        text.parse()
            .map(Self)
            .map_err(|_| ApiError::NotFound(format!("`{text}` is not an id; ids are UUIDs")))
    }
}
