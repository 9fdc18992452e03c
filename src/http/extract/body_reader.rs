//! Reads whole bodies.

use std::error::Error as _;

use axum::{RequestExt, extract::Request};
use bytes::{Bytes, BytesMut};
use facescan_inference::pool::Stage;
use http_body_util::{BodyExt, LengthLimitError};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;

use super::{admitted::stated_length, arriving::incomplete, body::from_msgpack};
use crate::{http::AppState, http::error::ApiError};

/// Reads the body of an admitted request. Copies each part at once, because it is still in the CPU's caches. Does not
/// copy a body that arrives in one part.
///
/// # Errors
/// [`ApiError::BodyTooLarge`] if the body is too large, [`ApiError::Overloaded`] if the byte budget is used up meanwhile, or [`ApiError::InvalidBody`] if the connection closes early.
pub(super) async fn body(request: Request, state: &AppState) -> Result<Bytes, ApiError> {
    let limit = state.config.server.max_body_bytes;
    let stated = stated_length(request.headers()).unwrap_or(0).min(limit);
    let mut body = request.into_limited_body();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if is_of_length(&error) {
                ApiError::BodyTooLarge { limit }
            } else {
                incomplete(&error)
            }
        })?;
        // Trailers are not part of the body.
        let Ok(part) = frame.into_data() else {
            continue;
        };
        if whole.is_empty() {
            if body.is_end_stream() {
                return Ok(part);
            }
            whole.reserve(stated.max(part.len()));
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// Parses a JSON or msgpack body and converts it with `read`, on the CPU pool because of its base64.
///
/// # Errors
/// The errors of [`body`] and of `read`, or [`ApiError::InvalidBody`] if the body is not a `B`.
pub(super) async fn structured<B: DeserializeOwned + 'static, T: Send + 'static>(
    request: Request,
    state: &AppState,
    is_json: bool,
    read: fn(B) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let body = body(request, state).await?;
    let parse = move || {
        let parsed = if is_json {
            serde_json::from_slice::<B>(&body).map_err(|error| error.to_string())
        } else {
            from_msgpack::<B>(&body).map_err(|error| error.to_string())
        };
        read(parsed.map_err(ApiError::invalid_body)?)
    };
    state.pipeline.pool.run(Stage::Begin, parse).await?
}

fn is_of_length(error: &axum::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}
