//! Reads whole bodies, and parses them where they hold nobody up.

use std::sync::{Arc, PoisonError};

use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use facescan_inference::pool::Stage;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;

use super::{
    admitted::stated_length,
    arriving::{SharedReservation, incomplete},
    body::{from_msgpack, malformed},
    texts,
};
use crate::{
    context::RequestContext,
    http::{AppState, error::ApiError},
    pipeline::core::error::excerpt,
};

/// Larger bodies are parsed on threads of their own, because they would hold a thread of the CPU pool for too long.
const LARGE_BODY: usize = 4 << 20;

/// Reads a body of at most `limit` bytes. Copies each part at once, because it is still in the CPU's caches. Does not copy a
/// body that arrives in one part.
///
/// # Errors
/// [`ApiError::BodyTooLarge`] if the body is too large, [`ApiError::Overloaded`] if the byte budget is used up meanwhile, or the
/// error of a body that does not arrive as a whole.
pub(super) async fn body(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let stated = stated_length(request.headers()).unwrap_or(0).min(limit);
    let mut body = Limited::new(request.into_body(), limit);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
            true => ApiError::BodyTooLarge { limit },
            false => incomplete(error.as_ref()),
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

/// Runs `job`, which reads `bytes` bytes of a tenant, on the CPU pool, or on another thread if it takes long.
///
/// # Errors
/// The error of `job`, or [`ApiError::Internal`] if it panics.
pub(super) async fn parse<T, F>(
    state: &AppState,
    tenant: Arc<str>,
    bytes: usize,
    job: F,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, ApiError> + Send + 'static,
{
    if bytes <= LARGE_BODY {
        let pool = &state.pipeline.pool;
        return pool.run_for(Some(tenant), Stage::Begin, job).await?;
    }
    let turn = state.admission.large_body(&tenant).await;
    let parsed = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        job()
    });
    parsed
        .await
        .map_err(|error| ApiError::Internal(error.to_string()))?
}

/// A JSON or msgpack body.
pub(super) trait StructuredBody: DeserializeOwned + Send + 'static {
    /// Returns the error of a body that is not of this type. `limit` is the number of images that a request may have.
    fn malformed(detail: String, limit: usize) -> ApiError {
        malformed(detail, limit)
    }
}

/// Reads a JSON or msgpack body, parses it, and converts it with `read`.
///
/// # Errors
/// The errors of [`body`] and of `read`, or the error of a body that is not a `B`.
pub(super) async fn structured<B: StructuredBody, T: Send + 'static>(
    request: Request,
    state: &AppState,
    reservation: &SharedReservation,
    is_json: bool,
    read: fn(B) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let server = &state.config.server;
    let limit = server.max_images_per_request;
    let tenant = RequestContext::of(&request)?.principal.tenant;
    let body = body(request, server.max_body_bytes).await?;
    reserve_parsed(reservation, body.len())?;
    let length = body.len();
    let parse_body = move || {
        let prepared = match is_json {
            true => texts::prepared_json(body),
            false => texts::check_msgpack(&body).map(|()| body),
        };
        let body = prepared.map_err(|error| ApiError::invalid_body(excerpt(&error)))?;
        let parsed = match is_json {
            true => serde_json::from_slice::<B>(&body).map_err(|error| excerpt(&error)),
            false => from_msgpack::<B>(&body).map_err(|error| excerpt(&error)),
        };
        drop(body);
        read(parsed.map_err(|detail| B::malformed(detail, limit))?)
    };
    parse(state, tenant, length, parse_body).await
}

/// Reserves as much again as a body of `bytes` bytes, for what is built from it.
///
/// # Errors
/// [`ApiError::Overloaded`] if the byte budget is used up.
fn reserve_parsed(reservation: &SharedReservation, bytes: usize) -> Result<(), ApiError> {
    let mut reservation = reservation.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(reservation.grow_to(bytes.saturating_mul(2))?)
}
