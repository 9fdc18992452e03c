//! A picture that is the whole answer, for callers that accept it and no tree.

use axum::{
    http::{
        HeaderName, HeaderValue,
        header::{CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::Serialize;

use crate::{http::error::ApiError, http::respond::Accepted};

const STEPS: HeaderName = HeaderName::from_static("x-facescan-steps");

/// Whether the answer to `images` pictures is to be the picture itself.
///
/// # Errors
/// [`ApiError::InvalidBody`] where there are several.
pub fn is_asked_for(accepted: Accepted, images: usize) -> Result<bool, ApiError> {
    let is_asked_for = matches!(accepted, Accepted::Picture(_) | Accepted::Npy);
    if is_asked_for && images > 1 {
        return Err(ApiError::InvalidBody(
            "with `Accept: image/*` one picture at a time; ask for application/json to send several".to_owned(),
        ));
    }
    Ok(is_asked_for)
}

/// The picture, with what was done to it in a header.
pub fn picture(media_type: &'static str, steps: &impl Serialize, data: Bytes) -> Response {
    let steps = serde_json::to_string(steps).unwrap_or_default();
    let headers = [
        (VARY, HeaderValue::from_static("accept")),
        (CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (
            STEPS,
            HeaderValue::from_str(&steps).unwrap_or(HeaderValue::from_static("")),
        ),
    ];
    (headers, data).into_response()
}
