//! Responses that are one image, for callers that accept only an image.

use axum::{
    http::{
        HeaderName, HeaderValue,
        header::{CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::Serialize;

use crate::{
    http::error::ApiError,
    http::respond::{Accepted, header_value},
};

/// The steps that were applied to the image.
pub const STEPS: HeaderName = HeaderName::from_static("x-facescan-steps");

/// Returns whether the caller wants the image itself as the response.
///
/// # Errors
/// An error of the field `images` if the request has several.
pub fn is_requested(accepted: Accepted, images: usize) -> Result<bool, ApiError> {
    let is_requested = matches!(accepted, Accepted::Image(_) | Accepted::Npy);
    if is_requested && images > 1 {
        return Err(ApiError::invalid_field(
            "images",
            "must be one image if you accept only an image; accept application/json to send several",
        ));
    }
    Ok(is_requested)
}

/// Returns the image as the response, with the steps in a header.
///
/// # Errors
/// [`ApiError::Internal`] if the steps cannot be a header.
pub fn response(
    media_type: &'static str,
    steps: &impl Serialize,
    data: Bytes,
) -> Result<Response, ApiError> {
    let steps =
        serde_json::to_string(steps).map_err(|error| ApiError::Internal(error.to_string()))?;
    let headers = [
        (VARY, HeaderValue::from_static("accept")),
        (CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (STEPS, header_value(&steps)?),
    ];
    Ok((headers, data).into_response())
}
