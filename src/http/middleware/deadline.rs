//! Limits the time of a request.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, Method},
    middleware::Next,
    response::{IntoResponse, Response},
};
use facescan_pipeline::context::RequestContext;

use super::arrival::Arrival;
use crate::http::{AppState, error::ApiError};

/// The header with which a client sets an earlier deadline, in milliseconds.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-timeout-ms");

/// Drops the handler at the deadline. Queued work of the request is then skipped.
pub async fn enforce(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let limit_ms = match requested_limit_ms(request.headers()) {
        Ok(requested) => {
            let limit = state.config.server.request_timeout_ms;
            requested.map_or(limit, |requested| requested.min(limit))
        }
        Err(error) => return error.into_response(),
    };
    let limit = Duration::from_millis(limit_ms);
    let arrival = request.extensions().get::<Arc<Arrival>>();
    let arrival = arrival.cloned().unwrap_or_default();
    if is_submission(&request) {
        return while_arriving(next.run(request), limit_ms, &arrival).await;
    }
    if let Some(context) = request.extensions_mut().get_mut::<RequestContext>() {
        context.deadline = Some(state.pipeline.clock.monotonic() + limit);
    }
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => late(&arrival, limit_ms).into_response(),
    }
}

/// Returns whether a request submits items of batches. Its body can be of any length, so its time has no limit.
fn is_submission(request: &Request) -> bool {
    let path = request.extensions().get::<MatchedPath>();
    request.method() == Method::POST
        && path.is_some_and(|path| ["/batches", "/batches/{id}/items"].contains(&path.as_str()))
}

/// Runs a handler as long as data of its body arrives. `limit_ms` limits the time without data.
async fn while_arriving(
    response: impl Future<Output = Response>,
    limit_ms: u64,
    arrival: &Arrival,
) -> Response {
    let mut response = std::pin::pin!(response);
    let mut seen = 0;
    loop {
        let limit = Duration::from_millis(limit_ms);
        if let Ok(response) = tokio::time::timeout(limit, &mut response).await {
            return response;
        }
        let arrived = arrival.frames();
        if arrived == seen {
            return late(arrival, limit_ms).into_response();
        }
        seen = arrived;
    }
}

/// Returns the limit that the client asks for.
///
/// # Errors
/// [`ApiError::Pipeline`] if the header is not a whole number from 1.
pub(in crate::http) fn requested_limit_ms(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(None);
    };
    let milliseconds = value.to_str().ok().and_then(|text| text.parse().ok());
    match milliseconds {
        Some(1..) => Ok(milliseconds),
        Some(0) | None => Err(ApiError::invalid_option(
            HEADER.as_str(),
            "must be a whole number of milliseconds, at least 1",
        )),
    }
}

/// Returns the error of a request that took too long.
fn late(arrival: &Arrival, limit_ms: u64) -> ApiError {
    // If the client did not send all of its body, the delay is not caused by the server.
    match arrival.is_awaited() {
        true => ApiError::RequestTimeout { limit_ms },
        false => ApiError::DeadlineExceeded { limit_ms },
    }
}
