//! Turns a panic in a handler into a response with status 500, so that the connection stays open.

use std::any::Any;

use axum::response::{IntoResponse, Response};

use crate::http::error::ApiError;

/// Turns a caught panic into an internal error.
pub fn response(payload: Box<dyn Any + Send + 'static>) -> Response {
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    ApiError::Internal(format!("a handler panicked: {message}")).into_response()
}
