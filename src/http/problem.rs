//! Errors as `application/problem+json` (RFC 9457).
//!
//! A handler's error is in the extensions of the response. Only the middleware `problem_body` writes the body, adds the
//! request id, and logs 5xx errors.

use std::sync::Arc;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use facescan_fields::FieldError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::error::ApiError;

/// The body of an error response.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`. The code names the kind of error.
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    pub kind: &'static str,
    /// A short description of the kind of error.
    #[schema(example = "invalid option")]
    pub title: &'static str,
    /// The HTTP status.
    #[schema(example = 422)]
    pub status: u16,
    /// What is wrong and what to do.
    pub detail: String,
    /// The stable code.
    #[schema(example = "invalid_option")]
    pub code: &'static str,
    /// The id of the request, as in the log.
    pub request_id: String,
    /// What is wrong with each field, option or part of a form, if the error is about them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<FieldError>,
}

/// The error of a handler, in the extensions of its response.
#[derive(Clone)]
pub(super) struct CarriedError(pub(super) Arc<ApiError>);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.kind().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response
            .extensions_mut()
            .insert(CarriedError(Arc::new(self)));
        response
    }
}
